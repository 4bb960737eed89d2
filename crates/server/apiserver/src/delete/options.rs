//! `DeleteOptions`: from the body if there is one, else from the query, as the real server reads them.

use concert_api::{Fault, FieldError, Gvk, Status};
use serde_json::Value;

use crate::body::Media;
use crate::target::Query;

const POLICIES: [(&str, Policy); 3] =
    [("Foreground", Policy::Foreground), ("Background", Policy::Background), ("Orphan", Policy::Orphan)];
/// Holds an owner that is deleted in the foreground until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an owner until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl Policy {
    /// The finalizers of an object whose deletion is asked for: `asked` wins over a finalizer that already says what to
    /// do, and that over the default, which is the background for every kind.
    pub(crate) fn finalizers(asked: Option<Self>, present: &[&str]) -> Vec<String> {
        let held = present.iter().find_map(|one| match *one {
            ORPHAN => Some(Self::Orphan),
            FOREGROUND => Some(Self::Foreground),
            _ => None,
        });
        let others = present.iter().filter(|one| !matches!(**one, ORPHAN | FOREGROUND));
        let own = match asked.or(held).unwrap_or(Self::Background) {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        };
        others.copied().chain(own).map(str::to_owned).collect()
    }
}

/// `DeleteOptions`, as far as they matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) policy: Option<Policy>,
    /// How long a pod has to end; `None`: as long as it says.
    pub(crate) grace: Option<i64>,
    /// Whether it is meant for what cannot be read, whatever that breaks.
    pub(crate) unreadable: bool,
}

/// The option that means so.
const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl DeleteOptions {
    /// Reads the body of a DELETE; the query counts only if there is none.
    pub(crate) fn read(media: Media, body: &[u8], query: &Query) -> Result<Self, Status> {
        if body.is_empty() {
            let orphan = query.orphan_dependents;
            let policy = policy(query.propagation.as_deref(), orphan)?;
            let unreadable = query.unreadable;
            let alone = [
                ("propagationPolicy", query.propagation.is_some()),
                ("orphanDependents", orphan.is_some()),
                ("gracePeriodSeconds", query.grace),
            ];
            check_unreadable(unreadable, &alone)?;
            let grace = query.grace_seconds;
            return Ok(Self { dry_run: query.dry_run, policy, unreadable, grace, ..Self::default() });
        }
        let unread = |why: String| match media {
            Media::Json => Status::bad_request(format!("couldn't get version/kind; {why}")),
            Media::Yaml => Status::bad_request(why),
        };
        let mut value = media.decode(body).map_err(unread)?.value;
        if value.is_null() {
            value = Value::Object(serde_json::Map::new());
        }
        check_shape(&value)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let unreadable = value[UNREADABLE] == true;
        let alone = ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
        check_unreadable(unreadable, &alone.map(|name| (name, !value[name].is_null())))?;
        Ok(Self {
            unreadable,
            grace: value["gracePeriodSeconds"].as_i64(),
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            dry_run: dry_run(&value["dryRun"])?,
            policy: policy(value["propagationPolicy"].as_str(), value["orphanDependents"].as_bool())?,
        })
    }

    /// The same, for many objects at once.
    pub(crate) fn of_many(self) -> Result<Self, Status> {
        if !self.unreadable {
            return Ok(self);
        }
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        Err(invalid(FieldError::invalid(UNREADABLE, true, detail)))
    }
}

/// Such a delete asks for nothing else.
fn check_unreadable(unreadable: bool, others: &[(&str, bool)]) -> Result<(), Status> {
    let set = others.iter().filter(|(_, set)| unreadable && *set);
    let detail = |name: &str| format!("cannot be set together with .{name}");
    let errors: Vec<_> = set.map(|(name, _)| FieldError::invalid(UNREADABLE, true, detail(name))).collect();
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&gvk(), "", &errors)) }
}

