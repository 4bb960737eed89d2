//! A process while it runs: phases that start and stop, an election beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::runnable::{Component, Context};
use super::{Grace, HeldUp, Manager, ManagerError, OnLost, Parts, Phase, Stop};
use crate::engine::Engine;
use crate::events::Teller;
use crate::lease::{Lease, LeaseError, LeaseSettings, Standing};
use crate::shards::{Member, ShardSettings, Shards, Workers};
use crate::tasks::TaskGroup;

/// How long the lease may take to be released at the end.
const RELEASE: Duration = Duration::from_secs(5);
/// How long what was ended may take to come to its next wait. Until then it may still act.
const LAST_STRETCH: Duration = Duration::from_secs(3);
/// When it is said for the first time that a component is not ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// The component that is all controllers.
pub(super) const CONTROLLERS: &str = "controllers";
/// Failures that wait to be looked at; the first decides.
const FAILURES: usize = 16;

/// Where components wait for their phase, before and after the start.
#[derive(Default)]
pub(super) struct Board {
    waiting: Mutex<Waiting>,
    starting: Mutex<Vec<Starting>>,
    changed: Notify,
}

/// A component that was started and may not be ready yet.
#[derive(Clone)]
struct Starting {
    phase: Phase,
    name: String,
    ready: CancellationToken,
}

impl Starting {
    fn is_ready(&self) -> bool {
        self.ready.is_cancelled()
    }
}

#[derive(Default)]
struct Waiting {
    components: Vec<Component>,
    stopping: bool,
}

impl Board {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, component: Component) -> Result<(), ManagerError> {
        let mut waiting = self.waiting();
        if waiting.stopping {
            return Err(ManagerError::Stopping(component.name));
        }
        waiting.components.push(component);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    fn take(&self, phases: &BTreeSet<Phase>) -> Vec<Component> {
        self.waiting().components.extract_if(.., |component| phases.contains(&component.phase)).collect()
    }

    fn close(&self) {
        let mut waiting = self.waiting();
        waiting.stopping = true;
        waiting.components.clear();
    }

    fn starts(&self, starting: Starting) {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).push(starting);
    }

    /// What holds up the start of the next phase: components that have not said that they are ready.
    pub(super) fn not_ready(&self) -> Vec<String> {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        starting.retain(|component| !component.is_ready());
        let held_up = starting.iter().filter(|component| component.phase != Phase::Elected);
        held_up.map(|Starting { phase, name, .. }| format!("{name} (of phase {phase})")).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.waiting().components.iter().map(|component| component.name.clone()).collect()
    }
}

/// A running process.
pub(super) struct House {
    manager: Manager,
    started: BTreeSet<Phase>,
    phases: BTreeMap<Phase, TaskGroup>,
    /// What to run again after having been deposed; `None` if one cannot be.
    again: Option<Vec<Component>>,
    /// The elector: it lives beside the phases.
    beside: TaskGroup,
    /// The listener to signals: to the very end as well.
    signals: TaskGroup,
    /// What tells events: to the very end.
    teller: TaskGroup,
    failed: mpsc::Sender<ManagerError>,
    failures: mpsc::Receiver<ManagerError>,
}

impl House {
    pub(super) fn new(manager: Manager, teller: Teller) -> Self {
        let (failed, failures) = mpsc::channel(FAILURES);
        let phases = Phase::START.into_iter().map(|phase| (phase, TaskGroup::new(CancellationToken::new()))).collect();
        let mut tellers = TaskGroup::new(CancellationToken::new());
        tellers.spawn("events", teller.run(tellers.token().clone()));
        Self {
            manager,
            started: BTreeSet::new(),
            phases,
            again: Some(Vec::new()),
            beside: TaskGroup::new(CancellationToken::new()),
            signals: TaskGroup::new(CancellationToken::new()),
            teller: tellers,
            failed,
            failures,
        }
    }

    fn parts(&self) -> &Parts {
        &self.manager.0
    }

    /// Runs until told to stop and everything has come to its end.
    pub(super) async fn run(&mut self, stop: &Stop) -> Result<(), ManagerError> {
        stop.listen(&mut self.signals)?;
        let ended = self.live(stop).await;
        self.parts().board.close();
        if matches!(ended, Err(ManagerError::Lease(LeaseError::Lost { .. }))) {
            // Somebody else leads: every further moment is one too many.
            self.parts().engine.abort();
            return ended;
        }
        let drained = self.drain(&stop.abort).await;
        ended.and(drained)
    }

