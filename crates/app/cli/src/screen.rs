//! What a person sees: one line per step, with the time since the start.

use std::io::Write;

use tokio::time::Instant;

/// Prints steps as they happen. Nothing else goes to standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    started: Instant,
}

impl Screen {
    /// Begins now. The kernel's start of the process would count what it was before: `cargo run` builds and then becomes
    /// the program.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    /// A step is done.
    pub(crate) fn step(&self, text: &str) {
        say(&format!("{:>6.3}s  {text}", self.started.elapsed().as_secs_f64()));
    }

    /// Something else worth saying.
    pub(crate) fn say(&self, text: &str) {
        say(text);
    }
}

/// Writes a line to standard output. That nobody reads it is no reason to stop serving.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
