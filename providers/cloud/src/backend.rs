//! What the cloud remembers: one file per server.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use concert_provider::ProviderError;
use concert_world::World;
use serde::{Deserialize, Serialize};

use crate::ServerParameters;

/// A created server, as its file holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    /// The id that the cloud gave it.
    pub id: String,
    /// The token of the create that made it; empty if there was none.
    pub token: String,
    /// What it is.
    pub parameters: ServerParameters,
    /// When it becomes visible, in milliseconds since 1970.
    pub visible_at: u64,
}

/// The cloud.
#[derive(Clone, Debug)]
pub struct Backend {
    directory: PathBuf,
    visible_after: Duration,
    world: World,
}

impl Backend {
    /// The cloud that remembers in `directory`.
    #[must_use]
    pub fn new(directory: PathBuf, visible_after: Duration, world: World) -> Self {
        Self { directory, visible_after, world }
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// If it cannot.
    pub fn prepare(&self) -> Result<(), ProviderError> {
        fs::create_dir_all(&self.directory).map_err(|error| failed("make the state directory", &error))
    }

    /// Makes a server; it is on disk before this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(&self, token: &str, parameters: &ServerParameters) -> Result<Server, ProviderError> {
        let visible = self.now() + u64::try_from(self.visible_after.as_millis()).unwrap_or(u64::MAX / 2);
        let server = Server {
            id: format!("srv-{}", self.world.random.text(b"0123456789abcdef", 12)),
            token: token.to_owned(),
            parameters: parameters.clone(),
            visible_at: visible,
        };
        self.store(&server)?;
        Ok(server)
    }

    /// Writes a server as a whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn store(&self, server: &Server) -> Result<(), ProviderError> {
        let early = self.directory.join(format!(".{}", server.id));
        let content = serde_json::to_vec_pretty(server).map_err(|error| ProviderError::other(error.to_string()))?;
        fs::write(&early, content)
            .and_then(|()| fs::rename(&early, self.directory.join(format!("{}.json", server.id))))
            .map_err(|error| failed("store a server", &error))
    }

    /// Removes a server; it may be gone already.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), ProviderError> {
        match fs::remove_file(self.directory.join(format!("{id}.json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove a server", &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The visible server with an id.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn by_id(&self, id: &str) -> Result<Option<Server>, ProviderError> {
        Ok(self.visible()?.into_iter().find(|server| server.id == id))
    }

    /// The visible server that a token made.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn by_token(&self, token: &str) -> Result<Option<Server>, ProviderError> {
        Ok(self.visible()?.into_iter().find(|server| server.token == token))
    }

    /// All servers, visible or not.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn all(&self) -> Result<Vec<Server>, ProviderError> {
        let unreadable = |error: io::Error| failed("read the state", &error);
        let mut servers = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match fs::read(&path) {
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    content => servers.extend(serde_json::from_slice::<Server>(&content.map_err(unreadable)?).ok()),
                }
            }
        }
        servers.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(servers)
    }

    fn visible(&self) -> Result<Vec<Server>, ProviderError> {
        let now = self.now();
        Ok(self.all()?.into_iter().filter(|server| server.visible_at <= now).collect())
    }

    fn now(&self) -> u64 {
        let since = self.world.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

fn failed(verb: &str, error: &io::Error) -> ProviderError {
    ProviderError::unavailable(format!("cannot {verb}: {error}"))
}
