//! Bad input: one message that names the place, the value and the fix; a documented exit code; nothing lost.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use concert_e2e::{
    Actor, ControlPlane, Exit, Process, Reconciler, Scratch, Stopwatch, definitions, environment, eventually,
    on_both_servers, on_embedded_only, pause,
};
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

// The exit codes of `concert --help`.
const USAGE: i32 = 2;
const UNUSABLE: i32 = 3;
const STORE: i32 = 4;
// Those of a provider.
const PROVIDER_FAILED: i32 = 1;

const RECONCILERS: [&str; 2] = ["managed-reconciler", "dynamic-reconciler"];

/// A request that takes long holds nobody up: others are answered, and the server stops when it is told to.
fn a_long_request_does_not_hold_up_the_end(server: &ControlPlane) {
    let pattern = |number: usize| json!({"pattern": format!("^([a-z]{{1,9}}.?){{1,9}}x{number}$")});
    // The last one fits: of what is wrong only so much is told, and the rest not looked at.
    let patterns: Vec<_> = (0..500).map(pattern).chain([json!({"pattern": "b$"})]).collect();
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": {
        "type": "string", "anyOf": patterns,
    }}}});
    let definition = json!({
        "metadata": {"name": "longs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Long", "plural": "longs"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let api = server.api();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = api.request("POST", definitions, Some(&definition)).expect("an answer");
    assert_eq!(answer.code, 201, "{answer:?}");
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Long", "metadata": {"name": "a"},
        "list": vec!["ab".repeat(500); 2_900],
    });
    std::thread::scope(|scope| {
        let long = scope.spawn(|| api.request("POST", "/apis/example.com/v1/longs", Some(&object)));
        pause(Duration::from_millis(500));
        assert!(!long.is_finished(), "it takes long: {:?}", long.join());
        let honest = Stopwatch::start();
        assert_eq!(api.request("GET", "/version", None).expect("an answer").code, 200);
        assert!(honest.elapsed() < Duration::from_secs(2), "others wait {:?}", honest.elapsed());
        let stopping = Stopwatch::start();
        assert_eq!(server.stop(), Exit::Code(0));
        println!("stopped after {:.1?}", stopping.elapsed());
        assert!(stopping.elapsed() < Duration::from_secs(10), "it stopped after {:?}", stopping.elapsed());
    });
}

/// Runs a binary that must refuse: exit code, all the words in what it says, and not many more lines than one.
#[track_caller]
fn refuses(binary: &str, arguments: &[&str], code: i32, words: &[&str]) {
    let scratch = Scratch::new("refuses");
    let mut command = Command::new(environment::binary(binary));
    command.args(arguments).env_remove("KUBECONFIG").env_remove("RUST_LOG").stdin(Stdio::null());
    command.env("HOME", scratch.path()).env("XDG_RUNTIME_DIR", scratch.path());
    let process = Process::spawn(binary, command, scratch.path());
    process.assert_exit(Exit::Code(code), SOON);
    let said = process.stderr();
    println!("{binary} {}\n  {code}: {}", arguments.join(" "), said.trim_end().replace('\n', "\n     "));
    for word in words {
        assert!(said.contains(word), "`{binary} {}` does not say {word:?}:\n{said}", arguments.join(" "));
    }
    let errors = said.lines().filter(|line| line.starts_with("error:")).count();
    assert_eq!(errors, 1, "one message:\n{said}");
    assert!(!process.stdout().contains("ready "), "it said that it was ready:\n{}", process.stdout());
}

