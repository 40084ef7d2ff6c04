//! Which key to give up when memory is short.
//!
//! Sampling as Redis does it ("Approximated LRU algorithm" in its documentation): look at a few random keys,
//! give up the one that was idle longest, is used least, or expires first. The choice is the leader's; it
//! becomes an entry that names the key, so replicas never have to agree on statistics.

use crate::Keyspace;
use crate::local::LeaderLocal;
use crate::object::Object;
use ids::{Db, UnixMillis};

/// `maxmemory-policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EvictionPolicy {
    /// Refuse writes instead.
    #[default]
    NoEviction,
    /// Idle longest.
    AllKeysLru,
    /// Used least.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// Idle longest of those with a deadline.
    VolatileLru,
    /// Used least of those with a deadline.
    VolatileLfu,
    /// Any of those with a deadline.
    VolatileRandom,
    /// The earliest deadline.
    VolatileTtl,
}

impl EvictionPolicy {
    /// Whether only keys with a deadline are given up.
    pub fn only_volatile(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileLru
                | EvictionPolicy::VolatileLfu
                | EvictionPolicy::VolatileRandom
                | EvictionPolicy::VolatileTtl
        )
    }

    /// Whether accesses are counted by frequency.
    pub fn is_lfu(self) -> bool {
        matches!(self, EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu)
    }

    /// How readily `object` is given up: more means sooner.
    fn score(self, object: &Object, local: &LeaderLocal) -> i64 {
        match self {
            EvictionPolicy::NoEviction | EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => 0,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => {
                i64::from(local.access.idle_seconds(object.access()))
            }
            EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu => {
                -i64::from(local.access.frequency(object.access()))
            }
            EvictionPolicy::VolatileTtl => {
                -object.deadline().unwrap_or(UnixMillis(i64::MAX)).0.max(-i64::MAX)
            }
        }
    }
}

/// The best of the keys looked at so far, over any number of groups.
#[derive(Default)]
pub struct Victims {
    best: Option<(i64, usize, Db, Box<[u8]>)>,
}

impl Victims {
    /// Whether no key was found yet.
    pub fn is_empty(&self) -> bool {
        self.best.is_none()
    }

    /// The group's index and key to give up.
    pub fn take(&mut self) -> Option<(usize, Db, Box<[u8]>)> {
        self.best.take().map(|(_, group, db, key)| (group, db, key))
    }
}

impl Keyspace {
    /// Looks at up to `samples` random keys for one that is given up more readily than `victims` holds.
    /// `group` says whose keys these are.
    pub fn sample_victims(
        &self,
        group: usize,
        policy: EvictionPolicy,
        samples: u32,
        local: &mut LeaderLocal,
        victims: &mut Victims,
    ) {
        for number in 0..Db::COUNT {
            let db = Db::new(number).expect("below the count");
            let (keys, with_deadline) = self.counts(db);
            let candidates = if policy.only_volatile() {
                with_deadline
            } else {
                keys
            };
            if policy == EvictionPolicy::NoEviction || candidates == 0 {
                continue;
            }
            // Where few keys have a deadline, more picks are needed to meet one; the number stays bounded.
            let picks = samples as usize * (keys / candidates).min(64);
            for _ in 0..picks {
                let Some(object) = self.database(db).random(&mut local.prng) else {
                    break;
                };
                if policy.only_volatile() && object.deadline().is_none() {
                    continue;
                }
                let score = policy.score(&object, local);
                if victims.best.as_ref().is_none_or(|(best, ..)| score > *best) {
                    victims.best = Some((score, group, db, object.key().into()));
                }
            }
        }
    }
}
