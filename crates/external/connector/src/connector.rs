//! The connector of one provider.

use std::sync::Arc;
use std::time::Duration;

use concert_external::{Attempt, BoxFuture, Connected, ErrorClass, External, ExternalError, Gvk};
use concert_protocol::external::DiscoveryRequest;
use concert_protocol::external::external_service_client::ExternalServiceClient;
use concert_protocol::health::HealthCheckRequest;
use concert_protocol::health::health_check_response::ServingStatus;
use concert_protocol::health::health_client::HealthClient;
use concert_protocol::{MAX_MESSAGE_BYTES, features};
use concert_world::World;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::fault::{Fault, Peer};
use crate::line::Line;
use crate::session::{Conversation, Opening, SESSIONS};
use crate::trail::{Observed, Trail};
use crate::{DiscoverError, Discovery, Endpoint, EndpointError};

/// How long Discover may take.
const DISCOVER: Duration = Duration::from_secs(30);

/// How long after a failed attempt the next one is made, at first and at most: a provider that comes back is noticed
/// within a second.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(800);
const JITTER: f64 = 0.2;

/// How often a provider whose connection lives is asked again: it may hang, or drive other kinds by now.
const PROBE: Duration = Duration::from_secs(30);

/// Whether a provider is there.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Nobody has asked it yet.
    Unknown,
    /// It answers.
    Connected {
        /// What it drives.
        discovery: Arc<Discovery>,
        /// Rises with each new connection, so that a restart between two looks is seen.
        generation: u64,
    },
    /// It does not.
    Disconnected {
        /// Why, for people.
        reason: String,
    },
}

/// Reaches the external resources of one provider.
#[derive(Debug)]
pub struct Connector {
    peer: Peer,
    endpoint: Endpoint,
    line: Line,
    world: World,
    state: watch::Sender<State>,
    places: Arc<Semaphore>,
}

