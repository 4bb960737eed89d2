//! A disk that is looked at: what is written stays in memory. redb writes when it opens a database, even to look at it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use redb::{BackendError, StorageBackend};

const PAGE: u64 = 4096;

/// A disk that is only read.
#[derive(Debug)]
pub(crate) struct Untouched<D> {
    disk: D,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// The disk counts up to here; beyond is what was written.
    disk_len: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl<D: StorageBackend> Untouched<D> {
    pub(crate) fn new(disk: D) -> io::Result<Self> {
        let len = disk.len()?;
        Ok(Self { disk, written: Mutex::new(Written { len, disk_len: len, pages: BTreeMap::new() }) })
    }

    fn page(&self, written: &Written, number: u64) -> io::Result<Vec<u8>> {
        if let Some(page) = written.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; usize::try_from(PAGE).unwrap_or_default()];
        let start = number * PAGE;
        let known = written.disk_len.saturating_sub(start).min(PAGE);
        self.disk.read(start, &mut page[..usize::try_from(known).unwrap_or_default()])?;
        Ok(page)
    }

    /// Visits the parts of pages that a range of bytes covers: page, place in it, and place in the range.
    fn parts(
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = usize::try_from(at % PAGE).unwrap_or_default();
            let count = usize::try_from(PAGE).unwrap_or_default() - within;
            let count = count.min(length - done);
            let part = (at / PAGE, within..within + count, done..done + count);
            done += count;
            (count > 0).then_some(part)
        })
    }
}

impl<D: StorageBackend> StorageBackend for Untouched<D> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if written.pages.is_empty() && written.len <= written.disk_len {
            return self.disk.read(offset, out);
        }
        for (number, from, to) in Self::parts(offset, out.len()) {
            out[to].copy_from_slice(&self.page(&written, number)?[from]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if len < written.len {
            let (last, kept) = (len / PAGE, usize::try_from(len % PAGE).unwrap_or_default());
            written.pages.split_off(&(last + 1));
            if let Some(page) = written.pages.get_mut(&last) {
                page[kept..].fill(0);
            }
            written.disk_len = written.disk_len.min(len);
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, to, from) in Self::parts(offset, data.len()) {
            let mut page = self.page(&written, number)?;
            page[to].copy_from_slice(&data[from]);
            written.pages.insert(number, page);
        }
        Ok(())
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
