//! What a process has to be allowed: roles made of what its controllers declare.
//!
//! A controller reads what it listens to. What it writes it [says](crate::controller::Builder::writes). Whoever installs the
//! process applies what [`Manager::roles`] gives, bound to its service account; what is missing there is missing in the
//! code, and nothing has to be written twice.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::Gvk;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::resource::Resource;

/// What whoever watches a kind does.
const READS: [&str; 3] = ["get", "list", "watch"];
/// What an elector does with its lease.
const ELECTS: [&str; 3] = ["get", "create", "update"];

/// What may be done: group and resource (with its subresource) → verbs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(BTreeMap<(String, String), BTreeSet<String>>);

impl Rules {
    pub(crate) fn reads(&mut self, resource: &Resource) {
        self.add(resource, None, READS);
    }

    pub(crate) fn add<V: Into<String>>(
        &mut self,
        resource: &Resource,
        part: Option<&str>,
        verbs: impl IntoIterator<Item = V>,
    ) {
        let name = part.map_or(resource.plural.clone(), |part| format!("{}/{part}", resource.plural));
        self.0.entry((resource.gvk.group.clone(), name)).or_default().extend(verbs.into_iter().map(Into::into));
    }

    pub(crate) fn extend(&mut self, more: Self) {
        for (what, verbs) in more.0 {
            self.0.entry(what).or_default().extend(verbs);
        }
    }

    /// As the API has them: kinds of one group of which the same may be done are told together.
    fn rules(&self) -> Vec<Value> {
        let mut together: BTreeMap<(&str, &BTreeSet<String>), Vec<&str>> = BTreeMap::new();
        for ((group, resource), verbs) in &self.0 {
            together.entry((group, verbs)).or_default().push(resource);
        }
        let rule =
            |((group, verbs), resources)| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        together.into_iter().map(rule).collect()
    }
}

impl Manager {
    /// The roles that its service account needs, as objects to apply: a ClusterRole for what its controllers read and write in
    /// the process's own cluster, for events, and for the reviews of a [secured](crate::Security) metrics endpoint; a Role for
    /// the lease, or the shards, in their namespace. Of controllers that were added so far.
    #[must_use]
    pub fn roles(&self, name: &str) -> Vec<Value> {
        let settings = self.settings();
        let mut rules = self.engine().rules();
        rules.add(&kind("events.k8s.io", "Event", "events"), None, ["create", "patch"]);
        if settings.metrics_security.as_ref().is_some_and(|security| security.reviewed) {
            rules.add(&kind("authentication.k8s.io", "TokenReview", "tokenreviews"), None, ["create"]);
            rules.add(&kind("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"), None, ["create"]);
        }
        let mut roles = vec![role("ClusterRole", json!({ "name": name }), &rules)];
        let mut elects = Rules::default();
        let leases = kind("coordination.k8s.io", "Lease", "leases");
        let namespace = match (&settings.lease, &settings.shards) {
            (Some(lease), _) => {
                elects.add(&leases, None, ELECTS);
                Some(&lease.namespace)
            }
            (None, Some(shards)) => {
                elects.add(&leases, None, ELECTS.into_iter().chain(["list", "delete"]));
                Some(&shards.lease.namespace)
            }
            (None, None) => None,
        };
        roles.extend(namespace.map(|home| role("Role", json!({ "namespace": home, "name": name }), &elects)));
        roles
    }
}

fn kind(group: &str, kind: &str, plural: &str) -> Resource {
    Resource::namespaced(Gvk::new(group, "v1", kind), plural)
}

fn role(kind: &str, metadata: Value, rules: &Rules) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules.rules(),
    })
}
