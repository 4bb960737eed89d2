//! The embedded API server, and clients of it.

use concert_runtime::Client;
use concert_world::World;

/// Clones are the same server. It lives in a world of its own: its clients die without it.
#[derive(Clone)]
pub(crate) struct Server(concert_apiserver::Server);

impl Server {
    pub(crate) async fn new() -> Self {
        Self(concert_apiserver::Server::in_memory(World::simulated(0)).await)
    }

    pub(crate) fn service(&self) -> concert_apiserver::Server {
        self.0.clone()
    }

    pub(crate) fn client(&self, world: &World) -> Client {
        Client::in_process(self.0.clone(), world.clone())
    }
}
