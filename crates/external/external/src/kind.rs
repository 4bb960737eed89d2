//! What a provider announces about a kind.

use std::fmt;
use std::time::Duration;

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Gvk {
    /// From its parts.
    #[must_use]
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From an `apiVersion` (`group/version`, or `version` alone for the core group) and a kind.
    /// `None` if the apiVersion has more than one slash or an empty part.
    #[must_use]
    pub fn from_api_version(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let well_formed = !version.is_empty()
            && !version.contains('/')
            && !kind.is_empty()
            && (!group.is_empty() || !api_version.contains('/'));
        well_formed.then(|| Self::new(group, version, kind))
    }

    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// The text form that the wire protocol's `named` and Crossplane's metric label use.
impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_parsed_strictly() {
        assert_eq!(Gvk::from_api_version("v1", "Pod"), Some(Gvk::new("", "v1", "Pod")));
        assert_eq!(Gvk::from_api_version("a.b/v1", "X"), Some(Gvk::new("a.b", "v1", "X")));
        for (api_version, kind) in [("", "X"), ("/v1", "X"), ("a/b/c", "X"), ("a/", "X"), ("a/v1", "")] {
            assert_eq!(Gvk::from_api_version(api_version, kind), None, "{api_version} {kind}");
        }
        assert_eq!(Gvk::new("a.b", "v1", "X").to_string(), "a.b/v1, Kind=X");
        assert_eq!(Gvk::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }
}
