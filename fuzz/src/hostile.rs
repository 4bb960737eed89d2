//! Bodies as large as they may be, made to cost as much as they can: what they cost must grow as they do.
//!
//! Each case runs in a process of its own (`concert-fuzz hostile CASE`), which then knows what it took.

mod applied;
mod json;
mod patches;
mod protobuf;
mod yaml;

use std::fs;

/// A body, or several of them, of about as many bytes as it is told.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// As on the command line.
    pub name: &'static str,
    /// Makes it and has it answered; panics if something is not as it must be.
    pub run: fn(usize),
}

/// What a case took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes of memory beyond what the process had before, at the most.
    pub memory: u64,
    /// Thousandths of a second of all processors.
    pub time: u64,
}

/// Cases of one sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Configurations, books and selectors.
    Applied,
    /// Objects in JSON.
    Json,
    /// Patches.
    Patches,
    /// Objects in protobuf.
    Protobuf,
    /// Objects in YAML.
    Yaml,
}

impl Group {
    /// All sorts.
    pub const ALL: [Self; 5] = [Self::Applied, Self::Json, Self::Patches, Self::Protobuf, Self::Yaml];

    /// Its cases.
    #[must_use]
    pub fn cases(self) -> &'static [Case] {
        match self {
            Self::Applied => applied::CASES,
            Self::Json => json::CASES,
            Self::Patches => patches::CASES,
            Self::Protobuf => protobuf::CASES,
            Self::Yaml => yaml::CASES,
        }
    }
}

/// All cases.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    Group::ALL.into_iter().flat_map(Group::cases)
}

impl Case {
    /// Runs the case. What it takes is that of the process, which should do nothing else.
    #[must_use]
    pub fn cost(&self, bytes: usize) -> Cost {
        // What is made once is not the case's.
        (self.run)(64);
        // Forgets what the most was so far.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let (memory, time) = (memory(), time());
        (self.run)(bytes);
        Cost { memory: self::memory().saturating_sub(memory), time: self::time().saturating_sub(time) }
    }
}

/// The most memory that the process had.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
    1024 * kilobytes.unwrap_or(0_u64)
}

/// The time that processors spent on the process. Linux counts it in hundredths of a second.
fn time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    10 * ticks
}

/// Parts of a body, with commas, until there are so many bytes.
fn filled(bytes: usize, part: impl Fn(usize) -> String) -> String {
    some(usize::MAX, bytes, part)
}

/// The same, but no more than some.
fn some(most: usize, bytes: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 64);
    for index in 0..most {
        if text.len() >= bytes {
            break;
        }
        if index > 0 {
            text.push(',');
        }
        text.push_str(&part(index));
    }
    text
}

/// A long name.
fn long(bytes: usize) -> String {
    "n".repeat(bytes.max(1))
}
