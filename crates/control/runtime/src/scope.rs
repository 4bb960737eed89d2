//! What is watched: a kind, which of its objects, and how much of each.
//!
//! ```
//! # use concert_api::Gvk;
//! # use concert_runtime::{Resource, Scope};
//! # let maps = || Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
//! // All of namespace a, of b those of the web tier, and of all others those that are shared: one store, three watches.
//! let scope = Scope::all(maps())
//!     .in_namespaces(["a"])
//!     .or(|all| all.in_namespaces(["b"]).labelled("tier=web"))
//!     .or(|all| all.outside(["a", "b"]).labelled("shared"));
//! assert_eq!(
//!     scope.to_string(),
//!     "configmaps namespace=a or namespace=b labels=tier=web or outside=a,b labels=shared"
//! );
//! ```

mod namespaces;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use concert_api::{FieldSelector, LabelSelector, Object, ObjectKey, names};

pub use namespaces::Namespaces;

use crate::client::Selection;
use crate::resource::Resource;

/// How much of each object is fetched and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// All of it (but `managedFields`).
    #[default]
    Full,
    /// Its metadata: enough for who only wants to know that it changed, and whose it is.
    Metadata,
}

/// Where objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Anywhere.
    #[default]
    Anywhere,
    /// In this namespace.
    In(String),
    /// In all namespaces but these.
    Outside(BTreeSet<String>),
    /// In the namespaces of a set that may change.
    Within(Namespaces),
}

/// Some of the objects of a kind. All of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// Where they are.
    pub place: Place,
    /// A label selector in text form; empty for all.
    pub labels: String,
    /// A field selector in text form; empty for all.
    pub fields: String,
}

impl Part {
    /// The one namespace in which all of it is.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match &self.place {
            Place::In(name) => Some(name),
            Place::Anywhere | Place::Outside(_) | Place::Within(_) => None,
        }
    }

    /// The name of the one object that it is.
    pub(crate) fn name(&self) -> Option<String> {
        let fields = FieldSelector::parse(&self.fields).ok()?;
        let name = fields.required("metadata.name").filter(|_| fields.fields().count() == 1)?;
        (!name.is_empty() && names::path_segment_faults(name).is_empty()).then(|| name.to_owned())
    }
}

/// What is watched. One cache, and one copy, per scope, however many read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The kind.
    pub resource: Resource,
    /// Which of its objects: those of any of these, each with a watch of its own (with one per namespace, if it names
    /// several). An object that is in two of them is kept once.
    pub parts: BTreeSet<Part>,
    /// How much of each object.
    pub form: Form,
}

/// What one watch of a scope asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Feed {
    /// One namespace; empty for all.
    pub(crate) namespace: String,
    /// All but these, if it is all.
    outside: BTreeSet<String>,
    labels: String,
    fields: String,
}

impl Feed {
    /// Whether it would be told of some object of a namespace.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespace == namespace || (self.namespace.is_empty() && !self.outside.contains(namespace))
    }

    /// Whether it is told of every object of a namespace.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        self.covers(namespace) && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it is certain that it is told of an object like this one, wherever that is. What most fields are, only the
    /// server knows.
    pub(crate) fn selects(&self, object: &Object) -> bool {
        let value = |field: &str| if field == "metadata.name" { object.name() } else { object.namespace() };
        let fields = FieldSelector::parse(&self.fields);
        fields.is_ok_and(|fields| fields.fields().all(is_known_here) && fields.matches(value))
            && LabelSelector::parse(&self.labels).is_ok_and(|labels| labels.matches(&object.labels()))
    }

    /// Whether it may be told of an object like this one, as far as that can be judged here.
    pub(crate) fn may_select(&self, object: &Object) -> bool {
        let value = |field: &str| if field == "metadata.name" { object.name() } else { object.namespace() };
        let excludes = |test: &str| {
            FieldSelector::parse(test).is_ok_and(|test| test.fields().all(is_known_here) && !test.matches(value))
        };
        !self.fields.split(',').any(excludes)
            && LabelSelector::parse(&self.labels).is_ok_and(|labels| labels.matches(&object.labels()))
    }

    /// What of a selection it is told of; `None` if nothing.
    fn narrowed(&self, wanted: &Selection) -> Option<Selection> {
        let both = |one: &str, other: &str| match (one, other) {
            (one, "") => one.to_owned(),
            ("", other) => other.to_owned(),
            (one, other) if one == other => one.to_owned(),
            (one, other) => format!("{one},{other}"),
        };
        let own = match &*wanted.namespace {
            "" => self.selection(),
            named if self.covers(named) => {
                Self { namespace: named.to_owned(), outside: BTreeSet::new(), ..self.clone() }.selection()
            }
            _ => return None,
        };
        let (labels, fields) = (both(&own.labels, &wanted.labels), both(&own.fields, &wanted.fields));
        Some(Selection { namespace: own.namespace, labels, fields })
    }

    pub(crate) fn selection(&self) -> Selection {
        let own = Some(self.fields.clone()).filter(|fields| !fields.is_empty());
        let others = self.outside.iter().map(|namespace| format!("metadata.namespace!={namespace}"));
        let fields: Vec<String> = own.into_iter().chain(others).collect();
        Selection { namespace: self.namespace.clone(), labels: self.labels.clone(), fields: fields.join(",") }
    }
}

