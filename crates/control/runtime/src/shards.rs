//! Keys shared out over replicas: each shard of the keys is a Lease.
//!
//! Every replica has a Lease that says it is there, and sees those of the others. From who is there, each works out by
//! itself who should hold which shard, takes what is free and should be its own, and gives up what should be
//! another's, after its last reconcile of such a key has ended. The Leases decide, not the sums: replicas that see
//! different things for a moment never hold one shard both. A key is worked on only by the holder of its shard.
//!
//! As with one leader, a lease is not a lock: what must not happen twice is guarded by preconditions and by the
//! [fence](Shards::fence) of the key's shard. Deletions of objects that happened while nobody held their shard are not
//! told later; finalizers are for that.

mod assign;
mod member;
mod roster;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::lease::{LeaseError, LeaseSettings};
use assign::shard_of;
pub(crate) use member::Member;

/// No more shards than this: each is a Lease that is written every few seconds.
const MAX_SHARDS: u32 = 256;
/// The longest value of a label.
const MAX_NAME: usize = 63;

/// How keys are shared out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSettings {
    /// What the replicas have in common: the Lease of shard 3 is `NAME-3`. Its timings are those of each shard.
    pub lease: LeaseSettings,
    /// How many shards: the same in every replica, and several times as many as there will be replicas.
    pub count: u32,
}

impl ShardSettings {
    /// 16 shards, with client-go's timings.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self { lease: LeaseSettings::new(namespace, name, identity), count: 16 }
    }

    /// Whether these settings can work.
    ///
    /// # Errors
    /// [`LeaseError::Settings`], which names the values.
    pub fn check(&self) -> Result<(), LeaseError> {
        self.lease.check()?;
        let length = self.lease.name.len();
        let why = if !(1..=MAX_SHARDS).contains(&self.count) {
            format!("there can be 1 to {MAX_SHARDS} shards, not {}", self.count)
        } else if length > MAX_NAME {
            format!("its name labels the Leases of its shards, so it has at most {MAX_NAME} characters, not {length}")
        } else {
            return Ok(());
        };
        Err(LeaseError::Settings { namespace: self.lease.namespace.clone(), name: self.lease.name.clone(), why })
    }
}

/// A shard that this process holds.
#[derive(Clone, Debug)]
struct Held {
    fence: String,
    /// It is lost then, unless it is renewed.
    until: Instant,
    /// It is being handed over: nothing new begins.
    leaving: bool,
}

/// The shards that this process holds. Cheap to clone.
#[derive(Clone)]
pub struct Shards(Arc<RwLock<Vec<Option<Held>>>>);

impl Shards {
    pub(crate) fn new(count: u32) -> Self {
        Self(Arc::new(RwLock::new(vec![None; count as usize])))
    }

    fn read<T>(&self, read: impl FnOnce(&[Option<Held>]) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, shard: u32, held: Option<Held>) {
        if let Some(place) = self.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(shard as usize) {
            *place = held;
        }
    }

    /// A shard that was about to be handed over stays after all: as if it were new, since keys were turned away.
    fn stay(&self, shard: u32) {
        if self.read(|shards| shards[shard as usize].as_ref().is_some_and(|held| held.leaving)) {
            self.set(shard, None);
        }
    }

    fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).fill(None);
    }

    /// The shard of a key, by its text: `namespace/name` for objects.
    #[must_use]
    pub fn shard(&self, key: &str) -> u32 {
        shard_of(key, self.count())
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.read(|shards| u32::try_from(shards.len()).unwrap_or(0))
    }

    /// The shards that this process holds, and works on.
    #[must_use]
    pub fn held(&self) -> Vec<u32> {
        let now = Instant::now();
        let ours = |held: &Option<Held>| held.as_ref().is_some_and(|held| held.works(now));
        self.read(|shards| (0..).zip(shards).filter(|(_, held)| ours(held)).map(|(shard, _)| shard).collect())
    }

    /// Whether this process may begin to work on a key.
    #[must_use]
    pub fn owns(&self, key: &str) -> bool {
        let (shard, now) = (self.shard(key) as usize, Instant::now());
        self.read(|shards| shards.get(shard).and_then(Option::as_ref).is_some_and(|held| held.works(now)))
    }

    /// The fence of a key's shard, if this process holds it: the resourceVersion of the write that acquired it.
    #[must_use]
    pub fn fence(&self, key: &str) -> Option<String> {
        let (shard, now) = (self.shard(key) as usize, Instant::now());
        let fence = |held: &Held| (now < held.until).then(|| held.fence.clone());
        self.read(|shards| shards.get(shard).and_then(Option::as_ref).and_then(fence))
    }
}

impl Held {
    fn works(&self, now: Instant) -> bool {
        !self.leaving && now < self.until
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shards({:?} of {})", self.held(), self.count())
    }
}

/// What a member asks of the controllers.
pub(crate) trait Workers: Send + Sync {
    /// Whether a key of this shard is being worked on.
    fn works_on(&self, shard: u32) -> bool;
    /// A shard has come to this process: its keys have to be looked at.
    fn replay(&self, shard: u32);
}

/// How long a process may take to look at who is there, at most.
fn request_timeout(settings: &ShardSettings) -> Duration {
    (settings.lease.renew_deadline / 2).max(Duration::from_secs(1))
}
