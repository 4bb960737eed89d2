//! A controller: what it listens to, and what it does about it.

use std::sync::Arc;
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Backoff, Settings};
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CacheState, Change, Informers, Origin, Subscription};
use crate::cluster::Cluster;
use crate::engine::KeyFilter;
use crate::floors::Freshness;
use crate::metrics::Metrics;
use crate::reconciler::{AnyReconciler, Reconciler};
use crate::resource::Resource;
use crate::trigger::{Mapping, Predicate, Role, Trigger};
use crate::watch::Scope;
use crate::worker::{Intake, Workers};

/// What is wrong with a controller's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// `for_` was called twice.
    #[error("cannot build controller \"{0}\": for_ was called twice; use watches for further kinds")]
    TwoKinds(String),
    /// `owns` needs to know the owner.
    #[error("cannot build controller \"{0}\": owns was called before for_")]
    OwnsWithoutFor(String),
    /// Nothing would ever start a reconcile.
    #[error("cannot build controller \"{0}\": it listens to nothing; call for_ or watches")]
    NoSource(String),
    /// `when` qualifies a source.
    #[error("cannot build controller \"{0}\": when was called before any source")]
    WhenWithoutSource(String),
    /// `in_cluster` qualifies a source.
    #[error("cannot build controller \"{0}\": in_cluster was called before any source")]
    InClusterWithoutSource(String),
}

/// A controller, ready to be run by an [`Engine`](crate::Engine).
#[derive(Clone)]
pub struct Controller {
    name: Arc<str>,
    triggers: Vec<Trigger>,
    workers: usize,
    settings: Settings,
    timeout: Option<Duration>,
    reconciler: Arc<dyn AnyReconciler>,
}

/// Describes a [`Controller`].
#[must_use]
pub struct Builder {
    name: String,
    own: Option<Resource>,
    triggers: Vec<Trigger>,
    everywhere: Vec<Predicate>,
    workers: usize,
    settings: Settings,
    timeout: Option<Duration>,
    fault: Option<BuildError>,
}

impl Controller {
    /// Begins to describe a controller. Its name labels metrics and logs.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            own: None,
            triggers: Vec::new(),
            everywhere: Vec::new(),
            workers: 1,
            settings: Settings::default(),
            timeout: None,
            fault: None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens its caches and connects triggers to a queue. From here on the queue fills.
    pub(crate) fn warm(self, informers: &Informers, metrics: &Metrics, ours: KeyFilter) -> Warm {
        let counted = metrics.controller(&self.name, self.workers);
        let intake = Arc::new(Intake::new(self.settings, counted.clone()));
        let open = |trigger: &Trigger| trigger.informers.as_ref().unwrap_or(informers).cache(trigger.scope.clone());
        let caches: Vec<Cache> = self.triggers.iter().map(open).collect();
        let own = self.triggers.iter().position(|trigger| trigger.role == Role::For).map(|at| caches[at].clone());
        let freshness = Arc::new(Freshness::new(informers.client().clone(), caches.clone(), own));
        let connect = |(trigger, cache): (Trigger, &Cache)| {
            let intake = Arc::clone(&intake);
            cache.subscribe(move |change| intake.add(trigger.fire(change)))
        };
        let subscriptions = self.triggers.iter().cloned().zip(&caches).map(connect).collect();
        let observed = Arc::clone(&intake);
        metrics.observe(&format!("controller {}", self.name), move |_| observed.observe());
        let workers = Workers {
            name: self.name,
            count: self.workers,
            timeout: self.timeout,
            backoff: self.settings.backoff,
            intake,
            freshness,
            reconciler: self.reconciler,
            metrics: counted,
            world: informers.client().world().clone(),
            ours,
        };
        Warm { workers, triggers: self.triggers.into(), caches, subscriptions }
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Controller({})", self.name)
    }
}

/// A controller whose queue fills but whose workers have not begun.
pub(crate) struct Warm {
    workers: Workers,
    triggers: Arc<[Trigger]>,
    caches: Vec<Cache>,
    subscriptions: Vec<Subscription>,
}

/// A look at a running controller.
#[derive(Clone)]
pub(crate) struct View {
    intake: Arc<Intake>,
    triggers: Arc<[Trigger]>,
    caches: Vec<Cache>,
}

impl View {
    pub(crate) fn sources(&self) -> Vec<(Scope, CacheState)> {
        self.caches.iter().map(|cache| (cache.scope().clone(), cache.state())).collect()
    }

    pub(crate) fn in_flight(&self) -> Vec<(ObjectKey, Duration)> {
        self.intake.in_flight()
    }

