//! From list and watch frames to events; resumes, waits and lists anew by itself.
//!
//! A [`Watch`] is driven by whoever wants its events: [`Watch::next`] does one step and gives what happened. It owns
//! no task. Every event passes the world's valve and is written in its journal.

mod frame;
mod resume;

use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_world::{Delivery, Flow};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;

pub(crate) use frame::ingest;

use crate::client::{ApiError, Client, Selection};
use crate::resource::Resource;
use frame::{Frame, Lines};
use resume::{Happened, Resume, Step};

/// How long the server is asked to keep a watch open.
const WATCH_SECONDS: u64 = 290;
/// A watch that is silent for longer than it could live is dead: the connection was lost without a word.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The kind.
    pub resource: Resource,
    /// Which of its objects.
    pub selection: Selection,
}

impl Scope {
    /// All objects of a kind.
    #[must_use]
    pub fn all(resource: Resource) -> Self {
        Self { resource, selection: Selection::default() }
    }
}

impl From<Resource> for Scope {
    fn from(resource: Resource) -> Self {
        Self::all(resource)
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Selection { namespace, labels, fields } = &self.selection;
        write!(f, "{}", self.resource.group_resource())?;
        for (name, value) in [("namespace", namespace), ("labels", labels), ("fields", fields)] {
            if !value.is_empty() {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// What a watch has to say.
#[derive(Debug)]
pub enum Event {
    /// A list begins: forget what is not in it once it is complete.
    Reset,
    /// An object of the list.
    Listed(Object),
    /// The list is complete, as of this resourceVersion.
    Complete(String),
    /// An object was created or changed.
    Applied(Object),
    /// An object is gone; its last state.
    Deleted(Object),
    /// Everything up to this resourceVersion was delivered.
    Progress(String),
    /// The watch is in trouble and will try again by itself.
    Trouble(Trouble),
    /// One object cannot be read; the others are not affected.
    Skipped(String),
}

/// Why a watch delivers nothing at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server does not know the kind.
    KindMissing,
    /// We may not list or watch it: what the server said.
    Forbidden(String),
    /// Anything else: the server is not reached, or has trouble itself.
    Failing(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KindMissing => f.write_str("the server does not know this kind"),
            Self::Forbidden(why) | Self::Failing(why) => f.write_str(why),
        }
    }
}

/// A watch, and what it is in the middle of.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    scope: Scope,
    resume: Resume,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Ask [`Resume`] what to do.
    Between,
    /// A page of a list is being handed out; the token of the next.
    Paging { items: std::vec::IntoIter<bytes::Bytes>, next: Option<String>, resource_version: String },
    /// A watch is open.
    Streaming { body: Body, lines: Lines, since: Instant, last: Instant },
}

impl Watch {
    /// A watch of `scope`. Its first list is consistent: it is not answered from a cache that may lag behind what an
    /// earlier life of this process wrote.
    #[must_use]
    pub fn new(client: Client, scope: Scope) -> Self {
        let resume = Resume::new(client.world().random.clone());
        Self { client, scope, resume, stage: Stage::Between }
    }

