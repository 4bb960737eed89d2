//! A process that speaks the [`protocol`](super::protocol), and what it has used.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use super::protocol::Reply;
use crate::usage::Usage;

/// Nothing that is asked may take longer; a subject that hangs ends the run instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(300);
/// A process is quiet when it used nothing for so many looks in a row.
const QUIET: u32 = 4;
const LOOK: Duration = Duration::from_millis(250);
/// Less than this between two looks is nothing: timers, and the clock's own grain.
const NOTHING: Duration = Duration::from_millis(10);

/// See the module. It is killed when it is dropped, and ends by itself when the driver is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it on these cores alone and waits until it says that it is there.
    ///
    /// # Errors
    /// It cannot be started, or ends at once.
    pub async fn start(name: &str, mut command: Command, cores: &[usize]) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = on_cores(cores, || command.spawn())?.with_context(|| format!("cannot start {name}"))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut process = Self { name: name.to_owned(), child, input, output };
        process.answer("start").await?;
        Ok(process)
    }

    /// Asks for something to be done, and waits until it is.
    ///
    /// # Errors
    /// It failed, or the process has ended.
    pub async fn ask(&mut self, line: &str) -> Result<Reply> {
        let sent = self.input.write_all(format!("{line}\n").as_bytes()).await;
        sent.with_context(|| format!("{} has ended before \"{line}\"", self.name))?;
        self.answer(line).await
    }

    async fn answer(&mut self, line: &str) -> Result<Reply> {
        let name = &self.name;
        let answer = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        let answer = answer.map_err(|_| anyhow!("{name} did not answer \"{line}\" in {} s", PATIENCE.as_secs()))?;
        let answer = answer?.ok_or_else(|| anyhow!("{name} ended at \"{line}\""))?;
        Reply::read(&answer).with_context(|| format!("{name} at \"{line}\""))
    }

    /// What it has used since it began.
    ///
    /// # Errors
    /// It has ended.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.id()?)
    }

    fn id(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("{} has ended", self.name))
    }

    /// Waits until it does nothing any more.
    ///
    /// # Errors
    /// It has ended, or is never quiet.
    pub async fn settle(&self) -> Result<()> {
        let begin = Instant::now();
        let (mut before, mut quiet) = (self.usage()?.cpu, 0);
        while quiet < QUIET {
            if begin.elapsed() > PATIENCE {
                return Err(anyhow!("{} is not quiet after {} s", self.name, PATIENCE.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
            let now = self.usage()?.cpu;
            quiet = if now.saturating_sub(before) <= NOTHING { quiet + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    /// Begins to look for the peak of its memory anew.
    ///
    /// # Errors
    /// It has ended.
    pub fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.id()?);
        fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
    }
}

/// Starts a child on these cores: it inherits where this thread may run.
fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(None).context("cannot ask which cores may be used")?;
    let mut wanted = CpuSet::new();
    cores.iter().for_each(|core| wanted.set(*core));
    let set = sched_setaffinity(None, &wanted);
    set.with_context(|| format!("cannot use the cores {cores:?} alone: two cores are needed"))?;
    let started = start();
    sched_setaffinity(None, &before).context("cannot use all cores again")?;
    Ok(started)
}
