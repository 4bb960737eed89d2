//! What an endpoint shows of itself: a certificate from files, and its successors.
//!
//! Whoever renews a certificate replaces its files. They are looked at every second, and read when something about them
//! changed, or some seconds after they were read last: not every file system tells of all changes. Both files are not
//! replaced at once; what does not fit leaves what was shown before in place until it does. Files are asked in between
//! other work, for they are small and near.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use crate::metrics::Metrics;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Files are read so long after they were read last, whatever they look like. controller-runtime's.
const READ: Duration = Duration::from_secs(10);

/// A certificate and its key, as PEM. A new one is shown a second or two after it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those between it and what clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A certificate and its key as bytes.
type Pair = (Vec<u8>, Vec<u8>);

/// Where a file is, how long, and when it was written: enough to see most changes by. `None` if it is not there.
type Mark = Option<(u64, u64, u64, i64, i64)>;

/// What is shown now, and where it comes from.
pub(super) struct Certificate {
    files: Option<CertificateFiles>,
    metrics: Option<Metrics>,
    shown: Mutex<Shown>,
}

struct Shown {
    pair: Pair,
    acceptor: TlsAcceptor,
    /// What the files looked like when they were read last, and when that was.
    marks: [Mark; 2],
    read: Instant,
    /// Why they could not be used, as we have told.
    told: Option<String>,
}

impl Certificate {
    /// Shows what is in the files; without any, a certificate that is signed by itself.
    pub(super) fn new(files: Option<CertificateFiles>, metrics: Option<Metrics>) -> Result<Self, String> {
        let (marks, read) = (files.as_ref().map(CertificateFiles::marks).unwrap_or_default(), Instant::now());
        let (acceptor, pair) = match &files {
            Some(files) => files.counted(metrics.as_ref())?,
            None => self_signed().and_then(usable)?,
        };
        Ok(Self { files, metrics, shown: Mutex::new(Shown { pair, acceptor, marks, read, told: None }) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.shown().acceptor.clone()
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the files, for ever.
    pub(super) async fn watch(&self) {
        let Some(files) = &self.files else { return std::future::pending().await };
        loop {
            sleep(LOOK).await;
            self.look(files);
        }
    }

    fn look(&self, files: &CertificateFiles) {
        let marks = files.marks();
        {
            let mut shown = self.shown();
            if marks == shown.marks && shown.read.elapsed() < READ {
                return;
            }
            (shown.marks, shown.read) = (marks, Instant::now());
        }
        let read = files.counted(self.metrics.as_ref());
        let mut shown = self.shown();
        let told = match read {
            Ok((acceptor, pair)) => {
                if pair != shown.pair {
                    (shown.acceptor, shown.pair) = (acceptor, pair);
                }
                None
            }
            Err(why) => Some(why),
        };
        if let Some(why) = told.as_ref().filter(|_| told != shown.told) {
            tracing::warn!(why, "the certificate of an endpoint cannot be renewed");
        }
        shown.told = told;
    }
}

impl CertificateFiles {
    fn marks(&self) -> [Mark; 2] {
        [mark(&self.certificate), mark(&self.key)]
    }

    /// What is in the files, if that can be used.
    fn counted(&self, metrics: Option<&Metrics>) -> Result<(TlsAcceptor, Pair), String> {
        let read = self.read().and_then(usable);
        metrics.into_iter().for_each(|metrics| metrics.read_certificate(read.is_ok()));
        read
    }

    fn read(&self) -> Result<Pair, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("cannot read {:?}: {error}", path.display().to_string()))
        };
        Ok((read(&self.certificate)?, read(&self.key)?))
    }
}

/// Links are followed: what mounts a secret puts a new one in place of the old.
fn mark(path: &Path) -> Mark {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

fn usable(pair: Pair) -> Result<(TlsAcceptor, Pair), String> {
    Ok((acceptor(&pair)?, pair))
}

/// Who asks for it has to be told to trust it, or not to ask.
fn self_signed() -> Result<Pair, String> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let made = made.map_err(|error| format!("cannot make a certificate: {error}"))?;
    Ok((made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes()))
}

fn acceptor((certificate, key): &Pair) -> Result<TlsAcceptor, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate is not PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key is not PEM: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |error: rustls::Error| format!("the certificate and its key cannot be used: {error}");
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(wrong)?;
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).map_err(wrong)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
