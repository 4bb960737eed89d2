//! The main job, from `kubectl apply` to Ready and back, through the built binaries and unmodified kubectl.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use concert_e2e::{
    Actor, ControlPlane, Exit, Kubectl, Process, Reconciler, Stopwatch, definitions, eventually, on_both_servers, pause,
};

/// Generous: what should take milliseconds may take seconds on a busy machine, but not longer.
const SOON: Duration = Duration::from_secs(30);
/// Every object is looked at this often, give or take a tenth.
const POLL: Duration = Duration::from_secs(2);
/// What a pass and the look at its result may take on a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

/// A control plane with two providers and a reconciler.
struct Scene<'a> {
    kubectl: &'a Kubectl,
    files: Actor,
    root: PathBuf,
    cloud: Actor,
    reconciler: Actor,
}

impl<'a> Scene<'a> {
    fn new(server: &'a ControlPlane) -> Self {
        let directory = server.directory();
        let kubectl = server.kubectl();
        let (files, root) = Actor::file_provider(directory);
        let cloud = Actor::provider("cloud", "concert-provider-cloud", directory)
            .argument("--state")
            .argument(directory.join("cloud"))
            .argument("--visible-after=0s");
        cloud.start();
        let reconciler = Reconciler::new().provider("file", server).provider("cloud", server).start(server);
        // Definitions may come after their controllers' process.
        let definitions = definitions("concert-provider-file") + &definitions("concert-provider-cloud");
        kubectl.apply_stdin(&definitions).ok();
        kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        Self { kubectl, files, root, cloud, reconciler }
    }

    /// Applies a File and waits until it is Ready, as a person would.
    fn file(&self, name: &str, content: &str, more: &str) -> PathBuf {
        self.kubectl.apply_stdin(&file(name, content, more)).ok();
        let object = format!("file/{name}");
        let met = self.kubectl.ok(&["wait", "--for=condition=Ready", &object, "--timeout=30s"]);
        assert_eq!(met, format!("file.file.concert.dev/{name} condition met\n"));
        self.kubectl.ok(&["wait", "--for=condition=Synced", &object, "--timeout=30s"]);
        let path = self.root.join(format!("{name}.txt"));
        assert_eq!(read(&path).as_deref(), Some(content));
        path
    }

    /// Status, reason and message of a File's condition.
    fn condition(&self, name: &str, condition: &str) -> Result<[String; 3], String> {
        let filter = format!(".status.conditions[?(@.type==\"{condition}\")]");
        let query = format!("--output=jsonpath={{{filter}.status}}|{{{filter}.reason}}|{{{filter}.message}}");
        let text = self.kubectl.run(&["get", "file", name, &query]).result()?;
        let mut parts = text.splitn(3, '|').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Ok([next(), next(), next()])
    }

    /// Waits until a condition has a status and a reason; gives back its message.
    #[track_caller]
    fn wait_for(&self, name: &str, condition: &str, status: &str, reason: &str) -> String {
        let what = format!("{condition}={status} ({reason}) of {name}");
        eventually(&what, SOON, || match self.condition(name, condition)? {
            [is, why, message] if is == status && why == reason => Ok(message),
            other => Err(format!("{other:?}")),
        })
    }
}

fn file(name: &str, content: &str, more: &str) -> String {
    format!(
        r#"
apiVersion: file.concert.dev/v1alpha1
kind: File
metadata: {{name: {name}}}
spec:
  {more}
  forProvider: {{path: {name}.txt, content: "{content}"}}
"#
    )
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[track_caller]
fn wait_for_content(path: &Path, content: &str) -> Duration {
    let took = Stopwatch::start();
    eventually(&format!("{content:?} in {}", path.display()), SOON, || match read(path) {
        Some(text) if text == content => Ok(took.elapsed()),
        other => Err(format!("{other:?}")),
    })
}

#[track_caller]
fn wait_until_gone(kubectl: &Kubectl, object: &str) {
    eventually(&format!("the end of {object}"), SOON, || match kubectl.run(&["get", object]) {
        output if output.stderr.contains("NotFound") => Ok(()),
        output => Err(output.stdout + &output.stderr),
    });
}

#[track_caller]
fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
}

