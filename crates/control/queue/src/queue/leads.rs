//! From the hash of a key to where the key is.
//!
//! With many keys the table is far away, and so are the keys: everything here is about looking once. A bucket is as
//! large as a line of the processor's cache and holds a part of each key's hash, so that other keys are passed over
//! without a look at them, and a table grows from its beginning to its end. Nothing is ever taken out: who follows a
//! lead sees where it leads, a lead to nothing is given to the next key with the same hash, and those that are left go
//! when the table is full.

/// Leads nowhere.
const NONE: u32 = u32::MAX;
const WIDTH: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    hashes: [u32; WIDTH],
    /// Used from the first on.
    slots: [u32; WIDTH],
}

impl Bucket {
    const EMPTY: Self = Self { hashes: [0; WIDTH], slots: [NONE; WIDTH] };

    fn is_full(&self) -> bool {
        self.slots[WIDTH - 1] != NONE
    }

    fn used(&self) -> usize {
        self.slots.iter().filter(|slot| **slot != NONE).count()
    }

    fn push(&mut self, hash: u32, slot: u32) {
        let at = self.used();
        (self.hashes[at], self.slots[at]) = (hash, slot);
    }

    /// Forgets the leads that are not live; gives how many those are.
    fn keep(&mut self, is_live: impl Fn(u32, u32) -> bool) -> usize {
        let before = std::mem::replace(self, Self::EMPTY);
        for at in 0..before.used() {
            if is_live(before.hashes[at], before.slots[at]) {
                self.push(before.hashes[at], before.slots[at]);
            }
        }
        before.used() - self.used()
    }

    fn has(&self, hash: u32) -> bool {
        self.hashes.iter().fold(false, |has, one| has | (*one == hash))
    }
}

/// What is seen where a lead leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// What was looked for.
    It,
    /// Something else with the same hash.
    Other,
    /// Nothing, or something with another hash.
    Nothing,
}

/// Where a lead can be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    bucket: usize,
    at: usize,
}

/// Leads to slots, by a part of a hash.
#[derive(Debug, Default)]
pub(super) struct Leads {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Leads {
    /// Follows the leads for this hash to the slot where it is; else gives the spot for a lead to it.
    pub(super) fn find(&self, hash: u32, look: impl Fn(u32) -> Seen) -> Result<u32, Spot> {
        let mut spot = None;
        let mut index = self.home(hash);
        while let Some(bucket) = self.buckets.get(index) {
            if bucket.has(hash) {
                for at in 0..WIDTH {
                    if bucket.hashes[at] == hash && bucket.slots[at] != NONE {
                        match look(bucket.slots[at]) {
                            Seen::It => return Ok(bucket.slots[at]),
                            Seen::Nothing => spot = spot.or(Some(Spot { bucket: index, at })),
                            Seen::Other => {}
                        }
                    }
                }
            }
            if !bucket.is_full() {
                return Err(spot.unwrap_or_else(|| Spot { bucket: index, at: bucket.used() }));
            }
            index = self.next(index);
        }
        Err(Spot { bucket: index, at: 0 })
    }

    /// Puts a lead to a slot there. So many slots are led to, this one among them; `is_live` says of a hash and a slot
    /// whether they still belong together.
    pub(super) fn put(&mut self, spot: Spot, hash: u32, slot: u32, live: usize, is_live: impl Fn(u32, u32) -> bool) {
        let Spot { bucket, at } = spot;
        let is_new = self.buckets.get(bucket).is_none_or(|bucket| bucket.slots[at] == NONE);
        if is_new && self.len >= self.room() {
            self.renew(live, is_live);
            return self.push(hash, slot);
        }
        self.len += usize::from(is_new);
        let bucket = &mut self.buckets[bucket];
        (bucket.hashes[at], bucket.slots[at]) = (hash, slot);
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize, live: usize) {
        if self.len + more > self.room() {
            self.renew(live + more, |_, _| true);
        }
    }

