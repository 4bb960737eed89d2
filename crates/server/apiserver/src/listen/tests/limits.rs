//! Each limit just below and just above its default number.

use super::frames::*;
use super::*;
use http_body_util::Full;

const MOMENT: Duration = Duration::from_millis(10);

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_ten_seconds() {
    let plane = Plane::new().await;
    let slow = plane.wire().await;
    tokio::time::sleep(Duration::from_secs(10) - MOMENT).await;
    assert_eq!(Http(plane.tls(slow).await.unwrap()).ask(&plane.get("/version", "")).await, 200);
    let began = Instant::now();
    let mut silent = plane.wire().await;
    assert_eq!(rest(&mut silent).await, "");
    assert!((10.0..10.01).contains(&seconds(began)), "{}", seconds(began));
}

#[tokio::test(start_paused = true)]
async fn headers_have_thirty_seconds() {
    let plane = Plane::new().await;
    let request = plane.get("/version", "");
    let (first, second) = request.split_at(20);
    let mut slow = plane.connect().await;
    slow.send(first).await;
    tokio::time::sleep(Duration::from_secs(30) - MOMENT).await;
    assert_eq!(slow.ask(second).await, 200);
    let began = Instant::now();
    let mut half = plane.connect().await;
    half.send(first).await;
    half.rest().await;
    assert!((30.0..30.01).contains(&seconds(began)), "{}", seconds(began));
    // The next request of a connection must come as soon.
    slow.rest().await;
    assert!((30.0..30.02).contains(&seconds(began)), "{}", seconds(began));
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_idle_for_two_minutes() {
    let plane = Plane::new().await;
    let began = Instant::now();
    let mut silent = plane.connect().await;
    let mut frames = Frames::new(&plane).await;
    assert_eq!(frames.goaway().await, Some(NO_ERROR));
    assert!((120.0..120.01).contains(&seconds(began)), "{}", seconds(began));
    silent.rest().await;
    assert!((120.0..120.01).contains(&seconds(began)), "{}", seconds(began));
    // One who asks just before begins anew.
    let began = Instant::now();
    let mut frames = Frames::new(&plane).await;
    let asked = tokio::time::timeout(Duration::from_secs(120) - MOMENT, frames.goaway()).await;
    assert!(asked.is_err());
    frames.get(&plane, 1, "/version").await;
    assert_eq!(frames.is_ok(1).await, Some(true));
    assert_eq!(frames.goaway().await, Some(NO_ERROR));
    assert!((239.9..240.0).contains(&seconds(began)), "{}", seconds(began));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_not_there_is_noticed_within_a_minute() {
    let plane = Plane::new().await;
    let began = Instant::now();
    let mut frames = Frames::new(&plane).await;
    frames.alive = false;
    frames.get(&plane, 1, WATCH).await;
    while frames.next().await.is_some() {}
    assert!((60.0..60.01).contains(&seconds(began)), "{}", seconds(began));
}

/// A watch is not idle, but gets old; who does not go when told to is cut five minutes later.
#[tokio::test(start_paused = true)]
async fn a_connection_lives_for_half_an_hour_give_or_take_a_tenth() {
    let plane = Plane::new().await;
    let mut ages = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let mut frames = Frames::new(&plane).await;
        frames.get(&plane, 1, WATCH).await;
        assert_eq!(frames.goaway().await, Some(NO_ERROR));
        ages.push(began.elapsed().as_secs());
        while frames.next().await.is_some() {}
        assert_eq!(began.elapsed().as_secs() - ages[ages.len() - 1], 5 * 60);
    }
    assert!(ages.iter().all(|age| (27 * 60..33 * 60).contains(age)), "{ages:?}");
    ages.dedup();
    assert_eq!(ages.len(), 5, "not all at once: {ages:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_may_stand_still_for_a_minute() {
    let plane = Plane::new().await;
    for name in ["a", "b"] {
        let body = format!("{{\"metadata\":{{\"name\":\"{name}\"}},\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(100_000));
        let request = http::Request::post("/api/v1/namespaces/default/configmaps");
        let made = plane.server.answer(request.body(Full::<bytes::Bytes>::from(body)).unwrap()).await;
        assert_eq!(made.status(), 201);
    }
    // The window is never opened again, though pings are answered.
    let began = Instant::now();
    let mut frames = Frames::new(&plane).await;
    frames.get(&plane, 1, "/api/v1/configmaps?watch=1").await;
    while frames.next().await.is_some() {}
    assert!((60.0..60.01).contains(&seconds(began)), "{}", seconds(began));
    // One who goes on reading just before is not cut.
    let mut slow = plane.connect().await;
    slow.send(&plane.get("/api/v1/configmaps?watch=1", "")).await;
    tokio::time::sleep(Duration::from_secs(60) - MOMENT).await;
    slow.until("\"name\":\"b\"").await;
    slow.until("}}\n\r\n").await;
    assert!(tokio::time::timeout(Duration::from_secs(300), slow.rest()).await.is_err(), "it waits for more");
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_request_have_sixteen_kibibytes() {
    const LIMIT: usize = 16 << 10;
    let plane = Plane::new().await;
    for (size, code) in [(LIMIT, 200), (LIMIT + 1, 431), (2 * LIMIT, 431)] {
        let fill = size - plane.get("/version", "x: \r\n").len();
        let request = plane.get("/version", &format!("x: {}\r\n", "a".repeat(fill)));
        assert_eq!(request.len(), size);
        assert_eq!(plane.connect().await.ask(&request).await, code, "{size} at once");
        // However it is cut.
        let (first, second) = request.split_at(10_000);
        let mut client = plane.connect().await;
        client.send(first).await;
        tokio::time::sleep(MOMENT).await;
        assert_eq!(client.ask(second).await, code, "{size} in two pieces");
    }
    // HTTP/2 counts 32 bytes more for each header.
    let all = [(":method", "GET"), (":scheme", "https"), (":path", "/version"), ("host", "x")];
    let counted: usize = all.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    let counted = counted + "authorization".len() + plane.token.len() + 32 + "x".len() + 32;
    for (size, good) in [(LIMIT - 1, Some(true)), (LIMIT, Some(false))] {
        let mut frames = Frames::new(&plane).await;
        let block = get(&plane.token, "/version", &[("x", &"a".repeat(size - counted))]);
        frames.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)).await;
        assert_eq!(frames.is_ok(1).await, good, "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_a_thousand_streams() {
    let plane = Plane::new().await;
    let mut frames = Frames::new(&plane).await;
    let settings = frames.first(SETTINGS).await.unwrap().payload;
    let setting = |id: u16| {
        let one = settings.chunks(6).find(|one| one[..2] == id.to_be_bytes());
        one.map(|one| u32::from_be_bytes(one[2..].try_into().unwrap()))
    };
    assert_eq!((setting(3), setting(6)), (Some(1000), Some(16 << 10)));
    for one in 0..1000 {
        frames.get(&plane, 2 * one + 1, WATCH).await;
    }
    for _ in 0..1000 {
        assert_eq!(frames.first(HEADERS).await.unwrap().payload[0], OK);
    }
    frames.get(&plane, 2001, WATCH).await;
    let refused = frames.first(RST_STREAM).await.unwrap();
    assert_eq!((refused.stream, refused.payload[3]), (2001, REFUSED_STREAM));
    // One that is given up makes room.
    frames.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).await;
    frames.get(&plane, 2003, WATCH).await;
    assert_eq!(frames.is_ok(2003).await, Some(true));
    plane.is_well().await;
}

/// Asked and taken back at once, again and again.
#[tokio::test(start_paused = true)]
async fn twenty_requests_may_be_taken_back_before_they_are_looked_at() {
    let plane = Plane::new().await;
    for (count, good) in [(20, true), (21, false)] {
        let mut frames = Frames::new(&plane).await;
        frames.first(SETTINGS).await.unwrap();
        let request = get(&plane.token, "/version", &[]);
        let flood = (0..count).flat_map(|one| {
            let asked = frame(HEADERS, END_STREAM | END_HEADERS, 2 * one + 1, &request);
            [asked, frame(RST_STREAM, 0, 2 * one + 1, &[0, 0, 0, 8])].concat()
        });
        let flood: Vec<u8> = flood.collect();
        frames.send(&flood).await;
        if good {
            frames.get(&plane, 2 * count + 1, "/version").await;
            assert_eq!(frames.is_ok(2 * count + 1).await, Some(true), "{count}");
        } else {
            assert_eq!(frames.goaway().await, Some(ENHANCE_YOUR_CALM), "{count}");
        }
    }
    plane.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_and_24_wrong_requests_are_refused_and_then_the_connection_ends() {
    let plane = Plane::new().await;
    let mut frames = Frames::new(&plane).await;
    // A window larger than there can be.
    let mut refused = 0;
    loop {
        let stream = 2 * refused + 1;
        frames.get(&plane, stream, WATCH).await;
        frames.send(&frame(WINDOW_UPDATE, 0, stream, &u32::to_be_bytes(u32::MAX >> 1))).await;
        match frames.next_of(&[RST_STREAM, GOAWAY]).await.expect("one of them") {
            Frame { kind: RST_STREAM, stream: found, .. } => assert_eq!(found, stream),
            Frame { payload, .. } => break assert_eq!(payload[7], ENHANCE_YOUR_CALM),
        }
        refused += 1;
    }
    assert_eq!(refused, 1024);
    plane.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn headers_come_in_five_pieces_more_at_most() {
    let plane = Plane::new().await;
    for (pieces, good) in [(5, true), (6, false), (1000, false)] {
        let mut frames = Frames::new(&plane).await;
        frames.send(&frame(HEADERS, END_STREAM, 1, &get(&plane.token, "/version", &[]))).await;
        for _ in 0..pieces {
            frames.send(&frame(CONTINUATION, 0, 1, b"\x10\x01x\x01a")).await;
        }
        frames.send(&frame(CONTINUATION, END_HEADERS, 1, b"")).await;
        if good {
            assert_eq!(frames.is_ok(1).await, Some(true), "{pieces}");
        } else {
            assert_eq!(frames.goaway().await, Some(ENHANCE_YOUR_CALM), "{pieces}");
        }
    }
    plane.is_well().await;
}

/// A request can be refused before its body has come. The next one on the same connection must not meet a closed door:
/// either the body is passed over, or the answer says that the connection ends.
#[tokio::test(start_paused = true)]
async fn a_refused_request_does_not_take_the_next_one_with_it() {
    let plane = Plane::new().await;
    let refused = |token: &str, length: usize| {
        let path = "/api/v1/namespaces/default/configmaps?dryRun=nonsense";
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: {length}\r\n\r\n")
    };
    let mut client = plane.connect().await;
    client.send(&refused(&plane.token, 4 << 20)).await;
    tokio::time::sleep(Duration::from_secs(30) - MOMENT).await;
    assert_eq!(client.ask(&"x".repeat(4 << 20)).await, 422);
    assert_eq!(client.ask(&plane.get("/version", "")).await, 200);
    // Too much, or too slow.
    for (length, sent) in [((4 << 20) + 1, (4 << 20) + 1), (1, 0)] {
        let mut client = plane.connect().await;
        client.send(&refused(&plane.token, length)).await;
        client.send(&"x".repeat(sent)).await;
        assert!(client.rest().await.contains("\r\nconnection: close\r\n"), "{length}");
    }
    // Of somebody unknown little is passed over, and for a second only.
    let mut stranger = plane.connect().await;
    assert_eq!(stranger.ask(&(refused("Bearer wrong", 16 << 10) + &"x".repeat(16 << 10))).await, 401);
    assert_eq!(stranger.ask(&plane.get("/version", "")).await, 200);
    for (length, sent, time) in [((16 << 10) + 1, (16 << 10) + 1, 0), (1, 0, 1)] {
        let mut stranger = plane.connect().await;
        let began = Instant::now();
        stranger.send(&(refused("Bearer wrong", length) + &"x".repeat(sent))).await;
        assert!(stranger.rest().await.contains("\r\nconnection: close\r\n"), "{length}");
        assert_eq!(began.elapsed(), Duration::from_secs(time));
    }
}
