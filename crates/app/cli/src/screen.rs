//! What a person sees: one line per step, with the time since the start.

use std::time::Duration;

use tokio::time::Instant;

/// Prints steps as they happen. Nothing else goes to standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    started: Instant,
}

impl Screen {
    /// Begins now; processes start a little earlier, which the operating system knows.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() - since_process_start() }
    }

    /// A step is done.
    pub(crate) fn step(&self, text: &str) {
        println!("{:>6.3}s  {text}", self.started.elapsed().as_secs_f64());
    }

    /// Something else worth saying.
    pub(crate) fn say(&self, text: &str) {
        println!("{text}");
    }
}

/// How long this process has been running, as far as the kernel tells.
fn since_process_start() -> Duration {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let measure = || {
        let uptime: f64 = read("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
        let stat = read("/proc/self/stat")?;
        // The command name, in parentheses, may hold anything; the start time is the 20th field behind it.
        let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        Duration::try_from_secs_f64(uptime - ticks / hertz).ok()
    };
    measure().unwrap_or_default()
}
