//! 6: indexed lists and gets, alone and beside a writer.

use anyhow::{Result, ensure};

use super::{Rig, micros};
use crate::runtime::figures;
use crate::runtime::peers::Subject;
use crate::runtime::process::Process;

/// Lists whose allocations are counted: enough that what goes on beside them does not matter.
const COUNTED_LISTS: u64 = 500;

impl Rig {
    /// 6: lists of a hundred Pods of one node, and gets. Beside the writer, what its events cost is counted to the reads.
    pub(super) async fn index(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("cache pods typed strip index").await?;
        process.settle().await?;
        let (lists, gets) = self.reads(subject);
        self.lists(subject, process, lists, "shared", figures::LIST_SHARED).await?;
        if subject == Subject::ControllerRuntime {
            self.lists(subject, process, lists / 10, "copied", figures::LIST_COPIED).await?;
        }
        self.timed(subject, process, &format!("gets {gets}"), figures::GET, gets).await?;
        self.load.ask("write 1000 10").await?;
        let beside = self.beside_a_writer(subject, process, lists, gets).await;
        self.load.ask("rest").await?;
        beside
    }

    /// 6: the bytes that a list of a hundred Pods allocates.
    pub(super) async fn allocated(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.hold_pods().await?;
        process.ask("cache pods typed strip index").await?;
        process.settle().await?;
        self.bytes_of_lists(subject, process, "shared", figures::LIST_BYTES).await?;
        if subject == Subject::ControllerRuntime {
            self.bytes_of_lists(subject, process, "copied", figures::LIST_BYTES_COPIED).await?;
        }
        Ok(())
    }

    async fn bytes_of_lists(
        &mut self,
        subject: Subject,
        process: &mut Process,
        form: &str,
        what: &'static str,
    ) -> Result<()> {
        let line = format!("lists {COUNTED_LISTS} {} {form}", self.nodes());
        // What is only allocated once is not counted.
        process.ask(&line).await?;
        let before = process.ask("allocated").await?.get("bytes")?;
        process.ask(&line).await?;
        let bytes = process.ask("allocated").await?.get("bytes")? - before;
        self.figures.add(what, subject, bytes as f64 / COUNTED_LISTS as f64);
        Ok(())
    }

    /// How many lists and gets: each subject is to be busy for some tenths of a second.
    fn reads(&self, subject: Subject) -> (u64, u64) {
        let all = self.size.lists;
        match subject {
            Subject::Ours => (all, all * 5),
            Subject::ControllerRuntime | Subject::Unstructured => (all / 40, all / 10),
            Subject::KubeRs | Subject::Dynamic => (all / 1_000, all * 5),
        }
    }

    async fn beside_a_writer(&mut self, subject: Subject, process: &mut Process, lists: u64, gets: u64) -> Result<()> {
        self.lists(subject, process, lists, "shared", figures::LIST_BESIDE).await?;
        self.timed(subject, process, &format!("gets {gets}"), figures::GET_BESIDE, gets).await
    }

    async fn lists(
        &mut self,
        subject: Subject,
        process: &mut Process,
        lists: u64,
        form: &str,
        what: &'static str,
    ) -> Result<()> {
        let (before, nodes) = (process.usage()?, self.nodes());
        let returned = process.ask(&format!("lists {lists} {nodes} {form}")).await?.get("returned")?;
        ensure!(returned >= lists, "{lists} lists returned {returned} objects");
        self.figures.add(what, subject, micros(&before, &process.usage()?, returned));
        Ok(())
    }
}
