//! Not too many managers: the oldest of those that update are put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use concert_api::Time;

use super::{Entry, ManagedFields, Operation};
use crate::FieldSet;

/// Managers that update and are kept apart, as in the real server.
const UPDATERS_MAX: usize = 10;
/// Who has what the oldest had.
const ANCIENT: &str = "ancient-changes";

impl ManagedFields {
    /// Puts the oldest updaters of a version together until there are few enough. One of a kind stays what it is.
    pub(crate) fn cap(&mut self) {
        let updates = |entry: &&Entry| entry.operation == Operation::Update;
        let mut length = self.entries.iter().filter(updates).count();
        if length <= UPDATERS_MAX {
            return;
        }
        let mut updaters: Vec<(i64, String, String)> = Vec::with_capacity(length);
        for entry in self.entries.iter().filter(updates) {
            let seconds = entry.time.map_or(0, Time::unix_seconds);
            updaters.push((seconds, entry.identity().key(), entry.api_version.clone()));
        }
        updaters.sort();
        let mut graves = Graves::new(std::mem::take(&mut self.entries));
        let mut first_of: BTreeMap<String, String> = BTreeMap::new();
        for (_, key, api_version) in updaters {
            if length <= UPDATERS_MAX {
                break;
            }
            match first_of.get(&api_version) {
                Some(first) => {
                    graves.bury(first, &key);
                    length -= 1;
                }
                None => drop(first_of.insert(api_version, key)),
            }
        }
        self.entries = graves.closed();
    }
}

/// All managers by their keys, some of which become one.
struct Graves {
    entries: BTreeMap<String, Entry>,
    /// What else a manager owns now; put together at the end, because there may be many.
    buried: BTreeMap<String, Vec<Arc<FieldSet>>>,
}

impl Graves {
    fn new(entries: Vec<Entry>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.identity().key(), entry)).collect();
        Self { entries, buried: BTreeMap::new() }
    }

    /// Puts a manager together with the first of its version.
    ///
    /// Where an old `ancient-changes` is not that first one (which takes equal times), it is put into itself and then
    /// dropped, with all it owned: so does the real server.
    fn bury(&mut self, first: &str, key: &str) {
        let Some(entry) = self.entries.get(key) else { return };
        let (fields, time) = (Arc::clone(&entry.fields), entry.time);
        let ancient = Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..entry.clone() };
        let grave = ancient.identity().key();
        if !self.entries.contains_key(&grave)
            && let Some(first) = self.entries.remove(first)
        {
            self.entries.insert(grave.clone(), Entry { fields: first.fields, ..ancient });
        }
        if let Some(entry) = self.entries.get_mut(&grave) {
            entry.time = time;
        }
        self.buried.entry(grave).or_default().push(fields);
        self.entries.remove(key);
    }

    fn closed(mut self) -> Vec<Entry> {
        for (grave, sets) in self.buried {
            if let Some(entry) = self.entries.get_mut(&grave) {
                let sets = sets.into_iter().map(|set| Arc::try_unwrap(set).unwrap_or_else(|set| (*set).clone()));
                Arc::make_mut(&mut entry.fields).unite(FieldSet::union_of(sets.collect()));
            }
        }
        self.entries.into_values().collect()
    }
}
