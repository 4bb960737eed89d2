//! What a cache would show, asked of the server: for who cannot wait for it. A cache knows some of the objects of a kind,
//! and who asks past it gets no others: what else is there is not his to read, or to remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use concert_api::{Object, ObjectKey};

use crate::client::{ApiError, Client, Selection};
use crate::scope::Scope;

/// What to ask for, or that it is not known.
fn asks(scope: &Scope, wanted: &Selection) -> Result<Vec<Selection>, ApiError> {
    let action = || format!("read {}", scope.resource.group_resource());
    let why = || format!("it is not known yet which namespaces belong to {scope}");
    scope.asks(wanted).ok_or_else(|| ApiError::Uncached { action: action(), why: why() })
}

impl Client {
    /// Those objects of a scope that are selected, in the order of their keys.
    pub(crate) async fn list_of(&self, scope: &Scope, wanted: &Selection) -> Result<Vec<Arc<Object>>, ApiError> {
        let mut found = BTreeMap::new();
        for selection in asks(scope, wanted)? {
            for object in self.list(&scope.resource, &selection).await?.objects {
                found.insert(object.key(), Arc::new(object));
            }
        }
        Ok(found.into_values().collect())
    }

    /// One object, if it is of a scope. Only the server knows what field selectors mean: it is asked for a list of one.
    pub(crate) async fn get_of(&self, scope: &Scope, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
        let (namespace, fields) = (key.namespace.to_string(), format!("metadata.name={}", key.name));
        let named = Selection { namespace, fields, ..Selection::default() };
        let selections = asks(scope, &named)?;
        if selections.contains(&named) {
            return self.get(&scope.resource, key).await;
        }
        for selection in selections {
            if let Some(found) = self.list(&scope.resource, &selection).await?.objects.into_iter().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
