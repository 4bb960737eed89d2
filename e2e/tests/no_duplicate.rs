//! However and whenever something dies around a create, there is exactly one external object, and after the delete none.
//!
//! The provider's backend assigns random ids and shows what it created only after three seconds, and its creates are
//! slow on both sides of their effect. Each round wants two more servers, waits for a moment between the write and the
//! end of their creates, and kills the reconciler, the provider or the API server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use concert_e2e::{
    Actor, Api, ControlPlane, Dice, Reconciler, Stopwatch, definitions, eventually, on_embedded_only,
    on_reference_only, pause,
};
use serde_json::{Value, json};

const SERVERS: &str = "/apis/cloud.concert.dev/v1alpha1/servers";
/// A create sleeps for this long before its effect, and again after it.
const CREATE_DELAY: Duration = Duration::from_millis(300);
/// From the write of an object to the end of its create, with room for the way there and back.
const WINDOW: Duration = Duration::from_millis(900);
/// For how long a created server is invisible.
const VISIBLE_AFTER: Duration = Duration::from_secs(3);
/// A create of unknown outcome is repeated after the provider's session timeout (five seconds) and the invisible time.
const REPEATED_AFTER: Duration = Duration::from_secs(5 + 3 + 1);
const SOON: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Reconciler,
    Provider,
    ApiServer,
}

const VICTIMS: [Victim; 3] = [Victim::Reconciler, Victim::Provider, Victim::ApiServer];

/// Everything that can be killed.
struct Scene<'a> {
    server: &'a ControlPlane,
    api: Api,
    provider: Actor,
    reconciler: Actor,
    state: &'a Path,
    wanted: Vec<String>,
    kills: BTreeMap<Victim, u32>,
    dice: Dice,
}

