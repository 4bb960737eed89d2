//! Controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use concert_runtime::{Cache, Controller, Engine, Outcome, Predicate, ReconcileError, Reconciler, Request};

use super::resource;
use super::tally::Tally;
use crate::runtime::objects::Kind;

/// Gets the object, looks when it was sent, and works for a while.
struct Look {
    tally: Arc<Tally>,
    work: Duration,
}

impl Reconciler for Look {
    async fn reconcile(&self, request: &Request) -> Result<Outcome, ReconcileError> {
        let object = request.object().await?;
        if !self.work.is_zero() {
            tokio::time::sleep(self.work).await;
        }
        if let Some(object) = object {
            self.tally.note(&object);
        }
        Ok(Outcome::Done)
    }
}

/// A controller of Pods that looks at changed generations only; each turn takes `micros`. Gives its cache when it is full.
pub(super) async fn pods(engine: &Engine, workers: usize, micros: u64, tally: &Arc<Tally>) -> Result<Cache> {
    tally.begin();
    let pods = resource(Kind::Pod);
    let look = Look { tally: Arc::clone(tally), work: Duration::from_micros(micros) };
    let controller =
        Controller::builder("pods").for_(pods.clone()).when(Predicate::generation_changed()).workers(workers);
    engine.add(controller.run(look)?)?;
    let cache = engine.informers().cache(pods);
    cache.synced().await;
    Ok(cache)
}

/// So many controllers of Pods, which share one cache.
pub(super) async fn share(engine: &Engine, count: u32, tally: &Arc<Tally>) -> Result<()> {
    for number in 0..count {
        let look = Look { tally: Arc::clone(tally), work: Duration::ZERO };
        engine.add(Controller::builder(format!("shared-{number}")).for_(resource(Kind::Pod)).run(look)?)?;
    }
    engine.informers().cache(resource(Kind::Pod)).synced().await;
    Ok(())
}

/// A controller for each of so many custom kinds.
pub(super) async fn kinds(engine: &Engine, count: u32, tally: &Arc<Tally>) -> Result<()> {
    tally.begin();
    for kind in (0..count).map(Kind::Custom) {
        let look = Look { tally: Arc::clone(tally), work: Duration::ZERO };
        engine.add(Controller::builder(kind.plural()).for_(resource(kind)).run(look)?)?;
    }
    for kind in (0..count).map(Kind::Custom) {
        engine.informers().cache(resource(kind)).synced().await;
    }
    Ok(())
}
