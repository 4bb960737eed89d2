//! The file provider through its program and over the wire.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use concert_connector::{Connector, Endpoint};
use concert_external::{Attempt, CreateToken, ErrorClass, External, Gvk, NamePolicy, Session};
use concert_world::World;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;

const BINARY: &str = env!("CARGO_BIN_EXE_concert-provider-file");

struct Program {
    connector: Connector,
    child: tokio::process::Child,
}

impl Program {
    async fn serve(root: &Path) -> Self {
        let mut child = tokio::process::Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--root"])
            .arg(root)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let line = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
        let address = line.strip_prefix("ready ").expect("it says where it is");
        let connector = Connector::new("file", Endpoint::parse(address, false).unwrap(), World::real()).unwrap();
        Self { connector, child }
    }

    async fn open(&self, object: &Value) -> Box<dyn Session> {
        let gvk = Gvk::new("file.concert.dev", "v1alpha1", "File");
        let attempt = Attempt { gvk, token: None, timeout: Duration::from_secs(10) };
        self.connector.connect(object, attempt).await.map(|connected| connected.session).unwrap()
    }
}

fn file(for_provider: Value) -> Value {
    json!({
        "apiVersion": "file.concert.dev/v1alpha1", "kind": "File",
        "metadata": { "name": "f", "uid": "u" },
        "spec": { "forProvider": for_provider },
    })
}

fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().unwrap()
}

#[tokio::test]
async fn a_file_lives_its_life() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::serve(dir.path()).await;
    let kinds = program.connector.discover().await.unwrap().kinds;
    assert_eq!(kinds[0].names, NamePolicy::Deterministic);

    let object = file(json!({ "path": "etc/motd", "content": "hi", "mode": "0640" }));
    let mut session = program.open(&object).await;
    assert!(!session.observe(&object).await.unwrap().exists);
    let made = session.create(&object, &CreateToken::new("u-1", 1)).await.unwrap().object.unwrap();
    assert_eq!(made["metadata"]["annotations"]["crossplane.io/external-name"], "etc/motd");
    session.disconnect().await.unwrap();
    let path = dir.path().join("etc/motd");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hi");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);

    let mut session = program.open(&object).await;
    let seen = session.observe(&object).await.unwrap();
    assert!(seen.exists && seen.up_to_date, "{}", seen.diff);
    let at_provider = seen.object.unwrap()["status"]["atProvider"].clone();
    let sha256 = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
    assert_eq!(at_provider, json!({ "path": path.to_str(), "size": 2, "sha256": sha256, "mode": "0640" }));
    session.disconnect().await.unwrap();

    let mut moved = made.clone();
    moved["spec"]["forProvider"]["path"] = json!("etc/issue");
    let mut session = program.open(&moved).await;
    let error = session.observe(&moved).await.unwrap_err();
    assert_eq!(error.field.as_deref(), Some("spec.forProvider.path"));
    assert!(error.message.starts_with("cannot move the file from \"etc/motd\""), "{error}");
    session.disconnect().await.unwrap();

    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let mut session = program.open(&object).await;
    let seen = session.observe(&object).await.unwrap();
    assert_eq!(seen.diff, r#"spec.forProvider.content: not there; spec.forProvider.mode: wanted "0640", found "0600""#);
    session.update(&object).await.unwrap();
    session.disconnect().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hi");

    let mut session = program.open(&object).await;
    session.delete(&object).await.unwrap();
    session.delete(&object).await.expect("removing what is gone is fine");
    assert!(!session.observe(&object).await.unwrap().exists);
    session.disconnect().await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_cannot_be_is_named_by_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::serve(dir.path()).await;
    for (for_provider, field) in [
        (json!({ "path": "../x", "content": "" }), "spec.forProvider.path"),
        (json!({ "path": "/x", "content": "" }), "spec.forProvider.path"),
        (json!({ "path": "x", "mode": "rw" }), "spec.forProvider.mode"),
        (json!({ "path": "x", "mode": "7777" }), "spec.forProvider.mode"),
        (json!({ "path": "x", "content": 5 }), "spec.forProvider.content"),
    ] {
        let object = file(for_provider);
        let mut session = program.open(&object).await;
        let error = session.create(&object, &CreateToken::new("u-1", 1)).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (ErrorClass::Invalid, Some(field)), "{error}");
    }
}

#[tokio::test]
async fn sigterm_ends_it_with_zero() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::serve(dir.path()).await;
    program.connector.discover().await.unwrap();
    let pid = rustix::process::Pid::from_raw(program.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = tokio::time::timeout(Duration::from_secs(5), program.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn exit_codes_are_as_documented() {
    assert_eq!(run(&["version"]).stdout, format!("file {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(run(&["serve", "--listen", "nowhere"]).status.code(), Some(2));
    let missing = run(&["serve", "--listen", "127.0.0.1:0", "--root", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(1));
    let error = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(
        error.lines().last().unwrap(),
        "error: cannot start: cannot open the root \"/nowhere/at/all\": no such file or directory"
    );
}

#[test]
fn the_crd_is_what_it_was() {
    let made = String::from_utf8(run(&["crds"]).stdout).unwrap();
    let kept = include_str!("file.crd.yaml");
    assert!(made == kept, "the CRD changed; if that is meant, write this to tests/file.crd.yaml:\n{made}");
    let json: Value = serde_json::from_slice(&run(&["crds", "-o", "json"]).stdout).unwrap();
    assert_eq!(json[0]["spec"]["versions"][0]["subresources"], json!({ "status": {} }));
}
