//! 4: keys without a server, through a queue alone and through a whole controller.

use anyhow::Result;

use super::Rig;
use crate::runtime::figures;
use crate::runtime::peers::Subject;
use crate::runtime::process::Process;

/// Adds of a few keys, which are the same again and again.
const REPEATED: u64 = 1_000_000;

impl Rig {
    /// 4. What is quick is passed often, so that the clock's grain of a hundredth of a second does not matter.
    pub(super) async fn queue(&mut self, subject: Subject, process: &mut Process) -> Result<()> {
        self.load.ask("maps 0").await?;
        let ours = subject == Subject::Ours;
        let mut sizes = vec![(10_000, if ours { 200 } else { 20 }, figures::QUEUE_SMALL, figures::WHOLE_SMALL)];
        if self.size.patient || subject != Subject::KubeRs {
            sizes.push((1_000_000, if ours { 3 } else { 1 }, figures::QUEUE_LARGE, figures::WHOLE_LARGE));
        }
        for (keys, rounds, alone, whole) in sizes {
            process.ask(&format!("keys {keys}")).await?;
            if subject != Subject::KubeRs {
                self.timed(subject, process, &format!("queue alone {rounds}"), alone, keys * rounds).await?;
            }
            self.timed(subject, process, &format!("queue controller {rounds}"), whole, keys * rounds).await?;
        }
        process.ask("keys 100000").await?;
        let rounds = if ours { 10 } else { 1 };
        let line = format!("queue controller {rounds}");
        self.timed(subject, process, &line, figures::WHOLE_MIDDLE, 100_000 * rounds).await?;
        self.timed(subject, process, &format!("repeat 10 {REPEATED}"), figures::QUEUE_REPEAT, REPEATED).await
    }
}
