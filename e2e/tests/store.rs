//! `concert store`: a store is checked, taken away while it is in use, and brought back.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concert_e2e::{
    Api, ControlPlane, Embedded, Exit, Kubectl, Process, Scratch, Stopwatch, environment, on_embedded_only,
};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs `concert store …` to its end: the exit code, standard output and standard error.
#[track_caller]
fn store(directory: &Path, arguments: &[&str]) -> (Exit, String, String) {
    let mut command = Command::new(environment::binary("concert"));
    command.arg("store").args(arguments).env_remove("KUBECONFIG").env("HOME", directory).stdin(Stdio::null());
    let process = Process::spawn("concert-store", command, directory);
    (process.wait(SOON), process.stdout(), process.stderr())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn create(api: &Api, name: &str) -> u64 {
    let object = json!({"metadata": {"name": name}, "data": {"filler": "x".repeat(100)}});
    let answer = api.request("POST", CONFIG_MAPS, Some(&object)).expect("an answer");
    assert_eq!(answer.code, 201, "{answer:?}");
    answer.body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
}

fn names(api: &Api) -> Vec<String> {
    let list = api.request("GET", CONFIG_MAPS, None).expect("an answer").body;
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A backup under writes is whole; a new store of it forgets what came later, and tells whoever resumes.
fn a_running_store_is_backed_up_and_restored(server: &ControlPlane) {
    let (api, directory) = (server.api(), server.directory());
    let (data, file) = (directory.join("data"), directory.join("backup"));
    let mut last = 0;
    for number in 0..200 {
        last = create(&api, &format!("before{number}"));
    }
    let stop = AtomicBool::new(false);
    let kubeconfig = server.kubeconfig();
    let (exit, said, errors) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..)
                .take_while(|_| !stop.load(Ordering::Relaxed))
                .map(|number| create(&api, &format!("during{number}")))
                .max()
        });
        let ended = store(directory, &["backup", "--kubeconfig", text(&kubeconfig), text(&file)]);
        stop.store(true, Ordering::Relaxed);
        last = writer.join().expect("the writer").unwrap_or(last);
        ended
    });
    assert_eq!(exit, Exit::Code(0), "{errors}");
    assert!(said.contains("objects at revision"), "{said}");
    assert_eq!(std::fs::metadata(&file).expect("the backup").permissions().mode() & 0o777, 0o600);
    let (exit, _, errors) = store(directory, &["backup", "--kubeconfig", text(&kubeconfig), text(&file)]);
    assert!(exit == Exit::Code(2) && errors.contains("exists already"), "{exit}: {errors}");

    let (exit, _, errors) = store(directory, &["check", "--data-dir", text(&data)]);
    assert!(exit == Exit::Code(3) && errors.contains("another concert process"), "{exit}: {errors}");
    let (exit, _, errors) = store(directory, &["restore", "--data-dir", text(&data), text(&file)]);
    assert!(exit == Exit::Code(3) && errors.contains("already"), "{exit}: {errors}");
    create(&api, "after");
    server.stop();
    std::fs::rename(data.join("concert.redb"), directory.join("old.redb")).expect("moved away");
    let (exit, said, errors) = store(directory, &["restore", "--data-dir", text(&data), text(&file)]);
    assert_eq!(exit, Exit::Code(0), "{said} {errors}");
    let (exit, said, errors) = store(directory, &["check", "--data-dir", text(&data), "-o", "json"]);
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{exit} {said} {errors}"));
    assert!(exit == Exit::Code(0) && report["sound"] == true && report["objects"].as_u64() > Some(200), "{report}");

    server.start();
    let there = names(&api);
    assert!(there.contains(&"before199".to_owned()) && !there.contains(&"after".to_owned()), "{there:?}");
    for resumed in [last - 50, last, last + 1, last + 1000] {
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={resumed}");
        let refused = api.watch(&path).and_then(|mut watch| watch.next_change()).map(|change| format!("{change:?}"));
        let refused = refused.unwrap_or_else(|error| error.to_string());
        assert!(refused.contains("410") && refused.contains("too old resource version"), "{resumed}: {refused}");
    }
    assert!(create(&api, "new") > last + 1000);
}

/// One wrong byte: nothing is served, the message names the commands, and a backup helps.
fn a_damaged_store_is_refused_and_replaced(server: &ControlPlane) {
    let (api, directory) = (server.api(), server.directory());
    let (data, file) = (directory.join("data"), directory.join("backup"));
    for number in 0..50 {
        create(&api, &format!("precious{number}"));
    }
    server.stop();
    let (exit, _, errors) = store(directory, &["backup", "--data-dir", text(&data), text(&file)]);
    assert_eq!(exit, Exit::Code(0), "{errors}");
    let path = data.join("concert.redb");
    let mut content = std::fs::read(&path).expect("the store");
    let at = content.windows(10).rposition(|window| window == b"precious17").expect("an object");
    content[at + 3] ^= 1;
    std::fs::write(&path, &content).expect("a damaged store");

    let (exit, _, errors) = store(directory, &["check", "--data-dir", text(&data)]);
    assert!(exit == Exit::Code(4) && errors.contains("is damaged"), "{exit}: {errors}");
    let mut command = Command::new(environment::binary("concert"));
    command.args(["serve", "--listen=127.0.0.1:0", "--data-dir", text(&data)]).stdin(Stdio::null());
    let process = Process::spawn("refused", command, directory);
    process.assert_exit(Exit::Code(4), SOON);
    let said = process.stderr();
    assert!(said.contains("concert store check") && said.contains("concert store restore"), "{said}");

    std::fs::remove_file(&path).expect("moved away");
    let (exit, _, errors) = store(directory, &["restore", "--data-dir", text(&data), text(&file)]);
    assert_eq!(exit, Exit::Code(0), "{errors}");
    server.start();
    assert_eq!(names(&api).iter().filter(|name| name.starts_with("precious")).count(), 50);
}

