//! Where a provider is.

use std::fmt;
use std::path::{Path, PathBuf};

/// The address of a provider: `HOST:PORT`, `http://…`, `https://…`, `dns:///HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
    pub(crate) target: Target,
    pub(crate) tls: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Text that is no address of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use endpoint {text:?}: {problem}")]
pub struct EndpointError {
    /// What was given.
    pub text: String,
    /// What is wrong with it, and what to write instead.
    pub problem: String,
}

const FORMS: &str = "expected HOST:PORT, http://HOST:PORT, https://HOST:PORT, dns:///HOST:PORT or unix:PATH";

impl Endpoint {
    /// Parses an address. `tls` asks for a verified TLS connection; `https://` does, too.
    ///
    /// # Errors
    /// If the text is none of the known forms, or asks for TLS over a unix socket.
    pub fn parse(text: &str, tls: bool) -> Result<Self, EndpointError> {
        let wrong = |problem: String| EndpointError { text: text.to_owned(), problem };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(wrong("the path of the socket is missing; write unix:/path/to/socket".to_owned()));
            }
            if tls {
                return Err(wrong("a unix socket is private already; leave useSSL out".to_owned()));
            }
            return Ok(Self { text: text.to_owned(), target: Target::Unix(path.into()), tls });
        }
        let (rest, tls, default_port) = match text.split_once("://") {
            None => (text, tls, None),
            Some(("http", _)) if tls => {
                return Err(wrong("http:// contradicts useSSL; write https:// or leave useSSL out".to_owned()));
            }
            Some(("http", rest)) => (rest, false, Some(80)),
            Some(("https", rest)) => (rest, true, Some(443)),
            Some(("dns", rest)) => (rest.strip_prefix('/').unwrap_or(rest), tls, None),
            Some((scheme, _)) => return Err(wrong(format!("unknown scheme {scheme:?}; {FORMS}"))),
        };
        let rest = rest.trim_end_matches('/');
        if let Some((_, path)) = rest.split_once('/') {
            return Err(wrong(format!("a provider has no path; leave out \"/{path}\"")));
        }
        let (host, port) = host_and_port(rest, default_port).map_err(wrong)?;
        Ok(Self { text: text.to_owned(), target: Target::Tcp { host, port }, tls })
    }

    /// The unix socket at `path`.
    #[must_use]
    pub fn unix(path: &Path) -> Self {
        Self { text: format!("unix:{}", path.display()), target: Target::Unix(path.to_owned()), tls: false }
    }

    /// Whether the connection is a verified TLS one.
    #[must_use]
    pub fn uses_tls(&self) -> bool {
        self.tls
    }
}

fn host_and_port(text: &str, default_port: Option<u16>) -> Result<(String, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let number = port.parse().ok().filter(|port| *port > 0);
            (host, number.ok_or_else(|| format!("the port {port:?} is not a number from 1 to 65535"))?)
        }
        _ => (text, default_port.ok_or_else(|| format!("the port is missing; {FORMS}"))?),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let strange = |c: char| !(c.is_ascii_alphanumeric() || ".-_:%".contains(c));
    if host.is_empty() || host.contains(strange) {
        return Err(format!("the host {host:?} is not a host name or address; {FORMS}"));
    }
    Ok((host.to_owned(), port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, host: &str, port: u16, tls: bool) {
        let endpoint = Endpoint::parse(text, false).unwrap();
        assert_eq!((endpoint.target, endpoint.tls), (Target::Tcp { host: host.to_owned(), port }, tls), "{text}");
    }

    #[test]
    fn all_forms_are_understood() {
        check("provider-example:50051", "provider-example", 50051, false);
        check("http://a.b", "a.b", 80, false);
        check("https://a.b/", "a.b", 443, true);
        check("dns:///a:1", "a", 1, false);
        check("[::1]:50051", "::1", 50051, false);
        check("https://[::1]", "::1", 443, true);
        assert_eq!(Endpoint::parse("unix:///a/b", false).unwrap().target, Target::Unix("/a/b".into()));
        assert!(Endpoint::parse("a:1", true).unwrap().tls);
    }

    #[test]
    fn bad_syntax_names_the_value_and_the_fix() {
        for (text, tls, hint) in [
            ("", false, "the port is missing"),
            ("localhost", false, "the port is missing"),
            ("localhost:http", false, "is not a number"),
            ("localhost:0", false, "is not a number from 1 to 65535"),
            ("http://a:1/b/c", false, "leave out \"/b/c\""),
            ("ftp://a:1", false, "unknown scheme \"ftp\""),
            (":50051", false, "is not a host name"),
            ("a b:1", false, "is not a host name"),
            ("unix:", false, "write unix:/path/to/socket"),
            ("unix:/a", true, "leave useSSL out"),
            ("http://a:1", true, "write https://"),
        ] {
            let error = Endpoint::parse(text, tls).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot use endpoint {text:?}: ")) && error.contains(hint), "{error}");
        }
    }
}
