//! The committer: decides writes one after the other, makes them durable together, then shows them.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use concert_world::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::disk::{Disk, DiskError};
use crate::history::{Event, EventKind};
use crate::state::{Beside, Entry, Snapshot};
use crate::{Expect, Key, Limits, Op, Published, Write, WriteError};

/// Writes in one commit at most: bounds the latency that a write adds to those before it.
const MAX_BATCH: usize = 512;
/// Writers that may wait for the committer; more of them wait for a place.
const QUEUE: usize = 4096;
/// Bytes of an object: more than the largest request, and not much more.
const OBJECT_MAX: u64 = 4 << 20;
/// Over quota, an object may still grow by this much with each write.
const SMALL_CHANGE: u64 = 1024;
/// How long a writer waits for the disk; after that it only knows that it does not know. The real server gives a
/// request a minute.
const PATIENCE: Duration = Duration::from_secs(30);
/// With nobody writing, the committer looks after the window and the interval this often.
const IDLE: Duration = Duration::from_millis(500);

/// The synchronous state machine.
pub(crate) struct Committer<B: Beside> {
    head: Snapshot<B>,
    disk: Option<Disk>,
    published: Arc<Published<B>>,
    clock: Clock,
    limits: Limits,
    failure: Option<Arc<str>>,
}

type Answer<B> = Result<Arc<Entry<B>>, WriteError>;

impl<B: Beside> Committer<B> {
    pub(crate) fn new(
        head: Snapshot<B>,
        disk: Option<Disk>,
        published: Arc<Published<B>>,
        clock: Clock,
        limits: Limits,
    ) -> Self {
        Self { head, disk, published, clock, limits, failure: None }
    }

    /// Decides all writes in order, commits those that were accepted, and gives back the answers.
    pub(crate) fn commit(&mut self, writes: Vec<Write>) -> Vec<Answer<B>> {
        if let Some(failure) = &self.failure {
            return writes.iter().map(|_| Err(WriteError::Failed(Arc::clone(failure)))).collect();
        }
        let mut events = Vec::with_capacity(writes.len());
        let answers: Vec<Answer<B>> = writes
            .into_iter()
            .map(|write| {
                let event = self.decide(write)?;
                let entry = Arc::clone(&event.new);
                events.push(Arc::new(event));
                Ok(entry)
            })
            .collect();
        match self.make_durable(&events) {
            Ok(()) => {
                self.publish(events);
                answers
            }
            Err(error) => {
                let failure = self.fail(&error);
                answers.iter().map(|_| Err(WriteError::Failed(Arc::clone(&failure)))).collect()
            }
        }
    }

    /// Looks after the window and the disk's interval while nobody writes.
    pub(crate) fn idle(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.make_durable(&[])
        {
            self.fail(&error);
        }
    }

    /// Leaves the disk as a clean close leaves it.
    pub(crate) fn close(&mut self) {
        let revision = self.head.revision();
        if self.failure.is_none()
            && let Some(disk) = &mut self.disk
            && let Err(error) = disk.close(revision)
        {
            self.fail(&error);
        }
        self.disk = None;
        self.failure.get_or_insert_with(|| "it was closed".into());
    }

    fn decide(&mut self, write: Write) -> Result<Event<B>, WriteError> {
        let Write { key, expect, guards, op } = write;
        for (guard, revision) in guards {
            let current = self.head.get(&guard).map(|entry| entry.revision);
            if current != Some(revision) {
                return Err(WriteError::Conflict { key: guard, current });
            }
        }
        let old = self.head.get(&key).cloned();
        let current = old.as_ref().map(|entry| entry.revision);
        let expected = match expect {
            Expect::Absent => None,
            Expect::Revision(revision) => Some(revision),
        };
        if current != expected {
            return Err(WriteError::Conflict { key, current });
        }
        let revision = self.head.revision() + 1;
        let (draft, kind) = match op {
            Op::Put(draft) => (draft, EventKind::Put),
            Op::Delete(draft) => (draft, EventKind::Delete),
        };
        let bytes = draft.finish(revision);
        if kind == EventKind::Put {
            self.check_room(&key, old.as_deref(), bytes.len() as u64)?;
        }
        let beside = B::of(&key, &bytes);
        let new = Arc::new(Entry { revision, bytes, beside });
        match kind {
            EventKind::Put => self.head.put(&key, Arc::clone(&new)),
            EventKind::Delete => self.head.remove(&key),
        }
        self.head.set_revision(revision);
        Ok(Event::new(key, kind, old, new, self.clock.now()))
    }

    /// Too large is too large, and over quota nothing new is taken. What exists can still be changed a little: a deletion that has to wait for
    /// somebody begins with a mark and goes on with others.
    fn check_room(&self, key: &Key, old: Option<&Entry<B>>, length: u64) -> Result<(), WriteError> {
        let before = old.map(|old| old.bytes.len() as u64);
        if before.is_some_and(|before| length <= before + SMALL_CHANGE) {
            return Ok(());
        }
        if length > OBJECT_MAX {
            return Err(WriteError::TooLarge { key: key.clone(), length, limit: OBJECT_MAX });
        }
        let (Some(quota), used) = (self.limits.quota, self.head.bytes()) else { return Ok(()) };
        if used + length - before.unwrap_or_default() <= quota {
            return Ok(());
        }
        Err(WriteError::OverQuota { key: key.clone(), used, quota })
    }

    /// Appends the events to the disk's history and moves what left the window into its checkpoint.
    fn make_durable(&mut self, events: &[Arc<Event<B>>]) -> Result<(), DiskError> {
        let leaving = self.leaving();
        if let Some(disk) = &mut self.disk {
            disk.commit(events, &leaving, self.head.revision())?;
        }
        if !leaving.is_empty() {
            let mut view = self.published.view.write().unwrap_or_else(PoisonError::into_inner);
            view.history.drop_oldest(leaving.len());
        }
        Ok(())
    }

