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

/// How much a version of an API is preferred: `v2` > `v1` > `v2beta1` > `v1beta2` > `v1alpha1` > anything else.
#[must_use]
pub fn version_rank(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, suffix) = rest.split_at(split);
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let (stability, minor) = if suffix.is_empty() {
        (3, 0)
    } else if let Some(minor) = suffix.strip_prefix("beta") {
        (2, number(minor))
    } else if let Some(minor) = suffix.strip_prefix("alpha") {
        (1, number(minor))
    } else {
        return (0, 0, 0);
    };
    (stability, number(major), minor)
}

/// Namespace (empty for cluster-scoped objects) and name. What travels between rooms.
///
/// Ordered as the text `namespace/name` is, which is the order of lists over all namespaces: `a-b/x` before `a/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        let (left, right) = (&self.namespace, &other.namespace);
        let slash = std::iter::once(b'/');
        left.bytes().chain(slash.clone()).cmp(right.bytes().chain(slash)).then_with(|| left.cmp(right))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
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
    fn keys_are_ordered_as_their_text() {
        let mut keys: Vec<ObjectKey> = [("b", "a"), ("a", "b"), ("a-2", "c"), ("a", "a"), ("", "z"), ("a0", "a")]
            .map(|(namespace, name)| ObjectKey::new(namespace, name))
            .to_vec();
        keys.sort();
        let texts: Vec<String> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["z", "a-2/c", "a/a", "a/b", "a0/a", "b/a"]);
    }

    #[test]
    fn names_are_written_as_people_write_them() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupResource::new("a.b", "files").to_string(), "files.a.b");
        assert_eq!(ObjectKey::new("ns", "n").to_string(), "ns/n");
        assert_eq!(ObjectKey::cluster("n").to_string(), "n");
    }
}
