//! Directories: where data lives by default, and a private one for sockets that goes with the process.

use std::fs::File;
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

/// The path of a socket has at most 107 bytes; so many are left for what comes below the base.
const LONGEST_BASE: usize = 68;

/// The file in a run directory that its owner keeps locked for as long as it lives, however it ends.
const LOCK: &str = "lock";

/// A private directory for sockets, removed with its owner, or by the next one if that was killed.
pub(crate) struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    pub(crate) fn new(world: &World) -> anyhow::Result<Self> {
        let bases = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter().chain([std::env::temp_dir()]);
        let usable = |base: &PathBuf| base.is_dir() && base.as_os_str().len() <= LONGEST_BASE;
        let base = { bases }.find(usable).with_context(|| {
            let text = "there is no directory for sockets: set XDG_RUNTIME_DIR or TMPDIR to one that exists";
            format!("{text}, with at most {LONGEST_BASE} bytes in its path")
        })?;
        sweep(&base);
        let path = base.join(format!("concert-{}", world.random.text(b"abcdefghijklmnopqrstuvwxyz0123456789", 10)));
        let lock = make(&path).with_context(|| {
            let fix = "set XDG_RUNTIME_DIR or TMPDIR to a directory that you may write to";
            format!("cannot make the directory \"{}\"; {fix}", path.display())
        })?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Best effort: whatever is in the way was put there by somebody else.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Makes a run directory. Its lock is held before it has its name, so that nobody sweeps a new one.
fn make(path: &Path) -> std::io::Result<File> {
    std::fs::DirBuilder::new().mode(0o700).create(path)?;
    let new = path.join("lock.new");
    let lock = File::create_new(&new)?;
    lock.try_lock()?;
    std::fs::rename(new, path.join(LOCK))?;
    Ok(lock)
}

/// Removes run directories whose owners are gone. Only our own: the lock of another user cannot be opened for writing.
fn sweep(base: &Path) {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("concert-"));
    for directory in ours.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()) {
        let lock = File::options().write(true).open(directory.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let [held, left, foreign] =
            ["concert-held", "concert-left", "concert-foreign"].map(|name| base.path().join(name));
        let lock = make(&held).unwrap();
        drop(make(&left).unwrap());
        std::fs::create_dir(&foreign).unwrap();
        sweep(base.path());
        assert_eq!((held.exists(), left.exists(), foreign.exists()), (true, false, true));
        drop(lock);
        sweep(base.path());
        assert!(!held.exists());
    }
}
