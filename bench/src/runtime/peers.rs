//! The subjects: ours, and the peers with how they are built.
//!
//! A peer is built by its own tool into `${XDG_CACHE_HOME:-~/.cache}/concert`; the tool knows whether its sources changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

/// Whose figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Ours: bytes, from JSON.
    Ours,
    /// controller-runtime with typed objects, from protobuf: its default for built-in kinds.
    ControllerRuntime,
    /// controller-runtime with unstructured objects, from JSON: what controllers of many kinds use.
    Unstructured,
    /// kube-rs with typed objects, from JSON.
    KubeRs,
    /// kube-rs with `DynamicObject`.
    Dynamic,
}

impl Subject {
    /// All, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Ours, Self::ControllerRuntime, Self::Unstructured, Self::KubeRs, Self::Dynamic];

    /// The head of its column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ControllerRuntime => "c-r typed",
            Self::Unstructured => "c-r unstr.",
            Self::KubeRs => "kube typed",
            Self::Dynamic => "kube dyn.",
        }
    }

    /// The form of objects that it is asked for.
    #[must_use]
    pub fn form(self) -> &'static str {
        match self {
            Self::Ours | Self::ControllerRuntime | Self::KubeRs => "typed",
            Self::Unstructured | Self::Dynamic => "dynamic",
        }
    }
}

/// The programs that could be built.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    kube: Option<PathBuf>,
    go: Option<PathBuf>,
}

impl Programs {
    /// Builds the peers among these subjects. What cannot be built is told and left out.
    #[must_use]
    pub fn build(subjects: &[Subject]) -> Self {
        let told = |what: &str, of: [Subject; 2], build: fn() -> Result<PathBuf>| {
            let built = subjects.iter().any(|subject| of.contains(subject)).then(build)?;
            built.inspect_err(|error| eprintln!("{what} is left out: {error:#}")).ok()
        };
        Self {
            kube: told("kube-rs", [Subject::KubeRs, Subject::Dynamic], kube),
            go: told("controller-runtime", [Subject::ControllerRuntime, Subject::Unstructured], go),
        }
    }

    /// The program of a subject; `None` if it is left out.
    ///
    /// # Errors
    /// Ours is not beside this program.
    pub fn of(&self, subject: Subject) -> Result<Option<PathBuf>> {
        Ok(match subject {
            Subject::Ours => Some(beside("runtime-subject")?),
            Subject::ControllerRuntime | Subject::Unstructured => self.go.clone(),
            Subject::KubeRs | Subject::Dynamic => self.kube.clone(),
        })
    }
}

impl Programs {
    /// The same, counting what it allocates.
    ///
    /// # Errors
    /// Ours is not beside this program.
    pub fn counting(&self, subject: Subject) -> Result<Option<PathBuf>> {
        Ok(match subject {
            Subject::Ours => Some(beside("runtime-counted")?),
            // Go counts by itself.
            Subject::ControllerRuntime | Subject::Unstructured => self.go.clone(),
            Subject::KubeRs | Subject::Dynamic => self.kube.as_ref().map(|program| program.with_file_name("counted")),
        })
    }
}

/// A program that cargo built beside this one.
///
/// # Errors
/// It is not there.
pub fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find this program")?.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    bail!("{} is missing: build it with `cargo build --release -p concert-bench`", path.display())
}

fn source(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(peer)
}

fn cache(name: &str) -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let base = base.ok_or_else(|| anyhow!("cannot find a cache directory: set HOME or XDG_CACHE_HOME"))?;
    let path = base.join("concert").join(name);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

fn kube() -> Result<PathBuf> {
    let target = cache("bench-kube")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(source("kube"));
    run(command, "building the subject of kube-rs (minutes, once)")?;
    Ok(target.join("release").join("concert-bench-kube"))
}

fn go() -> Result<PathBuf> {
    let program = cache("bench-go")?.join("controller-runtime");
    let mut command = Command::new("go");
    command
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source("go"))
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false");
    run(command, "building the subject of controller-runtime (minutes, once)")?;
    Ok(program)
}

fn run(mut command: Command, what: &str) -> Result<()> {
    eprintln!("{what}");
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run `{program}`: install it, or have it on the PATH"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    bail!("{what} failed: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "))
}
