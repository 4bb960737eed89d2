//! Limits of connections at their default numbers, on wires in memory: the clock stands still but when nobody has
//! anything to do, so that half an hour takes no time, and exactly half an hour.

mod frames;
mod limits;
mod stop;
mod strangers;

use std::time::Duration;

use concert_world::World;
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// What a wire holds.
const WIRE: usize = 64 << 10;
const WATCH: &str = "/api/v1/namespaces?watch=1&timeoutSeconds=86400";

struct Wires(Mutex<mpsc::Receiver<DuplexStream>>);

impl Source for Wires {
    type Stream = DuplexStream;

    async fn next(&self) -> std::io::Result<DuplexStream> {
        match self.0.lock().await.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}

/// A server with the default limits.
struct Plane {
    server: Server,
    token: String,
    clients: Arc<rustls::ClientConfig>,
    wires: mpsc::Sender<DuplexStream>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Plane {
    async fn new() -> Self {
        let pki = Pki::ephemeral(&World::real()).unwrap();
        let server = Server::in_memory(World::simulated(1)).await;
        server.know(Arc::new(pki.identity().unwrap()));
        let tls = TlsAcceptor::from(pki.server_config([127, 0, 0, 1].into()).unwrap());
        let (wires, accepted) = mpsc::channel(4096);
        let stop = CancellationToken::new();
        let source = Wires(Mutex::new(accepted));
        let serving = super::serve(source, tls, ConnectionLimits::default(), server.clone(), stop.clone());
        let mut roots = rustls::RootCertStore::empty();
        for one in rustls_pki_types::CertificateDer::pem_slice_iter(pki.authority().as_bytes()) {
            roots.add(one.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let clients = Arc::new(clients.with_root_certificates(roots).with_no_client_auth());
        let token = format!("Bearer {}", pki.token().expose());
        Self { server, token, clients, wires, stop, serving: tokio::spawn(serving) }
    }

    /// A connection on which nothing has been said.
    async fn wire(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(WIRE);
        self.wires.send(theirs).await.unwrap();
        ours
    }

    async fn tls(&self, wire: DuplexStream) -> std::io::Result<TlsStream<DuplexStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(&self.clients)).connect(name, wire).await
    }

    async fn connect(&self) -> Http {
        Http(self.tls(self.wire().await).await.unwrap())
    }

    /// A GET with the administrator's token.
    fn get(&self, path: &str, more: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {}\r\n{more}\r\n", self.token)
    }

    /// Somebody else is answered, within a second.
    async fn is_well(&self) {
        let began = Instant::now();
        let mut client = self.connect().await;
        assert_eq!(client.ask(&self.get("/version", "")).await, 200);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

/// HTTP/1 by hand.
struct Http(TlsStream<DuplexStream>);

impl Http {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Sends a request and gives the code of the answer, whose body has a length.
    async fn ask(&mut self, text: &str) -> u16 {
        self.send(text).await;
        self.answer().await
    }

    async fn answer(&mut self) -> u16 {
        let head = self.until("\r\n\r\n").await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).await.unwrap();
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Reads up to and with these words.
    async fn until(&mut self, words: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(words.as_bytes()) {
            read.push(self.0.read_u8().await.expect("more"));
        }
        String::from_utf8(read).unwrap()
    }

    /// Everything up to the end.
    async fn rest(&mut self) -> String {
        rest(&mut self.0).await
    }
}

/// Everything up to the end, however abrupt.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut read = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        read.push(byte);
    }
    String::from_utf8_lossy(&read).into_owned()
}
