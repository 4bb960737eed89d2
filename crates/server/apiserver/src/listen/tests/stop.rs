//! The graceful stop.

use super::frames::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn watches_of_http_1_end_with_the_last_chunk() {
    let plane = Plane::new().await;
    let mut watch = plane.connect().await;
    watch.send(&plane.get(WATCH, "")).await;
    let head = watch.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
    watch.until("\"kube-system\"").await;
    plane.stop.cancel();
    let began = Instant::now();
    let rest = watch.rest().await;
    assert!(rest.ends_with("}\n\r\n0\r\n\r\n"), "{rest}");
    plane.serving.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn watches_of_http_2_end_and_the_peer_is_told_to_go() {
    let plane = Plane::new().await;
    let mut frames = Frames::new(&plane).await;
    let streams: Vec<u32> = (0..500).map(|one| 2 * one + 1).collect();
    for stream in &streams {
        frames.get(&plane, *stream, WATCH).await;
    }
    let mut answered = 0;
    while answered < streams.len() {
        assert_eq!(frames.first(HEADERS).await.unwrap().payload[0], OK);
        answered += 1;
        // Make room for what comes.
        frames.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes())).await;
    }
    plane.stop.cancel();
    let began = Instant::now();
    let (mut goaway, mut ended) = (None, Vec::new());
    while let Some(frame) = frames.next().await {
        match frame.kind {
            GOAWAY => goaway = Some(frame.payload[7]),
            DATA if frame.flags & END_STREAM != 0 => ended.push(frame.stream),
            RST_STREAM => panic!("stream {} is cut", frame.stream),
            _ => {}
        }
    }
    ended.sort_unstable();
    assert_eq!((goaway, ended), (Some(NO_ERROR), streams));
    plane.serving.await.unwrap();
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn requests_under_way_are_answered_and_then_nobody_is() {
    let plane = Plane::new().await;
    let body = "{\"metadata\":{\"name\":\"late\"}}";
    let (first, second) = body.split_at(10);
    let mut under_way = plane.connect().await;
    let head = plane.get("/api/v1/namespaces/default/configmaps", &format!("content-length: {}\r\n", body.len()));
    under_way.send(&format!("{}{first}", head.replacen("GET", "POST", 1))).await;
    let mut idle = plane.connect().await;
    assert_eq!(idle.ask(&plane.get("/version", "")).await, 200);
    plane.stop.cancel();
    assert_eq!(idle.rest().await, "", "nothing is asked");
    tokio::time::sleep(GRACE - Duration::from_millis(1)).await;
    assert_eq!(under_way.ask(second).await, 201);
    assert_eq!(under_way.rest().await, "");
    plane.serving.await.unwrap();
    assert!(plane.wires.send(tokio::io::duplex(1).0).await.is_err(), "nobody listens");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_cut_after_five_seconds() {
    let plane = Plane::new().await;
    let mut stuck = plane.connect().await;
    let head = plane.get("/api/v1/namespaces/default/configmaps", "content-length: 10\r\n");
    stuck.send(&head.replacen("GET", "POST", 1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    plane.stop.cancel();
    let began = Instant::now();
    plane.serving.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(stuck.rest().await, "");
}
