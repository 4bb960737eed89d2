//! Metrics and probes over HTTP.

mod secure;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use secure::Secured;
pub use secure::{CertificateFiles, Security};

use crate::client::Client;
use crate::metrics::Metrics;
use crate::tasks::TaskGroup;

/// How long a client may take to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at a time; a scraper needs one or two.
const MAX_CONNECTIONS: usize = 100;

/// Why an endpoint cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address makes no sense.
    #[error("cannot use {flag}={address}: not an address; write HOST:PORT, :PORT, or 0 to turn it off")]
    Address {
        /// The flag it came from.
        flag: String,
        /// Its value.
        address: String,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot use {flag}={address}: {source}; choose another port with {flag}=HOST:PORT, or {flag}=0 to turn it off"
    )]
    Bind {
        /// The flag it came from.
        flag: String,
        /// Its value.
        address: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be secured.
    #[error("cannot secure {flag}: {why}")]
    Secure {
        /// The flag of its address.
        flag: String,
        /// What is wrong.
        why: String,
    },
    /// It is not for everybody.
    #[error(
        "cannot use {flag}={address}: what is shown there is for this machine only; write 127.0.0.1:PORT, or allow it \
         explicitly"
    )]
    NotLoopback {
        /// The flag it came from.
        flag: String,
        /// Its value.
        address: String,
    },
}

/// A listener that is bound but does not answer yet.
pub struct Endpoint {
    flag: String,
    listener: TcpListener,
    address: SocketAddr,
    secured: Option<Arc<Secured>>,
}

impl Endpoint {
    /// Listens on `address`: `HOST:PORT`, `:PORT` for all interfaces, port 0 for any free one. `None` if it is `0`
    /// or empty: turned off. `flag` names it in errors, as `--metrics-bind-address`.
    ///
    /// # Errors
    /// The address makes no sense or is in use.
    pub async fn bind(flag: &str, address: &str) -> Result<Option<Self>, ServeError> {
        if address.is_empty() || address == "0" {
            return Ok(None);
        }
        let full = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
        let port = full.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            return Err(ServeError::Address { flag: flag.to_owned(), address: address.to_owned() });
        }
        let fail = |source| ServeError::Bind { flag: flag.to_owned(), address: address.to_owned(), source };
        let listener = TcpListener::bind(&full).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Some(Self { flag: flag.to_owned(), listener, address, secured: None }))
    }

    /// As [`Endpoint::bind`], but only where nobody on another machine gets to.
    ///
    /// # Errors
    /// As [`Endpoint::bind`]; [`ServeError::NotLoopback`] if others could get there.
    pub async fn bind_loopback(flag: &str, address: &str) -> Result<Option<Self>, ServeError> {
        let address = if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() };
        let bound = Self::bind(flag, &address).await?;
        match bound {
            Some(endpoint) if !endpoint.address.ip().is_loopback() => {
                Err(ServeError::NotLoopback { flag: flag.to_owned(), address })
            }
            bound => Ok(bound),
        }
    }

    /// The same over TLS only, and, if `security` says so, for those only who may by the word of the API server.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn secured(self, security: Security, client: Client) -> Result<Self, ServeError> {
        let secured = Secured::new(security, client);
        let secured = secured.map_err(|why| ServeError::Secure { flag: self.flag.clone(), why })?;
        Ok(Self { secured: Some(Arc::new(secured)), ..self })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `cancel`.
    pub async fn serve(self, pages: impl Pages, cancel: CancellationToken) {
        let pages = Arc::new(pages);
        let mut connections: TaskGroup = TaskGroup::new(cancel.child_token());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let token = connections.token().clone();
                        connections.spawn("connection", greet(stream, self.secured.clone(), Arc::clone(&pages), token));
                    }
                    // Out of file descriptors, most likely: give others time to return some.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
        connections.stop().await;
    }
}

