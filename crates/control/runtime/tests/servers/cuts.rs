//! Controllers behind a network that cuts, stalls and closes, while objects come, change and go.

use std::collections::BTreeMap;
use std::time::Duration;

use concert_e2e::{Api, ControlPlane, Dice, Reference, Request, environment, eventually, on_both_servers};
use serde_json::{Value, json};

use crate::network::Network;
use crate::{Running, SOON};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// An object that is always there: every list names it.
const ANCHOR: &str = "s-anchor";

/// Objects of the server, changed without passing the network, and what they should be.
struct Objects {
    api: Api,
    /// Name → data, or that it was there and is gone.
    expected: BTreeMap<String, Option<String>>,
    dice: Dice,
    writes: u32,
}

impl Objects {
    fn new(server: &ControlPlane) -> Self {
        let mut objects = Self { api: server.api(), expected: BTreeMap::new(), dice: Dice::new(7), writes: 0 };
        objects.put(ANCHOR.to_owned());
        objects
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) {
        let answer = eventually("the server answers", SOON, || self.api.request(method, path, body));
        assert!(answer.code < 300, "{method} {path}: {answer:?}");
    }

    fn put(&mut self, name: String) {
        self.writes += 1;
        let data = self.writes.to_string();
        let object = json!({ "metadata": { "name": name }, "data": { "a": data, "filler": "x".repeat(300) } });
        match self.expected.get(&name) {
            Some(Some(_)) => self.ask("PUT", &format!("{COLLECTION}/{name}"), Some(&object)),
            _ => self.ask("POST", COLLECTION, Some(&object)),
        }
        self.expected.insert(name, Some(data));
    }

    fn delete(&mut self, name: &str) {
        self.ask("DELETE", &format!("{COLLECTION}/{name}"), None);
        self.expected.insert(name.to_owned(), None);
    }

    /// So many writes and deletes of a handful of objects.
    fn stir(&mut self, times: usize) {
        for _ in 0..times {
            let name = format!("s-{}", self.dice.below(6));
            match self.expected.get(&name) {
                Some(Some(_)) if self.dice.one_in(2) => self.delete(&name),
                _ => self.put(name),
            }
        }
    }

    /// The controller was told the last state of every object, and its cache holds those that are there.
    fn are_seen_by(&self, running: &Running, allowed: Duration) {
        eventually("the controller has what the server has", allowed, || {
            let ours = |name: &str| name.starts_with("s-");
            let seen: BTreeMap<_, _> =
                running.maps.lock().unwrap().clone().into_iter().filter(|(name, _)| ours(name)).collect();
            let caches = running.manager.informers().caches();
            let cache = caches.iter().find(|cache| cache.scope().resource == crate::maps()).unwrap();
            let held: Vec<String> =
                cache.list().iter().map(|object| object.name().into_owned()).filter(|name| ours(name)).collect();
            let there: Vec<&String> =
                self.expected.iter().filter(|(_, data)| data.is_some()).map(|(name, _)| name).collect();
            // Who came and went unseen was never there.
            let told = |(name, data): (&String, &Option<String>)| seen.get(name).unwrap_or(&None) == data;
            if self.expected.iter().all(told) && held.iter().eq(there) {
                return Ok(());
            }
            Err(format!("seen {seen:?}, held {held:?}, expected {:?}, {:?}", self.expected, cache.state()))
        });
    }
}

/// How often all objects were listed, and how often they were watched.
fn asked(running: &Running) -> (usize, usize) {
    let lines = running.journal.lines();
    let lists = lines.iter().filter(|line| line.contains("LISTED") && line.contains(ANCHOR)).count();
    (lists, lines.iter().filter(|line| line.contains("WATCH") && line.contains(COLLECTION)).count())
}

/// Watches that are cut at any byte go on where they were: nothing is missed, nothing is listed again.
fn a_network_cuts(server: &ControlPlane) {
    let (network, mut objects) = (Network::before(server), Objects::new(server));
    let running = Running::start(network.kubeconfig().to_owned());
    objects.are_seen_by(&running, SOON);
    let lists = asked(&running).0;
    for round in 0..8 {
        let cuts = network.cuts();
        // In the middle of a frame, of a record of TLS, or of the handshake of the next connection.
        network.cut_after(usize::try_from(objects.dice.below(3000)).unwrap());
        eventually(&format!("cut {round}"), SOON, || {
            objects.stir(3);
            if network.cuts() > cuts { Ok(()) } else { Err("not cut yet") }
        });
        if round % 3 == 2 {
            objects.are_seen_by(&running, SOON);
        }
    }
    network.open();
    objects.are_seen_by(&running, SOON);
    let (again, watches) = asked(&running);
    assert_eq!(again, lists, "what was cut is not listed again");
    assert!(watches <= 1 + 8 * 5, "{watches} watches for 8 cuts");
}