    /// Starts phase by phase, then watches over them until told to stop or something fails.
    async fn live(&mut self, stop: &Stop) -> Result<(), ManagerError> {
        let (elected, before) = (Phase::Elected, &Phase::START[..Phase::START.len() - 1]);
        for phase in before {
            let ready = self.start(*phase);
            if *phase == Phase::Always {
                self.parts().engine.go_unelected();
            }
            if self.interrupted(all(ready), stop).await? {
                return Ok(());
            }
        }
        loop {
            match self.lead(elected, stop).await {
                Err(ManagerError::Lease(LeaseError::Lost { name, why })) if self.can_rejoin() => {
                    tracing::warn!(lease = name, why, "no longer the leader: controllers are ended, and it runs again");
                    if !self.stand_down(elected).await {
                        let why = format!("{why}, and what it did as leader did not end within {LAST_STRETCH:?}");
                        return Err(LeaseError::Lost { name, why }.into());
                    }
                }
                ended => return ended,
            }
        }
    }

    /// Runs for leadership, and then whatever only a leader runs.
    async fn lead(&mut self, elected: Phase, stop: &Stop) -> Result<(), ManagerError> {
        let mut standing = self.run_for_leadership();
        let leads = async {
            // The sender lives as long as the house.
            let _ = standing.wait_for(Standing::leads).await;
        };
        if self.interrupted(leads, stop).await? {
            return Ok(());
        }
        let ready = self.start(elected);
        self.parts().engine.go();
        if !self.interrupted(all(ready), stop).await? {
            self.interrupted(std::future::pending(), stop).await?;
        }
        Ok(())
    }

    fn can_rejoin(&self) -> bool {
        self.parts().settings.on_lost == OnLost::Rejoin && self.again.is_some()
    }

    /// Ends what only a leader may do, where it is, and prepares to do it again. `false` if some of it goes on: who leads
    /// again must not meet what it began in an earlier life.
    async fn stand_down(&mut self, elected: Phase) -> bool {
        let engine = self.parts().engine.clone();
        engine.stand_by();
        self.parts().metrics.rejoined();
        let over = async {
            if let Some(group) = self.phases.get_mut(&elected) {
                group.abort().await;
            }
            engine.at_rest().await;
        };
        if tokio::time::timeout(LAST_STRETCH, over).await.is_err() {
            return false;
        }
        self.started.remove(&elected);
        for component in self.again.replace(Vec::new()).into_iter().flatten() {
            // Whoever stops the process meanwhile does not want it.
            let _ = self.parts().board.put(component);
        }
        true
    }

    /// Waits for `what`, and starts what is added meanwhile; `true` if told to stop before.
    async fn interrupted(&mut self, what: impl Future<Output = ()>, stop: &Stop) -> Result<bool, ManagerError> {
        tokio::pin!(what);
        let manager = self.manager.clone();
        loop {
            tokio::select! {
                biased;
                Some(failure) = self.failures.recv() => return Err(failure),
                failed = manager.0.engine.failure() => return Err(failed.into()),
                () = stop.drain.cancelled() => return Ok(true),
                () = stop.abort.cancelled() => return Ok(true),
                () = manager.0.board.changed.notified() => drop(self.start_waiting()),
                () = &mut what => return Ok(false),
            }
        }
    }

    /// Begins an election, or to take part in shards, or leads at once; gives where to see it.
    fn run_for_leadership(&mut self) -> watch::Receiver<Standing> {
        let Parts { settings, shards, standing, .. } = self.parts();
        let (seen, leads_at_once) = (standing.subscribe(), settings.lease.is_none());
        match (settings.lease.clone(), settings.shards.clone().zip(shards.clone())) {
            (Some(lease), _) => self.run_lease(lease),
            (None, Some((settings, shards))) => self.share_out(settings, shards),
            (None, None) => {}
        }
        if leads_at_once {
            self.parts().standing.send_replace(Standing::Leading { fence: String::new() });
        }
        seen
    }

