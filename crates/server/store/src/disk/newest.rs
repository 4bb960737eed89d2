//! Which of redb's two commit slots is opened.
//!
//! A commit in two phases writes the other slot, syncs, flips one bit that says which slot counts, and syncs. After a
//! crash between the syncs the bit names the older slot; so it does when that bit itself has flipped, and then a write
//! that was acknowledged would silently be gone. The two cannot be told apart, but taking the newer slot is right in
//! both: the bit that says "two phases" is hidden while the database is opened, and redb then takes the newer slot
//! whose pages all match their checksums, and the older one only if they do not. But first the older one has to be sound
//! as it is: if it is not, its number may be what has flipped, and it was the newer.
//!
//! A crash while the file is made leaves one without the magic number, which redb writes last, and would refuse. If
//! nothing else is in it either, it is shown as the empty file that it was.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
/// Where the bits are.
const FLAGS: usize = MAGIC.len();
const PRIMARY: u8 = 1;
const TWO_PHASES: u8 = 4;
/// Where the slots are, and the number of the transaction in each.
const SLOTS: [usize; 2] = [64, 192];
const TRANSACTION: usize = 104;
/// All of the header that counts here, and the page it is in.
const HEADER: usize = 320;
const PAGE: u64 = 4096;
/// How much is looked at at once.
const CHUNK: usize = 64 << 10;

/// A disk that shows its newest commit while it is opened, and is as it is afterwards.
#[derive(Debug)]
pub(crate) struct Newest<D> {
    disk: D,
    opened: Opened,
}

/// Tells a [`Newest`] that redb has opened it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Arc<AtomicBool>);

impl Opened {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<D: StorageBackend> Newest<D> {
    pub(crate) fn new(disk: D) -> (Self, Opened) {
        let opened = Opened::default();
        (Self { disk, opened: opened.clone() }, opened)
    }
}

impl<D: StorageBackend> Newest<D> {
    /// Whether the file was being made when power was lost: no magic number yet, and nothing behind the header.
    fn is_unfinished(&self) -> io::Result<bool> {
        let len = self.disk.len()?;
        let is_empty = |from: u64, to: u64| {
            let mut bytes = vec![0; usize::try_from(to - from).unwrap_or_default()];
            self.disk.read(from, &mut bytes)?;
            Ok::<_, io::Error>(bytes.iter().all(|byte| *byte == 0))
        };
        if !is_empty(0, len.min(MAGIC.len() as u64))? {
            return Ok(false);
        }
        for from in (PAGE..len).step_by(CHUNK) {
            if !is_empty(from, len.min(from + CHUNK as u64))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the slot that does not count is newer than the one that does.
pub(crate) fn other_is_newer(disk: &impl StorageBackend) -> io::Result<bool> {
    let mut header = [0; HEADER];
    if disk.len()? < HEADER as u64 {
        return Ok(false);
    }
    disk.read(0, &mut header)?;
    let transaction = |slot: usize| {
        let at = SLOTS[slot] + TRANSACTION;
        header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let primary = usize::from(header[FLAGS] & PRIMARY);
    Ok(header.starts_with(&MAGIC) && transaction(1 - primary) > transaction(primary))
}

impl<D: StorageBackend + fmt::Debug> StorageBackend for Newest<D> {
    fn len(&self) -> io::Result<u64> {
        let is_open = self.opened.0.load(Ordering::Acquire);
        if !is_open && self.is_unfinished()? { Ok(0) } else { self.disk.len() }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)?;
        if self.opened.0.load(Ordering::Acquire) || offset > FLAGS as u64 {
            return Ok(());
        }
        let at = FLAGS - usize::try_from(offset).unwrap_or(FLAGS);
        if let Some(flags) = out.get_mut(at)
            && other_is_newer(&self.disk)?
        {
            *flags &= !TWO_PHASES;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.query_lock_range(start, end)
    }
}
