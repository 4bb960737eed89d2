//! `cargo xtask reference`: the real kube-apiserver and its controllers, built once, for comparison and for hand use.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::child;
use crate::tools;

/// What to do with the reference server.
#[derive(Args)]
pub(crate) struct Options {
    /// Print only the path of the server's executable
    #[arg(long)]
    print_path: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Starts it in the foreground, prints the path of its kubeconfig, and stops it on Ctrl-C
    Run {
        /// The loopback port; 0 picks one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Start the controllers too: garbage collection, namespaces, service accounts
        #[arg(long)]
        controllers: bool,
    },
    /// Asks it all that the differential scenarios ask, and writes its answers down (e2e/recorded)
    Record {
        /// Only scenarios whose group/name contains this
        #[arg(default_value = "")]
        filter: String,
    },
}

/// Builds or finds the server and the controllers, then does what `options` say.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (server, note) = tools::reference().ready()?;
    match &options.action {
        Some(Action::Run { port, controllers }) => {
            // The flags, key and kubeconfig are those of the tests, so they live with the tests' harness.
            let mut command: Command = child::cargo();
            command
                .args(["run", "--quiet", "--package", "concert-e2e", "--bin", "reference-server", "--"])
                .args(["--port", &port.to_string()])
                .env("CONCERT_REFERENCE_APISERVER", &server);
            if *controllers {
                command.arg("--controllers").env("CONCERT_REFERENCE_CONTROLLERS", tools::controllers().ready()?.0);
            }
            let status = command.status().context("cannot start the server")?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Some(Action::Record { filter }) => record(&server, filter),
        None if options.print_path => {
            println!("{}", server.display());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            println!("kube-apiserver {note}: {}", server.display());
            let (controllers, note) = tools::controllers().ready()?;
            println!("kube-controller-manager {note}: {}", controllers.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn record(server: &Path, filter: &str) -> Result<ExitCode> {
    let mut command: Command = child::cargo();
    command
        .args(["test", "--package", "concert-e2e", "--test", "differential", "--"])
        .args(["both_servers_answer_alike", "--nocapture"])
        .env("CONCERT_REFERENCE_APISERVER", server)
        .env("CONCERT_REFERENCE_CONTROLLERS", tools::controllers().ready()?.0)
        .env("CONCERT_SCENARIO", filter)
        .env("CONCERT_RECORD", "1");
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