    pub(crate) fn depth(&self) -> (usize, usize) {
        self.intake.depth()
    }

    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.intake.oldest()
    }

    /// Has all that is known start turns of these keys, as if the controller had just begun.
    pub(crate) fn replay(&self, keys: &dyn Fn(&ObjectKey) -> bool) {
        for (trigger, cache) in self.triggers.iter().zip(&self.caches) {
            for object in cache.list() {
                let (key, origin) = (object.key(), Origin::Initial);
                let mut wanted = trigger.fire(&Change { key, old: None, new: Some(object), origin });
                wanted.keys.retain(|key| keys(key));
                self.intake.add(wanted);
            }
        }
    }

    /// Puts a key in the queue from outside.
    pub(crate) fn poke(&self, key: ObjectKey) {
        let keys = std::collections::BTreeSet::from([key]);
        let (priority, reason) = (concert_queue::priority::EVENT, "asked for");
        self.intake.add(crate::trigger::Wanted { keys, priority, reason, revision: None });
    }
}

impl Warm {
    pub(crate) fn view(&self) -> View {
        let (intake, triggers) = (Arc::clone(&self.workers.intake), Arc::clone(&self.triggers));
        View { intake, triggers, caches: self.caches.clone() }
    }

    /// Waits for every source, then for `go`, then works until `cancel`, then drains.
    pub(crate) async fn run(self, go: CancellationToken, cancel: CancellationToken) {
        let Self { workers, caches, subscriptions, .. } = self;
        let ready = async {
            for cache in &caches {
                cache.synced().await;
            }
            go.cancelled().await;
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = ready => {}
        }
        tracing::info!(controller = %workers.name, workers = workers.count, "controller started");
        let name = Arc::clone(&workers.name);
        let working = workers.run(cancel.clone());
        // Nothing new comes in once it is told to stop, while what is in flight still reads the caches.
        let unsubscribe = async {
            cancel.cancelled().await;
            drop(subscriptions);
        };
        tokio::join!(unsubscribe, working);
        tracing::info!(controller = %name, "controller stopped");
    }
}

impl Builder {
    fn fault(&mut self, fault: fn(String) -> BuildError) {
        self.fault.get_or_insert(fault(self.name.clone()));
    }

    fn source(mut self, scope: Scope, mapping: Mapping, role: Role) -> Self {
        self.triggers.push(Trigger { scope, informers: None, mapping, predicates: Vec::new(), role });
        self
    }

    /// The kind whose objects it reconciles.
    pub fn for_(mut self, scope: impl Into<Scope>) -> Self {
        let scope = scope.into();
        if self.own.replace(scope.resource.clone()).is_some() {
            self.fault(BuildError::TwoKinds);
        }
        self.source(scope, Mapping::own(), Role::For)
    }

    /// A kind whose objects it creates: a change reconciles the controlling owner.
    pub fn owns(mut self, scope: impl Into<Scope>) -> Self {
        let Some(own) = self.own.clone() else {
            self.fault(BuildError::OwnsWithoutFor);
            return self;
        };
        self.source(scope.into(), Mapping::controller(own), Role::Owns)
    }

    /// Any other kind: `mapping` says which keys a change concerns.
    pub fn watches(self, scope: impl Into<Scope>, mapping: Mapping) -> Self {
        self.source(scope.into(), mapping, Role::Watches)
    }

    /// Changes of the source named last matter only if `predicate` holds.
    pub fn when(mut self, predicate: Predicate) -> Self {
        match self.triggers.last_mut() {
            Some(trigger) => trigger.predicates.push(predicate),
            None => self.fault(BuildError::WhenWithoutSource),
        }
        self
    }

    /// The source named last is in another cluster than the process's own.
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        match self.triggers.last_mut() {
            Some(trigger) => trigger.informers = Some(cluster.informers().clone()),
            None => self.fault(BuildError::InClusterWithoutSource),
        }
        self
    }

    /// Changes of any source matter only if `predicate` holds.
    pub fn when_all(mut self, predicate: Predicate) -> Self {
        self.everywhere.push(predicate);
        self
    }

    /// How many keys are reconciled at a time; 1 by default, and at least.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How long failing keys wait.
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        self.settings.backoff = Backoff { base, max };
        self
    }

    /// How long one reconcile may take; without limit by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Completes it with what it does.
    ///
    /// # Errors
    /// The description does not make sense.
    pub fn run(mut self, reconciler: impl Reconciler) -> Result<Controller, BuildError> {
        if self.triggers.is_empty() {
            self.fault(BuildError::NoSource);
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for trigger in &mut self.triggers {
            trigger.predicates.extend(self.everywhere.iter().cloned());
        }
        Ok(Controller {
            name: self.name.into(),
            triggers: self.triggers,
            workers: self.workers,
            settings: self.settings,
            timeout: self.timeout,
            reconciler: Arc::new(reconciler),
        })
    }
}
