//! The directory below which everything happens.
//!
//! Paths are walked one name at a time from an open directory, and no step follows a symbolic link: however a path is
//! spelled, and whatever is moved meanwhile, nothing outside the root is reached.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use concert_provider::ProviderError;
use concert_world::Random;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

const FIELD: &str = "spec.forProvider.path";

/// Objects are smaller than this, so that a larger file cannot be as wanted and need not be read.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A directory below which files are read and written.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    path: PathBuf,
    random: Random,
}

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Absent if it is too large.
    pub(crate) content: Option<Vec<u8>>,
}

impl Root {
    pub(crate) fn new(path: PathBuf) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, random: Random::from_system() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The root itself, which may be reached through links.
    pub(crate) fn open(&self) -> Result<OwnedFd, ProviderError> {
        rustix::fs::open(&self.path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
            ProviderError::unavailable(format!("cannot open the root {:?}: {}", self.path, say(error)))
        })
    }

    /// The file at `path`, if there is one.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Found>, ProviderError> {
        let Some((directory, name)) = self.walk(path, Missing::Leave)? else { return Ok(None) };
        // Not blocking: opening a pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed("read", path, error)),
        };
        let stat = fstat(&file).map_err(|error| failed("read", path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ProviderError::invalid(
                FIELD,
                format!("{path:?} is there and is not a file; choose another path"),
            ));
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let mode = stat.st_mode & 0o7777;
        Ok(Some(Found { mode, size, content: content(file, size, path)? }))
    }

    /// Puts a file at `path`: all of it or nothing.
    pub(crate) fn write(&self, path: &str, content: &[u8], mode: u32) -> Result<(), ProviderError> {
        let Some((directory, name)) = self.walk(path, Missing::Make)? else { return Ok(()) };
        let taken =
            statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if taken.is_ok_and(|kind| kind != FileType::RegularFile) {
            return Err(ProviderError::invalid(
                FIELD,
                format!("{path:?} is there and is not a file; choose another path"),
            ));
        }
        let early = format!(".concert-{:016x}", self.random.u64());
        let written = write_early(&directory, &early, content, mode)
            .and_then(|()| renameat(&directory, &early, &directory, name))
            .and_then(|()| fsync(&directory));
        written.map_err(|error| {
            let _ = unlinkat(&directory, &early, AtFlags::empty());
            failed("write", path, error)
        })
    }

    /// Removes the file at `path`; it may be gone already.
    pub(crate) fn remove(&self, path: &str) -> Result<(), ProviderError> {
        let Some((directory, name)) = self.walk(path, Missing::Leave)? else { return Ok(()) };
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) => fsync(&directory).map_err(|error| failed("remove", path, error)),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("remove", path, error)),
        }
    }

    /// The directory that holds `path`, and the last name; `None` if a directory on the way is missing and shall stay so.
    fn walk<'p>(&self, path: &'p str, missing: Missing) -> Result<Option<(OwnedFd, &'p str)>, ProviderError> {
        let mut names = names(path)?;
        let last = names.pop().ok_or_else(|| invalid(path, "names no file"))?;
        let mut directory = self.open()?;
        for name in names {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = match openat(&directory, name, flags, Mode::empty()) {
                Err(Errno::NOENT) if missing == Missing::Leave => return Ok(None),
                Err(Errno::NOENT) => mkdirat(&directory, name, Mode::from_raw_mode(0o755))
                    .or_else(|error| if error == Errno::EXIST { Ok(()) } else { Err(error) })
                    .and_then(|()| fsync(&directory))
                    .and_then(|()| openat(&directory, name, flags, Mode::empty())),
                opened => opened,
            };
            directory = next.map_err(|error| failed("reach", path, error))?;
        }
        Ok(Some((directory, last)))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Missing {
    Leave,
    Make,
}

/// The names of a relative path that stays below its start.
fn names(path: &str) -> Result<Vec<&str>, ProviderError> {
    if path.is_empty() || path.contains('\0') {
        return Err(invalid(path, "is not a path"));
    }
    if path.ends_with('/') {
        return Err(invalid(path, "names a directory; name a file"));
    }
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.extend(name.to_str()),
            Component::CurDir => {}
            Component::ParentDir => return Err(invalid(path, "must not contain \"..\"; it is relative to the root")),
            Component::RootDir | Component::Prefix(_) => {
                return Err(invalid(path, "must be relative to the root; leave out the leading slash"));
            }
        }
    }
    Ok(names)
}