/// What an endpoint shows.
pub trait Pages: Send + Sync + 'static {
    /// The page at a path; `None` if there is none.
    fn page(&self, path: &str, query: &str) -> Option<Page>;
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The HTTP code.
    pub code: u16,
    /// The content type.
    pub kind: &'static str,
    /// The content.
    pub text: String,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({}{})", self.address, if self.secured.is_some() { ", secured" } else { "" })
    }
}

/// One connection, from its first byte.
async fn greet(stream: TcpStream, secured: Option<Arc<Secured>>, pages: Arc<impl Pages>, cancel: CancellationToken) {
    let Some(secured) = secured else { return answer(stream, None, pages, cancel).await };
    let handshake = tokio::time::timeout(HEADER_TIMEOUT, secured.acceptor().accept(stream));
    let greeted = tokio::select! {
        biased;
        () = cancel.cancelled() => return,
        greeted = handshake => greeted,
    };
    // Who does not speak TLS, or does not trust us, has noticed.
    if let Ok(Ok(stream)) = greeted {
        answer(stream, Some(secured), pages, cancel).await;
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    secured: Option<Arc<Secured>>,
    pages: Arc<impl Pages>,
    cancel: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (pages, secured) = (Arc::clone(&pages), secured.clone());
        async move {
            let uri = request.uri();
            let refused = match &secured {
                Some(secured) => secured.admit(request.headers(), uri.path()).await.err(),
                None => None,
            };
            let page = refused.or_else(|| pages.page(uri.path(), uri.query().unwrap_or_default()));
            let page = page.unwrap_or(Page { code: 404, kind: "text/plain", text: "404 page not found\n".into() });
            let mut response = Response::new(Full::new(Bytes::from(page.text)));
            *response.status_mut() = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(page.kind));
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        () = cancel.cancelled() => connection.as_mut().graceful_shutdown(),
        // A scraper that goes away is no news.
        _ = connection.as_mut() => return,
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
}

/// `/metrics`.
impl Pages for Metrics {
    fn page(&self, path: &str, _: &str) -> Option<Page> {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (path == "/metrics").then(|| Page { code: 200, kind, text: self.text() })
    }
}

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks behind `/healthz` (is the process alive) and `/readyz` (is it any use). Cheap to clone; checks can
/// be added and replaced at any time.
#[derive(Clone, Default)]
pub struct Probes(Arc<Mutex<Checks>>);

#[derive(Default)]
struct Checks {
    health: BTreeMap<String, Check>,
    readiness: BTreeMap<String, Check>,
}

impl Probes {
    /// Adds a check of `/healthz`.
    pub fn health(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).health.insert(name.to_owned(), Arc::new(check));
    }

    /// Adds a check of `/readyz`.
    pub fn readiness(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).readiness.insert(name.to_owned(), Arc::new(check));
    }

    /// Removes a check from both.
    pub fn remove(&self, name: &str) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.health.remove(name);
        checks.readiness.remove(name);
    }

    fn report(title: &str, checks: &BTreeMap<String, Check>, query: &str) -> Page {
        let asked = Asked::read(query);
        let (mut lines, mut passed) = (String::new(), true);
        for (name, check) in checks {
            let line = if asked.excluded.contains(&name.as_str()) {
                format!("[+]{name} excluded: ok\n")
            } else {
                match check() {
                    Ok(()) => format!("[+]{name} ok\n"),
                    Err(why) => {
                        passed = false;
                        let why = if asked.verbose { why.as_str() } else { "reason withheld" };
                        format!("[-]{name} failed: {why}\n")
                    }
                }
            };
            lines.push_str(&line);
        }
        let unknown: Vec<_> = asked.excluded.iter().filter(|name| !checks.contains_key(**name)).collect();
        if !unknown.is_empty() {
            lines.push_str(&format!("warn: some checks cannot be excluded: there are none named {unknown:?}\n"));
        }
        let text = match (passed, asked.verbose) {
            (true, false) => "ok".to_owned(),
            (true, true) => format!("{lines}{title} check passed\n"),
            (false, _) => format!("{lines}{title} check failed\n"),
        };
        Page { code: if passed { 200 } else { 500 }, kind: "text/plain; charset=utf-8", text }
    }
}

