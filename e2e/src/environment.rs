//! Where kubectl, the real server and our binaries are.
//!
//! `cargo xtask test` looks for them and says what it found in variables; a tool that it looked for in vain has
//! its reason in the `…_MISSING` variable. Run by hand, without variables, we look in the usual places.
//!
//! | variable | is |
//! |---|---|
//! | `CONCERT_KUBECTL` | a kubectl, 1.27 or newer |
//! | `CONCERT_REFERENCE_APISERVER` | the real kube-apiserver with etcd inside (`cargo xtask reference`) |
//! | `CONCERT_REFERENCE_CONTROLLERS` | the real kube-controller-manager (`cargo xtask reference`) |
//! | `CONCERT_KUBE_SUITE` | the directory of the test programs of kube-rs (`cargo xtask suite kube`) |
//! | `CONCERT_BIN_DIR` | the directory of `concert` and the others |

use std::env;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Why a tool is not there. A test that needs it calls [`Missing::skip`] and returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(String);

impl Missing {
    /// Says that the calling test cannot run, in the line that `cargo xtask test` counts as skipped.
    ///
    /// It goes straight to standard error: what `eprintln!` writes is captured when a test passes.
    pub fn skip(&self) {
        self.skip_as(std::thread::current().name().unwrap_or("a test"));
    }

    /// The same for a test that libtest does not know.
    pub fn skip_as(&self, test: &str) {
        let line = format!("SKIPPED: {test}: {self}\n");
        // One write, so that lines of parallel tests do not mix. Where nobody can read, nothing is lost.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// kubectl.
///
/// # Errors
/// Why there is none.
pub fn kubectl() -> Result<PathBuf, Missing> {
    given("CONCERT_KUBECTL")?
        .or_else(|| on_path("kubectl"))
        .ok_or_else(|| Missing("there is no kubectl on the PATH: run `cargo xtask test`, which installs it".to_owned()))
}

/// The real kube-apiserver.
///
/// # Errors
/// Why there is none.
pub fn reference_apiserver() -> Result<PathBuf, Missing> {
    let name = "CONCERT_REFERENCE_APISERVER";
    let fix = "run `cargo xtask test`, or set it to what `cargo xtask reference --print-path` prints";
    given(name)?.ok_or_else(|| Missing(format!("{name} is not set: {fix}")))
}

/// The real kube-controller-manager.
///
/// # Errors
/// Why there is none.
pub fn reference_controllers() -> Result<PathBuf, Missing> {
    let name = "CONCERT_REFERENCE_CONTROLLERS";
    let fix = "run `cargo xtask test`, or set it to what `cargo xtask reference` prints";
    given(name)?.ok_or_else(|| Missing(format!("{name} is not set: {fix}")))
}

/// The test programs of kube-rs.
///
/// # Errors
/// Why there are none.
pub fn kube_suite() -> Result<PathBuf, Missing> {
    let name = "CONCERT_KUBE_SUITE";
    let fix = "run `cargo xtask suite kube`, or `cargo xtask test`";
    given(name)?.ok_or_else(|| Missing(format!("{name} is not set: {fix}")))
}

/// One of our own binaries.
///
/// # Panics
/// When it is not built: the tests are about it, so they must not pass over it.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let directory = env::var_os("CONCERT_BIN_DIR").map(PathBuf::from).or_else(release_directory);
    let path = directory.unwrap_or_default().join(name);
    assert!(path.is_file(), "{} is not built: run `cargo xtask test`, or `cargo build --release`", path.display());
    path
}

/// What the variable says, if it is set.
fn given(variable: &str) -> Result<Option<PathBuf>, Missing> {
    if let Some(path) = env::var_os(variable) {
        return Ok(Some(path.into()));
    }
    match env::var(format!("{variable}_MISSING")) {
        Ok(why) => Err(Missing(why)),
        Err(_) => Ok(None),
    }
}

/// `target/release`, beside the `target/debug/deps` that this test runs from.
fn release_directory() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    executable.ancestors().map(|directory| directory.join("release")).find(|directory| directory.is_dir())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}
