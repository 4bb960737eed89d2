//! Several watches of one kind that may show the same object: what the store is to make of their events. Pure.
//!
//! An object is known as long as one of them shows it, in the newest version that any of them has shown. Each watch is
//! in order in itself; between them there is none.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::ObjectKey;

use crate::watch::{Arrived, Event};

/// Which of the watches.
pub(super) type FeedNumber = u32;

/// What the store is to do.
#[derive(Debug)]
pub(super) enum Step {
    /// This.
    Apply(Event),
    /// Nobody shows this object any more, and nobody saw it go.
    Vanished(ObjectKey),
}

#[derive(Debug, Default)]
struct Shown {
    by: BTreeSet<FeedNumber>,
    /// The newest version, where versions are numbers.
    revision: u64,
}

/// One of the watches.
#[derive(Debug, Default)]
struct Showing {
    /// What the list that is arriving has named so far.
    listed: Option<BTreeSet<ObjectKey>>,
    /// What it listed and others had shown in a newer version.
    older: BTreeMap<ObjectKey, Arrived>,
    /// How far it is.
    revision: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Union {
    feeds: BTreeMap<FeedNumber, Showing>,
    shown: BTreeMap<ObjectKey, Shown>,
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Union {
    /// Takes an event of one watch.
    pub(super) fn take(&mut self, feed: FeedNumber, event: Event) -> Vec<Step> {
        match event {
            Event::Reset => {
                let showing = self.feeds.entry(feed).or_default();
                (showing.listed, showing.older) = (Some(BTreeSet::new()), BTreeMap::new());
                Vec::new()
            }
            Event::Listed(arrived) => {
                let showing = self.feeds.entry(feed).or_default();
                showing.listed.get_or_insert_default().insert(arrived.glance.key.clone());
                if self.is_news(feed, &arrived) {
                    return vec![Step::Apply(Event::Listed(arrived))];
                }
                self.feeds.entry(feed).or_default().older.insert(arrived.glance.key.clone(), arrived);
                Vec::new()
            }
            Event::Applied(arrived) => {
                self.saw(feed, number(&arrived.glance.resource_version));
                let news = self.is_news(feed, &arrived);
                news.then(|| Step::Apply(Event::Applied(arrived))).into_iter().collect()
            }
            Event::Deleted(arrived) => {
                self.saw(feed, number(&arrived.glance.resource_version));
                let gone = self.hides(feed, &arrived.glance.key);
                gone.then(|| Step::Apply(Event::Deleted(arrived))).into_iter().collect()
            }
            Event::Complete(at) => self.complete(feed, at),
            Event::Progress(ref at) => {
                self.saw(feed, number(at));
                Vec::new()
            }
            Event::Opened | Event::Trouble(_) | Event::Skipped { .. } => Vec::new(),
        }
    }

    /// A watch ends: what only it has shown is gone, for us.
    pub(super) fn leave(&mut self, feed: FeedNumber) -> Vec<Step> {
        self.feeds.remove(&feed);
        self.sweep(feed, &BTreeSet::new())
    }

    /// Whether a watch shows an object.
    pub(super) fn is_shown_by(&self, feed: FeedNumber, key: &ObjectKey) -> bool {
        self.shown.get(key).is_some_and(|shown| shown.by.contains(&feed))
    }

    fn saw(&mut self, feed: FeedNumber, revision: u64) {
        let showing = self.feeds.entry(feed).or_default();
        showing.revision = showing.revision.max(revision);
    }

    /// A watch shows an object; whether in a version that is to be kept. What was shown in a newer one is late,
    /// not news.
    fn is_news(&mut self, feed: FeedNumber, arrived: &Arrived) -> bool {
        let revision = number(&arrived.glance.resource_version);
        let shown = self.shown.entry(arrived.glance.key.clone()).or_default();
        let late = revision < shown.revision;
        shown.by.insert(feed);
        if !late {
            shown.revision = revision;
        }
        !late
    }

    /// A watch shows an object no more; whether nobody does.
    fn hides(&mut self, feed: FeedNumber, key: &ObjectKey) -> bool {
        let Some(shown) = self.shown.get_mut(key) else { return false };
        let is_last = shown.by.remove(&feed) && shown.by.is_empty();
        if is_last {
            self.shown.remove(key);
        }
        is_last
    }

    fn complete(&mut self, feed: FeedNumber, at: String) -> Vec<Step> {
        let showing = self.feeds.entry(feed).or_default();
        let (listed, older) = (showing.listed.take(), std::mem::take(&mut showing.older));
        // A server that is less far than it was has lost its history: what seemed late is all there is.
        let lost = number(&at) < std::mem::replace(&mut showing.revision, number(&at));
        let mut steps = Vec::new();
        if lost {
            for (key, arrived) in older {
                if let Some(shown) = self.shown.get_mut(&key) {
                    shown.revision = number(&arrived.glance.resource_version);
                }
                steps.push(Step::Apply(Event::Listed(arrived)));
            }
        }
        if let Some(listed) = listed {
            steps.extend(self.sweep(feed, &listed));
        }
        steps.push(Step::Apply(Event::Complete(at)));
        steps
    }

    /// What a watch has shown is gone for it, but for some.
    fn sweep(&mut self, feed: FeedNumber, but: &BTreeSet<ObjectKey>) -> Vec<Step> {
        let stale =
            |(key, shown): (&ObjectKey, &Shown)| (shown.by.contains(&feed) && !but.contains(key)).then(|| key.clone());
        let stale: Vec<ObjectKey> = self.shown.iter().filter_map(stale).collect();
        stale.into_iter().filter(|key| self.hides(feed, key)).map(Step::Vanished).collect()
    }
}

#[cfg(test)]
mod tests;
