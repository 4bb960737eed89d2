//! 3 and 5: events at a steady rate, and live updates while what was there from the beginning is worked through.

use std::time::Duration;

use anyhow::Result;

use super::{Rig, micros};
use crate::runtime::figures;
use crate::runtime::peers::Subject;
use crate::runtime::process::Process;

impl Rig {
    /// 3: changes of the status mostly, which a controller that looks at generations drops.
    pub(super) async fn event(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        let (cpu, latency) = self.events(process).await?;
        self.figures.add(figures::EVENT_CPU, subject, cpu);
        self.figures.add(figures::EVENT_LATENCY, subject, latency);
        Ok(())
    }

    /// 3 where the subject may use both cores.
    pub(super) async fn event_on_both_cores(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        let (cpu, latency) = self.events(process).await?;
        self.figures.add(figures::BOTH_EVENT_CPU, subject, cpu);
        self.figures.add(figures::BOTH_EVENT_LATENCY, subject, latency);
        Ok(())
    }

    /// Microseconds of CPU per event, and the milliseconds in which 99 of 100 were reconciled.
    async fn events(&mut self, process: &mut Process) -> Result<(f64, f64)> {
        self.hold_pods().await?;
        process.ask("control 10 0").await?;
        process.settle().await?;
        process.ask("reconciles").await?;
        let before = process.usage()?;
        self.load.ask(&format!("events {} {} 10 pods", self.size.events, self.size.rate)).await?;
        process.settle().await?;
        let after = process.usage()?;
        let latency = process.ask("reconciles").await?.get("p99")? as f64 / 1e6;
        Ok((micros(&before, &after, self.size.events), latency))
    }

    /// 5: live updates while the objects that were there from the beginning are worked through.
    pub(super) async fn priority(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("control 4 1000").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        process.ask("reconciles").await?;
        self.load.ask("events 100 100000 1 pods").await?;
        self.load.ask("events 150 50 1 pods").await?;
        process.settle().await?;
        let seen = process.ask("reconciles").await?;
        self.figures.add(figures::LIVE_LATENCY, subject, seen.get("p99")? as f64 / 1e6);
        self.figures.add(figures::LAST_INITIAL, subject, seen.get("initial")? as f64 / 1e9);
        Ok(())
    }
}
