//! What a provider announces about a kind.

use std::time::Duration;

use concert_api::Gvk;

/// Who chooses the external name, and so what may be done when a create's outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamePolicy {
    /// The backend assigns ids and the provider cannot find an object by its create token: after an unknown outcome a
    /// person must look (the original protocol).
    #[default]
    Assigned,
    /// The external name follows from the object: creating twice is creating once.
    Deterministic,
    /// The backend assigns ids, and the provider finds what a token created.
    SearchedByToken,
}

impl NamePolicy {
    /// Whether a create of unknown outcome may be repeated (with the same token, after the consistency window).
    #[must_use]
    pub fn may_repeat_create(self) -> bool {
        !matches!(self, Self::Assigned)
    }
}

/// A kind as its provider announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Which kind.
    pub gvk: Gvk,
    /// The provider's own name for its reconciler; [`Gvk`]'s text form unless announced.
    pub named: String,
    /// Who chooses external names.
    pub names: NamePolicy,
    /// For how long a created object may stay invisible to Observe.
    pub consistency_window: Duration,
    /// Workers this kind wants, if it says so.
    pub max_concurrent: Option<usize>,
    /// Poll interval this kind wants, if it says so.
    pub poll_interval: Option<Duration>,
    /// Deadline of a whole session, if it says so.
    pub session_timeout: Option<Duration>,
}

impl KindInfo {
    /// A kind of which nothing else is known: everything as in the original protocol.
    #[must_use]
    pub fn plain(gvk: Gvk) -> Self {
        Self {
            named: gvk.to_string(),
            gvk,
            names: NamePolicy::default(),
            consistency_window: Duration::ZERO,
            max_concurrent: None,
            poll_interval: None,
            session_timeout: None,
        }
    }
}
