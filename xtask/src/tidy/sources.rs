//! Rules about the text of files: no ignored tests, no `mod.rs`, shared lints, a complete map.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Finding;
use super::edges::TEST_RIGS;
use crate::metadata::{self, DependencyKind, Metadata, Package};

/// Directories without sources of ours.
const PASSED_OVER: &[&str] = &["target", ".git", ".cache", "node_modules"];

/// Who may read the environment, and why. Everyone else is told: a library that looks around is hard to test.
const ENVIRONMENT_READERS: &[&str] = &[
    "crates/app/cli/",           // programs are configured by their environment
    "crates/external/provider/", // the SDK's `main`
    "crates/control/runtime/",   // kubeconfig discovery
    "providers/",
    "examples/",
    "e2e/",
    "bench/",
    "xtask/",
];

/// Every Rust file of the tree, with its text.
pub(super) struct Sources(Vec<(String, String)>);

impl Sources {
    /// Reads the tree.
    pub(super) fn read() -> Result<Self> {
        let mut paths = Vec::new();
        collect(metadata::root(), &mut paths)?;
        paths.sort();
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((metadata::relative(&path), text))
        };
        Ok(Self(paths.into_iter().map(read).collect::<Result<_>>()?))
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Applies every rule about text.
    pub(super) fn check(&self, metadata: &Metadata) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, text) in &self.0 {
            findings.extend(check_file(path, text));
        }
        for package in metadata.members() {
            findings.extend(self.check_test_rigs(package));
            findings.extend(check_lints(package));
        }
        findings.extend(check_map(metadata));
        findings
    }

    /// A dev-dependency on a test rig is for `tests/`: below `src/` it would be a cycle in the reader's head.
    fn check_test_rigs(&self, package: &Package) -> Vec<Finding> {
        let source = format!("{}/src/", package.directory());
        let only_for_tests = |rig: &&&str| {
            let mut kinds = package.dependencies.iter().filter(|dep| dep.name == **rig).map(|dep| dep.kind).peekable();
            kinds.peek().is_some() && kinds.all(|kind| kind == DependencyKind::Dev)
        };
        let mut findings = Vec::new();
        for rig in TEST_RIGS.iter().filter(only_for_tests) {
            let name = rig.replace('-', "_");
            for (path, text) in self.0.iter().filter(|(path, _)| path.starts_with(&source)) {
                if let Some(line) =
                    text.lines().position(|line| line.contains(&name) && !line.trim_start().starts_with("//"))
                {
                    let what = format!("`{rig}` is used below src/");
                    findings.push(Finding::new(at(path, line), what, "move the test to the crate's tests/"));
                }
            }
        }
        findings
    }
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", directory.display()))?;
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
            collect(&path, paths)?;
        } else if !is_directory && path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn at(path: &str, line: usize) -> String {
    format!("{path}:{}", line + 1)
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if Path::new(path).file_name().is_some_and(|name| name == "mod.rs") {
        let fix = "name the file after its directory: x/mod.rs becomes x.rs";
        findings.push(Finding::new(path, "this tree has no mod.rs", fix));
    }
    let may_read_environment = ENVIRONMENT_READERS.iter().any(|room| path.starts_with(room)) || !path.contains("/src/");
    for (number, line) in text.lines().enumerate() {
        if !may_read_environment && reads_environment(line) {
            let fix = "take the value as an argument; `cli` reads the environment";
            findings.push(Finding::new(at(path, number), "a library reads the environment", fix));
        }
        if ignores_test(line) {
            let fix = "make it run (a missing tool is a `SKIPPED:` line, see concert-e2e), or delete it";
            findings.push(Finding::new(at(path, number), "an ignored test", fix));
        }
        if ignores_doctest(line) {
            let fix = "make it compile; `no_run` if it cannot run, `text` if it is not Rust";
            findings.push(Finding::new(at(path, number), "an ignored doc test", fix));
        }
    }
    findings
}

/// An attribute that ignores a test, plain or by `cfg_attr`. (Strings that begin like one are written in two parts.)
fn ignores_test(line: &str) -> bool {
    let line = line.trim_start();
    let conditional = line.starts_with("#[cfg_attr(") && line.trim_end_matches([')', ']']).ends_with("ignore");
    line.starts_with("#[ignore") || conditional
}

/// A call of `std::env` that reads a variable.
fn reads_environment(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("].iter().any(|call| code.contains(call))
}

/// The opening fence of a doc example that is not compiled.
fn ignores_doctest(line: &str) -> bool {
    let line = line.trim_start();
    let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
        return false;
    };
    let Some(words) = text.trim_start().strip_prefix("```") else {
        return false;
    };
    words.split([',', ' ']).any(|word| word.starts_with("ignore"))
}

