//! 8: many kinds with a controller each, and several controllers that share one kind.

use anyhow::Result;

use super::{Rig, SUBJECT_CORES, micros};
use crate::runtime::figures;
use crate::runtime::peers::Subject;
use crate::runtime::process::Process;

/// Custom kinds, objects of each, and as many as the reference has for a full run.
const KINDS: u32 = 500;
const OBJECTS: u32 = 10;
const CROWD: u32 = 200;
/// Controllers that share Pods.
const SHARING: u32 = 5;
/// Events of each part; a thousand a second.
const EVENTS: u64 = 3_000;

impl Rig {
    /// 8: a controller for each of five hundred kinds; then, in the same process, five more that share Pods.
    pub(super) async fn kinds(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.load.ask(&format!("kinds {KINDS} {OBJECTS} {}", self.size.shared)).await?;
        process.ask(&format!("kinds {KINDS}")).await?;
        process.settle().await?;
        let before = process.usage()?;
        self.figures.add(figures::KINDS_RESIDENT, subject, before.memory as f64 / 1e6);
        self.load.ask(&format!("events {EVENTS} 1000 1 custom")).await?;
        process.settle().await?;
        self.figures.add(figures::KINDS_CPU, subject, micros(&before, &process.usage()?, EVENTS));
        self.share(typed(subject), process).await?;
        let connections = self.load.ask("state").await?.get("connections")?;
        self.figures.add(figures::KINDS_CONNECTIONS, subject, connections as f64);
        if self.size.crowded {
            self.crowd(subject).await?;
        }
        Ok(())
    }

    async fn share(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        let before = process.usage()?;
        process.ask(&format!("share {SHARING}")).await?;
        process.settle().await?;
        let shared = process.usage()?;
        let grown = shared.memory.saturating_sub(before.memory) as f64;
        self.figures.add(figures::SHARED_RESIDENT, subject, grown / f64::from(self.size.shared));
        self.load.ask(&format!("events {EVENTS} 1000 1 pods")).await?;
        process.settle().await?;
        self.figures.add(figures::SHARED_CPU, subject, micros(&shared, &process.usage()?, EVENTS));
        Ok(())
    }

    /// The same kinds with more objects, in a process of its own.
    async fn crowd(&mut self, subject: Subject) -> Result<()> {
        self.load.ask(&format!("kinds {KINDS} {CROWD} 0")).await?;
        let Some(mut process) = self.subject(subject, SUBJECT_CORES).await? else { return Ok(()) };
        process.ask(&format!("kinds {KINDS}")).await?;
        process.settle().await?;
        self.figures.add(figures::CROWDED_RESIDENT, subject, process.usage()?.memory as f64 / 1e6);
        Ok(())
    }
}

/// Pods are typed, whatever the many kinds are: their figures stand in that column.
fn typed(subject: Subject) -> Subject {
    match subject {
        Subject::Ours => Subject::Ours,
        Subject::ControllerRuntime | Subject::Unstructured => Subject::ControllerRuntime,
        Subject::KubeRs | Subject::Dynamic => Subject::KubeRs,
    }
}
