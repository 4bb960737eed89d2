//! The reconciler, and what it listens to.

use std::sync::Arc;
use std::time::Duration;

use concert_api::ObjectKey;
use concert_runtime::{
    ApiError, BuildError, Cache, Controller, EventKind, Index, Manager, Mapping, Objects, Outcome, Owner, Ownership,
    Patch, Predicate, ReconcileError, Reconciler, Recorder, Request, Resource, Scope, Selection, dynamic, set_owner,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Secret, Service};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::Database;
use crate::children::{self, APP};
use crate::database::{DatabaseStatus, Phase};

/// A Secret usually comes soon after the database that names it; and when it comes, its watch tells.
const SECRET: Duration = Duration::from_secs(5);
/// Nobody tells when a network comes.
const NETWORK: Duration = Duration::from_secs(30);

/// Makes databases.
pub struct Operator {
    databases: Objects<Database>,
    sets: Objects<StatefulSet>,
    services: Objects<Service>,
    /// Their metadata: that they are there is all we need to know.
    secrets: Cache,
    recorder: Recorder,
}

/// What a database waits for.
struct Waiting {
    message: String,
    look_again: Duration,
}

/// How far making it got.
enum Made {
    All,
    /// A StatefulSet of its name is being deleted, and has to go first.
    NotYet,
}

impl Operator {
    /// Adds the operator to a process: its kind, what it owns, and what it depends on.
    ///
    /// # Errors
    /// The description of its controller does not make sense.
    pub fn controller(manager: &Manager) -> Result<Controller, BuildError> {
        let informers = manager.informers();
        let databases = informers.objects::<Database>();
        let operator = Self {
            sets: informers.objects(),
            services: informers.objects(),
            secrets: informers.cache(Scope::all(Resource::of::<Secret>())),
            recorder: manager.recorder().clone(),
            databases: databases.clone(),
        };
        let by_secret = informers.cache(Resource::of::<Database>()).index(|database| {
            let secret = database.field(&["spec", "passwordSecret"]).and_then(|raw| serde_json::from_slice(raw).ok());
            secret.map(|name: String| ObjectKey::new(database.namespace().as_ref(), name)).into_iter().collect()
        });
        Controller::builder("databases")
            // Its own kind; a change of its status is no reason to look at it.
            .for_(Resource::of::<Database>())
            .when(Predicate::generation_changed())
            // What it makes: a StatefulSet that somebody deletes or changes is repaired.
            .owns(Resource::of::<StatefulSet>())
            .owns(Resource::of::<Service>())
            // What it depends on: a Secret concerns the databases that name it.
            .watches(Resource::of::<Secret>(), Mapping::new(move |change| users_of(&by_secret, &change.key)))
            // What it writes, for the roles of its service account.
            .writes_part(&Resource::of::<Database>(), "status", ["patch"])
            .writes(&Resource::of::<StatefulSet>(), ["create", "patch"])
            .writes(&Resource::of::<Service>(), ["create", "patch"])
            .workers(4)
            .timeout(Duration::from_secs(60))
            .run(operator)
    }

    /// Internal and external dependencies.
    async fn missing(&self, database: &Database, namespace: &str) -> Option<Waiting> {
        let secret = &database.spec.password_secret;
        if self.secrets.get(&ObjectKey::new(namespace, secret.as_str())).is_none() {
            return Some(Waiting { message: format!("waiting for Secret {secret:?}"), look_again: SECRET });
        }
        let network = database.spec.network.as_deref()?;
        match tokio::time::timeout(Duration::from_secs(3), TcpStream::connect(network)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => {
                Some(Waiting { message: format!("waiting for network {network:?}: {error}"), look_again: NETWORK })
            }
            Err(_) => Some(Waiting { message: format!("waiting for network {network:?}"), look_again: NETWORK }),
        }
    }

    /// Makes what the database is made of, and keeps it so.
    async fn make(&self, request: &Request, database: &Database) -> Result<Made, ReconcileError> {
        let (namespace, name) = (&*request.key.namespace, &*request.key.name);
        let sets = self.sets.within(request);
        let owner = Owner::of(database);
        match sets.get(&request.key).await? {
            None => {
                let mut set = children::stateful_set(database, namespace, name);
                set_owner(&mut set, &owner, Ownership::Controller)?;
                sets.create(&set).await?;
            }
            Some(set) if set.metadata.deletion_timestamp.is_some() => return Ok(Made::NotYet),
            Some(set) => self.keep(&sets, &request.key, &set, database).await?,
        }
        // Server-side apply: these fields are ours, and what we no longer say is removed.
        let mut service = children::service(namespace, name);
        dynamic::set_owner(&mut service, &owner, Ownership::Controller)?;
        if !self.is_applied(&request.key, &service) {
            self.services.within(request).apply(&service, true).await?;
        }
        Ok(Made::All)
    }