    fn run_lease(&mut self, settings: LeaseSettings) {
        let Parts { cluster, metrics, settings: manager, .. } = self.parts();
        let (lease, mut seen) = Lease::new(cluster.client().clone(), settings, metrics.clone());
        let lease = lease.with_recorder(cluster.recorder().clone());
        let lease = manager.lock.iter().fold(lease, |lease, lock| lease.at(Arc::clone(lock)));
        let (failed, manager, cancel) = (self.failed.clone(), self.manager.clone(), self.beside.token().clone());
        self.beside.reap();
        self.beside.spawn("leader election", async move {
            let relay = async {
                while seen.changed().await.is_ok() {
                    manager.0.standing.send_replace(seen.borrow_and_update().clone());
                }
            };
            let (result, ()) = tokio::join!(lease.run(cancel), relay);
            if let Err(lost) = result {
                let _ = failed.try_send(lost.into());
            }
        });
    }

    fn share_out(&mut self, settings: ShardSettings, shards: Shards) {
        let Parts { cluster, metrics, engine, .. } = self.parts();
        let workers = Arc::new(Working { engine: engine.clone(), shards: shards.clone() });
        let member = Member::new(cluster.client(), settings, shards, workers, metrics.clone());
        let (failed, cancel) = (self.failed.clone(), self.beside.token().clone());
        self.beside.reap();
        self.beside.spawn("shards", async move {
            if let Err(lost) = member.run(cancel).await {
                let _ = failed.try_send(lost.into());
            }
        });
    }

    /// Starts a phase; gives what tells that each of its components is ready.
    fn start(&mut self, phase: Phase) -> Vec<Starting> {
        self.started.insert(phase);
        self.start_waiting()
    }

    /// Starts the components of phases that have started.
    fn start_waiting(&mut self) -> Vec<Starting> {
        let components = self.parts().board.take(&self.started);
        components.into_iter().map(|component| self.start_component(component)).collect()
    }

    fn start_component(&mut self, component: Component) -> Starting {
        let (phase, name, failed) = (component.phase, component.name.clone(), self.failed.clone());
        let ready = CancellationToken::new();
        let starting = Starting { phase, name: name.clone(), ready: ready.clone() };
        self.parts().board.starts(starting.clone());
        if phase == Phase::Elected {
            let (kept, again) = (self.again.take(), component.again());
            self.again = kept.zip(again).map(|(mut kept, again)| {
                kept.push(again);
                kept
            });
        }
        let Some(group) = self.phases.get_mut(&phase) else { return starting };
        group.reap();
        let cancel = group.token().clone();
        let running = component.start(Context { cancel: cancel.clone(), ready: Some(ready) });
        group.spawn(name.clone(), async move {
            match running.await {
                Err(error) if cancel.is_cancelled() => tracing::warn!(component = name, error, "failed while stopping"),
                // If so many fail that this does not fit, the first is what counts.
                Err(source) => drop(failed.try_send(ManagerError::Component { component: name, source })),
                Ok(()) => {}
            }
        });
        starting
    }

    /// Stops phase by phase within the grace period, then releases the lease, then tells the last events. A lease that is
    /// lost meanwhile ends everything at once.
    async fn drain(&mut self, abort: &CancellationToken) -> Result<(), ManagerError> {
        let began = Instant::now();
        let deadline = match self.parts().settings.grace {
            Grace::None => Some(began),
            Grace::For(grace) => Some(began + grace),
            Grace::Forever => None,
        };
        let (mut held_up_by, mut all_ended) = (Vec::new(), true);
        let engine = self.parts().engine.clone();
        for row in Phase::STOP {
            let had_time = !abort.is_cancelled() && deadline.is_none_or(|at| Instant::now() < at);
            let all_stopped = tokio::select! {
                biased;
                lost = lost(&mut self.failures) => {
                    engine.abort();
                    return Err(lost);
                }
                () = stop_row(&mut self.phases, row, &engine) => true,
                () = abort.cancelled() => false,
                () = out_of_time(deadline) => false,
            };
            if !all_stopped {
                let (held_up, ended) = self.abort_row(row, began).await;
                all_ended &= ended;
                // What had no time to stop is not to blame, unless it was at work.
                held_up_by.extend(held_up.into_iter().filter(|held_up| had_time || held_up.key.is_some()));
            }
        }
        self.step_down(all_ended).await;
        // It keeps a bound of its own.
        tokio::select! {
            biased;
            () = self.teller.stop() => {}
            () = abort.cancelled() => {}
        }
        let asked_for = self.parts().settings.grace == Grace::None;
        if held_up_by.is_empty() || asked_for { Ok(()) } else { Err(ManagerError::Drain { held_up_by }) }
    }