#[test]
fn wrong_flags() {
    for binary in RECONCILERS {
        refuses(binary, &["--nonsense"], USAGE, &["'--nonsense'", "--help"]);
        refuses(binary, &["--poll-interval=5"], USAGE, &["--poll-interval", "'5'", "such as 30s"]);
        refuses(binary, &["--max-reconcile-rate=0"], USAGE, &["--max-reconcile-rate", "'0'", "1..=10000"]);
        refuses(binary, &["--leader-election=perhaps"], USAGE, &["--leader-election", "'perhaps'", "true, false"]);
        refuses(
            binary,
            &["--cert-dir=/certificates"],
            USAGE,
            &["--cert-dir", "\"/certificates\"", "not yet", "leave it out"],
        );
        refuses(binary, &[], USAGE, &["no provider is named", "--config FILE", "--provider-endpoint"]);
    }
    refuses("concert", &["sreve"], USAGE, &["'sreve'", "serve"]);
    refuses("concert", &["serve", "--listne=127.0.0.1:0"], USAGE, &["'--listne'", "'--listen'"]);
    refuses("concert", &["serve", "--listen=here"], USAGE, &["--listen", "'here'"]);
    refuses(
        "concert",
        &["serve", "--durability=often"],
        USAGE,
        &["--durability", "'often'", "sync, interval=MS or none"],
    );
    refuses("concert", &["serve", "--in-memory", "--data-dir=/x"], USAGE, &["--in-memory", "--data-dir"]);
    refuses(
        "concert",
        &["serve", "--in-memory", "--listen=127.0.0.1:0"],
        USAGE,
        &["--in-memory", "--write-kubeconfig FILE"],
    );
    refuses("concert", &["up", "--example=nothing"], USAGE, &["--example", "'nothing'", "file"]);
    refuses("concert", &["up", "--exit-when-ready"], USAGE, &["--example"]);
    refuses("concert", &["provider", "nothing"], USAGE, &["'nothing'", "concert provider file"]);
    refuses("concert-provider-file", &["serve", "--nonsense"], USAGE, &["'--nonsense'"]);
    refuses("concert-provider-file", &["serve", "--listen=here"], USAGE, &["--listen", "here"]);
}

#[test]
fn wrong_configuration() {
    let scratch = Scratch::new("configuration");
    let path = scratch.path().join("config.json");
    let place = path.display().to_string();
    let config = format!("--config={place}");
    for binary in RECONCILERS {
        let missing = scratch.path().join("missing.json").display().to_string();
        refuses(binary, &[&format!("--config={missing}")], USAGE, &[&missing, "No such file", "--config"]);
        let cases: [(&str, &[&str]); 10] = [
            ("{\"providers\": [\n  {\"name\": }\n]}", &["line 2 column 12", "JSON"]),
            ("{}", &["providers", "name at least one"]),
            (r#"{"provider": []}"#, &["\"provider\"", "did you mean \"providers\"?"]),
            (r#"{"providers": [{"name": "a", "endpont": "a:1"}]}"#, &["providers[0]", "\"endpont\"", "\"endpoint\""]),
            (r#"{"providers": [{"name": "a"}]}"#, &["providers[0].endpoint", "missing"]),
            (
                r#"{"providers": [{"name": "a", "endpoint": "a:1"}, {"name": "a", "endpoint": "a:2"}]}"#,
                &["providers[1].name", "\"a\"", "providers[0]", "give each its own"],
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "nowhere"}]}"#,
                &["providers[0].endpoint", "\"nowhere\"", "HOST:PORT"],
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "a:port"}]}"#,
                &["providers[0].endpoint", "\"a:port\"", "not a number"],
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "ftp://a:1"}]}"#,
                &["providers[0].endpoint", "\"ftp\"", "https://"],
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "a:1", "resourceTypes": [{"apiVersion": "v1", "kind": ""}]}]}"#,
                &["providers[0].resourceTypes[0].kind", "empty"],
            ),
        ];
        for (text, words) in cases {
            fs::write(&path, text).expect("a file");
            refuses(binary, &[&config], USAGE, &[&[place.as_str()], words].concat());
        }
        let two = r#"{"providers": [{"name": "a", "endpoint": "a:1"}, {"name": "b", "endpoint": "b:1"}]}"#;
        fs::write(&path, two).expect("a file");
        let words = ["--provider-endpoint", "\"c:1\"", "NAME=ENDPOINT", "a, b"];
        refuses(binary, &[&config, "--provider-endpoint=c:1"], USAGE, &words);
        // A kubeconfig is something that is needed, not something that is told.
        let words = ["\"/nowhere/kubeconfig\"", "--kubeconfig"];
        refuses(binary, &[&config, "--kubeconfig=/nowhere/kubeconfig"], UNUSABLE, &words);
        refuses(binary, &[&config], UNUSABLE, &["cannot find a cluster", "--kubeconfig FILE"]);
    }
    fs::write(&path, r#"{"providers": [{"name": "file", "endpoint": "a:1"}]}"#).expect("a file");
    let data = format!("--data-dir={}", scratch.path().join("data").display());
    refuses("concert", &["up", "--listen=127.0.0.1:0", &data, &config], USAGE, &["\"file\"", "another name"]);
}

