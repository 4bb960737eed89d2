//! The cloud provider as a supervised process: killed, restarted, stopped, and never left behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use concert_connector::{Connector, ProviderCommand, ProviderProcess, State, SuperviseError};
use concert_external::{Attempt, CreateToken, Dispatch, ErrorClass, External, Gvk, NamePolicy, Session};
use concert_provider_cloud::{Backend, Server};
use concert_world::World;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const BINARY: &str = env!("CARGO_BIN_EXE_concert-provider-cloud");

/// A loaded machine gets more than the second that things take.
const SOON: Duration = Duration::from_secs(8);

/// Set for the process that plays the parent which is killed.
const PARENT: &str = "CONCERT_TEST_PARENT";

struct House {
    dir: tempfile::TempDir,
    connector: Arc<Connector>,
    pid: watch::Receiver<Option<u32>>,
    cancel: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

fn command(dir: &Path, options: &[&str]) -> ProviderCommand {
    let mut command = ProviderCommand::new("cloud", BINARY, dir.join("run/cloud.sock")).inherit(std::env::vars_os());
    command.options = vec!["--state".into(), dir.join("state").into()];
    command.options.extend(options.iter().map(Into::into));
    command
}

impl House {
    async fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = ProviderProcess::new(command(dir.path(), options), World::real());
        let connector = Arc::new(Connector::new("cloud", process.endpoint(), World::real()).unwrap());
        let (cancel, pid) = (CancellationToken::new(), process.pid());
        let run = process.run(cancel.clone());
        let tasks = vec![
            tokio::spawn(async move { run.await.unwrap() }),
            tokio::spawn(Arc::clone(&connector).run(cancel.clone())),
        ];
        Self { dir, connector, pid, cancel, tasks }
    }

    async fn connected(&self, after: Option<u64>) -> u64 {
        let mut state = self.connector.state();
        let newer = |state: &State| matches!(state, State::Connected { generation, .. } if Some(*generation) > after);
        match &*tokio::time::timeout(SOON, state.wait_for(newer)).await.expect("it connects soon").unwrap() {
            State::Connected { generation, .. } => *generation,
            State::Disconnected { reason } => panic!("{reason}"),
            State::Unknown => panic!("nobody has asked"),
        }
    }

    fn pid(&self) -> Pid {
        let pid = self.pid.borrow().expect("it runs");
        Pid::from_raw(pid.cast_signed()).unwrap()
    }

    async fn open(&self) -> Box<dyn Session> {
        let attempt = Attempt { gvk: gvk(), token: Some(token()), timeout: SOON };
        self.connector.connect(&server(), attempt).await.map(|connected| connected.session).unwrap()
    }

    fn servers(&self) -> Vec<Server> {
        Backend::new(self.dir.path().join("state"), Duration::ZERO, World::real()).all().unwrap()
    }

    async fn stop(self) -> PathBuf {
        self.cancel.cancel();
        for task in self.tasks {
            tokio::time::timeout(SOON, task).await.expect("it stops soon").unwrap();
        }
        self.dir.path().join("run/cloud.sock")
    }
}

fn token() -> CreateToken {
    CreateToken::new("u-1", 1)
}

fn gvk() -> Gvk {
    Gvk::new("cloud.concert.dev", "v1alpha1", "Server")
}

fn server() -> Value {
    json!({
        "apiVersion": "cloud.concert.dev/v1alpha1", "kind": "Server",
        "metadata": { "name": "s", "uid": "u-1" },
        "spec": { "forProvider": { "size": "small" } },
    })
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{what} does not happen"));
}

fn is_gone(pid: Pid) -> bool {
    // A process that nobody waited for yet is a zombie, which is as good as gone.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || stat.contains(") Z ")
}

