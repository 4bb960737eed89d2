//! Where a provider listens.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::net::{TcpListener, UnixListener};

/// An address to listen on: `HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 picks one.
    Tcp(String),
    /// A unix socket, readable by its owner only.
    Unix(PathBuf),
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Not an address.
    #[error("cannot listen on {0:?}: not an address; write HOST:PORT or unix:PATH")]
    Syntax(String),
    /// Another process is there.
    #[error("cannot listen on {0}: another process listens there; stop it, or choose another address with --listen")]
    Taken(Listen),
    /// A file that is no socket is there.
    #[error(
        "cannot listen on {0}: a file that is not a socket is there; remove it, or choose another path with --listen"
    )]
    NotASocket(Listen),
    /// The operating system refused.
    #[error("cannot listen on {0}: {1}; choose another address with --listen")]
    Io(Listen, #[source] io::Error),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err(ListenError::Syntax(text.to_owned()))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(_)) => Ok(Self::Tcp(text.to_owned())),
            _ => Err(ListenError::Syntax(text.to_owned())),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Starts to listen. A socket file that nobody listens on is replaced.
    ///
    /// # Errors
    /// If another process listens there, or the operating system refuses.
    pub async fn bind(&self) -> Result<Listener, ListenError> {
        let failed = |error| ListenError::Io(self.clone(), error);
        match self {
            Self::Tcp(address) => Ok(Listener(Socket::Tcp(TcpListener::bind(address).await.map_err(failed)?))),
            Self::Unix(path) => {
                self.check_free(path).await?;
                let (listener, inode) = bind_private(path).map_err(failed)?;
                Ok(Listener(Socket::Unix(listener, SocketFile { path: path.clone(), inode })))
            }
        }
    }

    async fn check_free(&self, path: &Path) -> Result<(), ListenError> {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
        if !metadata.file_type().is_socket() {
            return Err(ListenError::NotASocket(self.clone()));
        }
        match tokio::net::UnixStream::connect(path).await {
            Ok(_) => Err(ListenError::Taken(self.clone())),
            Err(_) => Ok(()),
        }
    }
}

/// The socket gets its mode before it gets its name, so that nobody connects in between.
fn bind_private(path: &Path) -> io::Result<(UnixListener, u64)> {
    let mut early = path.as_os_str().to_owned();
    early.push(".new");
    let early = PathBuf::from(early);
    match fs::remove_file(&early) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&early)?;
    fs::set_permissions(&early, fs::Permissions::from_mode(0o600))?;
    let inode = fs::symlink_metadata(&early)?.ino();
    fs::rename(&early, path)?;
    Ok((listener, inode))
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener(pub(crate) Socket);

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    /// With the file to remove at the end.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Where it listens, with the port that was picked.
    #[must_use]
    pub fn address(&self) -> Listen {
        match &self.0 {
            Socket::Tcp(listener) => {
                Listen::Tcp(listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string()))
            }
            Socket::Unix(_, file) => Listen::Unix(file.path.clone()),
        }
    }
}

/// A socket's file; removed when dropped, unless it was replaced by another.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_strictly() {
        assert_eq!("unix:/a/b".parse::<Listen>().unwrap(), Listen::Unix("/a/b".into()));
        assert_eq!("unix:///a/b".parse::<Listen>().unwrap(), Listen::Unix("/a/b".into()));
        assert_eq!("127.0.0.1:0".parse::<Listen>().unwrap(), Listen::Tcp("127.0.0.1:0".into()));
        for bad in ["", "unix:", "localhost", ":80", "localhost:http", "localhost:99999"] {
            let error = bad.parse::<Listen>().unwrap_err().to_string();
            assert_eq!(error, format!("cannot listen on {bad:?}: not an address; write HOST:PORT or unix:PATH"));
        }
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let listener = listen.bind().await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(listen.bind().await, Err(ListenError::Taken(_))));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen.bind().await, Err(ListenError::NotASocket(_))));
    }
}
