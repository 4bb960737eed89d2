//! A profile of a running process, from its admin page.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use concert_apiserver::Server;
use concert_runtime::{Client, Manager, ManagerSettings, Stop};
use concert_world::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[inline(never)]
fn grinds_without_end(over: &AtomicBool) {
    let mut sum = 0_u64;
    while !over.load(Ordering::Relaxed) {
        for number in 0..1000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
}

async fn page(address: &str, path: &str) -> (u16, Vec<u8>) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let code = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (code, answer[head + 4..].to_vec())
}

fn has(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_says_what_a_process_does() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let settings = ManagerSettings { admin: Some(("--admin".into(), address.clone())), ..ManagerSettings::new("m") };
    let server = Server::in_memory(World::simulated(0)).await;
    let manager = Manager::new(Client::in_process(server, World::real()), settings);
    let over = Arc::new(AtomicBool::new(false));
    let grinding = Arc::clone(&over);
    let grinder =
        std::thread::Builder::new().name("grinder".into()).spawn(move || grinds_without_end(&grinding)).unwrap();
    let (hold, stop) = (manager.clone(), Stop::default());
    let drain = stop.drain.clone();
    let story = async {
        hold.elected().await;
        assert_eq!(page(&address, "/debug/pprof/").await.0, 200);
        for wrong in ["seconds=0", "seconds=301", "seconds=soon"] {
            let (code, why) = page(&address, &format!("/debug/pprof/profile?{wrong}")).await;
            assert!(code == 400 && has(&why, "from 1 to 300"), "{wrong}: {code}");
        }
        let (one, other) = tokio::join!(
            page(&address, "/debug/pprof/profile?seconds=1&format=folded"),
            page(&address, "/debug/pprof/profile?seconds=1&format=folded"),
        );
        let mut codes = [one.0, other.0];
        codes.sort_unstable();
        assert_eq!(codes, [200, 409], "one at a time");
        let text = String::from_utf8(if one.0 == 200 { one.1 } else { other.1 }).unwrap();
        let line = text.lines().find(|line| line.starts_with("grinder;") && line.contains("grinds_without_end"));
        assert!(line.is_some_and(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap() > 0), "{text}");
        let (code, profile) = page(&address, "/debug/pprof/profile?seconds=1").await;
        assert!(code == 200 && has(&profile, "grinds_without_end") && has(&profile, "nanoseconds"));
        over.store(true, Ordering::Relaxed);
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
    grinder.join().unwrap();
}
