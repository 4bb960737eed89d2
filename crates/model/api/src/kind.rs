//! Names of kinds, resources and objects.

use std::fmt;
use std::sync::Arc;

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Gvk {
    /// From its parts.
    #[must_use]
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From an `apiVersion` (`group/version`, or `version` alone for the core group) and a kind.
    /// `None` if the apiVersion has more than one slash or an empty part.
    #[must_use]
    pub fn from_api_version(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let well_formed = !version.is_empty()
            && !version.contains('/')
            && !kind.is_empty()
            && (!group.is_empty() || !api_version.contains('/'));
        well_formed.then(|| Self::new(group, version, kind))
    }

    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// The text form that the provider protocol's `named` and Crossplane's metric label use.
impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource (the plural in paths) within its group. It names stored objects: all versions share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural, lower case.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// From its parts.
    #[must_use]
    pub fn new(group: impl Into<Arc<str>>, resource: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// `resource.group`, or `resource` for the core group, as in API errors.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Namespace (empty for cluster-scoped objects) and name. What travels between rooms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of a namespaced object; an empty namespace means cluster-scoped.
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }
}

/// `namespace/name`, or `name`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_parsed_strictly() {
        assert_eq!(Gvk::from_api_version("v1", "Pod"), Some(Gvk::new("", "v1", "Pod")));
        assert_eq!(Gvk::from_api_version("a.b/v1", "X"), Some(Gvk::new("a.b", "v1", "X")));
        for (api_version, kind) in [("", "X"), ("/v1", "X"), ("a/b/c", "X"), ("a/", "X"), ("a/v1", "")] {
            assert_eq!(Gvk::from_api_version(api_version, kind), None, "{api_version} {kind}");
        }
        assert_eq!(Gvk::new("a.b", "v1", "X").to_string(), "a.b/v1, Kind=X");
        assert_eq!(Gvk::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }

    #[test]
    fn names_are_written_as_people_write_them() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupResource::new("a.b", "files").to_string(), "files.a.b");
        assert_eq!(ObjectKey::new("ns", "n").to_string(), "ns/n");
        assert_eq!(ObjectKey::cluster("n").to_string(), "n");
    }
}
