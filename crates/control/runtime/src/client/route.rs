//! How a server is reached: directly, or through a proxy that lets TLS pass, as kubectl does it.
//!
//! A cluster's `proxy-url` wins. Without one `HTTPS_PROXY` and `NO_PROXY` count, but never for this machine itself.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::{Authority, Scheme};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};

use super::names::Names;

/// Which proxies the environment names.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    pub(super) https: String,
    pub(super) http: String,
    pub(super) never: String,
}

impl Proxies {
    pub(super) fn of_this_process() -> Self {
        let first = |names: [&str; 2]| {
            names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            never: first(["NO_PROXY", "no_proxy"]),
        }
    }

    /// The proxy for a server, and the variable that names it.
    fn proxy(&self, server: &Uri) -> Option<(&str, &'static str)> {
        let (proxy, variable) = match server.scheme_str() {
            Some("https") => (&self.https, "HTTPS_PROXY"),
            _ => (&self.http, "HTTP_PROXY"),
        };
        let never = Matcher::builder().all("http://any").no(never(&self.never, server)).build();
        let never = never.intercept(server).is_none();
        (!proxy.is_empty() && !never && !is_here(server)).then_some((proxy.as_str(), variable))
    }
}

/// What of `NO_PROXY` concerns the port and the name of a server, by Go's rules: an entry may name a port, and one that begins
/// with a dot is about what is below a name, not about the name itself.
fn never(entries: &str, server: &Uri) -> String {
    let port = server.port_u16().unwrap_or(if server.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 });
    let entries = entries.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let concerned = entries.filter_map(|entry| {
        let (host, at) = match entry.rsplit_once(':') {
            // Of an address of version 6 without brackets all is the address.
            Some((host, at)) if !host.contains(':') || host.ends_with(']') => (host, at.parse().ok()),
            _ => (entry, Some(port)),
        };
        let below = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
        let is_apex = below.is_some() && below == server.host();
        (at == Some(port) && !is_apex).then(|| host.trim_start_matches('*').trim_matches(['[', ']']).to_owned())
    });
    let concerned: Vec<String> = concerned.map(|host| if host.is_empty() { "*".to_owned() } else { host }).collect();
    concerned.join(",")
}

/// Whether a server is on this machine.
fn is_here(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The way to a server.
#[derive(Clone, Debug, Default)]
pub(super) enum Route {
    /// Straight.
    #[default]
    Direct,
    /// Through a proxy that is asked to `CONNECT`.
    Tunnel(Intercept),
    /// Through a SOCKS proxy of version 5, which also looks names up.
    Socks(Intercept),
}

impl Route {
    /// What `proxy-url` says, or else the environment.
    ///
    /// # Errors
    /// What is wrong with the proxy's address, which is not told as a whole: a password may be in it.
    pub(super) fn to(server: &Uri, proxy_url: Option<&str>, proxies: &Proxies) -> Result<Self, String> {
        let (proxy, said_by) = match proxy_url {
            Some(url) if !url.is_empty() => (url, "proxy-url"),
            _ => match proxies.proxy(server) {
                Some(proxy) => proxy,
                None => return Ok(Self::Direct),
            },
        };
        let scheme = proxy.split_once("://").map_or("http", |(scheme, _)| scheme);
        let proxy = if scheme.starts_with("socks5") { with_socks_port(proxy) } else { proxy.to_owned() };
        // It is asked only for what it understands of an address: where it is, and who we are.
        let understood = Matcher::builder().all(proxy).build().intercept(&Uri::from_static("https://any"));
        match (scheme, understood) {
            ("http", Some(proxy)) => Ok(Self::Tunnel(proxy)),
            ("socks5" | "socks5h", Some(proxy)) => Ok(Self::Socks(proxy)),
            ("http" | "socks5" | "socks5h", None) => {
                Err(format!("{said_by} is not the address of a proxy; give one like http://proxy.example:3128"))
            }
            (other, _) => Err(format!(
                "{said_by} has the scheme \"{other}\"; give a proxy that is reached by http, socks5 or socks5h"
            )),
        }
    }
}

/// Without a port it is the one that SOCKS is known for.
fn with_socks_port(proxy: &str) -> String {
    match proxy.parse::<Uri>() {
        Ok(uri) if uri.port().is_none() => match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => format!("{scheme}://{authority}:1080"),
            _ => proxy.to_owned(),
        },
        _ => proxy.to_owned(),
    }
}

/// Opens connections on a [`Route`].
#[derive(Clone)]
pub(super) struct Opener {
    http: HttpConnector<Names>,
    route: Route,
}

impl Opener {
    pub(super) fn new(http: HttpConnector<Names>, route: Route) -> Self {
        Self { http, route }
    }
}

