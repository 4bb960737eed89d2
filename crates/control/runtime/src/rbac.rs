//! What a process has to be allowed: roles made of what its controllers declare.
//!
//! A controller reads what it listens to, and where. What it writes it [says](crate::controller::Builder::writes). Whoever installs the
//! process applies what [`Manager::roles`] gives, bound to its service account; what is missing there is missing in the
//! code, and nothing has to be written twice.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::Gvk;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::resource::Resource;
use crate::scope::{Part, Scope};

/// What whoever watches a kind does.
const READS: [&str; 3] = ["get", "list", "watch"];
/// What an elector does with its lease.
const ELECTS: [&str; 3] = ["get", "create", "update"];
/// Where events about objects live that are in no namespace.
const CLUSTERS_EVENTS: &str = "default";

/// Where something may be done: in a namespace, or everywhere (an empty name).
type Home = String;

/// What it may be done to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    /// With its subresource.
    resource: String,
    /// One object, or all of them (an empty name).
    name: String,
}

impl Target {
    fn of(resource: &Resource, part: Option<&str>, name: &str) -> Self {
        let plural = part.map_or(resource.plural.clone(), |part| format!("{}/{part}", resource.plural));
        Self { group: resource.gvk.group.clone(), resource: plural, name: name.to_owned() }
    }
}

/// What may be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(BTreeMap<Home, BTreeMap<Target, BTreeSet<String>>>);

/// What a controller says that it writes.
#[derive(Clone, Debug)]
pub(crate) struct Writes {
    resource: Resource,
    part: Option<String>,
    verbs: BTreeSet<String>,
}

impl Writes {
    pub(crate) fn new<V: Into<String>>(
        resource: &Resource,
        part: Option<&str>,
        verbs: impl IntoIterator<Item = V>,
    ) -> Self {
        let verbs = verbs.into_iter().map(Into::into).collect();
        Self { resource: resource.clone(), part: part.map(str::to_owned), verbs }
    }
}

impl Rules {
    fn add<V: Into<String>>(&mut self, home: &str, target: Target, verbs: impl IntoIterator<Item = V>) {
        let rules = self.0.entry(home.to_owned()).or_default();
        rules.entry(target).or_default().extend(verbs.into_iter().map(Into::into));
    }

    /// What whoever has a cache of these objects does.
    pub(crate) fn reads(&mut self, scope: &Scope) {
        for part in &scope.parts {
            // What lives in no namespace is listened to everywhere, whatever place is named.
            let home = part.namespace().filter(|_| scope.resource.namespaced).unwrap_or_default();
            self.add(home, Target::of(&scope.resource, None, &part.name().unwrap_or_default()), READS);
        }
    }

    /// What a controller writes, and that it tells events: where it listens, if all of that is in certain namespaces.
    /// `None` is something that it listens to and that is in none of this cluster: it may lead anywhere.
    pub(crate) fn acts(&mut self, writes: &[Writes], listens: &[Option<Scope>]) {
        let parts = listens.iter().flat_map(|scope| match scope {
            Some(scope) if scope.resource.namespaced => scope.parts.iter().map(Part::namespace).collect(),
            Some(_) | None => vec![None],
        });
        let homes: Option<BTreeSet<&str>> = parts.collect();
        let homes = homes.unwrap_or_else(|| BTreeSet::from([""]));
        homes.iter().for_each(|home| self.tells_events(home));
        for Writes { resource, part, verbs } in writes {
            let target = Target::of(resource, part.as_deref(), "");
            if resource.namespaced {
                homes.iter().for_each(|home| self.add(home, target.clone(), verbs.iter().cloned()));
            } else {
                self.add("", target, verbs.iter().cloned());
                self.tells_events(CLUSTERS_EVENTS);
            }
        }
    }

    /// Events are told beside what they are about.
    fn tells_events(&mut self, home: &str) {
        self.add(home, Target::of(&kind("events.k8s.io", "Event", "events"), None, ""), ["create", "patch"]);
    }

    pub(crate) fn extend(&mut self, more: Self) {
        for (home, targets) in more.0 {
            targets.into_iter().for_each(|(target, verbs)| self.add(&home, target, verbs));
        }
    }