/// A server that forgot its history while nobody got through (the real one, when it is restarted) answers 410; all deletes
/// are told all the same.
fn a_history_is_lost_again_and_again(server: &ControlPlane) {
    let (network, mut objects) = (Network::before(server), Objects::new(server));
    let running = Running::start(network.kubeconfig().to_owned());
    objects.stir(12);
    objects.are_seen_by(&running, SOON);
    let lists = asked(&running).0;
    for _ in 0..2 {
        network.close();
        objects.stir(12);
        server.restart();
        objects.stir(6);
        network.open();
        objects.are_seen_by(&running, SOON);
    }
    let again = asked(&running).0 - lists;
    // Ours keeps its history over a restart, and need not be listed again.
    let least = usize::from(server.is_reference());
    assert!((least..=4).contains(&again), "{again} lists for 2 lost histories");
}

/// How often a history is lost in a row.
const ROUNDS: usize = 3;

/// Nobody gets through until the server has forgotten what happened meanwhile, and it answers 410: again and again, without
/// being restarted. What vanished unseen is told, and nothing is listed more often than needed.
fn a_storm_of_410(server: &ControlPlane, make_it_forget: impl Fn(&Api)) {
    let (network, mut objects) = (Network::before(server), Objects::new(server));
    let running = Running::start(network.kubeconfig().to_owned());
    objects.stir(12);
    objects.are_seen_by(&running, SOON);
    let lists = asked(&running).0;
    for _ in 0..ROUNDS {
        let listed = objects.api.request("GET", COLLECTION, None).unwrap();
        let at = listed.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        network.close();
        objects.stir(12);
        eventually("the server has forgotten", SOON, || {
            make_it_forget(&objects.api);
            let answer = watched_from(&objects.api, &at).map_err(|error| error.to_string())?;
            if answer.contains("\"code\":410") { Ok(()) } else { Err(answer) }
        });
        network.open();
        objects.are_seen_by(&running, SOON);
    }
    let again = asked(&running).0 - lists;
    // A list that met the end of its own history is asked for a second time.
    assert!((ROUNDS..=2 * ROUNDS).contains(&again), "{again} lists for {ROUNDS} lost histories");
}

/// What a watch from a resourceVersion says within a second.
fn watched_from(api: &Api, at: &str) -> std::io::Result<String> {
    let path = format!("{COLLECTION}?watch=true&timeoutSeconds=1&resourceVersion={at}");
    let headers = vec![("Accept".to_owned(), "application/json".to_owned())];
    let response = api.connect()?.exchange(&Request { method: "GET".to_owned(), path, headers, body: Vec::new() })?;
    Ok(String::from_utf8_lossy(&response.body).into_owned())
}

/// Ours forgets what is too much to keep.
#[test]
fn a_storm_of_410_on_embedded() {
    concert_e2e::on_embedded(|server| {
        a_storm_of_410(server, |api| {
            let place = "/api/v1/namespaces/kube-system/configmaps";
            let name = json!({ "name": "filler" });
            let _exists = api.request("POST", place, Some(&json!({ "metadata": name })));
            for round in 0..90 {
                let data = json!({ "a": format!("{round}{}", "x".repeat(900_000)) });
                let object = json!({ "metadata": name, "data": data });
                let answer = api.request("PUT", &format!("{place}/filler"), Some(&object)).unwrap();
                assert!(answer.code < 300, "{answer:?}");
            }
        });
    });
}

/// The real one's etcd is compacted.
#[test]
fn a_storm_of_410_on_reference() {
    let binary = match environment::kubectl().and_then(|_| environment::reference_apiserver()) {
        Ok(binary) => binary,
        Err(missing) => return missing.skip(),
    };
    // Without its cache of what was watched, which remembers more, and for longer.
    let options = Reference::new(binary).argument("--etcd-compaction-interval=2s").argument("--watch-cache=false");
    a_storm_of_410(&ControlPlane::reference_with(options), |_| concert_e2e::pause(Duration::from_secs(1)));
}

/// A connection that dies without a word is found out.
fn a_connection_falls_silent(server: &ControlPlane) {
    let (network, mut objects) = (Network::before(server), Objects::new(server));
    let running = Running::start(network.kubeconfig().to_owned());
    objects.are_seen_by(&running, SOON);
    let lists = asked(&running).0;
    network.stall();
    objects.stir(12);
    // It is asked whether it lives after half a minute, and given up a quarter later.
    objects.are_seen_by(&running, Duration::from_secs(120));
    assert_eq!(asked(&running).0, lists);
}

on_both_servers!(a_network_cuts, a_history_is_lost_again_and_again, a_connection_falls_silent);
