//! TLS, HTTP/1 and HTTP/2 on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::answer::answer;
use super::site::Site;

/// As Go's server, which is the real one's.
const STREAMS: u32 = 250;
/// As often as the real server sends bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Listens on a port of its own; gives the address and the PEM of its certificate. Serves until the runtime ends.
///
/// # Errors
/// There is no port, or no certificate can be made.
pub async fn serve(site: Arc<Site>) -> Result<(SocketAddr, String)> {
    let (config, pem) = certificate()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&site)));
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(BOOKMARKS);
        loop {
            ticks.tick().await;
            site.mark();
        }
    });
    Ok((address, pem))
}

fn certificate() -> Result<(ServerConfig, String)> {
    let key = rcgen::KeyPair::generate().context("cannot make a key")?;
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
    let pem = certificate.pem();
    let chain = vec![CertificateDer::from(certificate)];
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((config, pem))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, site: Arc<Site>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&site)));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, site: Arc<Site>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    site.connections.fetch_add(1, Ordering::Relaxed);
    let service = service_fn(|request| answer(Arc::clone(&site), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS);
    // A client that goes away is no news here.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    site.connections.fetch_sub(1, Ordering::Relaxed);
}
