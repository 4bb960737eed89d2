//! One replica: says that it is there, takes its share, hands over what is another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use concert_api::{Object, ObjectKey, Time};
use futures::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assign::assign;
use super::roster::Roster;
use super::{Held, ShardSettings, Shards, Workers, request_timeout};
use crate::client::{ApiError, Client, Preconditions, Selection};
use crate::lease::elector::{Elector, Record};
use crate::lease::{LeaseApi, LeaseError, LeaseSettings, Standing, leases};
use crate::metrics::Metrics;

/// Marks the Leases of one group of replicas; its value is the group's name.
const GROUP: &str = "concert.dev/shards";
/// Marks the Lease of a member among them.
const MEMBER: &str = "concert.dev/shard-member";

/// A Lease, and what we make of it.
struct Seat {
    name: String,
    elector: Elector,
    api: LeaseApi,
}

impl Seat {
    fn new(client: &Client, settings: LeaseSettings) -> Self {
        let api = LeaseApi::new(client.clone(), &settings);
        Self { name: settings.name.clone(), elector: Elector::new(settings), api }
    }

    /// Writes, if the Lease is ours or free; what came of it counts from when it was sent.
    async fn take(&mut self, clock: &Clock) -> Result<(), ApiError> {
        let sent = clock.now();
        let Some(write) = self.elector.wanted(sent, clock.wall()) else { return Ok(()) };
        let version = self.api.write(&write).await?;
        self.elector.wrote(write, version, sent, clock.now());
        Ok(())
    }

    async fn release(&mut self, clock: &Clock) -> Result<(), ApiError> {
        let Some(write) = self.elector.release(clock.wall()) else { return Ok(()) };
        let version = self.api.write(&write).await?;
        self.elector.released(write, version, clock.now());
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.elector.loses_at().is_some()
    }

    fn fence(&self, clock: &Clock) -> Option<String> {
        match self.elector.standing(clock.now()) {
            Standing::Leading { fence } => Some(fence),
            Standing::Unknown | Standing::Following { .. } => None,
        }
    }
}

/// Our own clock, and what the wall shows.
#[derive(Clone)]
struct Clock {
    started: Instant,
    client: Client,
}

impl Clock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall(&self) -> Time {
        Time::from(self.client.world().clock.now())
    }
}

/// See the module.
pub(crate) struct Member {
    client: Client,
    settings: ShardSettings,
    clock: Clock,
    presence: Seat,
    seats: Vec<Seat>,
    roster: Roster,
    shards: Shards,
    workers: Arc<dyn Workers>,
    metrics: Metrics,
    told: Option<String>,
}

impl Member {
    pub(crate) fn new(
        client: &Client,
        settings: ShardSettings,
        shards: Shards,
        workers: Arc<dyn Workers>,
        metrics: Metrics,
    ) -> Self {
        let client = client.clone().with_deadline(request_timeout(&settings));
        let seat = |shard: u32| Seat::new(&client, settings.shard_lease(shard));
        let seats = (0..settings.count).map(seat).collect();
        let presence = Seat::new(&client, settings.member_lease());
        let clock = Clock { started: Instant::now(), client: client.clone() };
        shards.clear();
        let roster = Roster::default();
        Self { client, settings, clock, presence, seats, roster, shards, workers, metrics, told: None }
    }

