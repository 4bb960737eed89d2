//! What a body may be: each limit just below and just above, in process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use concert_apiserver::Server;
use concert_world::World;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BODY: usize = 3 << 20;

async fn server() -> Server {
    Server::in_memory(World::simulated(1)).await
}

async fn send(server: &Server, method: &str, path: &str, media: &str, body: impl Into<Bytes>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = server.answer(request.body(Full::new(body.into())).unwrap()).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// A body that comes in pieces, and counts what was taken of it.
struct Pieces {
    left: usize,
    taken: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let size = self.left.min(64 << 10);
        self.left -= size;
        self.taken.fetch_add(size, std::sync::atomic::Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; size])))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_cut_at_three_mebibytes_while_it_comes() {
    let server = server().await;
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for (size, code) in [(BODY, 400), (BODY + 1, 413), (100 * BODY, 413)] {
        taken.store(0, std::sync::atomic::Ordering::Relaxed);
        let body = Pieces { left: size, taken: taken.clone() };
        let request = Request::post(MAPS).header("content-type", "application/json").body(body).unwrap();
        assert_eq!(server.answer(request).await.status(), code, "{size}");
        assert!(taken.load(std::sync::atomic::Ordering::Relaxed) <= BODY + (64 << 10), "no more is read than needed");
    }
}

/// A body that never comes.
struct Never;

impl http_body::Body for Never {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let server = server().await;
    let began = tokio::time::Instant::now();
    let request = Request::post(MAPS).header("content-type", "application/json").body(Never).unwrap();
    assert_eq!(server.answer(request).await.status(), 504);
    assert_eq!(began.elapsed().as_secs(), Duration::from_secs(60).as_secs());
}

#[tokio::test(start_paused = true)]
async fn json_is_127_levels_deep_at_most() {
    let server = server().await;
    for (depth, code) in [(126, 201), (127, 400), (1_000_000, 400)] {
        // The object itself is the first level.
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!("{{\"metadata\":{{\"name\":\"deep-{depth}\"}},\"x\":{deep}}}");
        assert_eq!(send(&server, "POST", MAPS, "application/json", body).await.0, code, "{depth}");
    }
    let deep = format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(200), "}".repeat(200));
    let path = format!("{MAPS}/deep-126");
    assert_eq!(send(&server, "PATCH", &path, "application/merge-patch+json", deep).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn patches_have_ten_thousand_operations_and_copy_three_mebibytes_at_most() {
    let server = server().await;
    let mut object = map("a");
    object["data"] = json!({"k": "x".repeat(1 << 20 >> 1)});
    assert_eq!(send(&server, "POST", MAPS, "application/json", object.to_string()).await.0, 201);
    let path = format!("{MAPS}/a");
    let tests = |count: usize| Value::Array(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); count]);
    let copies = |count: usize| -> Value {
        (0..count).map(|_| json!({"op": "copy", "from": "/data/k", "path": "/data/copy"})).collect()
    };
    for (patch, good) in [(tests(10_000), true), (tests(10_001), false), (copies(1), true), (copies(7), false)] {
        let count = patch.as_array().unwrap().len();
        let (code, answer) = send(&server, "PATCH", &path, "application/json-patch+json", patch.to_string()).await;
        assert_eq!(code == 200, good, "{count}: {answer}");
        assert!(good || code == 413 || code == 422 || code == 400, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_have_256_kibibytes_at_most() {
    let server = server().await;
    for (size, code) in [((256 << 10) - 1, 201), ((256 << 10), 422)] {
        let mut object = map(&format!("a{size}"));
        // The key counts, too.
        object["metadata"]["annotations"] = json!({"a": "x".repeat(size)});
        let (found, answer) = send(&server, "POST", MAPS, "application/json", object.to_string()).await;
        assert_eq!(found, code, "{size}: {}", answer["message"]);
    }
}

fn definition(pattern: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.probe.test"},
        "spec": {
            "group": "probe.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"text": {"type": "string", "pattern": pattern}},
            }}}],
        },
    })
}

/// Patterns and texts that make backtracking engines stand still.
#[tokio::test(start_paused = true)]
async fn evil_patterns_cost_no_more_than_others() {
    let server = server().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for huge in ["(a{1000}){1000}", "((a{100}){100}){100}", "x{2,99999}"] {
        let (code, answer) = send(&server, "POST", definitions, "application/json", definition(huge).to_string()).await;
        assert_eq!(code, 422, "{huge}: {answer}");
    }
    let made = send(&server, "POST", definitions, "application/json", definition("^(a+)+$").to_string()).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let things = "/apis/probe.test/v1/namespaces/default/things";
    let thing = json!({
        "apiVersion": "probe.test/v1", "kind": "Thing", "metadata": {"name": "a"},
        "text": format!("{}!", "a".repeat(1 << 20)),
    });
    #[expect(clippy::disallowed_methods, reason = "the time that the machine takes is what is tested")]
    let began = std::time::Instant::now();
    assert_eq!(send(&server, "POST", things, "application/json", thing.to_string()).await.0, 422);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_idle_watches_hold_up_nobody() {
    let server = server().await;
    let mut watches = Vec::new();
    for _ in 0..2000 {
        let request = Request::get(format!("{MAPS}?watch=1")).body(Full::<Bytes>::default()).unwrap();
        watches.push(server.answer(request).await.into_body());
    }
    assert_eq!(send(&server, "POST", MAPS, "application/json", map("a").to_string()).await.0, 201);
    for watch in &mut watches {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(b"{\"type\":\"ADDED\""));
    }
}
