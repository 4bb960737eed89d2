//! `concert serve`: the embedded control plane alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use concert_apiserver::{
    Authorization, Durability, Kubeconfig, Listener, OpenError, Options, Pki, Server, StartError, TokenFile, Window,
};
use concert_world::World;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::{home, logs, screen};

/// Below this, a store would be full from the start.
const LEAST_QUOTA: u64 = 32 << 10;

/// Flags of the control plane.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Where data is kept [default: the platform's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "in_memory")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep everything in memory; nothing is left behind
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:6443", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Where the administrator's kubeconfig is written [default: DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    /// What an acknowledged write survives: sync (everything), interval=MS (a crash or power loss MS later), none (a
    /// clean stop)
    #[arg(long, value_name = "sync|interval=MS|none", default_value = "sync", value_parser = durability)]
    pub(crate) durability: Durability,
    /// Bytes that all objects together may have (256Mi, 2Gi…); over it, nothing new is taken
    #[arg(long, value_name = "BYTES", default_value = "2Gi", value_parser = quantity)]
    pub(crate) quota: u64,
    /// Serve with this certificate (PEM, the server's own first) [default: one of our own authority]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Believe client certificates of this authority: the common name is the user, organizations are groups
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Static tokens, one per line: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Who may do what: everybody who is authenticated, or what roles say [default: AlwaysAllow on loopback, else RBAC]
    #[arg(long, value_name = "AlwaysAllow|RBAC", value_parser = authorization)]
    pub(crate) authorization_mode: Option<Authorization>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an IP address and a port, such as 127.0.0.1:6443; port 0 picks a free one".to_owned())
}

fn durability(text: &str) -> Result<Durability, String> {
    match (text, text.strip_prefix("interval=")) {
        ("sync", _) => Ok(Durability::Sync),
        ("none", _) => Ok(Durability::None),
        (_, Some(millis)) => match millis.parse() {
            Ok(millis @ 1..=60_000) => Ok(Durability::Interval(Duration::from_millis(millis))),
            _ => Err(format!("{millis:?} is not a number of milliseconds from 1 to 60000")),
        },
        _ => Err("use sync, interval=MS or none".to_owned()),
    }
}

/// A number of bytes: 1000, 64Ki, 256Mi, 2Gi.
fn quantity(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        unit => return Err(format!("{unit:?} is not a unit of bytes: use Ki, Mi, Gi or Ti")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not a number of bytes, such as 256Mi"))?;
    match number.checked_shl(shift).filter(|bytes| bytes >> shift == number) {
        None => Err(format!("{text:?} is too much")),
        // The namespaces and roles that are always there take some of it.
        Some(bytes) if bytes < LEAST_QUOTA => Err(format!("{text:?} is too little: at least 32Ki")),
        Some(bytes) => Ok(bytes),
    }
}

fn authorization(text: &str) -> Result<Authorization, String> {
    match text {
        "AlwaysAllow" => Ok(Authorization::AlwaysAllow),
        "RBAC" => Ok(Authorization::Rbac),
        _ => Err("use AlwaysAllow or RBAC".to_owned()),
    }
}

/// With what the operator gave.
fn with_files(mut pki: Pki, args: &ServeArgs, world: &World) -> Result<Pki, Failure> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        pki = pki.with_serving(certificate, key, world.clock.now()).map_err(wrong("--tls-cert and --tls-key"))?;
    }
    if let Some(file) = &args.client_ca {
        pki = pki.with_client_authority(file).map_err(wrong("--client-ca"))?;
    }
    if let Some(file) = &args.token_file {
        pki = pki.with_tokens(TokenFile::read(file).map_err(wrong("--token-file"))?);
    }
    Ok(pki)
}

/// What is wrong with what a flag names.
fn wrong<E: Into<anyhow::Error>>(flag: &str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::usage(error.into().context(format!("cannot use what {flag} names")))
}

/// A control plane that listens.
pub(crate) struct ControlPlane {
    pub(crate) server: Server,
    pub(crate) listener: Listener,
    pub(crate) kubeconfig: PathBuf,
}

