//! Many Files at once: created, all Ready, all gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::api::{self, Api, Lines};
use crate::report::{Process, Report, Requests};
use crate::rig::{self, Rig, Server};
use crate::scrape::{self, Counts};
use crate::usage::Usage;

const FILES: &str = "/apis/file.concert.dev/v1alpha1/files";
/// Requests at a time.
const CONCURRENCY: usize = 32;
/// How often progress is shown.
const PROGRESS: Duration = Duration::from_secs(2);
/// A reconciler that has sent nothing for so long has sent everything.
const QUIET: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// On which control plane.
    pub server: Server,
    /// How many Files.
    pub objects: usize,
    /// Where profiles go, if there shall be any.
    pub profile: Option<&'a Path>,
    /// Further flags of `concert serve`.
    pub serve_flags: &'a [String],
    /// Further flags of the reconciler.
    pub reconciler_flags: &'a [String],
}

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    object: Seen,
}

#[derive(Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Seen {
    fn is_ready(&self) -> bool {
        let is_true = |kind: &str| self.status.conditions.iter().any(|one| one.kind == kind && one.status == "True");
        is_true("Ready") && is_true("Synced")
    }
}

impl Load<'_> {
    /// How long each half may take.
    fn limit(&self) -> Duration {
        Duration::from_secs(if self.objects <= 1000 { 300 } else { 1200 })
    }

    /// Starts everything, measures, and stops everything.
    ///
    /// # Errors
    /// Something failed or took too long; the message says what.
    pub fn run(&self) -> Result<Report> {
        self.say("starting");
        let fsync = rig::fsync_time()?;
        let mut rig = Rig::start(self.server, self.serve_flags, self.reconciler_flags)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut report = runtime.block_on(self.measure(&mut rig))?;
        report.fsync_us = fsync.as_secs_f64() * 1e6;
        Ok(report)
    }

    fn say(&self, text: &str) {
        eprintln!("{} {}: {text}", self.server.name(), self.objects);
    }

    async fn measure(&self, rig: &mut Rig) -> Result<Report> {
        let api = Api::connect(&rig.plane.kubeconfig()).await?;
        self.warm_up(&api).await?;
        let mut watch = Watch::start(&api).await?;
        self.quiet(rig).await?;
        if let Some(directory) = self.profile {
            rig.profile(directory)?;
            sleep(Duration::from_secs(1)).await;
        }
        let before = Moment::take(rig, &api, self.server).await?;

        let begin = Instant::now();
        let creating = async {
            self.each(|name| {
                let api = api.clone();
                async move { api.call(Method::POST, FILES, file(&name)).await }
            })
            .await?;
            Ok::<_, anyhow::Error>(begin.elapsed())
        };
        let (created, ready) = tokio::try_join!(creating, self.wait(&mut watch, "Ready", begin))?;
        self.say(&format!(
            "all Ready after {:.2} s (created after {:.2} s)",
            ready.as_secs_f64(),
            created.as_secs_f64()
        ));
        let at_ready = rig.usage()?;
        let settled = self.quiet(rig).await?.saturating_duration_since(begin);
        let after = Moment::take(rig, &api, self.server).await?;
        rig.end_profile();

        self.check_disk(rig, self.objects)?;
        let before_deletion = Moment::take(rig, &api, self.server).await?;
        let begin = Instant::now();
        let deleting = self.each(|name| {
            let api = api.clone();
            async move { api.call(Method::DELETE, &format!("{FILES}/{name}"), Bytes::new()).await }
        });
        let ((), gone) = tokio::try_join!(deleting, self.wait(&mut watch, "gone", begin))?;
        self.say(&format!("all gone after {:.2} s", gone.as_secs_f64()));
        self.quiet(rig).await?;
        self.check_disk(rig, 0)?;
        let end = Moment::take(rig, &api, self.server).await?;

        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 objects")]
        let objects = self.objects as f64;
        Ok(Report {
            server: self.server.name(),
            objects: self.objects,
            fsync_us: 0.0,
            created_seconds: created.as_secs_f64(),
            ready_seconds: ready.as_secs_f64(),
            ready_per_second: objects / ready.as_secs_f64(),
            settled_seconds: settled.as_secs_f64(),
            gone_seconds: gone.as_secs_f64(),
            to_ready: before.requests(&after, self.objects),
            to_gone: before_deletion.requests(&end, self.objects),
            processes: processes(&before.usage, &at_ready, &end.usage),
            client_cpu_seconds: (after.client.cpu - before.client.cpu).as_secs_f64(),
        })
    }

    /// A time to Ready counts only if Ready was true.
    fn check_disk(&self, rig: &Rig, expected: usize) -> Result<()> {
        match rig.files_on_disk()? {
            found if found == expected => Ok(()),
            found => bail!("{found} files are on disk, not {expected}: the figures of this run are void"),
        }
    }

    /// One object through its whole life, so that every controller runs and every connection is there.
    async fn warm_up(&self, api: &Api) -> Result<()> {
        let mut watch = Watch::start(api).await?;
        api.call(Method::POST, FILES, file("warm")).await?;
        let life = async {
            while !watch.next().await?.object.is_ready() {}
            api.call(Method::DELETE, &format!("{FILES}/warm"), Bytes::new()).await?;
            while watch.next().await?.kind != "DELETED" {}
            Ok(())
        };
        timeout(Duration::from_secs(60), life).await.context("the first File is not Ready and gone after 60 s")?
    }

    async fn each<F, A>(&self, act: F) -> Result<()>
    where
        F: Fn(String) -> A,
        A: Future<Output = Result<Bytes>>,
    {
        let names = (0..self.objects).map(|number| format!("file-{number:05}"));
        futures::stream::iter(names).map(act).buffer_unordered(CONCURRENCY).try_for_each(|_| async { Ok(()) }).await
    }

    /// Waits until the watch has shown every object Ready, or gone.
    async fn wait(&self, watch: &mut Watch, what: &str, begin: Instant) -> Result<Duration> {
        let mut done = BTreeSet::new();
        let mut next_progress = begin + PROGRESS;
        let waiting = async {
            while done.len() < self.objects {
                let frame = watch.next().await?;
                if frame.kind == "DELETED" || (what == "Ready" && frame.object.is_ready()) {
                    done.insert(frame.object.metadata.name);
                }
                if Instant::now() >= next_progress {
                    next_progress += PROGRESS;
                    self.say(&format!("{} {what} after {:.0} s", done.len(), begin.elapsed().as_secs_f64()));
                }
            }
            Ok(begin.elapsed())
        };
        match timeout(self.limit(), waiting).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let limit = self.limit().as_secs();
                Err(anyhow!("only {} of {} Files are {what} after {limit} s", done.len(), self.objects))
            }
        }
    }

    /// Waits until the reconciler sends no more requests; gives when it sent the last.
    async fn quiet(&self, rig: &Rig) -> Result<Instant> {
        let limit = Instant::now() + self.limit();
        let mut last = Counts::new();
        let mut since = Instant::now();
        loop {
            let now = scrape::client_requests(&api::page(&rig.metrics, "/metrics").await?);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() >= QUIET {
                return Ok(since);
            }
            if Instant::now() > limit {
                bail!("the reconciler still sends requests after {} s", self.limit().as_secs());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn file(name: &str) -> String {
    json!({
        "apiVersion": "file.concert.dev/v1alpha1", "kind": "File", "metadata": {"name": name},
        "spec": {"forProvider": {"path": format!("{name}.txt"), "content": format!("This is {name}.\n")}},
    })
    .to_string()
}

/// A watch of all Files, from now. A server may end a watch at any time (the real one does when it takes up a changed
/// definition), so it goes on where it was.
struct Watch {
    api: Api,
    lines: Lines,
    from: String,
}

impl Watch {
    async fn start(api: &Api) -> Result<Self> {
        let list: Value = serde_json::from_slice(&api.call(Method::GET, &format!("{FILES}?limit=1"), "").await?)?;
        let metadata: Metadata = serde_json::from_value(list["metadata"].clone())?;
        let from = metadata.resource_version;
        Ok(Self { api: api.clone(), lines: Self::lines(api, &from).await?, from })
    }

    async fn lines(api: &Api, from: &str) -> Result<Lines> {
        api.watch(&format!("{FILES}?watch=true&resourceVersion={from}&timeoutSeconds=3000")).await
    }

    async fn next(&mut self) -> Result<Frame> {
        let line = loop {
            match self.lines.next().await? {
                Some(line) => break line,
                None => {
                    eprintln!("the watch has ended; it goes on from {}", self.from);
                    self.lines = Self::lines(&self.api, &self.from).await?;
                }
            }
        };
        let frame: Frame = serde_json::from_slice(&line)
            .with_context(|| format!("unexpected watch frame {}", String::from_utf8_lossy(&line)))?;
        if frame.kind == "ERROR" {
            bail!("the watch failed: {}", String::from_utf8_lossy(&line));
        }
        self.from.clone_from(&frame.object.metadata.resource_version);
        Ok(frame)
    }
}

/// All counters at one time.
struct Moment {
    usage: Vec<(&'static str, Usage)>,
    client: Usage,
    reconciler: Counts,
    reconciles: Counts,
    server: Option<Counts>,
}

impl Moment {
    async fn take(rig: &Rig, api: &Api, server: Server) -> Result<Self> {
        let page = api::page(&rig.metrics, "/metrics").await?;
        let answered = match server {
            Server::Embedded => None,
            Server::Reference => {
                let page = api.call(Method::GET, "/metrics", "").await?;
                Some(scrape::apiserver_requests(std::str::from_utf8(&page)?))
            }
        };
        Ok(Self {
            usage: rig.usage()?,
            client: Usage::of(std::process::id())?,
            reconciler: scrape::client_requests(&page),
            reconciles: scrape::reconciles(&page),
            server: answered,
        })
    }

    fn requests(&self, after: &Self, objects: usize) -> Requests {
        let server = self.server.as_ref().zip(after.server.as_ref());
        Requests {
            reconciler: scrape::growth(&self.reconciler, &after.reconciler, objects),
            server: server.map(|(before, after)| scrape::growth(before, after, objects)),
            reconciles: scrape::growth(&self.reconciles, &after.reconciles, objects),
        }
    }
}

fn processes(
    before: &[(&'static str, Usage)],
    at_ready: &[(&'static str, Usage)],
    end: &[(&'static str, Usage)],
) -> Vec<Process> {
    let each = before.iter().zip(at_ready).zip(end);
    each.map(|((before, at_ready), end)| Process {
        name: before.0,
        cpu_seconds: (at_ready.1.cpu - before.1.cpu).as_secs_f64(),
        cpu_seconds_deletion: (end.1.cpu - at_ready.1.cpu).as_secs_f64(),
        idle_bytes: before.1.memory,
        peak_bytes: end.1.peak,
    })
    .collect()
}
