//! How urgent a key is: the larger, the sooner. The numbers are controller-runtime's, but for [`POLL`].

/// Something changed: a user waits.
pub const EVENT: i32 = 0;
/// Time to look again although nothing is known to have changed: for reconcilers that come back by themselves and
/// let those go first who wait for something.
pub const POLL: i32 = -50;
/// Found in the first list of a process.
pub const INITIAL: i32 = -100;
/// Looked at again because some time has passed, not because something happened.
pub const RESYNC: i32 = -100;
