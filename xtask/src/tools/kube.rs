//! The tests of kube-rs, built once from its published crates.
//!
//! ```text
//! crates.io ──► a workspace in the cache: copies of the crates, their manifests mended ──► three test programs
//! ```
//!
//! Cargo runs the tests of a crate only where its dev-dependencies are resolved: in a workspace that has it as a
//! member. And publishing drops the dev-dependency on `kube`, which would be a circle; it is put back. The versions of
//! everything are those of `xtask/kube/Cargo.lock`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Tool;
use super::cache::{self, Key};
use crate::child::{self, Progress};
use crate::metadata::{self, Metadata};
use crate::time::{Human, Stopwatch};

/// A published crate with tests that need a server.
struct Crate {
    name: &'static str,
    /// The features of `kube` that its tests need; publishing drops that.
    needs: &'static [&'static str],
}

const CRATES: [Crate; 3] = [
    Crate { name: "kube", needs: &[] },
    Crate { name: "kube-client", needs: &["derive", "client", "ws"] },
    Crate { name: "kube-runtime", needs: &["derive", "client", "runtime"] },
];

/// What the tests ask for. Not `openssl-tls`, which needs the system's OpenSSL, nor `kubelet-debug`, which needs nodes:
/// each hides one test.
const FEATURES: &str = "kube/derive,kube/runtime,kube-client/rustls-tls,kube-client/ws,kube-client/unstable-client";

/// So many crates make a line.
const OFTEN: usize = 50;

/// So many lines of a failed build are shown.
const TAIL: usize = 40;

/// The test programs in the cache, one per crate and named as it, or built now.
pub(crate) fn kube() -> Tool {
    match find() {
        Ok((path, note)) => Tool::Ready { path, note },
        Err(error) => Tool::Broken(format!("{error:#}")),
    }
}

fn find() -> Result<(PathBuf, String)> {
    let lock = read(&source().join("Cargo.lock"))?;
    let version = locked_version(&lock).context("xtask/kube/Cargo.lock has no kube")?;
    let mut key = Key::new();
    key.add_file(&source().join("Cargo.toml"))?;
    key.add(lock.as_bytes());
    key.add(FEATURES.as_bytes());
    CRATES.iter().for_each(|one| key.add(mended("", one).as_bytes()));
    let path = cache::directory("kube", &key)?.join("tests");
    if path.is_dir() {
        return Ok((path, format!("{version}, from the cache")));
    }
    cache::once(&path, |partial| {
        println!("     … building the tests of kube-rs {version}, once: some minutes");
        let workspace = partial.with_extension("workspace");
        prepare(&workspace, version, &lock)?;
        let programs = build(&workspace)?;
        keep(&programs, partial)?;
        fs::remove_dir_all(&workspace).with_context(|| format!("cannot remove {}", workspace.display()))
    })?;
    Ok((path, format!("{version}, built now")))
}

/// Chooses the versions of everything anew: as our own workspace has them, and for the rest the newest.
pub(crate) fn lock() -> Result<PathBuf> {
    let ours = read(&metadata::root().join("Cargo.lock"))?;
    let version = locked_version(&ours).context("Cargo.lock has no kube")?;
    let workspace = cache::directory("kube", &Key::new())?;
    prepare(&workspace, version, &ours)?;
    Metadata::of(&workspace)?;
    let path = source().join("Cargo.lock");
    fs::copy(workspace.join("Cargo.lock"), &path).with_context(|| format!("cannot write {}", path.display()))?;
    fs::remove_dir_all(&workspace).with_context(|| format!("cannot remove {}", workspace.display()))?;
    Ok(path)
}

/// Where the workspace's own files are.
fn source() -> PathBuf {
    metadata::root().join("xtask/kube")
}

/// The version of kube that a lock file speaks of.
fn locked_version(lock: &str) -> Option<&str> {
    let (_, entry) = lock.split_once("name = \"kube\"\nversion = \"")?;
    entry.split_once('"').map(|(version, _)| version)
}

/// Makes a workspace of the published crates.
fn prepare(workspace: &Path, version: &str, lock: &str) -> Result<()> {
    let published = fetch(&workspace.join("fetch"), version, lock)?;
    write(&workspace.join("Cargo.toml"), &read(&source().join("Cargo.toml"))?)?;
    write(&workspace.join("Cargo.lock"), lock)?;
    for (one, from) in CRATES.iter().zip(published) {
        let to = workspace.join(one.name);
        copy(&from, &to)?;
        let manifest = to.join("Cargo.toml");
        write(&manifest, &mended(&read(&manifest)?, one))?;
    }
    Ok(())
}

