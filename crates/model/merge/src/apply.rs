//! Server-side apply, and the books that make it possible.
//!
//! An [`Endpoint`] is where writes of one kind and version arrive. Every write passes it: [`Endpoint::update`] books
//! what a create, an update or a patch changed; [`Endpoint::apply`] puts a configuration on top of the live object,
//! removes what the same manager applied before and does not apply any more, and books that. Both take the live object
//! and its parsed [`ManagedFields`], and give new ones.

mod applied;
mod books;
mod check;
mod combine;
mod compare;
mod identity;
mod ignored;
mod last_applied;
mod owned;
mod prune;
mod remove;
mod types;
mod versions;

#[cfg(test)]
mod tests;

use concert_api::{Gvk, Time};
use concert_schema::Schema;
use serde_json::Value;

use crate::conflict::ApplyError;
use crate::fields::FieldSet;
use crate::managed::{ManagedFields, Sent};
pub use ignored::{ignored_by_builtin, ignored_by_custom};
pub use versions::{SingleVersion, Versions};

/// Who owns what was there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Who has no name.
const UNKNOWN: &str = "unknown";

/// Where writes of one kind arrive, in one version, for the object or one of its subresources.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The kind, in the version of the request.
    pub gvk: &'a Gvk,
    /// Its schema in that version.
    pub schema: &'a Schema,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// What writes through this endpoint cannot change, and therefore never own: the status here, all else there.
    pub ignored: &'a FieldSet,
    /// An object of the kind in which nothing is set. For a custom resource it has `apiVersion` and `kind`; for a
    /// built-in kind also what Go writes for a zero struct.
    pub empty: &'a Value,
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
}

/// The object that is there: on a create, the endpoint's empty one.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    /// The object. Its `metadata.managedFields` are not looked at.
    pub object: &'a Value,
    /// Its managed fields.
    pub managed: &'a ManagedFields,
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The manager's name; an empty one is `unknown`.
    pub manager: &'a str,
    /// Now.
    pub now: Time,
}

/// What to do about conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Refuse.
    No,
    /// Take the fields from who owns them.
    Yes,
}

/// What became of an apply.
#[derive(Clone, Debug)]
#[must_use]
pub struct Applied {
    /// The object, without `managedFields`; not yet defaulted.
    pub object: Value,
    /// Its managed fields.
    pub managed: ManagedFields,
    /// Whether anything in the object changed.
    pub changed: bool,
}

impl<'a> Endpoint<'a> {
    /// Books a create, an update or a patch that was not an apply: `new` is what will be stored, before admission. Takes
    /// `metadata.managedFields` out of it: what a client sends there is believed if it makes sense, an empty list or one
    /// empty entry ends the bookkeeping.
    ///
    /// Never fails: where the objects cannot be compared, the managed fields stay as they are.
    #[must_use]
    pub fn update(&self, live: Live<'_>, new: &mut Value, author: Author<'_>) -> ManagedFields {
        let sent = Sent::take(new);
        let managed = match sent {
            _ if !self.subresource.is_empty() => live.managed.reread(),
            Sent::Nothing => live.managed.reread(),
            Sent::Reset => ManagedFields::default(),
            Sent::Managed(managed) => managed,
        };
        let is_new = live.object["metadata"]["uid"].as_str().is_none_or(str::is_empty);
        if managed.is_empty() && !is_new {
            return managed;
        }
        let mut managed = self.booked(live.object, new, managed, author).unwrap_or_else(|_| live.managed.clone());
        managed.share(live.managed);
        managed
    }

    /// Applies a configuration. The result still has to be defaulted, admitted and validated, as after any patch.
    ///
    /// # Errors
    /// Conflicts, unless they are forced; and what the real server refuses.
    pub fn apply(
        &self,
        live: Live<'_>,
        config: &Value,
        author: Author<'_>,
        force: Force,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let mut managed = live.managed.reread();
        if managed.is_empty() {
            let before = Author { manager: BEFORE_FIRST_APPLY, ..author };
            let booked = self.booked(self.empty, live.object, managed, before);
            managed = booked
                .map_err(|why| ApplyError::Internal(format!("failed to create manager for existing fields: {why}")))?;
        }
        let again = (author.manager == last_applied::MANAGER).then(|| managed.clone());
        let mut applied = match (self.applied(live.object, config, managed, author, force), again) {
            (Err(ApplyError::Conflict(conflicts)), Some(managed)) => {
                self.check_last_applied(live.object, conflicts)?;
                self.applied(live.object, config, managed, author, Force::Yes)?
            }
            (other, _) => other?,
        };
        if author.manager == last_applied::MANAGER {
            last_applied::refresh(&mut applied.object, config);
        }
        applied.managed.share(live.managed);
        Ok(applied)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| config[name].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let gvk = if version.contains('/') { Gvk::new("", "", "") } else { Gvk::new(group, version, text("kind")) };
        if gvk == *self.gvk { Ok(()) } else { Err(ApplyError::BadRequest(format!("invalid object type: {gvk}"))) }
    }
}

impl<'a> Author<'a> {
    fn name(self) -> &'a str {
        if self.manager.is_empty() { UNKNOWN } else { self.manager }
    }
}
