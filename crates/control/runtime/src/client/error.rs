//! What can go wrong with a request.

use std::time::Duration;

use concert_api::ParseError;
use serde::Deserialize;

/// Why a request did not give what was asked for. `action` says what was attempted, as `get configmaps default/a`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The server answered that it would not.
    #[error("cannot {action}: {}", .answer.message)]
    Refused {
        /// What was attempted.
        action: String,
        /// Whether it would have changed something.
        write: bool,
        /// What the server said.
        answer: Box<Answer>,
    },
    /// The server was not reached: nothing was sent.
    #[error("cannot {action}: the API server at {host} cannot be reached{}", advice(source.as_ref()))]
    Unreachable {
        /// What was attempted.
        action: String,
        /// The host and port that were tried.
        host: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke before the answer was complete.
    #[error("cannot {action}: the connection broke before the answer arrived")]
    Broken {
        /// What was attempted.
        action: String,
        /// Whether it would have changed something.
        write: bool,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer within the deadline.
    #[error("cannot {action}: no answer within {} s", .after.as_secs())]
    TimedOut {
        /// What was attempted.
        action: String,
        /// Whether it would have changed something.
        write: bool,
        /// The deadline.
        after: Duration,
    },
    /// The answer is larger than we are willing to hold.
    #[error("cannot {action}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// What was attempted.
        action: String,
        /// The limit.
        limit: usize,
    },
    /// The answer is not what the API promises.
    #[error("cannot {action}: the answer cannot be read: {why}")]
    Unreadable {
        /// What was attempted.
        action: String,
        /// Whether it would have changed something (and then has).
        write: bool,
        /// What is wrong with it.
        why: String,
    },
    /// What a cache is to show cannot be read, neither from it nor past it.
    #[error("cannot {action}: {why}")]
    Uncached {
        /// What was attempted.
        action: String,
        /// The reason.
        why: String,
    },
    /// What the caller gave cannot be sent.
    #[error("cannot {action}: {why}")]
    Unsendable {
        /// What was attempted.
        action: String,
        /// What is wrong.
        why: String,
    },
}

/// What to look at where the reason alone does not say so.
fn advice(reason: &(dyn std::error::Error + Send + Sync + 'static)) -> &'static str {
    if crate::error_chain(reason).contains("invalid peer certificate") {
        return " (its certificate is not one that the kubeconfig trusts: either certificate-authority is wrong, or it is \
                another server)";
    }
    ""
}

/// We wait no longer than this because a server asks us to.
const LONGEST_WISH: Duration = Duration::from_secs(300);

/// What the server said when it refused.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// A word for programs, as `NotFound`; may be empty.
    pub reason: String,
    /// In words.
    pub message: String,
    /// Name of the object it is about; empty if it is about none.
    pub name: String,
    /// When the server would like to be asked again.
    pub retry_after: Option<Duration>,
    /// Whether an apply was refused because others own fields of it.
    pub owned_by_others: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusBody {
    kind: String,
    reason: String,
    message: String,
    details: Option<StatusDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    name: String,
    retry_after_seconds: u64,
    causes: Option<Vec<StatusCause>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: String,
}

impl Answer {
    /// Reads the body of a failed request: a `Status`, or whatever a proxy in between sent.
    #[must_use]
    pub(crate) fn read(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        const SHOWN: usize = 256;
        let mut answer = match serde_json::from_slice::<StatusBody>(body) {
            Ok(status) if status.kind == "Status" => {
                let details = status.details.unwrap_or_default();
                let named = Some(Duration::from_secs(details.retry_after_seconds)).filter(|wait| !wait.is_zero());
                let message =
                    if status.message.is_empty() { format!("answered with code {code}") } else { status.message };
                let owned = |cause: &StatusCause| cause.reason == "FieldManagerConflict";
                Self {
                    code,
                    reason: status.reason,
                    message,
                    name: details.name,
                    retry_after: retry_after.or(named),
                    owned_by_others: details.causes.is_some_and(|causes| causes.iter().any(owned)),
                }
            }
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
                let message = format!("answered with code {code}: {}", text.trim());
                Self { code, message, retry_after, ..Self::default() }
            }
        };
        // What a peer wishes has an end: a day would be an outage.
        answer.retry_after = answer.retry_after.map(|wait| wait.min(LONGEST_WISH));
        if code == 401 {
            answer.message +=
                ": the credentials are not accepted; they may have expired, get new ones into the kubeconfig";
        }
        answer
    }
}

impl ApiError {
    pub(crate) fn parse(action: &str, write: bool, error: &ParseError) -> Self {
        Self::Unreadable { action: action.to_owned(), write, why: error.to_string() }
    }

    pub(crate) fn undecodable(action: String, write: bool, why: &str) -> Self {
        Self::Unreadable { action, write, why: without_values(why) }
    }

    fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Refused { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// The HTTP code, if the server answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.answer().map(|answer| answer.code)
    }

    /// The object has changed since it was read (409, but not [`ApiError::is_already_exists`]).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.answer().is_some_and(|answer| answer.code == 409 && answer.reason != "AlreadyExists")
    }

    /// An apply was refused because others own fields of it: to try again changes nothing, to force it would.
    #[must_use]
    pub fn is_owned_by_others(&self) -> bool {
        self.answer().is_some_and(|answer| answer.owned_by_others)
    }

    /// There is no such object, or no such kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The server does not know the kind at all (its CRD is not there, or not yet).
    #[must_use]
    pub fn is_kind_missing(&self) -> bool {
        self.answer().is_some_and(|answer| answer.code == 404 && answer.name.is_empty())
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.answer().is_some_and(|answer| answer.code == 409 && answer.reason == "AlreadyExists")
    }

    /// We may not (401, 403).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// The history asked for is gone (410).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// The object breaks rules, or the request makes no sense: asking again changes nothing.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self.code(), Some(400 | 405 | 413 | 415 | 422)) || matches!(self, Self::Unsendable { .. })
    }

    /// When the server would like to be asked again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.answer().and_then(|answer| answer.retry_after)
    }

    /// Whether a write may have been carried out although it failed: read before writing again.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Refused { write, answer, .. } => *write && answer.code >= 500 && answer.code != 501,
            Self::Broken { write, .. } | Self::TimedOut { write, .. } | Self::Unreadable { write, .. } => *write,
            Self::TooLarge { .. } | Self::Unreachable { .. } | Self::Uncached { .. } | Self::Unsendable { .. } => false,
        }
    }
}

