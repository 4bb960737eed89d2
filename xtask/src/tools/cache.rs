//! What is made once and kept outside of the tree: `${XDG_CACHE_HOME:-~/.cache}/concert/NAME/KEY/…`.
//!
//! The key is the content of what it is made from, so a new version is a new entry and an old one stays good for other
//! branches. What is finished appears by rename; a lock keeps two makers apart.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// Where what is called `name` and made from `key` is kept.
pub(super) fn directory(name: &str, key: &Key) -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let base = base.ok_or_else(|| anyhow!("cannot find a cache directory: set HOME or XDG_CACHE_HOME"))?;
    Ok(base.join("concert").join(name).join(key.to_string()))
}

/// Makes `path`, a file or a directory, unless it is there. `make` is told a place beside it, and what it leaves there
/// is moved.
pub(super) fn once(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let directory = path.parent().ok_or_else(|| anyhow!("the cache has no directory"))?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let lock_path = path.with_extension("lock");
    let lock = fs::File::create(&lock_path).with_context(|| format!("cannot make {}", lock_path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    if path.exists() {
        return Ok(()); // someone else made it while we waited
    }
    let partial = path.with_extension("partial");
    make(&partial)?;
    fs::rename(&partial, path).with_context(|| format!("cannot move {} into place", partial.display()))
}

/// FNV-1a, 64 bits: names cache entries, guards nothing. Stable across Rust releases, unlike std's hasher.
pub(super) struct Key(u64);

impl Key {
    /// Of nothing yet.
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds some content; its length goes first, so that two never run together.
    pub(super) fn add(&mut self, content: &[u8]) {
        let length = (content.len() as u64).to_le_bytes();
        for byte in length.iter().chain(content) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds the content of a file.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<()> {
        self.add(&fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
        Ok(())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_sees_where_files_end() {
        let key = |parts: &[&str]| {
            let mut key = Key::new();
            parts.iter().for_each(|part| key.add(part.as_bytes()));
            key.to_string()
        };
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let path = std::env::temp_dir().join(format!("concert-cache-{}", std::process::id())).join("thing");
        let write = |text: &'static str| move |partial: &Path| fs::write(partial, text).context("no file");
        assert!(once(&path, |_| Err(anyhow!("no network"))).is_err());
        once(&path, write("one")).unwrap();
        once(&path, write("two")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
