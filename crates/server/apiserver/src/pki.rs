//! Certificates and the admin token: made once, kept in a private directory.

use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use concert_world::World;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::auth::Token;

/// Names that the serving certificate is good for, beside the address it listens on.
const NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Tokens have at least this many characters.
const TOKEN_LENGTH: usize = 32;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("cannot use \"{}\": {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The token's file does not hold a token.
    #[error("cannot use \"{}\": it does not hold the administrator's token; remove its directory, and new certificates and a new kubeconfig are made", .0.display())]
    Token(PathBuf),
    /// A key or certificate cannot be made or read.
    #[error("cannot use or make certificates: {0}; if the pki directory is damaged, remove it, and new ones are made")]
    Certificate(String),
}

/// A certificate authority of our own, and the administrator's token.
pub struct Pki {
    authority: String,
    key: KeyPair,
    token: Token,
}

impl Pki {
    /// A new authority that is kept nowhere.
    ///
    /// # Errors
    /// No key can be made.
    pub fn ephemeral(world: &World) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let authority = authority_params().self_signed(&key).map_err(certificate)?.pem();
        Ok(Self { authority, key, token: Token::new(world.random.token()) })
    }

    /// The authority in `directory`, made there if it is not; only its owner can read it.
    ///
    /// # Errors
    /// A file cannot be read or written, or is not what we wrote.
    pub fn load_or_create(directory: &Path, world: &World) -> Result<Self, PkiError> {
        let file = |name: &str| directory.join(name);
        if file("token").exists() {
            let key = KeyPair::from_pem(&read(&file("ca.key"))?).map_err(certificate)?;
            let token = read(&file("token"))?.trim().to_owned();
            if token.len() < TOKEN_LENGTH {
                return Err(PkiError::Token(file("token")));
            }
            return Ok(Self { authority: read(&file("ca.crt"))?, key, token: Token::new(token) });
        }
        let made = Self::ephemeral(world)?;
        let failed = |source| PkiError::File { path: directory.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        write_private(&file("ca.crt"), &made.authority)?;
        write_private(&file("ca.key"), &made.key.serialize_pem())?;
        // Last: its presence says that the others are complete.
        write_private(&file("token"), made.token.expose())?;
        Ok(made)
    }

    /// The authority's certificate, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The administrator's token.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// TLS with a serving certificate for this address, issued now.
    pub(crate) fn server_config(&self, address: IpAddr) -> Result<Arc<ServerConfig>, PkiError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let mut names: Vec<String> = NAMES.iter().map(ToString::to_string).collect();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()]);
        names.dedup();
        let mut params = CertificateParams::new(names).map_err(certificate)?;
        params.distinguished_name.push(DnType::CommonName, "concert");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = Issuer::new(authority_params(), &self.key);
        let leaf = params.signed_by(&key, &issuer).map_err(certificate)?;
        let chain = vec![CertificateDer::from(leaf.der().to_vec())];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(certificate)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(certificate)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pki")
    }
}

fn certificate(error: impl std::fmt::Display) -> PkiError {
    PkiError::Certificate(error.to_string())
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "concert-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn read(path: &Path) -> Result<String, PkiError> {
    std::fs::read_to_string(path).map_err(|source| PkiError::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner can read: complete, or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // A leftover of a crash may have other permissions: never write into it.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)
}
