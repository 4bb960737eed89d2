//! What is random.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

/// One source of randomness for uids, generated names, jitter and tokens. Cryptographically strong when it was
/// seeded by the system; a pure function of its seed in a simulation.
#[derive(Clone)]
pub struct Random(Arc<Mutex<ChaCha12Rng>>);

impl Random {
    /// Seeded by the operating system.
    ///
    /// # Panics
    /// If the operating system has no entropy to give: nothing safe can be done then.
    #[must_use]
    pub fn from_system() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the operating system gives randomness");
        Self(Arc::new(Mutex::new(ChaCha12Rng::from_seed(seed))))
    }

    /// The same seed gives the same values in the same order.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaCha12Rng::seed_from_u64(seed))))
    }

    /// Fills `out` with random bytes.
    pub fn fill(&self, out: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(out);
    }

    /// A random integer.
    #[must_use]
    pub fn u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A random integer in `0..bound`; 0 if the bound is 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A random (version 4) uuid in its usual form.
    #[must_use]
    pub fn uuid(&self) -> String {
        let mut bytes = [0u8; 16];
        self.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// A secret of 256 bits in hexadecimal.
    #[must_use]
    pub fn token(&self) -> String {
        let mut bytes = [0u8; 32];
        self.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// `length` characters of `alphabet`.
    ///
    /// # Panics
    /// If the alphabet is empty.
    #[must_use]
    pub fn text(&self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.index(alphabet.len())])).collect()
    }

    /// `base` moved by a random share of at most `share` (0.1 = ten per cent) in either direction.
    #[must_use]
    pub fn jitter(&self, base: Duration, share: f64) -> Duration {
        let unit = self.below(1 << 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0;
        base.mul_f64((1.0 + unit * share).max(0.0))
    }

    fn index(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_version_four() {
        let uuid = Random::seeded(1).uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let random = Random::seeded(3);
        for _ in 0..1000 {
            let moved = random.jitter(Duration::from_secs(60), 0.1);
            assert!((54.0..=66.0).contains(&moved.as_secs_f64()), "{moved:?}");
        }
    }

    #[test]
    fn below_covers_its_range() {
        let random = Random::seeded(5);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.index(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(0), 0);
    }
}
