//! `concert up --example`: what a person sees in the first minute.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use concert_e2e::{
    ControlPlane, Exit, Kubectl, Process, Scratch, Stopwatch, environment, eventually, free_port, on_reference_only,
    pause,
};

const SOON: Duration = Duration::from_secs(30);
/// The promise, kept in about a tenth of it on an idle machine.
const FAST: Duration = Duration::from_secs(1);
/// By our clock, which also waits for the process and for its output.
const SEEN: Duration = Duration::from_secs(3);

/// A home of its own: data, and a directory for sockets.
struct Home(Scratch);

impl Home {
    fn new() -> Self {
        let home = Self(Scratch::new("up"));
        fs::create_dir(home.run()).expect("a directory");
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where sockets go.
    fn run(&self) -> PathBuf {
        self.path().join("run")
    }

    /// Where data goes if nobody says otherwise.
    fn data(&self) -> PathBuf {
        self.path().join("share/concert")
    }

    fn up(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(environment::binary("concert"));
        command
            .args(["up", "--example"])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.run())
            .env("XDG_DATA_HOME", self.path().join("share"))
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        Process::spawn("up", command, self.path())
    }

    /// Processes whose command line names this home.
    fn processes(&self) -> Vec<String> {
        let home = self.path().display().to_string();
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let command_lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let text = command_lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        text.filter(|line| line.contains(&home)).collect()
    }

    /// Signals the process of this home whose command line contains `what`.
    fn signal(&self, what: &str, signal: &str) {
        let home = self.path().display().to_string();
        let is_it = |line: &str| line.contains(&home) && line.contains(what);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let found = entries.filter(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            is_it(&String::from_utf8_lossy(&line).replace('\0', " "))
        });
        for entry in found {
            let pid = entry.file_name();
            let sent = Command::new("kill").arg(format!("-{signal}")).arg(&pid).status();
            assert!(sent.is_ok_and(|sent| sent.success()), "kill -{signal} {pid:?}");
        }
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_eq!(self.processes(), [""; 0], "no process is left");
        let left: Vec<_> = fs::read_dir(self.run()).expect("a directory").flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "no socket is left: {left:?}");
    }
}

/// Waits until a line ends with `end`, and gives it back.
#[track_caller]
fn wait_for(up: &Process, end: &str) -> String {
    eventually(&format!("a line that ends with {end:?}"), SOON, || {
        let text = up.stdout();
        if let Some(exit) = up.exit() {
            panic!("it ended with {exit}\n{up}");
        }
        text.lines().find(|line| line.ends_with(end)).map(str::to_owned).ok_or(text)
    })
}

/// The time that a line begins with.
fn seconds(line: &str) -> Duration {
    let text = line.trim_start().split('s').next().unwrap_or_default();
    Duration::from_secs_f64(text.parse().unwrap_or_else(|_| panic!("no time in {line:?}")))
}

#[track_caller]
fn assert_in_order(text: &str, steps: &[&str]) {
    let mut rest = text;
    for step in steps {
        match rest.find(step) {
            Some(at) => rest = &rest[at + step.len()..],
            None => panic!("{step:?} is missing (or too early) in\n{text}"),
        }
    }
}

const READY: &str = "File hello Ready=True (Available)";

