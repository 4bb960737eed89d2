//! Large requests: few at a time, each user in turn, and nobody else waits for them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use concert_apiserver::{Admission, Limits, Review, Server, User, Verdict};
use concert_world::World;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MIB: usize = 1 << 20;
/// So many fields take more than a third of `WORK`, and less than half of it.
const FIELDS: usize = 10_000;
const WORK: usize = 12 * MIB;

/// A hook in which large objects stay until they may go on.
struct Hall {
    inside: AtomicUsize,
    most: AtomicUsize,
    doors: Semaphore,
}

impl Admission for Hall {
    fn validate<'a>(&'a self, _: &'a Review<'a>, object: &'a Value) -> Verdict<'a> {
        Box::pin(async move {
            if object["data"].as_object().is_some_and(|data| data.len() >= FIELDS) {
                let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(inside, Ordering::SeqCst);
                self.doors.acquire().await.unwrap().forget();
                self.inside.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(Vec::new())
        })
    }
}

struct House {
    server: Server,
    hall: Arc<Hall>,
}

type Sent = JoinHandle<(u16, Option<String>, Value)>;

impl House {
    async fn new(limits: Limits) -> Self {
        let doors = Semaphore::new(0);
        let hall = Arc::new(Hall { inside: AtomicUsize::new(0), most: AtomicUsize::new(0), doors });
        let server = Server::in_memory_admitting(World::simulated(1), vec![hall.clone()]).await;
        server.limit(limits);
        Self { server, hall }
    }

    fn send(&self, user: &User, method: &str, path: &str, media: &str, body: &Value) -> Sent {
        let request = request(user, method, path, media, Full::new(Bytes::from(body.to_string())));
        let server = self.server.clone();
        tokio::spawn(async move { read(server.answer(request).await).await })
    }

    fn create(&self, user: &User, name: &str, fields: usize) -> Sent {
        self.send(user, "POST", MAPS, "application/json", &map(name, fields))
    }

