//! Who has not shown who they are keeps nobody out.

use super::*;

const PLACES: usize = 1000;

#[tokio::test(start_paused = true)]
async fn strangers_who_have_all_places_keep_nobody_out() {
    let plane = Plane::new().await;
    let mut known = plane.connect().await;
    assert_eq!(known.ask(&plane.get("/version", "")).await, 200);
    // Some say nothing, some shake hands and say nothing, some ask without a token.
    let mut first = plane.wire().await;
    let mut asking = plane.connect().await;
    assert_eq!(asking.ask("GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await, 401);
    let mut strangers = Vec::new();
    for one in 3..PLACES {
        let wire = plane.wire().await;
        strangers.push(if one % 100 == 0 { Ok(plane.tls(wire).await.unwrap()) } else { Err(wire) });
    }
    // The last place is still free for the first stranger.
    assert!(tokio::time::timeout(Duration::from_millis(1), rest(&mut first)).await.is_err());
    plane.is_well().await;
    let began = Instant::now();
    assert_eq!(rest(&mut first).await, "", "it leaves");
    assert_eq!(began.elapsed(), Duration::ZERO);
    // Who had asked without a token leaves next, and so on; who is known stays.
    for _ in 0..2 * PLACES {
        strangers.push(Err(plane.wire().await));
    }
    plane.is_well().await;
    assert_eq!(asking.rest().await, "");
    assert_eq!(known.ask(&plane.get("/version", "")).await, 200);
    assert!(began.elapsed() < Duration::from_secs(1));
}
