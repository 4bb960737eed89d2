//! The locks of what threads share: the standard ones, or ones that try interleavings (feature `shuttle`).
//!
//! What tokio gives is tried by tokio. Of it shuttle sees one step each, with a place to switch before and after, so
//! nothing of ours may be locked within.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::sync::watch;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock};

#[cfg(feature = "shuttle")]
pub(crate) mod watch {
    use shuttle::thread::yield_now;
    use tokio::sync::watch::{Receiver, Ref};

    /// The part of tokio's that is used.
    #[derive(Debug, Default)]
    pub(crate) struct Sender<T>(tokio::sync::watch::Sender<T>);

    impl<T> Sender<T> {
        pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
            yield_now();
            self.0.send_modify(change);
            yield_now();
        }

        pub(crate) fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
            yield_now();
            let modified = self.0.send_if_modified(change);
            yield_now();
            modified
        }

        pub(crate) fn borrow(&self) -> Ref<'_, T> {
            yield_now();
            self.0.borrow()
        }

        pub(crate) fn subscribe(&self) -> Receiver<T> {
            yield_now();
            self.0.subscribe()
        }
    }
}

/// Runs a test under many schedules, within a runtime that never runs what is spawned on it.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn check(test: impl Fn() + Send + Sync + 'static) {
    /// How many schedules are tried.
    const SCHEDULES: usize = 2000;
    /// More than any schedule that makes progress needs: one that does not is a failure, and soon.
    const STEPS: usize = 20_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _within = runtime.enter();
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(SCHEDULES), config).run(test);
}
