//! An endpoint that strangers cannot read: TLS, and the API server's word on who may.
//!
//! As controller-runtime does it: the bearer token of a request is shown to the API server (TokenReview), and whether its
//! user may `get` the path is asked there as well (SubjectAccessReview). A scraper needs a role with
//! `nonResourceURLs: ["/metrics"], verbs: ["get"]`; the process needs `create` of both reviews (the role
//! `system:auth-delegator`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use concert_api::Gvk;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::Page;
use super::certificate::{Certificate, CertificateFiles};
use crate::client::{ApiError, Client};
use crate::resource::Resource;

/// How long the API server's word holds. controller-runtime: one minute for who it is.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long a no holds: roles may be granted.
const REFUSED: Duration = Duration::from_secs(10);
/// So many answers are remembered; a few scrapers come again and again.
const REMEMBERED: usize = 64;
/// For how long it is remembered that somebody was let in. Who was is not made to wait behind strangers.
const FRIENDS: Duration = Duration::from_secs(600);
/// How fast the API server is asked about strangers, and about friends: whoever sends many tokens spends nothing of what
/// the process, or those who may, are allowed to ask.
const PER_SECOND: f64 = 10.0;
const BURST: u32 = 50;
/// How long an answer may take: a scraper does not wait longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an endpoint keeps strangers out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// The certificate to show; one that is signed by itself, and made anew at each start, if there is none.
    pub certificate: Option<CertificateFiles>,
    /// Whether the API server is asked who reads, and whether they may.
    pub reviewed: bool,
}

/// See the module.
pub(super) struct Secured {
    certificate: Certificate,
    reviewer: Option<Reviewer>,
}

impl Secured {
    /// Why not is said in words.
    pub(super) fn new(security: Security, client: Client) -> Result<Self, String> {
        let certificate = Certificate::new(security.certificate, client.metrics().cloned())?;
        let reviewer = security.reviewed.then(|| Reviewer::new(client));
        Ok(Self { certificate, reviewer })
    }

    /// What new connections are greeted with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.certificate.acceptor()
    }

    /// Follows the certificate's files, for ever.
    pub(super) async fn watch(&self) {
        self.certificate.watch().await;
    }

    /// Whether a request may see a path; if not, what it sees instead.
    pub(super) async fn admit(&self, headers: &HeaderMap, path: &str) -> Result<(), Page> {
        match &self.reviewer {
            Some(reviewer) => reviewer.admit(headers, path).await,
            None => Ok(()),
        }
    }
}

/// Asks the API server.
struct Reviewer {
    /// For those who were let in before.
    friends: Client,
    strangers: Client,
    known: Mutex<BTreeMap<Asked, Answered>>,
}

/// A token, of which only a digest is kept, and a path.
type Asked = ([u8; 32], String);

/// What was answered.
struct Answered {
    verdict: Verdict,
    /// Until when it is believed.
    until: Instant,
    /// Until when it is remembered at all.
    forget: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Unknown,
    Denied { user: String },
}

impl Reviewer {
    fn new(client: Client) -> Self {
        let own = || client.clone().with_deadline(PATIENCE).with_limit(PER_SECOND, BURST);
        Self { friends: own(), strangers: own(), known: Mutex::default() }
    }

    async fn admit(&self, headers: &HeaderMap, path: &str) -> Result<(), Page> {
        let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) else {
            return Err(page(401, "Unauthorized"));
        };
        let asked = (Sha256::digest(token).into(), path.to_owned());
        let verdict = match self.remembered(&asked) {
            Ok(verdict) => verdict,
            Err(client) => {
                let verdict = review(client, token, path).await.map_err(|error| {
                    tracing::warn!(error = crate::error_chain(&error), "cannot ask who may read an endpoint");
                    page(500, "Authentication failed")
                })?;
                self.remember(asked, verdict.clone());
                verdict
            }
        };
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Unknown => Err(page(401, "Unauthorized")),
            Verdict::Denied { user } => Err(page(403, &format!("Authorization denied for user {user}"))),
        }
    }

    /// What is believed, or whom to ask.
    fn remembered(&self, asked: &Asked) -> Result<Verdict, &Client> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match known.get(asked) {
            Some(answered) if now < answered.until => Ok(answered.verdict.clone()),
            Some(Answered { verdict: Verdict::Allowed, forget, .. }) if now < *forget => Err(&self.friends),
            Some(_) | None => Err(&self.strangers),
        }
    }

    fn remember(&self, asked: Asked, verdict: Verdict) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        known.retain(|_, answered| now < answered.forget);
        let (holds, lasts) = if verdict == Verdict::Allowed { (BELIEVED, FRIENDS) } else { (REFUSED, REFUSED) };
        // Whoever sends many tokens is made to wait for the API server, not given our memory.
        if known.len() < REMEMBERED || known.contains_key(&asked) || make_room(&mut known, &verdict) {
            known.insert(asked, Answered { verdict, until: now + holds, forget: now + lasts });
        }
    }
}

