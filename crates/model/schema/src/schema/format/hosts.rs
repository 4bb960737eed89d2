//! Formats of what is somewhere: names of hosts, and URIs as Go's `url.ParseRequestURI` reads them.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use super::is_digits;

/// What a label may have beside dashes.
static IN_LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[0-9\p{L}\p{S}]+$").expect("this pattern has been compiled in tests"));
/// What a top-level domain has.
static IN_TOP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{L}{2,}$").expect("this pattern has been compiled in tests"));

/// One label with at most one dash, the second character; or several with dashes inside and a last one of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return false;
    }
    let plain = |label: &str| IN_LABEL.is_match(label);
    let Some((labels, top)) = text.rsplit_once('.') else {
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        return plain(first) && (rest.is_empty() || plain(rest));
    };
    let dashed = |label: &str| !label.starts_with('-') && !label.ends_with('-') && plain(&label.replace('-', ""));
    labels.split('.').all(dashed) && IN_TOP.is_match(top)
}

/// An absolute URI or an absolute path.
pub(crate) fn is_uri(text: &str) -> bool {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some(("", _)) => return false,
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        _ => ("", text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    is_authority(authority) && is_escaped(path)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Whether every percent sign begins an escape.
fn is_escaped(text: &str) -> bool {
    let hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.all(|(at, _)| hex(bytes.get(at + 1)) && hex(bytes.get(at + 2)))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let in_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    user.bytes().all(in_user) && is_escaped(user) && is_host(host)
}

fn is_host(text: &str) -> bool {
    let is_port = |text: &str| text.is_empty() || text == ":" || text.strip_prefix(':').is_some_and(is_digits);
    let in_host = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte);
    if let Some(inside) = text.strip_prefix('[') {
        let Some((address, port)) = inside.rsplit_once(']') else { return false };
        let (address, zone) = address.split_once("%25").unwrap_or((address, ""));
        return address.parse::<Ipv6Addr>().is_ok() && is_escaped(zone) && is_port(port);
    }
    let port = text.rfind(':').map_or("", |at| &text[at..]);
    // Of ASCII, only the percent sign itself may be escaped.
    let escapes = text.as_bytes().windows(3).filter(|three| three[0] == b'%');
    let allowed = |three: &[u8]| three == b"%25" || !matches!(three[1], b'0'..=b'7');
    is_port(port) && text.bytes().all(in_host) && is_escaped(text) && escapes.into_iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these was asked of the real server.
    #[test]
    fn hosts_and_uris_are_those_of_the_real_server() {
        let hosts = ["a", "A", "1", "a-b", "a.bc", "xn--bcher-kva.de", "bücher.de", "localhost"];
        for text in hosts {
            assert!(is_hostname(text), "{text}");
        }
        for text in ["", "_", "a.b", "-a", "a_b", "a.", "ex ample", "xn--a", "a--b", "ab-c", "a.12", "a.b-c", "a..bc"] {
            assert!(!is_hostname(text), "{text}");
        }
        let uris = ["http://a", "/a", "a:b", "a:b c", "http://[::1]:80", "/a b", "*", "http://u:p@h", "http://a\"b"];
        for text in uris.into_iter().chain(["http://[fe80::1%25en0]", "http://é", "http://a/?q=%zz", "//a:b"]) {
            assert!(is_uri(text), "{text}");
        }
        let others = ["", "x", "a b:", "http://a b", "http://[::1", "http://[x]", "http://a:b", "http://a%41", "/%zz"];
        for text in others.into_iter().chain([":a", "http://a|b", "http://u:p%zz@h", "http://[::1]:x", "?a", "/\u{7f}"])
        {
            assert!(!is_uri(text), "{text}");
        }
    }
}