fn invalid(path: &str, problem: &str) -> ProviderError {
    ProviderError::invalid(FIELD, format!("{path:?} {problem}"))
}

fn content(file: OwnedFd, size: u64, path: &str) -> Result<Option<Vec<u8>>, ProviderError> {
    if size > LARGEST {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = std::fs::File::from(file).take(LARGEST + 1).read_to_end(&mut content);
    read.map_err(|error| ProviderError::other(format!("cannot read {path:?}: {error}")))?;
    Ok(Some(content))
}

fn write_early(directory: &OwnedFd, name: &str, content: &[u8], mode: u32) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from_raw_mode(0o600))?;
    let mut file = std::fs::File::from(file);
    file.write_all(content).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    fchmod(&file, Mode::from_raw_mode(mode))?;
    fsync(&file)
}

fn failed(verb: &str, path: &str, error: Errno) -> ProviderError {
    match error {
        Errno::LOOP | Errno::NOTDIR => {
            invalid(path, "leads through a symbolic link or a file; every directory on the way must be a real one")
        }
        Errno::ISDIR => invalid(path, "is a directory; name a file"),
        Errno::NAMETOOLONG => invalid(path, "has a name that is too long"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            ProviderError::denied(format!("cannot {verb} {path:?}: {}", say(error)))
        }
        Errno::NOSPC | Errno::DQUOT => ProviderError::unavailable(format!("cannot {verb} {path:?}: {}", say(error))),
        _ => ProviderError::other(format!("cannot {verb} {path:?}: {}", say(error))),
    }
}

/// The operating system's words without its number.
fn say(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path().join("root"));
        std::fs::create_dir(root.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn files_are_written_read_and_removed() {
        let (_dir, root) = root();
        assert!(root.read("a/b").unwrap().is_none());
        root.write("a/b", b"one", 0o640).unwrap();
        root.write("./a//b", b"two", 0o600).unwrap();
        let found = root.read("a/b").unwrap().unwrap();
        assert_eq!((found.mode, found.content.unwrap()), (0o600, b"two".to_vec()));
        assert_eq!(std::fs::read_dir(root.path().join("a")).unwrap().count(), 1, "nothing is left over");
        root.remove("a/b").unwrap();
        root.remove("a/b").unwrap();
        root.remove("nowhere/at/all").unwrap();
    }

    #[test]
    fn nothing_outside_the_root_is_reached() {
        let (dir, root) = root();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        symlink(dir.path(), root.path().join("out")).unwrap();
        symlink(dir.path().join("secret"), root.path().join("link")).unwrap();
        for path in ["../secret", "a/../../secret", "/etc/passwd", "out/secret", "link", "", "a/", ".", "a\0b"] {
            for outcome in [root.read(path).map(drop), root.write(path, b"x", 0o644)] {
                let error = outcome.expect_err(path);
                assert_eq!(error.field(), Some(FIELD), "{path}: {error}");
            }
        }
        root.remove("link").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "s");
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let (_dir, root) = root();
        std::fs::create_dir(root.path().join("d")).unwrap();
        for outcome in [root.read("d").map(drop), root.write("d", b"", 0o644), root.remove("d")] {
            assert_eq!(outcome.unwrap_err().field(), Some(FIELD));
        }
        root.write("f", b"", 0o644).unwrap();
        assert_eq!(root.write("f/g", b"", 0o644).unwrap_err().field(), Some(FIELD));
        let mode = std::fs::metadata(root.path().join("f")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}
