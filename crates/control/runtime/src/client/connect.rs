//! Finding a cluster, as kubectl and controller-runtime find it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use rustls::pki_types::ServerName;
use tower::ServiceBuilder;

use super::buffered::{Connector, buffered};
use super::gate::GateLayer;
use super::lanes::Lanes;
use super::names::Names;
use super::route::{Opener, Proxies, Route};
use crate::error_chain as chain;
use concert_world::World;

/// How long a TCP connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to look for a cluster: what flags said. Empty means: as kubectl does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// A kubeconfig file; wins over everything else.
    pub kubeconfig: Option<PathBuf>,
    /// A context of that file instead of its current one.
    pub context: Option<String>,
}

/// Why no cluster was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nothing says where the cluster is.
    #[error(
        "cannot find a cluster: no --kubeconfig, KUBECONFIG is not set, this is not a pod, and {} does not exist; \
         pass --kubeconfig FILE, or start one with `concert up`", .default.display()
    )]
    Nowhere {
        /// Where a kubeconfig would be by default.
        default: PathBuf,
    },
    /// A kubeconfig cannot be read.
    #[error("cannot use kubeconfig \"{}\" (from {from}): {why}", .file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// What named it: a flag, a variable, or the default.
        from: &'static str,
        /// What is wrong and what to do.
        why: String,
    },
    /// A context is not there.
    #[error("cannot use context \"{name}\" (from {from}) of kubeconfig {files}: there is no such context; {known}")]
    Context {
        /// The context.
        name: String,
        /// What named it.
        from: &'static str,
        /// The files that were read.
        files: String,
        /// Which contexts there are.
        known: String,
    },
    /// What the kubeconfig says does not make a client.
    #[error("cannot make a client from {from}: {why}")]
    Client {
        /// Where the configuration came from.
        from: String,
        /// What is wrong.
        why: String,
    },
}

/// The environment that finding a cluster looks at; a parameter so that tests own it.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    kubeconfig: Option<std::ffi::OsString>,
    home: Option<PathBuf>,
    in_pod: bool,
    proxies: Proxies,
}

impl Surroundings {
    pub(super) fn of_this_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
            in_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            proxies: Proxies::of_this_process(),
        }
    }
}

/// A cluster, and how to get there.
pub(super) struct Found {
    pub(super) config: kube::Config,
    /// Who told us.
    origin: String,
    route: Route,
}

/// Finds the configuration.
pub(super) async fn find(source: &Source, around: &Surroundings) -> Result<Found, ConnectError> {
    let default = around.home.clone().unwrap_or_default().join(".kube").join("config");
    let (paths, from): (Vec<PathBuf>, _) = if let Some(file) = &source.kubeconfig {
        (vec![file.clone()], "--kubeconfig")
    } else if let Some(value) = &around.kubeconfig {
        (std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()).collect(), "KUBECONFIG")
    } else if around.in_pod {
        let origin = "the pod's service account".to_owned();
        let config =
            kube::Config::incluster().map_err(|e| ConnectError::Client { from: origin.clone(), why: chain(&e) })?;
        return Found::new(config, origin, None, around);
    } else if default.is_file() {
        (vec![default], "the default")
    } else {
        return Err(ConnectError::Nowhere { default });
    };
    let (mut merged, files) = read(&paths, from)?;
    check_context(&merged, source, &files)?;
    let options = KubeConfigOptions { context: source.context.clone(), ..KubeConfigOptions::default() };
    let origin = format!("kubeconfig {files}");
    let proxy_url = take_proxy(&mut merged, source);
    let config = kube::Config::from_custom_kubeconfig(merged, &options).await;
    let config = config.map_err(|e| ConnectError::Client { from: origin.clone(), why: chain(&e) })?;
    Found::new(config, origin, proxy_url.as_deref(), around)
}

