//! Values that are something else in JSON than on the wire.

use std::time::Duration;

use concert_api::{Time, go_duration};

use super::out;
use crate::protobuf::wire::VARINT;

/// The year 1, when Go's time begins: no time at all.
const NO_TIME: i64 = -62_135_596_800;

fn number(bytes: &mut Vec<u8>, at: u64, value: i64) {
    out::tag(bytes, at, VARINT);
    out::varint(bytes, value.cast_unsigned());
}

/// Seconds and nanoseconds; whether the text is a moment.
pub(super) fn time(bytes: &mut Vec<u8>, at: u64, text: &str, micro: bool) -> bool {
    let Ok(time) = text.parse::<Time>() else { return false };
    let start = bytes.len();
    let nanos = if micro { i64::from(time.subsec_micros()) * 1000 } else { 0 };
    if (time.unix_seconds(), nanos) != (NO_TIME, 0) {
        number(bytes, 1, time.unix_seconds());
        number(bytes, 2, nanos);
    }
    out::wrap(bytes, start, at)
}

/// Nanoseconds; whether the text is a length of time.
pub(super) fn duration(bytes: &mut Vec<u8>, at: u64, text: &str) -> bool {
    let length = match text {
        "0" => Some(Duration::ZERO),
        _ => go_duration(text.strip_prefix('-').unwrap_or(text)),
    };
    let Some(nanos) = length.and_then(|length| i64::try_from(length.as_nanos()).ok()) else { return false };
    let start = bytes.len();
    number(bytes, 1, if text.starts_with('-') { -nanos } else { nanos });
    out::wrap(bytes, start, at)
}

/// An amount: its text.
pub(super) fn quantity(bytes: &mut Vec<u8>, at: u64, text: &str) -> bool {
    let start = bytes.len();
    out::field(bytes, 1, text.as_bytes());
    out::wrap(bytes, start, at)
}

/// Which of both it is, and both.
pub(super) fn integer_or_text(bytes: &mut Vec<u8>, at: u64, integer: i64, text: Option<&str>) -> bool {
    let start = bytes.len();
    number(bytes, 1, i64::from(text.is_some()));
    number(bytes, 2, integer);
    out::field(bytes, 3, text.unwrap_or_default().as_bytes());
    out::wrap(bytes, start, at)
}

/// JSON as it stands there.
pub(super) fn json(bytes: &mut Vec<u8>, at: u64, text: &str) {
    let start = bytes.len();
    out::field(bytes, 1, text.as_bytes());
    out::wrap(bytes, start, at);
}
