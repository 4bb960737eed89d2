//! Providers and reconcilers: programs that are started, killed and started again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{ControlPlane, Exit, Process, Scratch, environment};

/// How long a program may take to start or to stop.
const SOON: Duration = Duration::from_secs(30);

/// A program with its arguments. All methods take `&self`, so that some threads can work while another one kills.
#[derive(Debug)]
pub struct Actor {
    name: String,
    binary: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
    /// What it writes when it answers, if it does.
    ready: Option<&'static str>,
    process: Mutex<Option<Process>>,
}

impl Actor {
    /// One of our binaries, not started yet; its logs go to `directory`.
    ///
    /// # Panics
    /// When the binary is not built.
    #[must_use]
    pub fn new(name: &str, binary: &str, directory: &Path) -> Self {
        Self {
            name: name.to_owned(),
            binary: environment::binary(binary),
            arguments: Vec::new(),
            directory: directory.to_owned(),
            ready: None,
            process: Mutex::new(None),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(OsString::from));
        self
    }

    /// A provider of `binary`, on the socket `NAME.sock` in `directory`. Not started yet.
    ///
    /// # Panics
    /// When the binary is not built.
    #[must_use]
    pub fn provider(name: &str, binary: &str, directory: &Path) -> Self {
        let mut actor = Self::new(name, binary, directory)
            .arguments(["serve", "--listen"])
            .argument(format!("unix:{}", directory.join(format!("{name}.sock")).display()));
        actor.ready = Some("ready ");
        actor
    }

    /// The file provider called `file`, below the returned directory. Started.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn file_provider(directory: &Path) -> (Self, PathBuf) {
        let root = directory.join("files");
        fs::create_dir_all(&root).unwrap_or_else(|error| panic!("cannot make {}: {error}", root.display()));
        let actor = Self::provider("file", "concert-provider-file", directory).argument("--root").argument(&root);
        actor.start();
        (actor, root)
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Panics
    /// When it runs already or does not start.
    #[track_caller]
    pub fn start(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "{} runs already", self.name);
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).stdin(Stdio::null()).env_remove("KUBECONFIG").env_remove("RUST_LOG");
        let started = Process::spawn(&self.name, command, &self.directory);
        if let Some(ready) = self.ready {
            started.wait_for_line(ready, SOON);
        }
        *process = Some(started);
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    #[track_caller]
    pub fn kill9(&self) {
        self.process().take().expect("it runs").kill9();
    }

    /// Asks it to stop (SIGTERM), and waits until it has.
    ///
    /// # Panics
    /// When it does not run, or does not stop in time.
    #[track_caller]
    pub fn stop(&self) -> Exit {
        let process = self.process().take().expect("it runs");
        process.terminate();
        process.wait(SOON)
    }

    /// How it ended, if it has ended by itself.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.process().as_ref().and_then(Process::exit)
    }

    /// What it has written to standard error since it was last started.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process().as_ref().map(Process::stderr).unwrap_or_default()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How to start a reconciler.
#[derive(Debug)]
pub struct Reconciler {
    name: String,
    binary: String,
    providers: Vec<Value>,
    arguments: Vec<String>,
    election: bool,
    metrics: String,
    probes: String,
}

impl Reconciler {
    /// `managed-reconciler`, with a poll interval of two seconds, without election and endpoints.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: "managed-reconciler".to_owned(),
            binary: "managed-reconciler".to_owned(),
            providers: Vec::new(),
            arguments: Vec::new(),
            election: false,
            metrics: "0".to_owned(),
            probes: "0".to_owned(),
        }
    }

    /// The name of its logs.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Another binary.
    #[must_use]
    pub fn binary(mut self, binary: &str) -> Self {
        binary.clone_into(&mut self.binary);
        self
    }

    /// A provider at the socket `NAME.sock` in the control plane's directory, where [`Actor::provider`] listens.
    #[must_use]
    pub fn provider(mut self, name: &str, server: &ControlPlane) -> Self {
        let socket = server.directory().join(format!("{name}.sock"));
        self.providers.push(json!({"name": name, "endpoint": format!("unix:{}", socket.display())}));
        self
    }

    /// A kind of the last provider, beside those that it announces itself.
    ///
    /// # Panics
    /// When there is no provider yet.
    #[must_use]
    pub fn resource_type(mut self, api_version: &str, kind: &str) -> Self {
        let provider = self.providers.last_mut().expect("a provider comes first");
        provider["resourceTypes"] = json!([{"apiVersion": api_version, "kind": kind}]);
        self
    }

    /// Only the leader works.
    #[must_use]
    pub fn with_election(mut self) -> Self {
        self.election = true;
        self
    }

    /// Where metrics are.
    #[must_use]
    pub fn metrics(mut self, address: &str) -> Self {
        address.clone_into(&mut self.metrics);
        self
    }

    /// Where probes are.
    #[must_use]
    pub fn probes(mut self, address: &str) -> Self {
        address.clone_into(&mut self.probes);
        self
    }

    /// Adds a flag.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Starts it on a control plane.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(self, server: &ControlPlane) -> Actor {
        let config = server.directory().join(format!("{}.json", self.name));
        let text = json!({"providers": self.providers}).to_string();
        fs::write(&config, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", config.display()));
        let mut actor = Actor::new(&self.name, &self.binary, server.directory())
            .argument("--config")
            .argument(config)
            .argument("--kubeconfig")
            .argument(server.kubeconfig())
            .argument(format!("--leader-election={}", self.election))
            .argument(format!("--metrics-bind-address={}", self.metrics))
            .argument(format!("--health-probe-bind-address={}", self.probes))
            .argument("--poll-interval=2s");
        actor.arguments.extend(self.arguments.into_iter().map(OsString::from));
        actor.start();
        actor
    }
}

impl Default for Reconciler {
    fn default() -> Self {
        Self::new()
    }
}

/// The definitions of a provider's kinds, as it prints them.
///
/// # Panics
/// When it does not.
#[must_use]
#[track_caller]
pub fn definitions(provider: &str) -> String {
    let scratch = Scratch::new("definitions");
    let mut command = Command::new(environment::binary(provider));
    command.arg("crds").stdin(Stdio::null());
    let process = Process::spawn("crds", command, scratch.path());
    process.assert_exit(Exit::Code(0), SOON);
    process.stdout()
}
