//! The managers of an object as those of its scale, and back.
//!
//! A scale is another object with another name for the number of replicas. Who owns that number in one owns it in the
//! other.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use concert_api::Time;

use super::{Entry, Identity, ManagedFields};
use crate::FieldSet;

/// The version of all scales.
const SCALE_VERSION: &str = "autoscaling/v1";
/// Where a scale has the number.
static REPLICAS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec", "replicas"]]));

/// Where an object has its number of replicas.
#[derive(Clone, Copy, Debug)]
pub struct ReplicasPath<'a> {
    /// In which version.
    pub api_version: &'a str,
    /// The one path, as `FieldSet::of(&[&["spec", "replicas"]])`; `None` if this version has no scale.
    pub path: Option<&'a FieldSet>,
}

impl ManagedFields {
    /// The managed fields of the scale of an object: those who own its number of replicas.
    #[must_use]
    pub fn to_scale(&self, paths: &[ReplicasPath<'_>]) -> Self {
        let owns = |entry: &&Entry| {
            let path = path_at(paths, &entry.api_version).flatten();
            path.is_some_and(|path| entry.fields.meets(path))
        };
        let owners = self.reread();
        let entries = owners.entries.iter().filter(owns).map(|entry| Entry {
            api_version: SCALE_VERSION.to_owned(),
            fields: Arc::new(REPLICAS.clone()),
            ..entry.clone()
        });
        let mut scale = Self { entries: entries.collect() };
        scale.sort();
        scale
    }

    /// The managed fields of an object (this is how they were) after its scale was written: who does not own the number
    /// there does not own it here. New owners have no time, as in the real server.
    #[must_use]
    pub fn from_scale(&self, scale: &Self, api_version: &str, paths: &[ReplicasPath<'_>]) -> Self {
        let mut rest: HashMap<Identity<'_>, &Entry> =
            scale.entries.iter().map(|entry| (entry.identity(), entry)).collect();
        let mut object = Self::default();
        let before = self.reread();
        for entry in &before.entries {
            let Some(path) = path_at(paths, &entry.api_version) else { continue };
            let mut kept = entry.clone();
            if let Some(path) = path.filter(|path| entry.fields.meets(path))
                && rest.remove(&entry.identity()).is_none()
            {
                kept.lose(path);
            }
            object.entries.push(kept);
        }
        object.drop_empty();
        rest.retain(|_, entry| entry.fields.meets(&REPLICAS));
        // Who is on both sides only now is overwritten, with all it owned: so does the real server.
        object.entries.retain(|kept| !rest.contains_key(&kept.identity()));
        let times: HashMap<Identity<'_>, Option<Time>> =
            before.entries.iter().map(|entry| (entry.identity(), entry.time)).collect();
        let path = path_at(paths, api_version).flatten();
        for (identity, entry) in rest {
            let Some(path) = path else { continue };
            let time = times.get(&identity).copied().flatten();
            let fields = Arc::new(path.clone());
            object.entries.push(Entry { api_version: api_version.to_owned(), time, fields, ..entry.clone() });
        }
        object.sort();
        object
    }
}

/// The path in a version, if it is known.
fn path_at<'a>(paths: &[ReplicasPath<'a>], api_version: &str) -> Option<Option<&'a FieldSet>> {
    paths.iter().find(|path| path.api_version == api_version).map(|path| path.path)
}
