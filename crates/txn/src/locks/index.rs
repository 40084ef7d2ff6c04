//! Who holds and who waits, found by key.
//!
//! A request on keys is *entered* at each of its keys, and once more among all requests on keys; one on the whole
//! group at a place of its own. It *meets* the requests entered at its keys and those on the whole group:
//!
//! ```text
//!                          entered at                 meets those entered at
//!   keys a, b              a, b, "some keys"          a, b, "whole group"
//!   whole group            "whole group"              "whole group", "some keys"
//! ```
//!
//! Among *some keys* it counts as exclusive if it wants any key alone: that is what a reader of the whole group
//! conflicts with. Two requests conflict exactly if one meets the other in a mode that clashes.

use super::few::Few;
use super::{Age, Locks, Mode, clash};
use crate::{Priority, TxnId};
use ids::{Boot, UnixMillis};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

const LAST_TXN: TxnId = TxnId {
    boot: Boot(u64::MAX),
    worker: u16::MAX,
    seq: u64::MAX,
    attempt: u32::MAX,
};
const LAST_PRIORITY: Priority = Priority {
    began: UnixMillis(i64::MAX),
    boot: Boot(u64::MAX),
    seq: u64::MAX,
};

/// Where requests are entered and met.
#[derive(Clone, Copy)]
enum Spot<'a> {
    Key(&'a [u8]),
    SomeKeys,
    WholeGroup,
}

fn entered(locks: &Locks) -> impl Iterator<Item = (Spot<'_>, Mode)> {
    let spot = match locks {
        Locks::Keys(_) => Spot::SomeKeys,
        Locks::WholeGroup(_) => Spot::WholeGroup,
    };
    let all = strongest(locks).map(|mode| (spot, mode));
    all.into_iter().chain(keys(locks))
}

fn met(locks: &Locks) -> impl Iterator<Item = (Spot<'_>, Mode)> {
    let keyed = match locks {
        Locks::Keys(_) => None,
        Locks::WholeGroup(mode) => Some((Spot::SomeKeys, *mode)),
    };
    let whole = strongest(locks).map(|mode| (Spot::WholeGroup, mode));
    whole.into_iter().chain(keyed).chain(keys(locks))
}

fn keys(locks: &Locks) -> impl Iterator<Item = (Spot<'_>, Mode)> {
    let keys = match locks {
        Locks::Keys(keys) => &keys[..],
        Locks::WholeGroup(_) => &[],
    };
    keys.iter().map(|(key, mode)| (Spot::Key(key), *mode))
}

/// The strongest mode that anything is locked in; `None` if nothing is.
fn strongest(locks: &Locks) -> Option<Mode> {
    match locks {
        Locks::WholeGroup(mode) => Some(*mode),
        Locks::Keys(keys) if keys.iter().any(|(_, mode)| *mode == Mode::Exclusive) => Some(Mode::Exclusive),
        Locks::Keys(keys) => keys.first().map(|(_, mode)| *mode),
    }
}

/// A holder, as each of its places knows it. Readers come before the prepared, the older before the younger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Held {
    pub(super) is_prepared: bool,
    pub(super) priority: Priority,
    pub(super) txn: TxnId,
}

/// The requests of one mode at one place.
#[derive(Debug, Default, PartialEq)]
struct Side {
    holders: Few<Held>,
    waiters: BTreeSet<Age>,
    /// Those of the waiters that are no transactions by number of arrival; a rebuilt table may be given a number twice.
    plain_by_arrival: BTreeSet<(u64, Priority)>,
}

impl Side {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    fn younger(&self, priority: Priority, is_prepared: bool) -> impl Iterator<Item = TxnId> {
        let held = |priority| Held {
            is_prepared,
            priority,
            txn: LAST_TXN,
        };
        let younger = (
            Bound::Excluded(held(priority)),
            Bound::Included(held(LAST_PRIORITY)),
        );
        self.holders
            .range(younger)
            .inspect(|_| visit())
            .map(|held| held.txn)
    }
}

/// The requests at one place.
#[derive(Debug, Default, PartialEq)]
struct Place {
    shared: Side,
    exclusive: Side,
}

impl Place {
    fn side(&self, mode: Mode) -> &Side {
        match mode {
            Mode::Shared => &self.shared,
            Mode::Exclusive => &self.exclusive,
        }
    }

    fn side_mut(&mut self, mode: Mode) -> &mut Side {
        match mode {
            Mode::Shared => &mut self.shared,
            Mode::Exclusive => &mut self.exclusive,
        }
    }

    /// The requests that conflict with one of this mode.
    fn against(&self, mode: Mode) -> impl Iterator<Item = &Side> {
        let modes = [Mode::Exclusive, Mode::Shared];
        modes
            .into_iter()
            .filter(move |other| clash(*other, mode))
            .map(|other| self.side(other))
    }

    /// Who waits at `waiting` and conflicts with nobody here any more, now that a request of this `mode` has left
    /// this place: a holder, or a waiter of age `from`. Others were not kept waiting by it, or still are by others.
    fn freed(&self, waiting: &Place, mode: Mode, from: Option<Age>, freed: &mut BTreeSet<Age>) {
        for other in [Mode::Exclusive, Mode::Shared] {
            if !clash(mode, other) || self.against(other).any(|side| !side.holders.is_empty()) {
                continue;
            }
            // The oldest itself is kept by nobody who is older.
            let oldest = self.against(other).filter_map(|side| side.waiters.first()).min();
            if oldest.is_some_and(|oldest| from.is_some_and(|from| from > *oldest)) {
                continue;
            }
            let range = (
                from.map_or(Bound::Unbounded, Bound::Excluded),
                oldest.map_or(Bound::Unbounded, |oldest| Bound::Included(*oldest)),
            );
            let waiters = waiting.side(other).waiters.range(range);
            freed.extend(waiters.inspect(|_| visit()));
        }
    }
}

