//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Each rule is a function from what it looks at to findings; a finding names the place and the fix.

mod edges;
mod licences;
mod outsiders;
mod sources;
mod spdx;

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;

use crate::metadata::Metadata;
use crate::time::{Human, Stopwatch};

/// Something to put right.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, with a line where there is one.
    place: String,
    /// What is wrong.
    what: String,
    /// What to do about it.
    fix: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  fix: {}", self.place, self.what, self.fix)
    }
}

/// Applies every rule.
pub(crate) fn run() -> Result<ExitCode> {
    let watch = Stopwatch::start();
    let metadata = Metadata::complete()?;
    let sources = sources::Sources::read()?;
    let mut findings = Vec::new();
    findings.extend(edges::check(&metadata));
    findings.extend(outsiders::check(&metadata));
    findings.extend(licences::check(&metadata));
    findings.extend(sources.check(&metadata));
    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}\n"));
    let crates = metadata.members().count();
    let packages = metadata.packages.len() - crates;
    println!("tidy: {crates} crates, {packages} dependencies, {} files, {}", sources.len(), Human(watch.elapsed()));
    if findings.is_empty() {
        println!("tidy: nothing to put right");
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} to put right", findings.len());
    Ok(ExitCode::FAILURE)
}
