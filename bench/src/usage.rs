//! What a process has used, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// What a process has used since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time, in user and in kernel mode.
    pub cpu: Duration,
    /// The most memory it ever had (VmHWM), in bytes.
    pub peak: u64,
    /// The memory that it has now (VmRSS), in bytes.
    pub memory: u64,
}

impl Usage {
    /// Of the process `pid`.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}: the process has ended"))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        // The name of the program is in brackets and may have spaces.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        let millis = (ticks(11) + ticks(12)) * 1000 / rustix::param::clock_ticks_per_second().max(1);
        let size = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let kib = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
            kib.unwrap_or_default() * 1024
        };
        Ok(Self { cpu: Duration::from_millis(millis), peak: size("VmHWM:"), memory: size("VmRSS:") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.peak >= usage.memory && usage.memory > 0);
        assert!(Usage::of(u32::MAX).is_err());
    }
}
