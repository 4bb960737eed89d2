//! `concert up`: everything, in one process tree.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use concert::{Config, Controller, Options, ProviderConfig, ResourceType};
use concert_connector::{ProviderCommand, ProviderProcess};
use concert_runtime::{Client, Source, Stop};
use concert_world::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::home::RunDirectory;
use crate::screen::Screen;
use crate::serve::{self, ControlPlane, Signals};
use crate::{example, home, logs, reconciler};

/// Flags that only make sense for a control plane of our own.
const OWN_PLANE: [&str; 11] = [
    "data_dir",
    "in_memory",
    "write_kubeconfig",
    "listen",
    "durability",
    "quota",
    "tls_cert",
    "tls_key",
    "client_ca",
    "token_file",
    "authorization_mode",
];

/// Flags of `up`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    serve: serve::ServeArgs,
    /// Apply an example and show it become Ready
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "file", value_parser = example::NAMES)]
    example: Option<String>,
    /// End once the example is Ready
    #[arg(long, requires = "example")]
    exit_when_ready: bool,
    /// Further providers
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use this cluster instead of the embedded one
    #[arg(long, value_name = "FILE", conflicts_with_all = OWN_PLANE)]
    kubeconfig: Option<PathBuf>,
    /// A context of that kubeconfig
    #[arg(long, value_name = "NAME", conflicts_with_all = OWN_PLANE)]
    context: Option<String>,
    /// The directory below which the bundled file provider works [default: files in the data directory]
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// How often an object in a steady state is looked at
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = reconciler::duration)]
    poll_interval: Duration,
}

impl UpArgs {
    fn on_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}

/// The parts of a running tree, and how it is taken down: reconciler, then providers, then the control plane.
#[derive(Default)]
struct Tree {
    reconciler: CancellationToken,
    provider: CancellationToken,
    plane: CancellationToken,
    tasks: JoinSet<Result<(), Failure>>,
}

pub(crate) async fn run(args: UpArgs) -> Result<(), Failure> {
    let screen = Screen::new();
    logs::install("warn");
    let world = World::real();
    let mut signals = Signals::listen()?;
    let config = args.config.as_deref().map(Config::read).transpose().map_err(Failure::usage)?.unwrap_or_default();
    let run = RunDirectory::new(&world).map_err(Failure::unusable)?;
    let process = file_process(&args, &world, &run)?;
    let config = with_bundled(config, &process)?;
    let mut tree = Tree::default();
    let (client, kubeconfig) = control_plane(&args, &world, &run, &screen, &mut tree).await?;
    let files = files(&args, &run)?;
    std::fs::create_dir_all(&files)
        .with_context(|| format!("cannot make the directory \"{}\"; choose another with --files", files.display()))
        .map_err(Failure::unusable)?;
    let cancel = tree.provider.clone();
    tree.tasks.spawn(async move { process.run(cancel).await.map_err(Failure::running) });
    screen.step(&format!("provider file started as a process of its own, below {}", files.display()));
    let options = Options {
        name: "concert".into(),
        poll_interval: args.poll_interval,
        leader_election: args.on_cluster(),
        ..Options::default()
    };
    let controller = Controller::new(config).with_options(options);
    let stop = Stop::on(tree.reconciler.clone(), CancellationToken::new());
    let running = client.clone();
    tree.tasks.spawn(async move { controller.start(running, stop).await.map_err(reconciler::ended) });
    screen.step("reconciler started");
    let shown = show(&args, &client, kubeconfig.as_deref(), &files, &screen);
    let result = tokio::select! {
        biased;
        () = signals.next() => Ok(()),
        Some(ended) = tree.tasks.join_next() => early(ended),
        shown = shown => shown,
    };
    let stopped = tokio::select! {
        biased;
        stopped = tree.stop() => stopped,
        // Whoever asks twice does not want to wait: what is dropped here is killed, which must be safe at any moment anyway.
        () = signals.next() => Err(Failure::running(anyhow!("stopped at once, as told twice"))),
    };
    if args.example.is_some() || result.is_err() {
        screen.step("stopped");
    }
    result.and(stopped)
}

