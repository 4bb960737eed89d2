//! From requests to answers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::site::{Collection, Site};
use crate::runtime::objects::{Encoding, Forms, Kind, Version};

/// So many objects are encoded at a time: 160 KB of Pods.
const BATCH: usize = 16;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Answers one request.
pub(super) async fn answer(site: Arc<Site>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let query: HashMap<String, String> = request.uri().query().map(parse).unwrap_or_default();
    let (collection_path, name) = split(&path);
    let Some(collection) = site.collection(&collection_path) else {
        return Ok(
            discover(&site, &path).map_or_else(|| status(StatusCode::NOT_FOUND, &not_found(&path)), |v| text(&v))
        );
    };
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protobuf =
        accept.contains("application/vnd.kubernetes.protobuf") && collection.forms(Encoding::Protobuf).is_some();
    let encoding = if protobuf { Encoding::Protobuf } else { Encoding::Json };
    Ok(match (request.method(), name) {
        (&Method::GET, Some(name)) => single(&collection, encoding, &name),
        (&Method::GET, None) if query.get("watch").is_some_and(|on| on == "true" || on == "1") => {
            watch(&site, collection, encoding, &query)
        }
        (&Method::GET, None) => list(&site, &collection, encoding, &query),
        (_, name) => {
            let _ = request.into_body().collect().await; // its content changes nothing: what is echoed is the object
            write(&site, &collection, encoding, name.as_deref())
        }
    })
}

/// The path of the collection, and the name of an object if one is asked for. Namespaces are passed over: there is one.
fn split(path: &str) -> (String, Option<String>) {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    if let Some(at) = parts.iter().position(|part| *part == "namespaces")
        && parts.len() > at + 2
    {
        parts.drain(at..at + 2);
    }
    let plural = if parts.first() == Some(&"api") { 2 } else { 3 };
    let name = parts.get(plural + 1).map(|name| (*name).to_owned());
    parts.truncate(plural + 1);
    (format!("/{}", parts.join("/")), name)
}

fn parse(query: &str) -> HashMap<String, String> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    query.split('&').filter_map(pair).collect()
}

fn single(collection: &Collection, encoding: Encoding, name: &str) -> Response<Body> {
    let (Some(version), Some(forms)) = (collection.find(name), collection.forms(encoding)) else {
        return status(StatusCode::NOT_FOUND, &not_found(name));
    };
    let mut out = Vec::new();
    forms.single.render(&version, &mut out);
    typed(encoding, false).body(full(out)).expect("a plain response")
}

/// Any write to an object makes a new version of it.
fn write(site: &Site, collection: &Collection, encoding: Encoding, name: Option<&str>) -> Response<Body> {
    let Some(version) = name.and_then(|name| collection.find(name)) else {
        return status(StatusCode::METHOD_NOT_ALLOWED, &json!({ "kind": "Status", "code": 405 }).to_string());
    };
    collection.change(version.number as usize, site.next_revision(), true);
    single(collection, encoding, name.unwrap_or_default())
}

fn list(
    site: &Arc<Site>,
    collection: &Arc<Collection>,
    encoding: Encoding,
    query: &HashMap<String, String>,
) -> Response<Body> {
    site.lists.fetch_add(1, Ordering::Relaxed);
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let (from, total) = (number("continue").unwrap_or(0), collection.len());
    let to = number("limit").filter(|limit| *limit > 0).map_or(total, |limit| total.min(from + limit));
    let next = (to < total).then(|| (to.to_string(), total - to));
    let last = next.is_none();
    let Some(forms) = collection.forms(encoding) else { return status(StatusCode::NOT_ACCEPTABLE, "{}") };
    let head = forms.list_head(site.revision(), to - from, next);
    let (joint, end) = forms.list_joints();
    let items = in_batches(
        Arc::clone(collection),
        from..to,
        move |forms, at, version, out| {
            if at > from {
                out.extend_from_slice(joint);
            }
            forms.item.render(version, out);
        },
        encoding,
    );
    let end = ending(site, last, Bytes::from_static(end));
    let whole = stream::iter([Bytes::from(head)]).chain(items).chain(end);
    typed(encoding, false).body(streamed(whole)).expect("a plain response")
}

/// The objects of a range, encoded when they are asked for.
fn in_batches(
    collection: Arc<Collection>,
    range: std::ops::Range<usize>,
    render: impl Fn(&Forms, usize, &Version, &mut Vec<u8>) + Send + 'static,
    encoding: Encoding,
) -> impl Stream<Item = Bytes> + Send {
    stream::iter(range.clone().step_by(BATCH)).map(move |at| {
        let objects = collection.objects(at..range.end.min(at + BATCH));
        let mut out = Vec::new();
        if let Some(forms) = collection.forms(encoding) {
            objects.iter().enumerate().for_each(|(offset, version)| render(forms, at + offset, version, &mut out));
        }
        Bytes::from(out)
    })
}

