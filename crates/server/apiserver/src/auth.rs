//! Who asks: a client certificate, the administrator's token, a token of a file, or a service account's token.
//!
//! Authentication happens before a path is looked at or a byte of a body is read. What comes out is a [`User`], carried
//! in the request's extensions; a request without one was made by this process itself and may do everything.

pub(crate) mod certificate;
pub(crate) mod impersonate;
pub(crate) mod peer;
pub(crate) mod service_account;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, header};

/// Whoever is in this group may do everything, whatever the roles say.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all who have shown who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The name of the holder of the administrator's token.
const ADMINISTRATOR: &str = "concert-admin";

/// Who asks. Put one into the extensions of a request to ask as that user in process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, as in bindings.
    pub name: String,
    /// Distinguishes users who had the same name at different times; may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the authentication found out.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user in these groups and in `system:authenticated`.
    #[must_use]
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        Self { name: name.into(), groups, ..Self::default() }.authenticated()
    }

    /// The holder of the administrator's token.
    pub(crate) fn administrator() -> Self {
        Self::new(ADMINISTRATOR, &[MASTERS])
    }

    /// With the group that all who have shown who they are share.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

/// A bearer token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps a secret text.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret, for the one place that writes it down.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the secret that was sent. Takes the same time wherever the difference is.
    pub(crate) fn is(&self, sent: &str) -> bool {
        !self.0.is_empty() && equal(sent.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The bearer token of a request; `None` if there is none.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = sent.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case("bearer ") && !secret.is_empty()).then_some(secret)
}

/// Compares without telling by its time where the difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_the_right_token_opens() {
        let token = Token::new("secret");
        for (header, open) in [
            (None, false),
            (Some(""), false),
            (Some("Bearer "), false),
            (Some("Bearer secre"), false),
            (Some("Bearer secretx"), false),
            (Some("Basic secret"), false),
            (Some("secret"), false),
            (Some("Bearer secret"), true),
            (Some("bearer secret"), true),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(header::AUTHORIZATION, HeaderValue::from_static(header));
            }
            assert_eq!(bearer(&headers).is_some_and(|sent| token.is(sent)), open, "{header:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert!(!Token::new("").is(""));
    }
}
