//! Jobs that are started again and again: when, in the words of the real server.

use concert_api::{Fault, FieldError, FieldErrors};
use serde_json::Value;

use super::job::check_spec;
use crate::builtin::judge::{Judge, text};

/// Minutes, hours, days of the month, months, days of the week: the least and the greatest, and their names.
const FIELDS: [(u64, u64, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// What jobs made from it add to its name has room.
const NAME_MAX: usize = 52;

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if judge.text(&spec["schedule"], "spec.schedule") {
        check_schedule(spec, old, &mut judge);
    }
    judge.not_negative(spec, &["startingDeadlineSeconds"], "spec");
    if old.is_none_or(|old| old["spec"]["timeZone"] != spec["timeZone"])
        && let Some(zone) = spec["timeZone"].as_str()
    {
        check_zone(zone, &mut judge);
    }
    judge.one_of(&spec["concurrencyPolicy"], &["Allow", "Forbid", "Replace"], "spec.concurrencyPolicy");
    let template = &spec["jobTemplate"]["spec"];
    check_spec(template, "spec.jobTemplate.spec", &mut judge);
    if template["manualSelector"] == true {
        let fault = Fault::NotSupported(true.into(), vec!["nil".to_owned(), "false".to_owned()]);
        judge.errors.push(FieldError::new("spec.jobTemplate.spec.manualSelector", fault, ""));
    }
    judge.not_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], "spec");
    let name = text(&object["metadata"]["name"]);
    if old.is_none() && name.len() > NAME_MAX {
        judge.invalid("metadata.name", name, format!("must be no more than {NAME_MAX} characters"));
    }
    judge.errors
}

fn check_schedule(spec: &Value, old: Option<&Value>, judge: &mut Judge) {
    const FIELD: &str = "spec.schedule";
    let schedule = text(&spec["schedule"]);
    if let Some(fault) = fault(schedule) {
        judge.invalid(FIELD, schedule, fault);
    }
    if schedule.contains("TZ") {
        let before = old.is_some_and(|old| text(&old["spec"]["schedule"]).contains("TZ"));
        match (before, spec["timeZone"].is_null()) {
            (false, _) => {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                judge.invalid(FIELD, schedule, detail);
            }
            (true, false) => {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                judge.invalid(FIELD, schedule, detail);
            }
            (true, true) => {}
        }
    }
}

/// What is wrong with the name of a time zone in itself; which there are is not known here.
fn check_zone(zone: &str, judge: &mut Judge) {
    const FIELD: &str = "spec.timeZone";
    if zone.is_empty() {
        return judge.invalid(FIELD, zone, "timeZone must be nil or non-empty string");
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let is_name = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(fits)
    };
    let is_local = zone.eq_ignore_ascii_case("local");
    if is_local {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        judge.invalid(FIELD, zone, detail);
    }
    if !zone.split('/').all(is_name) || (is_local && zone != "Local") {
        judge.invalid(FIELD, zone, format!("unknown time zone {zone}"));
    }
}

/// What is wrong with a schedule.
fn fault(schedule: &str) -> Option<String> {
    let mut schedule = schedule;
    if ["TZ=", "CRON_TZ="].iter().any(|prefix| schedule.starts_with(prefix)) {
        schedule = schedule.split_once(' ').map_or("", |(_, rest)| rest.trim());
    }
    if schedule.starts_with('@') {
        return named_fault(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let ranges = fields.into_iter().zip(FIELDS).flat_map(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).map(move |range| range_fault(range, bounds))
    });
    ranges.flatten().next()
}

fn named_fault(schedule: &str) -> Option<String> {
    if NAMED.contains(&schedule) {
        return None;
    }
    match schedule.strip_prefix("@every ") {
        None => Some(format!("unrecognized descriptor: {schedule}")),
        Some(time) if is_duration(time) => None,
        Some(time) => Some(format!("failed to parse duration {schedule}: time: invalid duration {time:?}")),
    }
}

/// A time such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let digits = &rest[..rest.len() - number.len()];
        let unit = number.trim_start_matches(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let name = &number[..number.len() - unit.len()];
        let is_number = digits.bytes().any(|byte| byte.is_ascii_digit()) && digits.matches('.').count() < 2;
        if !is_number || !matches!(name, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        (rest, parts) = (unit, parts + 1);
    }
    parts > 0
}

/// What is wrong with one of the ranges of a field.
fn range_fault(range: &str, (least, most, names): (u64, u64, &[&str])) -> Option<String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let read = |end: &str| match names.iter().position(|name| name.eq_ignore_ascii_case(end)) {
        Some(place) => Ok(u64::try_from(place).unwrap_or_default() + least),
        None => number(end),
    };
    let found = || -> Result<(u64, u64, u64), String> {
        let (start, mut end) = match ends.as_slice() {
            ["*" | "?", ..] => (least, most),
            [one] => (read(one)?, read(one)?),
            [start, end] => (read(start)?, read(end)?),
            _ => {
                read(ends[0])?;
                return Err(format!("too many hyphens: {range}"));
            }
        };
        let step = match parts.as_slice() {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return Err(format!("too many slashes: {range}")),
        };
        if parts.len() == 2 && ends.len() == 1 {
            end = most;
        }
        Ok((start, end, step))
    };
    match found() {
        Err(fault) => Some(fault),
        Ok((start, ..)) if start < least => {
            Some(format!("beginning of range ({start}) below minimum ({least}): {range}"))
        }
        Ok((_, end, _)) if end > most => Some(format!("end of range ({end}) above maximum ({most}): {range}")),
        Ok((start, end, _)) if start > end => {
            Some(format!("beginning of range ({start}) beyond end of range ({end}): {range}"))
        }
        Ok((_, _, 0)) => Some(format!("step of range should be a positive number: {range}")),
        Ok(_) => None,
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => {
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_the_real_server_reads_them() {
        for good in ["0 0 * * *", "*/5 1-3,7 ? JAN-mar MON", "@daily", "@every 1h30m", "5/10 * * * *", "1,,2 * * * *"] {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, words) in [
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
            ("@foo", "unrecognized descriptor: @foo"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ] {
            assert_eq!(fault(bad).as_deref(), Some(words), "{bad}");
        }
        for bad in ["a b c d e", "@every", "@every x", "1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *"] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
