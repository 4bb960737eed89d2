//! The two names of the reconciler, and several of it on one cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use concert_e2e::{
    Actor, ControlPlane, Exit, Reconciler, Stopwatch, definitions, eventually, free_port, on_both_servers,
};

const SOON: Duration = Duration::from_secs(30);
/// A released lease is taken within client-go's retry period (2 s and its jitter), long before it would expire (15 s).
const TAKEN_OVER: Duration = Duration::from_secs(10);

fn file(name: &str) -> String {
    format!(
        "
apiVersion: file.concert.dev/v1alpha1
kind: File
metadata: {{name: {name}}}
spec: {{forProvider: {{path: {name}.txt, content: here}}}}
"
    )
}

/// The definitions and the file provider.
fn prepare(server: &ControlPlane) -> Actor {
    let (provider, _) = Actor::file_provider(server.directory());
    server.kubectl().apply_stdin(&definitions("concert-provider-file")).ok();
    server.kubectl().ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    provider
}

fn make(server: &ControlPlane, name: &str) {
    server.kubectl().apply_stdin(&file(name)).ok();
    server.kubectl().ok(&["wait", "--for=condition=Ready", &format!("file/{name}"), "--timeout=30s"]);
}

fn holder(server: &ControlPlane, lease: &str) -> Result<String, String> {
    let holder = ["get", "lease", lease, "--namespace=default", "--output=jsonpath={.spec.holderIdentity}"];
    server
        .kubectl()
        .run(&holder)
        .result()
        .and_then(|text| if text.is_empty() { Err("nobody".to_owned()) } else { Ok(text) })
}

/// What an endpoint answers.
fn page(address: &str, path: &str) -> Result<String, String> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SOON))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    fetch().map_err(|error| error.to_string())
}

