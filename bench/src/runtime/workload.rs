//! The eight workloads: which there are, whom they concern, how much of everything.

use std::time::Duration;

use super::peers::Subject;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Pods, and ConfigMaps of 2 KB.
    pub objects: u32,
    /// ConfigMaps of 1 KB.
    pub maps: u32,
    /// Changes of Pods, and how many a second.
    pub events: u64,
    /// See `events`.
    pub rate: u64,
    /// Relists in a storm of 410s, and the least time from one to the next.
    pub relists: u32,
    /// See `relists`.
    pub every: Duration,
    /// Lists by index of the fastest subject; slower ones get fewer.
    pub lists: u64,
    /// Whether a million keys go through kube-rs too: a minute each time.
    pub patient: bool,
    /// How long a subject is left alone before its memory is looked at.
    pub idle: Duration,
    /// Pods that several controllers share.
    pub shared: u32,
    /// Whether there is also a run with two hundred objects of each of the many kinds.
    pub crowded: bool,
}

impl Size {
    /// Medians of three runs in a quarter of an hour.
    pub const SHORT: Self = Self {
        objects: 20_000,
        maps: 100_000,
        events: 20_000,
        rate: 5_000,
        relists: 3,
        every: Duration::from_secs(1),
        lists: 200_000,
        patient: false,
        idle: Duration::from_secs(1),
        shared: 2_000,
        crowded: false,
    };
    /// As section C5 of the reference has it.
    pub const FULL: Self = Self {
        objects: 100_000,
        maps: 1_000_000,
        events: 600_000,
        rate: 5_000,
        relists: 12,
        every: Duration::from_secs(10),
        lists: 1_000_000,
        patient: true,
        idle: Duration::from_secs(60),
        shared: 20_000,
        crowded: true,
    };

    /// The same with so many Pods, for a look.
    #[must_use]
    pub fn with_objects(self, objects: Option<u32>) -> Self {
        let Some(objects) = objects else { return self };
        let maps = (u64::from(self.maps) * u64::from(objects) / u64::from(self.objects)) as u32;
        let shared = (u64::from(self.shared) * u64::from(objects) / u64::from(self.objects)) as u32;
        Self { objects, maps: maps.max(1), shared: shared.max(1), ..self }
    }
}

/// One of the workloads that share a process of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// 1, 2 and 7: cold sync, resident memory, relist storm, with Pods.
    Cold,
    /// 3: steady events.
    Event,
    /// 4: the queue.
    Queue,
    /// 6: indexed reads.
    Index,
    /// 8: many kinds, and several controllers that share Pods.
    Kinds,
    /// 1 and 2 with managedFields kept: as the peers do unless told otherwise.
    Keep,
    /// 1 and 2 with ConfigMaps of 1 KB.
    Small,
    /// 1 and 2 with ConfigMaps of 2 KB.
    Maps,
    /// 5: startup priority.
    Priority,
    /// 6: what a list allocates.
    Allocated,
    /// 1 with both cores.
    ColdBoth,
    /// 3 with both cores.
    EventBoth,
}

impl Workload {
    /// All of them. What is judged by its peers comes first: if time runs out, the last ones are not repeated.
    pub const ALL: [Self; 12] = [
        Self::Cold,
        Self::Event,
        Self::Keep,
        Self::Queue,
        Self::Index,
        Self::Kinds,
        Self::Small,
        Self::Maps,
        Self::Priority,
        Self::Allocated,
        Self::ColdBoth,
        Self::EventBoth,
    ];

    /// Its name in `--only`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Event => "event",
            Self::Queue => "queue",
            Self::Index => "index",
            Self::Kinds => "kinds",
            Self::Keep => "keep",
            Self::Small => "small",
            Self::Maps => "maps",
            Self::Priority => "priority",
            Self::Allocated => "allocated",
            Self::ColdBoth => "cold-both",
            Self::EventBoth => "event-both",
        }
    }

    /// Whether the subject gets both cores instead of the one that the load server does not have.
    #[must_use]
    pub fn uses_both_cores(self) -> bool {
        matches!(self, Self::ColdBoth | Self::EventBoth)
    }

    /// Whether the subject counts what it allocates.
    #[must_use]
    pub fn counts(self) -> bool {
        self == Self::Allocated
    }

    /// Whether it says something about this subject. Where a peer's dynamic form would only do the same more slowly, it
    /// is spared.
    #[must_use]
    pub fn concerns(self, subject: Subject) -> bool {
        match self {
            Self::Cold | Self::Keep => subject != Subject::Dynamic,
            Self::Kinds => !matches!(subject, Subject::ControllerRuntime | Subject::KubeRs),
            Self::Event
            | Self::Queue
            | Self::Index
            | Self::Small
            | Self::Maps
            | Self::Priority
            | Self::Allocated
            | Self::ColdBoth
            | Self::EventBoth => !matches!(subject, Subject::Unstructured | Subject::Dynamic),
        }
    }

    /// Whether it is measured in this run: what takes long and varies little is measured once.
    #[must_use]
    pub fn runs_in(self, run: u32, subject: Subject) -> bool {
        let once = match self {
            Self::Priority | Self::Maps | Self::Allocated | Self::ColdBoth | Self::EventBoth => true,
            Self::Cold | Self::Keep => subject == Subject::Unstructured,
            Self::Kinds => subject != Subject::Ours,
            Self::Event | Self::Queue | Self::Index | Self::Small => false,
        };
        run == 0 || !once
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_name_of_its_own_and_measures_ours() {
        let names: std::collections::BTreeSet<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
        assert_eq!(names.len(), Workload::ALL.len());
        assert!(
            Workload::ALL.iter().all(|workload| workload.concerns(Subject::Ours) && workload.runs_in(0, Subject::Ours))
        );
    }

    #[test]
    fn a_look_is_smaller_in_everything_that_is_counted_in_objects() {
        let look = Size::SHORT.with_objects(Some(2_000));
        assert_eq!((look.objects, look.maps, look.shared), (2_000, 10_000, 200));
        assert_eq!(Size::SHORT.with_objects(None).maps, Size::SHORT.maps);
    }
}
