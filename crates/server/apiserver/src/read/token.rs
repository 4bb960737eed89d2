//! Continue tokens: where a list goes on, below what is listed, and at which revision. Opaque to clients, and yet the
//! real server's.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use concert_api::{ObjectKey, Status};
use serde::{Deserialize, Serialize};

use crate::target::Target;

const VERSION: &str = "meta.k8s.io/v1";
/// Stands for whatever the revision is by then.
const ANY: i64 = -1;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

/// Writes a token behind `last`; without a revision, the list goes on with what there is by then.
pub(super) fn write(target: &Target, revision: Option<u64>, last: &ObjectKey) -> String {
    let rv = revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(ANY);
    let everywhere = target.namespace.is_none() && target.resource.namespaced;
    let start = if everywhere { format!("/{}/{}\0", last.namespace, last.name) } else { format!("/{}\0", last.name) };
    let token = Token { v: VERSION.into(), rv, start };
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Reads a token.
pub(super) fn read(target: &Target, text: &str) -> Result<(Option<u64>, ObjectKey), Status> {
    let bad = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| {
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let place = text.bytes().take_while(letter).count();
        bad(&format!("illegal base64 data at input byte {place}"))
    })?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|error| bad(&go_error(&error, &bytes)))?;
    if token.v != VERSION {
        return Err(bad(&format!("server does not recognize this encoded version {}", token.v)));
    }
    if token.start.is_empty() {
        return Err(bad(&format!("encoded start key empty (version {VERSION})")));
    }
    let start = token.start.trim_start_matches('/').trim_end_matches('\0');
    let start = match (&target.namespace, start.split_once('/')) {
        (Some(namespace), None) => ObjectKey::new(namespace.as_str(), start),
        (None, None) if target.resource.namespaced => ObjectKey::new(start, ""),
        (None, None) => ObjectKey::cluster(start),
        (None, Some((namespace, name))) => ObjectKey::new(namespace, name),
        (Some(_), Some(_)) => return Err(bad("the start key is of another list")),
    };
    match u64::try_from(token.rv) {
        Err(_) => Ok((None, start)),
        Ok(revision) if revision > 0 => Ok((Some(revision), start)),
        Ok(_) => Err(bad(&format!("incorrect encoded start resourceVersion (version {VERSION})"))),
    }
}

/// What Go says about such a document.
fn go_error(error: &serde_json::Error, bytes: &[u8]) -> String {
    match bytes.first() {
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Some(first) if error.is_syntax() => {
            format!("invalid character {:?} looking for beginning of value", char::from(*first))
        }
        Some(_) | None => error.to_string(),
    }
}
