//! Client certificates. The handshake only proves that the client has the key of the certificate it shows; whether
//! that certificate means anything to us is asked afterwards, so that a certificate of somebody else's is answered with
//! 401 (or overruled by a good token), as by the real server, and not with a broken connection.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::User;
use super::certificate::Certificate;

/// Who may sign the certificates of clients.
#[derive(Clone, Debug)]
pub(crate) struct Authorities(Arc<dyn ClientCertVerifier>);

/// A client with a certificate that was good when it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    user: User,
    not_after: i64,
}

impl Peer {
    /// The user, while the certificate is valid.
    pub(crate) fn user(&self, now: SystemTime) -> Option<&User> {
        (concert_api::Time::from(now).unix_seconds() <= self.not_after).then_some(&self.user)
    }
}

impl Authorities {
    /// Those who have one of these certificates.
    pub(crate) fn new(roots: &[CertificateDer<'static>], provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root.clone()).map_err(|error| error.to_string())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
        verifier.build().map(Self).map_err(|error| error.to_string())
    }

    /// Who the client is that showed these certificates; `None` if they mean nothing to us.
    pub(crate) fn peer(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Option<Peer> {
        let (leaf, intermediates) = chain.split_first()?;
        let at = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let verified = self.0.verify_client_cert(leaf, intermediates, UnixTime::since_unix_epoch(at));
        if let Err(error) = verified {
            tracing::info!(%error, "a client certificate is refused");
            return None;
        }
        let certificate = Certificate::read(leaf)?;
        let not_after = certificate.not_after;
        Some(Peer { user: certificate.user(leaf)?, not_after })
    }
}

impl ClientCertVerifier for Authorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    /// Says nothing yet: see [`Authorities::peer`].
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
