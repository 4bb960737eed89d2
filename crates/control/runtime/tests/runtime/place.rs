//! Where a case runs: in process on a paused clock, or over TCP.

use std::time::Duration;

use concert_runtime::{Client, Resource, Source};
use concert_world::World;
use serde_json::json;

use crate::embedded::Server;

/// A server, and how time passes there.
#[derive(Clone)]
pub(crate) enum Place {
    InProcess(Server),
    Tcp(Source),
}

impl Place {
    pub(crate) async fn in_process() -> Self {
        Self::InProcess(Server::new().await)
    }

    /// A world for clients.
    pub(crate) fn world(&self) -> World {
        match self {
            Self::InProcess(_) => World::simulated(1),
            Self::Tcp(_) => World::real(),
        }
    }

    pub(crate) async fn client(&self, world: &World) -> Client {
        match self {
            Self::InProcess(server) => server.client(world),
            Self::Tcp(source) => Client::connect(source, world.clone()).await.unwrap(),
        }
    }

    /// How long nothing has to happen until it is believed that nothing will.
    pub(crate) fn a_while(&self) -> Duration {
        Duration::from_secs(if matches!(self, Self::InProcess(_)) { 60 } else { 3 })
    }
}

/// Makes a namespace, so that nobody else is in the way of a case.
pub(crate) async fn namespace(client: &Client, name: &str) {
    let namespaces = Resource::cluster(concert_api::Gvk::new("", "v1", "Namespace"), "namespaces");
    client.create(&namespaces, &json!({ "metadata": { "name": name } })).await.unwrap();
}
