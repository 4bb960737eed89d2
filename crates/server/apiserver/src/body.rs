//! Request bodies: in which form they come, and the tree they mean.

pub(crate) mod yaml;

use concert_api::{Status, decode};
use http::{HeaderMap, header};
use serde_json::Value;

/// The forms of whole objects.
const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// So much of a body that is no text is shown.
const SHOWN: usize = 30;

/// The form of a body that holds a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
}

/// A decoded body.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    duplicates: Duplicates,
}

/// Keys that occur twice in one object, in the words of their form.
#[derive(Clone, Debug)]
enum Duplicates {
    /// Their paths.
    Json(Vec<String>),
    /// Their lines, and what is wrong there.
    Yaml(Vec<String>),
}

impl Document {
    /// What a lenient reader warns of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match &self.duplicates {
            Duplicates::Json(paths) => paths.iter().map(|path| format!("duplicate field {path:?}")).collect(),
            Duplicates::Yaml(lines) => lines.clone(),
        }
    }

    /// What a strict reader refuses.
    pub(crate) fn refusals(&self) -> Vec<String> {
        match &self.duplicates {
            Duplicates::Json(_) => self.warnings(),
            Duplicates::Yaml(lines) if lines.is_empty() => Vec::new(),
            Duplicates::Yaml(lines) => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
        }
    }
}

impl Media {
    /// Reads the form from the headers. A body without a type is taken for JSON, as by the real server.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        match content_type(headers).as_str() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            _ => Err(unsupported_media(OBJECTS)),
        }
    }

    /// Decodes a body. The error is in the words of Go.
    pub(crate) fn decode(self, body: &[u8]) -> Result<Document, String> {
        match self {
            Self::Json => {
                let decoded = decode(body).map_err(|error| go_error(&error.to_string(), body))?;
                Ok(Document { value: decoded.value, duplicates: Duplicates::Json(decoded.duplicates) })
            }
            Self::Yaml if body.trim_ascii().is_empty() => {
                Ok(Document { value: Value::Null, duplicates: Duplicates::Yaml(Vec::new()) })
            }
            Self::Yaml => {
                let (value, lines) = yaml::decode(body)?;
                Ok(Document { value, duplicates: Duplicates::Yaml(lines) })
            }
        }
    }
}

/// A body as errors show it: JSON as it is, other things as digits.
pub(crate) fn shown(body: &[u8]) -> String {
    match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] if body.len() > SHOWN => format!("{} ...", String::from_utf8_lossy(&body[..SHOWN])),
        [b'{', ..] => String::from_utf8_lossy(body).into_owned(),
        _ => {
            let digits: String = body.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
            if body.len() > SHOWN { format!("{digits} ...") } else { digits }
        }
    }
}

/// What Go's reader of JSON says where ours says `error`, which ends in `at line L column C`.
fn go_error(error: &str, body: &[u8]) -> String {
    if error.contains("EOF") {
        return "json parse error: unexpected end of JSON input".to_owned();
    }
    let (what, place) = error.rsplit_once(" at line ").unwrap_or((error, ""));
    let (line, column) = place.split_once(" column ").unwrap_or_default();
    let number = |text: &str| text.parse::<usize>().unwrap_or(1).max(1);
    let line = body.split(|byte| *byte == b'\n').nth(number(line) - 1).unwrap_or_default();
    let letter = line.get(number(column) - 1).map_or('?', |byte| char::from(*byte));
    let context = match what {
        "expected value" | "expected ident" => "looking for beginning of value",
        "key must be a string" => "looking for beginning of object key string",
        "trailing characters" => "after top-level value",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `,` or `]`" => "after array element",
        "expected `:`" => "after object key",
        "trailing comma" if letter == '}' => "looking for beginning of object key string",
        "trailing comma" => "looking for beginning of value",
        other => return format!("json parse error: {other}"),
    };
    format!("json parse error: invalid character {letter:?} {context}")
}

/// The media type of the body, without its parameters, in small letters. One whose parameters cannot be read is none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (media, parameters) = value.split_once(';').unwrap_or((value, ""));
    if are_parameters(parameters) { media.trim().to_ascii_lowercase() } else { "malformed".to_owned() }
}

/// What a patch says it is: letter by letter, but for its parameters. For built-in kinds one of several is enough to be
/// looked at, and not enough to be taken.
pub(crate) fn patch_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default()
}

/// Whether a text is `name=value; name="value"`, and nothing else.
fn are_parameters(text: &str) -> bool {
    let is_token = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        !text.is_empty() && text.bytes().all(fits)
    };
    let text = text.trim();
    if text.is_empty() {
        return true;
    }
    let Some((name, value)) = text.split_once('=') else { return false };
    let (value, rest) = match value.strip_prefix('"') {
        None => value.split_once(';').unwrap_or((value, "")),
        Some(quoted) => match quoted.split_once('"') {
            None => return false,
            Some((_, rest)) => ("quoted", rest.trim_start().strip_prefix(';').unwrap_or(rest)),
        },
    };
    is_token(name.trim()) && is_token(value.trim()) && are_parameters(rest)
}

/// 415.
pub(crate) fn unsupported_media(accepted: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Status::failure(415, "UnsupportedMediaType", message)
}
