//! A profile of the memory of a running process, from its admin page. The allocator reads its settings when a process
//! starts, so the process is another one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::hint::black_box;
use std::io::{Read, Write};

use concert_apiserver::Server;
use concert_runtime::{Client, Manager, ManagerSettings, Stop};
use concert_world::World;

#[global_allocator]
static ALLOCATOR: concert_runtime::Jemalloc = concert_runtime::Jemalloc;

/// What is in the environment of a process that is to show its memory, and says what it has to show.
const EXPECTED: &str = "CONCERT_TEST_HEAP";

#[inline(never)]
fn hoards() -> Vec<Vec<u8>> {
    (0..64).map(|_| black_box(vec![1; 1 << 20])).collect()
}

fn page(address: &str) -> (u16, Vec<u8>) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /debug/pprof/heap HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[9..12]).parse().unwrap(), answer[head + 4..].to_vec())
}

/// The sum of the second number of each sample, by the names of fields in pprof's format.
fn bytes_held(profile: &[u8]) -> i64 {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(profile).read_to_end(&mut plain).unwrap();
    let profile = <Profile as prost::Message>::decode(&*plain).unwrap();
    profile.sample.iter().filter_map(|sample| sample.value.first()).sum()
}

#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

async fn shows(expected: &str) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let settings = ManagerSettings { admin: Some(("--admin".into(), address.clone())), ..ManagerSettings::new("m") };
    let server = Server::in_memory(World::simulated(0)).await;
    let manager = Manager::new(Client::in_process(server, World::real()), settings);
    let (hold, stop) = (manager.clone(), Stop::default());
    let drain = stop.drain.clone();
    let hoard = hoards();
    let story = async {
        hold.elected().await;
        let (done, answer) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(page(&address)));
        let (code, body) = answer.await.unwrap();
        match expected {
            "profile" => {
                let held = bytes_held(&body);
                assert!(code == 200 && held > 48 << 20 && held < 96 << 20, "{code}: {held} bytes");
            }
            refusal => {
                let why = String::from_utf8(body).unwrap();
                assert!(code == 501 && why.contains(refusal), "{code}: {why}");
            }
        }
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
    drop(hoard);
}

#[test]
fn what_holds_memory_is_shown_if_it_is_noted() {
    if let Ok(expected) = std::env::var(EXPECTED) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(shows(&expected));
    }
    for (settings, expected) in [("prof:true", "profile"), ("prof:false", "_RJEM_MALLOC_CONF=prof:true")] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_holds_memory_is_shown_if_it_is_noted", "--nocapture"])
            .env("_RJEM_MALLOC_CONF", settings)
            .env(EXPECTED, expected)
            .output()
            .unwrap();
        assert!(output.status.success(), "{settings}: {output:?}");
    }
}
