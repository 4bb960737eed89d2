//! The OpenAPI v3 documents of both servers: the same paths, operations, parameters, bodies and schemas, but for what
//! `docs/differences.md` says. Descriptions are not compared, nor is the order of parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use concert_e2e::{Api, ControlPlane, environment, eventually};
use serde_json::{Map, Value};

/// Definitions whose documents are compared, too.
const DEFINITIONS: &str = include_str!("../manifests/openapi.yaml");
/// What they define, by document.
const DEFINED: [(&str, &str); 3] = [
    ("apis/rich.example.com/v1alpha1", "riches"),
    ("apis/rich.example.com/v1alpha1", "plains"),
    ("apis/rich.example.com/v1alpha2", "riches"),
];
/// The real server takes seconds.
const DEFINITIONS_ARE_TOLD: Duration = Duration::from_secs(60);
/// How many operations and schemas there are at least, so that two empty servers are not the same.
const AT_LEAST: (usize, usize) = (800, 1_300);
/// Where the server is asked to reach into a node or a service.
const OF_NODES: [&str; 6] = ["/attach", "/exec", "/log", "/portforward", "/proxy", "/proxy/{path}"];

/// A class of differences that has to be.
struct Tolerated {
    name: &'static str,
    /// The row of `docs/differences.md`.
    row: usize,
    is_one: fn(&Difference) -> bool,
}

/// All of them. Each has to occur.
const TOLERATED: &[Tolerated] = &[
    Tolerated { name: "title", row: 8, is_one: |one| one.is_at(&["info", "title"]) },
    Tolerated {
        name: "issuer-of-tokens",
        row: 8,
        is_one: |one| {
            one.place.is_empty()
                && one.ours.is_none()
                && matches!(one.document.as_str(), ".well-known/openid-configuration" | "openid/v1/jwks")
        },
    },
    Tolerated {
        name: "paths-of-nodes",
        row: 8,
        is_one: |one| {
            let [paths, path] = &one.place[..] else { return false };
            paths == "paths" && one.ours.is_none() && OF_NODES.iter().any(|end| path.ends_with(end))
        },
    },
    Tolerated {
        name: "kinds-of-delete-options",
        row: 8,
        is_one: |one| {
            DEFINED.iter().any(|(document, _)| *document == one.document)
                && one.place.ends_with(&[
                    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned(),
                    "x-kubernetes-group-version-kind".to_owned(),
                ])
        },
    },
];

/// Something that is not the same in both.
#[derive(Debug)]
struct Difference {
    document: String,
    /// The members that lead there.
    place: Vec<String>,
    real: Option<Value>,
    ours: Option<Value>,
}

impl Difference {
    fn is_at(&self, place: &[&str]) -> bool {
        self.place == place
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| match value {
            Some(value) => value.to_string().chars().take(200).collect(),
            None => "nothing".to_owned(),
        };
        write!(f, "{} {}: {} | {}", self.document, self.place.join(" "), shown(&self.real), shown(&self.ours))
    }
}

type Documents = BTreeMap<String, Value>;

#[test]
fn documents_are_the_same_on_both_servers() {
    if let Err(missing) = environment::kubectl().and_then(|_| environment::reference_apiserver()) {
        return missing.skip();
    }
    let (real, ours) = std::thread::scope(|scope| {
        let real = scope.spawn(|| documents(&ControlPlane::reference()));
        let ours = scope.spawn(|| documents(&ControlPlane::embedded()));
        (real.join().expect("the real server's side"), ours.join().expect("our side"))
    });
    assert_there_is_enough(&ours);
    let mut used = BTreeSet::new();
    let mut left = Vec::new();
    for difference in differences(&real, &ours) {
        match TOLERATED.iter().find(|class| (class.is_one)(&difference)) {
            Some(class) => drop(used.insert(class.name)),
            None => left.push(difference.to_string()),
        }
    }
    assert!(left.is_empty(), "{} differences (real | ours)\n{}", left.len(), left.join("\n"));
    let unused: Vec<_> = TOLERATED.iter().filter(|class| !used.contains(class.name)).map(told).collect();
    assert!(unused.is_empty(), "tolerated, but there are no such differences: {}", unused.join(", "));
}

fn told(class: &Tolerated) -> String {
    format!("{} (row {})", class.name, class.row)
}

/// All documents of a server that has the definitions.
fn documents(server: &ControlPlane) -> Documents {
    server.kubectl().apply_stdin(DEFINITIONS).ok();
    let api = server.api();
    let index = eventually("documents of the definitions", DEFINITIONS_ARE_TOLD, || {
        let paths = get(&api, "/openapi/v3")["paths"].take();
        let is_told = |(name, plural): &(&str, &str)| {
            let document = paths[*name]["serverRelativeURL"].as_str().map(|url| get(&api, url));
            let path = format!("/{name}/{plural}");
            document.is_some_and(|document| document["paths"].get(path).is_some())
        };
        if DEFINED.iter().all(is_told) { Ok(paths) } else { Err(format!("the index has {paths}")) }
    });
    let entries = index.as_object().expect("an object");
    let read = |(name, entry): (&String, &Value)| {
        let mut document = get(&api, entry["serverRelativeURL"].as_str().expect("a text"));
        plain(&mut document);
        (name.clone(), document)
    };
    entries.iter().map(read).collect()
}

fn get(api: &Api, path: &str) -> Value {
    let answer = api.request("GET", path, None).unwrap_or_else(|error| panic!("no answer to {path}: {error}"));
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    answer.body
}

/// Without descriptions, and with the parameters in order.
fn plain(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| name != "description" || !member.is_string());
            if let Some(Value::Array(parameters)) = members.get_mut("parameters") {
                parameters.sort_by_key(|one| (one["name"].to_string(), one["in"].to_string()));
            }
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn differences(real: &Documents, ours: &Documents) -> Vec<Difference> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = real.keys().chain(ours.keys()).collect();
    for name in names {
        let mut walk = Walk { document: name, place: Vec::new(), found: &mut found };
        walk.both(real.get(name), ours.get(name));
    }
    found
}

/// A walk through two documents of one name.
struct Walk<'a> {
    document: &'a str,
    place: Vec<String>,
    found: &'a mut Vec<Difference>,
}

impl Walk<'_> {
    fn both(&mut self, real: Option<&Value>, ours: Option<&Value>) {
        match (real, ours) {
            (real, ours) if real == ours => {}
            (Some(Value::Object(real)), Some(Value::Object(ours))) => {
                let names: BTreeSet<&String> = real.keys().chain(ours.keys()).collect();
                for name in names {
                    self.place.push(name.clone());
                    self.both(real.get(name), ours.get(name));
                    self.place.pop();
                }
            }
            (real, ours) => self.found.push(Difference {
                document: self.document.to_owned(),
                place: self.place.clone(),
                real: real.cloned(),
                ours: ours.cloned(),
            }),
        }
    }
}

fn assert_there_is_enough(documents: &Documents) {
    let methods = ["get", "put", "post", "patch", "delete"];
    let (mut operations, mut schemas) = (0, 0);
    for document in documents.values() {
        for item in document["paths"].as_object().into_iter().flat_map(Map::values) {
            operations += methods.iter().filter(|method| item.get(method).is_some()).count();
        }
        schemas += document["components"]["schemas"].as_object().map_or(0, Map::len);
    }
    let (least_operations, least_schemas) = AT_LEAST;
    assert!(operations >= least_operations && schemas >= least_schemas, "only {operations} and {schemas}");
}
