//! The listener, on real sockets: who is let in, and what a peer cannot do to others.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use concert_apiserver::{
    Authorization, ClientCertificate, ConnectionLimits, Kubeconfig, Limits, Listener, Pki, Server, TokenFile,
};
use concert_world::World;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// What takes longer does not happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// A limit of time that a test waits for.
const SHORT: Duration = Duration::from_millis(250);

struct Plane {
    server: Server,
    pki: Arc<Pki>,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Plane {
    async fn new(limits: ConnectionLimits) -> Self {
        Self::with(Pki::ephemeral(&World::real()).unwrap(), limits).await
    }

    async fn with(pki: Pki, limits: ConnectionLimits) -> Self {
        let server = Server::in_memory(World::real()).await;
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &pki).await.unwrap().with_limits(limits);
        let address = listener.url().trim_start_matches("https://").parse().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(server.clone(), stop.clone()));
        Self { server, pki: Arc::new(pki), address, stop }
    }

    async fn tls(&self, protocol: &str, client: Option<&ClientCertificate>) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        for one in CertificateDer::pem_slice_iter(self.pki.authority().as_bytes()) {
            roots.add(one.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let mut config = match client {
            Some(client) => {
                let chain = vec![CertificateDer::from_pem_slice(client.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.into()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends text over HTTP/1 and reads the answer to its end.
    async fn raw(&self, client: Option<&ClientCertificate>, text: &str) -> std::io::Result<String> {
        let mut stream = self.tls("http/1.1", client).await?;
        stream.write_all(text.as_bytes()).await?;
        let mut answer = Vec::new();
        match timeout(PATIENCE, stream.read_to_end(&mut answer)).await {
            Ok(Err(error)) if answer.is_empty() => return Err(error),
            Ok(_) => {}
            Err(_) => panic!("no end after {:?}", String::from_utf8_lossy(&answer)),
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Asks who we are.
    async fn whoami(&self, token: Option<&str>, client: Option<&ClientCertificate>) -> (u16, Value) {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let text =
            format!("POST {WHOAMI} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n{token}\r\n{{}}");
        let answer = self.raw(client, &text).await.unwrap();
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = &answer[answer.find('{').unwrap()..=answer.rfind('}').unwrap()];
        (code, serde_json::from_str::<Value>(body).unwrap()["status"]["userInfo"].clone())
    }

    /// Somebody else is still answered.
    async fn is_well(&self) {
        let asked = timeout(PATIENCE, self.whoami(Some(self.pki.token().expose()), None)).await;
        assert_eq!(asked.expect("the server answers").0, 201);
    }

    fn token(&self) -> String {
        format!("Bearer {}", self.pki.token().expose())
    }
}

fn in_an_hour() -> SystemTime {
    World::real().clock.now() + Duration::from_secs(3600)
}

#[tokio::test]
async fn certificates_and_tokens_say_who_asks() {
    let world = World::real();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.csv");
    std::fs::write(&file, "bobtoken,bob,bob-uid,\"dev,ops\"\n").unwrap();
    let operators = Pki::ephemeral(&world).unwrap();
    let carl = operators.issue("carl", None, in_an_hour()).unwrap();
    let pki = Pki::ephemeral(&world).unwrap().with_tokens(TokenFile::read(&file).unwrap());
    let alice = pki.issue("alice", Some("dev"), in_an_hour()).unwrap();
    let nameless = pki.issue("", Some("system:masters"), in_an_hour()).unwrap();
    let expired = pki.issue("alice", None, world.clock.now() - Duration::from_secs(60)).unwrap();
    let plane = Plane::with(pki, ConnectionLimits::default()).await;
    let bob = json!({"username": "bob", "uid": "bob-uid", "groups": ["dev", "ops", "system:authenticated"]});
    let administrator = plane.pki.token().expose();
    for (token, client, code, name) in [
        (None, None, 401, None),
        (Some("wrong"), None, 401, None),
        (Some("bobtoken"), None, 201, Some("bob")),
        (Some(administrator), None, 201, Some("concert-admin")),
        (None, Some(&alice), 201, Some("alice")),
        (Some("bobtoken"), Some(&alice), 201, Some("alice")),
        (Some("wrong"), Some(&alice), 201, Some("alice")),
        (None, Some(&expired), 401, None),
        (None, Some(&nameless), 401, None),
        (None, Some(&carl), 401, None),
        (Some("bobtoken"), Some(&carl), 201, Some("bob")),
    ] {
        let (found, user) = plane.whoami(token, client).await;
        assert_eq!((found, user["username"].as_str()), (code, name), "{token:?}");
    }
    assert_eq!(plane.whoami(Some("bobtoken"), None).await.1, bob);
    let user = plane.whoami(None, Some(&alice)).await.1;
    assert_eq!(user["groups"], json!(["dev", "system:authenticated"]));
    let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert_eq!(credential.len(), "X509SHA256=".len() + 64);
    // Roles decide about all of them.
    plane.server.authorize_by(Authorization::Rbac).await.unwrap();
    let list = |token: &str| {
        format!("GET /api/v1/secrets HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n")
    };
    assert!(plane.raw(None, &list("bobtoken")).await.unwrap().starts_with("HTTP/1.1 403"));
    assert!(plane.raw(None, &list(administrator)).await.unwrap().starts_with("HTTP/1.1 200"));
    let head = plane.raw(None, &list(administrator).replacen("GET", "HEAD", 1)).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn the_operators_authority_and_certificate_are_used() {
    let world = World::real();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // Its own authority signs for itself: any certificate will do for a server in a test.
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let client_key = rcgen::KeyPair::generate().unwrap();
    let mut client = rcgen::CertificateParams::default();
    client.distinguished_name.push(rcgen::DnType::CommonName, "dora");
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let issuer = rcgen::Issuer::new(params, &key);
    let issue = |params: &rcgen::CertificateParams| ClientCertificate {
        certificate: params.signed_by(&client_key, &issuer).unwrap().pem(),
        key: client_key.serialize_pem(),
    };
    let dora = issue(&client);
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let server_only = issue(&client);
    let serving_key = rcgen::KeyPair::generate().unwrap();
    let mut serving = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let good = serving.signed_by(&serving_key, &issuer).unwrap();
    let chain = file("tls.crt", &format!("{}{}", good.pem(), authority.pem()));
    let private = file("tls.key", &serving_key.serialize_pem());
    serving.not_after = (world.clock.now() - Duration::from_secs(86400)).into();
    let old = file("old.crt", &serving.signed_by(&serving_key, &issuer).unwrap().pem());
    let other = file("other.key", &key.serialize_pem());
    let empty = file("empty", "");
    let missing = directory.path().join("missing");
    let now = world.clock.now();
    for (certificate, key, why) in [
        (&missing, &private, "cannot read"),
        (&chain, &missing, "cannot read"),
        (&empty, &private, "must hold certificates in PEM"),
        (&chain, &empty, "must hold a private key in PEM"),
        (&chain, &other, "does not belong to the certificate"),
        (&old, &private, "get a new one"),
    ] {
        let refused = Pki::ephemeral(&world).unwrap().with_serving(certificate, key, now).unwrap_err().to_string();
        assert!(refused.contains(why) && refused.contains(directory.path().to_str().unwrap()), "{why}: {refused}");
    }
    assert!(Pki::ephemeral(&world).unwrap().with_client_authority(&empty).is_err());
    let pki = Pki::ephemeral(&world).unwrap().with_serving(&chain, &private, now).unwrap();
    let pki = pki.with_client_authority(&file("ca.crt", &authority.pem())).unwrap();
    let plane = Plane::with(pki, ConnectionLimits::default()).await;
    assert_eq!(plane.whoami(None, Some(&dora)).await.1["username"], "dora");
    assert_eq!(plane.whoami(None, Some(&server_only)).await.0, 401);
}

#[tokio::test]
async fn what_is_kept_is_for_its_owner_only_and_kept() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::real();
    let directory = tempfile::tempdir().unwrap();
    let pki = directory.path().join("pki");
    let made = Pki::load_or_create(&pki, &world).unwrap();
    let alice = made.issue("alice", None, in_an_hour()).unwrap();
    let again = Pki::load_or_create(&pki, &world).unwrap();
    assert_eq!((made.token(), made.authority()), (again.token(), again.authority()));
    let plane = Plane::with(again, ConnectionLimits::default()).await;
    assert_eq!(plane.whoami(None, Some(&alice)).await.0, 201);
    let kubeconfig = directory.path().join("kubeconfig");
    Kubeconfig::new("https://127.0.0.1:1", &made).write(&kubeconfig).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&pki), mode(&kubeconfig)), (0o700, 0o600));
    for file in std::fs::read_dir(&pki).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
    assert_ne!(read("ca.key"), read("client-ca.key"), "an authority for each role");
}

#[tokio::test]
async fn headers_are_limited_in_size_number_and_time() {
    let plane = Plane::new(ConnectionLimits { headers: SHORT, ..ConnectionLimits::default() }).await;
    let token = plane.token();
    let request = |fill: &str| {
        format!("GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {token}\r\n{fill}\r\n")
    };
    let size = 16 << 10;
    let sized = |bytes: usize| request(&format!("x: {}\r\n", "a".repeat(bytes - request("x: \r\n").len())));
    assert!(plane.raw(None, &sized(size - 512)).await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(plane.raw(None, &sized(size + 512)).await.unwrap().starts_with("HTTP/1.1 431"));
    let many = |count: usize| request(&(0..count - 3).map(|one| format!("x{one}: a\r\n")).collect::<String>());
    assert!(plane.raw(None, &many(100)).await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(plane.raw(None, &many(101)).await.unwrap().starts_with("HTTP/1.1 431"));
    // Headers that do not come are not waited for: hyper's timeout has its timer.
    let answer = plane.raw(None, "GET /version HTTP/1.1\r\nhost: x\r\nx: a").await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| !answer.contains("200")));
    plane.is_well().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let plane = Plane::new(ConnectionLimits { handshake: SHORT, ..ConnectionLimits::default() }).await;
    let mut silent = TcpStream::connect(plane.address).await.unwrap();
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut bytes)).await.expect("it is closed");
    plane.is_well().await;
}

/// Also while they shake hands.
#[tokio::test]
async fn the_oldest_stranger_leaves_for_the_next_one() {
    let plane = Plane::new(ConnectionLimits { connections: 2, ..ConnectionLimits::default() }).await;
    let mut first = TcpStream::connect(plane.address).await.unwrap();
    let _second = plane.tls("http/1.1", None).await.unwrap();
    plane.is_well().await;
    let _ = timeout(PATIENCE, first.read_to_end(&mut Vec::new())).await.expect("it is closed");
}

/// HTTP/2 by hand, for what no client does.
struct Frames(TlsStream<TcpStream>);

impl Frames {
    async fn new(plane: &Plane) -> Self {
        let mut stream = plane.tls("h2", None).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        Self(stream)
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// A GET: indexed method and scheme, everything else as it is.
    fn get(token: &str, path: &str, extra: &[(&str, &str)]) -> Vec<u8> {
        let number = |value: usize| -> Vec<u8> {
            if value < 127 { vec![value as u8] } else { [vec![127], varint(value - 127)].concat() }
        };
        let text = |text: &str| [number(text.len()), text.as_bytes().to_vec()].concat();
        let mut block = vec![0x82, 0x87, 0x04];
        block.extend(text(path));
        for (name, value) in [("host", "x"), ("authorization", token)].iter().chain(extra) {
            block.push(0x10);
            block.extend([text(name), text(value)].concat());
        }
        block
    }

    async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok() && self.0.flush().await.is_ok()
    }

    /// The next frame: kind, flags, stream, payload; `None` at the end.
    async fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let read = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((head[3], head[4], u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]), payload))
        };
        timeout(PATIENCE, read).await.expect("a frame or the end")
    }

    /// The first frame of this kind; `None` if there is none before the end.
    async fn first(&mut self, wanted: u8) -> Option<(u32, Vec<u8>)> {
        while let Some((kind, _, stream, payload)) = self.next().await {
            if kind == wanted {
                return Some((stream, payload));
            }
        }
        None
    }
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value % 128) as u8 | 0x80);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

