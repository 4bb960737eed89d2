//! Not too many managers: the oldest of those that update are put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use concert_api::Time;

use super::{Entry, ManagedFields, Operation};

/// Managers that update and are kept apart, as in the real server.
const UPDATERS_MAX: usize = 10;
/// Who has what the oldest had.
const ANCIENT: &str = "ancient-changes";

impl ManagedFields {
    /// Puts the oldest updaters of a version together until there are few enough. One of a kind stays what it is.
    ///
    /// Where an old `ancient-changes` is not the first of its version (which takes equal times), it is put into itself
    /// and then dropped, with all it owned: so does the real server.
    pub(crate) fn cap(&mut self) {
        let updates = |entry: &&Entry| entry.operation == Operation::Update;
        let mut length = self.entries.iter().filter(updates).count();
        if length <= UPDATERS_MAX {
            return;
        }
        let mut updaters: Vec<(i64, String, Entry)> = Vec::with_capacity(length);
        for entry in self.entries.iter().filter(updates) {
            let seconds = entry.time.map_or(0, Time::unix_seconds);
            updaters.push((seconds, entry.identity().key(), entry.clone()));
        }
        updaters.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
        let mut first_of: BTreeMap<String, Entry> = BTreeMap::new();
        for (_, _, entry) in updaters {
            if length <= UPDATERS_MAX {
                break;
            }
            match first_of.get(&entry.api_version) {
                Some(first) => {
                    let first = first.clone();
                    self.bury(&first, entry);
                    length -= 1;
                }
                None => drop(first_of.insert(entry.api_version.clone(), entry)),
            }
        }
    }

    /// Puts an entry together with the first of its version.
    fn bury(&mut self, first: &Entry, entry: Entry) {
        let grave = Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..entry.clone() };
        let at = self.position(&grave.identity()).or_else(|| {
            let at = self.position(&first.identity())?;
            self.entries[at].manager = ANCIENT.to_owned();
            self.entries[at].subresource = String::new();
            Some(at)
        });
        if let Some(at) = at {
            Arc::make_mut(&mut self.entries[at].fields).unite((*entry.fields).clone());
            self.entries[at].time = entry.time;
        }
        if let Some(at) = self.position(&entry.identity()) {
            self.entries.remove(at);
        }
    }
}