impl Found {
    fn new(
        config: kube::Config,
        origin: String,
        proxy_url: Option<&str>,
        around: &Surroundings,
    ) -> Result<Self, ConnectError> {
        match Route::to(&config.cluster_url, proxy_url, &around.proxies) {
            Ok(route) => Ok(Self { config, origin, route }),
            Err(why) => Err(ConnectError::Client { from: origin, why }),
        }
    }
}

/// Reads and merges kubeconfigs. Of several in `KUBECONFIG`, missing ones are skipped, as kubectl does.
fn read(paths: &[PathBuf], from: &'static str) -> Result<(Kubeconfig, String), ConnectError> {
    let fail = |file: &Path, why: String| ConnectError::Kubeconfig { file: file.to_owned(), from, why };
    let fix = if from == "KUBECONFIG" { "correct or unset it" } else { "name a readable kubeconfig with --kubeconfig" };
    let mut merged: Option<Kubeconfig> = None;
    let mut names = Vec::new();
    for path in paths {
        if paths.len() > 1 && !path.exists() {
            continue;
        }
        let next = Kubeconfig::read_from(path).map_err(|e| fail(path, format!("{}; {fix}", explain(&e))))?;
        names.push(format!("\"{}\"", path.display()));
        merged = Some(match merged {
            Some(before) => before.merge(next).map_err(|e| fail(path, e.to_string()))?,
            None => next,
        });
    }
    let first = paths.first().cloned().unwrap_or_default();
    let merged = merged.ok_or_else(|| fail(&first, "none of the files it names exists; correct or unset it".into()))?;
    Ok((merged, names.join(", ")))
}

fn check_context(config: &Kubeconfig, source: &Source, files: &str) -> Result<(), ConnectError> {
    let known: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
    let (name, from) = match (&source.context, &config.current_context) {
        (Some(name), _) => (name.as_str(), "--context"),
        (None, Some(name)) => (name.as_str(), "current-context"),
        (None, None) => ("", "current-context"),
    };
    if known.contains(&name) {
        return Ok(());
    }
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
    Err(ConnectError::Context { name: name.to_owned(), from, files: files.to_owned(), known })
}

/// The cluster's `proxy-url`, which is ours to follow.
fn take_proxy(config: &mut Kubeconfig, source: &Source) -> Option<String> {
    let name = source.context.as_ref().or(config.current_context.as_ref());
    let context = config.contexts.iter().find(|context| Some(&context.name) == name)?;
    let cluster = &context.context.as_ref()?.cluster;
    config.clusters.iter_mut().find(|one| one.name == *cluster)?.cluster.as_mut()?.proxy_url.take()
}

fn explain(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        // Not what it says itself: it shows the lines around the fault, and there may be a token in them.
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!("it is not a kubeconfig: see line {}, column {}", at.line(), at.column()),
            None => "it is not a kubeconfig".to_owned(),
        },
        other => chain(other),
    }
}

/// The client of a cluster: TLS, credentials and base address from kube, the gate from us, no retry from anybody
/// (kube's repeats even a POST).
pub(super) fn client(found: &Found, world: &World, names: &Names) -> Result<kube::Client, ConnectError> {
    let Found { config, origin, route } = found;
    // Fails only if a provider is already installed, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let fail = |error: kube::Error| ConnectError::Client { from: origin.clone(), why: chain(&error) };
    let mut http = HttpConnector::new_with_resolver(names.clone());
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    let transport = Lanes::new(connector(config, Opener::new(http, route.clone())).map_err(fail)?);
    let stack = ServiceBuilder::new()
        .layer(GateLayer::new(world))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(fail)?)
        .layer(config.extra_headers_layer().map_err(fail)?)
        .service(transport);
    Ok(kube::Client::new(stack, config.default_namespace.clone()))
}