    /// How many are inside when nothing moves any more.
    async fn inside(&self) -> usize {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.hall.inside.load(Ordering::SeqCst)
    }
}

fn request<B>(user: &User, method: &str, path: &str, media: &str, body: B) -> Request<B> {
    let mut request = Request::builder().method(method).uri(path).header("content-type", media).body(body).unwrap();
    request.extensions_mut().insert(user.clone());
    request
}

async fn read(response: Response<concert_apiserver::Body>) -> (u16, Option<String>, Value) {
    let code = response.status().as_u16();
    let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, after, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn map(name: &str, fields: usize) -> Value {
    let data: Map<String, Value> = (0..fields).map(|field| (format!("k{field}"), "".into())).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn administrator() -> User {
    User::new("admin", &["system:masters"])
}

fn limits() -> Limits {
    Limits { work: WORK, ..Limits::default() }
}

#[tokio::test(start_paused = true)]
async fn two_of_many_large_requests_are_worked_on_and_small_ones_pass() {
    let house = House::new(limits()).await;
    let admin = administrator();
    let sent: Vec<Sent> = (0..6).map(|one| house.create(&admin, &format!("large-{one}"), FIELDS)).collect();
    assert_eq!(house.inside().await, 2);
    let (code, ..) = house.create(&admin, "small", 3).await.unwrap();
    assert_eq!(code, 201, "a small one does not wait");
    for left in (0..6).rev() {
        house.hall.doors.add_permits(1);
        assert_eq!(house.inside().await, left.min(2), "the next one follows");
    }
    for one in sent {
        assert_eq!(one.await.unwrap().0, 201);
    }
    assert_eq!(house.hall.most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_when_to_come_again() {
    let house = House::new(limits()).await;
    let admin = administrator();
    let held: Vec<Sent> = (0..2).map(|one| house.create(&admin, &format!("held-{one}"), FIELDS)).collect();
    assert_eq!(house.inside().await, 2);
    let began = tokio::time::Instant::now();
    let (code, after, status) = house.create(&admin, "late", FIELDS).await.unwrap();
    assert_eq!((code, after.as_deref()), (429, Some("1")));
    assert_eq!(status["reason"], "TooManyRequests", "{status}");
    assert_eq!(began.elapsed().as_secs(), 15);
    house.hall.doors.add_permits(2);
    for one in held {
        assert_eq!(one.await.unwrap().0, 201);
    }
    house.hall.doors.add_permits(1);
    assert_eq!(house.create(&admin, "late", FIELDS).await.unwrap().0, 201, "there is room again");
}

#[tokio::test(start_paused = true)]
async fn a_user_has_a_part_and_others_go_first() {
    let house = House::new(limits()).await;
    let (alice, bob) = (User::new("alice", &[]), User::new("bob", &[]));
    let mut sent: Vec<Sent> = (0..3).map(|one| house.create(&alice, &format!("alice-{one}"), FIELDS)).collect();
    assert_eq!(house.inside().await, 1, "half of the room is for others");
    sent.extend((0..3).map(|one| house.create(&bob, &format!("bob-{one}"), FIELDS)));
    assert_eq!(house.inside().await, 2, "of bob, who has nothing yet");
    house.hall.doors.add_permits(6);
    for one in sent {
        assert_eq!(one.await.unwrap().0, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_change_of_a_large_object_is_large() {
    let house = House::new(limits()).await;
    house.hall.doors.add_permits(1);
    let admin = administrator();
    assert_eq!(house.create(&admin, "stored", FIELDS).await.unwrap().0, 201);
    let path = format!("{MAPS}/stored");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let media = "application/merge-patch+json";
    let mut sent: Vec<Sent> = (0..4).map(|_| house.send(&admin, "PATCH", &path, media, &patch)).collect();
    assert!((1..=2).contains(&house.inside().await));
    house.hall.doors.add_permits(100);
    sent.push(house.send(&admin, "DELETE", &path, "", &json!({})));
    for one in sent {
        assert_eq!(one.await.unwrap().0, 200);
    }
    assert!(house.hall.most.load(Ordering::SeqCst) <= 2);
}

#[tokio::test(start_paused = true)]
async fn who_has_gone_leaves_the_line() {
    let house = House::new(limits()).await;
    let admin = administrator();
    let held: Vec<Sent> = (0..2).map(|one| house.create(&admin, &format!("held-{one}"), FIELDS)).collect();
    assert_eq!(house.inside().await, 2);
    let gone: Vec<Sent> = (0..3).map(|one| house.create(&admin, &format!("gone-{one}"), FIELDS)).collect();
    house.inside().await;
    gone.iter().chain(&held).for_each(JoinHandle::abort);
    house.inside().await;
    house.hall.inside.store(0, Ordering::SeqCst);
    let last = house.create(&admin, "last", FIELDS);
    assert_eq!(house.inside().await, 1);
    house.hall.doors.add_permits(1);
    assert_eq!(last.await.unwrap().0, 201);
}

/// A body that stops before its end, and tells how much of it was taken.
struct Half {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Pending;
        }
        let size = self.left.min(16 << 10);
        self.left -= size;
        self.taken.fetch_add(size, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; size])))))
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_come_slowly_wait_before_they_are_read() {
    let house = House::new(Limits { bodies: 6 * MIB, ..Limits::default() }).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let sent: Vec<Sent> = (0..10)
        .map(|_| {
            let body = Half { left: 2 * MIB, taken: Arc::clone(&taken) };
            let request = request(&administrator(), "POST", MAPS, "application/json", body);
            let server = house.server.clone();
            tokio::spawn(async move { read(server.answer(request).await).await })
        })
        .collect();
    let mut codes = Vec::new();
    for one in sent {
        codes.push(one.await.unwrap().0);
    }
    codes.sort_unstable();
    assert_eq!(codes, [429, 429, 429, 429, 429, 429, 429, 429, 504, 504]);
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken <= 2 * 2 * MIB + 8 * (80 << 10), "{taken}");
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_that_nobody_reads_keeps_its_room() {
    let house = House::new(Limits { bodies: 2 * MIB, ..Limits::default() }).await;
    let admin = administrator();
    let large = json!({"metadata": {"name": "a"}, "binaryData": {"a": "AAAA".repeat(256 << 10)}}).to_string();
    let send = || {
        let path = format!("{MAPS}?dryRun=All");
        let body = Full::new(Bytes::from(large.clone()));
        let request = request(&admin, "POST", &path, "application/json", body);
        let server = house.server.clone();
        async move { server.answer(request).await }
    };
    let (first, second) = (send().await, send().await);
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (201, 429));
    drop(first);
    let third = tokio::time::timeout(Duration::from_secs(1), send()).await.unwrap();
    assert_eq!(third.status(), 201);
}
