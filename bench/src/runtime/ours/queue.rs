//! Keys through the queue alone, and through a whole controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use concert_api::ObjectKey;
use concert_queue::{Outcome, Queue, priority};
use concert_runtime::{Controller, Engine, ReconcileError, Reconciler, Request};
use tokio::sync::Notify;

use super::resource;
use crate::runtime::objects::Kind;

/// So many keys at a time, as with the other subjects.
const WORKERS: usize = 10;
const NAME: &str = "keys";
/// Adds of the same few keys between two times that they are taken.
const BETWEEN: usize = 100;

/// Keys, made before anything is measured.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<ObjectKey>);

impl Keys {
    /// Like the keys of a cache, they share their namespace.
    pub(super) fn new(count: u32) -> Self {
        let shop: Arc<str> = "shop".into();
        Self((0..count).map(|number| ObjectKey::new(Arc::clone(&shop), format!("key-{number:07}"))).collect())
    }

    /// Adds all keys at once and returns when each is done, so many times: through the queue alone, or a controller.
    pub(super) async fn pass(&self, through: &str, rounds: u32, engine: &Engine) -> Result<()> {
        match through {
            "alone" => (0..rounds).for_each(|_| self.alone()),
            "controller" => self.controller(rounds, engine).await?,
            other => bail!("unsupported: {other}"),
        }
        Ok(())
    }

    fn alone(&self) {
        let mut queue = Queue::default();
        for (at, key) in self.0.iter().enumerate() {
            queue.add(key.clone(), priority::EVENT, "added", tick(at));
        }
        drain(&mut queue, self.0.len());
    }

    /// Adds a few keys again and again while they are taken now and then.
    pub(super) fn repeat(&self, few: usize, adds: usize) {
        let mut queue = Queue::default();
        for at in 0..adds {
            if let Some(key) = self.0.get(at % few.max(1)) {
                queue.add(key.clone(), priority::EVENT, "added", tick(at));
            }
            if at % BETWEEN == 0 {
                drain(&mut queue, at);
            }
        }
        drain(&mut queue, adds);
    }

    async fn controller(&self, rounds: u32, engine: &Engine) -> Result<()> {
        let count = Count::default();
        let controller = Controller::builder(NAME).for_(resource(Kind::ConfigMap)).workers(WORKERS);
        engine.add(controller.run(count.clone())?)?;
        for _ in 0..rounds {
            count.left.store(self.0.len() as u64, Ordering::SeqCst);
            self.offer(engine)?;
            count.none.notified().await;
        }
        engine.remove(NAME).await;
        Ok(())
    }

    /// Puts all keys into a running controller.
    fn offer(&self, engine: &Engine) -> Result<()> {
        let controller = engine.handle::<ObjectKey>(NAME).context("the controller is not there")?;
        self.0.iter().for_each(|key| controller.poke(key.clone()));
        Ok(())
    }
}

/// A moment later for every key.
fn tick(at: usize) -> Duration {
    Duration::from_nanos(at as u64)
}

/// Takes up to [`WORKERS`] keys at a time and gives them back.
fn drain(queue: &mut Queue<ObjectKey>, begun: usize) {
    let mut flights = Vec::with_capacity(WORKERS);
    for turn in begun.. {
        let now = tick(turn);
        while flights.len() < WORKERS {
            let Some(taken) = queue.pop(now) else { break };
            flights.push(taken.key);
        }
        if flights.is_empty() {
            return;
        }
        for key in flights.drain(..) {
            queue.done(&key, Outcome::Done, None, now);
        }
    }
}

/// Counts down.
#[derive(Clone, Default)]
struct Count {
    left: Arc<AtomicU64>,
    none: Arc<Notify>,
}

impl Reconciler for Count {
    async fn reconcile(&self, _: &Request) -> Result<Outcome, ReconcileError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.none.notify_one();
        }
        Ok(Outcome::Done)
    }
}