    /// Whether the Service says already what we would apply.
    fn is_applied(&self, key: &ObjectKey, wanted: &Value) -> bool {
        let known = self.services.cache().and_then(|cache| cache.get(key)).and_then(|service| service.value().ok());
        known.is_some_and(|known| says(&known, wanted))
    }

    /// Changes what differs, each by the patch that fits.
    async fn keep(
        &self,
        sets: &Objects<StatefulSet>,
        key: &ObjectKey,
        set: &StatefulSet,
        database: &Database,
    ) -> Result<(), ReconcileError> {
        if set.spec.replicas != Some(database.spec.replicas) {
            // A JSON patch: precisely this.
            let replicas = json!([{ "op": "replace", "path": "/spec/replicas", "value": database.spec.replicas }]);
            sets.patch(key, &Patch::raw_json(replicas)).await?;
        }
        let mut wanted = set.clone();
        let containers = wanted.spec.template.spec.iter_mut().flat_map(|spec| &mut spec.containers);
        for container in containers.filter(|container| container.name == "database") {
            container.image = Some(database.spec.image.clone());
        }
        // A strategic merge patch: containers are told apart by name, so that one that a webhook put beside ours stays.
        // Without a difference nothing is sent.
        let patch = Patch::strategic(sets.resource(), set, &wanted)?;
        sets.patch(key, &patch).await?;
        Ok(())
    }

    /// Writes the status, if it says something new.
    async fn tell(&self, request: &Request, database: &Database, status: DatabaseStatus) -> Result<(), ReconcileError> {
        if database.status.as_ref() == Some(&status) {
            return Ok(());
        }
        if let Some(object) = request.object().await? {
            let kind = if status.phase == Phase::Running { EventKind::Normal } else { EventKind::Warning };
            self.recorder.record(&object, kind, &format!("{:?}", status.phase), &status.message);
        }
        let mut told = database.clone();
        told.status = Some(status);
        // A merge patch of the difference.
        let patch = Patch::merge(database, &told)?;
        match self.databases.within(request).status().patch(&request.key, &patch).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// How many databases there are in a namespace: listed and filtered.
    async fn neighbours(&self, namespace: &str) -> Result<i32, ApiError> {
        let ours = Selection { namespace: namespace.to_owned(), labels: format!("app={APP}"), ..Selection::default() };
        Ok(i32::try_from(self.sets.list(&ours).await?.len()).unwrap_or(i32::MAX))
    }
}

/// Whether all of `wanted` is in `known`.
fn says(known: &Value, wanted: &Value) -> bool {
    match (known, wanted) {
        (Value::Object(known), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| known.get(name).is_some_and(|known| says(known, value)))
        }
        (Value::Array(known), Value::Array(wanted)) => {
            known.len() == wanted.len() && known.iter().zip(wanted).all(|(known, wanted)| says(known, wanted))
        }
        (known, wanted) => known == wanted,
    }
}

/// The databases that name a Secret.
fn users_of(by_secret: &Index<ObjectKey>, secret: &ObjectKey) -> Vec<ObjectKey> {
    by_secret.get(secret).iter().map(|database| database.key()).collect()
}

impl Reconciler for Operator {
    async fn reconcile(&self, request: &Request) -> Result<Outcome, ReconcileError> {
        let Some(database) = self.databases.get(&request.key).await? else {
            // It is gone, and what it owned with it.
            return Ok(Outcome::Done);
        };
        let database: &Database = &Arc::clone(&database);
        if database.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let namespace = &*request.key.namespace;
        if let Some(Waiting { message, look_again }) = self.missing(database, namespace).await {
            tracing::info!(message);
            let neighbours = self.neighbours(namespace).await?;
            self.tell(request, database, DatabaseStatus { phase: Phase::Pending, message, neighbours }).await?;
            return Ok(Outcome::After(look_again));
        }
        match self.make(request, database).await {
            // What the server will refuse again is told and left alone until somebody changes it.
            Err(error) if error.is_invalid() => {
                let (message, neighbours) = (error.to_string(), self.neighbours(namespace).await?);
                self.tell(request, database, DatabaseStatus { phase: Phase::Failed, message, neighbours }).await?;
                return Err(ReconcileError::terminal(error));
            }
            Err(error) => return Err(error),
            Ok(Made::NotYet) => {
                let message = "waiting for the old StatefulSet to go".to_owned();
                let neighbours = self.neighbours(namespace).await?;
                self.tell(request, database, DatabaseStatus { phase: Phase::Pending, message, neighbours }).await?;
                // A moment, usually: at once, and then less and less often.
                return Ok(Outcome::Backoff);
            }
            Ok(Made::All) => {}
        }
        let (message, neighbours) = ("all it is made of is there".to_owned(), self.neighbours(namespace).await?);
        self.tell(request, database, DatabaseStatus { phase: Phase::Running, message, neighbours }).await?;
        Ok(Outcome::Done)
    }
}
