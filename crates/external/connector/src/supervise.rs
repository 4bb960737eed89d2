//! Provider processes: started, kept running, and never left behind.
//!
//! A provider is started with the reading end of a pipe as its standard input. We hold the other end: however this
//! process ends, by SIGKILL too, the pipe closes, and `serve --exit-with-parent` ends the provider.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use concert_world::World;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Endpoint;

/// Variables that a provider inherits, and no others.
const INHERITED: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// How long to wait before a provider that ended is started again, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const JITTER: f64 = 0.1;

/// A provider that ran this many times as long as it was waited for is not in a crash loop.
const STEADY: u32 = 10;

/// How long the last output of a provider that has ended is waited for: what it started may still hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The path of a socket may have so many bytes (`sun_path`, with its end).
const SOCKET_PATH: usize = 107;

/// Longer lines of output are cut.
const LONGEST_LINE: u64 = 16 * 1024;

/// How to start a provider: `program args… serve --listen unix:SOCKET --exit-with-parent options…`.
#[derive(Clone, Debug)]
pub struct ProviderCommand {
    /// The provider's name, for logs.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// What comes before `serve`: `provider file` of a bundled one.
    pub args: Vec<OsString>,
    /// What comes after: `--root DIR`.
    pub options: Vec<OsString>,
    /// Its whole environment; see [`ProviderCommand::inherit`].
    pub env: BTreeMap<OsString, OsString>,
    /// The socket, alone in a private directory.
    pub socket: PathBuf,
    /// How long it may take to stop before it is killed.
    pub grace: Duration,
}

impl ProviderCommand {
    /// `program serve` on `socket`, with an empty environment and ten seconds of grace.
    #[must_use]
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, socket: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            options: Vec::new(),
            env: BTreeMap::new(),
            socket: socket.into(),
            grace: Duration::from_secs(10),
        }
    }

    /// Passes on what a provider may inherit (PATH, HOME and TMPDIR) of these variables, and nothing else.
    #[must_use]
    pub fn inherit(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.env.extend(variables.into_iter().filter(|(name, _)| INHERITED.iter().any(|inherited| name == inherited)));
        self
    }
}

/// A provider process that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError {
    /// The socket's directory is not usable.
    #[error("cannot use the socket directory {path:?}: {problem}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The program cannot be started.
    #[error("cannot start provider {name:?} ({program:?})")]
    Spawn {
        /// Whose.
        name: String,
        /// Which.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A provider that is started again whenever it ends.
#[derive(Debug)]
pub struct ProviderProcess {
    command: ProviderCommand,
    world: World,
    pid: watch::Sender<Option<u32>>,
}

impl ProviderProcess {
    /// A process that is not started yet.
    #[must_use]
    pub fn new(command: ProviderCommand, world: World) -> Self {
        Self { command, world, pid: watch::Sender::new(None) }
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::unix(&self.command.socket)
    }

    /// The id of the running process.
    #[must_use]
    pub fn pid(&self) -> watch::Receiver<Option<u32>> {
        self.pid.subscribe()
    }

    /// Keeps the provider running until `cancel`, then stops it: SIGTERM, and SIGKILL after the grace.
    ///
    /// # Errors
    /// If the socket's directory is not private, or the program cannot be started at all. A provider that ends is
    /// started again.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), SuperviseError> {
        private_directory(&self.command.socket)?;
        let mut wait = FIRST_WAIT;
        let mut started = false;
        while !cancel.is_cancelled() {
            let since = Instant::now();
            match self.spawn() {
                Ok(child) => {
                    started = true;
                    self.attend(child, &cancel).await;
                }
                Err(source) if !started => return Err(self.cannot_start(source)),
                Err(error) => tracing::error!(provider = %self.command.name, %error, "provider cannot be started"),
            }
            if since.elapsed() >= wait * STEADY {
                wait = FIRST_WAIT;
            }
            let pause = tokio::time::sleep(self.world.random.jitter(wait, JITTER));
            cancel.run_until_cancelled(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        let _ = fs::remove_file(&self.command.socket);
        Ok(())
    }

    fn cannot_start(&self, source: io::Error) -> SuperviseError {
        SuperviseError::Spawn { name: self.command.name.clone(), program: self.command.program.clone(), source }
    }

    fn spawn(&self) -> io::Result<Child> {
        let mut listen = OsString::from("unix:");
        listen.push(&self.command.socket);
        Command::new(&self.command.program)
            .args(&self.command.args)
            .args(["serve", "--exit-with-parent", "--listen"])
            .arg(listen)
            .args(&self.command.options)
            .env_clear()
            .envs(&self.command.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Stays with a process until it ends or must.
    async fn attend(&self, mut child: Child, cancel: &CancellationToken) {
        // Waiting would close it; it must stay open for as long as we live.
        let _lifeline = child.stdin.take();
        let last = Arc::new(Mutex::new(String::new()));
        let mut output = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            output.spawn(forward(self.command.name.clone(), stdout, Arc::default()));
        }
        if let Some(stderr) = child.stderr.take() {
            output.spawn(forward(self.command.name.clone(), stderr, Arc::clone(&last)));
        }
        self.pid.send_replace(child.id());
        tracing::info!(provider = %self.command.name, pid = child.id(), "provider started");
        match cancel.run_until_cancelled(child.wait()).await {
            Some(status) => {
                let _ = tokio::time::timeout(LAST_WORDS, async { while output.join_next().await.is_some() {} }).await;
                self.report(status, &last.lock().unwrap_or_else(PoisonError::into_inner));
            }
            None => self.stop(&mut child).await,
        }
        self.pid.send_replace(None);
    }

    fn report(&self, status: io::Result<ExitStatus>, said: &str) {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        tracing::warn!(provider = %self.command.name, status, said, "provider ended, starting it again");
    }

    async fn stop(&self, child: &mut Child) {
        signal_group(child, Signal::TERM);
        if tokio::time::timeout(self.command.grace, child.wait()).await.is_err() {
            tracing::warn!(provider = %self.command.name, "provider did not stop in time, killing it");
            signal_group(child, Signal::KILL);
            let _ = child.wait().await;
        }
    }
}

/// Signals the process and all that it started. Once it was waited for, its number is not ours to signal any more.
fn signal_group(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, signal);
    }
}

/// Makes the socket's directory, or refuses one that others can look into.
fn private_directory(socket: &Path) -> Result<(), SuperviseError> {
    let path = socket.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unusable = |problem: String| SuperviseError::Directory { path: path.to_owned(), problem };
    let length = socket.as_os_str().len();
    if length > SOCKET_PATH {
        return Err(unusable(format!(
            "the path of its socket has {length} bytes, and at most {SOCKET_PATH} are possible; use a shorter one"
        )));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| unusable(error.to_string()))?;
    let mode = fs::metadata(path).map_err(|error| unusable(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(unusable(format!("others can reach it (mode {:04o}); use a directory of mode 0700", mode & 0o777)));
    }
    Ok(())
}

/// Passes on a provider's output, line by line, to our log, and keeps the last one.
async fn forward(provider: String, stream: impl AsyncRead + Unpin, last: Arc<Mutex<String>>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                tracing::info!(provider, "{}", text.trim_end());
                text.trim_end().clone_into(&mut last.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}
