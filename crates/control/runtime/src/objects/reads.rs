//! Where a handle reads from.

use std::time::Duration;

use crate::cache::{Cache, Informers, Lazy};
use crate::client::ApiError;
use crate::resource::Resource;
use crate::scope::{Form, Scope};

/// Where a handle reads from.
#[derive(Clone)]
pub(super) enum Reads {
    /// The server.
    Live,
    /// A cache that it holds open, and where that came from.
    Cached(Cache, Informers),
    /// A cache that is opened when it is read.
    Lazy(Lazy, Informers),
    /// A cache that others hold open.
    Opened(Informers, Scope),
}

impl Reads {
    /// The cache of all objects of a kind. A cache of metadata cannot stand for whole objects: who writes back what it
    /// gives would erase the rest.
    pub(super) fn cached(informers: &Informers, resource: Resource) -> Self {
        let cache = informers.cache(resource);
        if cache.scope().form == Form::Full { Self::Cached(cache, informers.clone()) } else { Self::Live }
    }

    fn origin(&self) -> Option<(Scope, Informers)> {
        match self {
            Self::Live => None,
            Self::Cached(cache, informers) => Some((cache.scope().clone(), informers.clone())),
            Self::Lazy(lazy, informers) => Some((lazy.scope().clone(), informers.clone())),
            Self::Opened(informers, scope) => Some((scope.clone(), informers.clone())),
        }
    }

    pub(super) fn lazily(&self, idle: Duration) -> Self {
        self.origin().map_or(Self::Live, |(scope, informers)| Self::Lazy(informers.lazy(scope, idle), informers))
    }

    pub(super) fn if_opened(&self) -> Self {
        self.origin().map_or(Self::Live, |(scope, informers)| Self::Opened(informers, scope))
    }

    /// The cache to read from, opened if that is wanted; `None` to ask the server.
    pub(super) fn cache(&self, resource: &Resource) -> Result<Option<Cache>, ApiError> {
        match self {
            Self::Live => Ok(None),
            Self::Cached(cache, _) => Ok(Some(cache.clone())),
            Self::Lazy(lazy, _) => Ok(Some(lazy.cache())),
            Self::Opened(informers, scope) => match informers.opened(scope.clone()) {
                Some(cache) => Ok(Some(cache)),
                None => Err(ApiError::Unsendable {
                    action: format!("read {} from the cache", resource.group_resource()),
                    why: "nothing watches this kind; watch it from a controller, or read lazily() or live()".into(),
                }),
            },
        }
    }

    /// The cache, if it is open.
    pub(super) fn opened(&self) -> Option<Cache> {
        match self {
            Self::Live => None,
            Self::Cached(cache, _) => Some(cache.clone()),
            Self::Lazy(lazy, _) => lazy.opened(),
            Self::Opened(informers, scope) => informers.opened(scope.clone()),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cached(..) => "cached",
            Self::Lazy(..) => "lazy",
            Self::Opened(..) => "if opened",
        }
    }
}
