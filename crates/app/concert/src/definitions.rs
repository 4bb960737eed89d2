//! Which kinds the cluster serves, as its definitions say.

use concert_api::{Condition, Gvk, Object};
use concert_runtime::{Cache, Informers, Resource};
use serde_json::Value;

/// A kind that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) resource: Resource,
    pub(crate) status_subresource: bool,
}

/// A view on all definitions, kept by a watch.
#[derive(Debug)]
pub(crate) struct Definitions(Cache);

impl Definitions {
    pub(crate) fn new(informers: &Informers) -> Self {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Self(informers.cache(Resource::cluster(gvk, "customresourcedefinitions")))
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.0
    }

    /// How a kind is served; `None` if it is not (yet, or any more).
    pub(crate) fn find(&self, gvk: &Gvk) -> Option<Served> {
        self.0.list().iter().find_map(|definition| served(definition, gvk))
    }
}

fn served(definition: &Object, gvk: &Gvk) -> Option<Served> {
    // Definitions are large: look before decoding.
    let group: String = serde_json::from_slice(definition.field(&["spec", "group"])?).ok()?;
    let kind: String = serde_json::from_slice(definition.field(&["spec", "names", "kind"])?).ok()?;
    // One that is being deleted is served until its last object is gone, and the objects need their controller for that.
    if group != gvk.group || kind != gvk.kind {
        return None;
    }
    let value = definition.value().ok()?;
    if !Condition::is_true(&value, "Established") {
        return None;
    }
    let versions = value["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|one| one["name"] == gvk.version.as_str() && one["served"] == true)?;
    let plural = value["spec"]["names"]["plural"].as_str()?.to_owned();
    let namespaced = value["spec"]["scope"] == "Namespaced";
    let status_subresource = version["subresources"].get("status").is_some_and(Value::is_object);
    Some(Served { resource: Resource { gvk: gvk.clone(), plural, namespaced }, status_subresource })
}
