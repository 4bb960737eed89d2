//! The operator's own certificate and key.

use std::path::{Path, PathBuf};

use concert_api::Time;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::auth::certificate::Certificate;

/// Why the operator's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// A file cannot be read.
    #[error("cannot read \"{}\": {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate in it.
    #[error("cannot use \"{}\": {why}; it must hold certificates in PEM (-----BEGIN CERTIFICATE-----)", .path.display())]
    NoCertificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is no key in it.
    #[error("cannot use \"{}\": {why}; it must hold a private key in PEM (-----BEGIN PRIVATE KEY-----), without a password", .path.display())]
    NoKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Certificate and key do not belong together.
    #[error("the key in \"{}\" does not belong to the certificate in \"{}\" ({why}); the server's own certificate must be the first one in its file", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// In rustls' words.
        why: String,
    },
    /// The certificate's time is over or has not come.
    #[error("the certificate in \"{}\" is valid from {from} to {to}, and it is {now} now; get a new one, or leave the flag out", .path.display())]
    NotNow {
        /// Which file.
        path: PathBuf,
        /// From when.
        from: Time,
        /// Until when.
        to: Time,
        /// When it was looked at.
        now: Time,
    },
}

/// A chain of certificates and the key of the first.
pub(super) struct Serving {
    pub(super) pem: String,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Serving {
    pub(super) fn read(certificate: &Path, key: &Path, now: Time) -> Result<Self, ServingError> {
        let chain = certificates(certificate)?;
        let private = private_key(key)?;
        let mismatch = |error: rustls::Error| ServingError::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            why: error.to_string(),
        };
        let certified = CertifiedKey::from_der(chain.clone(), private.clone_key(), &super::provider());
        certified.map_err(mismatch)?;
        let none = |why: &str| ServingError::NoCertificate { path: certificate.to_owned(), why: why.to_owned() };
        let read = Certificate::read(&chain[0]).ok_or_else(|| none("its first certificate cannot be read"))?;
        if !(read.not_before..=read.not_after).contains(&now.unix_seconds()) {
            return Err(ServingError::NotNow {
                path: certificate.to_owned(),
                from: Time::from_unix_seconds(read.not_before),
                to: Time::from_unix_seconds(read.not_after),
                now: Time::from_unix_seconds(now.unix_seconds()),
            });
        }
        Ok(Self { pem: text(certificate)?, chain, key: private })
    }
}

/// The certificates in a file; at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServingError> {
    from_pem(text(path)?.as_bytes()).map_err(|why| ServingError::NoCertificate { path: path.to_owned(), why })
}

/// The certificates in PEM; at least one.
pub(super) fn from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServingError> {
    let none = |why: String| ServingError::NoKey { path: path.to_owned(), why };
    PrivateKeyDer::from_pem_slice(text(path)?.as_bytes()).map_err(|error| none(error.to_string()))
}

fn text(path: &Path) -> Result<String, ServingError> {
    std::fs::read_to_string(path).map_err(|source| ServingError::File { path: path.to_owned(), source })
}
