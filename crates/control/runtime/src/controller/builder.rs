//! How a controller is described: source by source, and what holds for all of them.

use std::sync::Arc;
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Backoff, RateLimiter};

use super::{BuildError, Controller, Description, Panics};
use crate::cluster::Cluster;
use crate::engine::Election;
use crate::rbac::Writes;
use crate::reconciler::{Key, Reconciler};
use crate::resource::Resource;
use crate::scope::Scope;
use crate::trigger::{Listening, Mapping, Predicate, Priorities, Role, Trigger, WhenMissing};

/// Describes a [`Controller`].
#[must_use]
pub struct Builder<K: Key = ObjectKey> {
    pub(super) name: String,
    pub(super) description: Description<K>,
    pub(super) everywhere: Vec<Predicate>,
    pub(super) fault: Option<BuildError>,
}

impl Builder {
    /// The kind whose objects it reconciles.
    pub fn for_(mut self, scope: impl Into<Scope>) -> Self {
        let scope = scope.into();
        if self.description.own.replace(scope.resource.clone()).is_some() {
            self.fault(BuildError::TwoKinds);
        }
        self.on(Trigger::kind_as(scope, Mapping::own(), Role::For))
    }

    /// A kind whose objects it creates: a change reconciles the controlling owner.
    pub fn owns(mut self, scope: impl Into<Scope>) -> Self {
        let Some(own) = self.description.own.clone() else {
            self.fault(BuildError::OwnsWithoutFor);
            return self;
        };
        self.on(Trigger::kind_as(scope.into(), Mapping::controller(own), Role::Owns))
    }

    /// A change of what was named last with [`owns`](Self::owns) reconciles every owner, not only the controlling one.
    pub fn any_owner(mut self) -> Self {
        match (&self.description.own, self.description.triggers.last_mut()) {
            (Some(own), Some(trigger)) if trigger.role == Role::Owns => trigger.mapping = Mapping::owners(own.clone()),
            _ => self.fault(BuildError::AnyOwnerWithoutOwns),
        }
        self
    }
}

impl<K: Key> Builder<K> {
    fn fault(&mut self, fault: fn(String) -> BuildError) {
        self.fault.get_or_insert(fault(self.name.clone()));
    }

    /// Listens to anything.
    pub fn on(mut self, trigger: Trigger<K>) -> Self {
        if let Listening::Kind(scope) = &trigger.origin
            && let Some(why) = scope.fault()
        {
            let (controller, scope) = (self.name.clone(), scope.to_string());
            self.fault.get_or_insert(BuildError::Scope { controller, scope, why });
        }
        self.description.triggers.push(trigger);
        self
    }

    /// Any other kind: `mapping` says which keys a change concerns.
    pub fn watches(self, scope: impl Into<Scope>, mapping: Mapping<K>) -> Self {
        self.on(Trigger::kind(scope, mapping))
    }

    /// Says something about the source that was named last.
    fn qualify(mut self, say: impl FnOnce(&mut Trigger<K>)) -> Self {
        match self.description.triggers.last_mut() {
            Some(trigger) => say(trigger),
            None => self.fault(BuildError::WhenWithoutSource),
        }
        self
    }

    /// Changes of the source named last matter only if `predicate` holds.
    pub fn when(self, predicate: Predicate) -> Self {
        self.qualify(|trigger| trigger.predicates.push(predicate))
    }

    /// What happens if the kind named last is missing or forbidden; it waits by default.
    pub fn when_missing(self, missing: WhenMissing) -> Self {
        self.qualify(|trigger| trigger.missing = missing)
    }

    /// The kind named last is that of another cluster than the process's own.
    pub fn in_cluster(self, cluster: &Cluster) -> Self {
        self.qualify(|trigger| trigger.informers = Some(cluster.informers().clone()))
    }

    /// How urgent the keys of the source named last are.
    pub fn priorities(self, priorities: Priorities) -> Self {
        self.qualify(|trigger| trigger.priorities = priorities)
    }

    /// Every object of the kind named last is looked at again once in this time; never, if it is zero.
    pub fn resync(self, period: Duration) -> Self {
        self.qualify(|trigger| trigger.resync = Some(period))
    }

    /// Says what it does to objects of a kind besides reading those it listens to (`create`, `patch`, `delete`…): for the
    /// [roles](crate::Manager::roles) of the process. If all it listens to is in certain namespaces, it is allowed there
    /// only; kinds in no namespace, other clusters, channels and sources are in none.
    /// It is not held to it; the API server is who refuses.
    pub fn writes<V: Into<String>>(mut self, resource: &Resource, verbs: impl IntoIterator<Item = V>) -> Self {
        self.description.writes.push(Writes::new(resource, None, verbs));
        self
    }

    /// The same of a subresource, such as `status`.
    pub fn writes_part<V: Into<String>>(
        mut self,
        resource: &Resource,
        part: &str,
        verbs: impl IntoIterator<Item = V>,
    ) -> Self {
        self.description.writes.push(Writes::new(resource, Some(part), verbs));
        self
    }

    /// Changes of any source matter only if `predicate` holds.
    pub fn when_all(mut self, predicate: Predicate) -> Self {
        self.everywhere.push(predicate);
        self
    }

    /// How many keys are reconciled at a time, and at least one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.description.workers = Some(workers.max(1));
        self
    }

    /// How long failing keys wait.
    pub fn backoff(self, base: Duration, max: Duration) -> Self {
        self.limiter(Backoff { base, max })
    }

    /// Who decides how long failing keys wait; see [`limiter`](concert_queue::limiter).
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.description.limiter = Some(Box::new(limiter));
        self
    }

    /// After so many failures in a row a key is given up until something changes, and counted as failed for good.
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.description.max_tries = Some(tries.max(1));
        self
    }

    /// How often the key that has been ready longest is passed over by more urgent ones at most, less one; 0 = for ever.
    pub fn ageing(mut self, ageing: u32) -> Self {
        self.description.ageing = Some(ageing);
        self
    }

    /// How long one reconcile may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.description.timeout = Some(timeout);
        self
    }

    /// When a reconcile that is still running is reported for the first time.
    pub fn slow_after(mut self, slow_after: Duration) -> Self {
        self.description.slow_after = Some(slow_after);
        self
    }

    /// What a panic of a reconcile ends.
    pub fn panics(mut self, panics: Panics) -> Self {
        self.description.panics = Some(panics);
        self
    }

    /// How long sources may take to be complete before that is an error.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.description.sync_timeout = Some(timeout);
        self
    }

    /// It works in every replica, whether that leads or not, and on all keys, shards or not: for what each process has to
    /// do for itself.
    pub fn without_election(mut self) -> Self {
        self.description.election = Election::Unneeded;
        self
    }

    /// Completes it with what it does.
    ///
    /// # Errors
    /// The description does not make sense.
    pub fn run(mut self, reconciler: impl Reconciler<K>) -> Result<Controller<K>, BuildError> {
        if self.description.triggers.is_empty() {
            self.fault(BuildError::NoSource);
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for trigger in &mut self.description.triggers {
            trigger.predicates.extend(self.everywhere.iter().cloned());
        }
        Ok(Controller { name: self.name.into(), description: self.description, reconciler: Arc::new(reconciler) })
    }
}