impl Scope {
    /// All objects of a kind. Of Secrets only the metadata: nobody needs the secrets of a whole cluster in memory (see
    /// [`Scope::one`]).
    #[must_use]
    pub fn all(resource: Resource) -> Self {
        let form = if is_secret(&resource) { Form::Metadata } else { Form::Full };
        Self { resource, parts: BTreeSet::from([Part::default()]), form }
    }

    /// One object, in full: the way to follow a Secret that something refers to.
    #[must_use]
    pub fn one(resource: Resource, key: &ObjectKey) -> Self {
        let namespace = Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty());
        let fields = format!("metadata.name={}", key.name);
        let scope = Self { form: Form::Full, ..Self::all(resource) };
        scope.in_namespaces(namespace).with_fields(fields)
    }

    /// The same parts, each made into others.
    fn each<I: IntoIterator<Item = Part>>(self, change: impl Fn(Part) -> I) -> Self {
        Self { parts: self.parts.into_iter().flat_map(change).collect(), ..self }
    }

    fn at(self, places: &[Place]) -> Self {
        self.each(|part| places.iter().map(move |place| Part { place: place.clone(), ..part.clone() }))
    }

    /// Only the objects of these namespaces; of all, if none is named.
    #[must_use]
    pub fn in_namespaces<N: Into<String>>(self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let places: Vec<Place> = namespaces.into_iter().map(|namespace| Place::In(namespace.into())).collect();
        self.at(if places.is_empty() { &[Place::Anywhere] } else { &places })
    }

    /// Only the objects of all other namespaces.
    #[must_use]
    pub fn outside<N: Into<String>>(self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let namespaces: BTreeSet<String> = namespaces.into_iter().map(Into::into).collect();
        self.at(&[if namespaces.is_empty() { Place::Anywhere } else { Place::Outside(namespaces) }])
    }

    /// Only the objects of the namespaces that are in a set, as it changes.
    #[must_use]
    pub fn within(self, namespaces: &Namespaces) -> Self {
        self.at(&[Place::Within(namespaces.clone())])
    }

    /// Only the objects that this label selector selects.
    #[must_use]
    pub fn labelled(self, selector: impl Into<String>) -> Self {
        let labels = selector.into();
        self.each(|part| [Part { labels: labels.clone(), ..part }])
    }

    /// Only the objects that this field selector selects.
    #[must_use]
    pub fn with_fields(self, selector: impl Into<String>) -> Self {
        let fields = selector.into();
        self.each(|part| [Part { fields: fields.clone(), ..part }])
    }

    /// And those objects of the same kind that `which` makes of all of them.
    #[must_use]
    pub fn or(mut self, which: impl FnOnce(Self) -> Self) -> Self {
        let all = Self { parts: BTreeSet::from([Part::default()]), ..self.clone() };
        self.parts.extend(which(all).parts);
        self
    }

    /// Only the metadata of the objects.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { form: Form::Metadata, ..self }
    }

    /// What makes no sense about it. The empty name is what servers are asked for all namespaces with: it is not passed on.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let nameless = |part: &Part| match &part.place {
            Place::Anywhere | Place::Within(_) => false,
            Place::In(name) => name.is_empty(),
            Place::Outside(names) => names.contains(""),
        };
        (self.resource.namespaced && self.parts.iter().any(nameless))
            .then_some("a namespace has no name; name it, or leave in_namespaces (or outside) out for all of them")
    }

    /// What makes no sense about it at the moment: sets of namespaces may be mended.
    pub(crate) fn fault_now(&self) -> Option<&'static str> {
        let nameless = self.sets().iter().any(|set| set.get().is_some_and(|names| names.contains("")));
        let set =
            (self.resource.namespaced && nameless).then_some("one namespace of a set has no name, and is left out");
        self.fault().or(set)
    }

    /// The watches that it takes at the moment; `false` if a set of namespaces is not known yet. None, if it makes no sense.
    pub(crate) fn feeds(&self) -> (BTreeSet<Feed>, bool) {
        let (mut feeds, mut settled) = (BTreeSet::new(), true);
        if self.fault().is_some() {
            return (feeds, false);
        }
        for Part { place, labels, fields } in &self.parts {
            let feed = |namespace: String, outside: BTreeSet<String>| Feed {
                namespace,
                outside,
                labels: labels.clone(),
                fields: fields.clone(),
            };
            match place {
                _ if !self.resource.namespaced => {
                    feeds.insert(feed(String::new(), BTreeSet::new()));
                }
                Place::Anywhere => {
                    feeds.insert(feed(String::new(), BTreeSet::new()));
                }
                Place::In(namespace) => {
                    feeds.insert(feed(namespace.clone(), BTreeSet::new()));
                }
                Place::Outside(namespaces) => {
                    feeds.insert(feed(String::new(), namespaces.clone()));
                }
                Place::Within(set) => match set.get() {
                    Some(names) => {
                        let named = names.into_iter().filter(|name| !name.is_empty());
                        feeds.extend(named.map(|name| feed(name, BTreeSet::new())));
                    }
                    None => settled = false,
                },
            }
        }
        (feeds, settled)
    }

    /// What a server has to be asked for to get those of its objects that are selected; `None` if that is not known yet.
    pub(crate) fn asks(&self, wanted: &Selection) -> Option<Vec<Selection>> {
        let (feeds, settled) = self.feeds();
        settled.then(|| feeds.iter().filter_map(|feed| feed.narrowed(wanted)).collect())
    }

    /// The sets of namespaces that it follows.
    #[expect(clippy::mutable_key_type, reason = "a set of namespaces is ordered by its name and identity, which stay")]
    pub(crate) fn sets(&self) -> BTreeSet<Namespaces> {
        let set = |part: &Part| match &part.place {
            Place::Within(set) => Some(set.clone()),
            Place::Anywhere | Place::In(_) | Place::Outside(_) => None,
        };
        self.parts.iter().filter_map(set).collect()
    }

    /// Whether one object could be shown by two watches.
    pub(crate) fn overlaps(&self) -> bool {
        let mut names = BTreeSet::new();
        let alone = |part: &Part| matches!(&part.place, Place::In(name) if names.insert(name.clone()));
        self.parts.len() > 1 && !self.parts.iter().all(alone)
    }

    /// The data of Secrets are only kept one by one.
    pub(crate) fn discreet(self) -> Self {
        let single = self.parts.first().filter(|_| self.parts.len() == 1);
        let one = single.is_some_and(|part| part.name().is_some() && part.namespace().is_some());
        if is_secret(&self.resource) && !one { Self { form: Form::Metadata, ..self } } else { self }
    }
}

