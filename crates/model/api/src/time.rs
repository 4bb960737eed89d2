//! How moments are written.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY: i64 = 86_400;

/// A moment in UTC, as Kubernetes writes it: RFC 3339 with whole seconds (`2026-01-02T03:04:05Z`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    micros: i64,
}

impl Time {
    /// A moment by its distance from 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self { micros: seconds * 1_000_000 }
    }

    /// Whole seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        self.micros.div_euclid(1_000_000)
    }

    /// The microseconds beyond whole seconds.
    #[must_use]
    pub fn subsec_micros(self) -> u32 {
        u32::try_from(self.micros.rem_euclid(1_000_000)).unwrap_or(0)
    }

    /// How long ago `earlier` was; zero if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.micros - earlier.micros).unwrap_or(0))
    }

    /// With six digits after the point, as `Lease` and `Event.eventTime` want it.
    #[must_use]
    pub fn with_micros(self) -> String {
        let text = self.to_string();
        format!("{}.{:06}Z", &text[..text.len() - 1], self.micros.rem_euclid(1_000_000))
    }
}

impl From<SystemTime> for Time {
    fn from(at: SystemTime) -> Self {
        let micros = match at.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        };
        Self { micros }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.unix_seconds();
        let (year, month, day) = civil(seconds.div_euclid(DAY));
        let of_day = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The text is not a moment in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot read the time: it must look like 2026-01-02T03:04:05Z")
    }
}

impl std::error::Error for TimeError {}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        parse(text).ok_or(TimeError)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Reads a duration as Go writes it, as `1h2m3.5s`; `None` if the text is none.
#[must_use]
pub fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let mut rest = text;
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &rest[..unit_end])?;
        total += number * factor;
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(total).ok()
}

fn parse(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    let shape = bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[13] == b':' && bytes[16] == b':';
    if !shape || !text.is_ascii() || !matches!(bytes[10], b'T' | b't') {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
    let (hour, minute, second) = (digits(&text[11..13])?, digits(&text[14..16])?, digits(&text[17..19])?);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !in_range {
        return None;
    }
    let (micros, zone) = fraction(&text[19..])?;
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
    Some(Time { micros: seconds * 1_000_000 + micros })
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Splits `.123456Z` into microseconds and the zone.
fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(rest) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let end = rest.bytes().position(|byte| !byte.is_ascii_digit())?;
    let (digits, zone) = rest.split_at(end);
    let micros: String = digits.chars().chain("000000".chars()).take(6).collect();
    (!digits.is_empty()).then_some(())?;
    Some((micros.parse().ok()?, zone))
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    (zone.len() == 6 && zone.as_bytes()[3] == b':').then_some(())?;
    Some(sign * (digits(&zone[1..3])? * 3600 + digits(&zone[4..6])? * 60))
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year; 400 years repeat.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day counted from 1970-01-01; the reverse of [`days`].
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_form_and_written_in_one() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-01-01T00:00:00Z", 1_767_225_600),
            ("2026-01-01T01:30:00+01:30", 1_767_225_600),
            ("2026-01-01T00:00:00.999999Z", 1_767_225_600),
        ] {
            assert_eq!(text.parse::<Time>().unwrap().unix_seconds(), seconds, "{text}");
        }
        assert_eq!("2026-01-01T00:00:00.5Z".parse::<Time>().unwrap().with_micros(), "2026-01-01T00:00:00.500000Z");
        for bad in ["", "now", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z"] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, seconds) in [
            ("1m", Some(60.0)),
            ("1h2m3.5s", Some(3723.5)),
            ("100ms", Some(0.1)),
            ("1m0s", Some(60.0)),
            ("0s", Some(0.0)),
        ] {
            assert_eq!(go_duration(text).map(|read| read.as_secs_f64()), seconds, "{text}");
        }
        for bad in ["", "5", "s", "1x", "-1s", "1.2.3s"] {
            assert_eq!(go_duration(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in -60_000_000_000i64..200_000_000_000) {
            let time = Time::from_unix_seconds(seconds);
            prop_assert_eq!(time.to_string().parse::<Time>(), Ok(time));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = text.parse::<Time>();
        }
    }
}