/// What the query of a probe asks for.
struct Asked<'a> {
    excluded: Vec<&'a str>,
    /// Reasons may name what strangers should not know: only who asks for them gets them.
    verbose: bool,
}

impl<'a> Asked<'a> {
    fn read(query: &'a str) -> Self {
        let excluded = query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).collect();
        let verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
        Self { excluded, verbose }
    }
}

/// `/healthz`, `/readyz`, and `/healthz/NAME`, `/readyz/NAME` for single checks.
impl Pages for Probes {
    fn page(&self, path: &str, query: &str) -> Option<Page> {
        let path = path.strip_prefix('/')?.trim_end_matches('/');
        let (title, single) = path.split_once('/').map_or((path, None), |(title, name)| (title, Some(name)));
        let mut checks = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match title {
                "healthz" => all.health.clone(),
                "readyz" => all.readiness.clone(),
                _ => return None,
            }
        };
        checks.entry("ping".to_owned()).or_insert_with(|| Arc::new(|| Ok(())));
        if let Some(name) = single {
            checks.retain(|known, _| known == name);
            if checks.is_empty() {
                return None;
            }
        }
        Some(Self::report(title, &checks, query))
    }
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Probes")
            .field("health", &checks.health.keys())
            .field("readiness", &checks.readiness.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn probes_name_what_fails() {
        let probes = Probes::default();
        probes.readiness("provider", || Err("not connected".into()));
        let page = |path: &str, query: &str| probes.page(path, query).map(|page| (page.code, page.text));
        assert_eq!(page("/healthz", ""), Some((200, "ok".into())));
        let failed = "[+]ping ok\n[-]provider failed: reason withheld\nreadyz check failed\n";
        assert_eq!(page("/readyz", ""), Some((500, failed.into())));
        let why = "[+]ping ok\n[-]provider failed: not connected\nreadyz check failed\n";
        assert_eq!(page("/readyz", "verbose"), Some((500, why.into())));
        let (code, text) = page("/readyz", "exclude=provider&exclude=nope&verbose=1").unwrap_or_default();
        assert!(code == 200 && text.contains("excluded: ok") && text.contains("none named [\"nope\"]"), "{text}");
        assert_eq!(page("/readyz", "exclude=provider"), Some((200, "ok".into())));
        assert_eq!(page("/healthz", "verbose"), Some((200, "[+]ping ok\nhealthz check passed\n".into())));
        assert_eq!(page("/readyz/ping", ""), Some((200, "ok".into())));
        assert_eq!(page("/readyz/nope", ""), None);
        assert_eq!(page("/else", ""), None);
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error_that_names_the_flag() {
        assert!(Endpoint::bind("--x", "0").await.unwrap().is_none());
        let first = Endpoint::bind("--x", "127.0.0.1:0").await.unwrap().unwrap();
        let taken = first.address().to_string();
        let error = Endpoint::bind("--metrics-bind-address", &taken).await.unwrap_err().to_string();
        assert!(error.contains(&format!("--metrics-bind-address={taken}")) && error.contains("in use"), "{error}");
        let wrong = Endpoint::bind("--x", "localhost").await.unwrap_err().to_string();
        assert_eq!(wrong, "cannot use --x=localhost: not an address; write HOST:PORT, :PORT, or 0 to turn it off");
    }

    #[tokio::test]
    async fn metrics_are_served_until_cancelled() {
        let endpoint = Endpoint::bind("--x", "127.0.0.1:0").await.unwrap().unwrap();
        let (address, cancel) = (endpoint.address(), CancellationToken::new());
        let client = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            cancel.cancel();
            text
        };
        let ((), text) = tokio::join!(endpoint.serve(Metrics::new(), cancel.clone()), client);
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains("# EOF"), "{text}");
    }
}
