//! The two servers behind one face.

mod embedded;
mod reference;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use embedded::Embedded;
pub use reference::{Reference, free_port};

use crate::{Api, Exit, Kubectl, Process, Scratch, environment};

/// How long a server may take to stop when asked. The real one lets open watches end first.
const STOP: Duration = Duration::from_secs(90);

/// A running Kubernetes API, with its data in a directory that goes when this is dropped.
///
/// All methods take `&self`, so that some threads can write while another one kills.
#[derive(Debug)]
pub struct ControlPlane {
    server: Server,
    kubectl: Kubectl,
    process: Mutex<Option<Process>>,
    /// The real server's controllers.
    controllers: Mutex<Option<Process>>,
    // Last: what runs in it is dropped before.
    scratch: Scratch,
}

#[derive(Debug)]
enum Server {
    Embedded(Embedded),
    Reference(Reference),
}

impl ControlPlane {
    /// Starts `concert serve` from [`environment::binary`].
    ///
    /// # Panics
    /// When it does not get ready; the message has its logs.
    #[must_use]
    #[track_caller]
    pub fn embedded() -> Self {
        Self::embedded_with(Embedded::new(environment::binary("concert")))
    }

    /// The same with other options.
    ///
    /// # Panics
    /// When it does not get ready; the message has its logs.
    #[must_use]
    #[track_caller]
    pub fn embedded_with(options: Embedded) -> Self {
        Self::start_first(Server::Embedded(options), Scratch::new("embedded"))
    }

    /// Starts the real kube-apiserver. It has no controllers ([`start_controllers`](Self::start_controllers) starts some):
    /// no default service accounts, no garbage collection, and a deleted namespace stays `Terminating`.
    ///
    /// # Panics
    /// When it does not get ready; the message has its logs.
    #[must_use]
    #[track_caller]
    pub fn reference() -> Self {
        let binary = environment::reference_apiserver().unwrap_or_else(|missing| panic!("{missing}"));
        Self::reference_with(Reference::new(binary))
    }

    /// The same with other options.
    ///
    /// # Panics
    /// When it does not get ready; the message has its logs.
    #[must_use]
    #[track_caller]
    pub fn reference_with(options: Reference) -> Self {
        Self::start_first(Server::Reference(options), Scratch::new("reference"))
    }

    #[track_caller]
    fn start_first(server: Server, scratch: Scratch) -> Self {
        let kubectl = Kubectl::new(&kubeconfig_in(&scratch));
        let plane = Self { server, kubectl, process: Mutex::new(None), controllers: Mutex::new(None), scratch };
        plane.start();
        plane
    }

    /// Starts it again after [`kill9`](Self::kill9) or [`stop`](Self::stop): same data, same address.
    ///
    /// # Panics
    /// When it does not get ready; the message has its logs.
    #[track_caller]
    pub fn start(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the server runs already");
        let directory = self.scratch.path();
        *process = Some(match &self.server {
            Server::Embedded(embedded) => embedded.start(directory, &self.kubeconfig()),
            Server::Reference(reference) => reference.start(directory, &self.kubeconfig(), &self.kubectl),
        });
    }

    /// Starts `binary`, a kube-controller-manager, beside the real server: garbage is collected, namespaces end, and
    /// each gets its service account and the authority's certificate. They end with the server.
    ///
    /// # Panics
    /// When this is not the real server, or they do not start.
    #[track_caller]
    pub fn start_controllers(&self, binary: &Path) {
        assert!(self.is_reference(), "the embedded server is its own controller manager");
        *self.controllers() = Some(reference::start_controllers(binary, self.scratch.path(), &self.kubeconfig()));
    }

    /// Stops it if it runs, and starts it again: same data, same address.
    ///
    /// # Panics
    /// When it does not stop or does not get ready; the message has its logs.
    #[track_caller]
    pub fn restart(&self) {
        if self.process().is_some() {
            self.stop();
        }
        self.start();
    }

    /// Asks it to stop (SIGTERM), and waits until it has.
    ///
    /// # Panics
    /// When it does not run, or does not stop in time.
    #[track_caller]
    pub fn stop(&self) -> Exit {
        let process = self.process().take().expect("the server runs");
        drop(self.controllers().take());
        process.terminate();
        process.wait(STOP)
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    #[track_caller]
    pub fn kill9(&self) {
        drop(self.controllers().take());
        self.process().take().expect("the server runs").kill9();
    }

    /// The admin's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.scratch)
    }

    /// kubectl for this server.
    #[must_use]
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Plain requests to this server.
    ///
    /// # Panics
    /// When the kubeconfig cannot be read.
    #[must_use]
    #[track_caller]
    pub fn api(&self) -> Api {
        Api::new(&self.kubectl)
    }

    /// The server's process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// Whether this is the real server.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(self.server, Server::Reference(_))
    }

    /// A directory for whatever else a test starts; its logs are kept with the server's when the test fails.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn controllers(&self) -> MutexGuard<'_, Option<Process>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kubeconfig_in(scratch: &Scratch) -> PathBuf {
    scratch.path().join("kubeconfig")
}

/// Runs a test body on a fresh embedded server, or says why it cannot.
#[track_caller]
pub fn on_embedded(body: fn(&ControlPlane)) {
    match environment::kubectl() {
        Ok(_) => body(&ControlPlane::embedded()),
        Err(missing) => missing.skip(),
    }
}

/// Runs a test body on a fresh real server, or says why it cannot.
#[track_caller]
pub fn on_reference(body: fn(&ControlPlane)) {
    match environment::kubectl().and_then(|_| environment::reference_apiserver()) {
        Ok(_) => body(&ControlPlane::reference()),
        Err(missing) => missing.skip(),
    }
}
