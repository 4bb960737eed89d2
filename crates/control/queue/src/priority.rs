//! How urgent a key is: the larger, the sooner.

/// Something changed: a user waits.
pub const EVENT: i32 = 0;
/// A reconcile failed and is tried again: not ready yet, but somebody was told.
pub const RETRY: i32 = -20;
/// Time to look again although nothing is known to have changed.
pub const POLL: i32 = -50;
/// Found in the first list of a process; controller-runtime uses the same number.
pub const INITIAL: i32 = -100;
