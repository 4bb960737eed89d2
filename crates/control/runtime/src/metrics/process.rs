//! The process as the operating system sees it, under the names that every Prometheus client gives it. Read anew at each
//! scrape, from `/proc`; elsewhere than on Linux there is nothing to show.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// See the module.
#[derive(Debug)]
pub(super) struct Process;

/// What was read.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    cpu_seconds: f64,
    started: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Seen {
    /// From the line of `/proc/self/stat`; `booted` is when the machine was started, in seconds since 1970.
    fn read(stat: &str, booted: f64, (ticks, page): (f64, u64)) -> Option<Self> {
        // The name of the program is in parentheses, and may hold any of them.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<u64> = rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        // What is left begins with the fourth field of the line.
        let field = |number: usize| fields.get(number - 4).copied();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
            started: booted + field(22)? as f64 / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page,
        })
    }

    fn now() -> Option<Self> {
        let units = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as u64);
        let machine = fs::read_to_string("/proc/stat").ok()?;
        let booted = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Self::read(&fs::read_to_string("/proc/self/stat").ok()?, booted, units)
    }
}

/// Files that are open, and how many may be.
fn files() -> Option<(u64, u64)> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let most = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    // One is that of the directory itself.
    let open = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some((open as u64, most.parse().unwrap_or(u64::MAX)))
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(seen) = Seen::now() else { return Ok(()) };
        let cpu = ConstCounter::new(seen.cpu_seconds);
        let help = "Time of processors spent, in user and system mode";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        let mut gauges = vec![
            ("process_start_time_seconds", "When it was started, in seconds since 1970", seen.started),
            ("process_virtual_memory_bytes", "Memory that it has addresses for", seen.virtual_bytes as f64),
            ("process_resident_memory_bytes", "Memory that it takes", seen.resident_bytes as f64),
        ];
        if let Some((open, most)) = files() {
            gauges.push(("process_open_fds", "Files that are open", open as f64));
            gauges.push(("process_max_fds", "Files that may be open", most as f64));
        }
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_nothing() {
        let stat = "42 (odd) 7 (name)) S 1 42 42 0 -1 4194560 900 0 3 0 250 50 0 0 20 0 9 0 1000 65536 10 184467";
        let seen = Seen::read(stat, 1e9, (100.0, 4096)).unwrap();
        let expected = Seen { cpu_seconds: 3.0, started: 1e9 + 10.0, virtual_bytes: 65536, resident_bytes: 40960 };
        assert_eq!(seen, expected);
        assert_eq!(Seen::read("42 (cut off) S 1", 0.0, (100.0, 4096)), None);
    }
}
