//! Events from outside, folded by key where their reader is slower than their sender.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use tokio::time::Instant;

use crate::cache::{Change, Origin};
use crate::sync::Mutex;

/// Brings events from outside of the API to controllers. Cheap to clone.
///
/// Sending never waits and never fails: of several events about one key that were not read yet, the last counts. Every
/// [`Trigger`](crate::Trigger) made of it gets every event that is sent from then on.
#[derive(Clone, Debug, Default)]
pub struct Channel(Arc<Mutex<Vec<Weak<Mailbox>>>>);

impl Channel {
    /// A channel that nobody reads yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells that something happened that concerns `object`: a real one, or one made up to carry what is known.
    pub fn send(&self, object: impl Into<Arc<Object>>) {
        let object = object.into();
        let change = Change { key: object.key(), old: None, new: Some(object), origin: Origin::External };
        let readers: Vec<Arc<Mailbox>> = {
            let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            readers.retain(|reader| reader.strong_count() > 0);
            readers.iter().filter_map(Weak::upgrade).collect()
        };
        readers.iter().for_each(|reader| reader.put(change.clone()));
    }

    /// A new reader.
    pub(crate) fn open(&self) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&mailbox));
        mailbox
    }
}

/// Changes that wait to be mapped: at most one per object, first come, first served.
#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<Letters>);

#[derive(Debug, Default)]
struct Letters {
    /// By when they came.
    order: VecDeque<(Instant, ObjectKey)>,
    by_key: BTreeMap<ObjectKey, Change>,
    folded: u64,
    /// The reader, where it waits.
    reader: Option<Waker>,
}

/// A change, and since when it (or the first one that was folded into it) waited.
pub(crate) struct Letter {
    pub(crate) change: Change,
    pub(crate) since: Instant,
}

/// What a mapping that may take its time has not done yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Changes that wait: at most one per object.
    pub waiting: usize,
    /// How long the first of them has waited.
    pub oldest: Option<Duration>,
    /// Changes that were folded into one of the same object that waited, since the beginning.
    pub folded: u64,
}

impl Mailbox {
    /// Puts a change in, or folds it into the one about the same object.
    pub(crate) fn put(&self, change: Change) {
        let mut letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Letters { order, by_key, folded, reader } = &mut *letters;
        match by_key.get_mut(&change.key) {
            Some(before) => {
                *folded += 1;
                fold(before, change);
            }
            None => {
                order.push_back((Instant::now(), change.key.clone()));
                by_key.insert(change.key.clone(), change);
            }
        }
        let reader = reader.take();
        drop(letters);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The next change. For one reader.
    pub(crate) async fn next(&self) -> Letter {
        poll_fn(|context| {
            let mut letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(letter) = letters.take() {
                return Poll::Ready(letter);
            }
            letters.reader = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// What waits in it.
    pub(crate) fn backlog(&self) -> Backlog {
        let letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = letters.order.front().map(|(since, _)| since.elapsed());
        Backlog { waiting: letters.order.len(), oldest, folded: letters.folded }
    }
}

impl Letters {
    fn take(&mut self) -> Option<Letter> {
        let (since, key) = self.order.pop_front()?;
        Some(Letter { change: self.by_key.remove(&key)?, since })
    }
}

/// Two changes of one object as one: from the state before the first to the state after the second. Where the first made
/// the object and the second took it away, the state between stands as the old one, so that it can still be mapped.
fn fold(before: &mut Change, after: Change) {
    if after.new.is_none() && before.old.is_none() {
        before.old = after.old;
    }
    before.new = after.new;
    // Whose changes these were is no longer known, as after a relist.
    let both = before.origin == after.origin && after.origin != Origin::Watched;
    before.origin = if both { after.origin } else { Origin::Relisted };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Verb;

    fn object(data: &str) -> Arc<Object> {
        Arc::new(Object::parse(format!(r#"{{"metadata":{{"name":"a"}},"data":"{data}"}}"#).into()).unwrap())
    }

    fn change(old: Option<&str>, new: Option<&str>) -> Change {
        let (old, new) = (old.map(object), new.map(object));
        Change { key: ObjectKey::cluster("a"), old, new, origin: Origin::Watched }
    }

    fn take(mailbox: &Mailbox) -> Option<Change> {
        mailbox.0.lock().unwrap().take().map(|letter| letter.change)
    }

    fn folded(changes: &[(Option<&str>, Option<&str>)]) -> (Verb, Vec<String>) {
        let mailbox = Mailbox::default();
        changes.iter().for_each(|(old, new)| mailbox.put(change(*old, *new)));
        let Backlog { waiting, oldest, folded } = mailbox.backlog();
        assert_eq!((waiting, oldest.is_some(), folded), (1, true, 1), "two changes, one letter");
        let folded = take(&mailbox).unwrap();
        assert!(take(&mailbox).is_none(), "one per object");
        let states = folded.states().map(|object| object.value().unwrap()["data"].as_str().unwrap().to_owned());
        (folded.verb(), states.collect())
    }

    #[test]
    fn changes_of_one_object_are_folded_into_one() {
        let updated = folded(&[(Some("1"), Some("2")), (Some("2"), Some("3"))]);
        assert_eq!(updated, (Verb::Updated, vec!["1".to_owned(), "3".to_owned()]));
        assert_eq!(folded(&[(None, Some("1")), (Some("1"), Some("2"))]), (Verb::Created, vec!["2".to_owned()]));
        assert_eq!(folded(&[(None, Some("1")), (Some("1"), None)]), (Verb::Deleted, vec!["1".to_owned()]));
        assert_eq!(folded(&[(Some("1"), None), (None, Some("2"))]).0, Verb::Updated, "another one of the same name");
    }

    #[test]
    fn a_channel_reaches_every_reader_and_forgets_those_who_left() {
        let channel = Channel::new();
        channel.send(object("nobody listens"));
        let (one, two) = (channel.open(), channel.open());
        drop(two);
        for data in ["1", "2"] {
            channel.send(object(data));
        }
        let event = take(&one).unwrap();
        assert_eq!((event.verb(), event.states().count()), (Verb::Generic, 1));
        assert_eq!(channel.0.lock().unwrap().len(), 1);
    }
}
