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

use super::objects::Kind;
use super::protocol::{Reply, Words};
use queue::Keys;
use read::Pods;
use tally::Tally;

/// What this process has built up so far.
#[derive(Debug)]
pub struct Subject {
    informers: Informers,
    engine: Engine,
    pods: Option<Pods>,
    tally: Arc<Tally>,
    keys: Keys,
}

impl Subject {
    /// Of the server that `KUBECONFIG` names.
    ///
    /// # Errors
    /// It names none.
    pub async fn connect() -> Result<Self> {
        let client = Client::connect(&Source::default(), World::real()).await?;
        let informers = Informers::new(client);
        let engine = Engine::new(informers.clone(), Metrics::new());
        engine.go();
        Ok(Self { informers, engine, pods: None, tally: Arc::default(), keys: Keys::default() })
    }

    /// Carries out one line.
    ///
    /// # Errors
    /// It is not supported, or failed.
    pub async fn obey(&mut self, line: &str) -> Result<Reply> {
        let mut words = Words::of(line);
        let reply = Reply::default();
        match words.text()? {
            "cache" => {
                // Typed and dynamic readers share one cache of bytes.
                let (_form, strip, index) = (words.text()?, words.text()?, words.text()?);
                let pods = Pods::cached(&self.informers, strip == "strip", index == "index").await;
                Ok(reply.with("objects", self.pods.insert(pods).len()))
            }
            "control" => {
                let (workers, micros) = (words.number()?, words.number()?);
                let cache = control::pods(&self.engine, workers, micros, &self.tally).await?;
                Ok(reply.with("objects", self.pods.insert(Pods::of(cache)).len()))
            }
            "kinds" => control::kinds(&self.engine, words.number()?, &self.tally).await.map(|()| reply),
            "reconciles" => Ok(self.tally.report()),
            "lists" => {
                let (count, nodes) = (words.number()?, words.number()?);
                self.pods()?.lists(count, nodes).map(|returned| reply.with("returned", returned))
            }
            "gets" => Ok(reply.with("found", self.pods()?.gets(words.number()?))),
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
            "collect" | "check" => Ok(reply),
            other => bail!("unsupported: {other}"),
        }
    }

    fn pods(&self) -> Result<&Pods> {
        self.pods.as_ref().context("there is no cache of Pods yet")
    }
}

/// A kind of the load server.
fn resource(kind: Kind) -> Resource {
    let gvk = Gvk::from_api_version(kind.api_version(), &kind.name()).expect("a kind of ours");
    Resource::namespaced(gvk, kind.plural())
}
