//! What a provider drives.

use std::time::Duration;

use concert_external::{ErrorClass, Gvk, KindInfo, NamePolicy};
use concert_protocol::external::{DiscoveryResponse, Reconciler, reconciler};
use serde_json::Value;

use crate::fault::Fault;

/// What a provider says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// The protocol's version.
    pub version: String,
    /// What it knows of the extension; empty for an original provider.
    pub features: Vec<String>,
    /// The kinds that it drives, in order.
    pub kinds: Vec<KindInfo>,
    /// The CustomResourceDefinitions that it brings along.
    pub crds: Vec<Value>,
}

/// A provider that could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot discover what the provider drives: {message}")]
pub struct DiscoverError {
    /// The kind of failure.
    pub class: ErrorClass,
    /// In words.
    pub message: String,
}

impl From<Fault> for DiscoverError {
    fn from(fault: Fault) -> Self {
        Self { class: fault.class, message: fault.message }
    }
}

impl Discovery {
    pub(crate) fn from_wire(response: DiscoveryResponse) -> Self {
        let crds = response.reconcilers.iter().filter_map(|reconciler| serde_json::from_slice(&reconciler.crd).ok());
        let crds = crds.collect();
        let mut kinds: Vec<KindInfo> = response.reconcilers.into_iter().filter_map(kind).collect();
        // A Go provider lists them in random order.
        kinds.sort_by(|a, b| a.gvk.cmp(&b.gvk));
        kinds.dedup_by(|a, b| a.gvk == b.gvk);
        Self { version: response.version, features: response.features, kinds, crds }
    }

    /// What is known about a kind.
    #[must_use]
    pub fn kind(&self, gvk: &Gvk) -> Option<&KindInfo> {
        self.kinds.iter().find(|kind| kind.gvk == *gvk)
    }
}

/// An entry without a well-formed kind is skipped, as the original client does.
fn kind(reconciler: Reconciler) -> Option<KindInfo> {
    let names = match reconciler.name_policy() {
        reconciler::NamePolicy::Assigned => NamePolicy::Assigned,
        reconciler::NamePolicy::Deterministic => NamePolicy::Deterministic,
        reconciler::NamePolicy::SearchedByToken => NamePolicy::SearchedByToken,
    };
    let reference = reconciler.r#for?;
    let plain = KindInfo::plain(Gvk::from_api_version(&reference.api_version, &reference.kind)?);
    let positive = |duration: Option<prost_types::Duration>| {
        duration.and_then(|duration| Duration::try_from(duration).ok()).filter(|duration| !duration.is_zero())
    };
    Some(KindInfo {
        named: if reconciler.named.is_empty() { plain.named } else { reconciler.named },
        names,
        consistency_window: positive(reconciler.consistency_window).unwrap_or_default(),
        max_concurrent: usize::try_from(reconciler.max_concurrent).ok().filter(|workers| *workers > 0),
        poll_interval: positive(reconciler.poll_interval),
        session_timeout: positive(reconciler.session_timeout),
        ..plain
    })
}
