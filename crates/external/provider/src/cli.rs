//! `main` of a provider: `serve`, `crds`, `version`.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Listen, Provider};

/// Wrong usage, as clap and most of unix have it.
const USAGE: u8 = 2;

/// A provider that takes no options of its own.
#[derive(Args, Clone, Copy, Debug)]
pub struct NoOptions {}

/// A provider: drives external resources for a reconciler.
#[derive(Parser)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.")]
struct Cli<O: Args> {
    #[command(subcommand)]
    command: Command<O>,
}

#[derive(Subcommand)]
enum Command<O: Args> {
    /// Serves the provider protocol until SIGTERM or SIGINT; prints `ready ADDRESS` when it answers
    Serve(Serve<O>),
    /// Prints the CustomResourceDefinitions of the provider's kinds
    Crds(Crds),
    /// Prints name and version
    Version,
}

#[derive(Args)]
struct Serve<O: Args> {
    /// Where to listen: HOST:PORT (port 0 picks one) or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    listen: Listen,
    /// End when standard input is closed, so that no provider outlives the program that started it
    #[arg(long)]
    exit_with_parent: bool,
    #[command(flatten)]
    options: O,
}

#[derive(Args)]
struct Crds {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

/// The `main` of a provider program. `build` makes the provider of its own options, which all need a default: `crds`
/// and `version` take none.
pub fn main<O: Args>(build: impl FnOnce(O) -> Provider) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let color = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(color).with_writer(std::io::stderr).init();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(build, std::env::args_os())),
        Err(error) => failed(&error),
    }
}

/// The same inside another program and its runtime; `args` begins with the name to show in messages.
pub async fn run<O: Args>(build: impl FnOnce(O) -> Provider, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::<O>::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match cli.command {
        Command::Serve(options) => serve(build, options).await,
        Command::Crds(options) => without_options(build).and_then(|provider| print_crds(&provider, options.output)),
        Command::Version => {
            without_options(build).and_then(|provider| say(&format!("{} {}\n", provider.name(), provider.version())))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn failed(error: &dyn std::error::Error) -> ExitCode {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let _ = writeln!(std::io::stderr(), "error: {text}");
    ExitCode::FAILURE
}

fn say(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn without_options<O: Args>(build: impl FnOnce(O) -> Provider) -> Outcome<Provider> {
    let matches = O::augment_args(clap::Command::new("provider")).try_get_matches_from(["provider"])?;
    Ok(build(O::from_arg_matches(&matches)?))
}

fn print_crds(provider: &Provider, output: Output) -> Outcome<()> {
    let crds = provider.crds()?;
    match output {
        Output::Json => say(&format!("{}\n", serde_json::to_string_pretty(&crds)?)),
        Output::Yaml => {
            let documents: Result<Vec<String>, _> = crds.iter().map(serde_saphyr::to_string).collect();
            say(&documents?.iter().map(|document| format!("---\n{document}")).collect::<String>())
        }
    }
}

async fn serve<O: Args>(build: impl FnOnce(O) -> Provider, options: Serve<O>) -> Outcome<()> {
    let mut provider = build(options.options);
    provider.prepare()?;
    let cancel = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if options.exit_with_parent {
        cancel_at_end_of_input(cancel.clone())?;
    }
    let listener = options.listen.bind().await?;
    let address = listener.address();
    tracing::info!(provider = provider.name(), %address, "serving");
    say(&format!("ready {address}\n"))?;
    let serving = provider.serve(listener, cancel.clone());
    tokio::pin!(serving);
    tokio::select! {
        biased;
        outcome = &mut serving => return Ok(outcome?),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    cancel.cancel();
    tokio::select! {
        biased;
        outcome = &mut serving => Ok(outcome?),
        // A second signal does not wait.
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// A thread of its own: tokio's standard input would keep the runtime from ending.
fn cancel_at_end_of_input(cancel: CancellationToken) -> std::io::Result<()> {
    let watch = move || {
        let mut buffer = [0; 64];
        while std::io::stdin().read(&mut buffer).is_ok_and(|read| read > 0) {}
        cancel.cancel();
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(watch).map(drop)
}
