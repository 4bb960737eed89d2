//! How many requests an API server answers: the same requests to both, one workload after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::api::Api;
use crate::usage::Usage;

/// Objects that lists return.
pub const LISTED: usize = 5_000;
/// Objects of a page.
const PAGE: usize = 500;
/// How many watch at once.
pub const WATCHERS: usize = 500;
/// How many watches share a connection; a server may allow no more than 100 streams.
const WATCHES_PER_CONNECTION: usize = 50;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/written/deployments";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// How many changes each watcher sees.
const CHANGES: usize = 200;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Creates a ConfigMap of 1 KB.
    Create,
    /// Reads one.
    Get,
    /// Changes a label and a value of one's own.
    MergePatch,
    /// Applies a configuration of 1 KB, one value of which is new.
    Apply,
    /// Applies a Deployment of four containers with another image.
    ApplyDeployment,
    /// Changes the image of one container of a Deployment.
    StrategicPatch,
    /// Lists all [`LISTED`].
    List,
    /// Lists pages of 500, one after the other.
    Page,
}

impl Workload {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Get,
        Self::MergePatch,
        Self::Apply,
        Self::ApplyDeployment,
        Self::StrategicPatch,
        Self::List,
        Self::Page,
    ];

    /// As tables show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create ConfigMap 1 KB",
            Self::Get => "get",
            Self::MergePatch => "merge patch",
            Self::Apply => "apply ConfigMap 1 KB",
            Self::ApplyDeployment => "apply Deployment",
            Self::StrategicPatch => "strategic patch",
            Self::List => "list 5,000",
            Self::Page => "list, limit 500",
        }
    }
}

/// What was seen of one workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// Answers in a second.
    pub per_second: f64,
    /// The median time of an answer, in milliseconds.
    pub median_ms: f64,
    /// 99 of 100 answers took no longer, in milliseconds.
    pub p99_ms: f64,
    /// What an answer took of the server's processors, in microseconds: the load shares them, so that its own cost hides a
    /// part of the difference between two servers.
    pub cpu_us: f64,
}

/// A server under load.
#[derive(Debug)]
pub struct Target {
    clients: Vec<Api>,
    /// Names are used once, over all workloads.
    next: Arc<AtomicU64>,
}

