//! What was decoded lately, as long as it is what the store has.
//!
//! ```text
//! put, found again ──► young ──(full, or some minutes old)──► old ──(the same again)──► forgotten
//! ```

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use concert_api::Object;
use tokio::time::Instant;

use crate::sync::Mutex;

/// So many decoded objects are young: those that are read again and again. As many may be old. All of them would cost several
/// times what their bytes do.
pub(super) const REMEMBERED: usize = 1024;
/// What was not read for so long is forgotten, at the latest after twice this time.
const IDLE: Duration = Duration::from_secs(300);

/// An object as one type or several.
struct Decoded {
    /// As long as it is here, its address is its own.
    _object: Arc<Object>,
    types: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl Decoded {
    fn find<K: Send + Sync + 'static>(&self) -> Option<Arc<K>> {
        let (_, decoded) = self.types.iter().find(|(of, _)| *of == TypeId::of::<K>())?;
        Arc::clone(decoded).downcast().ok()
    }
}

/// By the address of the object.
type Generation = HashMap<usize, Decoded>;

#[derive(Default)]
struct Remembered {
    young: Generation,
    old: Generation,
    /// When it was last looked at how old they are.
    since: Option<Instant>,
}

impl Remembered {
    /// Of an object that is read: it is young again. Gives what is forgotten for it as well.
    fn young(&mut self, object: &Arc<Object>) -> (&mut Decoded, Generation) {
        let address = address(object);
        let mut forgotten = Generation::new();
        if !self.young.contains_key(&address) && self.young.len() >= REMEMBERED {
            forgotten = self.turn();
        }
        // What was old a moment ago may be among the forgotten now.
        let known = self.old.remove(&address).or_else(|| forgotten.remove(&address));
        let known = known.unwrap_or_else(|| Decoded { _object: Arc::clone(object), types: Vec::new() });
        (self.young.entry(address).or_insert(known), forgotten)
    }

    /// What is young is old, and what was old is forgotten.
    fn turn(&mut self) -> Generation {
        let young = std::mem::take(&mut self.young);
        std::mem::replace(&mut self.old, young)
    }
}

/// To be dropped where nobody waits for it.
pub(super) struct Forgotten(#[expect(dead_code, reason = "it is there to be dropped")] Generation);

/// See the module. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Memo(Arc<Mutex<Remembered>>);

fn address(object: &Arc<Object>) -> usize {
    Arc::as_ptr(object).addr()
}

impl Memo {
    pub(super) fn find<K: Send + Sync + 'static>(&self, object: &Arc<Object>) -> Option<Arc<K>> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered.young.get(&address(object)) {
            return known.find();
        }
        let known = remembered.old.get(&address(object))?.find();
        let (_, forgotten) = remembered.young(object);
        // Not under the lock: it may be much.
        drop(remembered);
        drop(forgotten);
        known
    }

    /// To be called while the store cannot change, of what it has: nothing else is forgotten in time. Gives what is forgotten
    /// for it, to be dropped when the store is free again: it may be much.
    #[must_use]
    pub(super) fn put<K: Send + Sync + 'static>(&self, object: &Arc<Object>, decoded: Arc<K>) -> Forgotten {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, forgotten) = remembered.young(object);
        if known.find::<K>().is_none() {
            known.types.push((TypeId::of::<K>(), decoded));
        }
        Forgotten(forgotten)
    }

    /// The store has something else now, or nothing.
    pub(super) fn forget(&self, object: &Arc<Object>) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Remembered { young, old, .. } = &mut *remembered;
        let gone = young.remove(&address(object)).or_else(|| old.remove(&address(object)));
        drop(remembered);
        drop(gone);
    }

    /// Forgets what nobody has read for a while.
    pub(super) fn age(&self, now: Instant) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.young.is_empty() && remembered.old.is_empty() {
            remembered.since = None;
            return;
        }
        if now.duration_since(*remembered.since.get_or_insert(now)) < IDLE {
            return;
        }
        remembered.since = Some(now);
        let forgotten = remembered.turn();
        drop(remembered);
        drop(forgotten);
    }

    /// How many objects are remembered.
    pub(super) fn len(&self) -> usize {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.young.len() + remembered.old.len()
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memo({})", self.len())
    }
}
