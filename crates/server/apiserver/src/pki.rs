//! Certificates, keys and tokens: made once, kept in a private directory, or given by the operator.
//!
//! There is an authority for each role: one signs what we serve with, another one signs certificates of clients. A key
//! of its own signs the tokens of service accounts.

mod serving;

use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use concert_api::Time;
use concert_world::World;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::access::Identity;
use crate::auth::Token;
use crate::auth::peer::Authorities;
use crate::auth::service_account::Signer;
use crate::auth::tokens::TokenFile;
pub use serving::ServingError;
use serving::{Serving, certificates};

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
    /// What the operator gave cannot be used.
    #[error(transparent)]
    Serving(#[from] ServingError),
}

/// A certificate authority of our own.
struct Authority {
    certificate: String,
    key: KeyPair,
    name: &'static str,
}

impl Authority {
    fn new(name: &'static str) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let certificate = Self::params(name).self_signed(&key).map_err(certificate)?.pem();
        Ok(Self { certificate, key, name })
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params
    }

    fn issue(&self, params: &CertificateParams, key: &KeyPair) -> Result<rcgen::Certificate, PkiError> {
        params.signed_by(key, &Issuer::new(Self::params(self.name), &self.key)).map_err(certificate)
    }

    /// The one in these files, made there if it is not.
    fn load_or_create(directory: &Path, file: &str, name: &'static str) -> Result<Self, PkiError> {
        let (public, private) = (directory.join(format!("{file}.crt")), directory.join(format!("{file}.key")));
        if public.exists() {
            let key = KeyPair::from_pem(&read(&private)?).map_err(certificate)?;
            return Ok(Self { certificate: read(&public)?, key, name });
        }
        let made = Self::new(name)?;
        write_private(&private, &made.key.serialize_pem())?;
        write_private(&public, &made.certificate)?;
        Ok(made)
    }
}

/// What we serve with, and whom we believe.
pub struct Pki {
    authority: Authority,
    /// Signs certificates of clients, and nothing else.
    clients: Authority,
    /// Signs tokens of service accounts.
    accounts: KeyPair,
    token: Token,
    serving: Option<Serving>,
    trusted: Vec<CertificateDer<'static>>,
    tokens: TokenFile,
}

/// A certificate of a client and its key, in PEM.
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its key: a secret.
    pub key: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate")
    }
}

impl Pki {
    /// New authorities that are kept nowhere.
    ///
    /// # Errors
    /// No key can be made.
    pub fn ephemeral(world: &World) -> Result<Self, PkiError> {
        let accounts = KeyPair::generate().map_err(certificate)?;
        let token = Token::new(world.random.token());
        Ok(Self::of(Authority::new("concert-ca")?, Authority::new("concert-client-ca")?, accounts, token))
    }

    fn of(authority: Authority, clients: Authority, accounts: KeyPair, token: Token) -> Self {
        Self { authority, clients, accounts, token, serving: None, trusted: Vec::new(), tokens: TokenFile::default() }
    }

