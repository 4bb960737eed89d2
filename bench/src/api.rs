//! A Kubernetes client that costs little: one HTTP/2 connection over verified TLS, bytes in and out.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority")]
    authority_file: Option<String>,
    #[serde(rename = "certificate-authority-data")]
    authority: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
struct User {
    token: String,
}

impl Cluster {
    /// The certificates that may have signed the server's.
    fn roots(&self) -> Result<RootCertStore> {
        let pem = match (&self.authority, &self.authority_file) {
            (Some(data), _) => BASE64_STANDARD.decode(data).context("certificate-authority-data is not base64")?,
            (None, Some(path)) => fs::read(path).with_context(|| format!("cannot read {path}"))?,
            (None, None) => bail!("the kubeconfig names no certificate authority"),
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.context("the certificate authority is not PEM")?)?;
        }
        Ok(roots)
    }
}

/// A connection to an API server. Clones share it.
#[derive(Clone, Debug)]
pub struct Api {
    sender: http2::SendRequest<Full<Bytes>>,
    base: String,
    token: String,
}

impl Api {
    /// Connects to the first cluster of `kubeconfig` as its first user.
    ///
    /// # Errors
    /// The kubeconfig is not one of ours, or the server cannot be reached or is not who it should be.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let text = fs::read_to_string(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
        let config: Kubeconfig = serde_saphyr::from_str(&text).context("cannot read the kubeconfig")?;
        let cluster = &config.clusters.first().context("the kubeconfig has no cluster")?.cluster;
        let token = config.users.first().context("the kubeconfig has no user")?.user.token.clone();
        let address = cluster.server.strip_prefix("https://").context("the server's address is not https://")?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(cluster.roots()?)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(ServerName::try_from(host)?, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            // A watch of many objects must not wait for us.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await?;
        // Its end is seen by whoever sends next.
        tokio::spawn(connection);
        Ok(Self { sender, base: cluster.server.clone(), token })
    }

    /// Sends a request; gives the answer without its body. A PATCH is a merge patch.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.send_as(content, method, path, body).await
    }

    async fn send_as(&self, content: &str, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json")
            .header("content-type", content)
            .header("user-agent", "concert-bench")
            .body(Full::new(body))?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }

    /// Sends a request that has to succeed, and reads the answer.
    ///
    /// # Errors
    /// The server refused; the message has its answer.
    pub async fn call(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Bytes> {
        let answer = self.send(method.clone(), path, body.into()).await.with_context(|| format!("{method} {path}"))?;
        read(&format!("{method} {path}"), answer).await
    }

    /// Sends a patch of some type that has to succeed, and reads the answer.
    ///
    /// # Errors
    /// The server refused; the message has its answer.
    pub async fn patch(&self, content: &str, path: &str, body: impl Into<Bytes>) -> Result<Bytes> {
        let what = format!("PATCH {path}");
        let answer = self.send_as(content, Method::PATCH, path, body.into()).await.with_context(|| what.clone())?;
        read(&what, answer).await
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// The server refused.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        if answer.status() != StatusCode::OK {
            bail!("GET {path}: {}", answer.status());
        }
        Ok(Lines { body: answer.into_body(), buffer: BytesMut::new() })
    }
}

async fn read(what: &str, answer: Response<Incoming>) -> Result<Bytes> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!("{what}: {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}

/// Lines of an answer that does not end.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: BytesMut,
}

impl Lines {
    /// The next line; `None` at the end. Nothing is lost if this is dropped before it is ready.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.split_to(end + 1).freeze()));
            }
            match self.body.frame().await.transpose()? {
                Some(frame) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..])),
                None => return Ok(None),
            }
        }
    }
}

/// A page of a plain HTTP endpoint on this machine.
///
/// # Errors
/// It cannot be reached, or does not answer 200.
pub async fn page(address: &str, path: &str) -> Result<String> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", address).body(Full::new(Bytes::new()))?;
    let answer = sender.send_request(request).await?;
    if answer.status() != StatusCode::OK {
        bail!("http://{address}{path}: {}", answer.status());
    }
    Ok(String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?)
}
