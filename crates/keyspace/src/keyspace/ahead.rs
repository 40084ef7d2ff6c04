//! What the next operations of a batch need of memory, read together.
//!
//! A key lies at the end of a chain: directory, segment, place, object. Places and objects are mostly in no cache, and
//! operations that are carried out one by one wait for each. Their keys are known before: so the places of several are
//! read, and then their objects, and nothing is done with them. The processor has such reads under way at once.

use super::Keyspace;
use crate::directories::Location;
use crate::segment::Segment;
use ids::Db;
use std::hint::black_box;

/// Operations whose keys are read together: about as many as a processor has reads of memory under way.
pub(super) const OPERATIONS_AHEAD: usize = 16;

impl Keyspace {
    /// Reads where these keys lie: at most [`OPERATIONS_AHEAD`] of them. There is nothing to gain from a single one.
    pub(super) fn look_ahead<'k>(&self, keys: impl Iterator<Item = (Db, &'k [u8])> + Clone) {
        if keys.clone().nth(1).is_none() {
            return;
        }
        let mut sought = [(Db::default(), Location::START); OPERATIONS_AHEAD];
        let mut count = 0;
        for (place, (db, key)) in sought.iter_mut().zip(keys) {
            *place = (db, self.locate(key));
            count += 1;
        }
        // Two passes: to read an object waits for its place, and with it what would be read behind it.
        for look in [Segment::look_at_place, Segment::look_at_object] {
            let seen = sought[..count].iter().map(|&(db, location)| {
                let segment = self.database(db).segment_of(location);
                segment.map_or(0, |segment| look(segment, location.hash))
            });
            black_box(seen.fold(0, |all, word| all ^ word));
        }
    }
}