#[test]
fn a_providers_own_troubles() {
    let scratch = Scratch::new("provider");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let listen = format!("--listen={address}");
    refuses("concert-provider-file", &["serve", &listen], PROVIDER_FAILED, &[&address, "in use", "--listen"]);
    let socket = format!("--listen=unix:{}", scratch.path().join("s.sock").display());
    refuses("concert-provider-file", &["serve", &socket, "--root=/nowhere"], PROVIDER_FAILED, &["\"/nowhere\""]);
    let long = format!("--listen=unix:/{}", "x".repeat(200));
    refuses("concert-provider-file", &["serve", &long], PROVIDER_FAILED, &["xxx", "shorter"]);
}

fn a_port_or_a_directory_that_is_not_free(server: &ControlPlane) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let scratch = Scratch::new("taken");
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let data = format!("--data-dir={}", path("data"));
    refuses("concert", &["serve", &data, &format!("--listen={address}")], UNUSABLE, &[&address, "in use", "--listen"]);
    refuses("concert", &["up", &data, &format!("--listen={address}")], UNUSABLE, &[&address, "in use", "--listen"]);

    // The second server of a directory: the first goes on.
    let kubectl = server.kubectl();
    kubectl.apply_stdin(&config_map("kept")).ok();
    let used = server.directory().join("data").display().to_string();
    let in_use = format!("--data-dir={used}");
    let words = [used.as_str(), "another concert process", "--data-dir"];
    refuses("concert", &["serve", &in_use, "--listen=127.0.0.1:0"], UNUSABLE, &words);
    refuses("concert", &["up", &in_use, "--listen=127.0.0.1:0"], UNUSABLE, &words);
    kubectl.ok(&["get", "configmap", "kept"]);
    kubectl.apply_stdin(&config_map("more")).ok();

    // Nobody, not even root, can write below a file.
    fs::write(path("file"), "").expect("a file");
    let below = format!("{}/data", path("file"));
    let words = [below.as_str(), "ot a directory", "writable", "--data-dir"];
    refuses("concert", &["serve", &format!("--data-dir={below}"), "--listen=127.0.0.1:0"], UNUSABLE, &words);
    let kubeconfig = format!("--write-kubeconfig={}/kubeconfig", path("file"));
    refuses(
        "concert",
        &["serve", &data, "--listen=127.0.0.1:0", &kubeconfig],
        UNUSABLE,
        &[&path("file"), "ot a directory"],
    );

    // A store that cannot be read is not overwritten.
    server.stop();
    let store = server.directory().join("data/concert.redb");
    let whole = fs::read(&store).expect("the store");
    fs::write(&store, b"this is no store").expect("a file");
    refuses("concert", &["serve", &in_use, "--listen=127.0.0.1:0"], STORE, &["store", "backup", "--data-dir"]);
    assert_eq!(fs::read(&store).expect("the store"), b"this is no store");
    fs::write(&store, whole).expect("a file");
    server.start();
    kubectl.ok(&["get", "configmap", "kept", "more"]);
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// Metrics and probes of a reconciler. What is no address at all is wrong usage; one that is taken is not.
fn endpoints_that_cannot_be_served(server: &ControlPlane) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let flags = ["--metrics-bind-address", "--health-probe-bind-address"];
    for (value, code, words) in [
        (address.as_str(), UNUSABLE, ["in use", "choose another port"]),
        ("here", USAGE, ["not an address", "HOST:PORT"]),
    ] {
        for binary in RECONCILERS {
            for (flag, other) in [(flags[0], flags[1]), (flags[1], flags[0])] {
                let (wrong, off) = (format!("{flag}={value}"), format!("{other}=0"));
                let arguments = ["--provider-endpoint=localhost:1", &kubeconfig, &wrong, &off];
                refuses(binary, &arguments, code, &[&wrong, words[0], words[1]]);
            }
        }
    }
}

on_embedded_only!(
    a_long_request_does_not_hold_up_the_end,
    a_port_or_a_directory_that_is_not_free,
    endpoints_that_cannot_be_served
);