    /// What happens next. Never ends. Not cancel-safe: whoever drops this future drops the watch with it.
    pub async fn next(&mut self) -> Event {
        loop {
            let event = match &mut self.stage {
                Stage::Between => self.begin().await,
                Stage::Paging { .. } => self.page().await,
                Stage::Streaming { .. } => self.frame().await,
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn begin(&mut self) -> Option<Event> {
        match self.resume.next() {
            Step::Wait(wait) => {
                tokio::time::sleep(wait).await;
                None
            }
            Step::List => {
                let (items, resource_version) = (Vec::new().into_iter(), String::new());
                self.stage = Stage::Paging { items, next: Some(String::new()), resource_version };
                Some(Event::Reset)
            }
            Step::Watch(from) => self.open(&from).await,
        }
    }

    async fn open(&mut self, from: &str) -> Option<Event> {
        let Scope { resource, selection } = &self.scope;
        let mut query = selection.query();
        query
            .push(format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}"));
        let path = format!("{}?{}", resource.collection(&selection.namespace), query.join("&"));
        match self.client.open(path, &format!("watch {}", resource.group_resource())).await {
            Ok(body) => {
                let now = Instant::now();
                self.stage = Stage::Streaming { body, lines: Lines::default(), since: now, last: now };
                None
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn page(&mut self) -> Option<Event> {
        let Stage::Paging { items, next, resource_version } = &mut self.stage else { return None };
        if let Some(item) = items.next() {
            return match ingest(&self.scope.resource, &item) {
                Ok(object) => self.deliver("LISTED", object, Event::Listed).await,
                Err(error) => Some(Event::Skipped(error.to_string())),
            };
        }
        let Some(token) = next.clone() else {
            let at = std::mem::take(resource_version);
            self.stage = Stage::Between;
            self.resume.note(Happened::Listed(at.clone()));
            return Some(Event::Complete(at));
        };
        match self.client.list_page(&self.scope.resource, &self.scope.selection, &token).await {
            Ok(page) => {
                *items = page.items.into_iter();
                *next = Some(page.next).filter(|token| !token.is_empty());
                *resource_version = page.resource_version;
                None
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn frame(&mut self) -> Option<Event> {
        let Stage::Streaming { body, lines, since, last } = &mut self.stage else { return None };
        let (lived, silent_until) = (since.elapsed(), *last + SILENCE);
        match lines.next() {
            Ok(Some(line)) => {
                *last = Instant::now();
                let frame = frame::read(&self.scope.resource, &line);
                return self.interpret(frame).await;
            }
            Ok(None) => {}
            Err(frame::Endless) => return self.broke("a watch frame does not end".to_owned()),
        }
        match tokio::time::timeout_at(silent_until, body.frame()).await {
            Ok(Some(Ok(chunk))) => {
                if let Some(data) = chunk.data_ref() {
                    lines.push(data);
                }
                None
            }
            Ok(Some(Err(error))) => self.broke(error.to_string()),
            Ok(None) | Err(_) => {
                self.stage = Stage::Between;
                self.resume.note(Happened::Ended { lived });
                None
            }
        }
    }

    async fn interpret(&mut self, frame: Frame) -> Option<Event> {
        match frame {
            Frame::Applied(object) => self.deliver("APPLIED", object, Event::Applied).await,
            Frame::Deleted(object) => self.deliver("DELETED", object, Event::Deleted).await,
            Frame::Bookmark(at) => match self.pass("BOOKMARK", None, &at).await {
                Flow::Deliver => {
                    self.resume.note(Happened::Seen(at.clone()));
                    Some(Event::Progress(at))
                }
                flow => self.obstructed(flow),
            },
            Frame::Bad(why) => Some(Event::Skipped(why)),
            Frame::Error(answer) if answer.code == 410 => self.expired(),
            Frame::Error(answer) => self.broke(answer.message),
        }
    }

    /// Lets an object through the valve.
    async fn deliver(&mut self, kind: &str, object: Object, event: impl FnOnce(Object) -> Event) -> Option<Event> {
        let at = object.resource_version().into_owned();
        match self.pass(kind, Some(&object.key()), &at).await {
            Flow::Deliver => {
                if kind != "LISTED" {
                    self.resume.note(Happened::Seen(at));
                }
                Some(event(object))
            }
            // A lost event still moves the watch on: that is what makes it a gap.
            Flow::Drop if kind != "LISTED" => {
                self.resume.note(Happened::Seen(at));
                None
            }
            flow => self.obstructed(flow),
        }
    }

    async fn pass(&mut self, event: &str, key: Option<&ObjectKey>, revision: &str) -> Flow {
        let world = self.client.world();
        if !world.incarnation.is_alive() {
            // A dead process hears nothing more.
            return std::future::pending().await;
        }
        let watch = self.scope.resource.collection(&self.scope.selection.namespace);
        let key = key.map(ToString::to_string).unwrap_or_default();
        let flow = world.valve.pass(&Delivery { watch: &watch, event, key: &key, revision }).await;
        world
            .journal
            .record("deliver", || format!("{} {watch} {event} {key} @{revision} {flow:?}", world.incarnation.id()));
        flow
    }

    fn obstructed(&mut self, flow: Flow) -> Option<Event> {
        match flow {
            Flow::Deliver | Flow::Hold | Flow::Drop => None,
            Flow::Cut => self.broke("the connection was cut".to_owned()),
            Flow::Gone => self.expired(),
        }
    }

    fn expired(&mut self) -> Option<Event> {
        self.stage = Stage::Between;
        self.resume.note(Happened::Expired);
        None
    }

    fn broke(&mut self, why: String) -> Option<Event> {
        self.stage = Stage::Between;
        self.resume.note(Happened::Failed { retry_after: None });
        Some(Event::Trouble(Trouble::Failing(why)))
    }

    fn failed(&mut self, error: &ApiError) -> Option<Event> {
        self.stage = Stage::Between;
        if error.is_expired() {
            return self.expired();
        }
        if error.is_kind_missing() {
            // When the kind comes back, it is another one: its history begins anew.
            self.expired();
        } else {
            self.resume.note(Happened::Failed { retry_after: error.retry_after() });
        }
        let why = crate::error_chain(error);
        Some(Event::Trouble(if error.is_kind_missing() {
            Trouble::KindMissing
        } else if error.is_forbidden() {
            Trouble::Forbidden(why)
        } else {
            Trouble::Failing(why)
        }))
    }
}