/// TLS as the configuration says, with HTTP/2 offered first.
fn connector(config: &kube::Config, opener: Opener) -> Result<HttpsConnector<Connector>, kube::Error> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    let builder = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).map_err(|error| kube::Error::Service(error.into()))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    Ok(builder.enable_http1().enable_http2().wrap_connector(buffered(opener)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(context: &str, server: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\n\
             clusters: [{{name: {context}, cluster: {{server: \"{server}\"}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n\
             contexts: [{{name: {context}, context: {{cluster: {context}, user: u, namespace: here}}}}]\n"
        )
    }

    fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn the_flag_wins_then_the_variable_then_home() {
        let dir = tempfile::tempdir().unwrap();
        let a = write(dir.path(), "a", &kubeconfig("a", "https://a:1"));
        let b = write(dir.path(), "b", &kubeconfig("b", "https://b:1"));
        std::fs::create_dir(dir.path().join(".kube")).unwrap();
        write(&dir.path().join(".kube"), "config", &kubeconfig("c", "https://c:1"));
        let several = std::env::join_paths([dir.path().join("missing"), a.clone(), b.clone()]).unwrap();
        let around =
            Surroundings { kubeconfig: Some(several), home: Some(dir.path().into()), ..Surroundings::default() };
        let found = |source: Source, around: Surroundings| async move {
            find(&source, &around).await.map(|found| found.config.cluster_url.host().map(str::to_owned)).unwrap()
        };
        let flag = Source { kubeconfig: Some(b), context: None };
        assert_eq!(found(flag, around.clone()).await.as_deref(), Some("b"));
        assert_eq!(found(Source::default(), around.clone()).await.as_deref(), Some("a"));
        let context = Source { kubeconfig: None, context: Some("b".into()) };
        assert_eq!(found(context, around.clone()).await.as_deref(), Some("b"), "files are merged");
        let home = Surroundings { kubeconfig: None, ..around };
        assert_eq!(found(Source::default(), home).await.as_deref(), Some("c"));
    }

    #[tokio::test]
    async fn errors_name_the_file_the_value_and_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let around = Surroundings { home: Some(dir.path().into()), ..Surroundings::default() };
        let message = |source: Source, around: Surroundings| async move {
            find(&source, &around).await.map(|_| ()).unwrap_err().to_string()
        };
        let nowhere = message(Source::default(), around.clone()).await;
        assert!(nowhere.contains(".kube/config does not exist; pass --kubeconfig FILE"), "{nowhere}");
        let missing = Source { kubeconfig: Some(dir.path().join("nope")), context: None };
        let missing = message(missing, around.clone()).await;
        assert!(missing.contains("nope\" (from --kubeconfig): No such file"), "{missing}");
        let a = write(dir.path(), "a", &kubeconfig("a", "https://a:1"));
        let context = message(Source { kubeconfig: Some(a), context: Some("z".into()) }, around.clone()).await;
        assert!(context.contains("context \"z\" (from --context)") && context.contains("it has: a"), "{context}");
        let unset = Surroundings { kubeconfig: Some(dir.path().join("nope").into()), ..around.clone() };
        let unset = message(Source::default(), unset).await;
        assert!(unset.contains("nope\" (from KUBECONFIG)") && unset.ends_with("correct or unset it"), "{unset}");
        let broken = write(dir.path(), "broken", "clusters: [");
        let broken = message(Source { kubeconfig: Some(broken), context: None }, around).await;
        assert!(broken.contains("broken\" (from --kubeconfig)"), "{broken}");
    }

    #[tokio::test]
    async fn a_malformed_kubeconfig_keeps_its_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let user = "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: canary-1\n";
        for wrong in [
            "   password: canary-2\n",
            "    password: [canary-2]\n",
            "    exec: canary-2\n",
            "    tokenFile: \"canary-2",
        ] {
            let file = write(dir.path(), "malformed", &format!("{user}{wrong}"));
            let source = Source { kubeconfig: Some(file), context: None };
            let error = find(&source, &Surroundings::default()).await.map(|_| ()).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(!told.contains("canary"), "{told}");
            assert!(told.contains("see line "), "{told}");
        }
    }
}