    /// A quarter stays free, so that few keys lie beside the bucket in which they belong.
    fn room(&self) -> usize {
        self.buckets.len() * (WIDTH - WIDTH / 4)
    }

    /// A table for so many, without the leads that lead nowhere if they are more than the others: to follow each costs a
    /// look.
    fn renew(&mut self, live: usize, is_live: impl Fn(u32, u32) -> bool) {
        let mut before = std::mem::take(self);
        if before.len > 2 * live {
            for bucket in &mut before.buckets {
                before.len -= bucket.keep(&is_live);
            }
        }
        let wanted = live.max(before.len);
        let buckets = (wanted * 2 / WIDTH).next_power_of_two().max(2);
        self.buckets = vec![Bucket::EMPTY; buckets];
        for bucket in &before.buckets {
            for at in 0..bucket.used() {
                self.push(bucket.hashes[at], bucket.slots[at]);
            }
        }
    }

    fn push(&mut self, hash: u32, slot: u32) {
        let mut index = self.home(hash);
        while self.buckets[index].is_full() {
            index = self.next(index);
        }
        self.buckets[index].push(hash, slot);
        self.len += 1;
    }

    /// Where a hash belongs: in the order of the hashes, so that a table that grows is written as it is read.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    fn next(&self, index: usize) -> usize {
        if index + 1 == self.buckets.len() { 0 } else { index + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slab::Slab;

    use super::*;

    /// Things in a slab, and leads to them.
    #[derive(Default)]
    struct Things {
        leads: Leads,
        slots: Slab<(u32, u16)>,
    }

    impl Things {
        fn find(&self, hash: u32, thing: u16) -> Result<u32, Spot> {
            self.leads.find(hash, |slot| match self.slots.get(slot as usize) {
                Some(found) if *found == (hash, thing) => Seen::It,
                Some((other, _)) if *other == hash => Seen::Other,
                _ => Seen::Nothing,
            })
        }

        fn add(&mut self, hash: u32, thing: u16) {
            if let Err(spot) = self.find(hash, thing) {
                let slot = self.slots.insert((hash, thing)) as u32;
                let slots = &self.slots;
                let is_live = |hash, slot| slots.get(slot as usize).is_some_and(|(other, _)| *other == hash);
                self.leads.put(spot, hash, slot, slots.len(), is_live);
            }
        }

        fn remove(&mut self, hash: u32, thing: u16) {
            if let Ok(slot) = self.find(hash, thing) {
                self.slots.remove(slot as usize);
            }
        }
    }

    proptest! {
        /// Hashes from a few values all over the table, so that many share one, and some all.
        #[test]
        fn everything_is_found_as_long_as_it_is_there_and_no_longer(
            steps in prop::collection::vec((any::<bool>(), 0..40_u16), 0..600),
            hashes in 1..40_u32,
            reserved in 0..50_usize,
        ) {
            let (mut things, mut model) = (Things::default(), BTreeMap::new());
            let hash = |thing| (u32::from(thing) % hashes).wrapping_mul(0x9e37_79b9);
            for (add, thing) in steps {
                if add {
                    things.leads.reserve(reserved, things.slots.len());
                    things.add(hash(thing), thing);
                    model.insert(thing, ());
                } else {
                    things.remove(hash(thing), thing);
                    model.remove(&thing);
                }
                for thing in 0..40 {
                    prop_assert_eq!(things.find(hash(thing), thing).is_ok(), model.contains_key(&thing));
                }
            }
        }
    }

    #[test]
    fn a_table_through_which_many_pass_stays_small() {
        let mut things = Things::default();
        for thing in 0..100_000_u32 {
            things.add(thing.wrapping_mul(0x9e37_79b9), 0);
            if let Some(before) = thing.checked_sub(10) {
                things.remove(before.wrapping_mul(0x9e37_79b9), 0);
            }
        }
        assert!(things.leads.buckets.len() <= 8, "{} for ten things", things.leads.buckets.len());
    }
}