/// Who is let in comes before strangers.
fn make_room(known: &mut BTreeMap<Asked, Answered>, verdict: &Verdict) -> bool {
    let stranger =
        known.iter().find(|(_, answered)| answered.verdict != Verdict::Allowed).map(|(asked, _)| asked.clone());
    *verdict == Verdict::Allowed && stranger.is_some_and(|stranger| known.remove(&stranger).is_some())
}

async fn review(client: &Client, token: &str, path: &str) -> Result<Verdict, ApiError> {
    let who = ask(client, "authentication.k8s.io", "TokenReview", "tokenreviews", json!({ "token": token })).await?;
    if who["authenticated"] != true {
        return Ok(Verdict::Unknown);
    }
    let user = &who["user"];
    let mut spec = json!({ "user": user["username"], "nonResourceAttributes": { "path": path, "verb": "get" } });
    for field in ["uid", "groups", "extra"] {
        if !user[field].is_null() {
            spec[field] = user[field].clone();
        }
    }
    let may = ask(client, "authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", spec).await?;
    if may["allowed"] == true {
        return Ok(Verdict::Allowed);
    }
    Ok(Verdict::Denied { user: user["username"].as_str().unwrap_or_default().to_owned() })
}

async fn ask(client: &Client, group: &str, kind: &str, plural: &str, spec: Value) -> Result<Value, ApiError> {
    let gvk = Gvk::new(group, "v1", kind);
    let review = json!({ "apiVersion": gvk.api_version(), "kind": kind, "spec": spec });
    let mut answer = client.review(&Resource::cluster(gvk, plural), &review).await?;
    Ok(answer.get_mut("status").map(Value::take).unwrap_or_default())
}

fn page(code: u16, text: &str) -> Page {
    Page::text(code, format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use concert_world::World;
    use http_body_util::{BodyExt, Full};

    /// An API server that knows one token.
    fn client() -> Client {
        let serve = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let knows = body.windows(6).any(|part| part == b"friend");
            let status = json!({ "authenticated": knows, "allowed": knows, "user": { "username": "friend" } });
            let answer = Full::new(Bytes::from(json!({ "status": status }).to_string()));
            Ok::<_, std::convert::Infallible>(http::Response::new(answer))
        });
        Client::in_process(serve, World::simulated(1))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_makes_no_sense_lets_nobody_in() {
        for nonsense in ["[]", "\"yes\"", "7", "null", "{\"status\":[]}"] {
            let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(nonsense))))
            });
            let reviewer = Reviewer::new(Client::in_process(serve, World::simulated(1)));
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, "Bearer x".parse().expect("it is plain"));
            assert!(reviewer.admit(&headers, "/metrics").await.is_err(), "{nonsense}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_strangers_does_not_keep_out_who_was_let_in() {
        let reviewer = Reviewer::new(client());
        let ask = async |token: String| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().expect("it is plain"));
            reviewer.admit(&headers, "/metrics").await.map_err(|page| page.code)
        };
        assert_eq!(ask("friend".into()).await, Ok(()));
        for minute in 0..5 {
            let crowd = futures::future::join_all((0..500).map(|n| ask(format!("stranger-{minute}-{n}"))));
            let friend = async {
                // Its last answer is no longer believed by then.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let began = Instant::now();
                assert_eq!(ask("friend".into()).await, Ok(()));
                assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
            };
            let (answers, ()) = tokio::join!(crowd, friend);
            assert!(answers.iter().all(|answer| matches!(answer, Err(401 | 500))));
            assert!(reviewer.known.lock().unwrap_or_else(PoisonError::into_inner).len() <= REMEMBERED);
            tokio::time::sleep(Duration::from_secs(100)).await;
        }
    }
}