fn gvk() -> Gvk {
    Gvk::new("meta.k8s.io", "", "DeleteOptions")
}

fn invalid(error: FieldError) -> Status {
    Status::invalid(&gvk(), "", &[error])
}

fn policy(text: Option<&str>, orphan: Option<bool>) -> Result<Option<Policy>, Status> {
    match (text, orphan) {
        (Some(text), Some(_)) => {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            Err(invalid(FieldError::invalid("propagationPolicy", text, detail)))
        }
        (None, None) => Ok(None),
        (None, Some(true)) => Ok(Some(Policy::Orphan)),
        (None, Some(false)) => Ok(Some(Policy::Background)),
        (Some(text), None) => match POLICIES.iter().find(|(name, _)| *name == text) {
            Some((_, policy)) => Ok(Some(*policy)),
            None => {
                let known = POLICIES.iter().map(|(name, _)| *name).chain(["nil"]).map(str::to_owned).collect();
                Err(invalid(FieldError::new("propagationPolicy", Fault::NotSupported(text.into(), known), "")))
            }
        },
    }
}

fn dry_run(value: &Value) -> Result<bool, Status> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.iter().all(|one| one == "All") {
        return Ok(!list.is_empty());
    }
    let fault = Fault::NotSupported(value.clone(), vec!["All".to_owned()]);
    Err(invalid(FieldError::new("dryRun", fault, "")))
}

/// Whether a value has the right shape.
type Fits = fn(&Value) -> bool;

/// The body must be a `DeleteOptions`, of any version.
fn check_shape(value: &Value) -> Result<(), Status> {
    let wrong = |found: &str, field: &str, wanted: &str| {
        let place =
            if field.is_empty() { "Go value".to_owned() } else { format!("Go struct field DeleteOptions.{field}") };
        Status::bad_request(format!("json: cannot unmarshal {found} into {place} of type {wanted}"))
    };
    if !value.is_object() {
        let fields = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        let why = format!("json: cannot unmarshal {} into Go value of type {fields}", json_type(value));
        return Err(Status::bad_request(format!("couldn't get version/kind; json parse error: {why}")));
    }
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    if !matches!(text("kind"), "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            text("kind"),
            text("apiVersion")
        )));
    }
    let fits: [(&str, &str, Fits); 6] = [
        (UNREADABLE, "bool", Value::is_boolean),
        ("gracePeriodSeconds", "int64", Value::is_i64),
        ("orphanDependents", "bool", Value::is_boolean),
        ("propagationPolicy", "v1.DeletionPropagation", Value::is_string),
        ("dryRun", "[]string", |value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string))),
        ("preconditions", "v1.Preconditions", Value::is_object),
    ];
    for (field, wanted, fits) in fits {
        if !value[field].is_null() && !fits(&value[field]) {
            return Err(wrong(json_type(&value[field]), field, wanted));
        }
    }
    Ok(())
}

/// What Go calls a JSON value.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Preconditions that name this very object.
pub(crate) fn exactly(uid: &str) -> DeleteOptions {
    DeleteOptions { uid: Some(uid.to_owned()), ..DeleteOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_wins_over_what_the_object_says() {
        let (x, orphan, foreground) = ("x.io/y", ORPHAN, FOREGROUND);
        for (asked, present, expected) in [
            (None, vec![], vec![]),
            (None, vec![x], vec![x]),
            (None, vec![orphan, x], vec![x, orphan]),
            (None, vec![foreground], vec![foreground]),
            (Some(Policy::Background), vec![orphan], vec![]),
            (Some(Policy::Foreground), vec![orphan, x], vec![x, foreground]),
            (Some(Policy::Orphan), vec![x], vec![x, orphan]),
            (Some(Policy::Orphan), vec![foreground], vec![orphan]),
        ] {
            assert_eq!(Policy::finalizers(asked, &present), expected, "{asked:?} {present:?}");
        }
        assert_eq!(json_type(&serde_json::json!([])), "array");
    }
}
