//! Metrics, probes and other pages over HTTP.

mod certificate;
mod patient;
mod probes;
mod secure;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
pub use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

pub use certificate::CertificateFiles;
use patient::Patient;
pub use probes::Probes;
use secure::Secured;
pub use secure::Security;

use crate::client::Client;
use crate::metrics::{Metrics, exposition};
use crate::tasks::TaskGroup;

/// How long a client may take to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long writing an answer may take. A scraper gives up sooner; who does not read at all must not keep others out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections at a time; a scraper needs one or two.
const MAX_CONNECTIONS: usize = 100;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

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
        let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let Some((host, port)) = parts else {
            return Err(ServeError::Address { flag: flag.to_owned(), address: address.to_owned() });
        };
        let fail = |source| ServeError::Bind { flag: flag.to_owned(), address: address.to_owned(), source };
        let bound = if host.is_empty() { everywhere(port).await } else { TcpListener::bind(address).await };
        let listener = bound.map_err(fail)?;
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
        let watching = async {
            match &self.secured {
                Some(secured) => secured.watch().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(watching);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(_) = connections.join_next() => {}
                () = &mut watching => {}
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

/// What somebody asks an endpoint for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit<'a> {
    /// The path, with its first slash.
    pub path: &'a str,
    /// What follows the question mark.
    pub query: &'a str,
    /// Which formats they understand, as the `Accept` header says it.
    pub accept: &'a str,
}

impl<'a> Visit<'a> {
    /// A path, and nothing besides.
    #[must_use]
    pub fn to(path: &'a str) -> Self {
        Self { path, ..Self::default() }
    }

    /// The same with a query: `verbose`, `name=value`, several of them with `&` between.
    #[must_use]
    pub fn asking(self, query: &'a str) -> Self {
        Self { query, ..self }
    }

    /// The values of a parameter of the query.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        let pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.filter_map(move |(known, value)| (known == name).then_some(value))
    }
}

/// What an endpoint shows.
pub trait Pages: Send + Sync + 'static {
    /// The page at a path; `None` if there is none.
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>>;
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The HTTP code.
    pub code: u16,
    /// The content type.
    pub kind: &'static str,
    /// The content.
    pub body: Bytes,
}

impl Page {
    /// Plain text.
    #[must_use]
    pub fn text(code: u16, text: impl Into<String>) -> Self {
        Self { code, kind: "text/plain; charset=utf-8", body: text.into().into() }
    }

    /// What it says, where it is text.
    #[must_use]
    pub fn words(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// Pages of one's own, each at its path. Cheap to clone; they come and go at any time.
#[derive(Clone, Default)]
pub(crate) struct Shelf(Arc<Mutex<BTreeMap<String, Arc<dyn Pages>>>>);

impl Shelf {
    pub(crate) fn put(&self, path: &str, pages: impl Pages) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::new(pages));
    }

    /// The pages at a path, or above it.
    fn find(&self, path: &str) -> Option<Arc<dyn Pages>> {
        let shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let above = |known: &String| {
            path.strip_prefix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        shelf.iter().rev().find(|(known, _)| above(known)).map(|(_, pages)| Arc::clone(pages))
    }
}

/// Pages, and a shelf of others beside them.
pub(crate) struct Beside<P>(pub(crate) P, pub(crate) Shelf);

impl<P: Pages> Pages for Beside<P> {
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
        Box::pin(async move {
            match self.0.page(visit).await {
                Some(page) => Some(page),
                None => self.1.find(visit.path)?.page(visit).await,
            }
        })
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({}{})", self.address, if self.secured.is_some() { ", secured" } else { "" })
    }
}

/// Listens on all interfaces, those with IPv4 and those with IPv6 alike, as Go does; where IPv6 cannot be had, for whatever
/// reason, on the others.
async fn everywhere(port: u16) -> io::Result<TcpListener> {
    let both = || {
        let socket = TcpSocket::new_v6()?;
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
        socket.listen(BACKLOG)
    };
    match both() {
        // Somebody else has the port; that they have it with one family only is no reason to share it.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        Ok(listener) => Ok(listener),
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
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let visit = Visit { path: uri.path(), query: uri.query().unwrap_or_default(), accept };
            let page = match refused {
                Some(page) => Some(page),
                None => pages.page(visit).await,
            };
            Ok::<_, Infallible>(respond(page.unwrap_or_else(|| Page::text(404, "404 page not found\n"))))
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = http.serve_connection(TokioIo::new(Patient::new(stream)), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        () = cancel.cancelled() => connection.as_mut().graceful_shutdown(),
        // A scraper that goes away is no news.
        _ = connection.as_mut() => return,
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
}

fn respond(page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.body));
    *response.status_mut() = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
    // What we show is told by people and peers: nobody should find a page of HTML in it.
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `/metrics`: for those who understand it as Prometheus's protobuf, which alone has native histograms; else as text.
impl Pages for Metrics {
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
        let show = || match exposition::wants_protobuf(visit.accept) {
            true => Page { code: 200, kind: exposition::PROTOBUF, body: self.protobuf().into() },
            false => Page { code: 200, kind: exposition::TEXT, body: self.text().into() },
        };
        Box::pin(std::future::ready((visit.path == "/metrics").then(show)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    async fn a_port_alone_is_reached_by_both_families() {
        let endpoint = Endpoint::bind("--x", ":0").await.unwrap().unwrap();
        let port = endpoint.address().port();
        for host in ["127.0.0.1", "::1"] {
            let reached = TcpStream::connect((host, port)).await;
            // Some machines have no IPv6 at all.
            let has_none = host == "::1" && TcpListener::bind("[::1]:0").await.is_err();
            assert!(reached.is_ok() || has_none, "{host}: {reached:?}");
        }
        let error = Endpoint::bind("--x", &format!(":{port}")).await.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
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

    /// A page that fits into no buffer.
    struct Long;

    impl Pages for Long {
        fn page<'a>(&'a self, _: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
            Box::pin(std::future::ready(Some(Page::text(200, "x".repeat(1 << 20)))))
        }
    }

    /// How long a peer is served that takes so long for each KiB of that page, and how many bytes it gets.
    async fn served(pause: Duration) -> (Duration, usize) {
        let (mut peer, ours) = tokio::io::duplex(1024);
        peer.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let began = tokio::time::Instant::now();
        let answers = async {
            let answered = answer(ours, None, Arc::new(Long), CancellationToken::new());
            tokio::time::timeout(Duration::from_secs(3600), answered).await.expect("it comes to an end");
            began.elapsed()
        };
        let reads = async {
            let (mut got, mut buffer) = (0, [0; 1024]);
            loop {
                tokio::time::sleep(pause).await;
                match peer.read(&mut buffer).await {
                    Ok(read @ 1..) => got += read,
                    Ok(0) | Err(_) => return got,
                }
            }
        };
        tokio::join!(answers, reads)
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_too_long_to_read_an_answer_is_left() {
        let (took, got) = served(Duration::from_millis(10)).await;
        assert!(took < ANSWER_TIMEOUT && got > 1 << 20, "{got} bytes in {took:?}");
        for pause in [Duration::from_secs(1), Duration::from_secs(600)] {
            let (took, got) = served(pause).await;
            assert!(took == ANSWER_TIMEOUT && got < 1 << 16, "{got} bytes in {took:?}");
        }
    }
}
