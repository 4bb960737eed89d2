//! Whether somebody may do what they ask for.
//!
//! ```text
//!   headers, peer ─► User (auth) ─► impersonation ─► Action (method, path) ─► Policy: roles and bindings
//! ```
//!
//! All of it happens before the body is read. A request of this process itself has no user and may do everything.

pub(crate) mod action;
mod aggregate;
mod bootstrap;
mod escalate;
mod policy;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use concert_api::{Details, GroupResource, Status};
use http::request::Parts;
use http::{HeaderMap, Response};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::Server;
use crate::auth::peer::{Authorities, Peer};
use crate::auth::service_account::{self, Claims, Signer};
use crate::auth::tokens::TokenFile;
use crate::auth::{self, MASTERS, Token, User, bearer};
use crate::kinds;
use crate::limits::{self, Counts, Limits, Permit};
use crate::respond::{self, Body};
use crate::target::{Query, Target};
pub(crate) use action::{Action, Named, On};
pub(crate) use policy::{Policy, Rule, Verdict, quoted};

/// Events looked at in one go for changed roles.
const BATCH: usize = 1024;
/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const KINDS: [&str; 4] = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];

/// How it is decided what a user may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Whoever is authenticated may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and bindings say it.
    Rbac,
}

/// Whom we know.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) administrator: Option<Token>,
    pub(crate) tokens: TokenFile,
    pub(crate) clients: Option<Authorities>,
    pub(crate) signer: Option<Signer>,
}

/// The server's knowledge of who may do what.
#[derive(Debug, Default)]
pub(crate) struct Access {
    mode: RwLock<Authorization>,
    identity: RwLock<Arc<Identity>>,
    cached: Mutex<Option<Cached>>,
    counts: Counts,
    /// Aggregated roles will be looked at: there is no need to say so again.
    aggregating: AtomicBool,
    /// The roles that everybody expects were seen to.
    bootstrapped: OnceCell<()>,
}

/// The policy as of a revision.
#[derive(Debug)]
struct Cached {
    revision: u64,
    policy: Arc<Policy>,
}

