//! The real kube-apiserver for hand use: `cargo xtask reference run`.

use std::time::Duration;

use clap::Parser;
use concert_e2e::{ControlPlane, Deadline, Reference, environment};

/// Starts the real kube-apiserver as the tests do, until Ctrl-C.
#[derive(Parser)]
struct Arguments {
    /// The loopback port; 0 picks one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Start the controllers too
    #[arg(long)]
    controllers: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let binary = environment::reference_apiserver().unwrap_or_else(|missing| {
        eprintln!("error: {missing}");
        std::process::exit(1)
    });
    let reference = Reference::new(binary);
    let reference = if arguments.port == 0 { reference } else { reference.port(arguments.port) };
    let server = ControlPlane::reference_with(reference);
    if arguments.controllers {
        server.start_controllers(&environment::reference_controllers().unwrap_or_else(|missing| {
            eprintln!("error: {missing}");
            std::process::exit(1)
        }));
    }
    println!("ready; in another terminal:\n  export KUBECONFIG={}", server.kubeconfig().display());
    // Ctrl-C ends this process; the reaper then ends the server.
    let hour = Duration::from_secs(3600);
    while Deadline::after(hour).wait(hour) {}
}