#[tokio::test]
async fn a_provider_killed_in_mid_create_leaves_an_unknown_outcome_and_one_server() {
    let house = House::new(&["--visible-after", "700ms", "--create-delay", "300ms"]).await;
    let first = house.connected(None).await;
    {
        let state = house.connector.state();
        let State::Connected { discovery, .. } = state.borrow().clone() else { unreachable!() };
        let kind = discovery.kind(&gvk()).unwrap();
        assert_eq!(kind.names, NamePolicy::SearchedByToken);
        assert_eq!(kind.consistency_window, Duration::from_millis(700));
    }
    let mut session = house.open().await;
    let object = server();
    let token = token();
    let (outcome, ()) = tokio::join!(session.create(&object, &token), async {
        until("the create's effect", || !house.servers().is_empty()).await;
        kill_process(house.pid(), Signal::KILL).unwrap();
    });
    let error = outcome.unwrap_err();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Unavailable, Dispatch::Unknown));
    assert!(error.message.ends_with("was lost before it answered"), "{error}");
    session.disconnect().await.unwrap();

    house.connected(Some(first)).await;
    until("visibility", || {
        let now = World::real().clock.now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        now > u128::from(house.servers()[0].visible_at)
    })
    .await;
    let mut session = house.open().await;
    let seen = session.observe(&server()).await.unwrap();
    assert!(seen.exists && seen.up_to_date, "what the token created is found");
    let id = house.servers()[0].id.clone();
    assert_eq!(seen.object.unwrap()["metadata"]["annotations"]["crossplane.io/external-name"], json!(id));
    assert_eq!(house.servers().len(), 1);
    session.delete(&server()).await.unwrap();
    session.disconnect().await.unwrap();
    assert!(house.servers().is_empty());
    house.stop().await;
}

#[tokio::test]
async fn a_created_server_is_invisible_at_first() {
    let house = House::new(&["--visible-after", "60s"]).await;
    house.connected(None).await;
    let mut session = house.open().await;
    let made = session.create(&server(), &token()).await.unwrap().object.unwrap();
    session.disconnect().await.unwrap();
    let mut session = house.open().await;
    assert!(!session.observe(&made).await.unwrap().exists);
    assert_eq!(house.servers().len(), 1);
    // The session is still open: it does not keep the provider from stopping.
    house.stop().await;
}

#[tokio::test]
async fn a_killed_provider_is_noticed_and_started_again_and_stops_when_told() {
    let house = House::new(&[]).await;
    let first = house.connected(None).await;
    let pid = house.pid();
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
    for variable in environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()) {
        let name = String::from_utf8_lossy(variable.split(|byte| *byte == b'=').next().unwrap()).into_owned();
        assert!(["PATH", "HOME", "TMPDIR"].contains(&name.as_str()), "{name} was inherited");
    }
    kill_process(pid, Signal::KILL).unwrap();
    house.connected(Some(first)).await;
    assert_ne!(house.pid(), pid);
    let pid = house.pid();
    let socket = house.stop().await;
    assert!(is_gone(pid));
    assert!(!socket.exists());
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let missing = ProviderCommand::new("x", "/nowhere/at/all", dir.path().join("run/x.sock"));
    let error = ProviderProcess::new(missing, World::real()).run(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, SuperviseError::Spawn { .. }), "{error}");
    assert_eq!(error.to_string(), "cannot start provider \"x\" (\"/nowhere/at/all\")");

    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let public = ProviderCommand::new("x", BINARY, open.join("x.sock"));
    let error = ProviderProcess::new(public, World::real()).run(CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("others can reach it (mode 0755)"), "{error}");
}

/// Plays the parent that is killed, when started by the test below.
#[tokio::test]
async fn parent() {
    let Some(dir) = std::env::var_os(PARENT) else { return };
    let process = ProviderProcess::new(command(Path::new(&dir), &[]), World::real());
    let mut pid = process.pid();
    tokio::spawn(process.run(CancellationToken::new()));
    let running = *pid.wait_for(Option::is_some).await.unwrap();
    println!("\npid {}", running.unwrap());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_provider_does_not_outlive_a_parent_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent", "--nocapture"])
        .env(PARENT, dir.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(parent.stdout.take().unwrap()).lines();
    let pid = loop {
        let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
        if let Some(pid) = line.strip_prefix("pid ") {
            break Pid::from_raw(pid.parse().unwrap()).unwrap();
        }
    };
    let socket = dir.path().join("run/cloud.sock");
    until("the provider's socket", || socket.exists()).await;
    assert!(!is_gone(pid));
    parent.kill().await.unwrap();
    until("the provider's end", || is_gone(pid)).await;
    until("the socket's removal", || !socket.exists()).await;
}
