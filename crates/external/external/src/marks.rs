//! What is written on the object around a create, so that no crash makes a second one.
//!
//! Before Create: the finalizer, the token and `pending`. After it: the outcome. The token (uid and attempt) and the
//! outcome decide; Crossplane's three timestamps are kept for people, dashboards and objects that come from there, but
//! they have whole seconds and other machines' clocks, so they decide only where our own marks are missing.

use concert_api::{Time, meta};
use serde_json::{Value, json};

use crate::CreateToken;

/// The external resource's name or id.
pub const EXTERNAL_NAME: &str = "crossplane.io/external-name";
/// A create is about to be sent, since this time.
pub const CREATE_PENDING: &str = "crossplane.io/external-create-pending";
/// A create succeeded at this time.
pub const CREATE_SUCCEEDED: &str = "crossplane.io/external-create-succeeded";
/// A create failed at this time.
pub const CREATE_FAILED: &str = "crossplane.io/external-create-failed";
/// The token of the newest create.
pub const CREATE_TOKEN: &str = "concert.dev/create-token";
/// Its outcome: `pending`, `succeeded` or `failed`.
pub const CREATE_OUTCOME: &str = "concert.dev/create-outcome";
/// Holds the object until its external resource is gone.
pub const FINALIZER: &str = "finalizer.managedresource.crossplane.io";

/// What is known about the newest create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// There was none, or it is known to have failed.
    None,
    /// It was about to be sent; nobody wrote down what came of it.
    Unknown,
    /// It succeeded.
    Succeeded,
}

/// The marks on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// What came of the newest create.
    pub creation: Creation,
    /// Its token, if it had one.
    pub token: Option<CreateToken>,
    /// The number that the next create gets.
    pub next_attempt: u64,
}

impl Marks {
    /// Reads the marks of an object.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let uid = meta::text(object, "uid");
        let annotation = |key| meta::annotation(object, key);
        // A token that names another object came here by copying its manifest: it says nothing about this one.
        let own = |(token, attempt): (CreateToken, u64)| {
            (token == CreateToken::new(uid, attempt)).then_some((token, attempt))
        };
        let token = annotation(CREATE_TOKEN).and_then(CreateToken::parse).and_then(own);
        let creation = match (&token, annotation(CREATE_OUTCOME)) {
            (Some(_), Some("succeeded")) => Creation::Succeeded,
            (Some(_), Some("failed")) => Creation::None,
            // A person who has looked removes the pending mark.
            (Some(_), _) if annotation(CREATE_PENDING).is_none() => Creation::None,
            (Some(_), _) => Creation::Unknown,
            (None, _) => by_timestamps(object),
        };
        let next_attempt = match (&token, creation) {
            (None, _) => 1,
            (Some((_, attempt)), Creation::Unknown) => *attempt,
            (Some((_, attempt)), _) => attempt + 1,
        };
        Self { creation, token: token.map(|(token, _)| token), next_attempt }
    }

    /// The annotations to write before a create with this token.
    #[must_use]
    pub fn pending(token: &CreateToken, now: Time) -> Value {
        json!({CREATE_PENDING: now, CREATE_TOKEN: token.as_str(), CREATE_OUTCOME: "pending"})
    }

    /// The annotations to write after it.
    #[must_use]
    pub fn outcome(succeeded: bool, now: Time) -> Value {
        if succeeded {
            json!({CREATE_SUCCEEDED: now, CREATE_OUTCOME: "succeeded"})
        } else {
            json!({CREATE_FAILED: now, CREATE_OUTCOME: "failed"})
        }
    }
}

/// Crossplane's rule, for objects without our marks: incomplete if pending is strictly newer than both others.
fn by_timestamps(object: &Value) -> Creation {
    let time = |key| meta::annotation(object, key).and_then(|text| text.parse::<Time>().ok());
    let ended = time(CREATE_SUCCEEDED).max(time(CREATE_FAILED));
    match time(CREATE_PENDING) {
        Some(pending) if ended.is_none_or(|ended| pending > ended) => Creation::Unknown,
        _ if time(CREATE_SUCCEEDED).is_some() && time(CREATE_SUCCEEDED) >= time(CREATE_FAILED) => Creation::Succeeded,
        _ => Creation::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotations: Value) -> Value {
        json!({"metadata": {"uid": "u", "annotations": annotations}})
    }

    #[test]
    fn marks_are_read_back() {
        let now = Time::from_unix_seconds(0);
        let token = CreateToken::new("u", 3);
        let mut annotations = Marks::pending(&token, now);
        let marks = Marks::of(&object(annotations.clone()));
        assert_eq!((marks.creation, marks.next_attempt), (Creation::Unknown, 3), "an unknown attempt is repeated");
        for (succeeded, creation) in [(true, Creation::Succeeded), (false, Creation::None)] {
            let mut ended = annotations.clone();
            for (key, value) in Marks::outcome(succeeded, now).as_object().unwrap() {
                ended[key] = value.clone();
            }
            let marks = Marks::of(&object(ended));
            assert_eq!((marks.creation, marks.next_attempt), (creation, 4), "a known outcome ends the attempt");
        }
        annotations.as_object_mut().unwrap().remove(CREATE_PENDING);
        assert_eq!(Marks::of(&object(annotations)).creation, Creation::None, "a person cleared it");
    }

    #[test]
    fn another_objects_token_says_nothing() {
        let copied = Marks::pending(&CreateToken::new("other", 7), Time::from_unix_seconds(0));
        assert_eq!(Marks::of(&object(copied)).next_attempt, 1);
    }

    #[test]
    fn without_our_marks_crossplanes_rule_holds() {
        let at = |second: i64| Time::from_unix_seconds(second).to_string();
        for (annotations, creation) in [
            (json!({}), Creation::None),
            (json!({CREATE_PENDING: at(5)}), Creation::Unknown),
            (json!({CREATE_PENDING: at(5), CREATE_SUCCEEDED: at(5)}), Creation::Succeeded),
            (json!({CREATE_PENDING: at(5), CREATE_FAILED: at(4)}), Creation::Unknown),
            (json!({CREATE_PENDING: at(5), CREATE_FAILED: at(6)}), Creation::None),
            (json!({CREATE_PENDING: "nonsense"}), Creation::None),
            (json!({CREATE_PENDING: at(5), CREATE_SUCCEEDED: at(4), CREATE_FAILED: at(3)}), Creation::Unknown),
        ] {
            assert_eq!(Marks::of(&object(annotations.clone())).creation, creation, "{annotations}");
        }
    }
}
