//! An external system in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use concert_api::meta;
use concert_external::{
    Attempt, BoxFuture, Change, Connected, CreateToken, EXTERNAL_NAME, External, ExternalError, NamePolicy,
    Observation, Session,
};
use concert_world::World;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Something the cloud holds.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudObject {
    /// The token it was created with.
    pub token: Option<String>,
    /// What was asked for.
    pub parameters: Value,
    visible_at: Instant,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, CloudObject>,
    creates: BTreeMap<String, usize>,
}

/// See the crate. Cheap to clone; clones are the same cloud.
#[derive(Clone)]
pub struct Cloud {
    state: Arc<Mutex<State>>,
    world: World,
    names: NamePolicy,
    visible_after: Duration,
}

impl Cloud {
    /// An empty cloud that shows objects this long after it made them. `names` says whether it can find an object by
    /// the token it was created with.
    #[must_use]
    pub fn new(world: World, names: NamePolicy, visible_after: Duration) -> Self {
        Self { state: Arc::default(), world, names, visible_after }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything it holds, visible or not, by id.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, CloudObject> {
        self.state().objects.clone()
    }

    /// How often something was created for the object of this name, ever.
    #[must_use]
    pub fn creates(&self, name: &str) -> usize {
        self.state().creates.get(name).copied().unwrap_or(0)
    }

    /// Changes what an object is, as somebody with a browser would.
    pub fn meddle(&self, parameters: &Value) {
        for object in self.state().objects.values_mut() {
            object.parameters = parameters.clone();
        }
    }

    /// The id of the object that is meant, if it can be seen.
    fn find(&self, object: &Value, token: Option<&str>) -> Option<String> {
        let state = self.state();
        let by_token = || {
            let searched = self.names == NamePolicy::SearchedByToken;
            let token = token.filter(|_| searched)?;
            state.objects.iter().find(|(_, one)| one.token.as_deref() == Some(token)).map(|(id, _)| id.clone())
        };
        let named = meta::annotation(object, EXTERNAL_NAME).filter(|id| state.objects.contains_key(*id));
        let id = named.map(str::to_owned).or_else(by_token)?;
        (state.objects[&id].visible_at <= Instant::now()).then_some(id)
    }

    fn effect(&self, what: &str, name: &str, id: &str) {
        self.world.journal.record("effect", || format!("{what} {name} {id}"));
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cloud({} objects)", self.state().objects.len())
    }
}

impl External for Cloud {
    fn connect<'a>(&'a self, _: &'a Value, attempt: Attempt) -> BoxFuture<'a, Result<Connected, ExternalError>> {
        let token = attempt.token.map(|token| token.as_str().to_owned());
        let session = CloudSession { cloud: self.clone(), token };
        Box::pin(async move { Ok(Connected { session: Box::new(session), object: None }) })
    }
}

struct CloudSession {
    cloud: Cloud,
    token: Option<String>,
}

fn parameters(object: &Value) -> Value {
    object["spec"]["forProvider"].clone()
}

fn reply(object: &Value, id: &str, parameters: &Value) -> Value {
    let mut reply = object.clone();
    meta::set_annotation(&mut reply, EXTERNAL_NAME, id);
    reply["status"] = json!({
        "atProvider": {"id": id, "parameters": parameters},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
    });
    reply
}

impl Session for CloudSession {
    fn observe<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Observation, ExternalError>> {
        Box::pin(async move {
            let Some(id) = self.cloud.find(object, self.token.as_deref()) else {
                return Ok(Observation::default());
            };
            let actual = self.cloud.state().objects[&id].parameters.clone();
            Ok(Observation {
                exists: true,
                up_to_date: actual == parameters(object),
                object: Some(reply(object, &id, &actual)),
                ..Observation::default()
            })
        })
    }

    fn create<'a>(
        &'a mut self,
        object: &'a Value,
        token: &'a CreateToken,
    ) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move {
            let name = meta::text(object, "name").to_owned();
            let id = match self.cloud.names {
                NamePolicy::Deterministic => name.clone(),
                NamePolicy::Assigned | NamePolicy::SearchedByToken => format!("id-{}", self.cloud.world.random.uuid()),
            };
            let made = CloudObject {
                token: Some(token.as_str().to_owned()),
                parameters: parameters(object),
                visible_at: Instant::now() + self.cloud.visible_after,
            };
            let mut state = self.cloud.state();
            if state.objects.insert(id.clone(), made).is_none() {
                *state.creates.entry(name.clone()).or_default() += 1;
            }
            drop(state);
            self.cloud.effect("create", &name, &id);
            let object = Some(reply(object, &id, &parameters(object)));
            Ok(Change { object, ..Change::default() })
        })
    }

    fn update<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move {
            if let Some(id) = self.cloud.find(object, self.token.as_deref()) {
                if let Some(found) = self.cloud.state().objects.get_mut(&id) {
                    found.parameters = parameters(object);
                }
                self.cloud.effect("update", meta::text(object, "name"), &id);
            }
            Ok(Change::default())
        })
    }

    fn delete<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(async move {
            if let Some(id) = self.cloud.find(object, self.token.as_deref()) {
                self.cloud.state().objects.remove(&id);
                self.cloud.effect("delete", meta::text(object, "name"), &id);
            }
            Ok(Change::default())
        })
    }

    fn disconnect(self: Box<Self>) -> BoxFuture<'static, Result<(), ExternalError>> {
        Box::pin(async { Ok(()) })
    }
}