/// Whether it is known here what a field of an object is.
fn is_known_here(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

fn is_secret(resource: &Resource) -> bool {
    resource.gvk.group.is_empty() && resource.plural == "secrets"
}

impl From<Resource> for Scope {
    fn from(resource: Resource) -> Self {
        Self::all(resource)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource.group_resource())?;
        // Namespaces of which the same is asked are told together.
        let mut groups: BTreeMap<(String, &str, &str), Vec<&str>> = BTreeMap::new();
        for Part { place, labels, fields } in &self.parts {
            let (word, name) = match place {
                Place::Anywhere => (String::new(), ""),
                Place::In(name) => (" namespace=".to_owned(), name.as_str()),
                Place::Outside(names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    (format!(" outside={}", names.join(",")), "")
                }
                Place::Within(set) => (format!(" within={set}"), ""),
            };
            groups.entry((word, labels, fields)).or_default().push(name);
        }
        for (at, ((word, labels, fields), names)) in groups.into_iter().enumerate() {
            f.write_str(if at > 0 { " or" } else { "" })?;
            write!(f, "{word}{}", names.join(","))?;
            for (name, value) in [("labels", labels), ("fields", fields)] {
                if !value.is_empty() {
                    write!(f, " {name}={value}")?;
                }
            }
        }
        if self.form == Form::Metadata { f.write_str(" metadata") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use concert_api::Gvk;

    #[test]
    fn the_data_of_secrets_are_kept_one_by_one_only() {
        let secrets = || Resource::namespaced(Gvk::new("", "v1", "Secret"), "secrets");
        let form = |scope: Scope| scope.discreet().form;
        assert_eq!(form(secrets().into()), Form::Metadata);
        assert_eq!(form(Scope { form: Form::Full, ..Scope::all(secrets()) }), Form::Metadata);
        let one = Scope::one(secrets(), &ObjectKey::new("a", "b"));
        assert_eq!(form(one.clone()), Form::Full);
        assert_eq!(form(one.clone().in_namespaces(["a", "b"])), Form::Metadata);
        assert_eq!(form(one.in_namespaces::<String>([])), Form::Metadata, "one name in every namespace is many");
        let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        assert_eq!(form(maps.into()), Form::Full);
    }

    #[test]
    fn one_object_is_told_from_other_selectors() {
        let name = |fields: &str| Part { fields: fields.into(), ..Part::default() }.name();
        assert_eq!((name("metadata.name=x"), name("metadata.name==x")), (Some("x".into()), Some("x".into())));
        for other in ["", "metadata.name=", "metadata.name!=x", "metadata.name=x,spec.y=z", "metadata.name=a/b", "x"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn a_scope_is_told_in_words() {
        let maps = Resource::namespaced(Gvk::new("x.dev", "v1", "File"), "files");
        let scope = Scope::all(maps).in_namespaces(["b", "a"]).labelled("x=y").metadata_only();
        assert_eq!(scope.to_string(), "files.x.dev namespace=a,b labels=x=y metadata");
    }
}