impl Connector {
    /// A connector to the provider called `name`. Nothing is sent before it is needed.
    ///
    /// # Errors
    /// If TLS cannot be set up for the endpoint.
    pub fn new(name: impl Into<String>, endpoint: Endpoint, world: World) -> Result<Self, EndpointError> {
        let line = Line::new(&endpoint).map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            EndpointError { text: endpoint.to_string(), problem: source.unwrap_or_else(|| error.to_string()) }
        })?;
        let peer = Peer { name: name.into(), endpoint: endpoint.to_string() };
        let state = watch::Sender::new(State::Unknown);
        Ok(Self { peer, endpoint, line, world, state, places: Arc::new(Semaphore::new(SESSIONS)) })
    }

    /// The provider's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.peer.name
    }

    /// Where the provider is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether the provider is there, as far as [`run`](Connector::run) knows.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Asks the provider what it drives.
    ///
    /// # Errors
    /// If it cannot be reached, does not answer within 30 seconds, or says that it is not serving. A provider that
    /// does not know Discover drives nothing that it tells of, which is no error.
    pub async fn discover(&self) -> Result<Discovery, DiscoverError> {
        let asked = async {
            let discovery = self.ask_kinds().await?;
            self.ask_health().await?;
            Ok::<_, Fault>(discovery)
        };
        match tokio::time::timeout(DISCOVER, asked).await {
            Ok(outcome) => outcome.map_err(DiscoverError::from),
            Err(_) => Err(Fault::timeout(&self.peer, DISCOVER).into()),
        }
    }

    async fn ask_kinds(&self) -> Result<Discovery, Fault> {
        let (channel, trail) = self.observed();
        let mut client = ExternalServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let request = DiscoveryRequest { features: features::ALL.map(str::to_owned).to_vec() };
        match client.discover(request).await {
            Ok(response) => Ok(Discovery::from_wire(response.into_inner())),
            Err(status) if status.code() == Code::Unimplemented => Ok(Discovery::default()),
            Err(status) => Err(self.fault(&status, &trail)),
        }
    }

    /// A provider without the health service is taken as healthy.
    async fn ask_health(&self) -> Result<(), Fault> {
        let (channel, trail) = self.observed();
        let mut client = HealthClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        match client.check(HealthCheckRequest::default()).await {
            Ok(response) if response.get_ref().status() == ServingStatus::NotServing => {
                let text = format!("{} says that it is not serving", self.peer);
                Err(Fault::new(ErrorClass::Unavailable, text))
            }
            Ok(_) => Ok(()),
            Err(_) if trail.answered() => Ok(()),
            Err(status) => Err(self.fault(&status, &trail)),
        }
    }

    fn observed(&self) -> (Observed, Trail) {
        let trail = Trail::default();
        (Observed { channel: self.line.channel.clone(), trail: trail.clone() }, trail)
    }

    fn fault(&self, status: &Status, trail: &Trail) -> Fault {
        if trail.answered() {
            Fault::answered(&self.peer, status)
        } else {
            Fault::on_the_way(&self.peer, status, DISCOVER)
        }
    }

    /// Keeps [`state`](Connector::state) true until `cancel`: discovers, notices when the connection is lost, and
    /// comes back as soon as the provider does.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.watch_over()).await;
    }

    async fn watch_over(&self) {
        let mut losses = self.line.losses();
        let mut wait = FIRST_WAIT;
        loop {
            // Losses from here on concern the connection that this attempt uses.
            let generation = *losses.borrow_and_update();
            match self.discover().await {
                Ok(discovery) => {
                    wait = FIRST_WAIT;
                    self.connected(discovery, generation);
                    // A sleeper and a watch: both can be dropped at any point.
                    let _ = tokio::time::timeout(PROBE, losses.changed()).await;
                }
                Err(error) => {
                    self.disconnected(error.message);
                    tokio::time::sleep(self.world.random.jitter(wait, JITTER)).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    fn connected(&self, discovery: Discovery, generation: u64) {
        let new = State::Connected { discovery: Arc::new(discovery), generation };
        if self.publish(new) {
            tracing::info!(provider = %self.peer.name, endpoint = %self.peer.endpoint, "provider connected");
        }
    }

    fn disconnected(&self, reason: String) {
        let text = reason.clone();
        let was_there = matches!(*self.state.borrow(), State::Connected { .. });
        if self.publish(State::Disconnected { reason }) {
            if was_there {
                tracing::warn!(provider = %self.peer.name, reason = %text, "provider disconnected");
            } else {
                tracing::info!(provider = %self.peer.name, reason = %text, "waiting for the provider");
            }
        }
    }

    /// Publishes a state unless it is the present one; says whether it did.
    fn publish(&self, new: State) -> bool {
        self.state.send_if_modified(|state| {
            let changed = *state != new;
            *state = new;
            changed
        })
    }

    /// The provider's own name for the reconciler of a kind.
    fn named(&self, gvk: &Gvk) -> String {
        match &*self.state.borrow() {
            State::Connected { discovery, .. } => discovery.kind(gvk).map(|kind| kind.named.clone()),
            State::Unknown | State::Disconnected { .. } => None,
        }
        .unwrap_or_else(|| gvk.to_string())
    }
}

impl External for Connector {
    fn connect<'a>(&'a self, object: &'a Value, attempt: Attempt) -> BoxFuture<'a, Result<Connected, ExternalError>> {
        let opening = Opening {
            peer: self.peer.clone(),
            channel: self.line.channel.clone(),
            named: self.named(&attempt.gvk),
            token: attempt.token.map(|token| token.as_str().to_owned()).unwrap_or_default(),
            timeout: attempt.timeout,
            places: Arc::clone(&self.places),
        };
        Box::pin(async move {
            let (session, object) = Conversation::open(opening, object).await?;
            Ok(Connected { session: Box::new(session), object })
        })
    }
}
