//! IP addresses and ranges of them, in the words of the real server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::judge::Judge;

/// An address or a range as it was meant, and what is wrong with how it was said.
struct Read<T> {
    value: T,
    fault: Option<&'static str>,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    address: IpAddr,
    bits: u32,
}

impl Judge {
    /// An address that is said as it should be; whether it is.
    pub(super) fn address(&mut self, text: &str, field: &str) -> bool {
        let fault = match read(text) {
            None => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            Some(read) => read.fault,
        };
        if let Some(fault) = fault {
            self.invalid(field, text, fault);
        }
        fault.is_none()
    }

    /// A range that is said as it should be, if it can be read at all.
    pub(super) fn range(&mut self, text: &str, field: &str) -> Option<Range> {
        let read = Range::read(text);
        let fault = match &read {
            None => Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            Some(read) => read.fault,
        };
        if let Some(fault) = fault {
            self.invalid(field, text, fault);
        }
        read.map(|read| read.value)
    }

    /// An address that somebody else can be reached at.
    pub(super) fn endpoint(&mut self, text: &str, field: &str) {
        let Some(Read { value, .. }) = read(text) else {
            return self.invalid(field, text, "must be a valid IP address");
        };
        let value = value.to_canonical();
        let (local, multicast) = match value {
            IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
        };
        for (is_so, fault) in [
            (value.is_unspecified(), format!("may not be unspecified ({text})").as_str()),
            (value.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
            (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ] {
            if is_so {
                self.invalid(field, text, fault);
            }
        }
    }
}

impl Range {
    fn read(text: &str) -> Option<Read<Self>> {
        let (address, bits) = text.split_once('/')?;
        let Read { value: address, fault } = read(address)?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = bits.parse().ok().filter(|_| is_number)?;
        let range = Self { address, bits: number };
        if number > width(address) {
            return None;
        }
        let is_padded = bits.len() > 1 && bits.starts_with('0');
        let fault = match fault {
            Some(MAPPED) => Some("must not have an IPv4-mapped IPv6 address"),
            Some(_) => Some("must not have leading 0s in IP or prefix length"),
            None if is_padded => Some("must not have leading 0s in IP or prefix length"),
            None if range.first() != address => Some("must not have bits set beyond the prefix length"),
            None => None,
        };
        Some(Read { value: range, fault })
    }

    /// Its first address.
    fn first(self) -> IpAddr {
        masked(self.address, self.bits)
    }

    /// Whether it is a real part of another range.
    pub(super) fn is_part_of(self, other: Self) -> bool {
        width(self.address) == width(other.address)
            && masked(self.first(), other.bits) == other.first()
            && other.bits < self.bits
    }
}

const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";

/// Whether a text is an address, however it is said.
pub(super) fn is_address(text: &str) -> bool {
    read(text).is_some()
}

/// Whether a text is an address of the fourth version, however it is said.
pub(super) fn is_four(text: &str) -> bool {
    read(text).is_some_and(|read| read.value.to_canonical().is_ipv4())
}

/// As Go once read addresses: zeros in front of a number meant nothing.
fn read(text: &str) -> Option<Read<IpAddr>> {
    if let Ok(value) = text.parse::<IpAddr>() {
        let is_mapped = matches!(value, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        return Some(Read { value, fault: is_mapped.then_some(MAPPED) });
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.trim_start_matches('0');
        *octet = if number.is_empty() { 0 } else { number.parse().ok()? };
        if !is_number {
            return None;
        }
    }
    let value = Ipv4Addr::from(octets).into();
    parts.next().is_none().then_some(Read { value, fault: Some("must not have leading 0s") })
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(judge: impl Fn(&mut Judge)) -> Vec<String> {
        let mut all = Judge::default();
        judge(&mut all);
        all.errors.iter().map(|error| error.detail.clone()).collect()
    }

    #[test]
    fn an_address_is_said_in_one_way() {
        let faults = |text: &str| told(|judge| _ = judge.address(text, "ip"));
        for good in ["10.1.0.1", "2001:db8::1", "FE80::1"] {
            assert!(faults(good).is_empty(), "{good}");
        }
        assert_eq!(faults("010.1.0.1"), ["must not have leading 0s"]);
        assert_eq!(faults("::ffff:1.2.3.4"), [MAPPED]);
        for bad in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2..4", "1.2.3.+4", "x", "fe80::1%eth0"] {
            assert_eq!(faults(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_range_has_no_bits_of_its_own() {
        let faults = |text: &str| told(|judge| _ = judge.range(text, "cidr"));
        for good in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1/128"] {
            assert!(faults(good).is_empty(), "{good}");
        }
        assert_eq!(faults("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(faults("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        for bad in ["10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "/8", "x/8"] {
            assert_eq!(faults(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_part_is_smaller_and_within() {
        let range = |text: &str| Range::read(text).unwrap().value;
        assert!(range("10.1.0.0/16").is_part_of(range("10.0.0.0/8")));
        for not in ["10.0.0.0/8", "0.0.0.0/0", "11.0.0.0/16", "::/16"] {
            assert!(!range(not).is_part_of(range("10.0.0.0/8")), "{not}");
        }
    }
}
