//! What a watch asks next, how long it waits before, and what each happening means: a state machine without I/O.
//!
//! ```text
//!            ┌─► list as events ─┐ its last bookmark
//! nothing ───┤                   ├──────────────────► watching
//!    ▲       └─► list in pages ──┘ its last page          │
//!    │                                                    │ ended, broken: goes on from where it was
//!    └──────────────────── wait ◄─────────────────────────┘ 410, no such kind, another history: lists anew
//! ```
//!
//! A list that broke off as events, or was not understood, is asked for in pages next, and one that expired in pages as events: whatever
//! cannot get through one way is tried the other way.

use std::time::Duration;

use concert_world::Random;

/// How long the server is asked to keep a watch open.
pub(crate) const WATCH_SECONDS: u64 = 290;
/// A watch that is silent for longer than it could live is dead: the connection was lost without a word.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// A list sent as events begins at once; who is silent for longer does not know what was asked.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// The first wait after trouble; doubled each time, as client-go's reflector does.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
/// The longest wait, unless the server asks for a longer one.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The longest wait that a server may ask for: what it says may be a mistake, and nobody would notice for days.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Share by which waits are spread, so that many watches do not come back together.
const JITTER: f64 = 0.2;
/// A watch that lived this long was a good one, however a balancer in between cut it: client-go's measure.
const HEALTHY: Duration = Duration::from_secs(1);
/// A watch must live this long until a list is cheap again: lists cost the server most, and histories expire in storms.
const LASTING: Duration = Duration::from_secs(60);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait, then ask again.
    Wait(Duration),
    /// Open a list sent as events; what happens after it follows in the same stream.
    List,
    /// Ask for a page of a list, by its token; the first has none.
    Page(String),
    /// Open a watch of what happened after this resourceVersion.
    Watch(String),
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened<'a> {
    /// The page or the stream that was asked for is there.
    Answered,
    /// A page is read.
    PageRead {
        /// The token of the next one; empty if it was the last.
        next: &'a str,
        /// The resourceVersion of the list.
        at: &'a str,
    },
    /// An object came or went, at this resourceVersion.
    Moved(&'a str),
    /// A bookmark arrived.
    Marked {
        /// Its resourceVersion.
        at: &'a str,
        /// Whether it says that a list sent as events is complete.
        ends_list: bool,
    },
    /// The stream ended in good order.
    Ended {
        /// How long it lived.
        lived: Duration,
    },
    /// The stream, or the reading of a page, broke.
    Broke {
        /// How long it lived.
        lived: Duration,
    },
    /// Nothing was heard for [`Course::patience`].
    Silent,
    /// The history that was asked for is gone: 410, as an answer or in the stream.
    Expired {
        /// How long the stream lived.
        lived: Duration,
    },
    /// The server says that it does not send lists as events.
    PagesOnly,
    /// The server says that the question makes no sense.
    Misunderstood,
    /// The server does not know the kind.
    Missing,
    /// The server refused, or was not reached.
    Failed {
        /// When the server would like to be asked again.
        retry_after: Option<Duration>,
    },
}

/// What that means for whoever reads the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// Nothing to tell.
    Nothing,
    /// A watch goes on.
    Opened,
    /// A list begins.
    Reset,
    /// The list is complete.
    Complete,
    /// All up to the bookmark was delivered.
    Progress,
    /// This server never sends lists as events: nobody need ask it again.
    PagesOnly,
    /// The server is less far than it was: it has another history now.
    WentBack,
}

/// What a watch is in the middle of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The page with this token was asked for, or is being read.
    Paging(String),
    /// A list sent as events was asked for.
    Asking,
    /// It arrives.
    Listing,
    Watching,
}

/// Where a watch is, and what went wrong before.
#[derive(Debug)]
pub(crate) struct Course {
    random: Random,
    doing: Doing,
    /// Where to go on; `None` before the first list, and when it is of no use any more.
    from: Option<String>,
    /// The next list is asked for in pages, because the last one did not get through as events.
    in_pages: bool,
    /// Troubles since something arrived.
    troubles: u32,
    /// Histories that expired since a watch lasted.
    relists: u32,
    wait: Option<Duration>,
}

