//! A set of namespaces that may change.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;

/// A set of namespaces that may change while caches follow it ([`Scope::within`](crate::Scope::within)). Clones are the
/// same set. A cache belongs to the set it was asked for: who names namespaces himself never gets those of others.
///
/// ```
/// # use concert_api::Gvk;
/// # use concert_runtime::{Namespaces, Resource, Scope};
/// # let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
/// let tenants = Namespaces::new("tenants", ["a", "b"]);
/// let scope = Scope::all(maps).within(&tenants);
/// tenants.set(["b", "c"]); // what was known of a is deleted, also for handlers; c is watched
/// # assert_eq!(scope.to_string(), "configmaps within=tenants");
/// ```
///
/// [`Informers::namespaces_labelled`](crate::Informers::namespaces_labelled) makes one that follows labels.
#[derive(Clone)]
pub struct Namespaces(Arc<Set>);

struct Set {
    name: String,
    /// `None` as long as nobody knows.
    names: watch::Sender<Option<BTreeSet<String>>>,
    /// Ends what keeps it up to date.
    _alive: Option<DropGuard>,
}

impl Namespaces {
    /// These namespaces for now. `name` is for messages.
    #[must_use]
    pub fn new<N: Into<String>>(name: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        let set = Self::unknown(name.into(), None);
        set.set(names);
        set
    }

    /// A set that somebody else is going to fill, until nobody has it.
    pub(crate) fn unknown(name: String, alive: Option<DropGuard>) -> Self {
        Self(Arc::new(Set { name, names: watch::Sender::new(None), _alive: alive }))
    }

    /// Makes it these. Caches that follow it leave the namespaces that are not among them, and watch those that are new.
    pub fn set<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) {
        set(&self.0.names, names.into_iter().map(Into::into).collect());
    }

    /// The namespaces that are in it now; `None` if that is not known yet.
    #[must_use]
    pub fn get(&self) -> Option<BTreeSet<String>> {
        self.0.names.borrow().clone()
    }

    /// Tells of changes; ends when nobody has the set any more.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.0.names.subscribe()
    }

    /// What fills it, without keeping it.
    pub(crate) fn filler(&self) -> impl Fn(BTreeSet<String>) + Send + Sync + 'static {
        let names = self.0.names.clone();
        move |new| set(&names, new)
    }
}

fn set(names: &watch::Sender<Option<BTreeSet<String>>>, new: BTreeSet<String>) {
    names.send_if_modified(|known| {
        let changes = known.as_ref() != Some(&new);
        *known = Some(new);
        changes
    });
}

impl PartialEq for Namespaces {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Namespaces {}

impl Hash for Namespaces {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).addr().hash(state);
    }
}

impl PartialOrd for Namespaces {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// By name, for messages that do not depend on where things are in memory; then by identity.
impl Ord for Namespaces {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_name = self.0.name.cmp(&other.0.name);
        by_name.then_with(|| Arc::as_ptr(&self.0).addr().cmp(&Arc::as_ptr(&other.0).addr()))
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespaces({}, {:?})", self.0.name, self.get())
    }
}
