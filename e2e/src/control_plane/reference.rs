//! The real kube-apiserver, with etcd in the same process, and on demand the real kube-controller-manager.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::patience::Deadline;
use crate::{Kubectl, Process};

/// How long it may take to answer: 4 s on an idle machine, and ours are rarely idle.
const START: Duration = Duration::from_secs(120);

/// How often we ask.
const POLL: Duration = Duration::from_millis(100);

/// The bearer token of its only user. It guards a loopback port for the length of a test.
const TOKEN: &str = "concert-e2e";

/// The controllers whose work belongs to an API server in our eyes: garbage, namespaces, service accounts, roles.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
                           root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";

/// How to start the real kube-apiserver.
#[derive(Debug)]
pub struct Reference {
    binary: PathBuf,
    arguments: Vec<String>,
    port: u16,
    fsync: bool,
}

impl Reference {
    /// `binary` on a free loopback port.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn new(binary: PathBuf) -> Self {
        Self { binary, arguments: Vec::new(), port: free_port(), fsync: false }
    }

    /// On this port instead.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Lets its etcd sync every write, as etcd does by default: for measurements.
    #[must_use]
    pub fn fsync(mut self) -> Self {
        self.fsync = true;
        self
    }

    /// Adds a flag of kube-apiserver.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    #[track_caller]
    pub(super) fn start(&self, directory: &Path, kubeconfig: &Path, kubectl: &Kubectl) -> Process {
        if !kubeconfig.is_file() {
            self.write_files(directory, kubeconfig).unwrap_or_else(|error| {
                panic!("cannot prepare {}: {error}", directory.display());
            });
        }
        let process = Process::spawn("kube-apiserver", self.command(directory), directory);
        wait_until_ready(&process, kubectl);
        process
    }

    /// Keys, tokens and the admin's kubeconfig.
    fn write_files(&self, directory: &Path, kubeconfig: &Path) -> std::io::Result<()> {
        let key = rcgen::KeyPair::generate().map_err(std::io::Error::other)?;
        fs::write(directory.join("service-account.key"), key.serialize_pem())?;
        fs::write(directory.join("service-account.pub"), key.public_key_pem())?;
        // Named as the administrator of `concert serve`, so that both say the same of who asks.
        fs::write(directory.join("tokens.csv"), format!("{TOKEN},concert-admin,,system:masters\n"))?;
        // The server signs this certificate when it starts first; the file holds its authority too.
        let authority = directory.join("certificates/apiserver.crt");
        let text = format!(
            r#"apiVersion: v1
kind: Config
clusters:
- name: reference
  cluster:
    server: https://127.0.0.1:{}
    certificate-authority: {}
users:
- name: admin
  user:
    token: {TOKEN}
contexts:
- name: reference
  context:
    cluster: reference
    user: admin
current-context: reference
"#,
            self.port,
            authority.display()
        );
        fs::write(kubeconfig, text)
    }

    fn command(&self, directory: &Path) -> Command {
        let file = |name: &str| directory.join(name).display().to_string();
        let mut command = Command::new(&self.binary);
        command
            .arg(directory.join("data"))
            .arg(format!("--cert-dir={}", file("certificates")))
            .arg(format!("--secure-port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .args(["--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"])
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", file("service-account.pub")))
            .arg(format!("--service-account-signing-key-file={}", file("service-account.key")))
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .args(["--authorization-mode=RBAC", "--anonymous-auth=false", "--allow-privileged"])
            // Without a controller manager there are no service accounts, and pods would be refused.
            .arg("--disable-admission-plugins=ServiceAccount")
            // Watches do not hold up its end.
            .args(["--shutdown-delay-duration=0s", "--shutdown-watch-termination-grace-period=0s"])
            .args(&self.arguments)
            // A killed process loses nothing that it gave to the kernel: only a power cut needs the sync.
            .env("REFERENCE_ETCD_NO_FSYNC", if self.fsync { "0" } else { "1" })
            .stdin(Stdio::null());
        command
    }
}

/// Starts the controllers. They need no waiting for: tests wait for what they do.
#[track_caller]
pub(super) fn start_controllers(binary: &Path, directory: &Path, kubeconfig: &Path) -> Process {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut command = Command::new(binary);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--controllers={CONTROLLERS}"))
        .arg(format!("--service-account-private-key-file={}", file("service-account.key")))
        .arg(format!("--root-ca-file={}", file("certificates/apiserver.crt")))
        .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"])
        .args(["--concurrent-namespace-syncs=10", "--concurrent-gc-syncs=10"])
        .stdin(Stdio::null());
    Process::spawn("kube-controller-manager", command, directory)
}

#[track_caller]
fn wait_until_ready(process: &Process, kubectl: &Kubectl) {
    let deadline = Deadline::after(START);
    loop {
        let answer = kubectl.run(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
        if answer.code == Some(0) {
            return;
        }
        if let Some(exit) = process.exit() {
            panic!("kube-apiserver ended with {exit} before it was ready\n{process}");
        }
        assert!(deadline.wait(POLL), "kube-apiserver is not ready after {START:?}: {}\n{process}", answer.stderr);
    }
}

/// A port that was free a moment ago.
///
/// # Panics
/// When there is none.
#[must_use]
#[track_caller]
pub fn free_port() -> u16 {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.unwrap_or_else(|error| panic!("cannot find a free port: {error}")).port()
}
