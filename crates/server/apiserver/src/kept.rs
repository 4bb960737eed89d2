//! What the real server has in its store of a custom resource, where that is not what its readers see: an apply is stored
//! as it was merged, and pruned when it is read; what comes in another version, or through a scale, is stored without
//! the defaults that a reader sees. There a write that changes nothing for readers changes what is stored, and has a
//! revision. Ours stores what readers see, and remembers a digest of what would have been stored until the next write,
//! or the next start.

use std::hash::{DefaultHasher, Hash, Hasher};

use concert_api::meta;
use serde_json::Value;

use crate::beside::Stored;
use crate::encode::is_other;
use crate::kinds::{Resource, Version};

/// The digest of what would be stored, whatever its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept(u64);

impl Kept {
    /// Of an object as it will be stored here, or as it was `before` something was taken from it or filled in; nothing
    /// where the real server stores the same.
    pub(crate) fn of(resource: &Resource, version: &Version, object: &Value, before: Option<&Value>) -> Option<Self> {
        if !resource.is_custom() {
            return None;
        }
        if version.storage {
            return before.map(|before| Self::digest(resource, before.clone()));
        }
        let storage = resource.storage();
        let (mut there, mut here) = (before.unwrap_or(object).clone(), object.clone());
        storage.schema.prune(&mut there);
        // What has no room stays out, as it does when it is stored.
        let _ = storage.schema.read(&mut here);
        (there != here).then(|| Self::digest(resource, there))
    }

    /// Whether a write of `object`, of which `kept` would be stored, leaves what is stored as it is. `same` says whether
    /// readers would see no difference.
    pub(crate) fn is_the_same(
        resource: &Resource,
        version: &Version,
        entry: &Stored,
        (object, kept): (&Value, Option<Self>),
        same: bool,
    ) -> bool {
        let before = entry.beside.kept();
        if !resource.is_custom() || (kept.is_none() && before.is_none() && !is_other(resource, version, entry)) {
            return same;
        }
        let stored = || serde_json::from_slice(&entry.bytes).ok().map(|stored| Self::digest(resource, stored));
        let written = || {
            let mut object = object.clone();
            if !version.storage {
                resource.storage().schema.prune(&mut object);
            }
            Self::digest(resource, object)
        };
        before.or_else(stored) == Some(kept.unwrap_or_else(written))
    }

    fn digest(resource: &Resource, mut object: Value) -> Self {
        object["apiVersion"] = resource.storage().gvk.api_version().into();
        meta::of(&mut object).remove("resourceVersion");
        let mut hasher = DefaultHasher::new();
        object.to_string().hash(&mut hasher);
        Self(hasher.finish())
    }
}
