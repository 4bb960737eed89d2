//! Timestamps and durations.

use std::fmt;

use crate::value::{Fault, Result, Value};

const SECOND: i128 = 1_000_000_000;
/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const EARLIEST: i64 = -62_135_596_800;
const LATEST: i64 = 253_402_300_799;

/// A point in time, with the offset it was written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    seconds: i64,
    nanos: u32,
    /// East of UTC, in seconds.
    offset: i64,
}

impl Timestamp {
    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        (EARLIEST..=LATEST).contains(&seconds).then_some(Self { seconds, nanos: 0, offset: 0 })
    }

    /// Seconds since 1970 and nanoseconds.
    pub(crate) fn instant(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    fn total(&self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanos)
    }

    /// Later by so many nanoseconds; `None` outside of the years 1 to 9999.
    pub(crate) fn plus(&self, nanos: i128) -> Option<Self> {
        let total = self.total() + nanos;
        let seconds = i64::try_from(total.div_euclid(SECOND)).ok()?;
        let nanos = u32::try_from(total.rem_euclid(SECOND)).ok()?;
        (EARLIEST..=LATEST).contains(&seconds).then_some(Self { seconds, nanos, offset: self.offset })
    }
}

pub(crate) fn nanos_between(from: &Timestamp, to: &Timestamp) -> i128 {
    to.total() - from.total()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + self.offset;
        let (year, month, day) = civil(local.div_euclid(86_400));
        let of_day = local.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            let nanos = format!("{:09}", self.nanos);
            write!(f, ".{}", nanos.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Year, month and day of a day since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970 of a date.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// RFC 3339. The error is a message of its own, or none.
pub(crate) fn parse_timestamp(text: &str) -> std::result::Result<Timestamp, Option<String>> {
    let at = rfc_3339(text).ok_or(None)?;
    if (EARLIEST..=LATEST).contains(&at.seconds) { Ok(at) } else { Err(Some("timestamp overflow".to_owned())) }
}

fn rfc_3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if signs.iter().any(|(at, sign)| bytes[*at] != *sign) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let shown: String = fraction.chars().take(length.min(9)).collect();
        nanos = format!("{shown:0<9}").parse().ok().filter(|_| length > 0)?;
        rest = &fraction[length..];
    }
    let offset = offset(rest)?;
    let in_range = (1..=12).contains(&month)
        && (1..=month_length(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let seconds = day_number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    in_range.then_some(Timestamp { seconds, nanos, offset })
}

fn month_length(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `Z` or `+02:00`, in seconds.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A duration as Go writes it, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    let mut rest = rest;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, tail) = rest.split_at(length);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        total = total.checked_add(amount(number, unit)?)?;
        rest = tail;
    }
    i64::try_from(sign * total).ok()
}

fn amount(number: &str, unit: &str) -> Option<i128> {
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let digits: String = fraction.chars().take(18).collect();
    if !digits.is_empty() {
        let scale = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        nanos += digits.parse::<i128>().ok()? * unit / scale;
    }
    Some(nanos)
}

/// A duration as schemas allow it: Go's, or a number with a word (`3 days`).
pub(crate) fn parse_schema_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let text = text.trim();
    let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let number: f64 = text[..length].parse().ok()?;
    let unit = match text[length..].trim().to_lowercase().trim_end_matches('s') {
        "n" | "ns" | "nano" => 1.0,
        "u" | "us" | "µ" | "µs" | "micro" => 1e3,
        "m" | "ms" | "milli" => 1e6,
        "" | "sec" | "second" => 1e9,
        "min" | "minute" => 6e10,
        "h" | "hr" | "hour" => 3.6e12,
        "d" | "day" => 8.64e13,
        "w" | "wk" | "week" => 6.048e14,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    Some((number * unit) as i64)
}

/// A date or a date and time of a schema.
pub(crate) fn parse_schema_time(text: &str) -> Option<Timestamp> {
    let upper = text.to_ascii_uppercase().replace(' ', "T");
    rfc_3339(&upper).or_else(|| rfc_3339(&format!("{upper}T00:00:00Z"))).or_else(|| rfc_3339(&format!("{upper}Z")))
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    match args {
        [Value::Duration(nanos)] => {
            let unit = match function {
                "getHours" => 3600 * 1_000_000_000,
                "getMinutes" => 60 * 1_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return None,
            };
            Some(Ok(Value::Int(nanos / unit)))
        }
        [Value::Timestamp(at)] => part(function, at, 0).map(|part| Ok(Value::Int(part))),
        [Value::Timestamp(at), Value::String(zone)] => {
            let shift = match zone_offset(zone) {
                Some(shift) => shift,
                None => return Some(Err(Fault::new(format!("unknown time zone {}", &**zone)))),
            };
            part(function, at, shift).map(|part| Ok(Value::Int(part)))
        }
        _ => None,
    }
}

/// The offset of a zone: UTC, or one that is written out. Names of places are not known here.
fn zone_offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "UTC") {
        return Some(0);
    }
    let signed = if zone.starts_with(['+', '-']) { zone.to_owned() } else { format!("+{zone}") };
    offset(&signed)
}

fn part(function: &str, at: &Timestamp, shift: i64) -> Option<i64> {
    let local = at.seconds + shift;
    let days = local.div_euclid(86_400);
    let (year, month, day) = civil(days);
    let of_day = local.rem_euclid(86_400);
    Some(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDayOfYear" => days - day_number(year, 1, 1),
        "getDayOfMonth" => day - 1,
        "getDate" => day,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getHours" => of_day / 3600,
        "getMinutes" => of_day / 60 % 60,
        "getSeconds" => of_day % 60,
        "getMilliseconds" => i64::from(at.nanos / 1_000_000),
        _ => return None,
    })
}