    fn leaving(&self) -> Vec<Arc<Event<B>>> {
        let view = self.published.read();
        let count = view.history.leaving(self.limits.window, self.clock.now());
        view.history.oldest(count).cloned().collect()
    }

    fn publish(&self, events: Vec<Arc<Event<B>>>) {
        if events.is_empty() {
            return;
        }
        {
            let mut view = self.published.view.write().unwrap_or_else(PoisonError::into_inner);
            view.state = self.head.clone();
            for event in events {
                view.history.push(event);
            }
        }
        self.published.revision.send_replace(self.head.revision());
    }

    /// A disk that failed once is never asked again: an fsync that failed may have lost what it should have kept.
    fn fail(&mut self, error: &DiskError) -> Arc<str> {
        let failure: Arc<str> = error.to_string().into();
        tracing::error!(error = %failure, "the store has failed; nothing is acknowledged any more");
        self.failure = Some(Arc::clone(&failure));
        self.disk = None;
        self.published.failure.send_replace(Some(Arc::clone(&failure)));
        failure
    }
}

/// Who runs the committer.
pub(crate) enum Driver<B: Beside> {
    /// Each writer itself, under a lock.
    Inline(Mutex<Committer<B>>),
    /// A thread that takes all waiting writes together.
    Thread(Mutex<Option<Line<B>>>),
}

struct Waiting<B> {
    write: Write,
    answer: oneshot::Sender<Answer<B>>,
    /// Free again when the committer has taken the write.
    _place: OwnedSemaphorePermit,
}

/// The way to the committer's thread; when all of it is dropped, the thread ends.
pub(crate) struct Line<B> {
    entrance: Entrance<B>,
    thread: JoinHandle<()>,
}

struct Entrance<B> {
    writes: mpsc::Sender<Waiting<B>>,
    places: Arc<Semaphore>,
}

impl<B> Clone for Entrance<B> {
    fn clone(&self) -> Self {
        Self { writes: self.writes.clone(), places: Arc::clone(&self.places) }
    }
}

impl<B: Beside> Driver<B> {
    pub(crate) fn thread(committer: Committer<B>) -> std::io::Result<Self> {
        let (writes, waiting) = mpsc::channel();
        let entrance = Entrance { writes, places: Arc::new(Semaphore::new(QUEUE)) };
        let published = Arc::clone(&committer.published);
        let run = move || {
            // The disk is fenced; should anything else panic, the process has to know that nobody commits any more.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(committer, &waiting)));
            if ended.is_err() {
                published.failure.send_replace(Some("its thread panicked; this is a bug in concert".into()));
            }
        };
        let thread = std::thread::Builder::new().name("concert-store".into()).spawn(run)?;
        Ok(Self::Thread(Mutex::new(Some(Line { entrance, thread }))))
    }

    pub(crate) async fn write(&self, write: Write) -> Answer<B> {
        match self {
            Self::Inline(committer) => {
                let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
                committer.commit(vec![write]).pop().unwrap_or(Err(WriteError::Closed))
            }
            Self::Thread(line) => {
                let entrance = {
                    let line = line.lock().unwrap_or_else(PoisonError::into_inner);
                    line.as_ref().map(|line| line.entrance.clone()).ok_or(WriteError::Closed)?
                };
                let key = write.key.clone();
                let answer = tokio::time::timeout(PATIENCE, entrance.enter(write)).await;
                answer.unwrap_or(Err(WriteError::Unknown { key, after: PATIENCE }))
            }
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::Inline(committer) => committer.lock().unwrap_or_else(PoisonError::into_inner).close(),
            Self::Thread(line) => {
                if let Some(line) = line.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    line.entrance.places.close();
                    drop(line.entrance);
                    if line.thread.join().is_err() {
                        tracing::error!("the store's thread panicked");
                    }
                }
            }
        }
    }
}

impl<B> Entrance<B> {
    /// Waits for a place in the line, and then for the answer.
    async fn enter(self, write: Write) -> Answer<B> {
        let (answer, answered) = oneshot::channel();
        let place = self.places.acquire_owned().await.map_err(|_| WriteError::Closed)?;
        let waiting = Waiting { write, answer, _place: place };
        self.writes.send(waiting).map_err(|_| WriteError::Closed)?;
        // Whoever closes the store waits for all ways to it to end, perhaps on the thread that polls this.
        drop(self.writes);
        answered.await.unwrap_or(Err(WriteError::Closed))
    }
}

impl<B: Beside> Drop for Driver<B> {
    fn drop(&mut self) {
        self.close();
    }
}

fn run<B: Beside>(mut committer: Committer<B>, waiting: &mpsc::Receiver<Waiting<B>>) {
    loop {
        let first = match waiting.recv_timeout(committer.patience()) {
            Ok(first) => first,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                committer.idle();
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        };
        let (mut writes, mut answers) = (vec![first.write], vec![first.answer]);
        while writes.len() < MAX_BATCH
            && let Ok(next) = waiting.try_recv()
        {
            writes.push(next.write);
            answers.push(next.answer);
        }
        for (answer, result) in answers.into_iter().zip(committer.commit(writes)) {
            // A writer that has gone away does not need its answer.
            let _ = answer.send(result);
        }
    }
    committer.close();
}

impl<B: Beside> Committer<B> {
    fn patience(&self) -> Duration {
        self.disk.as_ref().and_then(Disk::interval).unwrap_or(IDLE).min(IDLE)
    }
}
