//! From list and watch frames to events; resumes, waits and lists anew by itself.
//!
//! A [`Watch`] is driven by whoever wants its events: [`Watch::next`] does one step and gives what happened. It owns
//! no task. Every event passes the world's valve and is written in its journal.

mod frame;
mod resume;

use std::time::Duration;

use bytes::Bytes;
use concert_api::{Glance, Object, ObjectKey, ParseError};
use concert_world::{Delivery, Flow};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;

use crate::client::{ApiError, Client, PAGE, Selection};
use crate::resource::Resource;
use crate::scope::Form;
use frame::{Frame, Lines};
use resume::{Happened, Resume, Step};

/// How long the server is asked to keep a watch open.
const WATCH_SECONDS: u64 = 290;
/// A watch that is silent for longer than it could live is dead: the connection was lost without a word.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// A list sent as events begins at once; who is silent for longer does not know what was asked.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// How a list is asked for as events: consistent, and closed by a bookmark.
const LIST_AS_EVENTS: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

/// What one watch asks for.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kind.
    pub resource: Resource,
    /// Which of its objects.
    pub selection: Selection,
    /// How much of each.
    pub form: Form,
}

impl Subject {
    /// All objects of a kind, in full.
    #[must_use]
    pub fn all(resource: Resource) -> Self {
        Self { resource, selection: Selection::default(), form: Form::Full }
    }
}

/// An object as it came: nobody has looked at more of it than tells whether it is known already.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Whose it is, and which version.
    pub glance: Glance,
    /// Its JSON; a part of the memory of what it came with.
    pub bytes: Bytes,
}

impl Arrived {
    /// The object, without `managedFields`, in memory of its own.
    ///
    /// # Errors
    /// It is not an object.
    pub fn object(&self, resource: &Resource) -> Result<Object, ParseError> {
        Object::lean(&self.bytes, &resource.gvk)
    }
}

/// What a watch has to say.
#[derive(Debug)]
pub enum Event {
    /// A list begins: forget what is not in it once it is complete.
    Reset,
    /// An object of the list.
    Listed(Arrived),
    /// The list is complete, as of this resourceVersion.
    Complete(String),
    /// An object was created or changed.
    Applied(Arrived),
    /// An object is gone; its last state.
    Deleted(Arrived),
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
    subject: Subject,
    resume: Resume,
    stage: Stage,
    /// A list sent as events broke off: the next one is asked for in pages, in case it always does.
    broken_off: bool,
}

#[derive(Debug)]
enum Stage {
    /// Ask [`Resume`] what to do.
    Between,
    /// A page of a list is being handed out; the token of the next.
    Paging { items: std::vec::IntoIter<bytes::Bytes>, next: Option<String>, resource_version: String },
    /// A watch is open.
    Streaming { body: Body, lines: Lines, since: Instant, last: Instant, listing: bool },
}