/// The reconciler waits, says for whom, and goes on when it comes.
fn a_provider_that_is_not_there(server: &ControlPlane) {
    let kubectl = server.kubectl();
    kubectl.apply_stdin(&definitions("concert-provider-file")).ok();
    kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    let reconciler = Reconciler::new().provider("file", server).start(server);
    kubectl.apply_stdin(&file("patient", "{path: patient.txt}")).ok();
    let socket = server.directory().join("file.sock").display().to_string();
    eventually("a word about the provider", SOON, || match reconciler.stderr() {
        said if said.contains("provider \"file\"") && said.contains(&socket) && said.contains("not reachable") => {
            Ok(())
        }
        said => Err(said),
    });
    pause(Duration::from_secs(2));
    assert_eq!(reconciler.exit(), None, "it waits");
    let waiting = reconciler.stderr().lines().filter(|line| line.contains("not reachable")).count();
    assert!(waiting < 5, "it says so once, not at each of its attempts: {waiting}");
    let (provider, root) = Actor::file_provider(server.directory());
    kubectl.ok(&["wait", "--for=condition=Ready", "file/patient", "--timeout=30s"]);
    assert!(root.join("patient.txt").exists());
    assert_eq!(reconciler.stop(), Exit::Code(0));
    assert_eq!(provider.stop(), Exit::Code(0));
}

fn file(name: &str, parameters: &str) -> String {
    format!(
        "
apiVersion: file.concert.dev/v1alpha1
kind: File
metadata: {{name: {name}}}
spec: {{forProvider: {parameters}}}
"
    )
}

/// What kubectl says about bad manifests, on both servers; what was there stays.
fn manifests(server: &ControlPlane) {
    let kubectl = server.kubectl();
    kubectl.apply_stdin(&definitions("concert-provider-file")).ok();
    kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    kubectl.apply_stdin(&file("kept", "{path: kept.txt, content: one}")).ok();
    let query = ["get", "file", "kept", "--output=jsonpath={.metadata.resourceVersion} {.spec.forProvider.content}"];
    let before = kubectl.ok(&query);
    let unknown = file("kept", "{path: kept.txt}").replace("kind: File", "kind: Flie");
    let old = file("kept", "{path: kept.txt}").replace("v1alpha1", "v1");
    let cases: [(&str, String, &[&str]); 11] = [
        ("no YAML", "apiVersion: [".to_owned(), &["error"]),
        ("no kind", "apiVersion: v1\nmetadata: {name: a}\n".to_owned(), &["kind"]),
        ("unknown kind", unknown, &["no matches for kind \"Flie\"", "file.concert.dev/v1alpha1"]),
        ("unknown version", old, &["no matches for kind \"File\"", "file.concert.dev/v1"]),
        ("unknown field", file("kept", "{path: kept.txt, contnt: x}"), &["spec.forProvider.contnt", "unknown field"]),
        (
            "wrong type",
            file("kept", "{path: kept.txt, content: 5}"),
            &["spec.forProvider.content", "must be of type string"],
        ),
        (
            "pattern",
            file("kept", "{path: kept.txt, mode: rwx}"),
            &["is invalid", "spec.forProvider.mode", "\"rwx\"", "'^0?[0-7]{3}$'"],
        ),
        ("too short", file("new", "{path: ''}"), &["is invalid", "spec.forProvider.path", "at least 1"]),
        ("required", file("new", "{content: x}"), &["is invalid", "spec.forProvider.path", "Required value"]),
        (
            "enum",
            file("new", "{path: new.txt}, deletionPolicy: Keep"),
            &["is invalid", "spec.deletionPolicy", "\"Keep\"", "\"Orphan\""],
        ),
        (
            "name",
            file("New_Name", "{path: new.txt}"),
            &["is invalid", "metadata.name", "\"New_Name\"", "lowercase RFC 1123"],
        ),
    ];
    for (what, manifest, words) in cases {
        let output = kubectl.apply_stdin(&manifest);
        println!("{what}: {}", output.stderr.trim_end());
        assert_eq!(output.code, Some(1), "{what}: {output:?}");
        for word in words {
            assert!(output.stderr.contains(word), "{what}: {word:?} is missing in {}", output.stderr);
        }
    }
    assert_eq!(kubectl.ok(&query), before, "what was there has not changed");
    assert_eq!(kubectl.ok(&["get", "files", "--output=name"]), "file.file.concert.dev/kept\n");
    let absent = kubectl.run(&["get", "flies"]);
    assert!(absent.stderr.contains("the server doesn't have a resource type \"flies\""), "{absent:?}");
}

on_both_servers!(a_provider_that_is_not_there, manifests);
