//! Conditions of typed objects.

use concert_api::Time;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Timestamp;

/// Something with conditions: usually the status of a kind of one's own. A list of conditions is one, too.
///
/// ```
/// use concert_api::Time;
/// use concert_runtime::objects::{Condition, Conditioned, condition};
///
/// #[derive(Default)]
/// struct DatabaseStatus {
///     conditions: Vec<Condition>,
/// }
///
/// impl Conditioned for DatabaseStatus {
///     fn conditions(&self) -> &[Condition] {
///         &self.conditions
///     }
///     fn conditions_mut(&mut self) -> &mut Vec<Condition> {
///         &mut self.conditions
///     }
/// }
///
/// let mut status = DatabaseStatus::default();
/// let (monday, tuesday) = (Time::from_unix_seconds(0), Time::from_unix_seconds(86_400));
/// assert!(status.set_condition(condition("Ready", false, "Creating", ""), monday));
/// // It says something else, but has been false since Monday:
/// assert!(status.set_condition(condition("Ready", false, "Waiting", "for a disk"), tuesday));
/// assert_eq!(status.condition("Ready").unwrap().last_transition_time.0.as_second(), 0);
/// assert!(!status.is_true("Ready"));
/// // Nothing new, so nothing to write:
/// assert!(!status.set_condition(condition("Ready", false, "Waiting", "for a disk"), tuesday));
/// ```
pub trait Conditioned {
    /// The conditions.
    fn conditions(&self) -> &[Condition];

    /// The conditions, to be changed.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// The condition of a type.
    fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.conditions().iter().find(|one| one.type_ == r#type)
    }

    /// Whether the condition of a type is there and `True`.
    fn is_true(&self, r#type: &str) -> bool {
        self.condition(r#type).is_some_and(|one| one.status == "True")
    }

    /// Sets a condition; whether that changed anything. Its time is `now` if its status is new, and what it was if not.
    fn set_condition(&mut self, mut condition: Condition, now: Time) -> bool {
        let known = self.conditions_mut().iter_mut().find(|one| one.type_ == condition.type_);
        condition.last_transition_time = match &known {
            Some(known) if known.status == condition.status => known.last_transition_time.clone(),
            Some(_) | None => stamp(now),
        };
        match known {
            Some(known) if *known == condition => false,
            Some(known) => {
                *known = condition;
                true
            }
            None => {
                self.conditions_mut().push(condition);
                true
            }
        }
    }

    /// Removes the condition of a type; whether it was there.
    fn remove_condition(&mut self, r#type: &str) -> bool {
        let before = self.conditions().len();
        self.conditions_mut().retain(|one| one.type_ != r#type);
        self.conditions().len() != before
    }
}

impl Conditioned for Vec<Condition> {
    fn conditions(&self) -> &[Condition] {
        self
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        self
    }
}

/// A condition that [`Conditioned::set_condition`] is going to stamp.
#[must_use]
pub fn condition(r#type: &str, holds: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: r#type.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: stamp(Time::from_unix_seconds(0)),
        observed_generation: None,
    }
}

/// As Kubernetes writes it.
fn stamp(time: Time) -> Timestamp {
    Timestamp(k8s_openapi::jiff::Timestamp::from_second(time.unix_seconds()).unwrap_or_default())
}
