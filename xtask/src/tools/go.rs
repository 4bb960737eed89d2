//! Programs built from Go modules: once, into a cache outside the tree.
//!
//! The cache's key is the content of the module's files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::cache::{self, Key};
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
        let mut key = Key::new();
        for file in ["go.mod", "go.sum", "main.go"] {
            key.add_file(&self.source().join(file))?;
        }
        Ok(cache::directory(self.module, &key)?.join(self.binary))
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
    cache::once(path, |partial| {
        println!("     … building {} {KUBERNETES} from Go modules, once: some minutes", program.binary);
        child::run_quietly(go_build(program, partial), &format!("building {}", program.binary))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_are_pinned_to_the_release_we_name() {
        let minor_and_patch = KUBERNETES.split_once('.').unwrap().1;
        for (module, line) in [
            ("reference", format!("k8s.io/kubernetes v{KUBERNETES}")),
            ("kubectl", format!("k8s.io/kubectl v0.{minor_and_patch}")),
        ] {
            let path = metadata::root().join("xtask").join(module).join("go.mod");
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&line), "xtask/{module}/go.mod does not require {line}");
            assert!(text.contains(&format!("\ngo {}.{}", OLDEST_GO.0, OLDEST_GO.1)), "xtask/{module}: other go line");
        }
    }
}
