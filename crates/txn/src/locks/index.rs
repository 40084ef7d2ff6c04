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
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::{Bound, RangeBounds};

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

    fn insert_waiter(&mut self, age: Age, is_plain: bool) {
        self.waiters.insert(age);
        if is_plain {
            self.plain_by_arrival.insert((age.arrival, age.priority));
        }
    }
}

/// Who is at a place in one mode: one holder and nobody else, or whoever is there.
#[derive(Clone, Copy)]
enum Seen<'a> {
    One(Held),
    Side(&'a Side),
}

impl<'a> Seen<'a> {
    fn is_held(self) -> bool {
        match self {
            Seen::One(_) => true,
            Seen::Side(side) => !side.holders.is_empty(),
        }
    }

    fn is_empty(self) -> bool {
        match self {
            Seen::One(_) => false,
            Seen::Side(side) => side.is_empty(),
        }
    }

    /// The side, if anybody can wait there.
    fn side(self) -> Option<&'a Side> {
        match self {
            Seen::One(_) => None,
            Seen::Side(side) => Some(side),
        }
    }

    fn younger(self, priority: Priority, is_prepared: bool) -> impl Iterator<Item = TxnId> {
        let held = |priority| Held {
            is_prepared,
            priority,
            txn: LAST_TXN,
        };
        let younger = (
            Bound::Excluded(held(priority)),
            Bound::Included(held(LAST_PRIORITY)),
        );
        let (one, side) = match self {
            Seen::One(held) => (younger.contains(&held).then_some(held), None),
            Seen::Side(side) => (None, Some(side.holders.range(younger))),
        };
        let all = one.into_iter().chain(side.into_iter().flatten());
        all.inspect(|_| visit()).map(|held| held.txn)
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

    fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.exclusive.is_empty()
    }

    /// The requests that conflict with one of this mode.
    fn against(&self, mode: Mode) -> impl Iterator<Item = &Side> {
        modes_against(mode).map(|other| self.side(other))
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

fn modes_against(mode: Mode) -> impl Iterator<Item = Mode> {
    let modes = [Mode::Exclusive, Mode::Shared];
    modes.into_iter().filter(move |other| clash(*other, mode))
}

/// The requests at one key: nearly always one holder and nobody else, who needs no place.
#[derive(Debug)]
enum KeyPlace {
    Held(Mode, Held),
    /// Also of what is left of many, however few.
    Place(Box<Place>),
}

impl KeyPlace {
    fn as_place(&mut self) -> &mut Place {
        if let KeyPlace::Held(mode, held) = *self {
            let mut place = Box::new(Place::default());
            place.side_mut(mode).holders.insert(held);
            *self = KeyPlace::Place(place);
        }
        match self {
            KeyPlace::Place(place) => place,
            KeyPlace::Held(..) => unreachable!("it was replaced a moment ago"),
        }
    }

    fn waiter_count(&self) -> usize {
        match self {
            KeyPlace::Held(..) => 0,
            KeyPlace::Place(place) => place.shared.waiters.len() + place.exclusive.waiters.len(),
        }
    }
}

impl PartialEq for KeyPlace {
    fn eq(&self, other: &KeyPlace) -> bool {
        match (self, other) {
            (KeyPlace::Held(mode, held), KeyPlace::Held(other_mode, other)) => {
                (mode, held) == (other_mode, other)
            }
            (KeyPlace::Place(place), KeyPlace::Place(other)) => place == other,
            (KeyPlace::Held(mode, held), KeyPlace::Place(place))
            | (KeyPlace::Place(place), KeyPlace::Held(mode, held)) => {
                *KeyPlace::Held(*mode, *held).as_place() == **place
            }
        }
    }
}

/// Whoever is at one spot.
#[derive(Clone, Copy)]
enum At<'a> {
    Held(Mode, Held),
    Place(&'a Place),
}

impl<'a> At<'a> {
    /// The requests that conflict with one of this mode.
    fn against(self, mode: Mode) -> impl Iterator<Item = Seen<'a>> {
        modes_against(mode).filter_map(move |other| match self {
            At::Held(held_in, held) => (held_in == other).then_some(Seen::One(held)),
            At::Place(place) => Some(Seen::Side(place.side(other))),
        })
    }
}

/// See the file's header. It holds only keys that somebody holds or waits for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Index {
    keys: BTreeMap<Box<[u8]>, KeyPlace>,
    some_keys: Place,
    whole_group: Place,
}

impl Index {
    pub(super) fn hold(&mut self, held: Held, locks: &Locks) {
        for (spot, mode) in entered(locks) {
            let Spot::Key(key) = spot else {
                self.change(spot, |place| place.side_mut(mode).holders.insert(held));
                continue;
            };
            visit();
            match self.keys.entry(key.into()) {
                Entry::Vacant(free) => {
                    free.insert(KeyPlace::Held(mode, held));
                }
                Entry::Occupied(place) => place.into_mut().as_place().side_mut(mode).holders.insert(held),
            }
        }
    }