    /// Gives up leadership, unless something still runs that may act as the leader: then the lease has to run out. Nobody
    /// takes it before that, and the fence refuses what comes after it.
    async fn step_down(&mut self, all_ended: bool) {
        if !all_ended {
            tracing::warn!(
                "not everything could be ended within {LAST_STRETCH:?}: leases are not released, and the next leader has \
                 to wait until they run out"
            );
            return self.beside.abort().await;
        }
        self.beside.token().cancel();
        if tokio::time::timeout(RELEASE, self.beside.stop()).await.is_err() {
            self.beside.abort().await;
        }
    }

    /// Ends what still runs in these phases, and says what that was, and whether all of it is gone. The lease is kept
    /// meanwhile.
    async fn abort_row(&mut self, row: &[Phase], began: Instant) -> (Vec<HeldUp>, bool) {
        let (mut held_up_by, mut all_ended) = (Vec::new(), true);
        let engine = self.parts().engine.clone();
        for phase in row {
            let Some(group) = self.phases.get_mut(phase) else { continue };
            let held_up = |by: String| HeldUp { by, key: None, running: began.elapsed() };
            let working = if *phase == Phase::Elected { in_flight(&engine) } else { Vec::new() };
            // The controllers as a whole are not worth naming where their keys are.
            let named = |name: &String| working.is_empty() || name != CONTROLLERS;
            held_up_by.extend(group.running().into_iter().filter(named).map(held_up));
            held_up_by.extend(working);
            if *phase == Phase::Elected {
                engine.abort();
            }
            let gone = async {
                group.abort().await;
                if *phase == Phase::Elected {
                    engine.at_rest().await;
                }
            };
            all_ended &= tokio::time::timeout(LAST_STRETCH, gone).await.is_ok();
        }
        (held_up_by, all_ended)
    }
}

/// However it ends, also by its future being dropped: nobody renews the lease any more, so nobody may act.
impl Drop for House {
    fn drop(&mut self) {
        self.parts().engine.abort();
        self.parts().standing.send_replace(Standing::Unknown);
    }
}

/// Resolves when leadership is lost. Other failures are no news to a process that stops.
async fn lost(failures: &mut mpsc::Receiver<ManagerError>) -> ManagerError {
    loop {
        match failures.recv().await {
            Some(lost @ ManagerError::Lease(LeaseError::Lost { .. })) => return lost,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

async fn out_of_time(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Every key that is being worked on.
fn in_flight(engine: &Engine) -> Vec<HeldUp> {
    let of_one = |state: crate::engine::ControllerState| {
        let by = state.name;
        let held_up = move |(key, running): (String, Duration)| HeldUp { by: by.clone(), key: Some(key), running };
        state.in_flight.into_iter().map(held_up)
    };
    engine.list().into_iter().flat_map(of_one).collect()
}

/// Waits until all are ready, and says which are not, less and less often: what never is must not be silent.
async fn all(starting: Vec<Starting>) {
    let mut ready = std::pin::pin!(async {
        for component in &starting {
            component.ready.cancelled().await;
        }
    });
    let (mut next, mut so_far) = (PATIENCE, Duration::ZERO);
    while tokio::time::timeout(next, &mut ready).await.is_err() {
        so_far += next;
        let missing: Vec<&str> = starting
            .iter()
            .filter(|component| !component.is_ready())
            .map(|component| component.name.as_str())
            .collect();
        tracing::warn!(
            phase = starting.first().map(|component| component.phase.to_string()),
            components = missing.join(", "),
            seconds = so_far.as_secs(),
            "the process waits for components that have not said that they are ready"
        );
        next *= 2;
    }
}

/// Stops the phases of one row together. Controllers that need no election work also where none was won.
async fn stop_row(phases: &mut BTreeMap<Phase, TaskGroup>, row: &[Phase], engine: &Engine) {
    let groups = phases.iter_mut().filter(|(phase, _)| row.contains(phase));
    let stopped = futures::future::join_all(groups.map(|(_, group)| group.stop()));
    if row.contains(&Phase::Elected) {
        tokio::join!(stopped, engine.stop());
    } else {
        stopped.await;
    }
}

/// What shards ask of controllers.
struct Working {
    engine: Engine,
    shards: Shards,
}

impl Workers for Working {
    fn works_on(&self, shard: u32) -> bool {
        self.engine.works_on(|key| self.shards.shard(key) == shard)
    }

    fn replay(&self, shard: u32) {
        let shards = self.shards.clone();
        self.engine.replay(move |key| shards.shard(key) == shard);
    }
}
