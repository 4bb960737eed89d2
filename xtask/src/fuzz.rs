//! `cargo xtask fuzz`: lets libFuzzer look for inputs that break what `concert-fuzz` says is true.
//!
//! ```text
//! fuzz/corpus ──► files ──► libFuzzer, for some time ──► the least that reaches as much ──► fuzz/corpus/TARGET.found
//!                                   └► a crash: made small, kept in fuzz/corpus/TARGET, and the run is red
//! ```
//!
//! The front is a workspace of its own (`fuzz/libfuzzer`): code is built to count what it runs, without a sanitizer,
//! because the house has no unsafe code. That needs nothing but a stable toolchain and a C++ compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child;
use crate::metadata::{self, Metadata};
use crate::time::{Human, Stopwatch};
use crate::tools::{self, Tool};

/// Longer inputs find little more, and are slow: what size alone does is measured by `concert-fuzz hostile`.
const INPUT_MAX: usize = 4096;
/// An input that takes more memory is a finding.
const MEMORY_MEGABYTES: usize = 2048;
/// An input that takes longer is a finding.
const PATIENCE_SECONDS: usize = 20;
/// For how long a crash is made smaller.
const SMALLER_SECONDS: usize = 60;

/// What to fuzz, and for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// The target; all of them, one after the other, if there is none
    target: Option<String>,
    /// How long each runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Builds the targets, runs them, and keeps what they found.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let cargo_fuzz = match tools::cargo_fuzz() {
        Tool::Ready { path, .. } => path,
        Tool::Unavailable(why) | Tool::Broken(why) => bail!("{why}"),
    };
    let known = targets()?;
    let wanted: Vec<&String> =
        known.iter().filter(|name| options.target.as_ref().is_none_or(|one| one == *name)).collect();
    if wanted.is_empty() {
        bail!("there is no such target: {}", known.join(", "));
    }
    let rooms = build(&cargo_fuzz)?;
    let mut broken = 0;
    for target in wanted {
        broken += usize::from(!Fuzzer::new(&rooms, target)?.run(options.seconds)?);
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    Ok(child::capture(corpus(&["targets"]))?.lines().map(str::to_owned).collect())
}

/// The program that runs inputs and carries the corpus.
fn corpus(arguments: &[&str]) -> Command {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--package", "concert-fuzz", "--"]).args(arguments);
    command
}

/// Builds the front; gives the directory that has everything about fuzzing.
fn build(cargo_fuzz: &Path) -> Result<PathBuf> {
    let directory = Metadata::workspace()?.target_directory.join("fuzz");
    let mut command = Command::new(cargo_fuzz);
    command.current_dir(metadata::root().join("fuzz/libfuzzer"));
    command.args(["fuzz", "build", "--fuzz-dir", ".", "--sanitizer", "none", "--target-dir"]).arg(&directory);
    child::run_quietly(command, "building the fuzz targets")?;
    Ok(directory)
}

/// One target, and where its files are.
struct Fuzzer {
    target: String,
    program: PathBuf,
    /// All inputs that were ever worth keeping here.
    inputs: PathBuf,
    /// Those that broke something.
    broken: PathBuf,
    /// The fewest that reach as much.
    least: PathBuf,
}

impl Fuzzer {
    fn new(directory: &Path, target: &str) -> Result<Self> {
        let program = program(directory, target)?;
        let room = directory.join("inputs").join(target);
        let place = |name: &str| room.join(name);
        let own = Self {
            target: target.to_owned(),
            program,
            inputs: place("all"),
            broken: place("broken"),
            least: place("least"),
        };
        for fresh in [&own.broken, &own.least] {
            let _ = fs::remove_dir_all(fresh);
            fs::create_dir_all(fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
        }
        Ok(own)
    }

    /// Runs, and keeps what was found; whether nothing broke.
    fn run(&self, seconds: u64) -> Result<bool> {
        let watch = Stopwatch::start();
        child::capture(self.carry("unpack", &self.inputs))?;
        println!("fuzz {}: {seconds} s", self.target);
        let mut command = self.libfuzzer();
        command.arg(&self.inputs).arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/", self.broken.display()));
        let mut runs = String::new();
        let status = child::stream(command, |progress| {
            if let child::Progress::Line(line) = progress
                && let Some(count) = line.strip_prefix("stat::number_of_executed_units:")
            {
                count.trim().clone_into(&mut runs);
            }
        })?;
        let fine = status.success();
        if !fine {
            self.keep_broken()?;
        }
        let kept = self.keep_least()?;
        let outcome = if fine { "nothing broke" } else { "BROKEN" };
        println!("fuzz {}: {runs} inputs, {outcome}, {kept} kept, {}", self.target, Human(watch.elapsed()));
        Ok(fine)
    }

    fn libfuzzer(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("-max_len={INPUT_MAX}")).arg(format!("-rss_limit_mb={MEMORY_MEGABYTES}"));
        command.arg(format!("-timeout={PATIENCE_SECONDS}"));
        command
    }

    fn carry(&self, task: &str, directory: &Path) -> Command {
        let mut command = corpus(&[task, &self.target]);
        command.arg(directory);
        command
    }

    /// Makes what broke something as small as it gets, and puts it where the tests find it.
    fn keep_broken(&self) -> Result<()> {
        for entry in fs::read_dir(&self.broken).with_context(|| format!("cannot read {}", self.broken.display()))? {
            let found = entry.with_context(|| format!("cannot read {}", self.broken.display()))?.path();
            let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let small = self.least.with_file_name(format!("small-{name}"));
            let mut command = self.libfuzzer();
            command.arg("-minimize_crash=1").arg(format!("-max_total_time={SMALLER_SECONDS}"));
            command.arg(format!("-exact_artifact_path={}", small.display())).arg(&found);
            // It ends badly, as it should: the smaller input still breaks something.
            let _ = child::stream(command, |_| {})?;
            // It may have found nothing smaller, and say so with an empty file.
            let is_smaller = fs::metadata(&small).is_ok_and(|file| file.len() > 0);
            let small = if is_smaller { small } else { found };
            let kept = metadata::root().join("fuzz/corpus").join(&self.target).join(&name);
            fs::copy(&small, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
            let kept = metadata::relative(&kept);
            println!("  kept {kept}: give it a name that says what it is, and see it with");
            println!("  cargo run -p concert-fuzz -- run {} {kept}", self.target);
        }
        Ok(())
    }

    /// Keeps the fewest inputs that reach as much as all of them; how many.
    fn keep_least(&self) -> Result<String> {
        let mut command = self.libfuzzer();
        command.args(["-set_cover_merge=1"]).arg(&self.least).arg(&self.inputs);
        child::run_quietly(command, "looking for the fewest inputs")?;
        Ok(child::capture(self.carry("pack", &self.least))?.trim().to_owned())
    }
}

/// The built program of a target, below the directory that is named after the machine.
fn program(directory: &Path, target: &str) -> Result<PathBuf> {
    let machines = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let programs = machines.filter_map(|entry| Some(entry.ok()?.path().join("release").join(target)));
    programs.into_iter().find(|path| path.is_file()).with_context(|| format!("{target} was not built"))
}
