//! The eight workloads, each for one subject. A run is all of them for all subjects, in turns.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;
use tokio::time::Instant;

use super::figures::{self, Figures};
use super::peers::{Programs, Subject, beside};
use super::process::Process;
use crate::usage::Usage;

/// The load server has one core for itself, the subject the other.
const LOAD_CORE: usize = 0;
const SUBJECT_CORE: usize = 1;
/// Pods of one node: what an indexed list returns.
const PODS_PER_NODE: u32 = 100;
/// Custom kinds, and objects of each.
const KINDS: u32 = 500;
const OBJECTS_OF_A_KIND: u32 = 10;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Pods.
    pub objects: u32,
    /// Changes of Pods, and how many a second.
    pub events: u64,
    /// See `events`.
    pub rate: u64,
    /// Relists in a row.
    pub relists: u32,
    /// Lists by index; a tenth where every object is copied.
    pub lists: u64,
    /// Whether a million keys go through kube-rs too: a minute each time.
    pub patient: bool,
    /// How long a subject is left alone before its memory is looked at.
    pub idle: Duration,
}

impl Size {
    /// Medians of three runs in a quarter of an hour.
    pub const SHORT: Self = Self {
        objects: 20_000,
        events: 20_000,
        rate: 5_000,
        relists: 1,
        lists: 20_000,
        patient: false,
        idle: Duration::from_secs(1),
    };
    /// As section C5 of the reference has it.
    pub const FULL: Self = Self {
        objects: 100_000,
        events: 600_000,
        rate: 5_000,
        relists: 12,
        lists: 1_000_000,
        patient: true,
        idle: Duration::from_secs(60),
    };
}

