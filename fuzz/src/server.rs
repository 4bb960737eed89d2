//! The API server of an input: in this process, with real requests, and forgotten after it.

use std::fmt;

use bytes::Bytes;
use concert_apiserver::Server;
use concert_world::World;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::kinds::{Kind, thing_definition};

/// How much longer an answer may be than all that was sent: three bytes are an empty container, of which the real server
/// has three things to say, each twice.
const GROWTH: usize = 256;
/// What an answer may have beyond that: words, defaults.
const ROOM: usize = 64 << 10;
/// How much of a body is shown.
const SHOWN: usize = 400;
/// What all warnings of an answer may have together: the real server has 4096 characters of them, and one more warning.
const WARNINGS: usize = 4 * (4096 + 256) + 64 * 32;

thread_local! {
    static PREPARED: Prepared = Prepared::new();
}

/// A server that knows Things, and what runs it.
struct Prepared {
    runtime: Runtime,
    server: Server,
}

impl Prepared {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime needs no more than memory");
        let server = runtime.block_on(Server::in_memory(World::simulated(1)));
        let prepared = Self { runtime, server };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = thing_definition().to_string();
        let answer = prepared.answer(&prepared.server, &Call::post(definitions, JSON, definition.as_bytes()));
        assert_eq!(answer.code, 201, "{}", answer.text());
        prepared
    }

    fn answer(&self, server: &Server, call: &Call<'_>) -> Answer {
        let request = Request::builder().method(&call.method).uri(&call.path);
        let request = request.header("content-type", call.media).header("accept", call.accept);
        let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(call.body))) else { return Answer::unsent() };
        self.runtime.block_on(async {
            let response = server.answer(request).await;
            let code = response.status().as_u16();
            let warnings = response.headers().get_all("warning").iter().map(http::HeaderValue::len).sum();
            let Ok(body) = response.into_body().collect().await;
            Answer { code, warnings, body: body.to_bytes() }
        })
    }
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";

/// A request.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    method: Method,
    path: String,
    media: &'a str,
    accept: &'a str,
    body: &'a [u8],
}

/// As much of it as anybody reads.
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.body[..self.body.len().min(SHOWN)].escape_ascii();
        write!(f, "{} {} {}: {shown}", self.method, self.path, self.media)
    }
}

impl<'a> Call<'a> {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned(), media: JSON, accept: JSON, body: b"" }
    }

    pub(crate) fn post(path: &str, media: &'a str, body: &'a [u8]) -> Self {
        Self { method: Method::POST, media, body, ..Self::get(path) }
    }

    pub(crate) fn put(path: &str, media: &'a str, body: &'a [u8]) -> Self {
        Self { method: Method::PUT, media, body, ..Self::get(path) }
    }

    pub(crate) fn patch(path: &str, media: &'a str, body: &'a [u8]) -> Self {
        Self { method: Method::PATCH, media, body, ..Self::get(path) }
    }

    pub(crate) fn accepting(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }
}

/// What was answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// Bytes of all warnings.
    warnings: usize,
    pub(crate) body: Bytes,
}

impl Answer {
    /// To what is no request.
    fn unsent() -> Self {
        Self { code: 400, warnings: 0, body: Bytes::new() }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }
}

/// A server of its own for one input.
pub(crate) struct Api {
    server: Server,
    /// Bytes that were sent to it.
    sent: usize,
}

impl Api {
    pub(crate) fn new() -> Self {
        PREPARED.with(|prepared| {
            // Who looked after the last server learns that it is gone.
            prepared.runtime.block_on(async {
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            });
            Self { server: prepared.server.fork(World::simulated(2)), sent: 0 }
        })
    }

    /// Sends a request; whatever it is, the answer is one, and not too long.
    pub(crate) fn send(&mut self, call: &Call<'_>) -> Answer {
        self.sent += call.path.len() + call.body.len();
        let answer = PREPARED.with(|prepared| prepared.answer(&self.server, call));
        let most = GROWTH * self.sent + ROOM;
        let length = answer.body.len();
        assert!(length <= most, "{length} bytes are answered to {} that were sent: {call}", self.sent);
        assert!(answer.warnings <= WARNINGS, "{} bytes of warnings: {call}", answer.warnings);
        assert!((200..600).contains(&answer.code), "{}: {call}", answer.code);
        assert!(!answer.text().contains("yaml: cannot be read"), "the reader of YAML panicked: {call}");
        answer
    }

    /// Creates an object; gives its path.
    pub(crate) fn create(&mut self, kind: &Kind, media: &str, query: &str, body: &[u8]) -> Option<String> {
        let answer = self.send(&Call::post(&format!("{}{query}", kind.path()), media, body));
        if !answer.is_success() {
            return None;
        }
        let answer = answer.json();
        let name = answer["metadata"]["name"].as_str()?;
        Some(format!("{}/{}", kind.path(), segment(name)))
    }

    /// What was stored is written again: nothing changes, in JSON and in YAML.
    pub(crate) fn check_stable(&mut self, path: &str) {
        for media in [JSON, YAML] {
            let (before, after) = self.rewrite(path, media);
            assert_eq!((after.code, after.text()), (200, before.text()), "{path} in {media}");
        }
    }

    /// Writes what was stored again; gives it as it was, and the answer.
    pub(crate) fn rewrite(&mut self, path: &str, media: &str) -> (Answer, Answer) {
        let before = self.send(&Call::get(path).accepting(media));
        assert_eq!(before.code, 200, "{}", before.text());
        let after = self.send(&Call::put(path, media, &before.body).accepting(media));
        (before, after)
    }
}

/// A name as it stands in a path.
fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