impl Course {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, doing: Doing::Nothing, from: None, in_pages: false, troubles: 0, relists: 0, wait: None }
    }

    /// The next thing to do; `as_events` says whether the server may know how to list so.
    pub(crate) fn next(&mut self, as_events: bool) -> Step {
        if let Some(wait) = self.wait.take() {
            return Step::Wait(wait);
        }
        if let Doing::Paging(token) = &self.doing {
            return Step::Page(token.clone());
        }
        let (doing, step) = match &self.from {
            Some(from) => (Doing::Watching, Step::Watch(from.clone())),
            None if as_events && !self.in_pages => (Doing::Asking, Step::List),
            None => (Doing::Paging(String::new()), Step::Page(String::new())),
        };
        self.doing = doing;
        step
    }

    /// Whether what arrives belongs to a list.
    pub(crate) fn is_listing(&self) -> bool {
        matches!(self.doing, Doing::Asking | Doing::Listing | Doing::Paging(_))
    }

    /// Whether there is still something to read from what was opened last.
    pub(crate) fn is_reading(&self) -> bool {
        self.doing != Doing::Nothing
    }

    /// How long a stream may be silent.
    pub(crate) fn patience(&self) -> Duration {
        if self.is_listing() { LIST_SILENCE } else { SILENCE }
    }

    pub(crate) fn note(&mut self, happened: Happened<'_>) -> Means {
        match happened {
            Happened::Answered => match &self.doing {
                Doing::Asking => {
                    self.doing = Doing::Listing;
                    Means::Reset
                }
                Doing::Paging(token) if token.is_empty() => Means::Reset,
                Doing::Watching => Means::Opened,
                Doing::Nothing | Doing::Paging(_) | Doing::Listing => Means::Nothing,
            },
            Happened::PageRead { next: "", at } => {
                self.doing = Doing::Nothing;
                self.complete(at)
            }
            Happened::PageRead { next, .. } => {
                self.doing = Doing::Paging(next.to_owned());
                Means::Nothing
            }
            Happened::Moved(at) => self.moved(at),
            Happened::Marked { at, ends_list } => self.marked(at, ends_list),
            over => self.over(over),
        }
    }

    fn complete(&mut self, at: &str) -> Means {
        self.from = Some(at.to_owned());
        self.in_pages = false;
        Means::Complete
    }

    /// Until a list is complete, there is nowhere to go on from.
    fn moved(&mut self, at: &str) -> Means {
        if self.doing == Doing::Watching {
            self.troubles = 0;
            if let Some(from) = self.from.as_mut().filter(|_| !at.is_empty()) {
                at.clone_into(from);
            }
        }
        Means::Nothing
    }

    fn marked(&mut self, at: &str, ends_list: bool) -> Means {
        match self.doing {
            Doing::Listing if ends_list => {
                self.doing = Doing::Watching;
                self.complete(at)
            }
            // Who was asked for a list as events marks its end before anything else. This one took it for a plain watch.
            Doing::Listing => self.over(Happened::PagesOnly),
            _ if self.is_behind(at) => {
                self.over(Happened::Expired { lived: Duration::ZERO });
                Means::WentBack
            }
            _ => {
                self.moved(at);
                Means::Progress
            }
        }
    }

    /// Whether a bookmark says that the server is less far than we are, where both are numbers. Of objects it is not asked:
    /// some servers count the versions of each on its own.
    fn is_behind(&self, at: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let ours = self.from.as_deref().and_then(number);
        ours.zip(number(at)).is_some_and(|(ours, theirs)| theirs < ours)
    }

    /// What was opened is over.
    fn over(&mut self, how: Happened<'_>) -> Means {
        let did = std::mem::replace(&mut self.doing, Doing::Nothing);
        self.in_pages |= did == Doing::Listing || (did == Doing::Asking && how == Happened::Misunderstood);
        let lived = match how {
            Happened::Ended { lived } | Happened::Broke { lived } | Happened::Expired { lived } => lived,
            Happened::Silent if did == Doing::Watching => SILENCE,
            _ => Duration::ZERO,
        };
        self.troubles = if lived >= HEALTHY { 0 } else { self.troubles };
        self.relists = if lived >= LASTING { 0 } else { self.relists };
        match how {
            Happened::PagesOnly => return Means::PagesOnly,
            Happened::Ended { .. } | Happened::Silent if lived >= HEALTHY => return Means::Nothing,
            Happened::Failed { retry_after } => self.trouble(retry_after),
            Happened::Expired { .. } => {
                self.in_pages &= !matches!(did, Doing::Paging(_));
                self.from = None;
                self.troubles = self.troubles.max(self.relists);
                self.relists = self.relists.saturating_add(1);
                self.trouble(None);
            }
            // When the kind comes back, it is another one: its history begins anew.
            Happened::Missing => {
                self.from = None;
                self.trouble(None);
            }
            // Also of a server that ends watches at once: it would otherwise be asked in a tight loop.
            _ => self.trouble(None),
        }
        Means::Nothing
    }

    fn trouble(&mut self, retry_after: Option<Duration>) {
        let doubled = BACKOFF_BASE.saturating_mul(1 << self.troubles.min(10)).min(BACKOFF_MAX);
        self.troubles = self.troubles.saturating_add(1);
        let wait = self.random.jitter(doubled, JITTER).min(BACKOFF_MAX);
        self.wait = Some(wait.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)));
    }
}

#[cfg(test)]
mod tests;