fn check_lints(package: &Package) -> Option<Finding> {
    let text = fs::read_to_string(&package.manifest_path).unwrap_or_default();
    (!inherits_lints(&text)).then(|| {
        let what = format!("`{}` does not share the workspace's lints", package.name);
        Finding::new(package.manifest(), what, "add `[lints]` with `workspace = true`")
    })
}

fn inherits_lints(manifest: &str) -> bool {
    let is = |line: &str, wanted: &str| line.split_whitespace().collect::<String>() == wanted;
    let mut inside = false;
    manifest.lines().any(|line| {
        if line.trim_start().starts_with('[') {
            inside = is(line, "[lints]");
        }
        (inside && is(line, "workspace=true")) || is(line, "lints.workspace=true")
    })
}

fn check_map(metadata: &Metadata) -> Vec<Finding> {
    const MAP: &str = "ARCHITECTURE.md";
    let Ok(text) = fs::read_to_string(metadata::root().join(MAP)) else {
        return vec![Finding::new(
            MAP,
            "there is no map of the house",
            "write it: floors, life of an event, invariants",
        )];
    };
    let missing = metadata.members().filter(|package| !mentions(&text, &package.name, &package.directory()));
    missing
        .map(|package| {
            let what = format!("crate `{}` is not on the map", package.name);
            Finding::new(MAP, what, format!("say in a line what `{}` is", package.directory()))
        })
        .collect()
}

/// Whether the map names a crate: by package, by directory, or by its short name in backticks.
fn mentions(map: &str, name: &str, directory: &str) -> bool {
    let short = directory.rsplit('/').next().unwrap_or(name);
    [format!("`{name}`"), directory.to_owned(), format!("`{short}`"), format!("`{short}/`")]
        .iter()
        .any(|text| map.contains(text.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_tests_are_found() {
        for line in ["#[ignore]", "    #[ignore = \"slow\"]", "#[cfg_attr(not(unix), ignore)]"] {
            assert!(ignores_test(line), "{line}");
        }
        for line in ["// #[ignore] is never used", "fn ignore() {}", "#[cfg_attr(test, derive(Debug))]"] {
            assert!(!ignores_test(line), "{line}");
        }
    }

    #[test]
    fn ignored_doc_tests_are_found() {
        for line in ["/// ```ignore", "//! ```rust,ignore", "    /// ``` ignore-windows"] {
            assert!(ignores_doctest(line), "{line}");
        }
        for line in ["/// ```no_run", "/// ```", "// ```ignore", "/// ignore the rest"] {
            assert!(!ignores_doctest(line), "{line}");
        }
    }

    #[test]
    fn findings_name_the_line_and_the_fix() {
        let findings = check_file("crates/x/src/mod.rs", concat!("\n#[", "ignore]\n"));
        let places: Vec<&str> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["crates/x/src/mod.rs", "crates/x/src/mod.rs:2"]);
        assert!(findings.iter().all(|finding| !finding.fix.is_empty()));
    }

    #[test]
    fn only_programs_read_the_environment() {
        let text =
            "fn home() { std::env::var(\"HOME\"); }\n// env::var( is for programs\nconst V: &str = env!(\"X\");\n";
        let places = |path: &str| check_file(path, text).into_iter().map(|finding| finding.place).collect::<Vec<_>>();
        assert_eq!(places("crates/server/store/src/disk.rs"), ["crates/server/store/src/disk.rs:1"]);
        assert!(places("crates/server/store/tests/disk.rs").is_empty());
        assert!(places("crates/app/cli/src/main.rs").is_empty());
    }

    #[test]
    fn lints_are_shared_in_either_spelling() {
        assert!(inherits_lints("[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"));
        assert!(inherits_lints("[package]\nlints.workspace = true\n"));
        assert!(!inherits_lints("[package]\nversion.workspace = true\n\n[lints.rust]\nunsafe_code = \"forbid\"\n"));
        assert!(!inherits_lints("[dependencies.serde]\nworkspace = true\n\n[lints]\n"));
    }

    #[test]
    fn the_map_may_use_any_name_of_a_crate() {
        assert!(mentions("the `store` keeps", "concert-store", "crates/server/store"));
        assert!(mentions("see crates/server/store/src", "concert-store", "crates/server/store"));
        assert!(!mentions("it stores things", "concert-store", "crates/server/store"));
    }
}
