//! Our runtime as a subject: the lines of [`super::protocol`], carried out through its public face.

mod control;
mod queue;
mod read;
mod tally;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use concert_api::Gvk;
use concert_runtime::{Client, Engine, Informers, Metrics, Resource, Source};
use concert_world::World;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::objects::Kind;
use super::protocol::{Reply, Words, line_of};
use queue::Keys;
use read::Pods;
use tally::Tally;

/// What this process has built up so far.
#[derive(Debug)]
struct Subject {
    informers: Informers,
    engine: Engine,
    pods: Option<Arc<Pods>>,
    tally: Arc<Tally>,
    keys: Keys,
    /// How many bytes this process has allocated, if it counts them.
    allocated: Option<fn() -> u64>,
}

/// Carries out the lines of its input until that ends.
///
/// # Errors
/// It cannot begin.
pub fn main(allocated: Option<fn() -> u64>) -> Result<()> {
    // The driver says how many threads there are: TOKIO_WORKER_THREADS.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { tokio::spawn(serve(allocated)).await? })
}

async fn serve(allocated: Option<fn() -> u64>) -> Result<()> {
    let mut subject = Subject::connect(allocated).await?;
    println!("ok");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{}", line_of(subject.obey(&line).await));
    }
    // What runs has no end of its own.
    std::process::exit(0)
}

impl Subject {
    /// Of the server that `KUBECONFIG` names.
    ///
    /// # Errors
    /// It names none.
    async fn connect(allocated: Option<fn() -> u64>) -> Result<Self> {
        let client = Client::connect(&Source::default(), World::real()).await?;
        let informers = Informers::new(client);
        let engine = Engine::new(informers.clone(), Metrics::new());
        engine.go();
        Ok(Self { informers, engine, pods: None, tally: Arc::default(), keys: Keys::default(), allocated })
    }

    /// Carries out one line.
    ///
    /// # Errors
    /// It is not supported, or failed.
    async fn obey(&mut self, line: &str) -> Result<Reply> {
        let mut words = Words::of(line);
        let reply = Reply::default();
        match words.text()? {
            "cache" => {
                // Typed and dynamic readers share one cache of bytes.
                let (kind, _form) = (if words.text()? == "pods" { Kind::Pod } else { Kind::ConfigMap }, words.text()?);
                let (strip, index) = (words.text()?, words.text()?);
                let pods = Pods::cached(&self.informers, kind, strip == "strip", index == "index").await;
                Ok(reply.with("objects", self.pods.insert(Arc::new(pods)).len()))
            }
            "control" => {
                let (workers, micros) = (words.number()?, words.number()?);
                let cache = control::pods(&self.engine, workers, micros, &self.tally).await?;
                Ok(reply.with("objects", self.pods.insert(Arc::new(Pods::of(cache))).len()))
            }
            "share" => control::share(&self.engine, words.number()?, &self.tally).await.map(|()| reply),
            "kinds" => control::kinds(&self.engine, words.number()?, &self.tally).await.map(|()| reply),
            "reconciles" => Ok(self.tally.report()),
            "lists" => {
                let (count, nodes) = (words.number()?, words.number()?);
                let pods = self.pods()?;
                Ok(reply.with("returned", apart(move || pods.lists(count, nodes)).await??))
            }
            "gets" => {
                let (count, pods) = (words.number()?, self.pods()?);
                Ok(reply.with("found", apart(move || pods.gets(count)).await?))
            }
            "keys" => {
                self.keys = Keys::new(words.number()?);
                Ok(reply)
            }
            "queue" => {
                let (through, rounds) = (words.text()?, words.number()?);
                self.keys.pass(through, rounds, &self.engine).await.map(|()| reply)
            }
            "repeat" => {
                self.keys.repeat(words.number()?, words.number()?);
                Ok(reply)
            }
            "allocated" => {
                let allocated = self.allocated.context("unsupported: this program does not count what it allocates")?;
                Ok(reply.with("bytes", allocated()))
            }
            "collect" | "check" => Ok(reply),
            other => bail!("unsupported: {other}"),
        }
    }

    fn pods(&self) -> Result<Arc<Pods>> {
        self.pods.clone().context("there is no cache yet")
    }
}

/// On a thread of its own: the runtime has one alone, and has to keep the cache up to date meanwhile.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().spawn(move || drop(done.send(work()))).context("cannot start a thread")?;
    result.await.context("the thread ended without a result")
}

/// A kind of the load server.
fn resource(kind: Kind) -> Resource {
    let gvk = Gvk::from_api_version(kind.api_version(), &kind.name()).expect("a kind of ours");
    Resource::namespaced(gvk, kind.plural())
}
