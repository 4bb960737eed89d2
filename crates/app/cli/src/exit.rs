//! How a program ends.

use std::fmt;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

/// A failure and the exit code that goes with it.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into() }
    }

    /// 1: it failed while running.
    pub(crate) fn running(error: impl Into<anyhow::Error>) -> Self {
        Self::new(1, error)
    }

    /// 2: wrong usage or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(2, error)
    }

    /// 3: something it needs is in use or not usable.
    pub(crate) fn unusable(error: impl Into<anyhow::Error>) -> Self {
        Self::new(3, error)
    }

    /// 4: the store failed.
    pub(crate) fn store(error: impl Into<anyhow::Error>) -> Self {
        Self::new(4, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each cause once: some errors already name theirs.
        let mut shown = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !shown.contains(&cause) {
                shown = format!("{shown}: {cause}");
            }
        }
        f.write_str(&shown)
    }
}

/// How long tasks that were told to end may take to do so.
const LEFT_OVER: Duration = Duration::from_secs(1);

/// Runs a program to its end.
pub(crate) fn run(program: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(program);
    // What is still being worked at is nobody's any more: a request that takes long does not hold up the end.
    runtime.shutdown_timeout(LEFT_OVER);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