impl Watch {
    /// A watch of `subject`. Its first list is consistent: it is not answered from a cache that may lag behind what an
    /// earlier life of this process wrote.
    #[must_use]
    pub fn new(client: Client, subject: Subject) -> Self {
        let resume = Resume::new(client.world().random.clone());
        Self { client, subject, resume, stage: Stage::Between, broken_off: false }
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
            Step::List if self.client.lists_as_events() && !self.broken_off => {
                if let Some(trouble) = self.open(LIST_AS_EVENTS, true).await {
                    return Some(trouble);
                }
                matches!(self.stage, Stage::Streaming { .. }).then_some(Event::Reset)
            }
            Step::List => {
                let (items, resource_version) = (Vec::new().into_iter(), String::new());
                self.stage = Stage::Paging { items, next: Some(String::new()), resource_version };
                Some(Event::Reset)
            }
            Step::Watch(from) => self.open(&format!("resourceVersion={from}"), false).await,
        }
    }

    async fn open(&mut self, start: &str, listing: bool) -> Option<Event> {
        let Subject { resource, selection, form } = &self.subject;
        let mut query = selection.query();
        query.push(format!("watch=true&allowWatchBookmarks=true&{start}&timeoutSeconds={WATCH_SECONDS}"));
        let path = format!("{}?{}", resource.collection(&selection.namespace), query.join("&"));
        match self.client.open(path, &format!("watch {}", resource.group_resource()), *form).await {
            Ok(body) => {
                let now = Instant::now();
                self.stage = Stage::Streaming { body, lines: Lines::default(), since: now, last: now, listing };
                None
            }
            // A server that does not know how to list as events is asked for pages, once and for all.
            Err(error) if listing && error.is_invalid() && error.to_string().contains("sendInitialEvents") => {
                self.client.list_in_pages();
                None
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn page(&mut self) -> Option<Event> {
        let Stage::Paging { items, next, resource_version } = &mut self.stage else { return None };
        if let Some(item) = items.next() {
            return match Glance::at(&item) {
                Ok(glance) => self.deliver("LISTED", Arrived { glance, bytes: item }, Event::Listed).await,
                Err(error) => Some(Event::Skipped(error.to_string())),
            };
        }
        let Some(token) = next.clone() else {
            let at = std::mem::take(resource_version);
            self.stage = Stage::Between;
            self.broken_off = false;
            self.resume.note(Happened::Listed(at.clone()));
            return Some(Event::Complete(at));
        };
        let Subject { resource, selection, form } = &self.subject;
        match self.client.list_page(resource, selection, *form, &token, PAGE).await {
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
        let Stage::Streaming { body, lines, since, last, listing } = &mut self.stage else { return None };
        let listing = *listing;
        let (lived, silent_until) = (since.elapsed(), *last + if listing { LIST_SILENCE } else { SILENCE });
        match lines.next() {
            Ok(Some(line)) => {
                *last = Instant::now();
                return self.interpret(frame::read(&line), listing).await;
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
            // It took the question for a plain watch: servers of long ago do.
            Err(_) if listing => {
                self.broken_off = true;
                self.expired()
            }
            Ok(None) | Err(_) => {
                self.broken_off = listing;
                self.stage = Stage::Between;
                self.resume.note(Happened::Ended { lived });
                None
            }
        }
    }

    async fn interpret(&mut self, frame: Frame, listing: bool) -> Option<Event> {
        match frame {
            Frame::Applied(object) if listing => self.deliver("LISTED", object, Event::Listed).await,
            Frame::Applied(object) => self.deliver("APPLIED", object, Event::Applied).await,
            // Until the list is complete, there is nowhere to go on from.
            Frame::Deleted(object) if listing => self.deliver("LISTED", object, Event::Deleted).await,
            Frame::Deleted(object) => self.deliver("DELETED", object, Event::Deleted).await,
            Frame::Bookmark(at, true) if listing => {
                if let Stage::Streaming { listing, .. } = &mut self.stage {
                    *listing = false;
                }
                self.resume.note(Happened::Listed(at.clone()));
                Some(Event::Complete(at))
            }
            Frame::Bookmark(..) if listing => None,
            Frame::Bookmark(at, _) => match self.pass("BOOKMARK", None, &at).await {
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
    async fn deliver(&mut self, kind: &str, arrived: Arrived, event: fn(Arrived) -> Event) -> Option<Event> {
        let Glance { key, resource_version, .. } = &arrived.glance;
        let flow = self.pass(kind, Some(key), resource_version).await;
        // A lost event still moves the watch on: that is what makes it a gap.
        if kind != "LISTED" && matches!(flow, Flow::Deliver | Flow::Drop) {
            self.resume.note(Happened::Seen(resource_version.clone()));
        }
        match flow {
            Flow::Deliver => Some(event(arrived)),
            flow => self.obstructed(flow),
        }
    }

    async fn pass(&mut self, event: &str, key: Option<&ObjectKey>, revision: &str) -> Flow {
        let world = self.client.world();
        if !world.incarnation.is_alive() {
            // A dead process hears nothing more.
            return std::future::pending().await;
        }
        if world.valve.is_open() && !world.journal.is_on() {
            return Flow::Deliver;
        }
        let watch = self.subject.resource.collection(&self.subject.selection.namespace);
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
        self.broken_off |= matches!(self.stage, Stage::Streaming { listing: true, .. });
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
        } else if error.code() == Some(403) {
            Trouble::Forbidden(why)
        } else {
            Trouble::Failing(why)
        }))
    }
}
