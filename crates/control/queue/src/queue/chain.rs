//! Doubly linked lists through the entries of a slab: what is in them can be taken out anywhere in constant time.

use slab::Slab;

/// No slot.
const NONE: u32 = u32::MAX;

/// The neighbours of an entry in one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    before: u32,
    after: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self { before: NONE, after: NONE }
    }
}

/// Which link of an entry a chain uses.
pub(super) trait Chained<E> {
    fn link(entry: &mut E) -> &mut Link;
}

/// One list, first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: usize,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Chain {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends an entry that is in no chain of this sort.
    pub(super) fn push<C: Chained<E>, E>(&mut self, entries: &mut Slab<E>, slot: u32) {
        *C::link(&mut entries[slot as usize]) = Link { before: self.last, after: NONE };
        if self.last == NONE {
            self.first = slot;
        } else {
            C::link(&mut entries[self.last as usize]).after = slot;
        }
        self.last = slot;
        self.len += 1;
    }

    /// Takes out an entry that is in this chain.
    pub(super) fn remove<C: Chained<E>, E>(&mut self, entries: &mut Slab<E>, slot: u32) {
        let Link { before, after } = std::mem::take(C::link(&mut entries[slot as usize]));
        if before == NONE {
            self.first = after;
        } else {
            C::link(&mut entries[before as usize]).after = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            C::link(&mut entries[after as usize]).before = before;
        }
        self.len -= 1;
    }
}
