//! What changed in one database behind a transfer's back: which keys it has sent, and which of them it must send again.
//!
//! ```text
//!  scan order  0 |------- covered -------|------ not yet ------| end
//!                  ^ changed, waiting    ^ covered_to
//!                    (open: one of them that is being sent piece by piece)
//! ```
//!
//! A database has one of these for each transfer under way, else none, and then a change costs it one branch. Keys are
//! known by partition and hash alone, and two keys of one hash are sent together.
//!
//! Invariants:
//! 1. The receiver holds exactly the objects of the covered hashes as they were at the last chunk, but for the hashes in
//!    `changed`, `waiting`, `later` and `restless`, and the one that is `open`.
//! 2. No hash is in two of these places.
//! 3. All of them are covered.

use super::pieces::Place;
use crate::directories::Location;
use std::collections::{BTreeMap, BTreeSet};

/// Hashes that a transfer remembers of one database. At the limit it forgets all of them, and has to start again.
pub(crate) const TRACKED_MAX: usize = 262_144;

/// How often a large value is begun before it is left for the last chunk, which carries it whole: one that changes faster
/// than it can be sent would be begun for ever.
const TRIES_MAX: u8 = 3;

/// See the file's header.
pub(crate) struct Changes {
    /// Whose they are.
    pub(crate) transfer: u64,
    /// Which of the receiver's databases, as it has them since the last chunk, holds what was sent of this one. `None` if the
    /// database was emptied.
    pub(crate) origin: Option<u8>,
    /// Hashes below it are covered; all of them if `None`.
    pub(crate) covered_to: Option<Location>,
    /// To be looked at and sent with the next chunk.
    pub(crate) changed: BTreeSet<Location>,
    /// Of large values that were never begun.
    pub(crate) waiting: BTreeSet<Location>,
    /// Of large values that were begun before, and changed: they wait until everything else was sent.
    pub(crate) later: BTreeSet<Location>,
    /// Of large values that change too often.
    pub(crate) restless: BTreeSet<Location>,
    /// How often each large value was begun.
    tries: BTreeMap<Location, u8>,
    /// What is being sent piece by piece.
    pub(crate) open: Option<Open>,
    /// Of a transfer of one partition: the place of that in the range. Nothing else is looked at.
    pub(crate) only: Option<u16>,
    /// There were too many, and all are forgotten.
    pub(crate) is_lost: bool,
}

/// Objects of one hash that are being sent piece by piece.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) location: Location,
    /// Which of the objects of this hash.
    pub(crate) index: usize,
    /// Where its next piece begins; `None` if nothing of it was sent.
    pub(crate) next: Option<Place>,
}

impl Changes {
    /// Nothing is covered.
    pub(crate) fn new(transfer: u64, database: u8) -> Changes {
        Changes {
            transfer,
            origin: Some(database),
            covered_to: Some(Location::START),
            changed: BTreeSet::new(),
            waiting: BTreeSet::new(),
            later: BTreeSet::new(),
            restless: BTreeSet::new(),
            tries: BTreeMap::new(),
            open: None,
            only: None,
            is_lost: false,
        }
    }

    /// The same of one partition alone.
    pub(crate) fn of_partition(transfer: u64, database: u8, partition: u16) -> Changes {
        Changes {
            covered_to: Some(Location::before(partition)),
            only: Some(partition),
            ..Changes::new(transfer, database)
        }
    }

    /// Nothing of this database is sent.
    pub(crate) fn ignore_all(&mut self) {
        self.covered_to = None;
        self.only = Some(u16::MAX);
    }

    /// All are forgotten: the transfer is to be begun again.
    pub(crate) fn lose(&mut self) {
        *self = Changes::new(self.transfer, 0);
        self.is_lost = true;
    }

    /// An object of this hash came, changed or went.
    pub(crate) fn note(&mut self, location: Location) {
        let is_another = self.only.is_some_and(|partition| location.partition != partition);
        if self.is_lost || is_another || self.covered_to.is_some_and(|to| location >= to) {
            return;
        }
        if self.open.is_some_and(|open| open.location == location) {
            self.open = None;
            self.wait(location);
            return;
        }
        let is_known = [&self.waiting, &self.later, &self.restless]
            .iter()
            .any(|locations| locations.contains(&location));
        if !is_known {
            self.changed.insert(location);
        }
        if self.count() > TRACKED_MAX {
            self.lose();
        }
    }

    /// An object of this hash is the same in another form: what the receiver has of it is right.
    pub(crate) fn note_form(&mut self, location: Location) {
        if self.open.is_some_and(|open| open.location == location) {
            self.note(location);
        }
    }

    /// The database was emptied.
    pub(crate) fn note_flush(&mut self) {
        if self.only.is_some() {
            // It does not say what a database is made of.
            self.lose();
        }
        if !self.is_lost {
            *self = Changes::new(self.transfer, 0);
            self.origin = None;
        }
    }

    fn count(&self) -> usize {
        self.changed.len() + self.waiting.len() + self.later.len() + self.restless.len()
    }

    /// Whether every hash is covered.
    pub(crate) fn is_covered(&self) -> bool {
        self.covered_to.is_none()
    }

    /// Whether nothing is left but what goes with the last chunk.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_covered()
            && self.open.is_none()
            && self.changed.is_empty()
            && self.waiting.is_empty()
            && self.later.is_empty()
    }

    /// There is a large value of this hash to be sent.
    pub(crate) fn wait(&mut self, location: Location) {
        let locations = match self.tries.get(&location) {
            None => &mut self.waiting,
            Some(&tries) if tries < TRIES_MAX => &mut self.later,
            Some(_) => &mut self.restless,
        };
        locations.insert(location);
    }

    /// Takes the hash of a large value whose turn it is.
    pub(crate) fn take_waiting(&mut self, with_later: bool, with_restless: bool) -> Option<Location> {
        let waiting = self.waiting.pop_first();
        let later = || with_later.then(|| self.later.pop_first()).flatten();
        let restless = || with_restless.then(|| self.restless.pop_first()).flatten();
        waiting.or_else(later).or_else(restless)
    }

    /// Begins to send the objects of this hash piece by piece.
    pub(crate) fn begin(&mut self, location: Location) {
        *self.tries.entry(location).or_insert(0) += 1;
        self.open = Some(Open {
            location,
            index: 0,
            next: None,
        });
    }
}
