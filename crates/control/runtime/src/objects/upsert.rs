//! Making an object be as it should, whether it is there or not.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Objects, Patch};
use crate::client::ApiError;

/// What was done to make an object be as it should; told in controller-runtime's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    Created,
    /// It was different.
    Updated,
    /// It was different, and so was its status.
    UpdatedWithStatus,
    /// Only its status was different.
    UpdatedStatusOnly,
    /// It was as it should be; nothing was sent.
    Unchanged,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::UpdatedWithStatus => "updatedStatus",
            Self::UpdatedStatusOnly => "updatedStatusOnly",
            Self::Unchanged => "unchanged",
        })
    }
}

impl<K: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Objects<K> {
    /// Makes an object be as `change` makes it: creates it (from `initial`), replaces it, or does nothing if it is so
    /// already. `change` may not rename it.
    ///
    /// # Errors
    /// As [`Objects::create`] and [`Objects::replace`]. A conflict means that somebody else was faster: try again later.
    pub async fn create_or_update(&self, initial: K, change: impl FnOnce(&mut K)) -> Result<(K, Done), ApiError> {
        let (known, wanted) = self.as_it_should(initial, change).await?;
        match known {
            None => Ok((self.create(&wanted).await?, Done::Created)),
            Some(known) if self.body(&known)? == self.body(&wanted)? => Ok((wanted, Done::Unchanged)),
            Some(_) => Ok((self.replace(&wanted).await?, Done::Updated)),
        }
    }

    /// As [`Objects::create_or_update`], by merge patches of what is different: the status apart, for kinds where it is a
    /// subresource. Changes of others to other fields do not conflict; lists are taken as a whole.
    ///
    /// # Errors
    /// As [`Objects::create`] and [`Objects::patch`].
    pub async fn create_or_patch(&self, initial: K, change: impl FnOnce(&mut K)) -> Result<(K, Done), ApiError> {
        let (known, wanted) = self.as_it_should(initial, change).await?;
        let Some(known) = known else {
            let created = self.create(&wanted).await?;
            // What was said of the status went nowhere, if it is a subresource.
            let status = self.patch_status(&created, &wanted).await?;
            return Ok((status.unwrap_or(created), Done::Created));
        };
        let (before, after) = (self.body(&known)?, self.body(&wanted)?);
        let key = self.key_of(&after);
        let patch = self.difference(&without_status(before), &without_status(after))?;
        let patched = self.patch(&key, &patch).await?;
        let status = self.patch_status(&known, &wanted).await?;
        let done = match (&patched, &status) {
            (Some(_), Some(_)) => Done::UpdatedWithStatus,
            (Some(_), None) => Done::Updated,
            (None, Some(_)) => Done::UpdatedStatusOnly,
            (None, None) => Done::Unchanged,
        };
        Ok((status.or(patched).unwrap_or(known), done))
    }

    async fn patch_status(&self, before: &K, after: &K) -> Result<Option<K>, ApiError> {
        let (before, after) = (self.body(before)?, self.body(after)?);
        let status = |body: &Value| serde_json::json!({ "status": body["status"] });
        let patch = self.difference(&status(&before), &status(&after))?;
        self.status().patch(&self.key_of(&after), &patch).await
    }

    fn difference(&self, before: &Value, after: &Value) -> Result<Patch, ApiError> {
        Patch::merge(before, after).map_err(|error| ApiError::Unsendable {
            action: format!("patch {}", self.resource.group_resource()),
            why: error.to_string(),
        })
    }

    /// What is there, and what it should be.
    async fn as_it_should(&self, initial: K, change: impl FnOnce(&mut K)) -> Result<(Option<K>, K), ApiError> {
        let key = self.key_of(&self.body(&initial)?);
        let known = self.get(&key).await?.map(|known| (*known).clone());
        let mut wanted = known.clone().unwrap_or(initial);
        change(&mut wanted);
        let renamed = self.key_of(&self.body(&wanted)?);
        if renamed != key {
            let action = format!("update {} {key}", self.resource.group_resource());
            let why = format!("the change would make it {renamed}; it may not be renamed");
            return Err(ApiError::Unsendable { action, why });
        }
        Ok((known, wanted))
    }
}

fn without_status(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
    }
    body
}
