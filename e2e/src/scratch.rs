//! Directories that go with the test, unless it failed.

use std::path::Path;

use tempfile::TempDir;

use crate::reaper;

/// A fresh directory. Removed when dropped; kept, and named on standard error, when the test panics or
/// `CONCERT_KEEP` is set.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes a directory; `name` is part of its path.
    ///
    /// # Panics
    /// When the system gives us none.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let directory = tempfile::Builder::new().prefix(&format!("concert-{name}-")).tempdir();
        let directory = directory.unwrap_or_else(|error| panic!("cannot make a temporary directory: {error}"));
        reaper::remove(directory.path());
        Self(directory)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("CONCERT_KEEP").is_some() {
            self.0.disable_cleanup(true);
            reaper::keep(self.0.path());
            eprintln!("kept: {}", self.0.path().display());
        }
    }
}
