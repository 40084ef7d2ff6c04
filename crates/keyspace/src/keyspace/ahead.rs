//! What the next commands need of memory, read together.
//!
//! A key lies at the end of a chain: directory, segment, place, object. Places and objects are mostly in no cache, and
//! commands that are carried out one by one wait for each. Their keys are known before: so the places of several are
//! read, and then their objects, and nothing is done with them. The processor has such reads under way at once.

use super::Keyspace;
use crate::segment::Segment;
use ids::{Db, Slot};
use std::hint::black_box;

/// Keys that are looked for together: about as many as a processor has reads of memory under way.
pub const KEYS_AHEAD: usize = 16;

/// With so many keys they lie in a processor's caches, and nobody waits for them.
const KEYS_CACHED_MAX: usize = 4_096;

impl Keyspace {
    /// Whether it is worth while to look ahead.
    pub fn is_large(&self, db: Db) -> bool {
        self.database(db).len() > KEYS_CACHED_MAX
    }
}

/// Reads where these keys lie: at most [`KEYS_AHEAD`] of them. There is nothing to gain from a single one.
#[inline]
pub fn look_ahead<'k>(keys: impl Iterator<Item = (&'k Keyspace, Db, Slot, &'k [u8])>) {
    let mut sought = [None; KEYS_AHEAD];
    let mut count = 0;
    for (place, (keyspace, db, slot, key)) in sought.iter_mut().zip(keys) {
        let location = keyspace.placing.locate_in_slot(slot, key);
        *place = keyspace
            .database(db)
            .segment_of(location)
            .map(|segment| (segment, location.hash));
        count += 1;
    }
    if count < 2 {
        return;
    }
    // Two passes: to read an object waits for its place, and with it what would be read behind it.
    for look in [Segment::look_at_place, Segment::look_at_object] {
        let seen = sought[..count].iter().flatten();
        black_box(seen.fold(0, |all, &(segment, hash)| all ^ look(segment, hash)));
    }
}
