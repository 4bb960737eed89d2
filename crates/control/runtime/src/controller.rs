//! A controller: what it listens to, and what it does about it.

use std::sync::Arc;
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Backoff, Settings};
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CacheState, Informers, Subscription};
use crate::floors::Freshness;
use crate::metrics::Metrics;
use crate::reconciler::{AnyReconciler, Reconciler};
use crate::resource::Resource;
use crate::scope::Scope;
use crate::trigger::{Mapping, Predicate, Role, Trigger};
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
}

/// A controller, ready to be run by an [`Engine`](crate::Engine).
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
    pub(crate) fn warm(self, informers: &Informers, metrics: &Metrics) -> Warm {
        let counted = metrics.controller(&self.name, self.workers);
        let intake = Arc::new(Intake::new(self.settings, counted.clone()));
        let caches: Vec<Cache> = self.triggers.iter().map(|trigger| informers.cache(trigger.scope.clone())).collect();
        let own = self.triggers.iter().position(|trigger| trigger.role == Role::For).map(|at| caches[at].clone());
        let freshness = Arc::new(Freshness::new(informers.client().clone(), caches.clone(), own));
        let connect = |(trigger, cache): (Trigger, &Cache)| {
            let intake = Arc::clone(&intake);
            cache.subscribe(move |change| intake.add(trigger.fire(change)))
        };
        let subscriptions = self.triggers.into_iter().zip(&caches).map(connect).collect();
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
        };
        Warm { workers, caches, subscriptions }
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
    caches: Vec<Cache>,
    subscriptions: Vec<Subscription>,
}

/// A look at a running controller.
#[derive(Clone)]
pub(crate) struct View {
    intake: Arc<Intake>,
    caches: Vec<Cache>,
}

impl View {
    pub(crate) fn sources(&self) -> Vec<(Scope, CacheState)> {
        self.caches.iter().map(|cache| (cache.scope().clone(), cache.state())).collect()
    }

    pub(crate) fn in_flight(&self) -> Vec<ObjectKey> {
        self.intake.in_flight()
    }

    pub(crate) fn depth(&self) -> (usize, usize) {
        self.intake.depth()
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
        View { intake: Arc::clone(&self.workers.intake), caches: self.caches.clone() }
    }

    /// Waits for every source, then for `go`, then works until `cancel`, then drains.
    pub(crate) async fn run(self, go: CancellationToken, cancel: CancellationToken) {
        let Self { workers, caches, subscriptions } = self;
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
        self.triggers.push(Trigger { scope, mapping, predicates: Vec::new(), role });
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
