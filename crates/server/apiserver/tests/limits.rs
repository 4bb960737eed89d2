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
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/probe.test/v1/namespaces/default/things";
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
async fn bodies_are_a_hundred_levels_deep_at_most() {
    let server = server().await;
    for (depth, code) in [(99, 201), (100, 400), (1_000_000, 400)] {
        // The object itself is the first level.
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!("{{\"metadata\":{{\"name\":\"deep-{depth}\"}},\"x\":{deep}}}");
        assert_eq!(send(&server, "POST", MAPS, "application/json", body.clone()).await.0, code, "{depth}");
        let body = body.replace("deep-", "yaml-");
        assert_eq!(send(&server, "POST", MAPS, "application/yaml", body).await.0, code, "{depth}");
    }
    let deep = format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(200), "}".repeat(200));
    let path = format!("{MAPS}/deep-99");
    assert_eq!(send(&server, "PATCH", &path, "application/merge-patch+json", deep).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn defaults_have_three_mebibytes_at_most() {
    let server = server().await;
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(1021)}}});
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}});
    let mut definition = definition("a");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    assert_eq!(send(&server, "POST", DEFINITIONS, "application/json", definition.to_string()).await.0, 201);
    for (items, code) in [(3 * 1024, 201), (3 * 1024 + 1, 413)] {
        let mut body = map(&format!("d{items}"));
        body["apiVersion"] = "probe.test/v1".into();
        body["kind"] = "Thing".into();
        body["l"] = vec![json!({}); items].into();
        assert_eq!(send(&server, "POST", THINGS, "application/json", body.to_string()).await.0, code, "{items}");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_have_ten_thousand_operations_and_copy_three_mebibytes_at_most() {
    let server = server().await;
    let mut object = map("a");
    // A text has its quotes, too.
    object["data"] = json!({"k": "x".repeat((512 << 10) - 2), "l": "x".repeat((512 << 10) - 1)});
    assert_eq!(send(&server, "POST", MAPS, "application/json", object.to_string()).await.0, 201);
    let path = format!("{MAPS}/a");
    let tests = |count: usize| Value::Array(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); count]);
    // What is too large afterwards is no matter of this limit: the copies go again.
    let copies = |last: &str| -> Value {
        let copy = |from: &str| json!({"op": "copy", "from": from, "path": "/data/copy"});
        let mut all = vec![copy("/data/k"); 5];
        all.extend([copy(last), json!({"op": "remove", "path": "/data/copy"})]);
        all.into()
    };
    for (patch, good) in
        [(tests(10_000), true), (tests(10_001), false), (copies("/data/k"), true), (copies("/data/l"), false)]
    {
        let count = patch.as_array().unwrap().len();
        let (code, answer) = send(&server, "PATCH", &path, "application/json-patch+json", patch.to_string()).await;
        assert_eq!(code == 200, good, "{count}: {code} {}", answer["message"]);
        assert!(good || code == 413 || code == 422 || code == 400, "{code}");
    }
}

/// With one worker, whoever comes after a long request would wait for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_waits_for_the_long_work_of_another() {
    let server = server().await;
    let mut definition = definition("a");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(send(&server, "POST", DEFINITIONS, "application/json", definition.to_string()).await.0, 201);
    let mut thing = map("long");
    thing["apiVersion"] = "probe.test/v1".into();
    thing["kind"] = "Thing".into();
    thing["l"] = vec![0; 4000].into();
    assert_eq!(send(&server, "POST", THINGS, "application/json", thing.to_string()).await.0, 201);

    let patch = Value::Array(vec![json!({"op": "move", "from": "/l/0", "path": "/l/1"}); 10_000]).to_string();
    let (one, other) = (server.clone(), server.clone());
    let path = format!("{THINGS}/long");
    let long = tokio::spawn(async move { send(&one, "PATCH", &path, "application/json-patch+json", patch).await.0 });
    let short = tokio::spawn(async move { send(&other, "GET", MAPS, "", "").await.0 });
    assert_eq!(short.await.unwrap(), 200);
    assert!(!long.is_finished(), "the short one came later, and was not answered later");
    assert_eq!(long.await.unwrap(), 422, "the items are moved too often");
}

/// Bodies are taken as they are: what is compressed is no JSON.
#[tokio::test(start_paused = true)]
async fn compressed_bodies_are_not_unpacked() {
    let server = server().await;
    // `{"metadata":{"name":"a"}}`, with gzip.
    let packed = base64_of("H4sIAAAAAAACA6tWyk0tSUxJLElUsqpWykvMTVWyUkpUqq0FAEzsD9gZAAAA");
    for (body, code) in [(&packed[..], 400), (&b"{\"metadata\":{\"name\":\"a\"}}"[..], 201)] {
        let request = Request::post(MAPS).header("content-type", "application/json").header("content-encoding", "gzip");
        let response = server.answer(request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()).await;
        assert_eq!(response.status(), code);
    }
}

fn base64_of(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
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
    for huge in ["(a{1000}){1000}", "((a{100}){100}){100}", "x{2,99999}"] {
        let (code, answer) = send(&server, "POST", DEFINITIONS, "application/json", definition(huge).to_string()).await;
        assert_eq!(code, 422, "{huge}: {answer}");
    }
    let made = send(&server, "POST", DEFINITIONS, "application/json", definition("^(a+)+$").to_string()).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let things = THINGS;
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
async fn patterns_have_64_kibibytes_at_most() {
    let server = server().await;
    for (size, code) in [((64 << 10) + 1, 422), (64 << 10, 201)] {
        // Comes to little once compiled.
        let pattern = format!("[{}]", "a".repeat(size - 2));
        let (found, answer) =
            send(&server, "POST", DEFINITIONS, "application/json", definition(&pattern).to_string()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(found, code, "{size}: {}", &message[message.len().saturating_sub(200)..]);
    }
}

/// What a watcher has been given and not yet sent is all that is held for it.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_behind_is_given_64_kibibytes_and_one_event_at_a_time() {
    let server = server().await;
    let request = Request::get(format!("{MAPS}?watch=1")).body(Full::<Bytes>::default()).unwrap();
    let mut watch = server.answer(request).await.into_body();
    for one in 0..100 {
        let mut object = map(&format!("m{one}"));
        object["data"] = json!({"k": "x".repeat(30_000)});
        assert_eq!(send(&server, "POST", MAPS, "application/json", object.to_string()).await.0, 201);
    }
    let (mut bytes, mut events) = (0, 0);
    while events < 100 {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.len() < (64 << 10) + 31_000, "{}", frame.len());
        bytes += frame.len();
        events += frame.iter().filter(|byte| **byte == b'\n').count();
    }
    assert!(events == 100 && bytes > 3_000_000);
}

/// 253 for a name, 63 for the value of a label and for the second part of its key.
#[tokio::test(start_paused = true)]
async fn names_have_253_characters_and_labels_63() {
    let server = server().await;
    let object = |name: usize, key: usize, value: usize| {
        let mut object = map(&"n".repeat(name));
        object["metadata"]["labels"] = json!({"k".repeat(key): "v".repeat(value)});
        object
    };
    for (made, code) in [
        (object(253, 63, 63), 201),
        (object(254, 63, 63), 422),
        (object(1, 64, 63), 422),
        (object(1, 63, 64), 422),
        (object(1, 63, 63), 201),
    ] {
        let (found, answer) = send(&server, "POST", MAPS, "application/json", made.to_string()).await;
        assert_eq!(found, code, "{}", answer["message"]);
    }
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
