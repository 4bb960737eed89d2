//! kubectl, unmodified.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Process, Scratch, environment};

/// How long one call may take, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// kubectl, bound to one kubeconfig, with a home of its own: what it caches about a server at some port must not
/// meet the next server at that port.
#[derive(Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: Scratch,
    calls: AtomicU64,
    patience: Duration,
}

/// What a call gave.
#[derive(Clone, Debug)]
pub struct Output {
    /// The arguments, for messages.
    pub command: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code; nothing if a signal ended it.
    pub code: Option<i32>,
}

impl Output {
    /// Standard output of a call that succeeded.
    ///
    /// # Panics
    /// When it failed; the message has all that it said.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == Some(0), "`{}` failed ({:?})\n{}{}", self.command, self.code, self.stdout, self.stderr);
        self.stdout
    }

    /// Standard output of a call that succeeded, or all that it said: for [`eventually`](crate::eventually).
    ///
    /// # Errors
    /// When it failed.
    pub fn result(self) -> Result<String, String> {
        match self.code {
            Some(0) => Ok(self.stdout),
            _ => Err(format!("`{}` failed ({:?}): {}{}", self.command, self.code, self.stdout, self.stderr)),
        }
    }
}

impl Kubectl {
    /// kubectl for the cluster of `kubeconfig`.
    ///
    /// # Panics
    /// When there is no kubectl; tests declared with [`on_both_servers`](crate::on_both_servers) do not get here then.
    #[must_use]
    pub fn new(kubeconfig: &Path) -> Self {
        let binary = environment::kubectl().unwrap_or_else(|missing| panic!("{missing}"));
        let kubeconfig = kubeconfig.to_owned();
        Self { binary, kubeconfig, home: Scratch::new("kubectl"), calls: AtomicU64::new(0), patience: PATIENCE }
    }

    /// The same with another limit for each call.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs it to its end, whatever that is.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.finish(arguments, Stdio::null())
    }

    /// Runs it, and gives back standard output.
    ///
    /// # Panics
    /// When it fails or does not end in time.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    /// `kubectl apply -f -` of `manifest`.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn apply_stdin(&self, manifest: &str) -> Output {
        self.run_stdin(&["apply", "-f", "-"], manifest)
    }

    /// Runs it with `input` as standard input.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn run_stdin(&self, arguments: &[&str], input: &str) -> Output {
        let path = self.home.path().join(format!("input-{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        let file = fs::write(&path, input).and_then(|()| File::open(&path));
        let file = file.unwrap_or_else(|error| panic!("cannot keep kubectl's input in {}: {error}", path.display()));
        self.finish(arguments, file.into())
    }

    /// Starts it and lets it run: `get --watch`, `proxy`.
    #[must_use]
    #[track_caller]
    pub fn spawn(&self, arguments: &[&str]) -> Process {
        self.start(arguments, Stdio::null())
    }

    #[track_caller]
    fn finish(&self, arguments: &[&str], stdin: Stdio) -> Output {
        let process = self.start(arguments, stdin);
        let code = match process.wait(self.patience) {
            crate::Exit::Code(code) => Some(code),
            crate::Exit::Signal(_) => None,
        };
        let command = format!("kubectl {}", arguments.join(" "));
        Output { command, stdout: process.stdout(), stderr: process.stderr(), code }
    }

    #[track_caller]
    fn start(&self, arguments: &[&str], stdin: Stdio) -> Process {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("KUBECACHEDIR", self.home.path().join("cache"))
            .stdin(stdin);
        let name = format!("kubectl-{}", self.calls.fetch_add(1, Ordering::Relaxed));
        Process::spawn(&name, command, self.home.path())
    }
}