impl Access {
    /// The same mode and users, for a fork.
    pub(crate) fn fork(&self) -> Self {
        let counts = Counts::default();
        counts.set(self.counts.limits());
        let (mode, identity) = (RwLock::new(self.mode()), RwLock::new(self.identity()));
        let (cached, aggregating) = (Mutex::default(), AtomicBool::new(false));
        Self { mode, identity, cached, counts, aggregating, bootstrapped: self.bootstrapped.clone() }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn mode(&self) -> Authorization {
        *self.mode.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request that was let in.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// On whose behalf it is made; `None`: this process's own.
    pub(crate) caller: Option<Arc<User>>,
    /// Its place among those that are answered at once.
    permit: Option<Permit>,
}

impl Admitted {
    /// The answer, which keeps the place until it is sent.
    pub(crate) fn holds(self, response: Response<Body>) -> Response<Body> {
        match self.permit {
            Some(permit) => limits::held(response, permit),
            None => response,
        }
    }
}

/// Why a token is not taken.
pub(crate) enum BadToken {
    Unknown,
    /// It is ours, but for these others.
    Audience(Vec<String>),
}

impl Server {
    /// Makes roles and bindings decide (or no longer). The roles that everybody expects are written if they are not
    /// there; where they decide nothing, when somebody first looks at roles.
    ///
    /// # Errors
    /// They cannot be written.
    pub async fn authorize_by(&self, mode: Authorization) -> Result<(), Status> {
        if mode == Authorization::Rbac {
            self.write_bootstrap_roles().await?;
            self.access().bootstrapped.get_or_init(async || ()).await;
        }
        *self.access().mode.write().unwrap_or_else(PoisonError::into_inner) = mode;
        Ok(())
    }

    /// Makes these the users that are known.
    pub(crate) fn know(&self, identity: Arc<Identity>) {
        *self.access().identity.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    /// Who sent a request: the holder of a client certificate, or of a token.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<User, Status> {
        if let Some(user) = peer.and_then(|peer| peer.user(self.world().clock.now())) {
            return Ok(user.clone());
        }
        let token = bearer(headers).ok_or_else(Status::unauthorized)?;
        let known = self.user_of(token, &[]).map(|(user, _)| user);
        known.map_err(|_| Status::unauthorized())
    }

    /// The user of a token, and for which of these audiences (of none: ours) it is good.
    pub(crate) fn user_of(&self, token: &str, audiences: &[String]) -> Result<(User, Vec<String>), BadToken> {
        let ours = [service_account::ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &ours[..] } else { audiences };
        let identity = self.access().identity();
        // Tokens without an audience are for this server.
        let for_us = || ours.iter().filter(|own| audiences.contains(own)).cloned().collect::<Vec<_>>();
        if identity.administrator.as_ref().is_some_and(|administrator| administrator.is(token)) && !for_us().is_empty()
        {
            return Ok((User::administrator(), for_us()));
        }
        if let Some(user) = identity.tokens.user(token).filter(|_| !for_us().is_empty()) {
            return Ok((user.clone(), for_us()));
        }
        let signer = identity.signer.as_ref().ok_or(BadToken::Unknown)?;
        let claims = signer.verify(token, self.now().unix_seconds()).ok_or(BadToken::Unknown)?;
        let good: Vec<String> = audiences.iter().filter(|one| claims.audiences.contains(one)).cloned().collect();
        if good.is_empty() {
            return Err(BadToken::Audience(claims.audiences));
        }
        if !self.has_account(&claims) {
            return Err(BadToken::Unknown);
        }
        Ok((claims.user(), good))
    }

    /// Whether the account that a token speaks of is still there, and still the same.
    fn has_account(&self, claims: &Claims) -> bool {
        let object = concert_api::ObjectKey::new(claims.namespace.as_str(), claims.name.as_str());
        let key = concert_store::Key { resource: GroupResource::new("", "serviceaccounts"), object };
        let snapshot = self.store().snapshot();
        let found = snapshot.get(&key).and_then(|entry| entry.beside.object.as_ref());
        found.is_some_and(|account| !account.is_deleting() && account.uid() == claims.uid)
    }

    /// Sets how much may be going on at once.
    pub fn limit(&self, limits: Limits) {
        self.access().counts.set(limits);
    }

    /// Lets a request in, or gives the answer that refuses it. Nothing of the body has been read.
    pub(crate) fn admit(&self, parts: &Parts) -> Result<Admitted, Box<Response<Body>>> {
        let action = Action::of(&parts.method, &parts.uri);
        let Some(sender) = parts.extensions.get::<User>() else { return Ok(Admitted::default()) };
        // Who asks too much is counted by their own name, whoever they act as.
        let permit = self.access().counts.enter(sender, &action).ok_or_else(|| Box::new(limits::too_many()))?;
        let user = self.acting(sender, parts, &action).map_err(|status| Box::new(respond::failure(&status)))?;
        Ok(Admitted { caller: Some(Arc::new(user)), permit: Some(permit) })
    }

    /// On whose behalf a request is made, if they may do it.
    fn acting(&self, sender: &User, parts: &Parts, action: &Action) -> Result<User, Status> {
        let user = match auth::impersonate::wanted(&parts.headers)? {
            Some(wanted) => self.impersonate(sender, &wanted, action)?,
            None => sender.clone(),
        };
        self.require(&user, action)?;
        Ok(user)
    }

    /// Refuses what this user may not do.
    pub(crate) fn require(&self, user: &User, action: &Action) -> Result<(), Status> {
        match self.decide(user, action) {
            Verdict::Allowed(_) => Ok(()),
            Verdict::NoOpinion(why) => {
                tracing::debug!(user = user.name, verb = action.verb, on = ?action.on, "forbidden");
                Err(forbidden(user, action, &why))
            }
        }
    }

    /// Refuses to create by a change to whom may only change.
    pub(crate) fn require_create(&self, target: &Target, query: &Query) -> Result<(), Status> {
        let Some(user) = &query.caller else { return Ok(()) };
        let named = Named {
            group: target.resource.id.group.to_string(),
            resource: target.resource.id.resource.to_string(),
            subresource: String::new(),
            namespace: target.namespace.clone().unwrap_or_default(),
            name: target.name.clone().unwrap_or_default(),
        };
        self.require(user, &Action::on("create", named))
    }

    /// Whether this user may do this.
    pub(crate) fn decide(&self, user: &User, action: &Action) -> Verdict {
        match self.access().mode() {
            Authorization::AlwaysAllow => Verdict::Allowed(String::new()),
            Authorization::Rbac if user.is_in(MASTERS) => Verdict::Allowed(String::new()),
            Authorization::Rbac => self.policy().decide(user, action),
        }
    }

    /// The roles and bindings as they are now. They are read again only after one of them was written.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        let mut cached = self.access().cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Cached { revision, policy }) = cached.as_mut()
            && let Some(seen) = self.unchanged_since(*revision)
        {
            *revision = seen;
            return Arc::clone(policy);
        }
        let snapshot = self.store().snapshot();
        let mut policy = Policy::default();
        for plural in KINDS {
            for (_, entry) in snapshot.range(&GroupResource::new(GROUP, plural), None, None) {
                match serde_json::from_slice::<Value>(&entry.bytes) {
                    Ok(object) => policy.add(&object),
                    Err(error) => tracing::error!(%error, "a stored role or binding cannot be read"),
                }
            }
        }
        let policy = Arc::new(policy);
        *cached = Some(Cached { revision: snapshot.revision(), policy: Arc::clone(&policy) });
        policy
    }

    /// The revision up to which no role or binding has changed; `None` if one has, or nobody knows.
    fn unchanged_since(&self, mut revision: u64) -> Option<u64> {
        loop {
            let events = self.store().events_after(revision, BATCH).ok()?;
            if events.iter().any(|event| *event.key.resource.group == *GROUP) {
                return None;
            }
            revision = events.last().map_or(revision, |event| event.revision);
            if events.len() < BATCH {
                return Some(revision);
            }
        }
    }

    /// What has to happen once a role was written.
    pub(crate) fn after_role_write(&self, resource: &GroupResource) {
        // Many roles that are written at once are looked at once.
        if *resource == kinds::cluster_roles() && !self.access().aggregating.swap(true, Ordering::AcqRel) {
            let server = self.clone();
            // Nobody waits for it: the real server's controller takes its time, too.
            drop(self.in_background(Box::pin(async move {
                server.access().aggregating.store(false, Ordering::Release);
                server.aggregate_roles().await;
            })));
        }
    }
}

/// 403, in the words of the real server.
pub(crate) fn forbidden(user: &User, action: &Action, why: &str) -> Status {
    let (name, verb) = (&user.name, &action.verb);
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    let on = match &action.on {
        On::Path(path) => {
            let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}{because}");
            return Status::failure(403, "Forbidden", message).with(Details::default());
        }
        On::Resource(on) => on,
    };
    let scope = match on.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let what =
        format!("User {name:?} cannot {verb} resource {:?} in API group {:?} {scope}{because}", on.full(), on.group);
    let id = GroupResource::new(on.group.as_str(), on.resource.as_str());
    let mut status = Status::forbidden(&id, &on.name, &what);
    if on.name.is_empty() {
        status.message = format!("{id} is forbidden: {what}");
    }
    status
}