#[tokio::test]
async fn one_user_cannot_take_all_places() {
    let world = World::real();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.csv");
    std::fs::write(&file, "janetoken,jane,1\nbobtoken,bob,2\n").unwrap();
    let pki = Pki::ephemeral(&world).unwrap().with_tokens(TokenFile::read(&file).unwrap());
    let plane = Plane::with(pki, ConnectionLimits::default()).await;
    plane.server.limit(Limits { watches: 3, watches_per_user: 2, ..Limits::default() });
    let mut jane = Frames::new(&plane).await;
    let watch = |token: &str| Frames::get(token, "/api/v1/namespaces?watch=1", &[]);
    let mut codes = Vec::new();
    for stream in [1, 3, 5] {
        jane.send(&Frames::frame(HEADERS, 5, stream, &watch("Bearer janetoken"))).await;
        codes.push(jane.first(HEADERS).await.unwrap().1[0]);
    }
    // 0x88 is the indexed status 200.
    assert_eq!((codes[0], codes[1]), (0x88, 0x88));
    assert_ne!(codes[2], 0x88);
    let refused = |token: &str| {
        format!(
            "GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        )
    };
    let answer = plane.raw(None, &refused("janetoken")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1\r\n"), "{answer}");
    assert!(answer.ends_with("Too many requests, please try again later.\n"), "{answer}");
    let mut bob = Frames::new(&plane).await;
    bob.send(&Frames::frame(HEADERS, 5, 1, &watch("Bearer bobtoken"))).await;
    assert_eq!(bob.first(HEADERS).await.unwrap().1[0], 0x88);
    assert!(plane.raw(None, &refused(plane.pki.token().expose())).await.unwrap().starts_with("HTTP/1.1 429"));
    // Watches that end make room.
    jane.send(&Frames::frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).await;
    jane.send(&Frames::frame(HEADERS, 5, 7, &watch("Bearer janetoken"))).await;
    assert_eq!(jane.first(HEADERS).await.unwrap().1[0], 0x88);
    plane.is_well().await;
}
