//! A disk with a pending and a durable image, which writes down what is asked of it and fails when told to.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk may tear a write into.
pub(crate) const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// One thing that was asked of the disk, or that the writer on it learned.
#[derive(Clone, Debug)]
pub(crate) enum Io {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
    /// Not the disk's: so many acknowledged writes.
    Acknowledged(usize),
}

/// Content: a shared base and the pages that differ from it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    base: Arc<Vec<u8>>,
    pages: HashMap<usize, Box<[u8; PAGE]>>,
    len: usize,
}

impl Image {
    /// The same content in one piece, so that clones are cheap.
    pub(crate) fn flattened(&self) -> Self {
        let mut base = vec![0; self.len];
        self.read(0, &mut base).unwrap();
        Self { len: self.len, base: Arc::new(base), pages: HashMap::new() }
    }

    /// Where something other than zero is.
    pub(crate) fn used_bytes(&self) -> Vec<usize> {
        let mut all = vec![0; self.len];
        self.read(0, &mut all).unwrap();
        (0..self.len).filter(|at| all[*at] != 0).collect()
    }

    pub(crate) fn apply(&mut self, io: &Io) {
        match io {
            Io::Write(offset, data) => self.write(usize::try_from(*offset).unwrap(), data),
            Io::SetLen(len) => self.set_len(usize::try_from(*len).unwrap()),
            Io::Sync | Io::Acknowledged(_) => {}
        }
    }

    pub(crate) fn flip(&mut self, byte: usize, bit: u8) {
        let mut value = [0];
        self.read(byte, &mut value).unwrap();
        self.write(byte, &[value[0] ^ (1 << bit)]);
    }

    fn set_len(&mut self, len: usize) {
        if len < self.len {
            *self = Self { len, ..self.clone() }.flattened();
        }
        self.len = len;
    }

    /// A write beyond the end grows the file, as it does when the growth itself was lost.
    fn write(&mut self, offset: usize, data: &[u8]) {
        self.len = self.len.max(offset + data.len());
        let mut done = 0;
        while done < data.len() {
            let (number, at) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - at).min(data.len() - done);
            let base = &self.base;
            let page = self.pages.entry(number).or_insert_with(|| original(base, number));
            page[at..at + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() > self.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let (number, at) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - at).min(out.len() - done);
            let part = &mut out[done..done + count];
            match self.pages.get(&number) {
                Some(page) => part.copy_from_slice(&page[at..at + count]),
                None => {
                    let start = (offset + done).min(self.base.len());
                    let known = (self.base.len() - start).min(count);
                    part[..known].copy_from_slice(&self.base[start..start + known]);
                    part[known..].fill(0);
                }
            }
            done += count;
        }
        Ok(())
    }
}

fn original(base: &[u8], number: usize) -> Box<[u8; PAGE]> {
    let mut page = Box::new([0; PAGE]);
    let start = (number * PAGE).min(base.len());
    let end = (start + PAGE).min(base.len());
    page[..end - start].copy_from_slice(&base[start..end]);
    page
}

/// How an operation fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The device fails; nothing is written.
    Broken,
    /// There is no room; nothing is written.
    Full,
    /// A part is written, and then there is no room.
    Short,
}

/// Which operation fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// Its number, counting writes, changes of length and syncs.
    pub(crate) at: usize,
    pub(crate) how: Failure,
    /// Whether everything after it fails too.
    pub(crate) lasting: bool,
}

#[derive(Debug, Default)]
struct Inner {
    start: Image,
    now: Image,
    log: Vec<Io>,
    operations: usize,
    fault: Option<Fault>,
    failed: bool,
    /// Operations that were asked of the disk after one had failed.
    asked_after_failure: usize,
}

/// A disk; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

impl Disk {
    pub(crate) fn with(image: Image) -> Self {
        Self(Arc::new(Mutex::new(Inner { start: image.clone(), now: image, ..Inner::default() })))
    }

    pub(crate) fn failing(self, fault: Fault) -> Self {
        self.inner().fault = Some(fault);
        self
    }

    pub(crate) fn acknowledge(&self, count: usize) {
        self.inner().log.push(Io::Acknowledged(count));
    }

    /// What was there before, and what was asked since.
    pub(crate) fn record(&self) -> (Image, Vec<Io>) {
        let inner = self.inner();
        (inner.start.clone(), inner.log.clone())
    }

    pub(crate) fn now(&self) -> Image {
        self.inner().now.clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner().failed
    }

    pub(crate) fn asked_after_failure(&self) -> usize {
        self.inner().asked_after_failure
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn act(&self, io: Io) -> io::Result<()> {
        let mut inner = self.inner();
        let number = inner.operations;
        inner.operations += 1;
        inner.asked_after_failure += usize::from(inner.failed);
        if let Some(fault) = inner.fault
            && (number == fault.at || fault.lasting && number > fault.at)
        {
            inner.failed = true;
            if let (Failure::Short, Io::Write(offset, data)) = (fault.how, &io) {
                let part = Io::Write(*offset, data[..data.len() / 2].to_vec());
                inner.now.apply(&part);
                inner.log.push(part);
            }
            return Err(match fault.how {
                Failure::Broken => io::Error::from_raw_os_error(5),
                Failure::Full | Failure::Short => io::Error::from_raw_os_error(28),
            });
        }
        inner.now.apply(&io);
        inner.log.push(io);
        Ok(())
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inner().now.len as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner().now.read(usize::try_from(offset).unwrap(), out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.act(Io::SetLen(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.act(Io::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.act(Io::Write(offset, data.to_vec()))
    }
}