/// The embedded control plane, or a client of somebody else's.
async fn control_plane(
    args: &UpArgs,
    world: &World,
    run: &RunDirectory,
    screen: &Screen,
    tree: &mut Tree,
) -> Result<(Client, Option<PathBuf>), Failure> {
    if args.on_cluster() {
        let source = Source { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
        let client = Client::connect(&source, world.clone()).await.map_err(Failure::unusable)?;
        let fix = "check --kubeconfig and --context: does kubectl work with them?";
        client
            .get_raw("/version")
            .await
            .with_context(|| format!("cannot use the cluster; {fix}"))
            .map_err(Failure::unusable)?;
        screen.step("cluster found");
        return Ok((client.with_field_manager("concert"), args.kubeconfig.clone()));
    }
    let plane = ControlPlane::open(&args.serve, world, Some(run.path().join("kubeconfig"))).await?;
    screen.step(&format!("control plane ready at {}", plane.listener.url()));
    let client = Client::in_process(plane.server.clone(), world.clone()).with_field_manager("concert");
    tree.tasks.spawn(ControlPlane::serve(plane.listener, plane.server, tree.plane.clone()));
    Ok((client, Some(plane.kubeconfig)))
}

/// Where the bundled provider keeps files: with the data, and where nothing is kept, only for as long as we run.
fn files(args: &UpArgs, run: &RunDirectory) -> Result<PathBuf, Failure> {
    let kept = || args.serve.data_dir.clone().map_or_else(home::data_directory, Ok).map_err(Failure::usage);
    match &args.files {
        Some(files) => Ok(files.clone()),
        None if args.serve.in_memory => Ok(run.path().join("files")),
        None => Ok(kept()?.join("files")),
    }
}

/// The bundled provider, as a process that is not started yet.
fn file_process(args: &UpArgs, world: &World, run: &RunDirectory) -> Result<ProviderProcess, Failure> {
    let program = std::env::current_exe().context("cannot find this program's own file").map_err(Failure::running)?;
    let mut command = ProviderCommand::new("file", program, run.path().join("file/provider.sock"));
    command.args = vec!["provider".into(), "file".into()];
    command.options = vec!["--root".into(), files(args, run)?.into()];
    Ok(ProviderProcess::new(command.inherit(std::env::vars_os()), world.clone()))
}

/// A configuration in which the bundled provider drives its kinds, and nobody else.
fn with_bundled(config: Config, process: &ProviderProcess) -> Result<Config, Failure> {
    let gvk = example::files().gvk;
    let kind = ResourceType::new(&gvk.api_version(), &gvk.kind).map_err(Failure::running)?;
    // It announces its kinds itself, as soon as it runs: a moment after the reconciler.
    let file = ProviderConfig { name: "file".into(), endpoint: process.endpoint(), resource_types: Vec::new() };
    for other in &config.providers {
        let name = &other.name;
        if *name == file.name {
            let text = format!("the configuration names a provider \"{name}\", which is bundled; give it another name");
            return Err(Failure::usage(anyhow!(text)));
        }
        if other.resource_types.contains(&kind) {
            let text =
                format!("the configuration gives {gvk} to \"{name}\", but \"file\", which is bundled, drives it");
            return Err(Failure::usage(anyhow!("{text}; leave it out of resourceTypes")));
        }
    }
    config.with_first(file).map_err(Failure::usage)
}

/// Shows what happens; then waits until it is told to stop.
async fn show(
    args: &UpArgs,
    client: &Client,
    kubeconfig: Option<&std::path::Path>,
    files: &std::path::Path,
    screen: &Screen,
) -> Result<(), Failure> {
    let provider = concert_provider_file::provider(files.to_owned());
    let crds = provider.crds().map_err(Failure::running)?;
    example::apply_definitions(client, &crds, screen).await.map_err(Failure::running)?;
    if args.example.is_some() {
        match example::run(client, files, screen).await {
            Ok(()) if args.exit_when_ready => return Ok(()),
            Err(error) if args.exit_when_ready => return Err(Failure::running(error)),
            Ok(()) => {}
            // Whoever wants to find out why needs everything running.
            Err(error) => screen.say(&format!("warning: {error}")),
        }
    }
    next_steps(args, kubeconfig, files, screen);
    std::future::pending().await
}

fn next_steps(args: &UpArgs, kubeconfig: Option<&std::path::Path>, files: &std::path::Path, screen: &Screen) {
    screen.say("");
    screen.say("Running. In another terminal:");
    screen.say("");
    if let Some(kubeconfig) = kubeconfig {
        let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        screen.say(&format!("  export KUBECONFIG={}", kubeconfig.display()));
    }
    if args.example.is_some() {
        let file = std::path::absolute(files.join("hello.txt")).unwrap_or_else(|_| files.join("hello.txt"));
        screen.say("  kubectl get files");
        screen.say("  kubectl describe file hello");
        screen.say(
            "  kubectl patch file hello --type merge -p '{\"spec\":{\"forProvider\":{\"content\":\"changed\\n\"}}}'",
        );
        screen.say(&format!("  cat {}", file.display()));
        screen.say("  kubectl delete file hello");
    } else {
        screen.say("  kubectl api-resources");
        screen.say("  kubectl explain file.spec.forProvider");
    }
    screen.say("");
    let after = if args.serve.in_memory { "nothing is kept" } else { "the next start finds it again" };
    screen.say(&format!("Ctrl-C stops everything; {after}."));
}

/// A part ended although nobody told it to.
fn early(ended: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    match ended {
        Ok(Ok(())) => Err(Failure::running(anyhow!("a part of the process tree ended by itself"))),
        Ok(Err(failure)) => Err(failure),
        Err(panic) => Err(Failure::running(panic)),
    }
}

impl Tree {
    /// Takes everything down in order, each part after what depends on it.
    async fn stop(mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        let order = [&self.reconciler, &self.provider, &self.plane];
        let mut left = self.tasks.len();
        for (place, part) in order.into_iter().enumerate() {
            part.cancel();
            // The parts end in the order in which they are told to; on a cluster there is no control plane of ours.
            let last = place + 1 == order.len();
            while left > 0 {
                let Some(ended) = self.tasks.join_next().await else { break };
                left -= 1;
                let outcome = ended.map_err(Failure::running).and_then(|outcome| outcome);
                if result.is_ok() {
                    result = outcome;
                }
                if !last {
                    break;
                }
            }
        }
        result
    }
}
