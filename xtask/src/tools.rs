//! Finding, and where we can installing, what the tests need beyond a Rust toolchain.

mod cache;
mod cargo_fuzz;
mod go;
mod kube;
mod kubectl;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};

pub(crate) use cargo_fuzz::cargo_fuzz;
pub(crate) use kube::{kube, lock as lock_kube};
pub(crate) use kubectl::kubectl;

/// The Go program that is the real API server.
const REFERENCE: go::Program = go::Program { module: "reference", package: ".", binary: "kube-apiserver" };

/// The real controllers, from the same module: the same release, and most of the build is shared.
const CONTROLLERS: go::Program = go::Program {
    module: "reference",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    binary: "kube-controller-manager",
};

/// Something that the black-box tests need.
pub(crate) struct Needed {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The environment variable that says where it is.
    variable: &'static str,
    /// Finds or installs it.
    pub(crate) find: fn() -> Tool,
}

/// All that they need.
pub(crate) const NEEDED: &[Needed] = &[
    Needed { name: "kubectl", variable: "CONCERT_KUBECTL", find: kubectl },
    Needed { name: "reference server", variable: "CONCERT_REFERENCE_APISERVER", find: reference },
    Needed { name: "reference controllers", variable: "CONCERT_REFERENCE_CONTROLLERS", find: controllers },
    Needed { name: "kube-rs suite", variable: "CONCERT_KUBE_SUITE", find: kube },
];

impl Needed {
    /// What the tests are told: where it is, or in `…_MISSING` that it is not there.
    pub(crate) fn told(&self, tool: &Tool) -> (String, OsString) {
        match tool {
            Tool::Ready { path, .. } => (self.variable.to_owned(), path.into()),
            // The reason is told once, by whoever looked for it; each test only says what it lacks.
            Tool::Unavailable(_) | Tool::Broken(_) => {
                (format!("{}_MISSING", self.variable), format!("there is no {}", self.name).into())
            }
        }
    }
}

/// Where a search for a tool ended.
pub(crate) enum Tool {
    /// It is here.
    Ready {
        /// The executable, or the directory of several.
        path: PathBuf,
        /// Its version and where it comes from.
        note: String,
    },
    /// It is not, and nothing that we may do would change that.
    Unavailable(String),
    /// It is not, although we could have installed it: the tests are not complete.
    Broken(String),
}

impl Tool {
    /// Where it is, and its note; without it there is no going on.
    pub(crate) fn ready(self) -> Result<(PathBuf, String)> {
        match self {
            Tool::Ready { path, note } => Ok((path, note)),
            Tool::Unavailable(why) | Tool::Broken(why) => bail!("{why}"),
        }
    }
}

/// The real kube-apiserver with etcd inside, from the cache or built with Go.
pub(crate) fn reference() -> Tool {
    go::build(&REFERENCE)
}

/// The real kube-controller-manager, from the cache or built with Go.
pub(crate) fn controllers() -> Tool {
    go::build(&CONTROLLERS)
}

/// The first executable file of that name on the `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_executable = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|directory| directory.join(name)).find(is_executable)
}

/// Major and minor of the first `X.Y` in `text`: `v1.32.4-dispatcher`, `go1.26.8`, `1.20.5+really1.20.2-1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let mut parts = text[start..].split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        assert_eq!(version("v1.32.4-dispatcher"), Some((1, 32)));
        assert_eq!(version("go1.26.8"), Some((1, 26)));
        assert_eq!(version("1.20.5+really1.20.2-1.1+deb12u1"), Some((1, 20)));
        assert_eq!(version("devel"), None);
    }

    #[test]
    fn the_path_is_searched() {
        assert!(on_path("sh").is_some());
        assert!(on_path("no-such-program-here").is_none());
    }
}
