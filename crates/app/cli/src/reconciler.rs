//! `managed-reconciler` and `dynamic-reconciler`: exactly the flags of the documents, each of them true.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::{CommandFactory, FromArgMatches, Parser};
use concert::{Config, Controller, Options, StartError};
use concert_runtime::{Client, ServeError, Source, Stop};
use concert_world::World;

use crate::exit::Failure;
use crate::logs;

/// Reconciles any managed resource through gRPC providers, without knowing its schema.
#[derive(Parser, Clone, Debug)]
#[command(version, after_help = crate::EXIT_CODES)]
pub(crate) struct Args {
    /// Path to the configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// gRPC endpoint for the provider (overrides the configuration file; NAME=ENDPOINT if that has several)
    #[arg(long, value_name = "[NAME=]ENDPOINT")]
    provider_endpoint: Option<String>,
    /// Use leader election for the controller
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_election: bool,
    /// While a provider is lost: true, its objects say so; false, its controllers stop and readiness fails. Either way they
    /// start anew when it is back
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    restart_on_provider_disconnect: bool,
    /// The maximum number of concurrent reconciliations per controller
    #[arg(long, value_name = "INT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_reconcile_rate: u32,
    /// How often a managed resource should be polled when in a steady state
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration)]
    poll_interval: Duration,
    /// The address the metric endpoint binds to; 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    metrics_bind_address: String,
    /// The address the probe endpoint binds to; 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: String,
    /// The directory containing TLS certificates (not yet: an error)
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// The kubeconfig of the cluster [default: KUBECONFIG, the pod's own, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    concert_api::go_duration(text)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "use a number with a unit, such as 30s, 1m0s or 1h30m".to_owned())
}

impl Args {
    /// Reads the command line; ends the process on wrong usage.
    pub(crate) fn parse_as(name: &'static str) -> Self {
        let matches = Self::command().name(name).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    fn config(&self) -> Result<Config, Failure> {
        let config = self.config.as_deref().map(Config::read).transpose().map_err(Failure::usage)?;
        match (&self.provider_endpoint, config) {
            (Some(endpoint), config) => Config::with_endpoint(config, endpoint).map_err(Failure::usage),
            (None, Some(config)) => Ok(config),
            (None, None) => Err(Failure::usage(anyhow!(
                "no provider is named: pass --config FILE, or --provider-endpoint ENDPOINT such as localhost:50051"
            ))),
        }
    }
}

pub(crate) async fn run(name: &'static str, args: Args) -> Result<(), Failure> {
    logs::install("info,hyper=warn,h2=warn,tower=warn");
    if let Some(directory) = &args.cert_dir {
        let directory = directory.display();
        return Err(Failure::usage(anyhow!(
            "--cert-dir \"{directory}\": not yet; leave it out (useSSL verifies with the system's roots)"
        )));
    }
    let config = args.config()?;
    let source = Source { kubeconfig: args.kubeconfig, context: args.context };
    let client = Client::connect(&source, World::real()).await.map_err(Failure::unusable)?;
    let options = Options {
        name: name.to_owned(),
        leader_election: args.leader_election,
        restart_on_provider_disconnect: args.restart_on_provider_disconnect,
        max_reconcile_rate: usize::try_from(args.max_reconcile_rate).unwrap_or(10),
        poll_interval: args.poll_interval,
        metrics: Some(("--metrics-bind-address".into(), args.metrics_bind_address)),
        probes: Some(("--health-probe-bind-address".into(), args.health_probe_bind_address)),
        ..Options::default()
    };
    let client = client.with_field_manager(name);
    Controller::new(config).with_options(options).start(client, Stop::on_signals()).await.map_err(ended)
}

/// What cannot be bound is in use; everything else happened while running.
pub(crate) fn ended(error: StartError) -> Failure {
    use concert_runtime::manager::ManagerError;
    match error {
        StartError::Run(ManagerError::Serve(ServeError::Address { .. })) => Failure::usage(error),
        StartError::Run(ManagerError::Serve(_)) => Failure::unusable(error),
        StartError::Endpoint { .. } => Failure::usage(error),
        other => Failure::running(other),
    }
}
