//! Which crate may know which outsider: Kubernetes clients, gRPC, async runtimes.

use std::collections::{BTreeMap, VecDeque};

use super::Finding;
use super::edges::is_in;
use crate::metadata::{DependencyKind, Metadata, Package};

/// A family of outside packages, and who may know it.
struct Rule {
    /// What the family is, in a sentence.
    family: &'static str,
    /// Whether a package belongs to it.
    contains: fn(&str) -> bool,
    /// Whether one of our packages (name, directory) may know it.
    allows: fn(&str, &str) -> bool,
    /// Whether being linked to it through others counts as knowing it.
    reach: Reach,
    /// What to do instead.
    fix: &'static str,
}

#[derive(PartialEq, Eq)]
enum Reach {
    /// Only a line in the crate's own manifest.
    Direct,
    /// Anything that ends up linked.
    Linked,
}

/// Pure crates: decisions without waiting, so that they can be tested as functions.
const PURE: &[&str] =
    &["concert-api", "concert-schema", "concert-merge", "concert-derive", "concert-queue", "concert-external"];

/// `runtime` and what stands on it.
const KUBE: &[&str] = &[
    "concert-runtime",
    "concert-reconcile",
    "concert-webhook",
    "concert-testkit",
    "concert-managed",
    "concert-claims",
    "concert",
    "concert-dashboard",
    "concert-cli",
];

const TONIC: &[&str] = &["concert-protocol", "concert-connector", "concert-provider"];

const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "async-executor", "futures-executor", "actix-rt"];

const RULES: &[Rule] = &[
    Rule {
        family: "a Kubernetes client",
        // A provider author's CRD derive may use kube-derive: it is a macro and links nothing.
        contains: |name| (name.starts_with("kube") && name != "kube-derive") || name == "k8s-openapi",
        allows: |name, directory| KUBE.contains(&name) || is_outside_the_house(directory),
        reach: Reach::Linked,
        fix: "only `runtime` and what stands on it know kube and k8s-openapi: take keys, bytes or `concert-api` types",
    },
    Rule {
        family: "gRPC",
        contains: |name| name.starts_with("tonic"),
        allows: |name, directory| TONIC.contains(&name) || is_outside_the_house(directory),
        reach: Reach::Direct,
        fix: "only protocol, connector and provider know tonic: speak through `concert-external`",
    },
    Rule {
        family: "an async runtime",
        contains: |name| RUNTIMES.contains(&name),
        allows: |name, _| !PURE.contains(&name),
        reach: Reach::Linked,
        fix: "this crate is pure: take time and input as arguments, give decisions back; the caller waits",
    },
];

fn is_outside_the_house(directory: &str) -> bool {
    ["e2e", "bench", "examples"].iter().any(|room| is_in(directory, room))
}

/// Applies every rule to every crate of ours. Tests (dev-dependencies) may know whom they like.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let linked = metadata.linked();
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
    let mut findings = Vec::new();
    for package in metadata.members() {
        let directory = package.directory();
        for rule in RULES.iter().filter(|rule| !(rule.allows)(&package.name, &directory)) {
            let path = match rule.reach {
                Reach::Direct => direct(package, rule.contains),
                Reach::Linked => path(&linked, &package.id, |id| names.get(id).is_some_and(|n| (rule.contains)(n)))
                    .map(|ids| ids.iter().map(|id| names.get(id).copied().unwrap_or(id)).collect()),
            };
            if let Some(path) = path {
                let what = format!("`{}` knows {} ({})", package.name, rule.family, path.join(" → "));
                findings.push(Finding::new(package.manifest(), what, rule.fix));
            }
        }
    }
    findings
}

fn direct(package: &Package, contains: fn(&str) -> bool) -> Option<Vec<&str>> {
    let mut known = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Dev);
    let found = known.find(|dependency| contains(&dependency.name))?;
    Some(vec![&package.name, &found.name])
}

/// The shortest way from `start` to a package that `is_goal`.
fn path<'a>(
    linked: &BTreeMap<&'a str, Vec<&'a str>>,
    start: &'a str,
    is_goal: impl Fn(&str) -> bool,
) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(here) = waiting.pop_front() {
        if here != start && is_goal(here) {
            let mut way = vec![here];
            while let Some(before) = way.last().and_then(|id| came_from.get(id)) {
                way.push(before);
            }
            way.reverse();
            return Some(way);
        }
        for next in linked.get(here).into_iter().flatten() {
            if *next != start && !came_from.contains_key(next) {
                came_from.insert(next, here);
                waiting.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_is_told() {
        let linked = BTreeMap::from([
            ("store", vec!["redb", "helper"]),
            ("helper", vec!["store-tools", "kube-core"]),
            ("store-tools", vec!["kube-core"]),
        ]);
        assert_eq!(path(&linked, "store", |id| id == "kube-core"), Some(vec!["store", "helper", "kube-core"]));
        assert_eq!(path(&linked, "redb", |id| id == "kube-core"), None);
    }

    #[test]
    fn families_and_their_friends() {
        let kube = &RULES[0];
        assert!((kube.contains)("kube-core") && (kube.contains)("k8s-openapi") && !(kube.contains)("kube-derive"));
        assert!((kube.allows)("concert-managed", "crates/external/managed"));
        assert!((kube.allows)("concert-e2e", "e2e"));
        assert!(!(kube.allows)("concert-store", "crates/server/store"));
        assert!(!(kube.allows)("concert-provider-file", "providers/file"));
        let runtime = &RULES[2];
        assert!(!(runtime.allows)("concert-queue", "crates/control/queue"));
        assert!((runtime.allows)("concert-world", "crates/control/world"));
    }
}