impl Service<Uri> for Opener {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        <HttpConnector<Names> as Service<Uri>>::poll_ready(&mut self.http, cx).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let http = self.http.clone();
        match self.route.clone() {
            Route::Direct => {
                let opened = self.http.call(server);
                Box::pin(async move { Ok(opened.await?) })
            }
            Route::Tunnel(proxy) => {
                let address = proxy.uri().clone();
                let mut tunnel = Tunnel::new(address.clone(), http);
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                let opened = tunnel.oneshot(with_port(server));
                Box::pin(async move { opened.await.map_err(|error| ProxyError::new(&address, error).into()) })
            }
            Route::Socks(proxy) => {
                let address = proxy.uri().clone();
                let mut socks = SocksV5::new(address.clone(), http);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                let opened = socks.oneshot(with_port(server));
                Box::pin(async move { opened.await.map_err(|error| ProxyError::new(&address, error).into()) })
            }
        }
    }
}

/// A proxy is told the port, also where it goes without saying.
fn with_port(server: Uri) -> Uri {
    let port = if server.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    let known = server.authority().filter(|authority| authority.port().is_none());
    let Some(authority) = known.and_then(|known| format!("{known}:{port}").parse::<Authority>().ok()) else {
        return server;
    };
    let mut parts = server.clone().into_parts();
    parts.authority = Some(authority);
    Uri::from_parts(parts).unwrap_or(server)
}

/// Why a proxy did not lead anywhere.
#[derive(Debug, thiserror::Error)]
#[error("cannot get through the proxy {proxy}")]
struct ProxyError {
    /// Host and port.
    proxy: String,
    #[source]
    error: BoxError,
}

impl ProxyError {
    fn new(proxy: &Uri, error: impl Into<BoxError>) -> Self {
        let host = proxy.host().unwrap_or_default();
        let port = proxy.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self { proxy: format!("{host}{port}"), error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(server: &str, proxy_url: Option<&str>, proxies: &Proxies) -> String {
        match Route::to(&server.parse().unwrap(), proxy_url, proxies) {
            Ok(Route::Direct) => "direct".to_owned(),
            Ok(Route::Tunnel(proxy)) => format!("tunnel {} {:?}", proxy.uri(), proxy.basic_auth()),
            Ok(Route::Socks(proxy)) => format!("socks {} {:?}", proxy.uri(), proxy.raw_auth()),
            Err(why) => why,
        }
    }

    #[test]
    fn the_way_is_the_one_that_kubectl_takes() {
        let proxies = Proxies {
            https: "http://me:canary@proxy:3128".to_owned(),
            http: "plain:80".to_owned(),
            never: "10.0.0.0/8, .inside,*.below, one:6443 ,[2001:db8::1]:6443,2001:db8::2".to_owned(),
        };
        for (server, proxy_url, expected) in [
            ("https://api:6443", None, "tunnel http://proxy:3128/ Some(Sensitive)"),
            ("http://api", None, "tunnel http://plain:80/ None"),
            ("https://10.1.2.3:6443", None, "direct"),
            ("https://api.inside:6443", None, "direct"),
            ("https://inside:6443", None, "tunnel http://proxy:3128/ Some(Sensitive)"),
            ("https://a.below", None, "direct"),
            ("https://one:6443", None, "direct"),
            ("https://one:443", None, "tunnel http://proxy:3128/ Some(Sensitive)"),
            ("https://[2001:db8::1]:6443", None, "direct"),
            ("https://[2001:db8::1]", None, "tunnel http://proxy:3128/ Some(Sensitive)"),
            ("https://[2001:db8::2]", None, "direct"),
            ("https://localhost:6443", None, "direct"),
            ("https://127.0.0.1:6443", None, "direct"),
            ("https://[::1]:6443", None, "direct"),
            ("https://127.0.0.1:6443", Some("http://other:1"), "tunnel http://other:1/ None"),
            ("https://api:6443", Some("socks5://a:b@other:1"), "socks socks5://other:1/ Some((\"a\", \"b\"))"),
            ("https://api", Some("socks5h://a:b@other"), "socks socks5h://other:1080/ Some((\"a\", \"b\"))"),
            ("https://api:6443", Some(""), "tunnel http://proxy:3128/ Some(Sensitive)"),
        ] {
            assert_eq!(route(server, proxy_url, &proxies), expected, "{server} {proxy_url:?}");
        }
        assert_eq!(route("https://api", None, &Proxies::default()), "direct");
        for never in ["*", "a,*", ""] {
            let proxies = Proxies { never: never.to_owned(), ..proxies.clone() };
            assert_eq!(route("https://api", None, &proxies) == "direct", !never.is_empty(), "{never:?}");
        }
    }

    #[test]
    fn a_wrong_proxy_is_refused_without_its_password() {
        for (proxy, expected) in [
            ("https://me:canary@proxy", "proxy-url has the scheme \"https\"; give a proxy that"),
            ("ftp://me:canary@proxy", "proxy-url has the scheme \"ftp\"; give a proxy that"),
            ("http://me:canary@pro xy", "proxy-url is not the address of a proxy; give one like"),
        ] {
            let why = route("https://api", Some(proxy), &Proxies::default());
            assert!(why.starts_with(expected) && !why.contains("canary"), "{why}");
        }
    }
}