fn an_object_becomes_real_and_stays_so(server: &ControlPlane) {
    let scene = Scene::new(server);
    let kubectl = scene.kubectl;
    let watch = kubectl.spawn(&["get", "files", "--watch"]);

    let took = Stopwatch::start();
    let path = scene.file("hello", "one", "");
    println!("applied, waited for and read after {:.0?}", took.elapsed());
    let held = kubectl.ok(&["get", "file", "hello", "--output=jsonpath={.metadata.finalizers[*]}"]);
    assert_eq!(held, "finalizer.managedresource.crossplane.io");

    let took = Stopwatch::start();
    kubectl.ok(&["patch", "file", "hello", "--type=merge", "-p", r#"{"spec":{"forProvider":{"content":"two"}}}"#]);
    wait_for_content(&path, "two");
    println!("patched, and on disk, after {:.0?}", took.elapsed());

    // Only when it is settled again is it the poll that repairs, not the rest of the same pass.
    let settled =
        "--output=jsonpath={.metadata.generation} {.status.conditions[?(@.type==\"Synced\")].observedGeneration}";
    eventually("a settled object", SOON, || match kubectl.ok(&["get", "file", "hello", settled]).split_once(' ') {
        Some((wanted, observed)) if wanted == observed => Ok(()),
        other => Err(format!("{other:?}")),
    });
    pause(Duration::from_millis(300));
    fs::write(&path, "by hand").expect("a writable file");
    let repaired = wait_for_content(&path, "two");
    println!("a change by hand was repaired after {repaired:.1?} (poll interval {POLL:?})");
    assert!(repaired < POLL.mul_f64(1.1) + SLACK, "repaired after {repaired:?}, with a poll interval of {POLL:?}");
    fs::remove_file(&path).expect("a removable file");
    wait_for_content(&path, "two");

    what_kubectl_shows(&scene, &watch);
    a_dead_provider_hurts_only_its_own(&scene, &path);
    paused_is_untouched(&scene, &path);
    deleted_is_gone(&scene, &path);
    assert_eq!(scene.reconciler.stop(), Exit::Code(0), "asked to stop, it does");
}

/// What a person reads.
fn what_kubectl_shows(scene: &Scene<'_>, watch: &Process) {
    let kubectl = scene.kubectl;
    let table = kubectl.ok(&["get", "files"]);
    assert_contains(&table, &["NAME", "SYNCED", "READY", "EXTERNAL-NAME", "PATH", "SIZE", "AGE"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..4], ["hello", "True", "True", "hello.txt"], "{table}");
    let is_ready = |line: &str| line.split_whitespace().take(3).eq(["hello", "True", "True"]);
    eventually("the watch's last row", SOON, || match watch.stdout() {
        shown if shown.contains("SYNCED") && shown.lines().any(is_ready) => Ok(()),
        shown => Err(shown),
    });
    assert_eq!(watch.exit(), None, "the watch goes on");

    let described = eventually("events in describe", SOON, || match kubectl.ok(&["describe", "file", "hello"]) {
        text if text.contains("UpdatedExternalResource") => Ok(text),
        text => Err(text),
    });
    assert_contains(
        &described,
        &[
            "Conditions:",
            "Type:",
            "Synced",
            "ReconcileSuccess",
            "Ready",
            "Available",
            "At Provider:",
            "Events:",
            "CreatedExternalResource",
            "Successfully requested creation of external resource",
        ],
    );
    let events = kubectl.ok(&["events", "--for=file/hello"]);
    assert_contains(
        &events,
        &["LAST SEEN", "Normal", "CreatedExternalResource", "UpdatedExternalResource", "File/hello"],
    );
}

/// Synced says so in words; another provider's objects go on; all is well when it is back.
fn a_dead_provider_hurts_only_its_own(scene: &Scene<'_>, path: &Path) {
    let kubectl = scene.kubectl;
    scene.files.kill9();
    let message = scene.wait_for("hello", "Synced", "False", "ReconcileError");
    println!("without its provider: {message}");
    assert_contains(&message, &["provider \"file\"", "not reachable"]);
    for technical in ["rpc error", "os error", "transport error", "status:", "Unavailable"] {
        assert!(!message.contains(technical), "{technical:?} is no word for people: {message}");
    }
    let table = kubectl.ok(&["get", "files"]);
    assert_contains(&table, &["False"]);
    let events = eventually("an event", SOON, || match kubectl.ok(&["events", "--for=file/hello"]) {
        text if text.contains("Warning") => Ok(text),
        text => Err(text),
    });
    assert_contains(&events, &["CannotConnectToProvider", "provider \"file\""]);

    kubectl.ok(&["patch", "file", "hello", "--type=merge", "-p", r#"{"spec":{"forProvider":{"content":"three"}}}"#]);
    let other = "
apiVersion: cloud.concert.dev/v1alpha1
kind: Server
metadata: {name: other}
spec: {forProvider: {size: small}}
";
    kubectl.apply_stdin(other).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "server/other", "--timeout=30s"]);
    kubectl.ok(&["delete", "server", "other", "--timeout=30s"]);
    assert_eq!(scene.reconciler.exit(), None);
    assert_eq!(read(path).as_deref(), Some("two"));

    scene.files.start();
    println!("the provider's objects were right {:.1?} after its start", wait_for_content(path, "three"));
    scene.wait_for("hello", "Synced", "True", "ReconcileSuccess");
    scene.wait_for("hello", "Ready", "True", "Available");
}

fn paused_is_untouched(scene: &Scene<'_>, path: &Path) {
    let kubectl = scene.kubectl;
    kubectl.ok(&["annotate", "file", "hello", "crossplane.io/paused=true"]);
    scene.wait_for("hello", "Synced", "False", "ReconcilePaused");
    fs::write(path, "by hand").expect("a writable file");
    pause(POLL * 2 + POLL / 2);
    assert_eq!(read(path).as_deref(), Some("by hand"), "paused, and touched");
    kubectl.ok(&["annotate", "file", "hello", "crossplane.io/paused-"]);
    wait_for_content(path, "three");
    scene.wait_for("hello", "Synced", "True", "ReconcileSuccess");
}

fn deleted_is_gone(scene: &Scene<'_>, path: &Path) {
    let kubectl = scene.kubectl;
    let deleted = kubectl.ok(&["delete", "file", "hello", "--timeout=30s"]);
    assert_contains(&deleted, &["\"hello\" deleted"]);
    wait_until_gone(kubectl, "file/hello");
    assert!(!path.exists());

    // A deletion waits for a provider that is down.
    let path = scene.file("waits", "here", "");
    scene.files.kill9();
    kubectl.ok(&["delete", "file", "waits", "--wait=false"]);
    scene.wait_for("waits", "Synced", "False", "ReconcileError");
    pause(POLL);
    let going =
        kubectl.ok(&["get", "file", "waits", "--output=jsonpath={.metadata.deletionTimestamp} {.metadata.finalizers}"]);
    assert_contains(&going, &["Z ", "finalizer.managedresource.crossplane.io"]);
    assert!(path.exists());
    scene.files.start();
    wait_until_gone(kubectl, "file/waits");
    assert!(!path.exists());

    // Orphan: the object goes, the file stays.
    let path = scene.file("orphan", "stays", "deletionPolicy: Orphan");
    kubectl.ok(&["delete", "file", "orphan", "--timeout=30s"]);
    wait_until_gone(kubectl, "file/orphan");
    pause(Duration::from_millis(500));
    assert_eq!(read(&path).as_deref(), Some("stays"));
    assert_eq!(scene.cloud.exit(), None);
}

on_both_servers!(an_object_becomes_real_and_stays_so);
