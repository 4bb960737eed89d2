//! Nobody can give what they do not have: who writes a role or a binding must hold all it grants, or have been told
//! (`escalate`, `bind`) that they may.

use concert_api::{GroupResource, Status, meta};
use serde_json::Value;

use super::{Action, Authorization, GROUP, Named, Rule, quoted};
use crate::Server;
use crate::auth::{MASTERS, User};
use crate::target::{Query, Target};

impl Server {
    /// Refuses a role or binding that gives more than its author has. `old` is what it replaces.
    pub(crate) fn check_escalation(
        &self,
        target: &Target,
        query: &Query,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let id = &target.resource.id;
        let Some(user) = query.caller.as_deref().filter(|user| *id.group == *GROUP && !user.is_in(MASTERS)) else {
            return Ok(());
        };
        if self.access().mode() == Authorization::AlwaysAllow || old.is_some_and(|old| is_only_collection(object, old))
        {
            return Ok(());
        }
        let name = meta::text(object, "name");
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let may = |verb: &str, resource: &str, name: &str| {
            let named = Named {
                group: GROUP.to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..Named::default()
            };
            self.decide(user, &Action::on(verb, named)).is_allowed()
        };
        if &*id.resource == "roles" || &*id.resource == "clusterroles" {
            if may("escalate", &id.resource, name) {
                return Ok(());
            }
            self.check_held(user, namespace, &Rule::all(object), id, name)?;
            let aggregates = |role: &Value| role["aggregationRule"]["clusterRoleSelectors"].is_array();
            if (aggregates(object) || old.is_some_and(aggregates))
                && self.check_held(user, "", &Rule::everything(), id, name).is_err()
            {
                return Err(Status::forbidden(
                    id,
                    name,
                    "must have cluster-admin privileges to use the aggregationRule",
                ));
            }
            return Ok(());
        }
        let part = |name: &str| object["roleRef"][name].as_str().unwrap_or_default();
        let (kind, role) = (part("kind"), part("name"));
        let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
        if may("bind", resource, role) {
            return Ok(());
        }
        let policy = self.policy();
        let rules = policy.role(kind, namespace, role).ok_or_else(|| Status::not_found(id, role))?;
        self.check_held(user, namespace, rules, id, name)
    }

    /// Refuses rules of which the user does not hold some part.
    fn check_held(
        &self,
        user: &User,
        namespace: &str,
        rules: &[Rule],
        id: &GroupResource,
        name: &str,
    ) -> Result<(), Status> {
        let (held, missing_roles) = self.policy().rules_for(user, namespace);
        let missing = compacted(single(rules).filter(|one| !held.iter().any(|own| own.covers(one))));
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            quoted(&user.groups),
            missing.join("\n")
        );
        if !missing_roles.is_empty() {
            why.push_str(&format!("; resolution errors: [{}]", missing_roles.join(", ")));
        }
        Err(Status::forbidden(id, name, &why))
    }
}

/// Whether nothing changed but what garbage collection changes.
fn is_only_collection(object: &Value, old: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        for field in ["finalizers", "ownerReferences", "resourceVersion", "managedFields"] {
            meta::of(&mut value).remove(field);
        }
        value
    };
    object["metadata"] != old["metadata"] && without(object) == without(old)
}

/// The rules taken apart: one verb on one thing each.
fn single(rules: &[Rule]) -> impl Iterator<Item = Rule> {
    let one = |text: &String| vec![text.clone()];
    rules.iter().flat_map(move |rule| {
        let mut singles = Vec::new();
        for verb in &rule.verbs {
            for (group, resource) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |r| (group, r)))
            {
                let base = Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                if rule.names.is_empty() {
                    singles.push(base);
                } else {
                    singles.extend(rule.names.iter().map(|name| Rule { names: one(name), ..base.clone() }));
                }
            }
            singles.extend(rule.urls.iter().map(|url| Rule { verbs: one(verb), urls: one(url), ..Rule::default() }));
        }
        singles
    })
}

/// Rules about the same thing with their verbs together, written and sorted.
fn compacted(singles: impl Iterator<Item = Rule>) -> Vec<String> {
    let mut found: Vec<Rule> = Vec::new();
    for rule in singles {
        let same = |other: &&mut Rule| {
            rule.urls.is_empty()
                && (&other.groups, &other.resources, &other.names) == (&rule.groups, &rule.resources, &rule.names)
        };
        match found.iter_mut().find(same) {
            Some(other) => other.verbs.extend(rule.verbs),
            None => found.push(rule),
        }
    }
    let mut texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}