impl Target {
    /// Connects `clients` times, and fills the server with what is read.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn prepare(kubeconfig: &std::path::Path, clients: usize) -> Result<Self> {
        let clients = try_join_all((0..clients).map(|_| Api::connect(kubeconfig))).await?;
        let target = Self { clients, next: Arc::default() };
        for namespace in ["listed", "written"] {
            let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
            target.clients[0].call(Method::POST, "/api/v1/namespaces", body.to_string()).await?;
        }
        let share = LISTED.div_ceil(target.clients.len());
        try_join_all(target.clients.iter().enumerate().map(|(client, api)| async move {
            for number in (client * share..(client + 1) * share).take_while(|number| *number < LISTED) {
                api.call(Method::POST, "/api/v1/namespaces/listed/configmaps", config_map(&format!("m-{number}")))
                    .await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        for (client, api) in target.clients.iter().enumerate() {
            api.call(Method::POST, "/api/v1/namespaces/written/configmaps", config_map(&format!("own-{client}")))
                .await?;
            for name in ["applied", "patched"] {
                let body = deployment(&format!("{name}-{client}"), "image:0");
                api.patch(APPLY, &format!("{DEPLOYMENTS}/{name}-{client}?fieldManager=first"), body).await?;
            }
        }
        Ok(target)
    }

    /// Runs a workload with the first `clients` clients for some time. `server` is the server's process.
    ///
    /// # Errors
    /// The server refuses or goes away.
    pub async fn run(&self, workload: Workload, clients: usize, time: Duration, server: u32) -> Result<Rate> {
        let before = Usage::of(server)?;
        let begin = Instant::now();
        let each = self.clients.iter().take(clients).enumerate();
        let times = try_join_all(each.map(|(client, api)| {
            let (api, next) = (api.clone(), Arc::clone(&self.next));
            let task = tokio::spawn(client_loop(api, workload, client, next, begin + time));
            async move { task.await.context("a client panicked")? }
        }))
        .await?;
        let took = begin.elapsed().as_secs_f64();
        let times = times.concat();
        let count = f64::from(u32::try_from(times.len())?);
        let cpu_us = used_us(before, server)? / count;
        let (median_ms, p99_ms) = middle_and_tail(times);
        Ok(Rate { per_second: count / took, median_ms, p99_ms, cpu_us })
    }

    /// [`WATCHERS`] watch one object while it changes; deliveries in a second, over all watchers. The times are those of the
    /// writer.
    ///
    /// # Errors
    /// The server refuses or goes away.
    pub async fn fan_out(&self, kubeconfig: &std::path::Path, server: u32) -> Result<Rate> {
        let connections =
            try_join_all((0..WATCHERS / WATCHES_PER_CONNECTION).map(|_| Api::connect(kubeconfig))).await?;
        let path = "/api/v1/namespaces/written/configmaps?watch=true&fieldSelector=metadata.name%3Down-0";
        let mut watches = Vec::new();
        for watcher in 0..WATCHERS {
            let mut watch = connections[watcher / WATCHES_PER_CONNECTION].watch(path).await?;
            // The object as it is.
            watch.next().await?;
            watches.push(tokio::spawn(async move {
                for _ in 0..CHANGES {
                    watch.next().await?.context("the watch ended")?;
                }
                anyhow::Ok(())
            }));
        }
        let (before, begin) = (Usage::of(server)?, Instant::now());
        let mut times = Vec::new();
        for change in 0..CHANGES {
            let sent = Instant::now();
            self.patch(0, u64::try_from(change)?).await?;
            times.push(sent.elapsed());
        }
        for watch in watches {
            watch.await??;
        }
        let took = begin.elapsed().as_secs_f64();
        let count = f64::from(u32::try_from(WATCHERS * CHANGES)?);
        let cpu_us = used_us(before, server)? / count;
        let (median_ms, p99_ms) = middle_and_tail(times);
        Ok(Rate { per_second: count / took, median_ms, p99_ms, cpu_us })
    }

    async fn patch(&self, client: usize, number: u64) -> Result<Bytes> {
        self.clients[client].call(Method::PATCH, &own(client), patch(&format!("change-{number}"))).await
    }
}

/// The time that half of them, and that 99 of 100, do not exceed, in milliseconds.
fn middle_and_tail(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    (at(50), at(99))
}

/// What a process has used since then, in microseconds.
fn used_us(before: Usage, process: u32) -> Result<f64> {
    Ok((Usage::of(process)?.cpu - before.cpu).as_secs_f64() * 1e6)
}

/// Sends one request after the other until the end; how long each took.
async fn client_loop(
    api: Api,
    workload: Workload,
    client: usize,
    next: Arc<AtomicU64>,
    end: Instant,
) -> Result<Vec<Duration>> {
    let (mut times, mut page) = (Vec::new(), String::new());
    while Instant::now() < end {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let begin = Instant::now();
        match workload {
            Workload::Create => {
                let body = config_map(&format!("c-{number}"));
                api.call(Method::POST, "/api/v1/namespaces/written/configmaps", body).await?;
            }
            Workload::Get => {
                let path = format!("/api/v1/namespaces/listed/configmaps/m-{}", number % LISTED as u64);
                api.call(Method::GET, &path, "").await?;
            }
            Workload::MergePatch => {
                api.call(Method::PATCH, &own(client), patch(&number.to_string())).await?;
            }
            Workload::Apply => {
                let (name, mine) = (format!("set-{client}"), "?fieldManager=bench&force=true");
                let path = format!("/api/v1/namespaces/written/configmaps/{name}{mine}");
                api.patch(APPLY, &path, changed_map(&name, number)).await?;
            }
            Workload::ApplyDeployment => {
                let name = format!("applied-{client}");
                let path = format!("{DEPLOYMENTS}/{name}?fieldManager=first&force=true");
                api.patch(APPLY, &path, deployment(&name, &format!("image:{number}"))).await?;
            }
            Workload::StrategicPatch => {
                let containers = json!([{ "name": "c-2", "image": format!("image:{number}") }]);
                let body = json!({ "spec": { "template": { "spec": { "containers": containers } } } }).to_string();
                api.patch(STRATEGIC, &format!("{DEPLOYMENTS}/patched-{client}"), body).await?;
            }
            Workload::List => {
                api.call(Method::GET, "/api/v1/namespaces/listed/configmaps", "").await?;
            }
            Workload::Page => {
                let path = format!("/api/v1/namespaces/listed/configmaps?limit={PAGE}&continue={page}");
                page = continue_token(&api.call(Method::GET, &path, "").await?);
            }
        }
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// Where the next page begins. It stands in the first bytes of a list.
fn continue_token(list: &[u8]) -> String {
    let head = String::from_utf8_lossy(&list[..list.len().min(2_000)]).into_owned();
    let token = head.split_once("\"continue\":\"").and_then(|(_, rest)| rest.split_once('"'));
    token.map(|(token, _)| token.to_owned()).unwrap_or_default()
}

fn own(client: usize) -> String {
    format!("/api/v1/namespaces/written/configmaps/own-{client}")
}

fn patch(value: &str) -> String {
    json!({ "metadata": { "labels": { "changed": value } }, "data": { "changed": value } }).to_string()
}

fn changed_map(name: &str, number: u64) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "bench", "tier": "data" } },
        "data": { "text": "x".repeat(900), "number": number.to_string() },
    })
    .to_string()
}

fn deployment(name: &str, image: &str) -> String {
    let container = |number: usize| {
        json!({
            "name": format!("c-{number}"), "image": image, "args": ["--verbose", "--port=80"],
            "ports": [{ "containerPort": 80 + number, "name": "http" }],
            "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
            "resources": { "limits": { "cpu": "1", "memory": "128Mi" } },
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        })
    };
    let containers: Vec<_> = (1..=4).map(container).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": containers, "volumes": [{ "name": "data", "emptyDir": {} }] },
            },
        },
    })
    .to_string()
}

fn config_map(name: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "bench", "tier": "data" } },
        "data": { "text": "x".repeat(900), "name": name },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found() {
        assert_eq!(
            continue_token(br#"{"kind":"L","metadata":{"resourceVersion":"1","continue":"abc"},"items":[]}"#),
            "abc"
        );
        assert_eq!(continue_token(br#"{"metadata":{},"items":[]}"#), "");
    }
}