    /// Takes part until `cancel`; then gives up what it holds. What is worked on has to be over before `cancel`.
    ///
    /// # Errors
    /// A shard was lost: whatever works on its keys must end at once.
    pub(crate) async fn run(mut self, cancel: CancellationToken) -> Result<(), LeaseError> {
        let ended = loop {
            let late = self.loses_at().map(|at| self.clock.started + at);
            let round = async {
                match late {
                    Some(at) => tokio::time::timeout_at(at, self.round()).await.unwrap_or(Ok(())),
                    None => self.round().await,
                }
            };
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => break Ok(()),
                result = round => result,
            };
            self.tell_failure(result.err());
            if let Err(lost) = self.publish() {
                break Err(lost);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Ok(()),
                () = tokio::time::sleep(self.rest()) => {}
            }
        };
        self.shards.clear();
        self.metrics.shards(&self.settings.lease.name, 0);
        if ended.is_ok() {
            self.leave().await;
        }
        ended
    }

    /// How long until the next round: in step with nobody, and not after something is lost.
    fn rest(&self) -> Duration {
        let retry = self.settings.lease.retry;
        let rest = self.client.world().random.jitter(retry, 0.1);
        self.loses_at().map_or(rest, |at| rest.min(at.saturating_sub(self.clock.now())))
    }

    /// When the first of what we hold is lost unless it is renewed.
    fn loses_at(&self) -> Option<Duration> {
        self.seats.iter().filter_map(|seat| seat.elector.loses_at()).min()
    }

    /// Looks at everything, says that we are there, and takes, renews and gives up shards. What one request cannot do holds
    /// up no other: above all, what is held is renewed whatever else failed. Gives the first failure.
    async fn round(&mut self) -> Result<(), ApiError> {
        let looked = self.look().await;
        let present = self.presence.take(&self.clock).await;
        let acted = if looked.is_ok() { self.share().await } else { self.renew().await };
        // Candidates meet by conflict; the next look tells.
        let quiet = |error: &ApiError| error.is_conflict() || error.is_already_exists();
        let results = [looked, present].into_iter().chain(acted);
        results.filter(|result| !result.as_ref().err().is_some_and(quiet)).collect()
    }

    /// Takes what should be ours, renews it, and gives up what should be another's.
    async fn share(&mut self) -> Vec<Result<(), ApiError>> {
        let now = self.clock.now();
        let mut members: BTreeSet<String> = self.roster.members(now);
        members.insert(self.settings.lease.identity.clone());
        let assigned = assign(self.settings.count, &members);
        let (clock, shards, workers) = (&self.clock, &self.shards, &self.workers);
        let identity = &self.settings.lease.identity;
        let acts = self.seats.iter_mut().zip((0..).zip(assigned)).map(|(seat, (shard, wanted_by))| async move {
            match (wanted_by.as_ref() == Some(identity), seat.is_held()) {
                (true, _) => {
                    shards.stay(shard);
                    seat.take(clock).await
                }
                (false, true) => hand_over(seat, shard, clock, shards, &**workers).await,
                (false, false) => Ok(()),
            }
        });
        join_all(acts).await
    }

    /// Renews what is held, and nothing else: who is there is not known.
    async fn renew(&mut self) -> Vec<Result<(), ApiError>> {
        let clock = &self.clock;
        let held = self.seats.iter_mut().filter(|seat| seat.is_held());
        join_all(held.map(|seat| seat.take(clock))).await
    }

    /// One list shows all Leases of the group.
    async fn look(&mut self) -> Result<(), ApiError> {
        let namespace = self.settings.lease.namespace.clone();
        let labels = format!("{GROUP}={}", self.settings.lease.name);
        let listing = self.client.list(&leases(), &Selection { namespace, labels, ..Selection::default() }).await?;
        let mut by_name: BTreeMap<String, Object> =
            listing.objects.into_iter().map(|lease| (lease.name().into_owned(), lease)).collect();
        let now = self.clock.now();
        for seat in self.seats.iter_mut() {
            let seen = seat.api.listed(by_name.remove(&seat.name));
            seat.elector.saw(seen, now);
        }
        let own = self.presence.api.listed(by_name.get(&self.presence.name).cloned());
        self.presence.elector.saw(own, now);
        let is_member = |lease: &Object| lease.labels().contains_key(MEMBER);
        let members = by_name.iter().filter(|(_, lease)| is_member(lease));
        let records = members.filter_map(|(name, lease)| Some((name.clone(), Record::read(&lease.value().ok()?))));
        self.roster.saw(records.collect(), now);
        self.bury(&by_name).await;
        Ok(())
    }

    /// Removes the Leases of members that are long dead. If somebody else was faster, or it lives again: all the better.
    async fn bury(&self, leases_by_name: &BTreeMap<String, Object>) {
        for name in self.roster.remains(self.clock.now()) {
            let Some(lease) = leases_by_name.get(&name) else { continue };
            let unchanged = Some(lease.resource_version().into_owned());
            let unchanged = Preconditions { resource_version: unchanged, ..Preconditions::default() };
            let key = ObjectKey::new(self.settings.lease.namespace.as_str(), name.as_str());
            let _ = self.client.delete(&leases(), &key, &unchanged).await;
        }
    }

    /// Shows workers what is held now.
    fn publish(&mut self) -> Result<(), LeaseError> {
        for (shard, seat) in (0..).zip(&self.seats) {
            let before = self.shards.read(|shards| shards[shard as usize].clone());
            if seat.elector.is_lost(self.clock.now()) {
                let why = format!("not renewed in time, or taken over{}", self.reason());
                return Err(LeaseError::Lost { name: seat.name.clone(), why });
            }
            let Some(fence) = seat.fence(&self.clock) else {
                self.shards.set(shard, None);
                continue;
            };
            let until = self.clock.started + seat.elector.loses_at().unwrap_or_default();
            let leaving = before.as_ref().is_some_and(|held| held.leaving && held.fence == fence);
            let is_new = before.is_none_or(|held| held.fence != fence);
            self.shards.set(shard, Some(Held { fence, until, leaving }));
            if is_new {
                tracing::info!(shard, lease = seat.name, "shard acquired");
                self.workers.replay(shard);
            }
        }
        let held = self.shards.held().len();
        self.metrics.shards(&self.settings.lease.name, held);
        Ok(())
    }

    fn reason(&self) -> String {
        self.told.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    }

    fn tell_failure(&mut self, error: Option<ApiError>) {
        let reason = error.map(|error| crate::error_chain(&error));
        if let Some(reason) = &reason {
            self.metrics.election_failure(&self.settings.lease.name);
            if self.told.as_ref() != Some(reason) {
                let LeaseSettings { namespace, name, .. } = &self.settings.lease;
                tracing::warn!(
                    "cannot share out shards {name} in namespace {namespace}: {reason}; the namespace must exist, and \
                     list, create, update and delete of leases be allowed in it"
                );
            }
        }
        self.told = reason;
    }

    /// Gives everything up, so that the others need not wait.
    async fn leave(&mut self) {
        let clock = &self.clock;
        let released = join_all(self.seats.iter_mut().map(|seat| seat.release(clock))).await;
        let key = ObjectKey::new(self.settings.lease.namespace.as_str(), self.presence.name.as_str());
        let gone = self.client.delete(&leases(), &key, &Preconditions::default()).await;
        if let Some(error) = released.into_iter().chain([gone]).find_map(Result::err) {
            tracing::warn!(error = crate::error_chain(&error), "cannot give up all shards; the others have to wait");
        }
    }
}

