//! A cache and its handler on a server whose every answer may fail, break off anywhere, fall silent or be 410.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use concert_runtime::{Cache, Change, Client, Informers, Verb};
use concert_world::World;
use futures::{FutureExt, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::maps;

/// How an answer ends that does not arrive whole.
#[derive(Clone, Copy, Debug)]
enum End {
    Ends,
    Breaks,
    Silence,
    /// 410 as an event of the stream.
    Gone,
}

/// What a server does with one question.
#[derive(Clone, Debug)]
enum Turn {
    Fine,
    /// Another code, and how long it would like to be left alone.
    Refuses(u16, u64),
    /// The answer is cut after this share of its bytes (of 255), however that cuts a frame.
    Cuts(u8, End),
}

/// What happens around one question: what is written before, whether the history is forgotten, and what becomes of it.
#[derive(Clone, Debug)]
struct Weather {
    writes: Vec<(u8, bool)>,
    forgets: bool,
    turn: Turn,
}

/// At each revision one key was written or deleted. What is to come is taken from the front.
#[derive(Debug, Default)]
struct Model {
    knows_lists: bool,
    log: Vec<(u8, bool)>,
    forgotten: usize,
    weather: VecDeque<Weather>,
    asked: usize,
}

impl Model {
    fn write(&mut self, writes: &[(u8, bool)]) {
        for &(key, delete) in writes {
            if !delete || self.state(self.log.len()).contains_key(&key) {
                self.log.push((key, delete));
            }
        }
    }

    fn state(&self, at: usize) -> BTreeMap<u8, usize> {
        let mut state = BTreeMap::new();
        for (revision, (key, delete)) in (1..).zip(&self.log[..at]) {
            if *delete {
                state.remove(key)
            } else {
                state.insert(*key, revision)
            };
        }
        state
    }
}

fn object(key: u8, revision: usize) -> Value {
    json!({ "metadata": { "namespace": "default", "name": format!("k{key}"), "resourceVersion": revision.to_string() } })
}

fn frame(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

fn refusal(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message })
}

type Answer = Response<StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>>;

