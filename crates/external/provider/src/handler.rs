//! One operation on one object of one kind, with the author's types erased.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use concert_external::{BoxFuture, Gvk, Observation};
use concert_protocol::external as wire;
use concert_world::World;
use futures::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::creates::{Creates, Made};
use crate::{Changed, Context, CrdError, Kind, Observed, ProviderError, Ready, Resource, crd, diff, object};

/// An object, and what came with it.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) object: Value,
    pub(crate) token: Option<String>,
}

/// What an operation did: the object to send back, and the rest.
pub(crate) struct Effect {
    pub(crate) object: Value,
    pub(crate) changed: Changed,
}

/// What handlers share: the world, the creates that run, the tasks to wait for at the end, and the news of it.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) world: World,
    pub(crate) creates: Creates,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// A kind, ready to serve.
pub(crate) trait Handler: Send + Sync {
    fn gvk(&self) -> Gvk;
    fn crd(&self) -> Result<Value, CrdError>;
    fn announce(&self) -> wire::Reconciler;
    fn observe(
        self: Arc<Self>,
        house: Arc<House>,
        visit: Visit,
    ) -> BoxFuture<'static, Result<Observation, ProviderError>>;
    fn create(self: Arc<Self>, house: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>>;
    fn update(self: Arc<Self>, house: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>>;
    fn delete(self: Arc<Self>, house: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>>;
}

/// The handler of an author's resource.
pub(crate) struct Typed<R> {
    resource: R,
    /// Of its parameters; `Null` if it cannot be made structural, which is said when the provider starts.
    schema: Value,
}

impl<R: Resource> Handler for Typed<R> {
    fn gvk(&self) -> Gvk {
        R::Parameters::gvk()
    }

    fn crd(&self) -> Result<Value, CrdError> {
        crd::crd::<R>()
    }

    fn announce(&self) -> wire::Reconciler {
        let gvk = self.gvk();
        let policy = match self.resource.names() {
            crate::NamePolicy::Assigned => wire::reconciler::NamePolicy::Assigned,
            crate::NamePolicy::Deterministic => wire::reconciler::NamePolicy::Deterministic,
            crate::NamePolicy::SearchedByToken => wire::reconciler::NamePolicy::SearchedByToken,
        };
        wire::Reconciler {
            named: gvk.to_string(),
            r#for: Some(wire::reconciler::Reference {
                api_version: gvk.api_version(),
                kind: gvk.kind,
                ..Default::default()
            }),
            name_policy: policy.into(),
            consistency_window: self.resource.consistency_window().try_into().ok(),
            session_timeout: self.resource.session_timeout().and_then(|timeout| timeout.try_into().ok()),
            crd: self.crd().map(|crd| crd.to_string().into_bytes()).unwrap_or_default(),
            ..Default::default()
        }
    }

    fn observe(
        self: Arc<Self>,
        house: Arc<House>,
        visit: Visit,
    ) -> BoxFuture<'static, Result<Observation, ProviderError>> {
        Box::pin(async move {
            let wanted = parameters::<R::Parameters>(&visit.object)?;
            let mut ctx = Context::of(&visit.object, visit.token);
            let observed = fenced(self.resource.observe(&mut ctx, &wanted)).await?;
            let mut object = visit.object;
            object::annotate(&mut object, ctx.into_changed());
            self.report(object, observed, &house.world)
        })
    }

