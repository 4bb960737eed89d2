//! Whether a store on disk is sound, without changing it.

use std::io;
use std::path::Path;

use concert_api::Object;
use redb::backends::FileBackend;

use crate::OpenError;
use crate::disk::{self, Recovered, fence};
use crate::state::Snapshot;

/// What a sound store holds.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Its cluster id.
    pub cluster_id: String,
    /// Its newest revision.
    pub revision: u64,
    /// The oldest revision that can be read, and after which events are known.
    pub floor: u64,
    /// How many objects it has.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// How many events its history has.
    pub events: u64,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Whether it was closed properly; if not, opening it recovers what was being written.
    pub clean: bool,
}

/// Reads all of the store in `directory`: every page, every record, and whether they fit together. The file is not
/// changed.
///
/// # Errors
/// There is no store, it is in use, or it is damaged: the message says how.
pub fn check(directory: &Path) -> Result<CheckReport, OpenError> {
    let path = directory.join(disk::FILE);
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::Missing(directory.to_owned())),
        Err(source) => return Err(OpenError::Directory { path: directory.to_owned(), source }),
    };
    let file_bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let checked = fence(|| {
        let file = FileBackend::new(file)?;
        let mut base = disk::base(disk::Untouched::new(file).map_err(redb::Error::Io)?)?;
        let clean = base.check_integrity()?;
        let recovered = disk::recover::<()>(&base)?;
        agree(&recovered.view.state)?;
        Ok((recovered, clean))
    });
    let (Recovered { view, cluster_id, .. }, clean) = checked.map_err(|fault| fault.at(directory))?;
    Ok(CheckReport {
        cluster_id,
        revision: view.state.revision(),
        floor: view.history.floor(),
        objects: view.state.len() as u64,
        object_bytes: view.state.bytes(),
        events: view.history.len() as u64,
        file_bytes,
        clean,
    })
}

/// Every object is one, and says the revision under which it is stored.
fn agree(state: &Snapshot<()>) -> Result<(), disk::Fault> {
    for (key, entry) in state.iter() {
        let revision = Object::parse(entry.bytes.clone()).map(|object| object.revision());
        if revision != Ok(Some(entry.revision)) {
            let what = format!("{key} of revision {} says {revision:?}", entry.revision);
            return Err(disk::Fault::Damage(what));
        }
    }
    Ok(())
}
