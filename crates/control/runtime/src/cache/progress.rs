//! How far the watches of a cache are.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::scope::Feed;
use crate::watch::Trouble;

/// How far a cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// Whether every watch of it has listed all it asks for, at some time.
    pub synced: bool,
    /// Whether that was so once, whatever has joined it since: a namespace that comes into a set is listed later.
    pub has_been_synced: bool,
    /// How many of its watches joined it since then and have not listed all they ask for yet.
    pub joining: u64,
    /// Every change up to this revision has been seen; 0 where revisions are not numbers.
    pub revision: u64,
    /// Why nothing arrives at the moment.
    pub trouble: Option<Trouble>,
    /// How many objects could not be read and were skipped.
    pub skipped: u64,
    /// Whether a list is arriving: what is known may be older than its revision says.
    pub listing: bool,
    /// When anything was heard from the server last, by the watch that has waited longest; of one that never was, since when
    /// it waits.
    pub heard: Option<Instant>,
}

/// A place in the history that a server has at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything up to here.
    pub(crate) revision: u64,
    /// Of which of its histories.
    history: u64,
}

impl Mark {
    /// The later of two; of an earlier history nothing comes any more.
    pub(crate) fn later(self, other: Self) -> Self {
        if (self.history, self.revision) < (other.history, other.revision) { other } else { self }
    }
}

/// How far the watches of a cache are.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) feeds: BTreeMap<Feed, CacheState>,
    /// Whether it is known which watches there should be.
    pub(super) settled: bool,
    /// Whether all of them have been complete at one time.
    pub(super) has_been_synced: bool,
    /// Why what is asked for makes no sense.
    pub(super) fault: Option<&'static str>,
    /// How often a server was found to be less far than before: it was restored, or is another one.
    pub(super) history: u64,
}

impl Progress {
    pub(super) fn sum(&self) -> CacheState {
        let feeds = || self.feeds.values();
        let synced = self.is_synced();
        let has_been_synced = synced || self.has_been_synced;
        CacheState {
            synced,
            has_been_synced,
            joining: if has_been_synced { feeds().filter(|feed| !feed.synced).count() as u64 } else { 0 },
            revision: feeds().map(|feed| feed.revision).min().unwrap_or(0),
            trouble: self.fault().or_else(|| feeds().find_map(|feed| feed.trouble.clone())),
            skipped: feeds().map(|feed| feed.skipped).sum(),
            listing: feeds().any(|feed| feed.listing),
            heard: feeds().map(|feed| feed.heard).min().flatten(),
        }
    }

    fn fault(&self) -> Option<Trouble> {
        self.fault.map(|why| Trouble::Failing(why.to_owned()))
    }

    fn is_synced(&self) -> bool {
        self.settled && self.fault.is_none() && self.feeds.values().all(|feed| feed.synced)
    }

    /// What was complete once has been so, whatever comes: to be called before something joins.
    pub(super) fn remember(&mut self) {
        self.has_been_synced |= self.is_synced();
    }

    fn covering(&self, namespace: &str) -> impl Iterator<Item = (&Feed, &CacheState)> {
        self.feeds.iter().filter(move |(feed, _)| feed.covers(namespace))
    }

    /// The watches that look at a namespace; only one, if that is told of all of it.
    pub(super) fn looking(&self, namespace: &str) -> Vec<Feed> {
        let whole = self.feeds.keys().find(|feed| feed.shows(namespace)).cloned();
        whole.map_or_else(|| self.covering(namespace).map(|(feed, _)| feed.clone()).collect(), |whole| vec![whole])
    }

    /// A revision as of now.
    pub(super) fn mark(&self, revision: u64) -> Mark {
        Mark { revision, history: self.history }
    }

    /// Whether nothing up to there is still to come of a watch: it has been seen, or the server does not have that history any
    /// more, or the watch is gone.
    pub(super) fn is_feed_past(&self, feed: &Feed, mark: Mark) -> bool {
        self.history != mark.history || self.feeds.get(feed).is_none_or(|state| is_at(state, mark.revision))
    }

    /// Whether what happened in a namespace up to a revision has been seen: by one who is shown all of it, or by all who
    /// are shown some.
    pub(super) fn has_seen(&self, namespace: &str, revision: u64) -> bool {
        let whole = self.feeds.iter().any(|(feed, state)| feed.shows(namespace) && is_at(state, revision));
        whole || (self.settled && self.covering(namespace).all(|(_, state)| is_at(state, revision)))
    }
}

fn is_at(feed: &CacheState, revision: u64) -> bool {
    feed.synced && !feed.listing && feed.revision >= revision
}
