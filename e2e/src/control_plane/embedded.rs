//! `concert serve`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::Process;

/// How long it may take to answer. It needs milliseconds; a busy machine may need more.
const START: Duration = Duration::from_secs(30);

/// How to start `concert serve`.
#[derive(Debug)]
pub struct Embedded {
    binary: PathBuf,
    arguments: Vec<OsString>,
    /// Where it answered the first time, so that it answers there again.
    address: OnceLock<String>,
}

impl Embedded {
    /// `binary serve`, durable, on a port that the system picks.
    #[must_use]
    pub fn new(binary: PathBuf) -> Self {
        Self { binary, arguments: Vec::new(), address: OnceLock::new() }
    }

    /// Adds a flag.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    #[track_caller]
    pub(super) fn start(&self, directory: &Path, kubeconfig: &Path) -> Process {
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", self.address.get().map_or("127.0.0.1:0", String::as_str)])
            .arg("--data-dir")
            .arg(directory.join("data"))
            .arg("--write-kubeconfig")
            .arg(kubeconfig)
            .args(&self.arguments)
            .stdin(Stdio::null());
        let process = Process::spawn("concert-serve", command, directory);
        let line = process.wait_for_line("ready https://", START);
        let address = line["ready https://".len()..].split([' ', '/']).next().unwrap_or_default();
        self.address.get_or_init(|| address.to_owned());
        process
    }
}