/// The sum of all samples of a metric, as `/metrics` shows it; nothing if there is no sample.
fn metric(address: &str, name: &str) -> Result<Option<f64>, String> {
    let text = page(address, "/metrics")?;
    let samples = text.lines().filter(|line| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']));
    let values: Vec<f64> = samples.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    Ok((!values.is_empty()).then(|| values.iter().sum()))
}

fn only_the_leader_acts(server: &ControlPlane) {
    let provider = prepare(server);
    let start = |name: &str| {
        let address = format!("127.0.0.1:{}", free_port());
        let reconciler =
            Reconciler::new().named(name).provider("file", server).with_election().metrics(&address).start(server);
        (reconciler, address)
    };
    let leads = |address: &str| match metric(address, "leader_election_master_status")? {
        Some(1.0) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    let (first, first_metrics) = start("first");
    eventually("a leader", SOON, || leads(&first_metrics));
    let leader = eventually("a holder", SOON, || holder(server, "managed-reconciler-leader-election"));
    let (second, second_metrics) = start("second");
    eventually("the second's metrics", SOON, || match metric(&second_metrics, "leader_election_master_status")? {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    make(server, "one");
    let reconciles = |address: &str| metric(address, "controller_runtime_reconcile_total");
    let (acted, idle) = (reconciles(&first_metrics), reconciles(&second_metrics));
    assert!(acted.clone().is_ok_and(|count| count.is_some_and(|count| count > 0.0)), "the leader acts: {acted:?}");
    assert!(idle.clone().is_ok_and(|count| count.unwrap_or_default() == 0.0), "the other one does not: {idle:?}");
    assert_eq!(holder(server, "managed-reconciler-leader-election").as_ref(), Ok(&leader));

    let took = Stopwatch::start();
    assert_eq!(first.stop(), Exit::Code(0));
    eventually("the second leads", TAKEN_OVER, || leads(&second_metrics));
    println!("the second led {:.1?} after the first was asked to stop", took.elapsed());
    make(server, "two");
    let next = holder(server, "managed-reconciler-leader-election");
    assert!(next.as_ref().is_ok_and(|next| *next != leader), "{next:?}");
    assert_eq!(second.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

fn the_dynamic_reconciler_is_the_same_program(server: &ControlPlane) {
    let provider = prepare(server);
    let reconciler = Reconciler::new()
        .named("dynamic-reconciler")
        .binary("dynamic-reconciler")
        .provider("file", server)
        .with_election()
        .start(server);
    make(server, "one");
    let holder = holder(server, "dynamic-reconciler-leader-election");
    // As client-go's: the host, which in a pod is the pod, and something of its own.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("every Linux has one");
    let host = format!("{}_", host.trim());
    assert!(holder.as_ref().is_ok_and(|holder| holder.starts_with(&host) && *holder != host), "{holder:?}");
    assert_eq!(reconciler.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

/// `--restart-on-provider-disconnect=false`: the controllers stop with their provider, and readiness says why.
fn a_lost_provider_takes_its_controllers_along(server: &ControlPlane) {
    let provider = prepare(server);
    let probes = format!("127.0.0.1:{}", free_port());
    let reconciler = Reconciler::new()
        .provider("file", server)
        .argument("--restart-on-provider-disconnect=false")
        .probes(&probes)
        .start(server);
    let readiness = |words: &'static str| {
        move || {
            let text = page(&probes, "/readyz?verbose")?;
            if text.contains(words) { Ok(()) } else { Err(text) }
        }
    };
    make(server, "one");
    eventually("readiness", SOON, readiness.clone()("[+]provider file ok"));
    provider.kill9();
    eventually("the reason", SOON, readiness.clone()("[-]provider file failed: provider \"file\" at unix:"));
    assert!(reconciler.stderr().contains("its controllers stop"), "{}", reconciler.stderr());
    assert_eq!(reconciler.exit(), None, "the process goes on");
    provider.start();
    make(server, "two");
    eventually("readiness again", SOON, readiness("[+]provider file ok"));
    assert_eq!(reconciler.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

/// Objects of a configured kind say why nothing happens before anybody has reached the provider, also when the definition
/// comes later.
fn objects_of_a_provider_that_never_came_say_so(server: &ControlPlane) {
    let reconciler =
        Reconciler::new().provider("file", server).resource_type("file.concert.dev/v1alpha1", "File").start(server);
    server.kubectl().apply_stdin(&definitions("concert-provider-file")).ok();
    server.kubectl().ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    server.kubectl().apply_stdin(&file("early")).ok();
    server.kubectl().ok(&["wait", "--for=condition=Synced=False", "file/early", "--timeout=30s"]);
    let synced = ["get", "file", "early", "--output=jsonpath={.status.conditions[?(@.type==\"Synced\")].message}"];
    let message = server.kubectl().ok(&synced);
    assert!(message.contains("provider \"file\" at unix:") && message.contains("is not reachable"), "{message}");
    let (provider, root) = Actor::file_provider(server.directory());
    server.kubectl().ok(&["wait", "--for=condition=Ready", "file/early", "--timeout=30s"]);
    assert!(root.join("early.txt").exists());
    assert_eq!(reconciler.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

/// A definition that is deleted takes its objects along, and these what they stand for: its controller works until they are
/// gone, and then stops.
fn a_deleted_definition_takes_everything_along(server: &ControlPlane) {
    let kubectl = server.kubectl();
    let (provider, root) = Actor::file_provider(server.directory());
    let reconciler = Reconciler::new().provider("file", server).start(server);
    for round in ["first", "second"] {
        kubectl.apply_stdin(&definitions("concert-provider-file")).ok();
        kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        make(server, round);
        let path = root.join(format!("{round}.txt"));
        assert!(path.exists());
        kubectl.ok(&["delete", "crd", "files.file.concert.dev", "--timeout=30s"]);
        assert!(!path.exists());
        eventually("the controller's end", SOON, || match reconciler.stderr().matches("controller stopped").count() {
            count if count == if round == "first" { 1 } else { 2 } => Ok(()),
            count => Err(format!("{count}")),
        });
    }
    assert_eq!(reconciler.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

/// Of two providers that announce one kind the first in the configuration has it, at every start.
fn two_providers_do_not_make_everything_twice(server: &ControlPlane) {
    server.kubectl().apply_stdin(&definitions("concert-provider-file")).ok();
    server.kubectl().ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    let roots = ["a", "b"].map(|name| server.directory().join(format!("files-{name}")));
    let providers = ["a", "b"].map(|name| {
        let root = server.directory().join(format!("files-{name}"));
        std::fs::create_dir(&root).expect("a new directory");
        let provider =
            Actor::provider(name, "concert-provider-file", server.directory()).argument("--root").argument(&root);
        provider.start();
        provider
    });
    for round in ["one", "two", "three"] {
        let reconciler = Reconciler::new().provider("a", server).provider("b", server).start(server);
        make(server, round);
        eventually("a word about it", SOON, || match reconciler.stderr() {
            text if text.contains("two providers claim one kind") => Ok(()),
            text => Err(text),
        });
        assert_eq!(reconciler.stop(), Exit::Code(0));
    }
    let count = |root: &std::path::Path| std::fs::read_dir(root).expect("a directory").count();
    assert_eq!(roots.each_ref().map(|root| count(root)), [3, 0]);
    for provider in providers {
        assert_eq!(provider.stop(), Exit::Code(0));
    }
}

on_both_servers!(
    only_the_leader_acts,
    the_dynamic_reconciler_is_the_same_program,
    a_lost_provider_takes_its_controllers_along,
    objects_of_a_provider_that_never_came_say_so,
    a_deleted_definition_takes_everything_along,
    two_providers_do_not_make_everything_twice
);
