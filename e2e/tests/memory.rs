//! What large requests may cost the server: a bounded amount of memory, and nobody else's time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concert_e2e::{ControlPlane, Request, Stopwatch, eventually, on_embedded_only};
use serde_json::{Map, Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Two megabytes of them: 75 MiB while the server works on them.
const FIELDS: usize = 150_000;
const AT_ONCE: usize = 30;
/// Mebibytes that thirty of them at once may cost: 92 to 135 were seen, and without a bound 1,400 to 1,600.
const MOST: u64 = 192;
const SOON: Duration = Duration::from_secs(30);

/// Mebibytes that it has in memory, and had at most.
fn memory(server: &ControlPlane) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().expect("it runs"))).expect("a status");
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("its memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number") / 1024
    };
    (number("VmRSS:"), number("VmHWM:"))
}

fn tried(fields: usize) -> Request {
    let data: Map<String, Value> = (0..fields).map(|field| (format!("k{field}"), "".into())).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    Request {
        method: "POST".into(),
        path: format!("{CONFIG_MAPS}?dryRun=All"),
        headers: vec![("content-type".into(), "application/json".into())],
        body: object.to_string().into_bytes(),
    }
}

/// Sends a request until it is done, as clients do that are told to come again; gives how often they were.
fn insist(server: &ControlPlane, request: &Request) -> usize {
    let api = server.api();
    let mut refused = 0;
    eventually("a large request is answered", 10 * SOON, || {
        let answer = api.connect().and_then(|mut connection| connection.exchange(request));
        let answer = answer.map_err(|error| error.to_string())?;
        let after = answer.headers.iter().find(|(name, _)| name == "retry-after").map(|(_, value)| value.as_str());
        match (answer.code, after) {
            (201, _) => Ok(refused),
            (429, Some("1")) => {
                refused += 1;
                Err("too many")
            }
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)])),
        }
        .map_err(str::to_owned)
    })
}

fn large_requests_take_turns(server: &ControlPlane) {
    let (large, small) = (tried(FIELDS), tried(3));
    insist(server, &small);
    let (idle, _) = memory(server);
    let over = AtomicBool::new(false);
    let (refused, slowest) = std::thread::scope(|scope| {
        let large = &large;
        let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(move || insist(server, large))).collect();
        let honest = scope.spawn(|| {
            let mut connection = server.api().connect().expect("a connection");
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let one = Stopwatch::start();
                assert_eq!(connection.exchange(&small).expect("an answer").code, 201, "a small one is not refused");
                slowest = slowest.max(one.elapsed());
            }
            slowest
        });
        let refused: usize = all.into_iter().map(|one| one.join().expect("it is answered")).sum();
        over.store(true, Ordering::Relaxed);
        (refused, honest.join().expect("small ones are answered"))
    });
    let (left, most) = memory(server);
    println!(
        "{AT_ONCE} large ones: at most {} MiB, {} left, {refused} told to come again; a small one waited {slowest:?}",
        most - idle,
        left.saturating_sub(idle),
    );
    assert!(most - idle <= MOST, "{} MiB, where one takes 75", most - idle);
    assert!(slowest < Duration::from_secs(2), "a small one waited {slowest:?}");
}

on_embedded_only!(large_requests_take_turns);