/// See the file's header. It holds only keys that somebody holds or waits for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Index {
    keys: BTreeMap<Box<[u8]>, Place>,
    some_keys: Place,
    whole_group: Place,
}

impl Index {
    pub(super) fn hold(&mut self, held: Held, locks: &Locks) {
        for (spot, mode) in entered(locks) {
            self.change(spot, |place| place.side_mut(mode).holders.insert(held));
        }
    }

    pub(super) fn let_go(&mut self, held: Held, locks: &Locks) {
        for (spot, mode) in entered(locks) {
            self.change(spot, |place| place.side_mut(mode).holders.remove(held));
        }
    }

    pub(super) fn wait(&mut self, age: Age, locks: &Locks, is_plain: bool) {
        for (spot, mode) in entered(locks) {
            self.change(spot, |place| {
                let side = place.side_mut(mode);
                side.waiters.insert(age);
                if is_plain {
                    side.plain_by_arrival.insert((age.arrival, age.priority));
                }
            });
        }
    }

    pub(super) fn leave(&mut self, age: Age, locks: &Locks) {
        for (spot, mode) in entered(locks) {
            self.change(spot, |place| {
                let side = place.side_mut(mode);
                side.waiters.remove(&age);
                side.plain_by_arrival.remove(&(age.arrival, age.priority));
            });
        }
    }

    /// Whether a holder conflicts with these locks.
    pub(super) fn is_held(&self, locks: &Locks) -> bool {
        self.met(locks).any(|side| !side.holders.is_empty())
    }

    /// Whether neither a holder nor a waiter conflicts with these locks.
    pub(super) fn is_free(&self, locks: &Locks) -> bool {
        self.met(locks)
            .all(|side| side.holders.is_empty() && side.waiters.is_empty())
    }

    /// The oldest waiter that conflicts with these locks.
    pub(super) fn oldest(&self, locks: &Locks) -> Option<Age> {
        let oldest = self.met(locks).filter_map(|side| side.waiters.first());
        oldest.min().copied()
    }

    /// Whether a waiter conflicts with these locks.
    pub(super) fn has_waiter(&self, locks: &Locks) -> bool {
        self.met(locks).any(|side| !side.waiters.is_empty())
    }

    /// The lowest number of arrival of a waiter that is no transaction and conflicts with these locks.
    pub(super) fn first_plain_arrival(&self, locks: &Locks) -> Option<u64> {
        let first = self.met(locks).filter_map(|side| side.plain_by_arrival.first());
        first.map(|(arrival, _)| *arrival).min()
    }

    /// The holders that conflict with these locks and are younger, of those that are prepared or those that are
    /// not.
    pub(super) fn younger(&self, locks: &Locks, priority: Priority, is_prepared: bool) -> BTreeSet<TxnId> {
        let sides = self.met(locks);
        sides
            .flat_map(|side| side.younger(priority, is_prepared))
            .collect()
    }

    /// Adds to `freed` whoever may have waited only for a request on these locks that has left: a holder, or a
    /// waiter of age `from`.
    pub(super) fn freed(&self, locks: &Locks, from: Option<Age>, freed: &mut BTreeSet<Age>) {
        for (spot, mode) in entered(locks) {
            let Some(left) = self.place(spot) else { continue };
            match spot {
                Spot::Key(_) => left.freed(left, mode, from, freed),
                Spot::SomeKeys => left.freed(&self.whole_group, mode, from, freed),
                Spot::WholeGroup => {
                    left.freed(left, mode, from, freed);
                    left.freed(&self.some_keys, mode, from, freed);
                }
            }
        }
    }

    /// The `n` keys with most waiters, first those with more of them.
    pub(super) fn hottest(&self, n: usize) -> Vec<(&[u8], usize)> {
        let counts = self.keys.iter().map(|(key, place)| {
            let count = place.shared.waiters.len() + place.exclusive.waiters.len();
            (&key[..], count)
        });
        let mut waited: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        waited.sort_unstable_by_key(|(key, count)| (Reverse(*count), *key));
        waited.truncate(n);
        waited
    }

    fn met<'a>(&'a self, locks: &'a Locks) -> impl Iterator<Item = &'a Side> {
        met(locks)
            .filter_map(|(spot, mode)| self.place(spot).map(|place| place.against(mode)))
            .flatten()
    }

    fn place(&self, spot: Spot<'_>) -> Option<&Place> {
        visit();
        match spot {
            Spot::Key(key) => self.keys.get(key),
            Spot::SomeKeys => Some(&self.some_keys),
            Spot::WholeGroup => Some(&self.whole_group),
        }
    }

    fn change(&mut self, spot: Spot<'_>, change: impl FnOnce(&mut Place)) {
        visit();
        match spot {
            Spot::SomeKeys => change(&mut self.some_keys),
            Spot::WholeGroup => change(&mut self.whole_group),
            Spot::Key(key) => match self.keys.get_mut(key) {
                Some(place) => {
                    change(place);
                    if place.shared.is_empty() && place.exclusive.is_empty() {
                        self.keys.remove(key);
                    }
                }
                None => {
                    let mut place = Place::default();
                    change(&mut place);
                    if !(place.shared.is_empty() && place.exclusive.is_empty()) {
                        self.keys.insert(key.into(), place);
                    }
                }
            },
        }
    }
}

/// Marks that one place or one request of the table was looked at. Tests count how many are.
#[inline]
pub(super) fn visit() {
    #[cfg(test)]
    super::costs::VISITS.with(|visits| visits.set(visits.get() + 1));
}
