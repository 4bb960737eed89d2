//! What is watched: a kind, which of its objects, and how much of each.

use std::collections::BTreeSet;
use std::fmt;

use concert_api::ObjectKey;

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

/// What is watched. One cache, and one copy, per scope, however many read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The kind.
    pub resource: Resource,
    /// Only these namespaces, each with a watch of its own; empty for all.
    pub namespaces: BTreeSet<String>,
    /// A label selector in text form; empty for all.
    pub labels: String,
    /// A field selector in text form; empty for all.
    pub fields: String,
    /// How much of each object.
    pub form: Form,
}

impl Scope {
    /// All objects of a kind. Of Secrets only the metadata: nobody needs the secrets of a whole cluster in memory (see
    /// [`Scope::one`]).
    #[must_use]
    pub fn all(resource: Resource) -> Self {
        let form = if is_secret(&resource) { Form::Metadata } else { Form::Full };
        Self { resource, namespaces: BTreeSet::new(), labels: String::new(), fields: String::new(), form }
    }

    /// One object, in full: the way to follow a Secret that something refers to.
    #[must_use]
    pub fn one(resource: Resource, key: &ObjectKey) -> Self {
        let namespaces = Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty());
        let fields = format!("metadata.name={}", key.name);
        Self { namespaces: namespaces.into_iter().collect(), fields, form: Form::Full, ..Self::all(resource) }
    }

    /// Only the objects of these namespaces.
    #[must_use]
    pub fn in_namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Only the objects that this label selector selects.
    #[must_use]
    pub fn labelled(self, selector: impl Into<String>) -> Self {
        Self { labels: selector.into(), ..self }
    }

    /// Only the objects that this field selector selects.
    #[must_use]
    pub fn with_fields(self, selector: impl Into<String>) -> Self {
        Self { fields: selector.into(), ..self }
    }

    /// Only the metadata of the objects.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { form: Form::Metadata, ..self }
    }

    /// What one watch of this scope asks for; an empty namespace stands for all.
    #[must_use]
    pub(crate) fn selection(&self, namespace: &str) -> Selection {
        Selection { namespace: namespace.to_owned(), labels: self.labels.clone(), fields: self.fields.clone() }
    }

    /// Whether an object of this kind in this namespace is sure to be in it.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        let all = self.labels.is_empty() && self.fields.is_empty();
        all && (self.namespaces.is_empty() || self.namespaces.contains(namespace))
    }

    /// The data of Secrets are only kept one by one.
    pub(crate) fn discreet(self) -> Self {
        let one = self.namespaces.len() == 1 && self.fields.starts_with("metadata.name=") && !self.fields.contains(',');
        if is_secret(&self.resource) && !one { Self { form: Form::Metadata, ..self } } else { self }
    }
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
        let namespaces = self.namespaces.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        for (name, value) in [("namespace", &namespaces), ("labels", &self.labels), ("fields", &self.fields)] {
            if !value.is_empty() {
                write!(f, " {name}={value}")?;
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
    fn a_scope_is_told_in_words() {
        let maps = Resource::namespaced(Gvk::new("x.dev", "v1", "File"), "files");
        let scope = Scope::all(maps).in_namespaces(["b", "a"]).labelled("x=y").metadata_only();
        assert_eq!(scope.to_string(), "files.x.dev namespace=a,b labels=x=y metadata");
    }
}
