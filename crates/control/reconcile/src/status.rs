//! One status write, or none.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use concert_api::{Object, ObjectKey};
use concert_merge::merge_diff;
use concert_runtime::{ApiError, Client, Resource};
use serde_json::{Value, json};

/// Somebody else may come between this often before we give up until the next pass.
const TRIES: usize = 10;

/// Writes the status of objects of one kind.
///
/// A status that would change nothing is not written. "Nothing" is judged by the server's last answer: a schema may
/// prune what we send, and what was pruned once is not sent again. A conflict computes the status anew on the fresh
/// object; it never repeats what led to it.
#[derive(Debug)]
pub struct StatusWriter {
    client: Client,
    resource: Resource,
    /// Without the subresource, status is written with the object.
    subresource: bool,
    sent: Mutex<BTreeMap<ObjectKey, Sent>>,
}

/// What was wanted last, and what the server made of it.
#[derive(Debug, PartialEq)]
struct Sent {
    wanted: Value,
    stored: Value,
}

impl StatusWriter {
    /// A writer for objects of this kind; `subresource` is whether its definition has status as one.
    #[must_use]
    pub fn new(client: Client, resource: Resource, subresource: bool) -> Self {
        Self { client, resource, subresource, sent: Mutex::default() }
    }

    /// Makes the status of `object` what `wanted` computes from it. Gives the server's answer, which is of our own making;
    /// `None` if there was nothing to write, the server kept nothing of it, or the object is gone.
    ///
    /// # Errors
    /// The server refused the status, or could not be reached.
    pub async fn write(&self, object: &Object, wanted: impl Fn(&Value) -> Value) -> Result<Option<Object>, ApiError> {
        let key = object.key();
        let mut object = object.clone();
        for _ in 0..TRIES {
            let tree = object.value().unwrap_or_default();
            let (stored, wanted) = (tree["status"].clone(), wanted(&tree));
            let Some(change) = merge_diff(&stored, &wanted) else { return Ok(None) };
            if self.is_known(&key, &Sent { wanted: wanted.clone(), stored: stored.clone() }) {
                return Ok(None);
            }
            let precondition = json!({"resourceVersion": object.resource_version(), "uid": object.uid()});
            let patch = json!({"metadata": precondition, "status": change});
            let subresource = self.subresource.then_some("status");
            match self.client.merge_patch(&self.resource, &key, &patch, subresource).await {
                Ok(answer) => {
                    let stored = answer.value().unwrap_or_default()["status"].clone();
                    self.remember(key, Sent { wanted, stored });
                    // What it answers is else what somebody else wrote.
                    let changed = answer.resource_version() != object.resource_version();
                    return Ok(changed.then_some(answer));
                }
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.is_conflict() => match self.client.get(&self.resource, &key).await? {
                    Some(fresh) if fresh.uid() == object.uid() => object = fresh,
                    _ => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        // So much contention is somebody else's business; the next pass tries again.
        Ok(None)
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn is_known(&self, key: &ObjectKey, sent: &Sent) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).get(key) == Some(sent)
    }

    /// Only what the server did not take as it was needs to be remembered.
    fn remember(&self, key: ObjectKey, sent: Sent) {
        let mut all = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.wanted == sent.stored {
            all.remove(&key);
        } else {
            all.insert(key, sent);
        }
    }
}
