//! `database-operator`: makes databases until it is told to stop.

use std::io::IsTerminal;

use clap::{Parser, Subcommand};
use concert_example_database::{Operator, definition};
use concert_runtime::{Client, LeaseSettings, Manager, ManagerSettings, Source, Stop};
use concert_world::World;

/// Makes databases.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    /// The kubeconfig; by default what kubectl would use
    #[arg(long)]
    kubeconfig: Option<std::path::PathBuf>,
    /// Where metrics are served; 0 for nowhere
    #[arg(long, default_value = "127.0.0.1:8080")]
    metrics_bind_address: String,
    /// Where probes are served; 0 for nowhere
    #[arg(long, default_value = "127.0.0.1:8081")]
    health_probe_bind_address: String,
    /// Whether of several operators only one works
    #[arg(long)]
    leader_elect: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Prints the definition of its kind, for `kubectl apply -f -`
    Crd,
    /// Prints the roles that its service account needs, for `kubectl apply -f -`
    Roles,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Task::Crd) = arguments.task {
        println!("{:#}", definition());
        return Ok(());
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();

    // 1. The manager: cache, client, leader election, metrics and probes.
    let source = Source { kubeconfig: arguments.kubeconfig, context: None };
    let client = Client::connect(&source, World::real()).await?.with_field_manager("database-operator");
    let mut settings = ManagerSettings::new("database-operator");
    settings.metrics = Some(("--metrics-bind-address".into(), arguments.metrics_bind_address));
    settings.probes = Some(("--health-probe-bind-address".into(), arguments.health_probe_bind_address));
    if arguments.leader_elect {
        settings.lease = Some(LeaseSettings::of_this_process(&client, "database-operator"));
    }
    let manager = Manager::new(client, settings);

    // 2. The controller.
    manager.add_controller(Operator::controller(&manager)?)?;
    if let Some(Task::Roles) = arguments.task {
        let roles =
            serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": manager.roles("database-operator") });
        println!("{roles:#}");
        return Ok(());
    }

    // 3. Until SIGTERM or SIGINT; a second one does not wait for what has begun.
    Ok(manager.run(Stop::on_signals()).await?)
}
