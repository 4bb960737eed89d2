//! Formats of strings that the real server checks.

use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use concert_api::{Time, names};

mod hosts;
mod numbers;

pub(crate) use hosts::is_uri;

/// Whether the real server knows a format of strings.
pub(crate) fn is_known(name: &str) -> bool {
    // Passwords are known, and not checked.
    Format::parse(name).is_some() || name == "password"
}

/// A checked format. Formats not listed here are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    /// Of ten digits, of thirteen, or of either.
    Isbn(Option<usize>),
    LongName,
    Mac,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    /// Any version, or this one.
    Uuid(Option<u8>),
}

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        // Hyphens are not looked at.
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "date" => Self::Date,
            "creditcard" => Self::CreditCard,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn(None),
            "isbn10" => Self::Isbn(Some(10)),
            "isbn13" => Self::Isbn(Some(13)),
            "k8slongname" => Self::LongName,
            "k8sshortname" => Self::ShortName,
            "mac" => Self::Mac,
            "rgbcolor" => Self::RgbColor,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some(b'3')),
            "uuid4" => Self::Uuid(Some(b'4')),
            "uuid5" => Self::Uuid(Some(b'5')),
            _ => return None,
        })
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match self {
            Self::BsonObjectId => text.len() == 24 && hex(text),
            Self::Byte => !text.is_empty() && STANDARD.decode(text).is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Date => text.len() == 10 && is_moment(&format!("{text}T00:00:00Z")),
            Self::DateTime => is_moment(text),
            Self::Duration => is_duration(text),
            Self::Email => is_email(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && hex(digits)
            }
            Self::Hostname => hosts::is_hostname(text),
            Self::Ipv4 => is_ipv4(text),
            Self::Ipv6 => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
            Self::Isbn(length) => numbers::is_isbn(text, length),
            Self::LongName => names::subdomain_faults(text).is_empty(),
            Self::ShortName => names::label_faults(text).is_empty(),
            Self::Mac => is_mac(text),
            Self::CreditCard => numbers::is_credit_card(text),
            Self::RgbColor => numbers::is_rgb_color(text),
            Self::Ssn => numbers::is_ssn(text),
            Self::Uri => hosts::is_uri(text),
            Self::Uuid(version) => is_uuid(text, version),
        }
    }
}

/// RFC 3339, with a day that the month has.
fn is_moment(text: &str) -> bool {
    if text.to_ascii_uppercase().parse::<Time>().is_err() {
        return false;
    }
    // A day that the month lacks rolls over into the next month: compare the day without its zone.
    let local = text.get(..19).map(|local| format!("{local}Z").to_ascii_uppercase().parse::<Time>());
    matches!(local, Some(Ok(local)) if local.to_string()[..10] == text[..10])
}

fn is_ipv4(text: &str) -> bool {
    // Leading zeros are accepted by the real server.
    let parts: Vec<&str> = text.split('.').collect();
    let part = |part: &&str| is_digits(part) && part.parse::<u32>().is_ok_and(|number| number < 256);
    parts.len() == 4 && parts.iter().all(part)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/').filter(|(_, prefix)| is_digits(prefix)) else { return false };
    let Ok(prefix) = prefix.parse::<u32>() else { return false };
    (is_ipv4(address) && prefix <= 32) || (address.parse::<Ipv6Addr>().is_ok() && prefix <= 128)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A Go duration, or a number and a unit somewhere in the text.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 31] = [
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hour",
        "hours",
        "d",
    ];
    const LONG_UNITS: [&str; 6] = ["day", "days", "w", "wk", "week", "weeks"];
    let starts = text.char_indices().filter(|(_, found)| found.is_ascii_digit());
    starts.into_iter().any(|(at, _)| {
        let rest = text[at..].trim_start_matches(|found: char| found.is_ascii_digit()).trim_start();
        let unit: String = rest.chars().take_while(|found| found.is_alphabetic()).collect();
        let unit = unit.to_lowercase();
        UNITS.contains(&unit.as_str()) || LONG_UNITS.contains(&unit.as_str())
    }) || text == "0"
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => inner.get(open + 1..).unwrap_or_default(),
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |text: &str| {
        let bad = |found: char| found.is_whitespace() || found.is_control() || "()<>[]:;@\\,\"".contains(found);
        !text.is_empty() && !text.contains(bad) && !text.split('.').any(str::is_empty)
    };
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    (quoted || atom(local)) && atom(domain)
}

fn is_mac(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = |separator: char| {
        let parts: Vec<&str> = text.split(separator).collect();
        matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|part| part.len() == 2 && hex(part))
    };
    let dotted: Vec<&str> = text.split('.').collect();
    let quads = matches!(dotted.len(), 3 | 4 | 10) && dotted.iter().all(|part| part.len() == 4 && hex(part));
    pairs(':') || pairs('-') || quads || (matches!(text.len(), 12 | 16 | 40) && hex(text))
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let dashes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-');
    // Each dash is optional, but may stand only between its groups.
    let mut places = dashes.enumerate().map(|(before, (at, _))| at - before);
    digits.len() == 32
        && digits.iter().all(u8::is_ascii_hexdigit)
        && places.all(|place| matches!(place, 8 | 12 | 16 | 20))
        && !text.contains("--")
        && version.is_none_or(|version| digits[12] == version)
        && (version.is_none_or(|version| version == b'3') || b"89abAB".contains(&digits[16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these was asked of the real server.
    #[test]
    fn formats_accept_what_the_real_server_accepts() {
        for (format, good, bad) in [
            (
                "date-time",
                &["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123+01:00", "2020-01-01t00:00:00z"][..],
                &["x", "2020-01-01", "2020-13-01T00:00:00Z", "2020-02-31T00:00:00Z", "2020-01-01T00:00:00"][..],
            ),
            ("date", &["2020-01-01"], &["x", "2020-02-31", "2020-1-1"]),
            ("uuid", &["ABCDEF01-0000-0000-0000-000000000000", "abcdef01000000000000000000000000"], &["x"]),
            ("email", &["a@b", "A <a@b>", "a@b.c"], &["x", "a b"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["x", "1.2.3.256", "::1"]),
            ("byte", &["YQ=="], &["$", "YQ", "", "YQ=\n="]),
            ("mac", &["00:11:22:33:44:55", "0011.2233.4455", "001122334455"], &["x", "00112233445566"]),
            ("k8s-short-name", &["a", "a-1"], &["", "A", "a.b", "a-"]),
            ("k8s-long-name", &["a", "a.b"], &["", "A", "a..b"]),
            ("duration", &["1s", "1h30m", "1 day", "3 weeks", "1d", "P1D", "1.5h", "-1s"], &["x", "5"]),
            ("cidr", &["1.2.3.0/24", "::/0", "010.0.0.0/8"], &["x", "1.2.3.4", "1.2.3.4/33", "1.2.3.4/+8"]),
        ] {
            let parsed = Format::parse(format).unwrap();
            for text in good {
                assert!(parsed.accepts(text), "{format} {text}");
            }
            for text in bad {
                assert!(!parsed.accepts(text), "{format} {text}");
            }
        }
        for unchecked in ["password", "frobnicate", "int32", ""] {
            assert_eq!(Format::parse(unchecked), None);
        }
    }
}
