//! The hash that orders keys inside a group.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The seed of a group's key hash: part of the group's state, so that every replica orders keys alike,
/// and secret from clients, so that none can choose keys that collide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashSeed(pub [u64; 2]);

/// SipHash-1-3 of a key under a group's [`HashSeed`]. "Hash order" everywhere means ascending order of
/// this number: it is the order of `SCAN`, snapshots, refills and random picks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyHash(pub u64);

impl HashSeed {
    /// The hash of `key`.
    #[inline]
    pub fn hash(self, key: &[u8]) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write(key);
        KeyHash(hasher.finish())
    }
}
