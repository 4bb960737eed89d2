//! Roles and bindings, and what they allow. Pure: made from objects, asked by users and actions.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::Value;

use super::action::{Action, Named, On};
use crate::auth::{User, service_account};

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |name: &str| {
            let items = rule[name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// All that there is.
    pub(crate) fn everything() -> Vec<Self> {
        let all = || vec!["*".to_owned()];
        vec![
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), urls: all(), ..Self::default() },
        ]
    }

    /// The rules of a role.
    pub(crate) fn all(role: &Value) -> Vec<Self> {
        role["rules"].as_array().into_iter().flatten().map(Self::read).collect()
    }

    fn allows(&self, action: &Action) -> bool {
        has(&self.verbs, &action.verb)
            && match &action.on {
                On::Path(path) => self.urls.iter().any(|url| url_matches(url, path)),
                On::Resource(on) => self.allows_resource(on),
            }
    }

    fn allows_resource(&self, on: &Named) -> bool {
        has(&self.groups, &on.group)
            && self.resources.iter().any(|resource| resource_matches(resource, on))
            && (self.names.is_empty() || self.names.contains(&on.name))
    }

    /// Whether all that `other`, a rule about one thing, allows is allowed by this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let all = |own: &[String], others: &[String]| others.iter().all(|one| has(own, one));
        let resource = |one: &String| match one.split_once('/') {
            _ if has(&self.resources, one) => true,
            Some((_, part)) => self.resources.contains(&format!("*/{part}")),
            None => false,
        };
        let names = match (self.names.is_empty(), other.names.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => other.names.iter().all(|name| self.names.contains(name)),
        };
        let url = |one: &String| self.urls.iter().any(|own| own == one || url_matches(own, one));
        all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && other.resources.iter().all(resource)
            && names
            && other.urls.iter().all(url)
    }
}

/// As the real server writes a rule into its messages.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
            .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// A list of texts as Go's `%q` writes it.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|one| one == "*" || one == text)
}

fn resource_matches(rule: &str, on: &Named) -> bool {
    match rule.split_once('/') {
        _ if rule == "*" => true,
        None => on.subresource.is_empty() && rule == on.resource,
        Some((resource, part)) => {
            !on.subresource.is_empty() && part == on.subresource && (resource == "*" || resource == on.resource)
        }
    }
}

fn url_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || rule.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

/// Who a binding is for.
#[derive(Clone, Debug)]
enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    fn read(subject: &Value, home: &str) -> Option<Self> {
        let text = |name: &str| subject[name].as_str().unwrap_or_default().to_owned();
        match subject["kind"].as_str()? {
            "User" => Some(Self::User(text("name"))),
            "Group" => Some(Self::Group(text("name"))),
            "ServiceAccount" => {
                let namespace = Some(text("namespace")).filter(|namespace| !namespace.is_empty());
                Some(Self::ServiceAccount {
                    namespace: namespace.unwrap_or_else(|| home.to_owned()),
                    name: text("name"),
                })
            }
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *name == user.name,
            Self::Group(name) => user.is_in(name),
            Self::ServiceAccount { namespace, name } => {
                !namespace.is_empty() && user.name == format!("{}{namespace}:{name}", service_account::PREFIX)
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {name:?}"),
            Self::Group(name) => write!(f, "Group {name:?}"),
            Self::ServiceAccount { namespace, name } => write!(f, "ServiceAccount \"{name}/{namespace}\""),
        }
    }
}

#[derive(Debug)]
struct Binding {
    name: String,
    /// Empty for bindings of the whole cluster.
    namespace: String,
    subjects: Vec<Subject>,
    role_kind: String,
    role: String,
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&binding["metadata"]["namespace"]);
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        Self {
            name: text(&binding["metadata"]["name"]),
            subjects: subjects.filter_map(|subject| Subject::read(subject, &namespace)).collect(),
            role_kind: text(&binding["roleRef"]["kind"]),
            role: text(&binding["roleRef"]["name"]),
            namespace,
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, namespace, role_kind, role, .. } = self;
        match namespace.as_str() {
            "" => write!(f, "ClusterRoleBinding {name:?} of {role_kind} {role:?}"),
            _ => write!(f, "RoleBinding \"{name}/{namespace}\" of {role_kind} {role:?}"),
        }
    }
}

/// All roles and bindings at one moment.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// By namespace (empty: of the cluster) and name.
    roles: HashMap<(String, String), Vec<Rule>>,
    cluster_bindings: Vec<Binding>,
    bindings: BTreeMap<String, Vec<Binding>>,
}

/// What the policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Yes, and why (empty: because everything is allowed).
    Allowed(String),
    /// Nothing allows it, and which roles could not be found (often none).
    NoOpinion(String),
}

impl Verdict {
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

impl Policy {
    /// Adds a stored object; what is none of the four kinds is not looked at.
    pub(crate) fn add(&mut self, object: &Value) {
        match object["kind"].as_str().unwrap_or_default() {
            "Role" | "ClusterRole" => {
                let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
                self.roles.insert((part("namespace"), part("name")), Rule::all(object));
            }
            "ClusterRoleBinding" => self.cluster_bindings.push(Binding::read(object)),
            "RoleBinding" => {
                let binding = Binding::read(object);
                self.bindings.entry(binding.namespace.clone()).or_default().push(binding);
            }
            _ => {}
        }
    }

    /// The rules of a role; the namespace does not matter for those of the cluster.
    pub(crate) fn role(&self, kind: &str, namespace: &str, name: &str) -> Option<&[Rule]> {
        let namespace = if kind == "ClusterRole" { "" } else { namespace };
        self.roles.get(&(namespace.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    /// Each binding that is for this user in this namespace: to whom, and the rules, if the role exists.
    fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Binding, &'a Subject, Option<&'a [Rule]>)> {
        let here = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster_bindings.iter().chain(here.into_iter().flatten()).filter_map(move |binding| {
            let subject = binding.subjects.iter().find(|subject| subject.is(user))?;
            Some((binding, subject, self.role(&binding.role_kind, &binding.namespace, &binding.role)))
        })
    }

    /// Whether this user may do this.
    pub(crate) fn decide(&self, user: &User, action: &Action) -> Verdict {
        let namespace = match &action.on {
            On::Path(_) => "",
            On::Resource(on) => &on.namespace,
        };
        let mut missing = Vec::new();
        for (binding, subject, rules) in self.grants(user, namespace) {
            match rules {
                Some(rules) if rules.iter().any(|rule| rule.allows(action)) => {
                    return Verdict::Allowed(format!("RBAC: allowed by {binding} to {subject}"));
                }
                Some(_) => {}
                None => {
                    let role = missing_role(binding);
                    if !missing.contains(&role) {
                        missing.push(role);
                    }
                }
            }
        }
        match missing.len() {
            0 => Verdict::NoOpinion(String::new()),
            1 => Verdict::NoOpinion(format!("rbac: RBAC: {}", missing[0])),
            _ => Verdict::NoOpinion(format!("rbac: RBAC: [{}]", missing.join(", "))),
        }
    }

    /// All rules that hold for this user in this namespace, and the roles that could not be found.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (binding, _, rules) in self.grants(user, namespace) {
            match rules {
                Some(rules) => found.extend(rules.iter().cloned()),
                None => missing.push(missing_role(binding)),
            }
        }
        (found, missing)
    }
}

fn missing_role(binding: &Binding) -> String {
    let kind = binding.role_kind.to_ascii_lowercase();
    format!("{kind}.rbac.authorization.k8s.io {:?} not found", binding.role)
}
