//! The work queue of a controller.
//!
//! Keys go in from triggers, come out to workers, and go back in with an [`Outcome`]:
//!
//! ```text
//!  add ──────────────► ready (priority, then first come) ──pop──► in flight ──done──► gone
//!  add_after ─► waiting (earliest wins) ──time──► ready              │
//!                  ▲                                                 │ After, Backoff, or added meanwhile
//!                  └─────────────────────────────────────────────────┘
//! ```
//!
//! A key is in the queue at most once, and never given to two workers at a time: a key added while it is in flight
//! runs once more when it is done. Failures are counted per key; the wait doubles with each.
//!
//! | module | what it owns |
//! |---|---|
//! | [`Queue`] | which key is next |
//! | [`limiter`] | how long a key that failed waits |
//! | [`Desk`] | a queue, what is in flight, and which changes were our own |
//! | [`Intake`] | a desk behind a lock, and which worker to wake |
//!
//! It has no thread, no clock and no I/O, and all but the intake is pure. Time is a parameter, the
//! [`Duration`](std::time::Duration) since some start. Whoever drives it asks [`Queue::next_wake`] when to come back.
//!
//! ```
//! use std::time::Duration;
//! use concert_queue::{Outcome, Queue, priority};
//!
//! let mut queue = Queue::default();
//! let now = Duration::ZERO;
//! queue.add("low", priority::INITIAL, "initial", now);
//! queue.add("high", priority::EVENT, "changed", now);
//! queue.add("high", priority::EVENT, "changed", now);
//! assert_eq!(queue.pop(now).map(|taken| taken.key), Some("high"));
//! queue.done(&"high", Outcome::After(Duration::from_secs(60)), None, now);
//! assert_eq!(queue.pop(now).map(|taken| taken.key), Some("low"));
//! assert_eq!(queue.next_wake(), Some(Duration::from_secs(60)));
//! ```

mod desk;
mod intake;
pub mod limiter;
pub mod priority;
mod queue;
mod sync;

pub use desk::{Call, Desk, Ending, Landed, Revision};
pub use intake::Intake;
pub use limiter::{Backoff, RateLimiter};
pub use queue::{Outcome, Queue, Settings, Taken};
