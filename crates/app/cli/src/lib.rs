//! Flags, output and exit codes of the binaries. The only place that reads the environment, installs a log subscriber
//! and exits.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done, or stopped as told |
//! | 1 | it failed while running |
//! | 2 | wrong usage or configuration; nothing was started |
//! | 3 | something it needs is in use or not usable: a port, a data directory, a cluster |
//! | 4 | the store (or a backup) failed or is damaged; nothing is acknowledged any more |

mod example;
mod exit;
mod home;
mod logs;
mod reconciler;
mod screen;
mod serve;
mod store;
mod up;

pub use exit::Failure;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "Exit codes:\n  0  done, or stopped as told\n  1  it failed while running\n  2  wrong usage or configuration; nothing was started\n  3  something it needs is in use or not usable: a port, a data directory, a cluster\n  4  the store (or a backup) failed or is damaged; nothing is acknowledged any more";

/// A control plane for anything that has an API.
#[derive(Parser)]
#[command(name = "concert", version, after_help = EXIT_CODES)]
struct Concert {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the embedded Kubernetes API server alone
    #[command(after_help = EXIT_CODES)]
    Serve(serve::ServeArgs),
    /// Run everything: API server, reconciler and bundled providers
    #[command(after_help = EXIT_CODES)]
    Up(up::UpArgs),
    /// Check, back up or restore a store
    #[command(subcommand)]
    Store(store::StoreVerb),
    /// Run a bundled provider
    #[command(subcommand, override_usage = "concert provider file [ARGS]...")]
    Provider(Bundled),
}

/// Providers inside this binary.
#[derive(Subcommand)]
enum Bundled {
    /// Files below a directory (`concert provider file --help`)
    #[command(disable_help_flag = true)]
    File {
        /// What it is told
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// The binary `concert`.
#[must_use]
pub fn concert() -> ExitCode {
    match Concert::parse().verb {
        Verb::Serve(args) => exit::run(serve::run(args)),
        Verb::Up(args) => exit::run(up::run(args)),
        Verb::Store(verb) => exit::run(store::run(verb)),
        Verb::Provider(Bundled::File { args }) => file_provider(args),
    }
}

/// The binaries `managed-reconciler` and `dynamic-reconciler`.
#[must_use]
pub fn reconciler(name: &'static str) -> ExitCode {
    exit::run(reconciler::run(name, reconciler::Args::parse_as(name)))
}

fn file_provider(args: Vec<OsString>) -> ExitCode {
    let args = std::iter::once(OsString::from("concert provider file")).chain(args);
    let build = |options: concert_provider_file::Options| concert_provider_file::provider(options.root);
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(concert_provider::run(build, args)),
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