/// What serde says, without the values that it quotes: they may be secret. Names of fields and variants stay.
pub(crate) fn without_values(text: &str) -> String {
    const VALUES: [&str; 5] = ["unknown variant ", "integer ", "floating point ", "boolean ", "character "];
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['"', '`']) {
        let (before, quoted) = rest.split_at(at);
        shown += before;
        let (quote, inner) = quoted.split_at(1);
        // Strings are escaped; other values are not, and end before what was expected instead.
        let end = match quote {
            "\"" => unescaped_quote(inner),
            _ if VALUES.iter().any(|value| before.ends_with(value)) => inner.rfind("`, expected"),
            _ => {
                shown += quote;
                rest = inner;
                continue;
            }
        };
        shown += &format!("{quote}…{quote}");
        rest = end.map_or("", |end| &inner[end + 1..]);
    }
    shown + rest
}

/// Where the quote is that ends a string.
fn unescaped_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_told() {
        let check = |text: &str, shown: &str| assert_eq!(without_values(text), shown);
        check(
            r#"spec.size: invalid type: string "pa\"ss", expected u32 at line 1"#,
            r#"spec.size: invalid type: string "…", expected u32 at line 1"#,
        );
        check("unknown variant `hun`ter2`, expected `a` or `b`", "unknown variant `…`, expected `a` or `b`");
        check("missing field `name`", "missing field `name`");
        check("invalid value: integer `1234`, expected a pin", "invalid value: integer `…`, expected a pin");
        check(r#"invalid type: string "no end"#, r#"invalid type: string "…""#);
    }

    #[test]
    fn who_meets_the_fields_of_others_does_not_try_again_quietly() {
        let body = r#"{"kind":"Status","reason":"Conflict","message":"m","code":409,"details":{"causes":[{"reason":"FieldManagerConflict"}]}}"#;
        let owned = refused(409, body);
        assert!(owned.is_conflict() && owned.is_owned_by_others());
        assert!(!crate::ReconcileError::from(owned).is_conflict());
        let conflict = refused(409, r#"{"kind":"Status","reason":"Conflict","message":"m","code":409}"#);
        assert!(crate::ReconcileError::from(conflict).is_conflict());
    }

    fn refused(code: u16, body: &str) -> ApiError {
        let answer = Box::new(Answer::read(code, None, body.as_bytes()));
        ApiError::Refused { action: "get files a".into(), write: true, answer }
    }

    #[test]
    fn answers_are_told_apart() {
        let conflict = refused(409, r#"{"kind":"Status","reason":"Conflict","message":"m","code":409}"#);
        let exists = refused(409, r#"{"kind":"Status","reason":"AlreadyExists","message":"m","code":409}"#);
        assert!(conflict.is_conflict() && !conflict.is_already_exists() && !conflict.outcome_unknown());
        assert!(exists.is_already_exists() && !exists.is_conflict());
        let object = refused(404, r#"{"kind":"Status","reason":"NotFound","details":{"name":"a","kind":"files"}}"#);
        let kind = refused(404, r#"{"kind":"Status","reason":"NotFound","details":{}}"#);
        assert!(object.is_not_found() && !object.is_kind_missing() && kind.is_kind_missing());
    }

    #[test]
    fn the_wishes_of_a_server_have_an_end() {
        let answer = Answer::read(429, Some(Duration::from_secs(u64::MAX)), b"");
        assert_eq!(answer.retry_after, Some(LONGEST_WISH));
    }

    #[test]
    fn who_is_not_known_is_told_what_to_do() {
        let unknown = refused(401, r#"{"kind":"Status","reason":"Unauthorized","message":"Unauthorized","code":401}"#);
        assert_eq!(
            unknown.to_string(),
            "cannot get files a: Unauthorized: the credentials are not accepted; they may have expired, get new ones into the kubeconfig"
        );
    }

    #[test]
    fn a_proxy_in_between_is_quoted_and_leaves_the_outcome_open() {
        let bad_gateway = refused(502, "<html>oops</html>");
        assert_eq!(bad_gateway.to_string(), "cannot get files a: answered with code 502: <html>oops</html>");
        assert!(bad_gateway.outcome_unknown());
        let busy = refused(429, r#"{"kind":"Status","message":"m","details":{"retryAfterSeconds":3}}"#);
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
        assert!(!busy.outcome_unknown());
    }
}