#[test]
fn one_command_shows_it_all_and_finds_it_again() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let home = Home::new();
    let took = Stopwatch::start();
    let up = home.up(&["--listen=127.0.0.1:0"]);
    let ready = wait_for(&up, READY);
    let (told, seen) = (seconds(&ready), took.elapsed());
    println!("first start: Ready after {told:.0?} by its own clock, {seen:.0?} by ours");
    assert!(told < FAST && seen < SEEN, "Ready after {told:?}, seen after {seen:?}");
    wait_for(&up, "the next start finds it again.");
    assert_eq!(up.stderr(), "", "nothing disturbs the first minute");
    let shown = up.stdout();
    assert_in_order(
        &shown,
        &[
            "control plane ready at https://127.0.0.1:",
            "provider file started",
            "reconciler started",
            "CustomResourceDefinition files.file.concert.dev created",
            "File hello created",
            READY,
            "In another terminal:",
            "export KUBECONFIG=",
            "kubectl get files",
            "kubectl describe file hello",
            "Ctrl-C stops everything",
        ],
    );
    let file = home.data().join("files/hello.txt");
    assert!(shown.contains(&format!("cat {}", file.display())), "{shown}");
    assert_eq!(fs::read_to_string(&file).expect("the example's file"), "Hello from Concert.\n");
    // What it says to type works.
    let kubeconfig = shown.split("export KUBECONFIG=").nth(1).and_then(|rest| rest.lines().next()).expect("a path");
    let kubectl = Kubectl::new(Path::new(kubeconfig));
    let row = kubectl.ok(&["get", "files", "--no-headers"]);
    assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["hello", "True", "True"], "{row}");
    kubectl.ok(&[
        "patch",
        "file",
        "hello",
        "--type=merge",
        "-p",
        r#"{"spec":{"forProvider":{"content":"changed\n"}}}"#,
    ]);
    let is_changed = || match fs::read_to_string(&file) {
        Ok(text) if text == "changed\n" => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the change on disk", SOON, is_changed);
    assert!(!home.processes().is_empty(), "a provider runs, and names its root");

    up.interrupt();
    up.assert_exit(Exit::Code(0), SOON);
    home.assert_nothing_is_left();
    assert!(up.stdout().ends_with("stopped\n"), "{}", up.stdout());
    assert!(!up.stderr().contains("ERROR") && !up.stderr().contains("error:"), "{}", up.stderr());

    // The second start, on the same data; this time it ends by itself.
    let took = Stopwatch::start();
    let again = home.up(&["--listen=127.0.0.1:0", "--exit-when-ready"]);
    again.assert_exit(Exit::Code(0), SOON);
    let shown = again.stdout();
    assert_in_order(
        &shown,
        &["CustomResourceDefinition files.file.concert.dev found again", "File hello found again", READY],
    );
    println!("second start: Ready and ended after {:.0?}", took.elapsed());
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "changed\n");
    home.assert_nothing_is_left();

    // Killed, it leaves nobody behind, and what it had is found again.
    let killed = home.up(&["--listen=127.0.0.1:0"]);
    wait_for(&killed, READY);
    killed.kill9();
    eventually("the provider's end", SOON, || match home.processes() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
    let last = home.up(&["--listen=127.0.0.1:0", "--exit-when-ready"]);
    last.assert_exit(Exit::Code(0), SOON);
    assert_in_order(&last.stdout(), &["File hello found again", READY]);
    // What a kill had to leave is swept by the next start.
    home.assert_nothing_is_left();

    // What an earlier run wrote down is not taken for true.
    fs::write(&file, "by hand").expect("a writable file");
    let last = home.up(&["--listen=127.0.0.1:0", "--exit-when-ready"]);
    last.assert_exit(Exit::Code(0), SOON);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "changed\n");
}

#[test]
fn in_memory_leaves_nothing_at_all() {
    let home = Home::new();
    let up = home.up(&["--listen=127.0.0.1:0", "--in-memory", "--exit-when-ready"]);
    up.assert_exit(Exit::Code(0), SOON);
    assert_in_order(&up.stdout(), &["File hello created", READY, "stopped"]);
    home.assert_nothing_is_left();
    assert!(!home.data().exists());
}

/// The first Ctrl-C lets everybody finish; the second one waits for nobody.
#[test]
fn who_asks_twice_does_not_wait() {
    let home = Home::new();
    let up = home.up(&["--listen=127.0.0.1:0"]);
    wait_for(&up, READY);
    let line = home.processes().into_iter().find(|line| line.contains("provider file")).expect("a provider");
    home.signal("provider file", "STOP");
    up.interrupt();
    pause(Duration::from_millis(500));
    assert_eq!(up.exit(), None, "it waits for {line}");
    up.interrupt();
    up.assert_exit(Exit::Code(1), Duration::from_secs(3));
    assert!(up.stderr().contains("stopped at once, as told twice"), "{}", up.stderr());
    eventually("the provider's end", SOON, || match home.processes() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// What cannot be used is found before anything is said to have started.
#[test]
fn a_cluster_that_is_not_there_is_told() {
    let home = Home::new();
    let kubeconfig = home.path().join("kubeconfig");
    let server = format!("https://127.0.0.1:{}", free_port());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    );
    fs::write(&kubeconfig, text).expect("a writable directory");
    let up = home.up(&["--kubeconfig", &kubeconfig.display().to_string()]);
    up.assert_exit(Exit::Code(3), SOON);
    assert!(up.stderr().contains("cannot use the cluster; check --kubeconfig"), "{}", up.stderr());
    assert!(!up.stdout().contains("found"), "{}", up.stdout());
}

fn the_same_on_another_cluster(server: &ControlPlane) {
    let home = Home::new();
    let kubeconfig = server.kubeconfig().display().to_string();
    let took = Stopwatch::start();
    let up = home.up(&["--kubeconfig", &kubeconfig]);
    wait_for(&up, READY);
    println!("on a real cluster: Ready after {:.1?}", took.elapsed());
    assert_in_order(&up.stdout(), &["cluster found", "File hello created", READY]);
    let file = home.data().join("files/hello.txt");
    assert!(file.exists());
    let row = server.kubectl().ok(&["get", "files", "--no-headers"]);
    assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["hello", "True", "True"], "{row}");
    up.interrupt();
    up.assert_exit(Exit::Code(0), SOON);
    home.assert_nothing_is_left();
    assert!(file.exists(), "what is outside stays");
    let again = home.up(&["--kubeconfig", &kubeconfig, "--exit-when-ready"]);
    again.assert_exit(Exit::Code(0), SOON);
    assert_in_order(&again.stdout(), &["File hello found again", READY]);
    home.assert_nothing_is_left();
}

on_reference_only!(the_same_on_another_cluster);
