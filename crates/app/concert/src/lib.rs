//! Concert as a library: configuration, and a controller that joins providers to the managed reconciler.
//!
//! ```text
//!   Config ─► Controller ─► per provider: Connector (is it there? what does it drive?)
//!                     │                        │
//!                     │   definitions ─────────┴─► a managed controller per kind, started and stopped
//!                     └─► Manager: endpoints, election, drain
//! ```
//!
//! A kind gets a controller when its provider is there and its definition is established, and loses it when one goes.
//! One bad provider, one missing definition, one forbidden kind never stops another.
//!
//! What the documents show in Go is this in Rust:
//!
//! ```no_run
//! use concert::{Config, Controller, ProviderConfig, ResourceType};
//! use concert_runtime::{Client, Source, Stop};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = ProviderConfig {
//!     resource_types: vec![ResourceType::new("example.crossplane.io/v1alpha1", "ExampleResource")?],
//!     ..ProviderConfig::new("example-provider", "localhost:50051")?
//! };
//! let config = Config { providers: vec![provider] };
//! let client = Client::connect(&Source::default(), Default::default()).await?;
//! Controller::new(config).with_leader_election(true).start(client, Stop::on_signals()).await?;
//! # Ok(())
//! # }
//! ```

mod config;
mod controller;
mod definitions;
mod provider;

pub use config::{Config, ConfigError, ProviderConfig, ResourceType};
pub use controller::{Controller, Options, StartError};
