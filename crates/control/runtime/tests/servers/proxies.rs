//! Servers that are reached through a proxy alone: by `CONNECT`, and by SOCKS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use concert_e2e::{ControlPlane, Kubectl, on_both_servers};
use concert_runtime::Trouble;

use crate::{Running, maps, put};

/// What the server is called where nobody but the proxy can find it.
const NAME: &str = "api.behind.invalid";
/// `me:canary` for `CONNECT`.
const BASIC: &str = "Basic bWU6Y2FuYXJ5";

#[derive(Clone, Copy)]
enum Manner {
    Connect,
    Socks,
}

/// A proxy that knows one server by [`NAME`], and one user. Its threads end with their connections, the listener with
/// the process.
struct Proxy {
    address: SocketAddr,
    /// How many came through.
    led: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(manner: Manner, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, led) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&led);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, counter) = (client.unwrap(), Arc::clone(&counter));
                std::thread::spawn(move || {
                    let known = match manner {
                        Manner::Connect => connects(&mut client, server.port()),
                        Manner::Socks => greets(&mut client, server.port()),
                    };
                    if let (Some(()), Ok(upstream)) = (known, TcpStream::connect(server)) {
                        counter.fetch_add(1, Ordering::SeqCst);
                        pass(&client, &upstream);
                    }
                });
            }
        });
        Self { address, led }
    }
}

/// `CONNECT name:port`, with credentials.
fn connects(client: &mut TcpStream, port: u16) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(byte(client)?);
    }
    let head = String::from_utf8(head).ok()?;
    let (is_asked, is_known) = (head.starts_with(&format!("CONNECT {NAME}:{port} HTTP/1.1\r\n")), head.contains(BASIC));
    let answer = match (is_asked, is_known) {
        (false, _) => "404 Not Found",
        (true, false) => "407 Proxy Authentication Required",
        (true, true) => "200 Connection established",
    };
    client.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes()).ok()?;
    (is_asked && is_known).then_some(())
}

/// RFC 1928 and 1929: user and password, then a name and a port.
fn greets(client: &mut TcpStream, port: u16) -> Option<()> {
    let [5, methods] = bytes(client)? else { return None };
    (0..methods).try_for_each(|_| byte(client).map(drop))?;
    client.write_all(&[5, 2]).ok()?;
    byte(client)?;
    let (user, password) = (text(client)?, text(client)?);
    let is_known = (user.as_str(), password.as_str()) == ("me", "canary");
    client.write_all(&[1, u8::from(!is_known)]).ok()?;
    let [5, 1, 0, 3] = bytes(client)? else { return None };
    let is_asked = text(client)? == NAME && u16::from_be_bytes(bytes(client)?) == port;
    client.write_all(&[5, u8::from(!is_asked), 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    (is_asked && is_known).then_some(())
}

fn bytes<const N: usize>(client: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn byte(client: &mut TcpStream) -> Option<u8> {
    bytes(client).map(|[byte]| byte)
}

/// With its length before it.
fn text(client: &mut TcpStream) -> Option<String> {
    let mut text = vec![0; byte(client)?.into()];
    client.read_exact(&mut text).ok()?;
    String::from_utf8(text).ok()
}

fn pass(client: &TcpStream, server: &TcpStream) {
    std::thread::scope(|scope| {
        for (mut from, mut to) in [(client, server), (server, client)] {
            scope.spawn(move || {
                // Whatever ends one way ends both.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
                let _ = from.shutdown(std::net::Shutdown::Both);
            });
        }
    });
}

/// A kubeconfig for the server by a name that only the proxy knows.
fn through(server: &ControlPlane, proxy_url: &str) -> PathBuf {
    let path = server.directory().join("proxied.kubeconfig");
    std::fs::copy(server.kubeconfig(), &path).unwrap();
    let kubectl = Kubectl::new(&path);
    let cluster = kubectl.ok(&["config", "view", "-o", "jsonpath={.clusters[0].name}"]);
    let url = format!("https://{NAME}:{}", address(server).port());
    let (url, proxy) = (format!("--server={url}"), format!("--proxy-url={proxy_url}"));
    kubectl.ok(&["config", "set-cluster", &cluster, &url, &proxy, "--tls-server-name=127.0.0.1"]);
    path
}

fn address(server: &ControlPlane) -> SocketAddr {
    let kubectl = server.kubectl();
    let url = kubectl.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    url.trim_start_matches("https://").parse().unwrap()
}

/// Watches and calls take the way through the proxy; who it does not know hears that, and not the password.
fn a_proxy_leads_to_the_server(server: &ControlPlane) {
    for (scheme, manner) in [("http", Manner::Connect), ("socks5", Manner::Socks)] {
        let proxy = Proxy::start(manner, address(server));
        let here = format!("{scheme}://me:canary@{}", proxy.address);
        let running = Running::start(through(server, &here));
        put(server, "ConfigMap", scheme, "1");
        running.sees(&running.maps, scheme, Some("1"));
        drop(running);
        let led = proxy.led.load(Ordering::SeqCst);
        assert!(led > 0);
        let stranger = format!("{scheme}://stranger:canary@{}", proxy.address);
        let running = Running::start(through(server, &stranger));
        running
            .trouble(&maps(), |trouble| matches!(trouble, Trouble::Failing(why) if why.contains("through the proxy")));
        let told = format!("{:?}", running.manager.informers().states());
        let place = format!("cannot get through the proxy {}: ", proxy.address);
        assert!(told.contains(&place) && !told.contains("canary") && !told.contains("stranger"), "{told}");
        assert_eq!(proxy.led.load(Ordering::SeqCst), led);
    }
}

on_both_servers!(a_proxy_leads_to_the_server);