    /// The authorities in `directory`, made there if they are not; only its owner can read it.
    ///
    /// # Errors
    /// A file cannot be read or written, or is not what we wrote.
    pub fn load_or_create(directory: &Path, world: &World) -> Result<Self, PkiError> {
        let failed = |source| PkiError::File { path: directory.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let file = directory.join("token");
        // Authority and token belong to the same kubeconfig.
        let token = if file.exists() {
            let token = read(&file)?.trim().to_owned();
            if token.len() < TOKEN_LENGTH {
                return Err(PkiError::Token(file));
            }
            read(&directory.join("ca.crt"))?;
            Token::new(token)
        } else {
            Token::new(world.random.token())
        };
        let authority = Authority::load_or_create(directory, "ca", "concert-ca")?;
        let clients = Authority::load_or_create(directory, "client-ca", "concert-client-ca")?;
        let accounts = accounts_key(&directory.join("service-account.key"))?;
        if !file.exists() {
            write_private(&file, token.expose())?;
        }
        Ok(Self::of(authority, clients, accounts, token))
    }

    /// Serves with the operator's own certificate (a chain in PEM) and key.
    ///
    /// # Errors
    /// A file cannot be read, the key does not belong to the certificate, or the certificate is not valid now.
    pub fn with_serving(mut self, certificate: &Path, key: &Path, now: SystemTime) -> Result<Self, PkiError> {
        self.serving = Some(Serving::read(certificate, key, Time::from(now))?);
        Ok(self)
    }

    /// Believes client certificates that this authority signed, too.
    ///
    /// # Errors
    /// The file cannot be read or has no certificates.
    pub fn with_client_authority(mut self, file: &Path) -> Result<Self, PkiError> {
        self.trusted.extend(certificates(file)?);
        Ok(self)
    }

    /// Knows the users of a token file, too.
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens = tokens;
        self
    }

    /// The certificates by which clients know us, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.serving.as_ref().map_or(&self.authority.certificate, |serving| &serving.pem)
    }

    /// The administrator's token.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// A certificate for a client: the user's name and group (rcgen writes only one), until then.
    ///
    /// # Errors
    /// No key can be made.
    pub fn issue(&self, user: &str, group: Option<&str>, until: SystemTime) -> Result<ClientCertificate, PkiError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let mut params = CertificateParams::default();
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = until.into();
        let issued = self.clients.issue(&params, &key)?;
        Ok(ClientCertificate { certificate: issued.pem(), key: key.serialize_pem() })
    }

    /// Whom we know, by this knowledge.
    pub(crate) fn identity(&self) -> Result<Identity, PkiError> {
        Ok(Identity {
            administrator: Some(self.token.clone()),
            tokens: self.tokens.clone(),
            clients: Some(self.authorities(&provider())?),
            signer: Some(Signer::new(&self.accounts).map_err(PkiError::Certificate)?),
        })
    }

    fn authorities(&self, provider: &Arc<CryptoProvider>) -> Result<Authorities, PkiError> {
        let own = serving::from_pem(self.clients.certificate.as_bytes()).map_err(PkiError::Certificate)?;
        let roots: Vec<CertificateDer<'static>> = own.into_iter().chain(self.trusted.iter().cloned()).collect();
        Authorities::new(&roots, provider).map_err(PkiError::Certificate)
    }

    /// TLS with a serving certificate for this address: the operator's, or one issued now.
    pub(crate) fn server_config(&self, address: IpAddr) -> Result<Arc<ServerConfig>, PkiError> {
        let (chain, key) = match &self.serving {
            Some(serving) => (serving.chain.clone(), serving.key.clone_key()),
            None => self.issue_serving(address)?,
        };
        let provider = provider();
        let clients = self.authorities(&provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(certificate)?
            .with_client_cert_verifier(Arc::new(clients))
            .with_single_cert(chain, key)
            .map_err(certificate)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn issue_serving(
        &self,
        address: IpAddr,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), PkiError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let mut names: Vec<String> = NAMES.iter().map(ToString::to_string).collect();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()]);
        names.dedup();
        let mut params = CertificateParams::new(names).map_err(certificate)?;
        params.distinguished_name.push(DnType::CommonName, "concert");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = self.authority.issue(&params, &key)?;
        let chain = vec![CertificateDer::from(leaf.der().to_vec())];
        Ok((chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))))
    }
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pki")
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificate(error: impl std::fmt::Display) -> PkiError {
    PkiError::Certificate(error.to_string())
}

fn accounts_key(path: &Path) -> Result<KeyPair, PkiError> {
    if path.exists() {
        return KeyPair::from_pem(&read(path)?).map_err(certificate);
    }
    let key = KeyPair::generate().map_err(certificate)?;
    write_private(path, &key.serialize_pem())?;
    Ok(key)
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