/// One of the workloads that share a process of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 1, 2 and 7: cold sync, resident memory, relist storm.
    Cold,
    /// The same with managedFields kept: once.
    Keep,
    /// 3: steady events.
    Event,
    /// 4: the queue.
    Queue,
    /// 5: startup priority.
    Priority,
    /// 6: indexed reads.
    Index,
    /// 8: many kinds.
    Kinds,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Cold, Self::Event, Self::Queue, Self::Priority, Self::Index, Self::Kinds, Self::Keep];

    /// Its name in `--only`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Keep => "keep",
            Self::Event => "event",
            Self::Queue => "queue",
            Self::Priority => "priority",
            Self::Index => "index",
            Self::Kinds => "kinds",
        }
    }

    /// Whether it says something about this subject. Where a peer's dynamic form would only do the same more slowly, it
    /// is spared.
    #[must_use]
    pub fn concerns(self, subject: Subject) -> bool {
        match self {
            Self::Cold | Self::Keep => subject != Subject::Dynamic,
            Self::Event | Self::Queue | Self::Priority | Self::Index => {
                !matches!(subject, Subject::Unstructured | Subject::Dynamic)
            }
            Self::Kinds => !matches!(subject, Subject::ControllerRuntime | Subject::KubeRs),
        }
    }

    /// Whether it is measured in this run: what takes a minute and varies little is measured once.
    #[must_use]
    pub fn runs_in(self, run: u32, subject: Subject) -> bool {
        run == 0 || !(self == Self::Keep || subject == Subject::Unstructured && self == Self::Cold)
    }
}

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
        let load = Process::start("load server", command, LOAD_CORE).await?;
        Ok(Self { load, kubeconfig, programs, size, figures: Figures::default() })
    }

    /// Starts a subject; `None` if it is left out.
    async fn subject(&self, subject: Subject) -> Result<Option<Process>> {
        let Some(program) = self.programs.of(subject)? else { return Ok(None) };
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig).env("GOMAXPROCS", "1");
        let process = Process::start(subject.name(), command, SUBJECT_CORE).await?;
        process.settle().await?;
        Ok(Some(process))
    }

    /// Has the Go subject compare the two encodings of a Pod, if there is one.
    ///
    /// # Errors
    /// They differ.
    pub async fn check(&mut self) -> Result<()> {
        self.load.ask("pods 10 1").await?;
        if let Some(mut process) = self.subject(Subject::ControllerRuntime).await? {
            process.ask("check").await.context("the load server's encodings do not agree")?;
        }
        Ok(())
    }

    /// Runs one workload for one subject. What the subject does not support is told and left out.
    ///
    /// # Errors
    /// Something failed.
    pub async fn run(&mut self, workload: Workload, subject: Subject) -> Result<()> {
        let Some(mut process) = self.subject(subject).await? else { return Ok(()) };
        let result = match workload {
            Workload::Cold => self.cold(subject, &mut process).await,
            Workload::Keep => self.keep(subject, &mut process).await,
            Workload::Event => self.event(subject, &mut process).await,
            Workload::Queue => self.queue(subject, &mut process).await,
            Workload::Priority => self.priority(subject, &mut process).await,
            Workload::Index => self.index(subject, &mut process).await,
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

    async fn hold_pods(&mut self) -> Result<()> {
        let nodes = self.size.objects.div_ceil(PODS_PER_NODE);
        self.load.ask(&format!("pods {} {nodes}", self.size.objects)).await.map(drop)
    }

    fn per_object(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.size.objects)
    }

    /// 1, 2 and 7.
    async fn cold(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        let (begin, before) = (Instant::now(), process.usage()?);
        process.ask(&format!("cache {} strip plain", subject.form())).await?;
        let (wall, synced) = (begin.elapsed(), process.usage()?);
        self.figures.add(figures::COLD_CPU, subject, micros(&before, &synced, self.size.objects.into()));
        self.figures.add(figures::COLD_WALL, subject, wall.as_secs_f64());
        process.settle().await?;
        tokio::time::sleep(self.size.idle).await;
        let settled = process.usage()?;
        let grown = |usage: Usage| usage.memory.saturating_sub(before.memory);
        self.figures.add(figures::RESIDENT, subject, self.per_object(grown(settled)));
        let peak = self.per_object(settled.peak.saturating_sub(before.memory));
        self.figures.add(figures::COLD_PEAK, subject, peak);
        self.relist(subject, process).await?;
        if matches!(subject, Subject::ControllerRuntime | Subject::Unstructured) {
            process.ask("collect").await?;
            self.figures.add(figures::COLLECTED, subject, self.per_object(grown(process.usage()?)));
        }
        Ok(())
    }

    /// 7: nothing has changed, but everything is listed anew.
    async fn relist(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        process.forget_peak()?;
        let before = process.usage()?;
        for _ in 0..self.size.relists {
            let lists = self.load.ask("expire").await?.get("complete")?;
            while self.load.ask("state").await?.get("complete")? == lists {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            process.settle().await?;
        }
        let after = process.usage()?;
        let objects = u64::from(self.size.objects) * u64::from(self.size.relists);
        self.figures.add(figures::RELIST_CPU, subject, micros(&before, &after, objects));
        let over = after.peak.saturating_sub(before.memory) as f64 / before.memory as f64 * 100.0;
        self.figures.add(figures::RELIST_PEAK, subject, over);
        Ok(())
    }

    /// 1 and 2 with managedFields kept.
    async fn keep(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        let before = process.usage()?;
        process.ask(&format!("cache {} keep plain", subject.form())).await?;
        let synced = process.usage()?;
        self.figures.add(figures::KEEP_CPU, subject, micros(&before, &synced, self.size.objects.into()));
        process.settle().await?;
        let grown = process.usage()?.memory.saturating_sub(before.memory);
        self.figures.add(figures::KEEP_RESIDENT, subject, self.per_object(grown));
        Ok(())
    }

    /// 3: changes of the status mostly, which a controller that looks at generations drops.
    async fn event(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("control 10 0").await?;
        process.settle().await?;
        process.ask("reconciles").await?;
        let before = process.usage()?;
        self.load.ask(&format!("events {} {} 10", self.size.events, self.size.rate)).await?;
        process.settle().await?;
        let after = process.usage()?;
        let seen = process.ask("reconciles").await?;
        self.figures.add(figures::EVENT_CPU, subject, micros(&before, &after, self.size.events));
        self.figures.add(figures::EVENT_LATENCY, subject, seen.get("p99")? as f64 / 1e6);
        Ok(())
    }

    /// 4: keys without a server. A small number is passed often, so that the clock's grain does not matter.
    async fn queue(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.load.ask("maps 0").await?;
        let patient = self.size.patient || subject != Subject::KubeRs;
        let mut sizes = vec![(10_000, 20, figures::QUEUE_SMALL, figures::WHOLE_SMALL)];
        if patient {
            sizes.push((1_000_000, 1, figures::QUEUE_LARGE, figures::WHOLE_LARGE));
        }
        for (keys, rounds, alone, whole) in sizes {
            process.ask(&format!("keys {keys}")).await?;
            if subject != Subject::KubeRs {
                self.timed(subject, process, &format!("queue alone {rounds}"), alone, keys * rounds).await?;
            }
            self.timed(subject, process, &format!("queue controller {rounds}"), whole, keys * rounds).await?;
        }
        process.ask("keys 100000").await?;
        self.timed(subject, process, "queue controller 1", figures::WHOLE_MIDDLE, 100_000).await?;
        if subject != Subject::KubeRs {
            self.timed(subject, process, "repeat 10 1000000", figures::QUEUE_REPEAT, 1_000_000).await?;
        }
        Ok(())
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

    /// 5: live updates while the objects that were there from the beginning are worked through.
    async fn priority(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("control 4 1000").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        process.ask("reconciles").await?;
        self.load.ask("events 100 100000 1").await?;
        self.load.ask("events 150 50 1").await?;
        process.settle().await?;
        let seen = process.ask("reconciles").await?;
        self.figures.add(figures::LIVE_LATENCY, subject, seen.get("p99")? as f64 / 1e6);
        self.figures.add(figures::LAST_INITIAL, subject, seen.get("initial")? as f64 / 1e9);
        Ok(())
    }

    /// 6: lists of a hundred Pods of one node, and gets.
    async fn index(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("cache typed strip index").await?;
        process.settle().await?;
        let nodes = self.size.objects.div_ceil(PODS_PER_NODE);
        let forms = match subject {
            Subject::KubeRs | Subject::Dynamic => vec![("shared", self.size.lists / 100, figures::LIST_SHARED)],
            Subject::Ours => vec![("shared", self.size.lists, figures::LIST_SHARED)],
            Subject::ControllerRuntime | Subject::Unstructured => vec![
                ("shared", self.size.lists / 2, figures::LIST_SHARED),
                ("copied", self.size.lists / 20, figures::LIST_COPIED),
            ],
        };
        for (form, lists, what) in forms {
            let before = process.usage()?;
            let returned = process.ask(&format!("lists {lists} {nodes} {form}")).await?.get("returned")?;
            self.figures.add(what, subject, micros(&before, &process.usage()?, returned));
        }
        let gets = self.size.lists * 5;
        self.timed(subject, process, &format!("gets {gets}"), figures::GET, gets).await
    }

    /// 8: a controller for each of five hundred kinds.
    async fn kinds(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.load.ask(&format!("kinds {KINDS} {OBJECTS_OF_A_KIND}")).await?;
        process.ask(&format!("kinds {KINDS}")).await?;
        process.settle().await?;
        let before = process.usage()?;
        self.figures.add(figures::KINDS_RESIDENT, subject, before.memory as f64 / 1e6);
        let connections = self.load.ask("state").await?.get("connections")?;
        self.figures.add(figures::KINDS_CONNECTIONS, subject, connections as f64);
        self.load.ask("events 5000 1000 1").await?;
        process.settle().await?;
        self.figures.add(figures::KINDS_CPU, subject, micros(&before, &process.usage()?, 5_000));
        Ok(())
    }
}

/// Microseconds of CPU for each of `count`.
fn micros(before: &Usage, after: &Usage, count: u64) -> f64 {
    after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / count.max(1) as f64
}
