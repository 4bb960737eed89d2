//! From the tables to the state: the checkpoint, and the history replayed on it.

use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::error::Fault;
use super::{FORMAT_NAME, HISTORY, META, OBJECTS};
use crate::history::{Event, EventKind, History};
use crate::record::{self, Row};
use crate::state::{Beside, Entry, Snapshot};
use crate::{Key, View};

/// What the tables hold.
pub(crate) struct Recovered<B> {
    pub(crate) view: View<B>,
    pub(crate) ceiling: u64,
    pub(crate) cluster_id: String,
}

/// Reads everything, and believes nothing that does not fit together.
pub(crate) fn recover<B: Beside>(database: &Database) -> Result<Recovered<B>, Fault> {
    let transaction = database.begin_read()?;
    let text = |name: &str| {
        let bytes = meta(&transaction, name)?;
        String::from_utf8(bytes).map_err(|_| Fault::Damage(format!("its meta row {name:?} is not text")))
    };
    let number = |name: &str| {
        let bytes = meta(&transaction, name)?.try_into();
        bytes.map(u64::from_le_bytes).map_err(|_| Fault::Damage(format!("its meta row {name:?} is not a number")))
    };
    let format = text("format")?;
    if format != FORMAT_NAME {
        return Err(Fault::Format(format));
    }
    let (cluster_id, floor, ceiling) = (text("cluster")?, number("floor")?, number("ceiling")?);
    let mut state = objects(&transaction, floor)?;
    let history = history(&transaction, floor, &mut state)?;
    Ok(Recovered { view: View { state, history }, ceiling, cluster_id })
}

fn meta(transaction: &ReadTransaction, name: &str) -> Result<Vec<u8>, Fault> {
    let table = transaction.open_table(META)?;
    let Some(value) = table.get(name)? else {
        return Err(Fault::Damage(format!("it has no meta row {name:?}")));
    };
    match record::decode_meta(name, value.value()) {
        Some(bytes) => Ok(bytes.to_vec()),
        // The first format had no checksums there.
        None if name == "format" && value.value().starts_with(b"concert-store ") => Ok(value.value().to_vec()),
        None => Err(Fault::Damage(format!("its meta row {name:?} does not match its checksum"))),
    }
}

fn objects<B: Beside>(transaction: &ReadTransaction, floor: u64) -> Result<Snapshot<B>, Fault> {
    let table = transaction.open_table(OBJECTS)?;
    let mut state = Snapshot::empty();
    for row in table.iter()? {
        let (key, value) = row?;
        let Some((key, revision, bytes)) = record::decode_object(key.value(), value.value()) else {
            return Err(Fault::Damage("a checkpointed object does not match its checksum".into()));
        };
        if revision > floor {
            return Err(Fault::Damage(format!("the checkpoint of {key} is of revision {revision}, after {floor}")));
        }
        state.put(&key, entry(&key, revision, bytes));
    }
    if state.len() as u64 != table.len()? {
        return Err(Fault::Damage(format!("it has {} checkpointed objects instead of {}", state.len(), table.len()?)));
    }
    state.set_revision(floor);
    Ok(state)
}

fn history<B: Beside>(transaction: &ReadTransaction, floor: u64, state: &mut Snapshot<B>) -> Result<History<B>, Fault> {
    let table = transaction.open_table(HISTORY)?;
    let mut history = History::new(floor);
    let mut rows = 0;
    for row in table.iter()? {
        let (revision, value) = row?;
        let revision = revision.value();
        let Some(row) = record::decode_row(revision, value.value()) else {
            return Err(Fault::Damage(format!("revision {revision} does not match its checksum")));
        };
        if revision <= state.revision() {
            return Err(Fault::Damage(format!("revision {revision} comes after {}", state.revision())));
        }
        if row.kind == EventKind::Delete && state.get(&row.key).is_none() {
            return Err(Fault::Damage(format!("revision {revision} deletes {}, which is not there", row.key)));
        }
        history.push(Arc::new(replay(state, revision, row)));
        rows += 1;
    }
    if rows != table.len()? {
        return Err(Fault::Damage(format!("its history has {rows} revisions instead of {}", table.len()?)));
    }
    Ok(history)
}

fn entry<B: Beside>(key: &Key, revision: u64, bytes: bytes::Bytes) -> Arc<Entry<B>> {
    let beside = B::of(key, &bytes);
    Arc::new(Entry { revision, bytes, beside })
}

fn replay<B: Beside>(state: &mut Snapshot<B>, revision: u64, row: Row) -> Event<B> {
    let new = entry(&row.key, revision, row.bytes);
    let old = state.get(&row.key).cloned();
    match row.kind {
        EventKind::Put => state.put(&row.key, Arc::clone(&new)),
        EventKind::Delete => state.remove(&row.key),
    }
    state.set_revision(revision);
    Event::new(row.key, row.kind, old, new, row.at)
}
