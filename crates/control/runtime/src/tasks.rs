//! The only place that spawns: every task has an owner, who waits for its end.

use std::collections::BTreeMap;
use std::future::Future;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Tasks that belong together. They are told to stop by one token; dropping the group aborts them.
#[derive(Debug)]
pub struct TaskGroup<T = ()> {
    tasks: JoinSet<T>,
    names: BTreeMap<Id, String>,
    cancel: CancellationToken,
}

/// How a task ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// Its name.
    pub name: String,
    /// What it returned, or that it panicked or was aborted.
    pub result: Result<T, JoinError>,
}

impl<T: Send + 'static> TaskGroup<T> {
    /// An empty group that stops when `cancel` is cancelled.
    #[must_use]
    pub fn new(cancel: CancellationToken) -> Self {
        Self { tasks: JoinSet::new(), names: BTreeMap::new(), cancel }
    }

    /// The token that tells the tasks to stop.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Starts a task.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        let handle = self.tasks.spawn(task.in_current_span());
        self.names.insert(handle.id(), name.into());
        handle
    }

    /// Waits for any task to end; `None` if there is none.
    pub async fn join_next(&mut self) -> Option<Ended<T>> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, value)) => (id, Ok(value)),
            Err(error) => (error.id(), Err(error)),
        };
        Some(Ended { name: self.names.remove(&id).unwrap_or_default(), result })
    }

    /// Forgets the tasks that have ended.
    pub fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.names.remove(&ended.map_or_else(|error| error.id(), |(id, _)| id));
        }
    }

    /// Tells all tasks to stop, and waits for them.
    pub async fn stop(&mut self) {
        self.cancel.cancel();
        while self.join_next().await.is_some() {}
    }

    /// Ends all tasks where they are.
    pub async fn abort(&mut self) {
        self.tasks.shutdown().await;
        self.names.clear();
    }

    /// The names of the tasks that still run, in order.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<String> = self.names.values().cloned().collect();
        names.sort();
        names
    }

    /// How many tasks run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
