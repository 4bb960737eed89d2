//! 1, 2 and 7: cold sync, resident memory, storms of 410s.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use super::{Rig, SUBJECT_CORES, micros};
use crate::runtime::figures;
use crate::runtime::peers::Subject;
use crate::runtime::process::Process;
use crate::usage::Usage;

/// How often it is looked whether a list was sent to its end.
const LOOK: Duration = Duration::from_millis(20);
/// Clients wait longer after each 410, up to half a minute.
const RELIST_LIMIT: Duration = Duration::from_secs(180);

/// What a cold sync cost.
struct Sync {
    before: Usage,
    settled: Usage,
    /// Microseconds of CPU per object.
    cpu: f64,
    wall: Duration,
    objects: u32,
}

impl Sync {
    fn per_object(&self, bytes: u64) -> f64 {
        bytes.saturating_sub(self.before.memory) as f64 / f64::from(self.objects)
    }

    fn resident(&self) -> f64 {
        self.per_object(self.settled.memory)
    }
}

impl Rig {
    /// Has a subject fill a cache with the objects that the load server holds.
    async fn sync(&self, process: &mut Process, line: &str, objects: u32) -> Result<Sync> {
        let (begin, before) = (Instant::now(), process.usage()?);
        let known = process.ask(line).await?.get("objects")?;
        let (wall, synced) = (begin.elapsed(), process.usage()?);
        ensure!(known == u64::from(objects), "{known} of {objects} objects are in the cache");
        process.settle().await?;
        tokio::time::sleep(self.size.idle).await;
        let cpu = micros(&before, &synced, objects.into());
        Ok(Sync { before, settled: process.usage()?, cpu, wall, objects })
    }

    /// 1, 2 and 7 with Pods.
    pub(super) async fn cold(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        let line = format!("cache pods {} strip plain", subject.form());
        let sync = self.sync(process, &line, self.size.objects).await?;
        self.figures.add(figures::COLD_CPU, subject, sync.cpu);
        self.figures.add(figures::COLD_WALL, subject, sync.wall.as_secs_f64());
        self.figures.add(figures::RESIDENT, subject, sync.resident());
        self.figures.add(figures::COLD_PEAK, subject, sync.per_object(sync.settled.peak));
        self.storm(subject, process).await?;
        if matches!(subject, Subject::ControllerRuntime | Subject::Unstructured) {
            process.ask("collect").await?;
            self.figures.add(figures::COLLECTED, subject, sync.per_object(process.usage()?.memory));
        }
        Ok(())
    }

    /// 7: nothing has changed, but everything is listed anew, again and again.
    async fn storm(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        // Half a minute each, and always the same.
        let relists = if subject == Subject::Unstructured { 1 } else { self.size.relists };
        process.forget_peak()?;
        let before = process.usage()?;
        for _ in 0..relists {
            let begin = Instant::now();
            let lists = self.load.ask("expire").await?.get("complete")?;
            while self.load.ask("state").await?.get("complete")? == lists {
                ensure!(begin.elapsed() < RELIST_LIMIT, "no relist for {} s", RELIST_LIMIT.as_secs());
                tokio::time::sleep(LOOK).await;
            }
            tokio::time::sleep_until(begin + self.size.every).await;
        }
        process.settle().await?;
        let after = process.usage()?;
        let objects = u64::from(self.size.objects) * u64::from(relists);
        self.figures.add(figures::RELIST_CPU, subject, micros(&before, &after, objects));
        let over = after.peak.saturating_sub(before.memory) as f64 / before.memory as f64 * 100.0;
        self.figures.add(figures::RELIST_PEAK, subject, over);
        Ok(())
    }

    /// 1 and 2 with managedFields as each has them by default: peers keep them, we do not. And with them kept by all.
    pub(super) async fn keep(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        let (form, objects) = (subject.form(), self.size.objects);
        let default = if subject == Subject::Ours { "strip" } else { "keep" };
        let by_default = self.sync(process, &format!("cache pods {form} {default} plain"), objects).await?;
        self.figures.add(figures::DEFAULT_CPU, subject, by_default.cpu);
        self.figures.add(figures::DEFAULT_RESIDENT, subject, by_default.resident());
        let mut kept = by_default;
        if default != "keep" {
            let Some(mut keeping) = self.subject(subject, SUBJECT_CORES).await? else { return Ok(()) };
            kept = self.sync(&mut keeping, &format!("cache pods {form} keep plain"), objects).await?;
        }
        self.figures.add(figures::KEEP_CPU, subject, kept.cpu);
        self.figures.add(figures::KEEP_RESIDENT, subject, kept.resident());
        Ok(())
    }

    /// 1 and 2 with ConfigMaps of 1 KB.
    pub(super) async fn small_maps(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        let count = self.size.maps;
        self.load.ask(&format!("small-maps {count}")).await?;
        let sync = self.sync(process, "cache maps typed strip plain", count).await?;
        self.figures.add(figures::SMALL_CPU, subject, sync.cpu);
        self.figures.add(figures::SMALL_WALL, subject, sync.wall.as_secs_f64());
        self.figures.add(figures::SMALL_RESIDENT, subject, sync.resident());
        Ok(())
    }

    /// 1 and 2 with ConfigMaps of 2 KB.
    pub(super) async fn maps(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        let count = self.size.objects;
        self.load.ask(&format!("maps {count}")).await?;
        let sync = self.sync(process, "cache maps typed strip plain", count).await?;
        self.figures.add(figures::MAPS_CPU, subject, sync.cpu);
        self.figures.add(figures::MAPS_WALL, subject, sync.wall.as_secs_f64());
        self.figures.add(figures::MAPS_RESIDENT, subject, sync.resident());
        Ok(())
    }

    /// 1 where the subject may use both cores.
    pub(super) async fn cold_on_both_cores(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        let line = format!("cache pods {} strip plain", subject.form());
        let sync = self.sync(process, &line, self.size.objects).await?;
        self.figures.add(figures::BOTH_COLD_CPU, subject, sync.cpu);
        self.figures.add(figures::BOTH_COLD_WALL, subject, sync.wall.as_secs_f64());
        Ok(())
    }
}
