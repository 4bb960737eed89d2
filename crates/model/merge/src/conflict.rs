//! Why something was not applied.

use std::fmt;

use concert_api::{Cause, Details, Status};

use crate::fields::{Element, path_text};
use crate::managed::Identity;
use crate::{FieldSet, Operation};

/// A field that the configuration wants to change, and that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner's name.
    pub manager: String,
    /// How the owner writes.
    pub operation: Operation,
    /// In which version the owner writes, if it updates; else empty.
    pub api_version: String,
    /// Through which subresource the owner writes; may be empty.
    pub subresource: String,
    pub(crate) path: Vec<Element>,
}

impl Conflict {
    pub(crate) fn new(owner: &Identity<'_>, path: Vec<Element>) -> Self {
        Self {
            manager: owner.manager.to_owned(),
            operation: owner.operation,
            api_version: owner.api_version.to_owned(),
            subresource: owner.subresource.to_owned(),
            path,
        }
    }

    /// The field, with a dot at the beginning: `.spec.replicas`.
    #[must_use]
    pub fn field(&self) -> String {
        path_text(&self.path)
    }

    fn owner(&self) -> Identity<'_> {
        Identity::new(&self.manager, self.operation, &self.api_version, &self.subresource)
    }
}

/// All conflicts of one apply, by owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub(crate) Vec<Conflict>);

impl Conflicts {
    /// By owner, as the real server sorts them.
    pub(crate) fn sorted(mut conflicts: Vec<Conflict>) -> Self {
        conflicts.sort_by_cached_key(|conflict| conflict.owner().key());
        Self(conflicts)
    }

    /// Each of them.
    #[must_use]
    pub fn all(&self) -> &[Conflict] {
        &self.0
    }

    /// Those that are not in a set.
    pub(crate) fn outside(self, set: &FieldSet) -> Self {
        Self(self.0.into_iter().filter(|conflict| !set.contains(&conflict.path)).collect())
    }

    fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.owner()),
            field: conflict.field(),
        };
        self.0.iter().map(cause).collect()
    }
}

/// In the words of the real server.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {}", only.owner(), only.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, same) in self.0.chunk_by(|left, right| left.owner() == right.owner()).enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            let owner = same.first().map(|conflict| conflict.owner().to_string()).unwrap_or_default();
            write!(f, "{line}conflicts with {owner}:")?;
            for conflict in same {
                write!(f, "\n- {}", conflict.field())?;
            }
        }
        Ok(())
    }
}

/// A configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own what it wants to change (409).
    Conflict(Conflicts),
    /// It is not a configuration of that kind (400).
    BadRequest(String),
    /// Its types, or those of the live object, are not those of the schema; or an object cannot be converted (500).
    Internal(String),
}

impl ApplyError {
    /// What the real server answers.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Conflict(conflicts) => {
                let mut status = Status::failure(409, "Conflict", self.to_string());
                status.details = Some(Box::new(Details { causes: conflicts.causes(), ..Details::default() }));
                status
            }
            Self::BadRequest(_) => Status::failure(400, "BadRequest", self.to_string()),
            Self::Internal(_) => Status::failure(500, "", self.to_string()),
        }
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflicts) => conflicts.fmt(f),
            Self::BadRequest(why) | Self::Internal(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ApplyError {}
