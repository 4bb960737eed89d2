//! Every provider operation passes the gate.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use concert_external::{
    Attempt, BoxFuture, Change, Connected, CreateToken, ErrorClass, External, ExternalError, Observation, Operation,
    Session,
};
use concert_world::{Actor, Gateway, Stopped, World};
use serde_json::Value;

/// A port whose calls the world decides about. In production the gate is open and this is one comparison per call.
#[derive(Debug)]
pub(crate) struct Gated {
    inner: Arc<dyn External>,
    way: Arc<Way>,
}

/// Calls that are counted at a time; beyond it counting begins anew, which only a test that long would notice.
const MANY: usize = 10_000;

/// The way through the gate, and how often each call went it.
#[derive(Debug)]
struct Way {
    gateway: Gateway,
    counts: Mutex<BTreeMap<(Operation, String), u32>>,
}

impl Gated {
    pub(crate) fn new(inner: Arc<dyn External>, world: &World) -> Self {
        Self { inner, way: Arc::new(Way { gateway: Gateway::new(world), counts: Mutex::default() }) }
    }
}

impl Way {
    async fn go<T>(
        &self,
        operation: Operation,
        key: &str,
        call: impl Future<Output = Result<T, ExternalError>>,
    ) -> Result<T, ExternalError> {
        let attempt = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.len() > MANY {
                counts.clear();
            }
            let count = counts.entry((operation, key.to_owned())).or_default();
            *count += 1;
            *count - 1
        };
        let passage = self
            .gateway
            .enter(Actor::External, operation.as_str(), key, attempt)
            .await
            .map_err(|stopped| turn(operation, &stopped))?;
        let result = call.await;
        passage.leave().map_err(|stopped| turn(operation, &stopped))?;
        result
    }
}

fn turn(operation: Operation, stopped: &Stopped) -> ExternalError {
    let text = stopped.to_string();
    match stopped {
        Stopped::Refused => ExternalError::not_sent(operation, ErrorClass::Unavailable, text),
        Stopped::Failed(_) => ExternalError::failed(operation, ErrorClass::Other, text),
        Stopped::ReplyLost => ExternalError::unknown(operation, ErrorClass::Unavailable, text),
    }
}

fn key_of(object: &Value) -> String {
    let text = |field| concert_api::meta::text(object, field);
    format!("{}/{}/{}", object["kind"].as_str().unwrap_or_default(), text("namespace"), text("name"))
}

impl External for Gated {
    fn connect<'a>(&'a self, object: &'a Value, attempt: Attempt) -> BoxFuture<'a, Result<Connected, ExternalError>> {
        Box::pin(async move {
            let key = key_of(object);
            let connected = self.way.go(Operation::Connect, &key, self.inner.connect(object, attempt)).await?;
            let session = GatedSession { inner: connected.session, way: Arc::clone(&self.way), key };
            Ok(Connected { session: Box::new(session), object: connected.object })
        })
    }
}

struct GatedSession {
    inner: Box<dyn Session>,
    way: Arc<Way>,
    key: String,
}

impl Session for GatedSession {
    fn observe<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Observation, ExternalError>> {
        Box::pin(async move { self.way.go(Operation::Observe, &self.key, self.inner.observe(object)).await })
    }

    fn create<'a>(
        &'a mut self,
        object: &'a Value,
        token: &'a CreateToken,
    ) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move { self.way.go(Operation::Create, &self.key, self.inner.create(object, token)).await })
    }

    fn update<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move { self.way.go(Operation::Update, &self.key, self.inner.update(object)).await })
    }

    fn delete<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move { self.way.go(Operation::Delete, &self.key, self.inner.delete(object)).await })
    }

    fn disconnect(self: Box<Self>) -> BoxFuture<'static, Result<(), ExternalError>> {
        Box::pin(async move {
            let Self { inner, way, key } = *self;
            way.go(Operation::Disconnect, &key, inner.disconnect()).await
        })
    }
}
