//! Events: one object, two faces.

use concert_api::{Fault, FieldError, FieldErrors, Gvk, Time, names, quoted};
use serde_json::{Value, json};

use super::cells;
use crate::column::age_of;

const NOTE_MAX: usize = 1024;
const TEXT_MAX: usize = 128;

/// What the same member is called in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Turns an event of either group into one of the group asked for (`""` or `events.k8s.io`).
pub(super) fn convert(object: &mut Value, to: &Gvk) {
    let Some(members) = object.as_object_mut() else { return };
    let to_core = to.group.is_empty();
    for (core, other) in NAMES {
        let (from, to) = if to_core { (other, core) } else { (core, other) };
        if let Some(value) = members.remove(from) {
            members.insert(to.to_owned(), value);
        }
    }
    members.insert("apiVersion".to_owned(), to.api_version().into());
    if to_core { prepare_core(object, None) } else { prepare_events(object, None) }
}

/// What Go writes though it is empty.
pub(super) fn prepare_core(object: &mut Value, _old: Option<&Value>) {
    let empty = json!({
        "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
        "reportingComponent": "", "reportingInstance": "",
    });
    fill(object, empty);
}

/// What Go writes though it is empty.
pub(super) fn prepare_events(object: &mut Value, _old: Option<&Value>) {
    let empty = json!({
        "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        "eventTime": null,
    });
    fill(object, empty);
    let Some(members) = object.as_object_mut() else { return };
    members.retain(|name, value| !matches!(name.as_str(), "reportingController" | "reportingInstance") || *value != "");
}

fn fill(object: &mut Value, empty: Value) {
    let (Some(members), Value::Object(empty)) = (object.as_object_mut(), empty) else { return };
    for (name, value) in empty {
        members.entry(name).or_insert(value);
    }
    if let Some(series) = members.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("lastObservedTime").or_insert(Value::Null);
    }
}

pub(super) fn check_core(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = check_namespace(object, "involvedObject");
    if old.is_none() && !object["eventTime"].is_null() {
        check_new_style(object, "reportingComponent", "message", &mut errors);
    }
    errors
}

pub(super) fn check_events(object: &Value, old: Option<&Value>) -> FieldErrors {
    if let Some(old) = old {
        return check_changed(object, old);
    }
    let mut errors = check_namespace(object, "regarding");
    if object["eventTime"].is_null() {
        errors.push(FieldError::required("eventTime", ""));
    } else {
        check_new_style(object, "reportingController", "note", &mut errors);
    }
    check_series(&object["series"], &mut errors);
    let kind = object["type"].as_str().unwrap_or_default();
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    if object["deprecatedCount"].as_i64().is_some_and(|count| count != 0) {
        errors.push(FieldError::invalid("count", "", "needs to be unset"));
    }
    errors
}

/// What may not change once an event is told by the newer face, under its inner names.
const FIXED: [(&str, &str); 13] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// By the newer face only the series of an event goes on.
fn check_changed(object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if object["eventTime"].is_null() {
        errors.extend(check_namespace(object, "regarding"));
    } else {
        check_new_style(object, "reportingController", "note", &mut errors);
    }
    if object["series"] != old["series"] {
        check_series(&object["series"], &mut errors);
    }
    for (name, inner) in FIXED {
        let value = as_go_writes_it(name, &object[name]);
        if value != as_go_writes_it(name, &old[name]) {
            errors.push(FieldError::new(inner, Fault::InvalidShown(Some(value)), "field is immutable"));
        }
    }
    errors
}

/// A member as Go writes it: with all that has a place in it, in the order of those places.
fn as_go_writes_it(name: &str, value: &Value) -> String {
    let members: &[(&str, &str)] = match name {
        "related" if value.is_null() => return "null".to_owned(),
        "regarding" | "related" => &[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ],
        "deprecatedSource" => &[("Component", "component"), ("Host", "host")],
        "deprecatedCount" => return value.as_i64().unwrap_or_default().to_string(),
        name if name.ends_with("Time") || name.ends_with("Timestamp") => return value.to_string(),
        _ => return quoted(value.as_str().unwrap_or_default()),
    };
    let shown = |(outer, inner): &(&str, &str)| {
        let text = Value::from(value[*inner].as_str().unwrap_or_default());
        format!("\"{outer}\":{text}")
    };
    format!("{{{}}}", members.iter().map(shown).collect::<Vec<_>>().join(","))
}

/// A series is of two at least, the last of which was seen some time.
fn check_series(series: &Value, errors: &mut FieldErrors) {
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn check_namespace(object: &Value, about: &str) -> FieldErrors {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = object[about]["namespace"].as_str().unwrap_or_default();
    let mut errors = FieldErrors::new();
    // About something without a namespace, an event lives in `default`.
    let fits = own == about || (about.is_empty() && matches!(own, "default" | "kube-system"));
    if !fits {
        errors.push(FieldError::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
    errors
}

fn check_new_style(object: &Value, controller: &str, note: &str, errors: &mut FieldErrors) {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    if text(controller).is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    let faults = names::qualified_faults(text(controller)).into_iter();
    errors.extend(faults.map(|fault| FieldError::invalid(controller, text(controller), fault)));
    for name in ["reportingInstance", "action", "reason"] {
        if text(name).is_empty() {
            errors.push(FieldError::required(name, ""));
        } else if text(name).len() > TEXT_MAX {
            errors.push(FieldError::invalid(name, "", format!("can have at most {TEXT_MAX} characters")));
        }
    }
    if text(note).len() > NOTE_MAX {
        errors.push(FieldError::invalid("message", "", format!("can have at most {NOTE_MAX} characters")));
    }
}

/// The same for both faces.
pub(super) fn cells(event: &Value, now: Time) -> Vec<Value> {
    vec![
        last_seen(event, now),
        text(event, "type"),
        text(event, "reason"),
        target(event),
        about(event)["fieldPath"].as_str().unwrap_or_default().into(),
        source(event),
        member(event, 1).as_str().unwrap_or_default().trim().into(),
        first_seen(event, now),
        count(event),
        cells::name(event),
    ]
}

fn text(event: &Value, name: &str) -> Value {
    event[name].as_str().unwrap_or_default().into()
}

/// A member under whichever of its two names it has.
fn member(event: &Value, row: usize) -> &Value {
    let (core, other) = NAMES[row];
    event.get(core).unwrap_or(&event[other])
}

fn about(event: &Value) -> &Value {
    member(event, 0)
}

fn target(event: &Value) -> Value {
    let kind = about(event)["kind"].as_str().unwrap_or_default().to_lowercase();
    match about(event)["name"].as_str().unwrap_or_default() {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value) -> Value {
    let first = |texts: [&Value; 2]| {
        texts.into_iter().filter_map(Value::as_str).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let component = first([&member(event, 3)["component"], member(event, 2)]);
    let instance = first([&member(event, 3)["host"], &event["reportingInstance"]]);
    if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() }
}

fn first_seen(event: &Value, now: Time) -> Value {
    let first = member(event, 4);
    age_of(if first.is_null() { &event["eventTime"] } else { first }, now)
}

fn last_seen(event: &Value, now: Time) -> Value {
    if event["series"].is_object() {
        return age_of(&event["series"]["lastObservedTime"], now);
    }
    let last = member(event, 5);
    if last.is_null() { first_seen(event, now) } else { age_of(last, now) }
}

fn count(event: &Value) -> Value {
    match (event["series"]["count"].as_i64(), member(event, 6).as_i64()) {
        (Some(count), _) => count.into(),
        (None, Some(0) | None) => 1.into(),
        (None, Some(count)) => count.into(),
    }
}
