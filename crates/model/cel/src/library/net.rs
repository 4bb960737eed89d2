//! IP addresses and ranges of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::value::{Fault, Result, Value};

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u32,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    /// The bytes of its prefix.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.bits.div_ceil(8)).unwrap_or(16)
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = |why: String| {
            format!("network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}")
        };
        let Some((address, bits)) = text.rsplit_once('/') else { return Err(wrong("no '/'".to_owned())) };
        let parsed = parse_address(address).map_err(wrong)?;
        if address.contains('%') {
            return Err(wrong("IPv6 zones cannot be present in a prefix".to_owned()));
        }
        let canonical = !bits.is_empty()
            && bits.bytes().all(|byte| byte.is_ascii_digit())
            && (bits.len() == 1 || !bits.starts_with('0'));
        let bits: u32 =
            bits.parse().ok().filter(|_| canonical).ok_or_else(|| wrong(format!("bad bits after slash: {bits:?}")))?;
        if bits > width(&parsed) {
            return Err(wrong("prefix length out of range".to_owned()));
        }
        if matches!(parsed, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Self { address: parsed, bits })
    }

    fn contains(&self, address: &IpAddr) -> bool {
        width(&self.address) == width(address) && masked(&self.address, self.bits) == masked(address, self.bits)
    }
}

fn width(address: &IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: &IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Ipv4Addr::from(u32::from(*address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            Ipv6Addr::from(u128::from(*address) & mask).into()
        }
    }
}

/// An address in the words of Go's parser.
fn parse_address(text: &str) -> std::result::Result<IpAddr, String> {
    let wrong = |why: &str| format!("ParseAddr({text:?}): {why}");
    if let Ok(address) = text.split('%').next().unwrap_or_default().parse::<IpAddr>() {
        return Ok(address);
    }
    if text.contains(':') {
        return Err(wrong("unable to parse IP"));
    }
    if !text.contains('.') {
        return Err(wrong("unable to parse IP"));
    }
    let parts: Vec<&str> = text.split('.').collect();
    for part in &parts {
        if part.is_empty() {
            return Err(wrong("IPv4 field must have at least one digit"));
        }
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("unexpected character"));
        }
        if part.len() > 1 && part.starts_with('0') {
            return Err(wrong("IPv4 field has octet with leading zero"));
        }
        if part.parse::<u8>().is_err() {
            return Err(wrong("IPv4 field has value >255"));
        }
    }
    Err(wrong(if parts.len() < 4 { "IPv4 address too short" } else { "IPv4 address too long" }))
}

/// An address that Kubernetes allows.
fn address(text: &str) -> std::result::Result<IpAddr, String> {
    let parsed = parse_address(text)
        .map_err(|why| format!("IP Address {text:?} parse error during conversion from string: {why}"))?;
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    if matches!(parsed, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(parsed)
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    let cidr_fault = |why| Fault::new(format!("network address parse error during conversion from string: {why}"));
    match (function, args) {
        ("ip", [Value::String(text)]) => Some(address(text).map(Value::Ip).map_err(Fault::new)),
        ("ip", [Value::Cidr(cidr)]) => Some(Ok(Value::Ip(cidr.address))),
        ("isIP", [Value::String(text)]) => flag(address(text).is_ok()),
        ("ip.isCanonical", [Value::String(text)]) => {
            Some(address(text).map(|address| Value::Bool(address.to_string() == **text)).map_err(Fault::new))
        }
        (_, [Value::Ip(address)]) => about(function, address).map(Ok),
        ("cidr", [Value::String(text)]) => Some(Cidr::parse(text).map(Value::Cidr).map_err(cidr_fault)),
        ("isCIDR", [Value::String(text)]) => flag(Cidr::parse(text).is_ok()),
        ("containsIP", [Value::Cidr(cidr), Value::Ip(address)]) => flag(cidr.contains(address)),
        ("containsIP", [Value::Cidr(cidr), Value::String(text)]) => Some(match address(text) {
            Ok(address) => Ok(Value::Bool(cidr.contains(&address))),
            Err(_) => Err(Fault::no_overload()),
        }),
        ("containsCIDR", [Value::Cidr(cidr), Value::Cidr(other)]) => {
            flag(cidr.contains(&other.address) && cidr.bits <= other.bits)
        }
        ("containsCIDR", [Value::Cidr(cidr), Value::String(text)]) => Some(match Cidr::parse(text) {
            Ok(other) => Ok(Value::Bool(cidr.contains(&other.address) && cidr.bits <= other.bits)),
            Err(_) => Err(Fault::no_overload()),
        }),
        ("prefixLength", [Value::Cidr(cidr)]) => Some(Ok(Value::Int(cidr.bits.into()))),
        ("masked", [Value::Cidr(cidr)]) => {
            Some(Ok(Value::Cidr(Cidr { address: masked(&cidr.address, cidr.bits), bits: cidr.bits })))
        }
        _ => None,
    }
}

fn about<'a>(function: &str, address: &IpAddr) -> Option<Value<'a>> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let flag = match function {
        "family" => return Some(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalUnicast" => link_local,
        "isLinkLocalMulticast" => match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        },
        "isGlobalUnicast" => {
            let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || link_local || broadcast)
        }
        _ => return None,
    };
    Some(Value::Bool(flag))
}
