//! What is kept of an object that arrived.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use concert_api::{Gvk, Object, ParseError};
use serde_json::Value;

use crate::watch::Arrived;

type Change = dyn Fn(Object) -> Result<Object, ParseError> + Send + Sync;

/// Makes less of an object before it is kept. It must give the same for the same object. Where only metadata are watched,
/// there is nothing else in it.
#[derive(Clone)]
pub struct Transform(Arc<Change>);

impl Transform {
    /// By a function over the object's bytes.
    pub fn new(change: impl Fn(Object) -> Result<Object, ParseError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    /// By a function over its tree. Building the tree costs several times what keeping the bytes does.
    pub fn tree(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::new(move |object| {
            let Ok(mut tree) = object.value() else { return Ok(object) };
            change(&mut tree);
            Object::parse(tree.to_string().into())
        })
    }

    /// Without the annotation in which `kubectl apply` keeps what it applied: a second copy of the object.
    #[must_use]
    pub fn without_last_applied() -> Self {
        const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
        Self::new(|object| {
            if memchr::memmem::find(object.bytes(), LAST.as_bytes()).is_none() {
                return Ok(object);
            }
            let Ok(mut tree) = object.value() else { return Ok(object) };
            if let Some(annotations) = tree["metadata"]["annotations"].as_object_mut() {
                annotations.remove(LAST);
            }
            Object::parse(tree.to_string().into())
        })
    }

    /// This one, then another.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self::new(move |object| next.0(self.0(object)?))
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// What a store keeps of each object.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    pub(super) gvk: Gvk,
    pub(super) managed_fields: bool,
    pub(super) transform: Option<Transform>,
}

impl Default for Keep {
    fn default() -> Self {
        Self { gvk: Gvk::new("", "v1", "Unknown"), managed_fields: false, transform: None }
    }
}

impl Keep {
    pub(super) fn take(&self, arrived: &Arrived) -> Result<Object, ParseError> {
        let object = if self.managed_fields {
            Object::whole(&arrived.bytes, &self.gvk)?
        } else {
            Object::lean(&arrived.bytes, &self.gvk)?
        };
        match &self.transform {
            Some(transform) => {
                // It costs the object its place, not the watch its life.
                let changed = catch_unwind(AssertUnwindSafe(|| transform.0(object)));
                changed.unwrap_or(Err(ParseError::Missing("what the transform, which panicked, should have given")))
            }
            None => Ok(object),
        }
    }
}
