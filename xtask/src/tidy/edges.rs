//! Which crate may know which: design section 1, as data.

use std::collections::BTreeSet;

use super::Finding;
use crate::metadata::{DependencyKind, Metadata, Package};

/// Each crate and what it stands on. It may also use what those stand on. A crate that is not here is a finding:
/// the person who adds it says here where it belongs.
const HOUSE: &[(&str, &[&str])] = &[
    // model: what an object is
    ("concert-derive", &[]),
    ("concert-api", &["concert-derive"]),
    ("concert-cel", &["concert-api"]),
    ("concert-schema", &["concert-api", "concert-cel"]),
    ("concert-merge", &["concert-schema"]),
    // the seams stand below everything that runs
    ("concert-world", &[]),
    // server
    ("concert-store", &["concert-api", "concert-world"]),
    ("concert-apiserver", &["concert-store", "concert-schema", "concert-merge"]),
    // control
    ("concert-queue", &[]),
    ("concert-runtime", &["concert-merge", "concert-world", "concert-queue"]),
    ("concert-reconcile", &["concert-runtime"]),
    ("concert-webhook", &["concert-runtime"]),
    ("concert-testkit", &["concert-apiserver", "concert-reconcile", "concert-external"]),
    // external: managed and connector never know each other
    ("concert-external", &["concert-api"]),
    ("concert-protocol", &[]),
    ("concert-connector", &["concert-external", "concert-protocol", "concert-world"]),
    ("concert-provider", &["concert-external", "concert-protocol", "concert-derive", "concert-world"]),
    ("concert-managed", &["concert-reconcile", "concert-external"]),
    ("concert-claims", &["concert-reconcile"]),
    // app: everything comes together in `concert`
    (
        "concert",
        &[
            "concert-apiserver",
            "concert-webhook",
            "concert-managed",
            "concert-claims",
            "concert-connector",
            "concert-provider",
        ],
    ),
    ("concert-dashboard", &["concert"]),
    ("concert-cli", &["concert", "concert-dashboard"]),
    // not part of the product
    ("xtask", &[]),
];

/// Directories whose packages share one rule.
const ROOMS: &[(&str, Room)] = &[
    ("providers", Room::Provider),
    ("e2e", Room::Everything),
    ("bench", Room::Everything),
    ("fuzz", Room::Everything),
    ("examples", Room::Everything),
];

/// What a package of a directory in [`ROOMS`] may know.
#[derive(Clone, Copy)]
enum Room {
    /// The author SDK and what it stands on.
    Provider,
    /// Any crate.
    Everything,
}

/// Crates that bundle the providers of `providers/`.
const BUNDLERS: &[&str] = &["concert", "concert-cli"];

/// What any crate may use from its `tests/`, and only from there.
pub(super) const TEST_RIGS: &[&str] = &["concert-testkit", "concert-apiserver", "concert-e2e"];

/// The two ends of the wire, which are tested against each other.
const WIRE_ENDS: &[&str] = &["concert-connector", "concert-provider"];

/// One edge between two packages of the workspace.
struct Edge<'a> {
    from: &'a str,
    /// The directory of `from`.
    directory: &'a str,
    to: &'a str,
    to_directory: &'a str,
    kind: DependencyKind,
}

/// Checks every edge, and that every crate has its place.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        let directory = package.directory();
        if stands_on(&package.name).is_none() && room(&directory).is_none() {
            findings.push(Finding::new(
                package.manifest(),
                format!("crate `{}` has no place in the house", package.name),
                "add it to HOUSE in xtask/src/tidy/edges.rs and to design section 1, with what it may stand on",
            ));
            continue;
        }
        findings.extend(check_package(metadata, package, &directory));
    }
    findings
}

fn check_package(metadata: &Metadata, package: &Package, directory: &str) -> Vec<Finding> {
    let ours = package.dependencies.iter().filter_map(|dependency| {
        let to = metadata.member(&dependency.name)?;
        Some((to.name.as_str(), to.directory(), dependency.kind))
    });
    let forbidden = ours.filter_map(|(to, to_directory, kind)| {
        let edge = Edge { from: &package.name, directory, to, to_directory: &to_directory, kind };
        violation(&edge)
    });
    forbidden.map(|(what, fix)| Finding::new(package.manifest(), what, fix)).collect()
}

