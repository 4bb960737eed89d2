//! What one process remembers about its objects between passes. Losing it is safe: waits begin anew, and marks on the
//! objects say the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_external::CreateToken;
use tokio::time::Instant;

#[derive(Debug, Default)]
struct About {
    /// Since when we have seen it absent although it should be there, for which create.
    absent: Option<(String, Instant)>,
    /// A create that this process announced on the object but knows it never sent.
    never_sent: Option<CreateToken>,
    /// Its provider has told us that it deleted it.
    deleted: bool,
    /// The resourceVersion of our newest write.
    written: Option<String>,
    /// An annotation that could not be read, and was told of.
    unreadable: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<ObjectKey, About>>);

impl Memory {
    fn with<T>(&self, key: &ObjectKey, act: impl FnOnce(&mut About) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry(key.clone()).or_default())
    }

    /// For how long `key` has been absent since the create called `create`, by our own monotonic clock.
    pub(crate) fn absent_for(&self, key: &ObjectKey, create: &str) -> Duration {
        self.with(key, |about| {
            let now = Instant::now();
            match &about.absent {
                Some((of, since)) if of == create => now.duration_since(*since),
                _ => {
                    about.absent = Some((create.to_owned(), now));
                    Duration::ZERO
                }
            }
        })
    }

    pub(crate) fn is_present(&self, key: &ObjectKey) {
        self.with(key, |about| about.absent = None);
    }

    pub(crate) fn set_deleted(&self, key: &ObjectKey) {
        self.with(key, |about| about.deleted = true);
    }

    pub(crate) fn deleted(&self, key: &ObjectKey) -> bool {
        self.with(key, |about| about.deleted)
    }

    pub(crate) fn set_never_sent(&self, key: &ObjectKey, token: Option<CreateToken>) {
        self.with(key, |about| about.never_sent = token);
    }

    pub(crate) fn never_sent(&self, key: &ObjectKey, token: &CreateToken) -> bool {
        self.with(key, |about| about.never_sent.as_ref() == Some(token))
    }

    pub(crate) fn wrote(&self, object: &Object) {
        self.with(&object.key(), |about| about.written = Some(object.resource_version().into_owned()));
    }

    pub(crate) fn is_own_write(&self, object: &Object) -> bool {
        self.with(&object.key(), |about| about.written.as_deref() == Some(&*object.resource_version()))
    }

    /// Whether an unreadable value is new, and has to be told of.
    pub(crate) fn is_news(&self, key: &ObjectKey, unreadable: &str) -> bool {
        self.with(key, |about| about.unreadable.replace(unreadable.to_owned()).as_deref() != Some(unreadable))
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
