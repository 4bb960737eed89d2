//! kube-rs as a subject: the same lines as the others (`bench/src/runtime/protocol.rs`), carried out by `Controller`,
//! `reflector` and `Store` with their defaults.

mod control;
mod queue;
mod read;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use tokio::io::{AsyncBufReadExt, BufReader};

use control::Tally;

/// What this process has built up so far.
struct Subject {
    /// How many bytes this process has allocated, if it counts them.
    allocated: Option<fn() -> u64>,
    client: Client,
    pods: Option<Store<Pod>>,
    maps: Option<Store<ConfigMap>>,
    objects: Option<Store<DynamicObject>>,
    tally: Arc<Tally>,
    keys: queue::Keys,
}

/// Carries out the lines of its input until that ends.
pub fn main(allocated: Option<fn() -> u64>) -> Result<()> {
    // The driver says how many threads there are: TOKIO_WORKER_THREADS.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { tokio::spawn(serve(allocated)).await? })
}

async fn serve(allocated: Option<fn() -> u64>) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_default().await.context("KUBECONFIG does not lead to a server")?;
    let keys = queue::Keys::default();
    let mut subject = Subject { allocated, client, pods: None, maps: None, objects: None, tally: Arc::default(), keys };
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
            ["cache", "maps", "typed", strip, _index] => {
                let store = read::cached(Api::<ConfigMap>::all(self.client.clone()), (), *strip == "strip").await?;
                let count = store.len();
                self.maps = Some(store);
                Ok(format!("objects={count}"))
            }
            ["cache", "pods", "typed", strip, _index] => {
                let store = read::cached(Api::<Pod>::all(self.client.clone()), (), *strip == "strip").await?;
                let count = store.len();
                self.pods = Some(store);
                Ok(format!("objects={count}"))
            }
            ["cache", "pods", "dynamic", strip, _index] => {
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
            ["share", ..] => {
                control::share(&self.client, number(1)?, &self.tally).await?;
                Ok(String::new())
            }
            ["reconciles"] => Ok(self.tally.report()),
            ["lists", _, _, "shared"] => {
                let (pods, count, nodes) = (self.pods.clone().context("no cache")?, number(1)?, number(2)?);
                Ok(format!("returned={}", apart(move || read::lists(&pods, count, nodes)).await?))
            }
            ["gets", _] => {
                let (pods, count) = (self.pods.clone().context("no cache")?, number(1)?);
                Ok(format!("found={}", apart(move || read::gets(&pods, count)).await?))
            }
            ["keys", _] => {
                self.keys = queue::Keys::new(number(1)?);
                Ok(String::new())
            }
            ["queue", "controller", _] => {
                for _ in 0..number(2)? {
                    self.keys.pass().await?;
                }
                Ok(String::new())
            }
            ["repeat", ..] => {
                self.keys.repeat(number(1)?, number(2)?).await?;
                Ok(String::new())
            }
            ["allocated"] => {
                let allocated = self.allocated.context("unsupported: this program does not count what it allocates")?;
                Ok(format!("bytes={}", allocated()))
            }
            ["collect" | "check"] => Ok(String::new()),
            _ => Err(anyhow!("unsupported: {line}")),
        }
    }
}

/// On a thread of its own: the runtime has one alone, and has to keep the store up to date meanwhile.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().spawn(move || drop(done.send(work())))?;
    Ok(result.await?)
}

/// A custom kind of the load server.
fn kind(number: usize) -> ApiResource {
    let name = format!("Kind{number:03}");
    let plural = format!("{}s", name.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("bench.concert.dev", "v1", &name), &plural)
}
