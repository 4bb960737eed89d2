//! The processes that are measured.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use concert_e2e::{ControlPlane, Embedded, Process, Reference, Scratch, environment};
use tokio::time::Instant;

use crate::usage::Usage;

/// How long a part may take to say that it is ready.
const START: Duration = Duration::from_secs(30);
/// The directory of the file provider, in the control plane's.
const ROOT: &str = "files";
/// How many syncs are timed.
const SYNCS: usize = 50;

/// Which control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// `concert serve`, durable, each commit synced.
    Embedded,
    /// The real kube-apiserver with etcd, each write synced.
    Reference,
}

impl Server {
    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Reference => "reference",
        }
    }
}

/// A control plane, the file provider and the reconciler, each a process. They end when this is dropped.
#[derive(Debug)]
pub struct Rig {
    // In the order in which they are to end.
    perf: Vec<Process>,
    reconciler: Process,
    provider: Process,
    /// The control plane.
    pub plane: ControlPlane,
    /// Where the reconciler's metrics are.
    pub metrics: String,
    server: Server,
}

impl Rig {
    /// Starts everything on an empty store.
    ///
    /// # Errors
    /// The kinds cannot be applied.
    ///
    /// # Panics
    /// When a process does not start; the message has its logs.
    pub fn start(server: Server, serve_flags: &[String], reconciler_flags: &[String]) -> Result<Self> {
        let plane = match server {
            Server::Embedded => {
                let plain = Embedded::new(environment::binary("concert"));
                ControlPlane::embedded_with(serve_flags.iter().fold(plain, Embedded::argument))
            }
            Server::Reference => {
                let binary = environment::reference_apiserver().map_err(|missing| anyhow!("{missing}"))?;
                ControlPlane::reference_with(Reference::new(binary).fsync())
            }
        };
        let directory = plane.directory();
        let root = directory.join(ROOT);
        fs::create_dir(&root)?;
        let mut command = Command::new(environment::binary("concert-provider-file"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(&root);
        let provider = Process::spawn("provider", command, directory);
        let ready = provider.wait_for_line("ready ", START);
        let metrics = free_address()?;
        let mut command = Command::new(environment::binary("managed-reconciler"));
        command
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            .arg(format!("--provider-endpoint={}", &ready["ready ".len()..]))
            .arg(format!("--metrics-bind-address={metrics}"))
            .args(["--leader-election=false", "--poll-interval=10m", "--health-probe-bind-address=0"])
            .args(reconciler_flags);
        let reconciler = Process::spawn("reconciler", command, directory);
        let crds = Command::new(environment::binary("concert-provider-file")).arg("crds").output()?;
        plane.kubectl().apply_stdin(&String::from_utf8(crds.stdout)?).result().map_err(|error| anyhow!(error))?;
        let established = ["wait", "crd/files.file.concert.dev", "--for=condition=Established", "--timeout=30s"];
        plane.kubectl().run(&established).result().map_err(|error| anyhow!(error))?;
        Ok(Self { perf: Vec::new(), reconciler, provider, plane, metrics, server })
    }

    /// What each process has used.
    ///
    /// # Errors
    /// One of them has ended.
    pub fn usage(&self) -> Result<Vec<(&'static str, Usage)>> {
        self.pids()?.into_iter().map(|(name, pid)| Ok((name, Usage::of(pid)?))).collect()
    }

    fn pids(&self) -> Result<[(&'static str, u32); 3]> {
        for process in [&self.reconciler, &self.provider] {
            if let Some(exit) = process.exit() {
                bail!("a process ended with {exit}\n{process}");
            }
        }
        let (server, plane) = (self.server, self.plane.pid().context("the control plane has ended")?);
        let plane_name = if server == Server::Embedded { "concert serve" } else { "kube-apiserver + etcd" };
        Ok([
            (plane_name, plane),
            ("managed-reconciler", self.reconciler.pid()),
            ("concert-provider-file", self.provider.pid()),
        ])
    }

    /// How many files are on disk: what is Ready must be there, what is gone must not.
    ///
    /// # Errors
    /// The provider's directory is gone: somebody else removed it.
    pub fn files_on_disk(&self) -> Result<usize> {
        let root = self.plane.directory().join(ROOT);
        Ok(fs::read_dir(&root).with_context(|| format!("cannot list {}", root.display()))?.count())
    }

    /// Starts `perf record` on each process, with the results in `directory`.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn profile(&mut self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        for (name, pid) in self.pids()? {
            let file = directory.join(format!("{}.{}.data", self.server.name(), name.replace(' ', "-")));
            let mut command = Command::new("perf");
            // The binaries have no frame pointers.
            command
                .args(["record", "-F", "199", "--call-graph", "dwarf,16384", "-p", &pid.to_string(), "-o"])
                .arg(file);
            self.perf.push(Process::spawn(&format!("perf-{pid}"), command, self.plane.directory()));
        }
        Ok(())
    }

    /// Ends what [`profile`](Self::profile) started.
    pub fn end_profile(&mut self) {
        for perf in self.perf.drain(..) {
            perf.interrupt();
            perf.wait(START);
        }
    }
}

/// The median time that the disk of temporary files takes to keep a small write.
///
/// # Errors
/// It cannot be written.
pub fn fsync_time() -> Result<Duration> {
    use std::io::Write;
    let scratch = Scratch::new("fsync");
    let mut file = fs::File::create(scratch.path().join("file"))?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begin = Instant::now();
        file.write_all(&[0; 512])?;
        file.sync_all()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[SYNCS / 2])
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
