//! What `cargo metadata` says about the workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::child;

/// The workspace's root directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The answer of `cargo metadata`, as far as the tasks look at it.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// Every package: ours, and (unless asked without dependencies) all that we stand on.
    pub(crate) packages: Vec<Package>,
    /// The ids of our own packages.
    pub(crate) workspace_members: Vec<String>,
    /// Where cargo builds.
    pub(crate) target_directory: PathBuf,
    resolve: Option<Resolve>,
}

/// One package.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// Cargo's id of it.
    pub(crate) id: String,
    /// Its name, as other manifests write it.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// An SPDX expression, if it has one.
    pub(crate) license: Option<String>,
    /// The path of its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// What its manifest asks for.
    pub(crate) dependencies: Vec<Dependency>,
    /// Libraries, binaries, tests…
    pub(crate) targets: Vec<Target>,
}

/// One line of a manifest's dependency sections.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// The package's name (never its local alias).
    pub(crate) name: String,
    /// Which section it is in.
    #[serde(default, deserialize_with = "null_is_normal")]
    pub(crate) kind: DependencyKind,
}

/// The section a dependency stands in.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    /// `[dependencies]`.
    #[default]
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[build-dependencies]`.
    Build,
}

/// One target of a package.
#[derive(Deserialize)]
pub(crate) struct Target {
    /// Its name: for a binary, the file's.
    pub(crate) name: String,
    /// `lib`, `bin`, `test`…
    pub(crate) kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<NodeDependencyKind>,
}

#[derive(Deserialize)]
struct NodeDependencyKind {
    #[serde(default, deserialize_with = "null_is_normal")]
    kind: DependencyKind,
}

fn null_is_normal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<DependencyKind, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Metadata {
    /// Our own packages only; needs no network.
    pub(crate) fn workspace() -> Result<Self> {
        Self::read(child::cargo(), &["--no-deps"])
    }

    /// Our own packages and all that they stand on.
    pub(crate) fn complete() -> Result<Self> {
        Self::read(child::cargo(), &[])
    }

    /// What is in `directory`, and all that it stands on.
    pub(crate) fn of(directory: &Path) -> Result<Self> {
        let mut command = child::cargo();
        command.current_dir(directory);
        Self::read(command, &[])
    }

    fn read(mut command: Command, extra: &[&str]) -> Result<Self> {
        command.args(["metadata", "--format-version=1"]).args(extra);
        let text = child::capture(command).context("cannot read the workspace")?;
        serde_json::from_str(&text).context("cannot understand `cargo metadata`")
    }

    /// Our own packages, by name.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package))
    }

    /// Whether `package` is one of ours.
    pub(crate) fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }

    /// Our own package of that name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// What is linked into whom, over normal dependencies: package id → package ids.
    pub(crate) fn linked(&self) -> BTreeMap<&str, Vec<&str>> {
        let nodes = self.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let linked =
            |dependency: &&NodeDependency| dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
        nodes
            .map(|node| (node.id.as_str(), node.deps.iter().filter(linked).map(|dep| dep.pkg.as_str()).collect()))
            .collect()
    }
}

impl Package {
    /// The manifest's path as findings show it: relative to the root.
    pub(crate) fn manifest(&self) -> String {
        relative(&self.manifest_path)
    }

    /// The directory of the package, relative to the root.
    pub(crate) fn directory(&self) -> String {
        relative(self.manifest_path.parent().unwrap_or(&self.manifest_path))
    }

    /// The names of its examples.
    pub(crate) fn examples(&self) -> impl Iterator<Item = &str> {
        let is_example = |target: &&Target| target.kind.iter().any(|kind| kind == "example");
        self.targets.iter().filter(is_example).map(|target| target.name.as_str())
    }
}

/// `path` relative to the workspace's root, if it is below it.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
