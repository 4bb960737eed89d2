//! Where candidates meet: a Lease, or whatever else compares and sets.

use std::fmt;

use futures::future::BoxFuture;
use tower::BoxError;

use super::elector::Record;

/// Where candidates meet, if not at a Lease: for [`ManagerSettings::lock`](crate::ManagerSettings). All that it has to be able
/// to do is to keep a record, and to replace it only if it is still the version that was seen.
///
/// The rules of the election stay the same: whether a holder is gone is judged by how long its record has not changed.
pub trait Lock: fmt::Debug + Send + Sync + 'static {
    /// The record and which version of it that is; `None` if there is none yet.
    fn read(&self) -> BoxFuture<'_, Result<Option<(Record, String)>, LockError>>;

    /// Writes the record if what is there is still of the version `expected` (`None`: if nothing is); gives the version that
    /// it has now, which no other write ever had or will have: versions are fences. Dropping the future may leave open
    /// whether it was written.
    fn write<'a>(&'a self, record: &'a Record, expected: Option<&'a str>) -> BoxFuture<'a, Result<String, LockError>>;
}

/// Why a [`Lock`] was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another version is there: another candidate was faster.
    #[error("another candidate was faster")]
    Conflict,
    /// It cannot be reached, or does not work.
    #[error(transparent)]
    Failed(#[from] BoxError),
}
