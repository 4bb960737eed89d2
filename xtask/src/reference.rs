//! `cargo xtask reference`: the real kube-apiserver, built once, for comparison and for hand use.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::child;
use crate::tools::{self, Tool};

/// What to do with the reference server.
#[derive(Args)]
pub(crate) struct Options {
    /// Print only the path of the executable
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
    },
}

/// Builds or finds the server, then does what `options` say.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (path, note) = match tools::reference() {
        Tool::Ready { path, note } => (path, note),
        Tool::Unavailable(why) | Tool::Broken(why) => bail!("{why}"),
    };
    match &options.action {
        Some(Action::Run { port }) => {
            // The flags, key and kubeconfig are those of the tests, so they live with the tests' harness.
            let mut command: Command = child::cargo();
            command
                .args(["run", "--quiet", "--package", "concert-e2e", "--bin", "reference-server", "--"])
                .args(["--port", &port.to_string()])
                .env("CONCERT_REFERENCE_APISERVER", &path);
            let status = command.status().context("cannot start the server")?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        None if options.print_path => {
            println!("{}", path.display());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            println!("kube-apiserver {note}: {}", path.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}