/// An answer of so many bytes, and what comes after them.
fn answer(code: u16, text: String, end: End) -> Answer {
    let data = stream::once(async move { Ok(Frame::data(Bytes::from(text))) });
    let rest = match end {
        End::Ends | End::Gone => stream::empty().boxed(),
        End::Breaks => stream::once(async { Err(std::io::Error::other("cut")) }).boxed(),
        End::Silence => std::future::pending().into_stream().boxed(),
    };
    let mut answer = Response::new(StreamBody::new(data.chain(rest).boxed()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

/// What the server says if nothing comes in between; `None` where it refuses.
fn says(model: &Model, query: &str) -> Result<(String, End), (u16, &'static str)> {
    let now = model.log.len();
    let asked = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let added = |state: BTreeMap<u8, usize>| state.into_iter().map(|(key, at)| frame("ADDED", &object(key, at)));
    let mark = |end: bool| {
        let annotations = if end { json!({ "k8s.io/initial-events-end": "true" }) } else { json!({}) };
        let metadata = json!({ "resourceVersion": now.to_string(), "annotations": annotations });
        frame("BOOKMARK", &json!({ "metadata": metadata }))
    };
    if asked("sendInitialEvents").is_some() {
        if !model.knows_lists {
            return Err((422, "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch"));
        }
        return Ok((added(model.state(now)).collect::<String>() + &mark(true), End::Silence));
    }
    if asked("watch").is_some() {
        let from: usize = asked("resourceVersion").unwrap().parse().unwrap();
        if from < model.forgotten {
            return Err((410, "too old resource version"));
        }
        let event = |(revision, &(key, deleted)): (usize, &(u8, bool))| {
            frame(if deleted { "DELETED" } else { "MODIFIED" }, &object(key, revision))
        };
        let events: String = (from + 1..).zip(&model.log[from..]).map(event).collect();
        return Ok((events + &mark(false), End::Silence));
    }
    let (start, at) = asked("continue")
        .and_then(|token| token.split_once('.'))
        .map_or((0, now), |(start, at)| (start.parse().unwrap(), at.parse().unwrap()));
    if at < model.forgotten {
        return Err((410, "the continue token is too old"));
    }
    let state = model.state(at);
    let items: Vec<Value> = state.iter().skip(start).take(2).map(|(key, at)| object(*key, *at)).collect();
    let next = if start + 2 < state.len() { format!("{}.{at}", start + 2) } else { String::new() };
    let metadata = json!({ "resourceVersion": at.to_string(), "continue": next });
    Ok((json!({ "metadata": metadata, "items": items }).to_string(), End::Ends))
}

fn respond(model: &Mutex<Model>, query: &str) -> Answer {
    let mut model = model.lock().unwrap();
    model.asked += 1;
    let weather = model.weather.pop_front();
    let Weather { writes, forgets, turn } =
        weather.unwrap_or(Weather { writes: vec![], forgets: false, turn: Turn::Fine });
    // What is written while a stream is read is told like what was written before: half of each.
    let (before, during) = writes.split_at(writes.len() / 2);
    model.write(before);
    if forgets {
        model.forgotten = model.log.len();
    }
    model.write(during);
    let (text, end) = match says(&model, query) {
        Ok(says) => says,
        Err((code, why)) => return answer(code, refusal(code, why).to_string(), End::Ends),
    };
    match turn {
        Turn::Fine => answer(200, text, end),
        Turn::Refuses(code, after) => {
            let mut refused = answer(code, refusal(code, "not now").to_string(), End::Ends);
            refused.headers_mut().insert("retry-after", after.into());
            refused
        }
        Turn::Cuts(share, end) => {
            let mut text = text;
            text.truncate(text.len() * usize::from(share) / 255);
            if matches!(end, End::Gone) {
                text = format!("{text}\n{}", frame("ERROR", &refusal(410, "too old resource version")));
            }
            answer(200, text, end)
        }
    }
}

/// What a handler of a cache makes of its changes.
fn follow(cache: &Cache) -> (concert_runtime::cache::Subscription, Arc<Mutex<BTreeMap<String, String>>>) {
    let known = Arc::new(Mutex::new(BTreeMap::new()));
    let told = Arc::clone(&known);
    let subscription = cache.subscribe(move |change: &Change| {
        let mut known = told.lock().unwrap();
        let before = match &change.new {
            Some(new) => known.insert(change.key.name.to_string(), new.resource_version().into_owned()),
            None => known.remove(&*change.key.name),
        };
        // A panic of a handler is caught: what is wrong is kept for all to see.
        if before.is_some() != (change.verb() != Verb::Created) {
            known.insert(format!("{:?} of {} by mistake", change.verb(), change.key), String::new());
        }
    });
    (subscription, known)
}

fn weathers() -> impl Strategy<Value = Vec<Weather>> {
    let writes = prop::collection::vec((0..5u8, prop::bool::weighted(0.4)), 0..5);
    let end = prop_oneof![Just(End::Ends), Just(End::Breaks), Just(End::Silence), Just(End::Gone)];
    let codes = prop_oneof![Just(404u16), Just(410), Just(429), Just(500), Just(503), Just(504)];
    let turn = prop_oneof![
        2 => Just(Turn::Fine),
        2 => (codes, 0..20u64).prop_map(|(code, after)| Turn::Refuses(code, after)),
        4 => (any::<u8>(), end).prop_map(|(share, end)| Turn::Cuts(share, end)),
    ];
    let weather =
        (writes, prop::bool::weighted(0.2), turn).prop_map(|(writes, forgets, turn)| Weather { writes, forgets, turn });
    prop::collection::vec(weather, 0..20)
}

/// The cache and its handler end with what the server has, and the server was asked for what was needed.
async fn weathers_it(knows_lists: bool, weather: Vec<Weather>) {
    let turns = weather.len();
    let model = Arc::new(Mutex::new(Model { knows_lists, weather: weather.into(), ..Model::default() }));
    let serving = Arc::clone(&model);
    let serve = tower::service_fn(move |request: Request<Body>| {
        let answer = respond(&serving, request.uri().query().unwrap_or_default());
        async move { Ok::<_, Infallible>(answer) }
    });
    let informers = Informers::new(Client::in_process(serve, World::simulated(1)));
    let cache = informers.cache(maps());
    let (_subscription, told) = follow(&cache);
    let (mut settled, mut tries) = (false, 0);
    while !settled {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let model = model.lock().unwrap();
        let state = model.state(model.log.len());
        let named: BTreeMap<_, _> = state.iter().map(|(key, at)| (format!("k{key}"), at.to_string())).collect();
        let listed = cache.list();
        let known = listed.iter().map(|object| (object.name().into_owned(), object.resource_version().into_owned()));
        let told = told.lock().unwrap().clone();
        settled = model.weather.is_empty() && known.collect::<BTreeMap<_, _>>() == named && told == named;
        settled &= cache.state().revision == model.log.len() as u64 && cache.state().trouble.is_none();
        tries += 1;
        assert!(tries < 20 * (turns + 5), "told {told:?}, {cache:?}, {:?}, the server has {named:?}", cache.state());
    }
    let asked = model.lock().unwrap().asked;
    // Reads are tried a few times before they count as failed; a list takes three pages at most, twice.
    assert!(asked <= turns * 2 + 12, "{asked} questions for {turns} turns");
    informers.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_the_weather_a_cache_and_its_handlers_end_with_what_the_server_has(
        knows_lists in any::<bool>(), weather in weathers(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(weathers_it(knows_lists, weather));
    }
}
