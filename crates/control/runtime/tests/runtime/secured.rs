//! Metrics that strangers cannot read: over TLS, and only for those who may by the word of the API server.

use std::sync::Arc;

use concert_api::{Gvk, ObjectKey};
use concert_apiserver::Authorization;
use concert_runtime::serve::{CertificateFiles, Security};
use concert_runtime::{Client, Endpoint, Metrics, Resource};
use concert_world::World;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::{key, maps};

/// Trusts everybody.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Trusts this certificate, or everybody if there is none.
fn trusting(certificate: Option<&str>) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = match certificate {
        None => config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
            config.with_root_certificates(roots).with_no_client_auth()
        }
    };
    TlsConnector::from(Arc::new(config))
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, token: &str) -> String {
    let token = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    let mut text = String::new();
    if stream.write_all(request.as_bytes()).await.is_ok() {
        let _ = stream.read_to_string(&mut text).await;
    }
    text
}

async fn ask_securely(address: &str, connector: &TlsConnector, token: &str) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    match connector.connect(ServerName::try_from("localhost").unwrap(), stream).await {
        Ok(stream) => ask(stream, token).await,
        Err(error) => error.to_string(),
    }
}

/// Serves metrics while `story` is told.
async fn serving<T>(client: &Client, security: Security, story: impl AsyncFnOnce(&str) -> T) -> T {
    let endpoint = Endpoint::bind("--metrics", "127.0.0.1:0").await.unwrap().unwrap();
    let metrics = Metrics::new();
    let endpoint = endpoint.secured(security, client.clone().with_metrics(&metrics)).unwrap();
    let (address, cancel) = (endpoint.address().to_string(), CancellationToken::new());
    let told = async {
        let told = story(&address).await;
        cancel.cancel();
        told
    };
    tokio::join!(endpoint.serve(metrics, cancel.clone()), told).1
}

fn rbac(kind: &str, plural: &str) -> Resource {
    Resource::cluster(Gvk::new("rbac.authorization.k8s.io", "v1", kind), plural)
}

/// A service account with a token.
async fn account(client: &Client, name: &str) -> String {
    let accounts = Resource::namespaced(Gvk::new("", "v1", "ServiceAccount"), "serviceaccounts");
    let key = ObjectKey::new("default", name);
    client.create(&accounts, &json!({ "metadata": { "namespace": "default", "name": name } })).await.unwrap();
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let answer = client.create_part(&accounts, &key, "token", &request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn may_read(client: &Client, name: &str) {
    let rules = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    let role = json!({ "metadata": { "name": "metrics-reader" }, "rules": rules });
    client.create(&rbac("ClusterRole", "clusterroles"), &role).await.unwrap();
    let binding = json!({
        "metadata": { "name": "metrics-reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }],
    });
    client.create(&rbac("ClusterRoleBinding", "clusterrolebindings"), &binding).await.unwrap();
}

async fn client_of_a_server_with_roles() -> Client {
    let server = concert_apiserver::Server::in_memory(World::simulated(1)).await;
    server.authorize_by(Authorization::Rbac).await.unwrap();
    Client::in_process(server, World::simulated(2))
}

#[tokio::test]
async fn metrics_are_for_those_who_may() {
    only_those_read_who_may(&client_of_a_server_with_roles().await).await;
}

/// On a server with roles.
pub(crate) async fn only_those_read_who_may(client: &Client) {
    let (reader, stranger) = (account(client, "reader").await, account(client, "stranger").await);
    may_read(client, "reader").await;
    let security = Security { certificate: None, reviewed: true };
    serving(client, security, async |address: &str| {
        let anybody = trusting(None);
        let code = async |token: &str| ask_securely(address, &anybody, token).await[..12].to_owned();
        assert_eq!(code("").await, "HTTP/1.1 401");
        assert_eq!(code("nonsense").await, "HTTP/1.1 401");
        assert_eq!(code(&stranger).await, "HTTP/1.1 403");
        let text = ask_securely(address, &anybody, &reader).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("# EOF"), "{text}");
        assert_eq!(code(&reader).await, "HTTP/1.1 200", "and again, from memory");
        let plain = ask(TcpStream::connect(address).await.unwrap(), &reader).await;
        assert!(!plain.contains("# EOF"), "never without TLS: {plain}");
    })
    .await;
}

#[tokio::test]
async fn strangers_with_bad_tokens_spend_nothing_of_the_process() {
    let client = client_of_a_server_with_roles().await;
    let reader = account(&client, "reader").await;
    may_read(&client, "reader").await;
    // Six requests, and no more within an hour.
    let limited = client.with_limit(0.0002, 6);
    let security = Security { certificate: None, reviewed: true };
    serving(&limited, security, async |address: &str| {
        let anybody = trusting(None);
        for n in 0..12 {
            let answer = ask_securely(address, &anybody, &format!("bad-{n}")).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        }
        let text = ask_securely(address, &anybody, &reader).await;
        assert!(text.starts_with("HTTP/1.1 200"), "who may is let in all the same: {text}");
        for _ in 0..6 {
            assert!(limited.get(&maps(), &key("none")).await.unwrap().is_none(), "the process asks as it likes");
        }
    })
    .await;
}

fn write_certificate(files: &CertificateFiles) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

/// How long a new certificate may go unseen.
const SOON: std::time::Duration = std::time::Duration::from_secs(2);

/// Lets time go by while nobody talks: sockets know of no clock but the real one.
async fn pass(time: std::time::Duration) {
    tokio::time::pause();
    tokio::time::sleep(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_shown_and_its_successor_too() {
    let client = client_of_a_server_with_roles().await;
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let files = CertificateFiles { certificate: place("tls.crt"), key: place("tls.key") };
    let security = Security { certificate: Some(files.clone()), reviewed: false };
    let endpoint = Endpoint::bind("--metrics", "127.0.0.1:0").await.unwrap().unwrap();
    let missing = endpoint.secured(security.clone(), client.clone()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot secure --metrics: cannot read") && missing.contains("tls.crt"), "{missing}");
    let first = write_certificate(&files);
    serving(&client, security, async |address: &str| {
        let ask = async |certificate: &str| ask_securely(address, &trusting(Some(certificate)), "").await;
        for _ in 0..5 {
            assert!(ask(&first).await.starts_with("HTTP/1.1 200"));
        }
        let second = write_certificate(&files);
        pass(SOON).await;
        assert!(ask(&second).await.starts_with("HTTP/1.1 200"), "the new one");
        std::fs::write(&files.certificate, "nonsense").unwrap();
        pass(SOON).await;
        let text = ask(&second).await;
        assert!(text.starts_with("HTTP/1.1 200"), "the last good one");
        // At the start, and for each of two changes; not for each of seven connections.
        for line in ["certwatcher_read_certificate_total 3", "certwatcher_read_certificate_errors_total 1"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        pass(std::time::Duration::from_secs(30)).await;
        let text = ask(&second).await;
        assert!(
            !text.contains("certwatcher_read_certificate_total 3"),
            "even if nothing seems to have changed: {text}"
        );
    })
    .await;
}
