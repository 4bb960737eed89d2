//! The load server, one subject after the other, and each workload carried out.

mod kinds;
mod queue;
mod reads;
mod steady;
mod sync;

use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::figures::Figures;
use super::peers::{Programs, Subject, beside};
use super::process::Process;
use super::workload::{Size, Workload};
use crate::usage::Usage;

/// The load server has one core for itself, the subject the other; or the subject may use both.
const LOAD_CORES: &[usize] = &[0];
const SUBJECT_CORES: &[usize] = &[1];
const BOTH_CORES: &[usize] = &[0, 1];
/// Pods of one node: what an indexed list returns.
const PODS_PER_NODE: u32 = 100;

/// The load server, and where the subjects are.
#[derive(Debug)]
pub struct Rig {
    load: Process,
    kubeconfig: PathBuf,
    programs: Programs,
    size: Size,
    /// What came out.
    pub figures: Figures,
}

impl Rig {
    /// Starts the load server; its kubeconfig is written to `kubeconfig`.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(kubeconfig: PathBuf, programs: Programs, size: Size) -> Result<Self> {
        let mut command = Command::new(beside("runtime-load")?);
        command.arg(&kubeconfig);
        let load = Process::start("load server", command, LOAD_CORES).await?;
        Ok(Self { load, kubeconfig, programs, size, figures: Figures::default() })
    }

    /// Starts a subject with a thread for each of its cores; `None` if it is left out.
    async fn subject(&self, subject: Subject, cores: &[usize]) -> Result<Option<Process>> {
        self.start_subject(subject, self.programs.of(subject)?, cores).await
    }

    async fn start_subject(
        &self,
        subject: Subject,
        program: Option<PathBuf>,
        cores: &[usize],
    ) -> Result<Option<Process>> {
        let Some(program) = program else { return Ok(None) };
        let mut command = Command::new(program);
        let threads = cores.len().to_string();
        command.env("KUBECONFIG", &self.kubeconfig).env("GOMAXPROCS", &threads).env("TOKIO_WORKER_THREADS", &threads);
        let process = Process::start(subject.name(), command, cores).await?;
        process.settle().await?;
        Ok(Some(process))
    }

    /// Has the Go subject compare the two encodings of a Pod, if there is one.
    ///
    /// # Errors
    /// They differ.
    pub async fn check(&mut self) -> Result<()> {
        self.load.ask("pods 10 1").await?;
        if let Some(mut process) = self.subject(Subject::ControllerRuntime, SUBJECT_CORES).await? {
            process.ask("check").await.context("the load server's encodings do not agree")?;
        }
        Ok(())
    }

    /// Runs one workload for one subject. What the subject does not support is told and left out.
    ///
    /// # Errors
    /// Something failed.
    pub async fn run(&mut self, workload: Workload, subject: Subject) -> Result<()> {
        let cores = if workload.uses_both_cores() { BOTH_CORES } else { SUBJECT_CORES };
        let program = if workload.counts() { self.programs.counting(subject)? } else { self.programs.of(subject)? };
        let Some(mut process) = self.start_subject(subject, program, cores).await? else { return Ok(()) };
        let result = match workload {
            Workload::Cold => self.cold(subject, &mut process).await,
            Workload::ColdBoth => self.cold_on_both_cores(subject, &mut process).await,
            Workload::Keep => self.keep(subject, &mut process).await,
            Workload::Small => self.small_maps(subject, &mut process).await,
            Workload::Maps => self.maps(subject, &mut process).await,
            Workload::Event => self.event(subject, &mut process).await,
            Workload::EventBoth => self.event_on_both_cores(subject, &mut process).await,
            Workload::Queue => self.queue(subject, &mut process).await,
            Workload::Priority => self.priority(subject, &mut process).await,
            Workload::Index => self.index(subject, &mut process).await,
            Workload::Allocated => self.allocated(subject, &mut process).await,
            Workload::Kinds => self.kinds(subject, &mut process).await,
        };
        match result {
            Err(error) if format!("{error:#}").contains("unsupported") => {
                eprintln!("  left out: {error:#}");
                Ok(())
            }
            other => other,
        }
    }

    /// Fresh Pods on as many nodes as they need.
    async fn hold_pods(&mut self) -> Result<()> {
        self.load.ask(&format!("pods {} {}", self.size.objects, self.nodes())).await.map(drop)
    }

    fn nodes(&self) -> u32 {
        self.size.objects.div_ceil(PODS_PER_NODE)
    }

    /// The CPU that a line takes, for each of `count`.
    async fn timed(
        &mut self,
        subject: Subject,
        process: &mut Process,
        line: &str,
        what: &'static str,
        count: u64,
    ) -> Result<()> {
        let before = process.usage()?;
        process.ask(line).await?;
        self.figures.add(what, subject, micros(&before, &process.usage()?, count));
        Ok(())
    }
}

/// Microseconds of CPU for each of `count`.
fn micros(before: &Usage, after: &Usage, count: u64) -> f64 {
    after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / count.max(1) as f64
}
