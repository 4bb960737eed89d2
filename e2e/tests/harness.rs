//! The harness itself: servers start, survive, come back, and leave nothing behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use concert_e2e::{ControlPlane, Embedded, Exit, Scratch, environment, eventually, on_both_servers};

const SOON: Duration = Duration::from_secs(30);

const CONFIG_MAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: default}
data: {colour: green}
";

fn a_killed_server_comes_back_with_its_data(server: &ControlPlane) {
    let kubectl = server.kubectl();
    assert!(kubectl.ok(&["get", "namespaces"]).contains("default"));
    let applied = kubectl.apply_stdin(CONFIG_MAP);
    assert!(applied.ok().contains("configmap/kept created"));
    let (first, address) = (server.pid().expect("it runs"), address_of(server));

    server.kill9();
    assert_eq!(server.pid(), None);
    assert!(!is_running(first));
    assert_ne!(kubectl.run(&["get", "namespaces", "--request-timeout=5s"]).code, Some(0), "nobody answers");

    server.start();
    assert_eq!(address_of(server), address);
    let colour = kubectl.ok(&["get", "configmap", "kept", "--output=jsonpath={.data.colour}"]);
    assert_eq!(colour, "green");

    server.restart();
    let second = server.pid().expect("it runs");
    kubectl.ok(&["delete", "configmap", "kept"]);
    let absent = kubectl.run(&["get", "configmap", "kept"]);
    assert!(absent.stderr.contains("NotFound"), "{}", absent.stderr);
    assert_eq!(server.stop(), Exit::Code(0));
    assert!(!is_running(second));
}

fn a_watch_sees_what_is_applied(server: &ControlPlane) {
    let kubectl = server.kubectl();
    let watch = kubectl.spawn(&["get", "configmaps", "--watch", "--output=name"]);
    kubectl.apply_stdin(CONFIG_MAP).ok();
    watch.wait_for_line("configmap/kept", SOON);
    assert_eq!(watch.exit(), None);
}

on_both_servers!(a_killed_server_comes_back_with_its_data, a_watch_sees_what_is_applied);

/// Stands in for `concert serve`: only what the harness relies on.
const STAND_IN: &str = r#"#!/bin/sh
echo "$@" >> "${0%/*}/calls"
trap 'exit 0' TERM
port=${3#*:}; [ "$port" = 0 ] && port=41999
echo starting
echo "ready https://127.0.0.1:$port"
while :; do sleep 0.02; done
"#;

#[test]
fn an_embedded_server_is_started_as_the_design_says_and_keeps_its_address() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let scratch = Scratch::new("stand-in");
    let binary = stand_in(scratch.path());
    let server = ControlPlane::embedded_with(Embedded::new(binary).argument("--durability=none"));
    server.kill9();
    server.start();
    let pid = server.pid().expect("it runs");
    assert_eq!(server.stop(), Exit::Code(0));
    eventually("its end", SOON, || if is_running(pid) { Err("it runs") } else { Ok(()) });

    let calls = std::fs::read_to_string(scratch.path().join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].starts_with("serve --listen 127.0.0.1:0 --data-dir /"), "{}", calls[0]);
    assert!(calls[0].contains(" --write-kubeconfig /") && calls[0].ends_with(" --durability=none"), "{}", calls[0]);
    assert!(calls[1].starts_with("serve --listen 127.0.0.1:41999 "), "{}", calls[1]);
}

fn stand_in(directory: &Path) -> PathBuf {
    let path = directory.join("concert");
    std::fs::write(&path, STAND_IN).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("an executable script");
    path
}

fn address_of(server: &ControlPlane) -> String {
    server.kubectl().ok(&["config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"])
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
