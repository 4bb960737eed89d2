//! URLs, as far as rules look into them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::value::{Fault, Key, Map, Result, Value};

/// An absolute URL, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    scheme: String,
    /// With the port.
    host: String,
    /// With escapes.
    path: String,
    query: String,
}

impl Url {
    /// Parses what may stand in a request line.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = |why: &str| format!("parse {text:?}: {why}");
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        if text.chars().any(|c| c < ' ' || c == '\u{7f}') {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        let (scheme, rest) = scheme(text).map_err(|why| wrong(&why))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                // An opaque URL, as `mailto:x`.
                return Ok(Self::new(text, scheme, "", "", query));
            }
            return Err(wrong("invalid URI for request"));
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                rest.split_at(end)
            }
            _ => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        check_host(host).map_err(|why| wrong(&why))?;
        check_escapes(path).map_err(|why| wrong(&why))?;
        Ok(Self::new(text, scheme, host, &escaped(path), query))
    }

    fn new(text: &str, scheme: &str, host: &str, path: &str, query: &str) -> Self {
        let query = query.to_owned();
        Self {
            text: text.to_owned(),
            scheme: scheme.to_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query,
        }
    }

    fn host_and_port(&self) -> (&str, &str) {
        if let Some(end) = self.host.find(']') {
            let port = self.host[end + 1..].strip_prefix(':').unwrap_or_default();
            return (self.host[..end].trim_start_matches('['), port);
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }

    fn query<'a>(&self) -> Value<'a> {
        let mut found: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
                found.entry(name).or_default().push(Value::text(value));
            }
        }
        let entries = found
            .into_iter()
            .map(|(name, values)| (Key::String(name.clone()), (Value::text(name), Value::list(values))));
        Value::Map(Map::Own(Arc::new(entries.collect())))
    }
}

fn scheme(text: &str) -> std::result::Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> std::result::Result<(), String> {
    let after = match host.strip_prefix('[') {
        Some(rest) => match rest.find(']') {
            Some(end) => &rest[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let port = after.strip_prefix(':').unwrap_or(after);
    if !(port.bytes().all(|byte| byte.is_ascii_digit()) && (after.is_empty() || after.starts_with(':'))) {
        return Err(format!("invalid port {after:?} after host"));
    }
    if let Some(bad) =
        host.chars().find(|c| *c == ' ' || *c == '<' || *c == '>' || *c == '"' || *c == '\\' || *c == '^')
    {
        return Err(format!("invalid character {:?} in host name", bad.to_string()));
    }
    Ok(())
}

fn check_escapes(text: &str) -> std::result::Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let valid = bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if !valid {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

/// With escapes for what may not stand in a path.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => out.push(other),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    match (function, args) {
        ("url", [Value::String(text)]) => Some(
            Url::parse(text)
                .map(|url| Value::Url(Arc::new(url)))
                .map_err(|why| Fault::new(format!("URL parse error during conversion from string: {why}"))),
        ),
        ("isURL", [Value::String(text)]) => Some(Ok(Value::Bool(Url::parse(text).is_ok()))),
        (_, [Value::Url(url)]) => Some(Ok(match function {
            "getScheme" => Value::text(url.scheme.as_str()),
            "getHost" => Value::text(url.host.as_str()),
            "getHostname" => Value::text(url.host_and_port().0),
            "getPort" => Value::text(url.host_and_port().1),
            "getEscapedPath" => Value::text(url.path.as_str()),
            "getQuery" => url.query(),
            _ => return None,
        })),
        _ => None,
    }
}
