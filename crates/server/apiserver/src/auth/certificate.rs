//! What we need to know of an X.509 certificate: its subject and how long it is valid. Whether it may be trusted is
//! decided elsewhere (rustls); this only reads.

use ring::digest::{SHA256, digest};

use super::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The explicit `[0]` in which the version stands.
const VERSION: u8 = 0xa0;
/// The strings that are UTF-8 or a part of it.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The parts of a certificate that we use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    /// In seconds since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

impl Certificate {
    /// Reads a certificate; `None` if it is none, or says something in a form nobody uses.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut body = Der(certificate.expect(SEQUENCE)?);
        if body.peek() == Some(VERSION) {
            body.next()?;
        }
        // serial number, algorithm, issuer
        for _ in 0..3 {
            body.next()?;
        }
        let mut validity = Der(body.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let mut read = Self { common_name: String::new(), organizations: Vec::new(), not_before, not_after };
        let mut subject = Der(body.expect(SEQUENCE)?);
        while subject.peek().is_some() {
            let mut set = Der(subject.expect(SET)?);
            while set.peek().is_some() {
                let mut attribute = Der(set.expect(SEQUENCE)?);
                let kind = attribute.expect(OID)?;
                let (tag, value) = attribute.next()?;
                match kind {
                    COMMON_NAME => read.common_name = text(tag, value)?,
                    ORGANIZATION => read.organizations.push(text(tag, value)?),
                    _ => {}
                }
            }
        }
        Some(read)
    }

    /// The user that a verified certificate stands for: the common name, in the groups that the organizations name.
    pub(crate) fn user(self, der: &[u8]) -> Option<User> {
        if self.common_name.is_empty() {
            return None;
        }
        let hash: String = digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let credential = "authentication.kubernetes.io/credential-id".to_owned();
        let user = User {
            name: self.common_name,
            groups: self.organizations,
            extra: [(credential, vec![format!("X509SHA256={hash}")])].into(),
            ..User::default()
        };
        Some(user.authenticated())
    }
}

/// A reader of tags, lengths and values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            // Nothing in a certificate is larger than a few bytes of length can say.
            let (bytes, rest) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 3)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn expect(&mut self, expected: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == expected).map(|(_, value)| value)
    }
}

fn text(tag: u8, value: &[u8]) -> Option<String> {
    TEXTS.contains(&tag).then(|| std::str::from_utf8(value).ok().map(str::to_owned))?
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time((tag, value): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?.strip_suffix('Z')?;
    let text = match tag {
        // Two digits from 50 on are of the last century.
        UTC_TIME if text.as_bytes().first()? >= &b'5' => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    if text.len() != 14 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (date, clock) = text.split_at(8);
    let written =
        format!("{}-{}-{}T{}:{}:{}Z", &date[..4], &date[4..6], &date[6..], &clock[..2], &clock[2..4], &clock[4..]);
    written.parse().ok().map(concert_api::Time::unix_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use proptest::prelude::*;

    /// Made by openssl: CN = alice, O = dev, O = team.
    const ALICE: &str = "\
        MIIBmTCCAUCgAwIBAgIUMyOMekBWvMTgNcxq9OHkyvjv4W0wCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJY2xpZW50LWNhMB4XDTI2\
        MTExNjAyMzMxM1oXDTI2MTIxNjAyMzMxM1owLTEOMAwGA1UEAwwFYWxpY2UxDDAKBgNVBAoMA2RldjENMAsGA1UECgwEdGVhbTBZ\
        MBMGByqGSM49AgEGCCqGSM49AwEHA0IABLQNdaS/sopIiUYr4LOTddLqfcRM2Ucs6+lfce59EP8UBb4FmS+LRcjvUob1Kpx1CHsK\
        Lm10NtlxdyqF5DQ+5eSjVzBVMBMGA1UdJQQMMAoGCCsGAQUFBwMCMB0GA1UdDgQWBBQBeUPoGhaxbiFNTkUpUrHeKKt9gjAfBgNV\
        HSMEGDAWgBTfhfC+FAmnicAZucr7B6dAOqcFyzAKBggqhkjOPQQDAgNHADBEAiBXxKlrByXPWMnSmB2vBP3aR3CPp1O+Rum7clPJ\
        S3jFsgIgZsJVXwvcbcE4MEPn8YHqKt+KscJp/wx1SyUO1NvXlkE=\
        ";

    fn alice() -> Vec<u8> {
        base64::prelude::BASE64_STANDARD.decode(ALICE.trim()).unwrap()
    }

    #[test]
    fn subject_and_validity_are_read() {
        let read = Certificate::read(&alice()).unwrap();
        assert_eq!((read.not_before, read.not_after), (1794796393, 1797388393));
        let user = read.user(&alice()).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("alice", vec!["dev".into(), "team".into(), "system:authenticated".into()])
        );
        let credential = &user.extra["authentication.kubernetes.io/credential-id"];
        assert_eq!(credential, &["X509SHA256=99479db75a6153aaa54d8ca957cd3131651b474f95f128e24c19201c7ff6a56e"]);
    }

    proptest! {
        #[test]
        fn damaged_certificates_do_not_panic(at in 0usize..1000, byte in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut der = alice();
            let place = at % der.len();
            der[place] = byte;
            let _ = Certificate::read(&der);
            let _ = Certificate::read(&der[..place]);
            let _ = Certificate::read(&bytes);
        }
    }
}
