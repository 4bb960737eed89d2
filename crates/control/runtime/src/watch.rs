//! From list and watch frames to events; resumes, waits and lists anew by itself.
//!
//! A [`Watch`] is driven by whoever wants its events: [`Watch::next`] does one step and gives what happened. It owns
//! no task, and decides nothing: `Course` says what to ask and what an answer means. Every event passes the world's
//! valve and is written in its journal.

mod course;
mod frame;

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
use course::{Course, Happened, Means, Step, WATCH_SECONDS};
use frame::{Frame, Lines};

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
    /// The watch goes on from where it was: the server was reached, and has this history.
    Opened,
    /// The watch is in trouble and will try again by itself.
    Trouble(Trouble),
    /// One object cannot be read; the others are not affected.
    Skipped {
        /// What is wrong with it.
        why: String,
        /// What was to be an object.
        bytes: Bytes,
    },
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
    course: Course,
    open: Open,
}

/// What is being read.
#[derive(Debug)]
enum Open {
    /// Nothing: ask [`Course`] what to do.
    Nothing,
    /// A page of a list, the token of the next, and the resourceVersion of all.
    Page { items: std::vec::IntoIter<Bytes>, next: String, at: String },
    /// A list as events, or a watch.
    Stream { body: Body, lines: Lines, since: Instant, last: Instant },
}

impl Watch {
    /// A watch of `subject`. Its first list is consistent: it is not answered from a cache that may lag behind what an
    /// earlier life of this process wrote.
    #[must_use]
    pub fn new(client: Client, subject: Subject) -> Self {
        let course = Course::new(client.world().random.clone());
        Self { client, subject, course, open: Open::Nothing }
    }

