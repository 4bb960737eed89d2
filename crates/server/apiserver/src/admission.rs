//! Hooks in the write pipeline: the place where admission webhooks will plug in.
//!
//! On a write, every hook may first change the object ([`Admission::mutate`], after decoding and before the rules of its
//! kind), then, when it is known to be valid, object to it ([`Admission::validate`], just before it is stored). A write
//! that is tried again because somebody came between passes the hooks again.

use std::pin::Pin;
use std::sync::Arc;

use concert_api::{Gvk, Status};
use serde_json::Value;

use crate::Server;
use crate::incoming::{self, Incoming};
use crate::target::{FieldValidation, Target};

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is new.
    Create,
    /// An object, or a part of it, is changed.
    Update,
    /// An object is deleted, or marked to be.
    Delete,
}

/// A write, as hooks see it.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// What is about to happen.
    pub operation: Operation,
    /// The kind, in the version of the request.
    pub kind: &'a Gvk,
    /// The plural, as in paths.
    pub resource: &'a str,
    /// `status` or another part of an object; empty for the whole.
    pub subresource: &'static str,
    /// Where the object lives; empty for cluster-scoped ones.
    pub namespace: &'a str,
    /// Its name; empty if the server is to make one.
    pub name: &'a str,
    /// The state before, unless the object is new.
    pub old: Option<&'a Value>,
    /// Nothing will be stored: a hook must not have effects.
    pub dry_run: bool,
}

/// What a hook answers with: warnings for the client, or a refusal.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, Status>> + Send + 'a>>;

/// A hook in the write pipeline.
pub trait Admission: Send + Sync {
    /// May change the object. Not asked about deletions.
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> Verdict<'a> {
        let _ = (review, object);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// May refuse the object as it would be stored; for a deletion, the object as it is stored.
    fn validate<'a>(&'a self, review: &'a Review<'a>, object: &'a Value) -> Verdict<'a> {
        let _ = (review, object);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// The hooks of a server, asked in order.
#[derive(Clone, Default)]
pub(crate) struct Hooks(pub(crate) Arc<[Arc<dyn Admission>]>);

impl<'a> Review<'a> {
    pub(crate) fn of(
        operation: Operation,
        target: &'a Target,
        name: &'a str,
        old: Option<&'a Value>,
        dry: bool,
    ) -> Self {
        Self {
            operation,
            kind: &target.version().gvk,
            resource: &target.resource.id.resource,
            subresource: target.part.name(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name,
            old,
            dry_run: dry,
        }
    }
}

impl Server {
    /// Lets every hook change an object; what they made of it is pruned and defaulted again.
    pub(crate) async fn mutate(
        &self,
        target: &Target,
        review: &Review<'_>,
        object: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let mut warnings = Vec::new();
        if self.hooks().0.is_empty() {
            return Ok(warnings);
        }
        let before = object.clone();
        for hook in self.hooks().0.iter() {
            warnings.extend(hook.mutate(review, object).await?);
        }
        if *object != before {
            let Incoming { value, .. } = incoming::patched(target, object.take(), &[], FieldValidation::Ignore)?;
            *object = value;
        }
        Ok(warnings)
    }

    /// Asks every hook whether it objects.
    pub(crate) async fn consult(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        let mut warnings = Vec::new();
        for hook in self.hooks().0.iter() {
            warnings.extend(hook.validate(review, object).await?);
        }
        Ok(warnings)
    }
}
