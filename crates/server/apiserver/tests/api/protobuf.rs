//! Answers in protobuf: the JSON answers, written so.

use bytes::Bytes;
use concert_schema::protobuf::{Encoder, ListEncoder, framed};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::face::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The type of an answer, and its body.
async fn ask(api: &Api, method: Method, path: &str, accept: &str) -> (String, Bytes) {
    let request = Request::builder().method(method).uri(path).header("accept", accept);
    let response = api.0.answer(request.body(Full::<Bytes>::default()).unwrap()).await;
    let media = response.headers()["content-type"].to_str().unwrap().to_owned();
    (media, response.into_body().collect().await.unwrap().to_bytes())
}

async fn get(api: &Api, path: &str, accept: &str) -> (String, Bytes) {
    ask(api, Method::GET, path, accept).await
}

/// A list as it is to be written.
fn listed(document: &Value, (api_version, kind): (&str, &str)) -> Vec<u8> {
    let encoder = Encoder::new(api_version, kind).unwrap();
    let mut items = Vec::new();
    for item in document["items"].as_array().unwrap() {
        encoder.item(item.to_string().as_bytes(), &mut items).unwrap();
    }
    let metadata = document["metadata"].to_string();
    let list = ListEncoder::new(api_version, &format!("{kind}List"), metadata.as_bytes()).unwrap();
    [list.before(items.len()), items, ListEncoder::behind().to_vec()].concat()
}

#[tokio::test(start_paused = true)]
async fn objects_documents_and_refusals_are_written_in_it() {
    let api = Api::with_files().await;
    api.post(MAPS, &map("a", "1")).await;
    for path in [
        &format!("{MAPS}/a"),
        &format!("{MAPS}/none"),
        "/api/v1/namespaces/default",
        "/api/v1/nothings",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        CRDS,
    ] {
        let (_, json) = get(&api, path, "application/json").await;
        let (media, body) = get(&api, path, PROTOBUF).await;
        assert_eq!(media, PROTOBUF, "{path}");
        let expected = match Encoder::for_document(&json) {
            Some(encoder) => encoder.object(&json).unwrap(),
            None => {
                let document = serde_json::from_slice(&json).unwrap();
                listed(&document, ("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
            }
        };
        assert!(body == expected, "{path}");
    }
    let (media, body) = ask(&api, Method::DELETE, &format!("{MAPS}/a"), PROTOBUF).await;
    assert!(media == PROTOBUF && body.windows(7).any(|word| word == b"Success"), "{media} {body:?}");
}

/// More than is kept: what was written to know its length is written again.
#[tokio::test(start_paused = true)]
async fn lists_are_written_in_it_however_long() {
    let api = Api::new().await;
    let big = "x".repeat(900_000);
    for n in 0..11 {
        assert_eq!(api.post(MAPS, &map(&format!("m{n:02}"), &big)).await.code, 201);
    }
    for query in ["?limit=1", "?limit=3", "", "?labelSelector=none"] {
        let path = format!("{MAPS}{query}");
        let (media, body) = get(&api, &path, "application/vnd.kubernetes.protobuf,application/json").await;
        let document = api.get(&path).await.body;
        assert_eq!(media, PROTOBUF);
        assert!(body == listed(&document, ("v1", "ConfigMap")), "{query}");
        let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let (_, body) = get(&api, &path, accept).await;
        assert!(body == listed(&document, ("meta.k8s.io/v1", "PartialObjectMetadata")), "{query}: metadata");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_frames() {
    let api = Api::new().await;
    let made = api.post(MAPS, &map("a", "1")).await.body;
    let from = made["metadata"]["resourceVersion"].as_str().unwrap();
    api.merge(&format!("{MAPS}/a"), json!({"data": {"k": "2"}})).await;
    api.delete(&format!("{MAPS}/a"), "").await;
    let path = format!("{MAPS}?resourceVersion={from}&");
    for (accept, kind) in [
        (PROTOBUF.to_owned(), "ConfigMap"),
        (format!("{PROTOBUF};stream=watch,application/json"), "ConfigMap"),
        (format!("{PROTOBUF};{METADATA}"), "PartialObjectMetadata"),
    ] {
        let (media, body) = get(&api, &format!("{path}watch=1&timeoutSeconds=1"), &accept).await;
        assert_eq!(media, "application/vnd.kubernetes.protobuf;stream=watch");
        let version = if kind == "ConfigMap" { "v1" } else { "meta.k8s.io/v1" };
        let encoder = Encoder::new(version, kind).unwrap();
        let frame = |event: &Value| {
            let object = encoder.object(event["object"].to_string().as_bytes()).unwrap();
            framed(event["type"].as_str().unwrap(), &object)
        };
        let events = api.watch(&path).await;
        assert_eq!(events.len(), 2);
        assert!(body == events.iter().flat_map(frame).collect::<Vec<u8>>(), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_none_is_json_or_refused() {
    let api = Api::with_files().await;
    api.post(FILES, &file("a")).await;
    let at = format!("{FILES}/a");
    for (path, accept, expected) in [
        (at.as_str(), "application/vnd.kubernetes.protobuf,application/json", "application/json"),
        (at.as_str(), "application/vnd.kubernetes.protobuf,application/yaml", "application/yaml"),
        (FILES, "application/vnd.kubernetes.protobuf,application/json", "application/json"),
        (at.as_str(), &format!("{PROTOBUF};{METADATA}"), PROTOBUF),
        // Refusals have some.
        (at.as_str(), PROTOBUF, PROTOBUF),
        ("/version", "application/vnd.kubernetes.protobuf,application/json", "application/json"),
        ("/version", PROTOBUF, PROTOBUF),
        ("/", PROTOBUF, "application/json"),
        (CRDS, "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json", "application/json"),
    ] {
        let (media, body) = get(&api, path, accept).await;
        assert_eq!(media, expected, "{path} {accept} {body:?}");
    }
}
