//! Where a handle reads from.

use std::time::Duration;

use crate::cache::{Cache, Elsewhere, Informers, Lazy};
use crate::client::ApiError;
use crate::resource::Resource;
use crate::scope::{Form, Scope};

/// Where a handle reads from.
#[derive(Clone)]
pub(super) enum Reads {
    /// The server.
    Live,
    /// The server, for these and no others.
    Asked(Scope),
    /// A cache that it holds open, and where that came from.
    Cached(Cache, Informers),
    /// A cache that is opened when it is read.
    Lazy(Lazy, Informers),
    /// A cache that others hold open.
    Opened(Elsewhere),
}

impl Reads {
    /// The cache of all objects of a kind, as the process has settled what happens if nobody has it open.
    pub(super) fn of(informers: &Informers, resource: Resource) -> Self {
        Self::cached(informers, resource.into()).unwrap_or(Self::Live)
    }

    /// The same of some of them.
    pub(super) fn within(informers: &Informers, scope: Scope) -> Self {
        Self::cached(informers, scope.clone()).unwrap_or(Self::Asked(scope))
    }

    /// `None` if it is read from the server: because the process has settled that, or because a cache of metadata cannot
    /// stand for whole objects. Who writes back what it gives would erase the rest.
    fn cached(informers: &Informers, scope: Scope) -> Option<Self> {
        let elsewhere = informers.elsewhere(scope);
        if elsewhere.scope().form != Form::Full || informers.reads_live(elsewhere.scope()) {
            return None;
        }
        let opened = Self::Opened(elsewhere);
        Some(informers.lazy_for().map_or(opened.clone(), |idle| opened.lazily(idle)))
    }

    /// What it reads; `None` if that is all there is, from the server.
    pub(super) fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Live => None,
            Self::Asked(scope) => Some(scope),
            Self::Cached(cache, _) => Some(cache.scope()),
            Self::Lazy(lazy, _) => Some(lazy.scope()),
            Self::Opened(elsewhere) => Some(elsewhere.scope()),
        }
    }

    fn origin(&self) -> Option<(Scope, Informers)> {
        match self {
            Self::Live | Self::Asked(_) => None,
            Self::Cached(cache, informers) => Some((cache.scope().clone(), informers.clone())),
            Self::Lazy(lazy, informers) => Some((lazy.scope().clone(), informers.clone())),
            Self::Opened(elsewhere) => Some((elsewhere.scope().clone(), elsewhere.informers().clone())),
        }
    }

    pub(super) fn watched(&self) -> Self {
        self.origin().map_or_else(|| self.clone(), |(scope, informers)| Self::Cached(informers.cache(scope), informers))
    }

    pub(super) fn lazily(&self, idle: Duration) -> Self {
        self.origin()
            .map_or_else(|| self.clone(), |(scope, informers)| Self::Lazy(informers.lazy(scope, idle), informers))
    }

    pub(super) fn if_opened(&self) -> Self {
        self.origin().map_or_else(|| self.clone(), |(scope, informers)| Self::Opened(informers.elsewhere(scope)))
    }

    /// The cache to read from, opened if that is wanted; `None` to ask the server.
    pub(super) fn cache(&self, resource: &Resource) -> Result<Option<Cache>, ApiError> {
        match self {
            Self::Live | Self::Asked(_) => Ok(None),
            Self::Cached(cache, _) => Ok(Some(cache.clone())),
            Self::Lazy(lazy, _) => Ok(Some(lazy.cache())),
            Self::Opened(elsewhere) => match elsewhere.cache() {
                Some(cache) => Ok(Some(cache)),
                None => Err(unopened(resource, elsewhere)),
            },
        }
    }

    /// The cache, if it is open.
    pub(super) fn opened(&self) -> Option<Cache> {
        match self {
            Self::Live | Self::Asked(_) => None,
            Self::Cached(cache, _) => Some(cache.clone()),
            Self::Lazy(lazy, _) => lazy.opened(),
            Self::Opened(elsewhere) => elsewhere.cache(),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Live | Self::Asked(_) => "live",
            Self::Cached(..) => "watched",
            Self::Lazy(..) => "lazy",
            Self::Opened(..) => "if opened",
        }
    }
}

/// Says what to do about a kind that nobody has open.
fn unopened(resource: &Resource, elsewhere: &Elsewhere) -> ApiError {
    let others = match elsewhere.others() {
        none if none.is_empty() => String::new(),
        others => format!(" (what is watched of it is {}: objects_in reads that)", others.join("; ")),
    };
    ApiError::Unsendable {
        action: format!("read {} from the cache", resource.group_resource()),
        why: format!(
            "nobody watches {}{others}; have a controller watch it (for_, owns, watches), keep it open with watched(), or read \
             it with lazily() or live()",
            elsewhere.scope()
        ),
    }
}
