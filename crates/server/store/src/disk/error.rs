//! What can be wrong with a disk, in words that say what to do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error("cannot use data directory \"{}\": another concert process is using it; stop that one, or choose another directory with --data-dir", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be made or written.
    #[error("cannot use data directory \"{}\": {source}; choose a writable directory with --data-dir", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing to read.
    #[error("there is no store in \"{}\"; say where it is with --data-dir", .0.display())]
    Missing(PathBuf),
    /// The content is not what we wrote.
    #[error("the store in \"{0}\" is damaged: {what}; see the whole damage with `concert store check --data-dir {0}`, then move {0}/concert.redb away and put a backup back with `concert store restore --data-dir {0} FILE`", .directory.display())]
    Damaged {
        /// Where.
        directory: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It was written by a version we do not know.
    #[error("cannot open the store in \"{}\": its format is {format:?}, this version reads {:?}; use the version that wrote it, or move it away", .directory.display(), super::FORMAT_NAME)]
    Format {
        /// Where.
        directory: PathBuf,
        /// Its format.
        format: String,
    },
    /// The disk failed.
    #[error("cannot open the store in \"{}\": {source}", .directory.display())]
    Disk {
        /// Where.
        directory: PathBuf,
        /// Why.
        source: DiskError,
    },
    /// No thread could be started.
    #[error("cannot start the store's thread: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
}

/// A failed disk operation: what failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DiskError(String);

impl DiskError {
    /// The disk refused; it is not asked again, because what an fsync that failed has kept is unknown.
    fn io(error: &std::io::Error) -> Self {
        let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
        let fix = if full { "make room where the data directory is" } else { "check the disk" };
        Self(format!("{error}; {fix}, then start concert again: every acknowledged write is kept"))
    }

    fn other(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Why redb's content could not be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another process has the file.
    InUse,
    /// The content is wrong.
    Damage(String),
    /// The format is not ours.
    Format(String),
    /// The disk failed.
    Disk(DiskError),
}

impl Fault {
    /// The fault, with the place where it was found.
    pub(crate) fn at(self, directory: &Path) -> OpenError {
        let directory = directory.to_owned();
        match self {
            Self::InUse => OpenError::InUse(directory),
            Self::Damage(what) => OpenError::Damaged { directory, what },
            Self::Format(format) => OpenError::Format { directory, format },
            Self::Disk(source) => OpenError::Disk { directory, source },
        }
    }

    /// The same while running, when there is nobody to choose another directory.
    pub(crate) fn while_running(self) -> DiskError {
        match self {
            Self::Disk(error) => error,
            Self::Damage(what) => DiskError(format!(
                "its content is damaged: {what}; stop concert and see the whole damage with `concert store check`"
            )),
            Self::InUse | Self::Format(_) => DiskError::other("another process has changed its file"),
        }
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Self::Damage(format!("it ends too early ({error})"))
            }
            redb::Error::Io(error) if error.kind() == ErrorKind::InvalidData => Self::Damage(error.to_string()),
            redb::Error::Io(error) => Self::Disk(DiskError::io(&error)),
            error @ (redb::Error::Corrupted(_)
            | redb::Error::TableDoesNotExist(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TableIsNotMultimap(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::RepairAborted) => Self::Damage(error.to_string()),
            other => Self::Disk(DiskError::other(other)),
        }
    }
}

macro_rules! from_parts_of_redb {
    ($($part:ident),+) => {$(
        impl From<redb::$part> for Fault {
            fn from(error: redb::$part) -> Self {
                redb::Error::from(error).into()
            }
        }
    )+};
}

from_parts_of_redb!(StorageError, TableError, TransactionError, CommitError, DatabaseError, SetDurabilityError);

/// Runs redb code; a panic inside it (a damaged file can cause one) becomes an error.
pub(crate) fn fence<T>(act: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Fault::Damage(format!("the database cannot read it ({text})")))
    })
}
