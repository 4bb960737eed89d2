//! Versions, as semver 2.0 orders them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::value::{Fault, Result, Value};

/// A version.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre: Vec<String>,
    text: String,
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Semver {
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.pre.iter().zip(&other.pre).map(|(one, other)| parts(one, other));
                pairs.fold(Ordering::Equal, Ordering::then).then(self.pre.len().cmp(&other.pre.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let number = |name: &str, text: &str| {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("Invalid character(s) found in {name} number {text:?}"));
            }
            if text.len() > 1 && text.starts_with('0') {
                return Err(format!("{} number must not contain leading zeroes {text:?}", capital(name)));
            }
            text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
        };
        let numbers = [number("major", major)?, number("minor", minor)?, number("patch", patch)?];
        let words = |all: Option<&str>, name: &str| -> std::result::Result<Vec<String>, String> {
            let Some(all) = all else { return Ok(Vec::new()) };
            let check = |word: &str| {
                if word.is_empty() {
                    return Err(format!("{name} is empty"));
                }
                if word.bytes().all(|byte| byte.is_ascii_digit()) {
                    return if name == "Prerelease" && word.len() > 1 && word.starts_with('0') {
                        Err(format!("Numeric PreRelease version must not contain leading zeroes {word:?}"))
                    } else {
                        Ok(word.to_owned())
                    };
                }
                if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                    return Ok(word.to_owned());
                }
                Err(format!("Invalid character(s) found in {} {word:?}", name.to_lowercase()))
            };
            all.split('.').map(check).collect()
        };
        let pre = words(pre, "Prerelease")?;
        words(build, "Build meta data")?;
        Ok(Self { numbers, pre, text: text.to_owned() })
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

fn parts(one: &str, other: &str) -> Ordering {
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// `v1.2` becomes `1.2.0`, and leading zeroes go.
fn normalized(text: &str) -> String {
    let text = text.trim().strip_prefix('v').unwrap_or(text.trim());
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let stripped = part.trim_start_matches('0');
            *part = if !stripped.starts_with(|c: char| c.is_ascii_digit()) {
                format!("0{stripped}")
            } else {
                stripped.to_owned()
            };
        }
    }
    if parts.len() < 3 {
        let last = parts.last().cloned().unwrap_or_default();
        if last.contains(['+', '-']) {
            return text.to_owned();
        }
        parts.resize(3, "0".to_owned());
    }
    parts.join(".")
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let made = |text: &str| Semver::parse(text).map(|of| Value::Semver(Arc::new(of))).map_err(Fault::new);
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    let number = |of: &Semver, index: usize| Some(Ok(Value::Int(i64::try_from(of.numbers[index]).unwrap_or(i64::MAX))));
    match (function, args) {
        ("semver", [Value::String(text)]) => Some(made(text)),
        ("semver", [Value::String(text), Value::Bool(lenient)]) => {
            Some(if *lenient { made(&normalized(text)) } else { made(text) })
        }
        ("isSemver", [Value::String(text)]) => flag(Semver::parse(text).is_ok()),
        ("isSemver", [Value::String(text), Value::Bool(lenient)]) => {
            flag(if *lenient { Semver::parse(&normalized(text)) } else { Semver::parse(text) }.is_ok())
        }
        ("major", [Value::Semver(of)]) => number(of, 0),
        ("minor", [Value::Semver(of)]) => number(of, 1),
        ("patch", [Value::Semver(of)]) => number(of, 2),
        ("isGreaterThan", [Value::Semver(one), Value::Semver(other)]) => flag(one.compare(other) == Ordering::Greater),
        ("isLessThan", [Value::Semver(one), Value::Semver(other)]) => flag(one.compare(other) == Ordering::Less),
        ("compareTo", [Value::Semver(one), Value::Semver(other)]) => Some(Ok(Value::Int(one.compare(other) as i64))),
        _ => None,
    }
}