    pub(super) fn let_go(&mut self, held: Held, locks: &Locks) {
        for (spot, mode) in entered(locks) {
            let Spot::Key(key) = spot else {
                self.change(spot, |place| place.side_mut(mode).holders.remove(held));
                continue;
            };
            visit();
            let Some((key, place)) = self.keys.remove_entry(key) else {
                continue;
            };
            // Mostly it was alone there.
            if let KeyPlace::Place(mut place) = place {
                place.side_mut(mode).holders.remove(held);
                if !place.is_empty() {
                    self.keys.insert(key, KeyPlace::Place(place));
                }
            }
        }
    }

    pub(super) fn wait(&mut self, age: Age, locks: &Locks, is_plain: bool) {
        for (spot, mode) in entered(locks) {
            self.change(spot, |place| place.side_mut(mode).insert_waiter(age, is_plain));
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
        self.met(locks).any(Seen::is_held)
    }

    /// Whether neither a holder nor a waiter conflicts with these locks.
    pub(super) fn is_free(&self, locks: &Locks) -> bool {
        self.met(locks).all(Seen::is_empty)
    }

    /// The oldest waiter that conflicts with these locks.
    pub(super) fn oldest(&self, locks: &Locks) -> Option<Age> {
        let oldest = self.met_sides(locks).filter_map(|side| side.waiters.first());
        oldest.min().copied()
    }

    /// Whether a waiter conflicts with these locks.
    pub(super) fn has_waiter(&self, locks: &Locks) -> bool {
        self.met_sides(locks).any(|side| !side.waiters.is_empty())
    }

    /// The lowest number of arrival of a waiter that is no transaction and conflicts with these locks.
    pub(super) fn first_plain_arrival(&self, locks: &Locks) -> Option<u64> {
        let first = self
            .met_sides(locks)
            .filter_map(|side| side.plain_by_arrival.first());
        first.map(|(arrival, _)| *arrival).min()
    }

    /// The holders that conflict with these locks and are younger, of those that are prepared or those that are
    /// not.
    pub(super) fn younger(&self, locks: &Locks, priority: Priority, is_prepared: bool) -> BTreeSet<TxnId> {
        let all = self.met(locks);
        all.flat_map(|seen| seen.younger(priority, is_prepared)).collect()
    }

    /// Adds to `freed` whoever may have waited only for a request on these locks that has left: a holder, or a
    /// waiter of age `from`.
    pub(super) fn freed(&self, locks: &Locks, from: Option<Age>, freed: &mut BTreeSet<Age>) {
        for (spot, mode) in entered(locks) {
            // At a key with one holder nobody waits.
            let Some(At::Place(left)) = self.at(spot) else {
                continue;
            };
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
        let all = self.keys.iter();
        let counts = all.map(|(key, place)| (&key[..], place.waiter_count()));
        let mut waited: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        waited.sort_unstable_by_key(|(key, count)| (Reverse(*count), *key));
        waited.truncate(n);
        waited
    }

    fn met<'a>(&'a self, locks: &'a Locks) -> impl Iterator<Item = Seen<'a>> {
        met(locks)
            .filter_map(|(spot, mode)| self.at(spot).map(|at| at.against(mode)))
            .flatten()
    }

    fn met_sides<'a>(&'a self, locks: &'a Locks) -> impl Iterator<Item = &'a Side> {
        self.met(locks).filter_map(Seen::side)
    }

    fn at(&self, spot: Spot<'_>) -> Option<At<'_>> {
        visit();
        match spot {
            Spot::Key(key) => self.keys.get(key).map(|place| match place {
                KeyPlace::Held(mode, held) => At::Held(*mode, *held),
                KeyPlace::Place(place) => At::Place(place),
            }),
            Spot::SomeKeys => Some(At::Place(&self.some_keys)),
            Spot::WholeGroup => Some(At::Place(&self.whole_group)),
        }
    }

    fn change(&mut self, spot: Spot<'_>, change: impl FnOnce(&mut Place)) {
        visit();
        match spot {
            Spot::SomeKeys => change(&mut self.some_keys),
            Spot::WholeGroup => change(&mut self.whole_group),
            Spot::Key(key) => match self.keys.get_mut(key) {
                Some(place) => {
                    let place = place.as_place();
                    change(place);
                    if place.is_empty() {
                        self.keys.remove(key);
                    }
                }
                None => {
                    let mut place = Box::new(Place::default());
                    change(&mut place);
                    if !place.is_empty() {
                        self.keys.insert(key.into(), KeyPlace::Place(place));
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
