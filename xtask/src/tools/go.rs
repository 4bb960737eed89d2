//! Programs built from Go modules: once, into a cache outside the tree.
//!
//! The cache's key is the content of the module's files, so a new version is a new entry and an old one stays
//! good for other branches. A finished binary appears by rename; a lock keeps two builders apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::{Tool, on_path, version};
use crate::child;
use crate::metadata;

/// The Kubernetes release that the modules are pinned to; their `go.mod` must say the same.
const KUBERNETES: &str = "1.37.1";

/// The oldest Go that the modules accept: the `go` line of their `go.mod`.
const OLDEST_GO: (u32, u32) = (1, 26);

/// A program of ours below `xtask/`, in a Go module of its own.
pub(super) struct Program {
    /// The directory below `xtask/`, and its name in the cache.
    pub(super) module: &'static str,
    /// What to build: `.`, or a package that the module requires.
    pub(super) package: &'static str,
    /// The executable's name.
    pub(super) binary: &'static str,
}

impl Program {
    /// Where its files are.
    fn source(&self) -> PathBuf {
        metadata::root().join("xtask").join(self.module)
    }

    /// Where its binary is, or will be.
    pub(super) fn cached(&self) -> Result<PathBuf> {
        let mut hash = Fnv::new();
        for file in ["go.mod", "go.sum", "main.go"] {
            let path = self.source().join(file);
            hash.add(&fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
        Ok(cache()?.join(self.module).join(hash.to_string()).join(self.binary))
    }
}

/// Finds the program in the cache, or builds it.
pub(super) fn build(program: &Program) -> Tool {
    let note = |how: &str| format!("v{KUBERNETES}, {how}");
    let path = match program.cached() {
        Ok(path) => path,
        Err(error) => return Tool::Broken(format!("{error:#}")),
    };
    if path.is_file() {
        return Tool::Ready { path, note: note("from the cache") };
    }
    if let Err(why) = usable_go() {
        return Tool::Unavailable(format!("there is no {}, and {why}", path.display()));
    }
    match build_into(program, &path) {
        Ok(()) => Tool::Ready { path, note: note("built now") },
        Err(error) => Tool::Broken(format!("{error:#}")),
    }
}

/// Whether there is a Go that the modules accept; else why not.
pub(super) fn usable_go() -> Result<(), String> {
    let (major, minor) = OLDEST_GO;
    let Some(go) = on_path("go") else {
        return Err(format!("there is no Go on the PATH to build it (install Go {major}.{minor} or newer)"));
    };
    let mut command = Command::new(&go);
    command.args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local");
    let found = child::capture(command).map_err(|error| format!("{error:#}"))?;
    match version(&found) {
        Some(have) if have < OLDEST_GO => {
            Err(format!("{} is {}: older than {major}.{minor}, which it needs", go.display(), found.trim()))
        }
        Some(_) | None => Ok(()),
    }
}

fn build_into(program: &Program, path: &Path) -> Result<()> {
    let directory = path.parent().ok_or_else(|| anyhow!("the cache has no directory"))?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let lock_path = directory.join(format!("{}.lock", program.binary));
    let lock = fs::File::create(&lock_path).with_context(|| format!("cannot make {}", lock_path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    if path.is_file() {
        return Ok(()); // someone else built it while we waited
    }
    println!("     … building {} {KUBERNETES} from Go modules, once: some minutes", program.binary);
    let partial = path.with_extension("partial");
    child::run_quietly(go_build(program, &partial), &format!("building {}", program.binary))?;
    fs::rename(&partial, path).with_context(|| format!("cannot move {} into place", partial.display()))
}

fn go_build(program: &Program, output: &Path) -> Command {
    let (major, rest) = KUBERNETES.split_once('.').unwrap_or((KUBERNETES, ""));
    let minor = rest.split_once('.').map_or(rest, |(minor, _)| minor);
    let variable = "-X k8s.io/component-base/version";
    let flags = format!(
        "-s -w {variable}.gitVersion=v{KUBERNETES} {variable}.gitMajor={major} {variable}.gitMinor={minor} \
         {variable}.gitTreeState=clean"
    );
    let mut command = Command::new("go");
    command
        .args(["build", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(output)
        .arg(program.package)
        .current_dir(program.source())
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false");
    command
}

/// `${XDG_CACHE_HOME:-~/.cache}/concert`.
fn cache() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(base.ok_or_else(|| anyhow!("cannot find a cache directory: set HOME or XDG_CACHE_HOME"))?.join("concert"))
}

/// FNV-1a, 64 bits: names cache entries, guards nothing. Stable across Rust releases, unlike std's hasher.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds one file; its length goes first, so that two files never run together.
    fn add(&mut self, content: &[u8]) {
        let length = (content.len() as u64).to_le_bytes();
        for byte in length.iter().chain(content) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl std::fmt::Display for Fnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_where_files_end() {
        let hash = |parts: &[&str]| {
            let mut hash = Fnv::new();
            parts.iter().for_each(|part| hash.add(part.as_bytes()));
            hash.to_string()
        };
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }

    #[test]
    fn the_modules_are_pinned_to_the_release_we_name() {
        let minor_and_patch = KUBERNETES.split_once('.').unwrap().1;
        for (module, line) in [
            ("reference", format!("k8s.io/kubernetes v{KUBERNETES}")),
            ("kubectl", format!("k8s.io/kubectl v0.{minor_and_patch}")),
        ] {
            let path = metadata::root().join("xtask").join(module).join("go.mod");
            let text = fs::read_to_string(path).unwrap();
            assert!(text.contains(&line), "xtask/{module}/go.mod does not require {line}");
            assert!(text.contains(&format!("\ngo {}.{}", OLDEST_GO.0, OLDEST_GO.1)), "xtask/{module}: other go line");
        }
    }
}