/// Where cargo keeps the published crates. It gets them as it gets any dependency.
fn fetch(directory: &Path, version: &str, lock: &str) -> Result<Vec<PathBuf>> {
    let wanted: String = CRATES.iter().map(|one| format!("{} = \"={version}\"\n", one.name)).collect();
    let manifest =
        format!("[package]\nname = \"fetch\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{wanted}");
    write(&directory.join("Cargo.toml"), &manifest)?;
    write(&directory.join("Cargo.lock"), lock)?;
    write(&directory.join("src/lib.rs"), "")?;
    let fetched = Metadata::of(directory).context("cannot get kube-rs from crates.io")?;
    let place = |one: &Crate| {
        let mut packages = fetched.packages.iter();
        let package = packages.find(|package| package.name == one.name && package.version == version);
        let directory = package.and_then(|package| package.manifest_path.parent());
        Ok(directory.with_context(|| format!("cargo did not get {} {version}", one.name))?.to_owned())
    };
    CRATES.iter().map(place).collect()
}

/// A published manifest with the dev-dependency that it had. There each has a table of its own, so one can follow.
fn mended(manifest: &str, one: &Crate) -> String {
    match one.needs {
        [] => manifest.to_owned(),
        features => format!("{manifest}\n[dev-dependencies.kube]\npath = \"../kube\"\nfeatures = {features:?}\n"),
    }
}

/// Builds the tests; gives the programs by the names of their crates.
fn build(workspace: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut command = child::cargo();
    command
        .current_dir(workspace)
        .args(["test", "--no-run", "--locked", "--workspace", "--lib", "--features", FEATURES])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(workspace.join("target"));
    let watch = Stopwatch::start();
    let (mut programs, mut compiled, mut said) = (Vec::new(), 0, Vec::new());
    let status = child::stream(command, |progress| match progress {
        Progress::Line(line) if line.starts_with('{') => programs.extend(program(line)),
        Progress::Line(line) => {
            said.push(line.to_owned());
            if line.trim_start().starts_with("Compiling ") {
                compiled += 1;
                if compiled % OFTEN == 0 {
                    println!("     … {compiled} crates so far, {}", Human(watch.elapsed()));
                }
            }
        }
        Progress::Silent(since) => println!("     … {compiled} crates so far, {}", Human(since)),
    })?;
    if !status.success() || programs.len() != CRATES.len() {
        let tail = said[said.len().saturating_sub(TAIL)..].join("\n  ");
        bail!("building the tests of kube-rs failed ({status}):\n  {tail}");
    }
    Ok(programs)
}

/// The test program that a message of cargo speaks of.
fn program(message: &str) -> Option<(&'static str, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str()?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let one = CRATES.iter().find(|one| directory.ends_with(one.name))?;
    Some((one.name, path.into()))
}

/// Copies the programs into a directory of their own.
fn keep(programs: &[(&str, PathBuf)], directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, path) in programs {
        fs::copy(path, directory.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let made = fs::create_dir_all(directory).and_then(|()| fs::write(path, text));
    made.with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a directory and all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_of_the_version_that_we_use() {
        let ours = read(&metadata::root().join("Cargo.lock")).unwrap();
        let theirs = read(&source().join("Cargo.lock")).unwrap();
        let message = "run `cargo xtask suite kube --lock`";
        assert_eq!(locked_version(&theirs).unwrap(), locked_version(&ours).unwrap(), "{message}");
    }

    #[test]
    fn what_publishing_dropped_is_put_back() {
        let manifest = "[dev-dependencies.tokio]\nversion = \"1\"\n";
        let expected = format!(
            "{manifest}\n[dev-dependencies.kube]\npath = \"../kube\"\nfeatures = [\"derive\", \"client\", \"ws\"]\n"
        );
        assert_eq!(mended(manifest, &CRATES[1]), expected);
        assert_eq!(mended(manifest, &CRATES[0]), manifest);
    }

    #[test]
    fn programs_are_found_among_the_messages_of_cargo() {
        let message = r#"{"manifest_path":"/w/kube-client/Cargo.toml","executable":"/w/target/debug/deps/a-1"}"#;
        assert_eq!(program(message), Some(("kube-client", "/w/target/debug/deps/a-1".into())));
        assert_eq!(program(r#"{"manifest_path":"/w/kube/Cargo.toml","executable":null}"#), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
