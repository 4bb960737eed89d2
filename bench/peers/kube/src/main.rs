//! kube-rs as a subject: the same lines as the others (`bench/src/runtime/protocol.rs`), carried out by `Controller`,
//! `reflector` and `Store` with their defaults.

mod control;
mod queue;
mod read;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use tokio::io::{AsyncBufReadExt, BufReader};

use control::Tally;

/// What this process has built up so far.
struct Subject {
    client: Client,
    pods: Option<Store<Pod>>,
    objects: Option<Store<DynamicObject>>,
    tally: Arc<Tally>,
    keys: queue::Keys,
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async { tokio::spawn(serve()).await? })
}

async fn serve() -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_default().await.context("KUBECONFIG does not lead to a server")?;
    let (pods, objects, tally, keys) = (None, None, Arc::default(), queue::Keys::default());
    let mut subject = Subject { client, pods, objects, tally, keys };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ok");
    while let Some(line) = lines.next_line().await? {
        match subject.obey(&line).await {
            Ok(reply) => println!("ok {reply}"),
            Err(error) => println!("error {}", format!("{error:#}").replace('\n', " ")),
        }
    }
    // What runs has no end of its own.
    std::process::exit(0)
}

impl Subject {
    async fn obey(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| -> Result<usize> {
            let word: &str = words.get(at).copied().unwrap_or_default();
            word.parse().with_context(|| format!("word {at} of \"{line}\" is not a number"))
        };
        match words.as_slice() {
            ["cache", "typed", strip, _index] => {
                let store = read::cached(Api::<Pod>::all(self.client.clone()), (), *strip == "strip").await?;
                let count = store.len();
                self.pods = Some(store);
                Ok(format!("objects={count}"))
            }
            ["cache", "dynamic", strip, _index] => {
                let resource = ApiResource::erase::<Pod>(&());
                let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
                let store = read::cached(api, resource, *strip == "strip").await?;
                let count = store.len();
                self.objects = Some(store);
                Ok(format!("objects={count}"))
            }
            ["control", ..] => {
                let store = control::pods(&self.client, number(1)?, number(2)?, &self.tally).await?;
                let count = store.len();
                self.pods = Some(store);
                Ok(format!("objects={count}"))
            }
            ["kinds", ..] => {
                control::kinds(&self.client, number(1)?, &self.tally).await?;
                Ok(format!("kinds={}", number(1)?))
            }
            ["reconciles"] => Ok(self.tally.report()),
            ["lists", _, _, "shared"] => {
                let pods = self.pods.as_ref().context("no cache")?;
                Ok(format!("returned={}", read::lists(pods, number(1)?, number(2)?)))
            }
            ["gets", _] => Ok(format!("found={}", read::gets(self.pods.as_ref().context("no cache")?, number(1)?))),
            ["keys", _] => {
                self.keys = queue::Keys::new(number(1)?);
                Ok(String::new())
            }
            ["queue", "controller", _] => {
                for _ in 0..number(2)? {
                    self.keys.pass().await;
                }
                Ok(String::new())
            }
            ["collect" | "check"] => Ok(String::new()),
            _ => Err(anyhow!("unsupported: {line}")),
        }
    }
}

/// A custom kind of the load server.
fn kind(number: usize) -> ApiResource {
    let name = format!("Kind{number:03}");
    let plural = format!("{}s", name.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("bench.concert.dev", "v1", &name), &plural)
}
