//! What was used not long ago, by key, in bounded memory.

use std::collections::BTreeMap;
use std::mem;

/// Keeps at least the last `size` keys that were used, and never more than twice as many. Two generations: what is used
/// moves to the young one; when that is full it becomes the old one, and the old one goes. So every step costs the
/// same, however many keys there are.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    size: usize,
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    pub(super) fn new(size: usize) -> Self {
        Self { size, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// The value of a key, which is used by this.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(key) {
            self.put(key.clone(), value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        if self.young.len() >= self.size && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_there_and_memory_is_bounded() {
        let mut recent = Recent::new(10);
        for n in 0..1000_u32 {
            recent.put(n, n);
            assert!(recent.get(&0).is_some(), "what is used stays");
            assert!(
                (n.saturating_sub(9)..=n)
                    .all(|last| recent.young.contains_key(&last) || recent.old.contains_key(&last))
            );
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        assert!(recent.get(&500).is_none());
        recent.remove(&999);
        assert!(recent.get(&999).is_none());
    }
}
