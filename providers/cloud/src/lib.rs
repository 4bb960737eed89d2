//! A provider for tests, with a backend as hostile as a real cloud.
//!
//! It assigns random ids, shows what it created only after a while, and can be slow before and after a create takes
//! effect, so that a killer hits the window in between. Its servers are files in a directory, one each: what it
//! created survives SIGKILL, and a test counts duplicates by listing the directory.

mod backend;

use std::path::PathBuf;
use std::time::Duration;

use concert_provider::{Changed, Context, Kind, NamePolicy, Observed, Provider, ProviderError, Ready, Resource};
use concert_world::World;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use backend::{Backend, Server};

/// Options of `serve`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The directory that holds the created servers, one file each
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub state: PathBuf,
    /// For how long a created server stays invisible: 3s, 500ms
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub visible_after: Duration,
    /// How long a create waits before and after it takes effect
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub create_delay: Duration,
    /// How long a conversation about a server may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub session_timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    match (number.parse(), unit) {
        (Ok(number), "ms") => Ok(Duration::from_millis(number)),
        (Ok(number), "s") => Ok(Duration::from_secs(number)),
        _ => Err("write a number and ms or s, as in 500ms".to_owned()),
    }
}

/// The provider of a cloud.
#[must_use]
pub fn provider(options: &Options) -> Provider {
    let world = World::real();
    let backend = Backend::new(options.state.clone(), options.visible_after, world.clone());
    let check = backend.clone();
    let &Options { create_delay, visible_after, session_timeout, .. } = options;
    Provider::new("cloud", env!("CARGO_PKG_VERSION"))
        .in_world(world)
        .resource(ServerResource { backend, create_delay, visible_after, session_timeout })
        .on_start(move || check.prepare())
}

/// A server in the cloud.
#[derive(Clone, Debug, Kind, JsonSchema, Serialize, Deserialize)]
#[kind(
    group = "cloud.concert.dev",
    version = "v1alpha1",
    kind = "Server",
    plural = "servers",
    column(name = "ADDRESS", path = ".status.atProvider.address", type = "string")
)]
pub struct ServerParameters {
    /// How large it is.
    pub size: String,
}

/// What is known about a server.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct ServerObservation {
    /// The cloud's id of it.
    pub id: String,
    /// Where it is reached.
    pub address: String,
}

/// The kind Server.
#[derive(Clone, Debug)]
pub struct ServerResource {
    backend: Backend,
    create_delay: Duration,
    visible_after: Duration,
    session_timeout: Duration,
}

impl ServerResource {
    /// By id if it has one that is known, else by the token of its create.
    fn find(&self, ctx: &Context) -> Result<Option<Server>, ProviderError> {
        let by_id = ctx.external_name().map(|id| self.backend.by_id(id)).transpose()?.flatten();
        match (by_id, ctx.create_token()) {
            (None, Some(token)) => self.backend.by_token(token),
            (found, _) => Ok(found),
        }
    }
}

impl Resource for ServerResource {
    type Parameters = ServerParameters;
    type Observation = ServerObservation;

    fn names(&self) -> NamePolicy {
        NamePolicy::SearchedByToken
    }

    fn consistency_window(&self) -> Duration {
        self.visible_after
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.session_timeout)
    }

    async fn observe(
        &self,
        ctx: &mut Context,
        _: &ServerParameters,
    ) -> Result<Observed<ServerObservation>, ProviderError> {
        let Some(server) = self.find(ctx)? else { return Ok(Observed::Absent) };
        ctx.set_external_name(&server.id);
        let observation = ServerObservation { address: format!("{}.servers.invalid", server.id), id: server.id };
        Ok(Observed::present(json!(server.parameters), observation, Ready::Yes))
    }

    async fn create(&self, ctx: &mut Context, wanted: &ServerParameters) -> Result<Changed, ProviderError> {
        tokio::time::sleep(self.create_delay).await;
        let server = self.backend.create(ctx.create_token().unwrap_or_default(), wanted)?;
        tokio::time::sleep(self.create_delay).await;
        ctx.set_external_name(server.id);
        Ok(Changed::default())
    }

    async fn update(&self, ctx: &mut Context, wanted: &ServerParameters) -> Result<Changed, ProviderError> {
        let server = self.find(ctx)?.ok_or_else(|| ProviderError::not_found("the server does not exist"))?;
        self.backend.store(&Server { parameters: wanted.clone(), ..server })?;
        Ok(Changed::default())
    }

    async fn delete(&self, ctx: &mut Context, _: &ServerParameters) -> Result<Changed, ProviderError> {
        if let Some(server) = self.find(ctx)? {
            self.backend.remove(&server.id)?;
        }
        Ok(Changed::default())
    }
}
