//! What merging asks of a schema: which members and items there are, and which of them belong together.

use std::sync::Arc;

use serde_json::Value;

use super::{Additional, Schema};
use crate::meta;

/// What a schema says about the members of an object that it does not name.
#[derive(Clone, Copy, Debug)]
pub enum Others<'a> {
    /// Nothing.
    Unsaid,
    /// There may be any.
    Any,
    /// There are none.
    Never,
    /// All of them look like this.
    Like(&'a Schema),
}

/// What a field says about itself beside its reference to a definition: it outranks what the definition says.
#[derive(Debug)]
pub(super) struct Place {
    atomic_map: Option<bool>,
    patch_strategy: String,
    patch_merge_key: String,
}

impl Place {
    fn parse(source: &Value) -> Option<Self> {
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        let place = Self {
            atomic_map: source["x-kubernetes-map-type"].as_str().map(|word| word == "atomic"),
            patch_strategy: text("x-kubernetes-patch-strategy").to_owned(),
            patch_merge_key: text("x-kubernetes-patch-merge-key").to_owned(),
        };
        let silent = place.atomic_map.is_none() && place.patch_strategy.is_empty() && place.patch_merge_key.is_empty();
        (!silent).then_some(place)
    }
}

impl Schema {
    /// The schema of the metadata that every object has.
    #[must_use]
    pub fn metadata() -> &'static Self {
        meta::schema()
    }

    /// The same definition, where `source` (which refers to it) stands.
    pub(super) fn at(&self, source: &Value) -> Self {
        Self { shared: Arc::clone(&self.shared), place: Place::parse(source).map(Arc::new) }
    }

    /// The schema of a member that it knows by name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.node().properties.get(name)
    }

    /// Whether it knows any member by name.
    #[must_use]
    pub fn has_properties(&self) -> bool {
        !self.node().properties.is_empty()
    }

    /// What a list takes for a key member that an item leaves out: its default. The structs of built-in kinds have the
    /// members that must be there in any case, if only as nothing.
    #[must_use]
    pub fn key_default(&self, name: &str) -> Option<&Value> {
        let nothing = || self.node().structure()?.nothing(name);
        self.property(name)?.default_value().or_else(nothing)
    }

    /// What it says about the other members.
    #[must_use]
    pub fn others(&self) -> Others<'_> {
        match &self.node().additional {
            Additional::Unsaid => Others::Unsaid,
            Additional::Any => Others::Any,
            Additional::Never => Others::Never,
            Additional::Schema(schema) => Others::Like(schema),
        }
    }

    /// The format as written; may be empty.
    #[must_use]
    pub fn format_name(&self) -> &str {
        &self.node().format_name
    }

    /// The Go type of a built-in kind's field (`v1.ObjectMeta`), where it has a name; may be empty.
    #[must_use]
    pub fn go_type(&self) -> &str {
        self.node().go_type()
    }

    /// Whether an object is replaced as a whole (`x-kubernetes-map-type: atomic`).
    #[must_use]
    pub fn is_atomic_map(&self) -> bool {
        self.place.as_ref().and_then(|place| place.atomic_map).unwrap_or(self.node().atomic_map)
    }

    /// How a strategic merge patch treats it (`merge`, `replace`, `retainKeys`, or several with commas); may be empty.
    #[must_use]
    pub fn patch_strategy(&self) -> &str {
        match &self.place {
            Some(place) if !place.patch_strategy.is_empty() => &place.patch_strategy,
            _ => &self.node().go().patch_strategy,
        }
    }

    /// The member that identifies the items of a list in a strategic merge patch; may be empty.
    #[must_use]
    pub fn patch_merge_key(&self) -> &str {
        match &self.place {
            Some(place) if !place.patch_merge_key.is_empty() => &place.patch_merge_key,
            _ => &self.node().go().patch_merge_key,
        }
    }
}
