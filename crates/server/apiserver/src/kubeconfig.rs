//! The administrator's kubeconfig.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::pki::{Pki, PkiError, write_private};

/// A kubeconfig for a server at one URL.
#[derive(Debug)]
pub struct Kubeconfig(String);

impl Kubeconfig {
    /// For the server at `url` (`https://127.0.0.1:6443`), with the administrator's token.
    #[must_use]
    pub fn new(url: &str, pki: &Pki) -> Self {
        let authority = BASE64_STANDARD.encode(pki.authority());
        let token = pki.token().expose();
        Self(format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: concert\nclusters:\n- name: concert\n  cluster:\n    \
             server: {url}\n    certificate-authority-data: {authority}\nusers:\n- name: concert-admin\n  user:\n    \
             token: {token}\ncontexts:\n- name: concert\n  context:\n    cluster: concert\n    user: concert-admin\n"
        ))
    }

    /// Writes it to a file that only its owner can read. A file that is not one of ours is left alone.
    ///
    /// # Errors
    /// The file cannot be written, or is somebody else's.
    pub fn write(&self, path: &Path) -> Result<(), PkiError> {
        if std::fs::read_to_string(path).is_ok_and(|there| !there.is_empty() && !there.contains("name: concert-admin"))
        {
            let why = "there is a file that concert did not write; remove it first";
            return Err(PkiError::File { path: path.to_owned(), source: std::io::Error::other(why) });
        }
        write_private(path, &self.0)
    }
}