/// Lets nothing new begin, goes on to renew while something is being worked on, and gives the shard up after that.
async fn hand_over(
    seat: &mut Seat,
    shard: u32,
    clock: &Clock,
    shards: &Shards,
    workers: &dyn Workers,
) -> Result<(), ApiError> {
    if let Some(held) = shards.read(|shards| shards[shard as usize].clone()) {
        shards.set(shard, Some(Held { leaving: true, ..held }));
    }
    if workers.works_on(shard) {
        return seat.take(clock).await;
    }
    seat.release(clock).await?;
    shards.set(shard, None);
    tracing::info!(shard, lease = seat.name, "shard handed over");
    Ok(())
}

impl ShardSettings {
    fn labelled(&self, name: String, label: (&str, String)) -> LeaseSettings {
        let mut lease = LeaseSettings { name, ..self.lease.clone() };
        lease.labels.insert(GROUP.to_owned(), self.lease.name.clone());
        lease.labels.insert(label.0.to_owned(), label.1);
        lease
    }

    fn shard_lease(&self, shard: u32) -> LeaseSettings {
        self.labelled(format!("{}-{shard}", self.lease.name), ("concert.dev/shard", shard.to_string()))
    }

    /// Identities may be anything; names may not.
    fn member_lease(&self) -> LeaseSettings {
        let identity: String =
            self.lease.identity.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let identity = identity.trim_matches('-').to_ascii_lowercase();
        self.labelled(format!("{}-member-{identity}", self.lease.name), (MEMBER, "true".to_owned()))
    }
}
