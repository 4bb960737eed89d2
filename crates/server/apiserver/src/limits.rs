//! How much may be going on at once. Whoever comes when it is too much is told so at once (429, and when to come
//! again), and nobody else waits for them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::access::Action;
use crate::auth::{MASTERS, User};
use crate::budget::Budget;
use crate::respond::{self, Body};
use crate::seldom::Seldom;

/// How many requests may be answered at once. Requests of this process itself are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that read, until their answer is sent.
    pub reads: usize,
    /// Requests that write.
    pub writes: usize,
    /// Watches, of which there can be many more: they mostly wait.
    pub watches: usize,
    /// The part of reads and of writes that one user may have: one in so many. Administrators may have all.
    pub share: usize,
    /// Watches of one user. Administrators may have all.
    pub watches_per_user: usize,
    /// Bytes of large bodies that have come or may come, until they are answered. More of them wait before they are read.
    pub bodies: usize,
    /// Bytes that large requests may take while they are worked on, by an estimate: trees are many times larger than
    /// the text they are read from. One that takes more than this is worked on alone.
    pub work: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reads: 400,
            writes: 200,
            watches: 2000,
            share: 2,
            watches_per_user: 200,
            bodies: 24 << 20,
            work: 48 << 20,
        }
    }
}

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    Read,
    Write,
    Watch,
}

impl Class {
    fn of(action: &Action) -> Self {
        match action.verb.as_str() {
            "watch" => Self::Watch,
            "get" | "list" | "head" => Self::Read,
            _ => Self::Write,
        }
    }
}

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct Counts {
    counts: Arc<Mutex<Inner>>,
    /// For bodies.
    pub(crate) bodies: Budget,
    /// For what becomes of them.
    pub(crate) work: Budget,
}

impl Default for Counts {
    fn default() -> Self {
        let limits = Limits::default();
        let (bodies, work) = (Budget::default(), Budget::default());
        bodies.set(limits.bodies, limits.share);
        work.set(limits.work, limits.share);
        Self { counts: Arc::default(), bodies, work }
    }
}

#[derive(Debug, Default)]
struct Inner {
    limits: Limits,
    all: HashMap<Class, usize>,
    /// Only users who have something going on are here.
    users: HashMap<(Class, Arc<str>), usize>,
    refused: Seldom,
}

impl Inner {
    fn limits(&self, class: Class) -> (usize, usize) {
        let Limits { reads, writes, watches, share, watches_per_user, .. } = self.limits;
        match class {
            Class::Read => (reads, reads.div_ceil(share.max(1))),
            Class::Write => (writes, writes.div_ceil(share.max(1))),
            Class::Watch => (watches, watches_per_user),
        }
    }
}

impl Counts {
    /// Sets other limits; what is going on goes on.
    pub(crate) fn set(&self, limits: Limits) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).limits = limits;
        self.bodies.set(limits.bodies, limits.share);
        self.work.set(limits.work, limits.share);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).limits
    }

    /// A place for this request; `None` if there is none.
    pub(crate) fn enter(&self, user: &User, action: &Action) -> Option<Permit> {
        let class = Class::of(action);
        let name: Arc<str> = user.name.as_str().into();
        let mut inner = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, most_per_user) = inner.limits(class);
        let all = inner.all.get(&class).copied().unwrap_or(0);
        let own = inner.users.get(&(class, Arc::clone(&name))).copied().unwrap_or(0);
        if all >= most || (own >= most_per_user && !user.is_in(MASTERS)) {
            if let Some(times) = inner.refused.times() {
                tracing::warn!(user = user.name, ?class, all, own, times, "too many requests at once: one is refused");
            }
            return None;
        }
        *inner.all.entry(class).or_default() += 1;
        *inner.users.entry((class, Arc::clone(&name))).or_default() += 1;
        Some(Permit { counts: Arc::clone(&self.counts), class, name })
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Arc<Mutex<Inner>>,
    class: Class,
    name: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { all, users, .. } = &mut *inner;
        if let Some(count) = all.get_mut(&self.class) {
            *count -= 1;
        }
        let own = (self.class, Arc::clone(&self.name));
        if let Some(count) = users.get_mut(&own) {
            *count -= 1;
            if *count == 0 {
                users.remove(&own);
            }
        }
    }
}

/// 429, as the real server says it.
pub(crate) fn too_many() -> Response<Body> {
    let mut response = respond::text(429, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Keeps the place until the answer is sent. One that is already complete needs none.
pub(crate) fn held(response: Response<Body>, permit: Permit) -> Response<Body> {
    response.map(
        |body| {
            if body.size_hint().exact().is_some() { body } else { Held { body, _kept: permit }.boxed_unsync() }
        },
    )
}

/// Keeps something until the answer is sent: also one that is complete, and waits for its reader.
pub(crate) fn keeping<T: Send + Unpin + 'static>(response: Response<Body>, kept: T) -> Response<Body> {
    response.map(|body| Held { body, _kept: kept }.boxed_unsync())
}

struct Held<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Named;

    fn enter(counts: &Counts, user: &User, verb: &str) -> Option<Permit> {
        counts.enter(user, &Action::on(verb, Named::default()))
    }

    /// Fills up to just below the limit, then to it, then beyond.
    fn check(user: &dyn Fn(usize) -> User, verb: &str, most: usize) {
        let counts = Counts::default();
        let mut held: Vec<Permit> = (0..most).map(|one| enter(&counts, &user(one), verb).unwrap()).collect();
        assert!(enter(&counts, &user(most), verb).is_none(), "{verb}: one more than {most}");
        held.pop();
        assert!(enter(&counts, &user(most), verb).is_some(), "{verb}: one has gone");
    }

    #[test]
    fn each_limit_holds_at_its_number() {
        for (verb, all, own) in [("list", 400, 200), ("get", 400, 200), ("create", 200, 100), ("watch", 2000, 200)] {
            check(&|one| User::new(format!("user-{one}"), &[]), verb, all);
            check(&|_| User::new("jane", &[]), verb, own);
            check(&|_| User::new("admin", &[MASTERS]), verb, all);
        }
    }

    #[test]
    fn sorts_of_requests_do_not_wait_for_each_other() {
        let counts = Counts::default();
        let jane = User::new("jane", &[]);
        let _watches: Vec<_> = (0..200).map(|_| enter(&counts, &jane, "watch").unwrap()).collect();
        let _reads: Vec<_> = (0..200).map(|_| enter(&counts, &jane, "list").unwrap()).collect();
        assert!(enter(&counts, &jane, "get").is_none());
        assert!(enter(&counts, &jane, "patch").is_some());
        assert!(enter(&counts, &User::new("bob", &[]), "get").is_some());
    }

    #[test]
    fn users_who_have_gone_are_forgotten() {
        let counts = Counts::default();
        for one in 0..1000 {
            drop(enter(&counts, &User::new(format!("user-{one}"), &[]), "get"));
        }
        assert!(counts.counts.lock().unwrap().users.is_empty());
    }
}