    /// Leaves out of namespaces what may be done everywhere.
    fn settle(&mut self) {
        let everywhere = self.0.get("").cloned().unwrap_or_default();
        for (home, targets) in &mut self.0 {
            for (target, verbs) in targets.iter_mut() {
                let all = Target { name: String::new(), ..target.clone() };
                let allowed = |verb: &String| {
                    let wider = |target: &Target| everywhere.get(target).is_some_and(|verbs| verbs.contains(verb));
                    (!home.is_empty() && wider(target)) || (all != *target && wider(&all))
                };
                verbs.retain(|verb| !allowed(verb));
            }
            targets.retain(|_, verbs| !verbs.is_empty());
        }
        self.0.retain(|_, targets| !targets.is_empty());
    }

    /// As objects of the API; kinds of one group of which the same may be done are told together.
    fn roles(&self, name: &str) -> Vec<Value> {
        let role = |(home, targets): (&Home, &BTreeMap<Target, BTreeSet<String>>)| {
            let mut together: BTreeMap<(&str, &BTreeSet<String>, &str), Vec<&str>> = BTreeMap::new();
            for (Target { group, resource, name }, verbs) in targets {
                together.entry((group, verbs, name)).or_default().push(resource);
            }
            let rule = |((group, verbs, name), resources): ((&str, &BTreeSet<String>, &str), Vec<&str>)| {
                let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
                if !name.is_empty() {
                    rule["resourceNames"] = json!([name]);
                }
                rule
            };
            let rules: Vec<Value> = together.into_iter().map(rule).collect();
            let (kind, metadata) = match home.as_str() {
                "" => ("ClusterRole", json!({ "name": name })),
                home => ("Role", json!({ "namespace": home, "name": name })),
            };
            let version = "rbac.authorization.k8s.io/v1";
            json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules })
        };
        self.0.iter().map(role).collect()
    }
}

impl Manager {
    /// The roles that its service account needs, as objects to apply. A ClusterRole for what is read and written everywhere
    /// and for the reviews of a [secured](crate::Security) metrics endpoint, Roles for what is so in certain namespaces,
    /// for the lease and for the shards. What is read is what controllers listen to in the process's own cluster, and what
    /// has a cache already; what is written they [say](crate::controller::Builder::writes), and it is written where they
    /// listen. Who hears of more than certain namespaces of its own cluster (kinds in no namespace, other clusters, channels
    /// and sources) may write everywhere. Of controllers that were added so far.
    #[must_use]
    pub fn roles(&self, name: &str) -> Vec<Value> {
        let settings = self.settings();
        let mut rules = self.engine().rules();
        self.informers().caches().iter().for_each(|cache| rules.reads(cache.scope()));
        let listens =
            |targets: &BTreeMap<Target, BTreeSet<String>>| targets.values().any(|verbs| verbs.contains("watch"));
        let homes = rules.0.iter().filter(|(_, targets)| listens(targets)).map(|(home, _)| home.clone());
        let homes: Vec<Home> = homes.collect();
        homes.iter().for_each(|home| rules.tells_events(home));
        if settings.metrics_security.as_ref().is_some_and(|security| security.reviewed) {
            for (group, kind, plural) in [
                ("authentication.k8s.io", "TokenReview", "tokenreviews"),
                ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
            ] {
                rules.add("", Target::of(&self::kind(group, kind, plural), None, ""), ["create"]);
            }
        }
        let leases = Target::of(&kind("coordination.k8s.io", "Lease", "leases"), None, "");
        match (&settings.lease, &settings.shards) {
            (Some(lease), _) => {
                rules.add(&lease.namespace, leases, ELECTS);
                rules.tells_events(&lease.namespace);
            }
            (None, Some(shards)) => {
                rules.add(&shards.lease.namespace, leases, ELECTS.into_iter().chain(["list", "delete"]));
            }
            (None, None) => {}
        }
        rules.settle();
        rules.roles(name)
    }
}

fn kind(group: &str, kind: &str, plural: &str) -> Resource {
    Resource::namespaced(Gvk::new(group, "v1", kind), plural)
}
