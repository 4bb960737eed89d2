//! Directories: where data lives by default, and a private one for sockets that goes with the process.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use concert_world::World;

/// The platform's data directory for concert.
pub(crate) fn data_directory() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("concert"))
        .ok_or_else(|| anyhow!("cannot find a data directory: neither XDG_DATA_HOME nor HOME is set; pass --data-dir"))
}

/// A private directory for sockets (their paths must be short), removed with its owner.
pub(crate) struct RunDirectory(PathBuf);

impl RunDirectory {
    pub(crate) fn new(world: &World) -> anyhow::Result<Self> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|base| base.is_dir());
        let base = base.unwrap_or_else(std::env::temp_dir);
        let path = base.join(format!("concert-{}", world.random.text(b"abcdefghijklmnopqrstuvwxyz0123456789", 10)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the directory \"{}\"", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Best effort: whatever is in the way was put there by somebody else.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
