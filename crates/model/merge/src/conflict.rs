//! Why something was not applied.

use std::fmt;
use std::ops::ControlFlow;

use concert_api::{Cause, Details, Status};

use crate::fields::path_text;
use crate::managed::Identity;
use crate::{FieldSet, Operation};

/// Bytes of paths that are told. A hundred thousand fields may be in conflict, each with a path as long as its body.
const PATHS_MAX: usize = 1 << 20;

/// What the configuration wants to change, and somebody else owns.
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
    /// What it is about.
    pub fields: FieldSet,
}

impl Conflict {
    pub(crate) fn new(owner: &Identity<'_>, fields: FieldSet) -> Self {
        Self {
            manager: owner.manager.to_owned(),
            operation: owner.operation,
            api_version: owner.api_version.to_owned(),
            subresource: owner.subresource.to_owned(),
            fields,
        }
    }

    fn owner(&self) -> Identity<'_> {
        Identity::new(&self.manager, self.operation, &self.api_version, &self.subresource)
    }

    /// The fields, each with a dot at the beginning, as far as there is room: `.spec.replicas`.
    fn told(&self, room: &mut usize) -> Vec<String> {
        let mut paths = Vec::new();
        let _ = self.fields.walk(&mut |path| {
            if *room == 0 {
                return ControlFlow::Break(());
            }
            let path = path_text(path);
            *room = room.saturating_sub(path.len());
            paths.push(path);
            ControlFlow::Continue(())
        });
        paths
    }
}

/// All conflicts of one apply, by owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// By owner, as the real server sorts them; those about nothing are none.
    pub(crate) fn sorted(mut conflicts: Vec<Conflict>) -> Self {
        conflicts.retain(|conflict| !conflict.fields.is_empty());
        conflicts.sort_by_cached_key(|conflict| conflict.owner().key());
        Self(conflicts)
    }

    /// One for each owner.
    #[must_use]
    pub fn all(&self) -> &[Conflict] {
        &self.0
    }

    /// How many fields they are about, each counted for each of its owners.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|conflict| conflict.fields.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are not in a set.
    pub(crate) fn outside(mut self, set: &FieldSet) -> Self {
        for conflict in &mut self.0 {
            conflict.fields.subtract(set);
        }
        Self::sorted(self.0)
    }

    fn causes(&self) -> Vec<Cause> {
        let mut room = PATHS_MAX;
        let mut causes = Vec::new();
        for conflict in &self.0 {
            let message = format!("conflict with {}", conflict.owner());
            causes.extend(conflict.told(&mut room).into_iter().map(|field| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: message.clone(),
                field,
            }));
        }
        causes
    }
}

/// In the words of the real server.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = PATHS_MAX;
        if let ([only], 1) = (self.0.as_slice(), self.len()) {
            let field = only.told(&mut room).concat();
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {field}", only.owner());
        }
        write!(f, "Apply failed with {} conflicts: ", self.len())?;
        for (index, conflict) in self.0.iter().enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            write!(f, "{line}conflicts with {}:", conflict.owner())?;
            for field in conflict.told(&mut room) {
                write!(f, "\n- {field}")?;
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
