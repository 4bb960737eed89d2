//! Who may ask: the holder of the admin token, nobody else.

use std::fmt;

use concert_api::Status;
use http::{HeaderMap, header};

/// The bearer token of the administrator. It is never printed.
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

    /// Lets a request through that carries the token.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Status> {
        let sent = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let (scheme, secret) = sent.split_at_checked(7).unwrap_or_default();
        let right = !self.0.is_empty() && scheme.eq_ignore_ascii_case(b"bearer ") && equal(secret, self.0.as_bytes());
        if right { Ok(()) } else { Err(Status::unauthorized()) }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
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
            assert_eq!(token.check(&headers).is_ok(), open, "{header:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