    fn create(self: Arc<Self>, house: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>> {
        Box::pin(async move {
            let mut object = visit.object.clone();
            let task = house.tasks.spawn(Arc::clone(&self).create_once(Arc::clone(&house), visit));
            let made = match task.await {
                Ok(made) => made?,
                Err(panic) if panic.is_panic() => return Err(panicked(&*panic.into_panic())),
                Err(_) => return Err(ProviderError::unavailable("cannot create: the provider is stopping")),
            };
            object::annotate(&mut object, made.annotations);
            object::set_ready(&mut object, &Ready::Creating, house.world.clock.now());
            Ok(Effect { object, changed: made.changed })
        })
    }

    fn update(self: Arc<Self>, _: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>> {
        Box::pin(async move {
            let wanted = parameters::<R::Parameters>(&visit.object)?;
            let mut ctx = Context::of(&visit.object, visit.token);
            let changed = fenced(self.resource.update(&mut ctx, &wanted)).await?;
            let mut object = visit.object;
            object::annotate(&mut object, ctx.into_changed());
            Ok(Effect { object, changed })
        })
    }

    fn delete(self: Arc<Self>, house: Arc<House>, visit: Visit) -> BoxFuture<'static, Result<Effect, ProviderError>> {
        Box::pin(async move {
            let wanted = parameters::<R::Parameters>(&visit.object)?;
            let mut ctx = Context::of(&visit.object, visit.token);
            let changed = fenced(self.resource.delete(&mut ctx, &wanted)).await?;
            let mut object = visit.object;
            object::annotate(&mut object, ctx.into_changed());
            object::set_deleting(&mut object, house.world.clock.now());
            Ok(Effect { object, changed })
        })
    }
}

impl<R: Resource> Typed<R> {
    pub(crate) fn new(resource: R) -> Self {
        Self { resource, schema: crd::schema::<R::Parameters>("spec.forProvider").unwrap_or_default() }
    }

    /// Creates, unless this token's create already succeeded. Runs in a task of its own: nobody's hanging up stops it.
    async fn create_once(self: Arc<Self>, house: Arc<House>, visit: Visit) -> Result<Made, ProviderError> {
        let Some(token) = visit.token.clone() else { return self.create_now(visit).await };
        let slot = house.creates.slot(&format!("{} {token}", self.gvk()));
        let mut outcome = slot.lock().await;
        if let Some(made) = &*outcome {
            return Ok(made.clone());
        }
        let made = self.create_now(visit).await?;
        *outcome = Some(made.clone());
        Ok(made)
    }

    async fn create_now(&self, visit: Visit) -> Result<Made, ProviderError> {
        let wanted = parameters::<R::Parameters>(&visit.object)?;
        let mut ctx = Context::of(&visit.object, visit.token);
        let changed = self.resource.create(&mut ctx, &wanted).await?;
        Ok(Made { annotations: ctx.into_changed(), changed })
    }

    /// What Observe answers: existence, the diff, and the object with its new status.
    fn report(
        &self,
        mut object: Value,
        observed: Observed<R::Observation>,
        world: &World,
    ) -> Result<Observation, ProviderError> {
        let Observed::Present { parameters, observation, ready, connection } = observed else {
            return Ok(Observation { object: Some(object), ..Observation::default() });
        };
        let broken =
            |error: serde_json::Error| ProviderError::broken(format!("cannot encode the observation: {error}"));
        let observation = serde_json::to_value(observation).map_err(broken)?;
        let differences = diff::diff("spec.forProvider", &object["spec"]["forProvider"], &parameters, &self.schema);
        object::set_at_provider(&mut object, observation);
        object::set_ready(&mut object, &ready, world.clock.now());
        Ok(Observation {
            exists: true,
            up_to_date: differences.is_empty(),
            late_initialized: false,
            object: Some(object),
            connection,
            diff: differences.join("; "),
        })
    }
}

/// The typed parameters of an object; an error names the field.
fn parameters<P: DeserializeOwned>(object: &Value) -> Result<P, ProviderError> {
    let given = object["spec"].get("forProvider").unwrap_or(&Value::Null);
    if given.is_null() {
        return Err(ProviderError::invalid("spec.forProvider", "is required"));
    }
    serde_path_to_error::deserialize(given).map_err(|error| {
        let field = match error.path().to_string().as_str() {
            "." => "spec.forProvider".to_owned(),
            path => format!("spec.forProvider.{path}"),
        };
        ProviderError::invalid(field, error.into_inner().to_string())
    })
}

/// A panic of the author's code is an error of one operation, not the end of the provider.
async fn fenced<T>(operation: impl Future<Output = Result<T, ProviderError>>) -> Result<T, ProviderError> {
    AssertUnwindSafe(operation).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> ProviderError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ProviderError::broken(format!("the provider panicked: {}", text.unwrap_or("no message"))).outcome_unknown()
}