fn watch(
    site: &Arc<Site>,
    collection: Arc<Collection>,
    encoding: Encoding,
    query: &HashMap<String, String>,
) -> Response<Body> {
    site.watches.fetch_add(1, Ordering::Relaxed);
    let response = typed(encoding, true);
    let after = query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok()).filter(|after| *after > 0);
    if query.get("sendInitialEvents").is_some_and(|on| on == "true") {
        return response.body(streamed(initial(site, collection, encoding))).expect("a plain response");
    }
    if after.is_some_and(|after| !collection.is_known(after)) {
        // The real server says so in the stream; kube-rs asks again for ever where a watch is refused instead.
        let end = collection.forms(encoding).map(Forms::expired).unwrap_or_default();
        return response.body(full(end)).expect("a plain response");
    }
    let (missed, receiver) = collection.join(encoding, after);
    let mut first = Vec::new();
    if let Some(forms) = collection.forms(encoding) {
        missed.iter().for_each(|version| forms.modified.render(version, &mut first));
    }
    let whole = stream::iter((!first.is_empty()).then(|| Bytes::from(first))).chain(live(receiver));
    response.body(streamed(whole)).expect("a plain response")
}

/// All objects as frames, the bookmark that ends them, then what happens.
fn initial(
    site: &Arc<Site>,
    collection: Arc<Collection>,
    encoding: Encoding,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let (_, receiver) = collection.join(encoding, None);
    let range = 0..collection.len();
    let render = |forms: &Forms, _, version: &Version, out: &mut Vec<u8>| forms.added.render(version, out);
    let objects = in_batches(Arc::clone(&collection), range, render, encoding);
    let bookmark = collection.forms(encoding).map(|forms| forms.bookmark(site.revision(), true)).unwrap_or_default();
    objects.chain(ending(site, true, Bytes::from(bookmark))).chain(live(receiver))
}

/// The last bytes of a list; when they are asked for, the list has been sent.
fn ending(site: &Arc<Site>, complete: bool, bytes: Bytes) -> impl Stream<Item = Bytes> + Send + use<> {
    let site = Arc::clone(site);
    stream::once(async move {
        site.complete.fetch_add(usize::from(complete), Ordering::Relaxed);
        bytes
    })
}

fn live(receiver: UnboundedReceiver<Bytes>) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

fn streamed(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    BodyExt::boxed_unsync(StreamBody::new(stream.map(|bytes| Ok(Frame::data(bytes)))))
}

fn full(bytes: impl Into<Bytes>) -> Body {
    BodyExt::boxed_unsync(Full::new(bytes.into()))
}

fn typed(encoding: Encoding, watch: bool) -> http::response::Builder {
    let kind = match (encoding, watch) {
        (Encoding::Json, _) => "application/json",
        (Encoding::Protobuf, false) => "application/vnd.kubernetes.protobuf",
        (Encoding::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
    };
    Response::builder().header(CONTENT_TYPE, kind)
}

fn text(value: &Value) -> Response<Body> {
    typed(Encoding::Json, false).body(full(value.to_string())).expect("a plain response")
}

fn status(code: StatusCode, body: &str) -> Response<Body> {
    typed(Encoding::Json, false).status(code).body(full(body.to_owned())).expect("a plain response")
}

fn not_found(what: &str) -> String {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": format!("{what} not found") })
    .to_string()
}

/// The classic discovery documents: everybody understands them.
fn discover(site: &Site, path: &str) -> Option<Value> {
    const GROUP: &str = "bench.concert.dev";
    let version = json!({ "groupVersion": format!("{GROUP}/v1"), "version": "v1" });
    let group = json!({ "name": GROUP, "versions": [version], "preferredVersion": version });
    let resources = |custom: bool| -> Vec<Value> {
        let is_custom = |kind: &Kind| matches!(kind, Kind::Custom(_)) == custom;
        site.kinds().into_iter().filter(is_custom).map(resource).collect()
    };
    Some(match path.trim_end_matches('/') {
        "/version" => json!({ "major": "1", "minor": "37", "gitVersion": "v1.37.0" }),
        "/api" => json!({ "kind": "APIVersions", "versions": ["v1"] }),
        "/apis" => json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group] }),
        "/apis/bench.concert.dev" => {
            json!({ "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version })
        }
        "/api/v1" => json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": resources(false) }),
        "/apis/bench.concert.dev/v1" => {
            json!({ "kind": "APIResourceList", "groupVersion": "bench.concert.dev/v1", "resources": resources(true) })
        }
        _ => return None,
    })
}

fn resource(kind: Kind) -> Value {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let (name, singular) = (kind.plural(), kind.name().to_lowercase());
    json!({ "name": name, "singularName": singular, "namespaced": true, "kind": kind.name(), "verbs": verbs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_collection_and_an_object() {
        let check = |path: &str, collection: &str, name: Option<&str>| {
            assert_eq!(split(path), (collection.to_owned(), name.map(str::to_owned)), "{path}");
        };
        check("/api/v1/pods", "/api/v1/pods", None);
        check("/api/v1/namespaces/shop/pods/pod-1", "/api/v1/pods", Some("pod-1"));
        check("/apis/g/v1/namespaces/shop/kinds/item-1/status", "/apis/g/v1/kinds", Some("item-1"));
        check("/apis/g/v1/kinds", "/apis/g/v1/kinds", None);
    }
}