impl ControlPlane {
    /// Opens the store, makes certificates, binds the address, writes the kubeconfig.
    pub(crate) async fn open(args: &ServeArgs, world: &World, fallback: Option<PathBuf>) -> Result<Self, Failure> {
        let data = match (args.in_memory, &args.data_dir) {
            (true, _) => None,
            (false, Some(directory)) => Some(directory.clone()),
            (false, None) => Some(home::data_directory().map_err(Failure::usage)?),
        };
        // What is wrong with files of the operator is found before anything is made.
        with_files(Pki::ephemeral(world).map_err(Failure::running)?, args, world)?;
        let options = Options { durability: args.durability, window: Window::default(), quota: Some(args.quota) };
        let (server, pki) = match &data {
            None => {
                let server = Server::in_memory_with(options, world.clone()).await.map_err(cannot_open)?;
                (server, Pki::ephemeral(world).map_err(Failure::running)?)
            }
            Some(directory) => {
                let server = Server::open(directory, options, world.clone()).await.map_err(cannot_open)?;
                let pki = Pki::load_or_create(&directory.join("pki"), world).map_err(Failure::unusable)?;
                (server, pki)
            }
        };
        server.publish_certificate(pki.authority());
        let pki = with_files(pki, args, world)?;
        let local = args.listen.ip().is_loopback();
        let default = if local { Authorization::AlwaysAllow } else { Authorization::Rbac };
        let mode = args.authorization_mode.unwrap_or(default);
        server
            .authorize_by(mode)
            .await
            .map_err(|status| Failure::store(anyhow!("cannot write the roles: {status}")))?;
        let listener = Listener::bind(args.listen, &pki).await.map_err(Failure::unusable)?;
        let beside = data.as_ref().map(|data| data.join("kubeconfig"));
        let kubeconfig = args.write_kubeconfig.clone().or(beside).or(fallback);
        let kubeconfig = kubeconfig
            .context("with --in-memory there is no place for the kubeconfig; say where with --write-kubeconfig FILE")
            .map_err(Failure::usage)?;
        Kubeconfig::new(&listener.url(), &pki).write(&kubeconfig).map_err(|error| {
            Failure::unusable(anyhow!("{error}; choose another place with --write-kubeconfig FILE"))
        })?;
        Ok(Self { server, listener, kubeconfig })
    }

    /// Serves until told to stop, then closes the store. An error means that the store failed.
    pub(crate) async fn serve(listener: Listener, server: Server, stop: CancellationToken) -> Result<(), Failure> {
        let serving = listener.serve(server.clone(), stop.clone());
        tokio::select! {
            biased;
            reason = server.failed() => return Err(Failure::store(anyhow!("the store has failed: {reason}"))),
            () = serving => {}
        }
        // Closing waits for the store's thread, which writes to the disk.
        tokio::task::block_in_place(|| server.close());
        match server.failure() {
            Some(reason) => Err(Failure::store(anyhow!("the store has failed: {reason}"))),
            None => Ok(()),
        }
    }
}

fn cannot_open(error: StartError) -> Failure {
    match error {
        StartError::Store(OpenError::InUse(_) | OpenError::Directory { .. }) => Failure::unusable(error),
        other => Failure::store(other),
    }
}

/// What tells a program to stop: Ctrl-C, a supervisor, or a terminal that was closed.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::running(anyhow::Error::new(error).context("cannot listen to signals"));
        let listen = |kind| signal(kind).map_err(failed);
        Ok(Self([listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?]))
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    logs::install("warn");
    let world = World::real();
    let mut signals = Signals::listen()?;
    let plane = ControlPlane::open(&args, &world, None).await?;
    screen::say(&format!("ready {} kubeconfig {}", plane.listener.url(), plane.kubeconfig.display()));
    let stop = CancellationToken::new();
    let serving = ControlPlane::serve(plane.listener, plane.server, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        biased;
        ended = &mut serving => return ended,
        () = signals.next() => stop.cancel(),
    }
    serving.await
}
