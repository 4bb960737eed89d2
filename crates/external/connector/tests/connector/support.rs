//! A provider to talk to.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_connector::{Connector, Endpoint};
use concert_external::{Attempt, CreateToken, External, Gvk, Session};
use concert_provider::{
    Changed, ConnectionDetails, Context, Kind, Listen, NamePolicy, Observed, Provider, ProviderError, Ready, Resource,
    Secret,
};
use concert_world::World;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far more than any step takes, far less than a person waits.
pub(crate) const SESSION: Duration = Duration::from_secs(10);

/// A note on a board.
#[derive(Clone, Debug, Kind, JsonSchema, Serialize, Deserialize)]
#[kind(group = "board.example.org", version = "v1")]
pub(crate) struct NoteParameters {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) weight: Option<i64>,
    /// What shall go wrong.
    #[serde(default)]
    pub(crate) fail: Option<String>,
}

#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub(crate) struct NoteObservation {
    pub(crate) length: usize,
}

/// The board, which counts creates and can hold them up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pub(crate) notes: Arc<Mutex<BTreeMap<String, NoteParameters>>>,
    pub(crate) creates: Arc<Mutex<Vec<String>>>,
    pub(crate) slow: Duration,
}

impl Board {
    async fn fail(&self, wanted: &NoteParameters) -> Result<(), ProviderError> {
        match wanted.fail.as_deref() {
            None => Ok(()),
            Some("invalid") => Err(ProviderError::invalid("spec.forProvider.text", "is rude")),
            Some("denied") => Err(ProviderError::denied("the board is locked")),
            Some("unavailable") => Err(ProviderError::unavailable("the board is gone")),
            Some("not-found") => Err(ProviderError::not_found("no pin")),
            Some("conflict") => Err(ProviderError::conflict("the board is being painted")),
            Some("rate") => Err(ProviderError::rate_limited(Duration::from_secs(7), "slow down")),
            Some("other") => Err(ProviderError::other("who knows")),
            Some("lost") => Err(ProviderError::other("no answer").outcome_unknown()),
            Some("panic") => panic!("the pin broke"),
            Some(_) => pending().await,
        }
    }
}

impl Resource for Board {
    type Parameters = NoteParameters;
    type Observation = NoteObservation;

    fn names(&self) -> NamePolicy {
        NamePolicy::Deterministic
    }

    fn consistency_window(&self) -> Duration {
        Duration::from_millis(1500)
    }

    async fn observe(&self, ctx: &mut Context, _: &NoteParameters) -> Result<Observed<NoteObservation>, ProviderError> {
        let Some(note) = self.notes.lock().unwrap().get(ctx.uid()).cloned() else { return Ok(Observed::Absent) };
        ctx.set_external_name(format!("note-{}", ctx.name()));
        Ok(Observed::Present {
            parameters: json!({ "text": note.text, "weight": note.weight }),
            observation: NoteObservation { length: note.text.len() },
            ready: Ready::Yes,
            connection: ConnectionDetails::from([("url".to_owned(), Secret::new("board://1"))]),
        })
    }

    async fn create(&self, ctx: &mut Context, wanted: &NoteParameters) -> Result<Changed, ProviderError> {
        self.creates.lock().unwrap().push(ctx.create_token().unwrap_or("none").to_owned());
        tokio::time::sleep(self.slow).await;
        self.fail(wanted).await?;
        ctx.set_external_name(format!("note-{}", ctx.name()));
        self.notes.lock().unwrap().insert(ctx.uid().to_owned(), wanted.clone());
        Ok(Changed { details: [("pin".to_owned(), "red".to_owned())].into(), ..Changed::default() })
    }

    async fn update(&self, ctx: &mut Context, wanted: &NoteParameters) -> Result<Changed, ProviderError> {
        self.fail(wanted).await?;
        self.notes.lock().unwrap().insert(ctx.uid().to_owned(), wanted.clone());
        Ok(Changed::default())
    }

    async fn delete(&self, ctx: &mut Context, wanted: &NoteParameters) -> Result<Changed, ProviderError> {
        self.fail(wanted).await?;
        self.notes.lock().unwrap().remove(ctx.uid());
        Ok(Changed::default())
    }
}

/// A served board.
pub(crate) struct Served {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn at(path: &Path, board: Board) -> Self {
        let stop = CancellationToken::new();
        let listener = Listen::Unix(path.to_owned()).bind().await.unwrap();
        let provider = Provider::new("board", "1").resource(board);
        let serving = provider.serve(listener, stop.clone());
        Self { stop, task: tokio::spawn(async move { serving.await.unwrap() }) }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// A directory with the path of a socket in it.
pub(crate) fn socket() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("provider.sock");
    (dir, path)
}

pub(crate) fn connector(path: &Path) -> Arc<Connector> {
    Arc::new(Connector::new("board", Endpoint::unix(path), World::real()).unwrap())
}

pub(crate) fn gvk() -> Gvk {
    NoteParameters::gvk()
}

/// The token of the one create that tests speak of.
pub(crate) fn token() -> CreateToken {
    CreateToken::new("u-1", 1)
}

pub(crate) fn attempt(timeout: Duration) -> Attempt {
    Attempt { gvk: gvk(), token: Some(token()), timeout }
}

pub(crate) fn note(for_provider: Value) -> Value {
    json!({
        "apiVersion": "board.example.org/v1",
        "kind": "Note",
        "metadata": { "name": "n", "uid": "u-1", "generation": 3, "resourceVersion": "17", "finalizers": ["f"] },
        "spec": { "forProvider": for_provider, "deletionPolicy": "Delete" },
    })
}

pub(crate) async fn open(connector: &Connector, object: &Value) -> Box<dyn Session> {
    connector.connect(object, attempt(SESSION)).await.map(|connected| connected.session).unwrap()
}