/// Over quota nothing new is taken, and everything can be deleted, also what waits for somebody.
#[test]
fn over_quota_objects_can_still_be_deleted() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let binary = environment::binary("concert");
    let server = ControlPlane::embedded_with(Embedded::new(binary).argument("--quota=32Ki"));
    let api = server.api();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/wait"]}});
    assert_eq!(api.request("POST", CONFIG_MAPS, Some(&held)).expect("an answer").code, 201);
    let refused = (0..).find_map(|number| {
        let object = json!({"metadata": {"name": format!("o{number}")}, "data": {"filler": "x".repeat(1000)}});
        let answer = api.request("POST", CONFIG_MAPS, Some(&object)).expect("an answer");
        (answer.code != 201).then_some(answer)
    });
    let refused = refused.expect("a refusal");
    assert_eq!(refused.code, 507, "{refused:?}");
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.contains("over its quota") && message.contains("--quota"), "{message}");

    let path = |name: &str| format!("{CONFIG_MAPS}/{name}");
    assert_eq!(api.request("DELETE", &path("held"), None).expect("an answer").code, 200);
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(api.request("PATCH", &path("held"), Some(&release)).expect("an answer").code, 200);
    assert_eq!(api.request("GET", &path("held"), None).expect("an answer").code, 404);
    assert_eq!(api.request("DELETE", &path("o0"), None).expect("an answer").code, 200);
    assert_eq!(api.request("DELETE", &path("o1"), None).expect("an answer").code, 200);
    create(&api, "room-again");
}

/// Starts `concert serve` from a script that limits the size of files while there is a file `small`.
const LIMITED: &str = r#"#!/bin/sh
trap '' XFSZ
[ -e "${0%/*}/small" ] && ulimit -f 4000
exec "$CONCERT" "$@"
"#;

/// A full disk ends the process with words that help; afterwards everything acknowledged is there.
#[test]
fn a_full_disk_loses_nothing() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let scratch = Scratch::new("full");
    let (directory, script, small) = (scratch.path(), scratch.path().join("limited"), scratch.path().join("small"));
    std::fs::write(&script, LIMITED).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("an executable script");
    std::fs::write(&small, "").expect("a mark");
    let (data, kubeconfig) = (directory.join("data"), directory.join("kubeconfig"));
    let start = || {
        let mut command = Command::new(&script);
        command.args(["serve", "--listen=127.0.0.1:0", "--data-dir", text(&data)]).stdin(Stdio::null());
        command.args(["--write-kubeconfig", text(&kubeconfig)]).env("CONCERT", environment::binary("concert"));
        let process = Process::spawn("limited", command, directory);
        process.wait_for_line("ready https://", SOON);
        (process, Api::new(&Kubectl::new(&kubeconfig)))
    };
    let (process, api) = start();
    let mut connection = api.connect().expect("a connection");
    let filler = "x".repeat(20_000);
    let acknowledged = (0..)
        .take_while(|number| {
            let object = json!({"metadata": {"name": format!("o{number}")}, "data": {"filler": filler}});
            connection.request("POST", CONFIG_MAPS, Some(&object)).is_ok_and(|answer| answer.code == 201)
        })
        .count();
    process.assert_exit(Exit::Code(4), SOON);
    let said = process.stderr();
    assert!(said.contains("the store has failed") && said.contains("make room"), "{said}");
    assert!(acknowledged > 10, "{acknowledged}");
    std::fs::remove_file(&small).expect("more room");
    let (_process, api) = start();
    let there = names(&api).iter().filter(|name| name.starts_with('o')).count();
    assert!(there == acknowledged || there == acknowledged + 1, "{there} of {acknowledged}");
    create(&api, "more");
}

/// SIGTERM: watches end properly, the exit code is 0, and what was acknowledged is there again.
fn a_stop_ends_watches_properly(server: &ControlPlane) {
    let api = server.api();
    let kept = create(&api, "kept");
    let watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={kept}")).expect("a watch");
    let mut watch = watch.with_patience(SOON).expect("a socket");
    create(&api, "seen");
    let change = watch.next_change().expect("no cut").expect("a change");
    assert_eq!((change.kind.as_str(), &change.object["metadata"]["name"]), ("ADDED", &json!("seen")));
    let began = Stopwatch::start();
    assert_eq!(server.stop(), Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(watch.next_change().expect("the last chunk").is_none());
    server.start();
    let names = names(&api);
    assert!(names.contains(&"kept".to_owned()) && names.contains(&"seen".to_owned()), "{names:?}");
}

on_embedded_only!(
    a_running_store_is_backed_up_and_restored,
    a_damaged_store_is_refused_and_replaced,
    a_stop_ends_watches_properly,
);
