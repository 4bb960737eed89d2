//! What can be asked of the API: a kind and where it lives in paths.

use std::any::TypeId;
use std::fmt;

use concert_api::{GroupResource, Gvk, ObjectKey};
use kube::core::ClusterResourceScope;

/// A kind as the API serves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// Plural, lower case: the word in paths.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// A kind whose objects live in namespaces.
    #[must_use]
    pub fn namespaced(gvk: Gvk, plural: impl Into<String>) -> Self {
        Self { gvk, plural: plural.into(), namespaced: true }
    }

    /// A kind whose objects live in the cluster as a whole.
    #[must_use]
    pub fn cluster(gvk: Gvk, plural: impl Into<String>) -> Self {
        Self { gvk, plural: plural.into(), namespaced: false }
    }

    /// The kind of a type that knows it.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self
    where
        K::Scope: 'static,
    {
        let gvk = Gvk::new(K::group(&()), K::version(&()), K::kind(&()));
        let namespaced = TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>();
        Self { gvk, plural: K::plural(&()).into_owned(), namespaced }
    }

    /// Group and plural, all versions alike.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.as_str(), self.plural.as_str())
    }

    /// `/api/v1` or `/apis/GROUP/VERSION`.
    #[must_use]
    pub fn root(gvk: &Gvk) -> String {
        if gvk.group.is_empty() {
            format!("/api/{}", gvk.version)
        } else {
            format!("/apis/{}/{}", gvk.group, gvk.version)
        }
    }

    /// The path of the collection; an empty namespace means all of them.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let root = Self::root(&self.gvk);
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/namespaces/{}/{}", escape(namespace), self.plural)
        } else {
            format!("{root}/{}", self.plural)
        }
    }

    /// The path of one object, or of its subresource.
    #[must_use]
    pub fn path(&self, key: &ObjectKey, subresource: Option<&str>) -> String {
        let object = format!("{}/{}", self.collection(&key.namespace), escape(&key.name));
        subresource.map_or(object.clone(), |subresource| format!("{object}/{subresource}"))
    }

    /// The key of an owner of this kind, seen from a child in `namespace`.
    #[must_use]
    pub fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        if self.namespaced { ObjectKey::new(namespace, name) } else { ObjectKey::cluster(name) }
    }
}

/// `plural.group/version`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group_resource(), self.gvk.version)
    }
}

/// Percent-encodes what may not stand in one segment of a path or in a query value.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_know_their_kind() {
        use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
        assert_eq!(
            Resource::of::<Deployment>(),
            Resource::namespaced(Gvk::new("apps", "v1", "Deployment"), "deployments")
        );
        assert_eq!(Resource::of::<Node>(), Resource::cluster(Gvk::new("", "v1", "Node"), "nodes"));
    }

    #[test]
    fn paths_are_those_of_the_api() {
        let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        assert_eq!(maps.collection(""), "/api/v1/configmaps");
        assert_eq!(maps.path(&ObjectKey::new("a", "b"), None), "/api/v1/namespaces/a/configmaps/b");
        let files = Resource::cluster(Gvk::new("x.dev", "v1", "File"), "files");
        assert_eq!(files.path(&ObjectKey::cluster("f"), Some("status")), "/apis/x.dev/v1/files/f/status");
        assert_eq!(files.to_string(), "files.x.dev/v1");
        assert_eq!(escape("../x y"), "..%2Fx%20y");
    }
}