impl Scene<'_> {
    /// Wants another server.
    fn want(&mut self) {
        let name = format!("server-{}", self.wanted.len());
        let object = json!({
            "apiVersion": "cloud.concert.dev/v1alpha1", "kind": "Server", "metadata": {"name": name},
            "spec": {"forProvider": {"size": "small"}},
        });
        eventually("a new Server", SOON, || match self.api.request("POST", SERVERS, Some(&object)) {
            Ok(answer) if [201, 409].contains(&answer.code) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        self.wanted.push(name);
    }

    /// Kills one of the three after a while, and starts it again.
    fn kill(&mut self, victim: Victim) {
        pause(self.dice.between(Duration::ZERO, WINDOW));
        let down = self.dice.between(Duration::ZERO, Duration::from_millis(100));
        match victim {
            Victim::Reconciler => {
                self.reconciler.kill9();
                pause(down);
                self.reconciler.start();
            }
            Victim::Provider => {
                self.provider.kill9();
                pause(down);
                self.provider.start();
            }
            Victim::ApiServer => {
                self.server.kill9();
                pause(down);
                self.server.start();
            }
        }
        *self.kills.entry(victim).or_default() += 1;
    }

    fn rounds(&mut self, kills: usize, servers: usize) {
        for round in 0..kills {
            for _ in 0..servers {
                self.want();
            }
            self.kill(VICTIMS[round % VICTIMS.len()]);
        }
    }

    /// The external objects, as their backend remembers them.
    fn externals(&self) -> Vec<External> {
        let entries = fs::read_dir(self.state).expect("the backend's directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        // One that is deleted meanwhile is none.
        let read =
            paths.filter(|path| path.extension().is_some_and(|is| is == "json")).filter_map(|path| fs::read(path).ok());
        read.map(|text| serde_json::from_slice::<Value>(&text).expect("JSON"))
            .map(|server| External { id: text(&server["id"]), token: text(&server["token"]) })
            .collect()
    }

    fn objects(&self) -> Result<Vec<Value>, String> {
        let answer = self.api.request("GET", SERVERS, None).map_err(|error| error.to_string())?;
        answer.body["items"].as_array().cloned().ok_or_else(|| format!("{answer:?}"))
    }

    fn count_by_victim(&self) -> String {
        self.kills.iter().map(|(victim, count)| format!("{victim:?} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// An object of the backend.
struct External {
    id: String,
    /// Of the create that made it.
    token: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == condition && one["status"] == "True"))
}

/// One for each object, and no other.
fn check_externals(objects: &[Value], externals: &[External]) {
    let nameless = externals.iter().filter(|external| external.token.is_empty()).count();
    assert_eq!(nameless, 0, "of {} creates {nameless} carried no token, so nobody can find them", externals.len());
    let mut wanted: BTreeMap<String, u32> = BTreeMap::new();
    for object in objects {
        wanted.insert(text(&object["metadata"]["annotations"]["crossplane.io/external-name"]), 0);
    }
    for External { id, token } in externals {
        match wanted.get_mut(id) {
            Some(count) => *count += 1,
            None => panic!("{id} belongs to no object: a duplicate that the create {token} made"),
        }
    }
    assert!(wanted.len() == objects.len() && wanted.values().all(|count| *count == 1), "{wanted:?}");
}

/// `phases`: how many kills in each, with the time between two phases in which interrupted creates are repeated.
fn exactly_one(server: &ControlPlane, phases: &[usize], deletions: usize) {
    let took = Stopwatch::start();
    let state = server.directory().join("cloud");
    fs::create_dir_all(&state).expect("a directory");
    let provider = Actor::provider("cloud", "concert-provider-cloud", server.directory())
        .argument("--state")
        .argument(&state)
        .argument(format!("--visible-after={}s", VISIBLE_AFTER.as_secs()))
        .argument(format!("--create-delay={}ms", CREATE_DELAY.as_millis()));
    provider.start();
    server.kubectl().apply_stdin(&definitions("concert-provider-cloud")).ok();
    server.kubectl().ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    let reconciler = Reconciler::new().provider("cloud", server).argument("--max-reconcile-rate=50").start(server);
    let mut scene = Scene {
        server,
        api: server.api(),
        provider,
        reconciler,
        state: &state,
        wanted: Vec::new(),
        kills: BTreeMap::new(),
        dice: Dice::new(7),
    };

    for (place, kills) in phases.iter().enumerate() {
        if place > 0 {
            // The creates that the phase before interrupted begin again about now.
            pause(REPEATED_AFTER.saturating_sub(WINDOW));
        }
        scene.rounds(*kills, 2);
    }
    let all_ready = || {
        let objects = scene.objects()?;
        let ready = objects.iter().filter(|object| is_true(object, "Ready") && is_true(object, "Synced")).count();
        if (ready, objects.len()) == (scene.wanted.len(), scene.wanted.len()) {
            return Ok(objects);
        }
        Err(format!("{ready} of {} objects ready, {} wanted", objects.len(), scene.wanted.len()))
    };
    let settling = Stopwatch::start();
    let objects = eventually("all servers ready", REPEATED_AFTER + SOON, all_ready);
    let settled = settling.elapsed();
    let externals = scene.externals();
    println!(
        "{} kills ({}) around {} creates in {:.0} s; settled in {:.0} s more: {} external objects for {} wanted",
        phases.iter().sum::<usize>(),
        scene.count_by_victim(),
        scene.wanted.len(),
        (took.elapsed() - settled).as_secs_f64(),
        settled.as_secs_f64(),
        externals.len(),
        scene.wanted.len(),
    );
    check_externals(&objects, &externals);

    for name in scene.wanted.clone() {
        let path = format!("{SERVERS}/{name}");
        eventually("a deletion", SOON, || match scene.api.request("DELETE", &path, None) {
            Ok(answer) if [200, 202, 404].contains(&answer.code) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    for round in 0..deletions {
        scene.kill(VICTIMS[round % VICTIMS.len()]);
    }
    eventually("the end of all servers", REPEATED_AFTER + SOON, || match (scene.objects()?.len(), scene.externals()) {
        (0, externals) if externals.is_empty() => Ok(()),
        (objects, externals) => Err(format!("{objects} objects and {} external objects", externals.len())),
    });
    println!("all deleted, with {deletions} kills on the way; {:.0} s in all", took.elapsed().as_secs_f64());
}

fn a_hundred_kills_make_no_duplicate(server: &ControlPlane) {
    exactly_one(server, &[80, 20], 6);
}

fn twelve_kills_make_no_duplicate(server: &ControlPlane) {
    exactly_one(server, &[12], 3);
}

on_embedded_only!(a_hundred_kills_make_no_duplicate);
on_reference_only!(twelve_kills_make_no_duplicate);
