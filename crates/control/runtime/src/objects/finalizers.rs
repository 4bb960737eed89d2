//! Several finalizers of one kind, each with what has to be done before it goes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use concert_api::meta;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Objects;
use crate::client::ApiError;
use crate::reconciler::ReconcileError;

type Finalize<K> = Arc<dyn Fn(Arc<K>) -> BoxFuture<'static, Result<(), ReconcileError>> + Send + Sync>;

/// What has to be done before an object may go, by finalizer.
///
/// ```
/// # use concert_runtime::objects::Finalizers;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// let finalizers: Finalizers<ConfigMap> = Finalizers::default()
///     .with("example.dev/dns", |map| async move { Ok(()) /* remove its name */ })
///     .with("example.dev/disk", |map| async move { Ok(()) /* remove its disk */ });
/// // In a reconcile: `let Held::Alive(map) = finalizers.settle(&maps, &map).await? else { return Ok(Outcome::Done) };`
/// ```
pub struct Finalizers<K> {
    all: BTreeMap<String, Finalize<K>>,
}

/// What became of an object that has [`Finalizers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held<K> {
    /// It is there to stay, and has all of them.
    Alive(Arc<K>),
    /// It is being deleted, and all of ours are done and gone.
    Finalized,
}

impl<K> Default for Finalizers<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new() }
    }
}

impl<K> Finalizers<K> {
    /// One more. `finalize` is called when the object is being deleted, again and again until it succeeds: what it does may
    /// have been done before.
    #[must_use]
    pub fn with<F>(mut self, name: &str, finalize: impl Fn(Arc<K>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), ReconcileError>> + Send + 'static,
    {
        self.all.insert(name.to_owned(), Arc::new(move |object| Box::pin(finalize(object))));
        self
    }
}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Finalizers<K> {
    /// Gives a living object those that it lacks, in one write; of one that is being deleted, does what has to be done and
    /// removes those that succeeded, in one write. One that fails is not in the way of the others.
    ///
    /// # Errors
    /// The first that failed, after the others were tried; a conflict if the object changed since it was read.
    pub async fn settle(&self, objects: &Objects<K>, object: &Arc<K>) -> Result<Held<K>, ReconcileError> {
        let body = objects.body(&**object)?;
        if !meta::is_deleting(&body) {
            return Ok(Held::Alive(self.hold(objects, object).await?));
        }
        let present = meta::finalizers(&body);
        let (mut done, mut failed) = (Vec::new(), None);
        for (name, finalize) in self.all.iter().filter(|(name, _)| present.contains(&name.as_str())) {
            match finalize(Arc::clone(object)).await {
                Ok(()) => done.push(name.clone()),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match objects.change_finalizers(object, |names| retain(names, &done)).await {
            // It is gone already: somebody else was as fast.
            Err(error) if error.is_not_found() => {}
            written => drop(written?),
        }
        failed.map_or(Ok(Held::Finalized), Err)
    }

    async fn hold(&self, objects: &Objects<K>, object: &Arc<K>) -> Result<Arc<K>, ApiError> {
        let held = objects.change_finalizers(object, |names| {
            let before = names.len();
            names.extend(self.all.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
            names.len() != before
        });
        Ok(held.await?.map_or_else(|| Arc::clone(object), Arc::new))
    }
}

/// Without those that are done; whether that is fewer.
fn retain(names: &mut Vec<String>, done: &[String]) -> bool {
    let before = names.len();
    names.retain(|name| !done.contains(name));
    names.len() != before
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}