    /// What happens next. Never ends. Not cancel-safe: whoever drops this future drops the watch with it.
    pub async fn next(&mut self) -> Event {
        loop {
            let event = match &mut self.open {
                Open::Nothing => self.ask().await,
                Open::Page { .. } => self.page().await,
                Open::Stream { .. } => self.frame().await,
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn ask(&mut self) -> Option<Event> {
        match self.course.next(self.client.lists_as_events()) {
            Step::Wait(wait) => {
                tokio::time::sleep(wait).await;
                None
            }
            Step::List => self.stream(LIST_AS_EVENTS).await,
            Step::Watch(from) => self.stream(&format!("resourceVersion={from}")).await,
            Step::Page(token) => {
                let Subject { resource, selection, form } = &self.subject;
                match self.client.list_page(resource, selection, *form, &token, PAGE).await {
                    Ok(page) => {
                        let (items, next, at) = (page.items.into_iter(), page.next, page.resource_version);
                        self.open = Open::Page { items, next, at };
                        self.note(Happened::Answered)
                    }
                    Err(error) => self.failed(&error),
                }
            }
        }
    }

    async fn stream(&mut self, start: &str) -> Option<Event> {
        let Subject { resource, selection, form } = &self.subject;
        let mut query = selection.query();
        query.push(format!("watch=true&allowWatchBookmarks=true&{start}&timeoutSeconds={WATCH_SECONDS}"));
        let path = format!("{}?{}", resource.collection(&selection.namespace), query.join("&"));
        match self.client.open(path, &format!("watch {}", resource.group_resource()), *form).await {
            Ok(body) => {
                let now = Instant::now();
                self.open = Open::Stream { body, lines: Lines::default(), since: now, last: now };
                self.note(Happened::Answered)
            }
            Err(error) if start == LIST_AS_EVENTS && knows_no_lists(&error) => self.note(Happened::PagesOnly),
            Err(error) => self.failed(&error),
        }
    }

    async fn page(&mut self) -> Option<Event> {
        let Open::Page { items, next, at } = &mut self.open else { return None };
        if let Some(item) = items.next() {
            return match Glance::at(&item) {
                Ok(glance) => self.deliver("LISTED", Arrived { glance, bytes: item }, Event::Listed).await,
                Err(error) => Some(Event::Skipped { why: error.to_string(), bytes: item }),
            };
        }
        let (next, at) = (std::mem::take(next), std::mem::take(at));
        self.open = Open::Nothing;
        self.note(Happened::PageRead { next: &next, at: &at })
    }

    async fn frame(&mut self) -> Option<Event> {
        let Open::Stream { body, lines, last, .. } = &mut self.open else { return None };
        let silent_until = *last + self.course.patience();
        match lines.next() {
            Ok(Some(line)) => {
                *last = Instant::now();
                return self.interpret(frame::read(&line), line).await;
            }
            Ok(None) => {}
            Err(frame::Endless) => return self.broke("a watch frame does not end".to_owned()),
        }
        match tokio::time::timeout_at(silent_until, body.frame()).await {
            Ok(Some(Ok(chunk))) => {
                if let Ok(data) = chunk.into_data() {
                    lines.push(data);
                }
                None
            }
            Ok(Some(Err(error))) => self.broke(error.to_string()),
            Ok(None) => {
                let lived = self.lived();
                self.note(Happened::Ended { lived })
            }
            Err(_) => self.note(Happened::Silent),
        }
    }

    async fn interpret(&mut self, frame: Frame, bytes: Bytes) -> Option<Event> {
        let listing = self.course.is_listing();
        match frame {
            Frame::Applied(object) if listing => self.deliver("LISTED", object, Event::Listed).await,
            Frame::Applied(object) => self.deliver("APPLIED", object, Event::Applied).await,
            Frame::Deleted(object) if listing => self.deliver("LISTED", object, Event::Deleted).await,
            Frame::Deleted(object) => self.deliver("DELETED", object, Event::Deleted).await,
            Frame::Bookmark(at, ends_list) if listing => self.note(Happened::Marked { at: &at, ends_list }),
            Frame::Bookmark(at, ends_list) => match self.pass("BOOKMARK", None, &at).await {
                Flow::Deliver => self.note(Happened::Marked { at: &at, ends_list }),
                flow => self.obstructed(flow),
            },
            Frame::Bad(why) => Some(Event::Skipped { why, bytes }),
            Frame::Error(answer) if answer.code == 410 => self.note(Happened::Expired { lived: self.lived() }),
            Frame::Error(answer) => self.broke(answer.message),
        }
    }

    /// Lets an object through the valve.
    async fn deliver(&mut self, kind: &str, arrived: Arrived, event: fn(Arrived) -> Event) -> Option<Event> {
        let Glance { key, resource_version, .. } = &arrived.glance;
        let flow = self.pass(kind, Some(key), resource_version).await;
        // A lost event still moves the watch on: that is what makes it a gap.
        if matches!(flow, Flow::Deliver | Flow::Drop) {
            self.course.note(Happened::Moved(resource_version));
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
            Flow::Gone => self.note(Happened::Expired { lived: self.lived() }),
        }
    }

    /// How long the stream that is read has lived.
    fn lived(&self) -> Duration {
        if let Open::Stream { since, .. } = &self.open { since.elapsed() } else { Duration::ZERO }
    }

    fn broke(&mut self, why: String) -> Option<Event> {
        self.note(Happened::Broke { lived: self.lived() });
        Some(Event::Trouble(Trouble::Failing(why)))
    }

    fn failed(&mut self, error: &ApiError) -> Option<Event> {
        if error.is_expired() {
            return self.note(Happened::Expired { lived: Duration::ZERO });
        }
        let why = crate::error_chain(error);
        let (happened, trouble) = if error.is_kind_missing() {
            (Happened::Missing, Trouble::KindMissing)
        } else if error.is_invalid() {
            (Happened::Misunderstood, Trouble::Failing(why))
        } else if error.code() == Some(403) {
            (Happened::Failed { retry_after: error.retry_after() }, Trouble::Forbidden(why))
        } else {
            (Happened::Failed { retry_after: error.retry_after() }, Trouble::Failing(why))
        };
        self.note(happened);
        Some(Event::Trouble(trouble))
    }

    /// Tells [`Course`] what happened, and whoever reads what that means.
    fn note(&mut self, happened: Happened<'_>) -> Option<Event> {
        let means = self.course.note(happened);
        if !self.course.is_reading() {
            self.open = Open::Nothing;
        }
        let at = match happened {
            Happened::PageRead { at, .. } | Happened::Marked { at, .. } => at,
            _ => "",
        };
        match means {
            Means::Nothing => None,
            Means::Opened => Some(Event::Opened),
            Means::Reset => Some(Event::Reset),
            Means::Complete => Some(Event::Complete(at.to_owned())),
            Means::Progress => Some(Event::Progress(at.to_owned())),
            Means::PagesOnly => {
                self.client.list_in_pages();
                None
            }
            Means::WentBack => Some(Event::Trouble(Trouble::Failing(format!(
                "the server is back at resourceVersion {at}: it is another one, or was restored; all is listed anew"
            )))),
        }
    }
}

/// Whether a server says that it does not send lists as events: those that could, but may not, name one parameter, those
/// of before Kubernetes 1.27 the other.
fn knows_no_lists(error: &ApiError) -> bool {
    let why = error.to_string();
    error.is_invalid() && ["sendInitialEvents", "resourceVersionMatch"].iter().any(|name| why.contains(name))
}