/// What is wrong with `edge`, and what to do about it.
fn violation(edge: &Edge<'_>) -> Option<(String, String)> {
    if edge.from == edge.to || is_allowed(edge) {
        return None;
    }
    let Edge { from, to, .. } = edge;
    if edge.kind == DependencyKind::Dev {
        return Some((
            format!("the tests of `{from}` may not know `{to}`"),
            format!("test through {}, or move the test up to a crate that stands on both", TEST_RIGS.join(" or ")),
        ));
    }
    let beneath = beneath(from).into_iter().collect::<Vec<_>>();
    let beneath = if beneath.is_empty() { "no crate of ours".to_owned() } else { beneath.join(", ") };
    Some((
        format!("`{from}` may not know `{to}`"),
        format!("remove the dependency ({from} may stand on {beneath}); what both need belongs below both"),
    ))
}

fn is_allowed(edge: &Edge<'_>) -> bool {
    if edge.kind == DependencyKind::Dev && TEST_RIGS.contains(&edge.to) {
        return true;
    }
    let is_end =
        |name: &str, directory: &str| WIRE_ENDS.contains(&name) || matches!(room(directory), Some(Room::Provider));
    if edge.kind == DependencyKind::Dev && is_end(edge.from, edge.directory) && WIRE_ENDS.contains(&edge.to) {
        return true;
    }
    if BUNDLERS.contains(&edge.from) && matches!(room(edge.to_directory), Some(Room::Provider)) {
        return true;
    }
    match room(edge.directory) {
        Some(Room::Everything) => true,
        Some(Room::Provider) => edge.to == "concert-provider" || beneath("concert-provider").contains(edge.to),
        None => beneath(edge.from).contains(edge.to),
    }
}

/// The rule of a directory.
fn room(directory: &str) -> Option<Room> {
    ROOMS.iter().find(|(name, _)| is_in(directory, name)).map(|(_, room)| *room)
}

/// Whether a package's directory is `room`, or below it.
pub(super) fn is_in(directory: &str, room: &str) -> bool {
    directory.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn stands_on(name: &str) -> Option<&'static [&'static str]> {
    HOUSE.iter().find(|(member, _)| *member == name).map(|(_, below)| *below)
}

/// Everything below a crate.
fn beneath(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = stands_on(name).unwrap_or_default().to_vec();
    while let Some(next) = waiting.pop() {
        if let Some((member, below)) = HOUSE.iter().find(|(member, _)| *member == next)
            && found.insert(*member)
        {
            waiting.extend(*below);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, kind: DependencyKind) -> bool {
        let directory = |name: &str| match name {
            "concert-e2e" => "e2e".to_owned(),
            _ if name.starts_with("concert-provider-") => "providers/x".to_owned(),
            _ => "crates/floor/x".to_owned(),
        };
        let (directory, to_directory) = (directory(from), directory(to));
        violation(&Edge { from, directory: &directory, to, to_directory: &to_directory, kind }).is_none()
    }

    #[test]
    fn arrows_point_down() {
        use DependencyKind::Normal;
        assert!(check("concert-merge", "concert-api", Normal), "through schema");
        assert!(!check("concert-api", "concert-merge", Normal));
        assert!(check("concert-store", "concert-world", Normal));
        assert!(!check("concert-store", "concert-merge", Normal), "store never knows field sets");
        assert!(!check("concert-runtime", "concert-apiserver", Normal));
        assert!(check("concert-cli", "concert-connector", Normal));
    }

    #[test]
    fn managed_and_connector_do_not_know_each_other() {
        use DependencyKind::{Dev, Normal};
        assert!(!check("concert-managed", "concert-connector", Normal));
        assert!(!check("concert-connector", "concert-managed", Normal));
        assert!(!check("concert-managed", "concert-connector", Dev));
    }

    #[test]
    fn test_rigs_are_for_tests() {
        use DependencyKind::{Build, Dev, Normal};
        assert!(check("concert-runtime", "concert-apiserver", Dev));
        assert!(check("concert-queue", "concert-testkit", Dev));
        assert!(!check("concert-reconcile", "concert-testkit", Normal));
        assert!(!check("concert-reconcile", "concert-testkit", Build));
    }

    #[test]
    fn providers_stand_on_the_sdk_alone() {
        use DependencyKind::Normal;
        assert!(check("concert-provider-file", "concert-provider", Normal));
        assert!(!check("concert-provider-file", "concert-runtime", Normal));
        assert!(check("concert-cli", "concert-provider-file", Normal));
        assert!(!check("concert-managed", "concert-provider-file", Normal));
        assert!(check("concert-e2e", "concert-apiserver", Normal));
    }

    #[test]
    fn the_house_has_no_cycle_and_no_unknown_crate() {
        for (name, below) in HOUSE {
            assert!(!beneath(name).contains(name), "{name} stands on itself");
            for crate_below in *below {
                assert!(stands_on(crate_below).is_some(), "{name} stands on unknown {crate_below}");
            }
        }
    }
}
