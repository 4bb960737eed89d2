//! One replica: says that it is there, takes its share, hands over what is another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use concert_api::{Object, ObjectKey, Time};
use futures::future::join_all;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assign::assign;
use super::roster::Roster;
use super::{Held, ShardSettings, Shards, Workers, request_timeout};
use crate::client::{ApiError, Client, Deletion, Selection};
use crate::lease::elector::{Elector, Record};
use crate::lease::{LeaseApi, LeaseError, LeaseSettings, Standing, leases};
use crate::metrics::Metrics;

/// Marks the Leases of one group of replicas; its value is the group's name.
const GROUP: &str = "concert.dev/shards";
/// Marks the Lease of a member among them.
const MEMBER: &str = "concert.dev/shard-member";

/// So much of an identity is part of a Lease's name: that has at most 253 characters, with the name of the group.
const MAX_IDENTITY: usize = 128;

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

    /// Renews, unless that was done a moment ago.
    async fn keep(&mut self, clock: &Clock, since: Duration) -> Result<(), ApiError> {
        if self.elector.is_renewed_since(since) { Ok(()) } else { self.take(clock).await }
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
            let began = Instant::now();
            let late = self.loses_at().map(|at| self.patience().min(at.saturating_sub(self.clock.now())));
            let round = async {
                match late {
                    Some(after) => {
                        let action = "share out shards".to_owned();
                        let too_late = |_| Err(ApiError::TimedOut { action, write: false, after });
                        tokio::time::timeout(after, self.round()).await.unwrap_or_else(too_late)
                    }
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
                () = tokio::time::sleep_until(self.next_round(began)) => {}
            }
        };
        self.shards.clear();
        self.metrics.shards(&self.settings.lease.name, 0);
        if ended.is_ok() {
            self.leave().await;
        }
        ended
    }

    /// When the next round begins: in step with nobody, and not after something is lost.
    fn next_round(&self, began: Instant) -> Instant {
        let next = began + self.client.world().random.jitter(self.settings.lease.retry, 0.1);
        self.loses_at().map_or(next, |at| next.min(self.clock.started + at))
    }

    /// How long a round of one who holds something may take: the next one has to renew in time.
    fn patience(&self) -> Duration {
        let LeaseSettings { renew_deadline, retry, .. } = self.settings.lease;
        renew_deadline.saturating_sub(retry * 2).max(renew_deadline / 2)
    }

    /// When the first of what we hold is lost unless it is renewed.
    fn loses_at(&self) -> Option<Duration> {
        self.seats.iter().filter_map(|seat| seat.elector.loses_at()).min()
    }

    /// Renews what is held, looks at everything, says that we are there, and takes and gives up shards. What one request
    /// cannot do holds up no other, whether it fails or hangs: above all, what is held is renewed before anything else.
    /// Gives the first failure.
    async fn round(&mut self) -> Result<(), ApiError> {
        let began = self.clock.now();
        let renewed = self.renew().await;
        let looked = match self.look().await {
            Ok(remains) => self.act(remains, began).await,
            // Who is there is not known.
            Err(error) => vec![Err(error), self.presence.take(&self.clock).await],
        };
        // Candidates meet by conflict; the next look tells.
        let quiet = |error: &ApiError| error.is_conflict() || error.is_already_exists();
        let results = renewed.into_iter().chain(looked);
        results.filter(|result| !result.as_ref().err().is_some_and(quiet)).collect()
    }

    /// Says that we are there, takes what should be ours, gives up what should be another's, and buries the dead.
    async fn act(&mut self, remains: Vec<(ObjectKey, Deletion)>, began: Duration) -> Vec<Result<(), ApiError>> {
        let mut members: BTreeSet<String> = self.roster.members(self.clock.now());
        members.insert(self.settings.lease.identity.clone());
        let assigned = assign(self.settings.count, &members);
        let (client, clock, shards, workers) = (&self.client, &self.clock, &self.shards, &self.workers);
        let identity = &self.settings.lease.identity;
        let acts = self.seats.iter_mut().zip((0..).zip(assigned)).map(|(seat, (shard, wanted_by))| async move {
            let (wanted, held) = (wanted_by.as_ref() == Some(identity), seat.is_held());
            match (wanted, held) {
                (true, true) => {
                    shards.stay(shard);
                    seat.keep(clock, began).await
                }
                (true, false) => seat.take(clock).await,
                (false, _) if seat.elector.is_ours() => {
                    leave(shard, shards);
                    if workers.works_on(shard) {
                        seat.keep(clock, began).await
                    } else {
                        hand_over(seat, shard, clock, shards).await
                    }
                }
                (false, _) => Ok(()),
            }
        });
        let present = self.presence.take(clock);
        let (mut results, present, ()) = tokio::join!(join_all(acts), present, bury(client, remains));
        results.push(present);
        results
    }

    /// Renews what is held, and nothing else.
    async fn renew(&mut self) -> Vec<Result<(), ApiError>> {
        let clock = &self.clock;
        let held = self.seats.iter_mut().filter(|seat| seat.is_held());
        join_all(held.map(|seat| seat.take(clock))).await
    }

    /// One list shows all Leases of the group. Gives those of members that are long dead.
    async fn look(&mut self) -> Result<Vec<(ObjectKey, Deletion)>, ApiError> {
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
        let remains = self.roster.remains(now).into_iter().filter_map(|name| {
            let unchanged = Some(by_name.get(&name)?.resource_version().into_owned());
            let unchanged = Deletion { resource_version: unchanged, ..Deletion::default() };
            Some((ObjectKey::new(self.settings.lease.namespace.as_str(), name.as_str()), unchanged))
        });
        Ok(remains.collect())
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
        let gone = self.client.delete(&leases(), &key, &Deletion::default()).await;
        if let Some(error) = released.into_iter().chain([gone]).find_map(Result::err) {
            tracing::warn!(error = crate::error_chain(&error), "cannot give up all shards; the others have to wait");
        }
    }
}

/// Removes Leases. If somebody else was faster, or its member lives again: all the better.
async fn bury(client: &Client, remains: Vec<(ObjectKey, Deletion)>) {
    let leases = leases();
    join_all(remains.iter().map(|(key, unchanged)| client.delete(&leases, key, unchanged))).await;
}

/// Lets nothing new begin with the keys of a shard.
fn leave(shard: u32, shards: &Shards) {
    if let Some(held) = shards.read(|shards| shards[shard as usize].clone()) {
        shards.set(shard, Some(Held { leaving: true, ..held }));
    }
}

/// Gives up a shard that nobody works on. Should the answer be lost, the next round tries again, if there is need to.
async fn hand_over(seat: &mut Seat, shard: u32, clock: &Clock, shards: &Shards) -> Result<(), ApiError> {
    shards.set(shard, None);
    seat.release(clock).await?;
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

    fn member_lease(&self) -> LeaseSettings {
        let name = format!("{}-member-{}", self.lease.name, nameable(&self.lease.identity));
        self.labelled(name, (MEMBER, "true".to_owned()))
    }
}

/// Identities may be anything; names may not. What a name cannot say of one is said by a digest, so that no two are alike.
fn nameable(identity: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let cleaned: String = identity.chars().take(MAX_IDENTITY).map(plain).collect();
    let cleaned = cleaned.trim_matches('-');
    if cleaned == identity {
        return cleaned.to_owned();
    }
    let digest = Sha256::digest(identity);
    let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{cleaned}-{digest}").trim_start_matches('-').to_owned()
}
