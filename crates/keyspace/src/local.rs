//! What the leader of a group keeps beside the replicated state.

use crate::access::{AccessClock, AccessStats};
use crate::events::{Event, EventClasses};
use crate::long_values::LongValues;
use crate::object::{Kind, Object};
use crate::transactions::Origin;
use command::ReplyError;
use ids::{Db, Prng, UnixMillis};
use txn::{Participants, TxnId};

/// Leader-local companions of a keyspace: clock, statistics, randomness of reads. Nothing here is an input of
/// `apply`, and nothing here is in the state hash.
pub struct LeaderLocal {
    /// The wall clock, told once a turn. Reads find keys expired by it; `apply` never looks at it.
    pub now: UnixMillis,
    /// How accesses are counted.
    pub access: AccessClock,
    /// Lookups by reads that found a key.
    pub hits: u64,
    /// Lookups by reads that found none.
    pub misses: u64,
    /// Keys deleted because they expired.
    pub expired: u64,
    /// Keys deleted to make room.
    pub evicted: u64,
    /// Keys that commands changed: what Redis counts as changes since the last save.
    pub changes: u64,
    /// Whether lookups count as accesses: `CLIENT NO-TOUCH` and introspection turn it off.
    pub touches: bool,
    /// Randomness of reads (`RANDOMKEY`) and of eviction samples.
    pub prng: Prng,
    /// Expired keys that reads met, to be deleted by an entry. Bounded by [`LeaderLocal::MET_MAX`].
    pub met_expired: Vec<(Db, Box<[u8]>)>,
    /// Whether a read met a key that has expired by `now` and lives by group time: whoever leads next may show it, so that the
    /// answer is not to be told before an entry has said how late it is. The driver looks, and resets it.
    pub is_ahead: bool,
    /// The classes of events that somebody may want to hear of.
    pub notify: EventClasses,
    /// Events of these classes, in order. The driver takes them after each call.
    pub events: Vec<Event>,
    /// Whether clients wait for keys to be filled.
    pub is_awaited: bool,
    /// If so: keys under which a list or sorted set came to be, or a stream came, grew or went, in order. The driver takes them after each call.
    pub filled: Vec<(Db, Box<[u8]>)>,
    /// If so: databases were exchanged, and any key may have been filled.
    pub is_swapped: bool,
    /// Whether clients wait in the state for keys to be filled. This and the next two follow from the state and the entry.
    pub(crate) has_waiters: bool,
    /// If so: the keys under which a list or sorted set came to be, or a stream came, grew or went, since they were last
    /// served.
    pub(crate) ready: Vec<(Db, Box<[u8]>)>,
    /// If so: databases were exchanged, and any key may have been filled.
    pub(crate) is_all_ready: bool,
    /// Transactions that older ones have begun to wait for, each with all its participants. The driver takes them.
    pub wounds: Vec<(TxnId, Participants)>,
    /// Transactions that are committed elsewhere, and were refused or dropped here: a group of theirs has begun anew without
    /// what it knew of them. The driver takes them.
    pub torn: Vec<TxnId>,
    /// Operations that have been answered later than their batches. The driver takes them.
    pub deferred: Vec<Origin>,
    /// Whether the group is alone on its node: whoever asks it is here, and takes objects as they are.
    pub is_alone: bool,
    /// Bytes of what is answered together: a read that passes it is told so. Not where replicas apply a read, which all have to
    /// answer alike: there it has no bound here.
    pub answers_bytes_max: usize,
    /// Operations that had to wait for a transaction.
    pub waited: u64,
    /// Transactions that were prepared.
    pub prepared: u64,
    /// Transactions that were refused for an older one.
    pub wounded: u64,
    /// Whether to note the keys that commands name only while they run.
    pub collects_wanted: bool,
    /// If so: every key that the patterns of `SORT` named, found or not; each once, and as many as its elements and
    /// patterns make. The driver takes them after each call.
    pub wanted: Vec<(Db, Box<[u8]>)>,
    /// Long values that are written already, while whoever waited for that is answered.
    pub written: Option<LongValues>,
    /// Keys whose values a read needs as a whole, and of which there are fragments here. The driver takes them after each call that says so
    /// ([`Read::NeedsWhole`](crate::Read::NeedsWhole)).
    pub to_gather: Vec<(Db, Box<[u8]>)>,
    /// Whether too little is left anywhere of what is asked for: it is answered that.
    pub is_lost: bool,
    /// Whether an entry has brought a value that is not the one of which there is a fragment here: this replica must not go on.
    pub met_other_value: bool,
}

impl LeaderLocal {
    /// What a read is answered that needs the bytes of a value which are not here.
    pub(crate) fn unmade(&self) -> ReplyError {
        match self.is_lost {
            true => ReplyError::ValueLost,
            false => ReplyError::InFragments,
        }
    }

    /// Expired keys remembered between two entries; at the limit more are forgotten, and found again later.
    pub const MET_MAX: usize = 1_024;

    /// A companion whose random choices follow from `seed`.
    pub fn new(seed: u64) -> LeaderLocal {
        LeaderLocal {
            now: UnixMillis(0),
            access: AccessClock::new(seed),
            hits: 0,
            misses: 0,
            expired: 0,
            evicted: 0,
            changes: 0,
            touches: true,
            prng: Prng::new(seed.rotate_left(32)),
            met_expired: Vec::new(),
            is_ahead: false,
            notify: EventClasses::default(),
            events: Vec::new(),
            is_awaited: false,
            filled: Vec::new(),
            is_swapped: false,
            has_waiters: false,
            ready: Vec::new(),
            is_all_ready: false,
            wounds: Vec::new(),
            deferred: Vec::new(),
            torn: Vec::new(),
            is_alone: false,
            answers_bytes_max: usize::MAX,
            waited: 0,
            prepared: 0,
            wounded: 0,
            collects_wanted: false,
            wanted: Vec::new(),
            written: None,
            to_gather: Vec::new(),
            is_lost: false,
            met_other_value: false,
        }
    }

    pub(crate) fn met(&mut self, db: Db, key: &[u8]) {
        if self.met_expired.len() < LeaderLocal::MET_MAX {
            self.met_expired.push((db, key.into()));
        }
    }

    /// Notes what happened to `key`, if somebody may want to hear of it.
    #[inline]
    pub(crate) fn event(&mut self, class: EventClasses, name: &'static str, db: Db, key: &[u8]) {
        // Libraries are no keys of clients.
        if self.notify.meets(class) && db != Db::LIBRARIES {
            self.events.push(Event {
                class,
                name: name.into(),
                db,
                key: key.into(),
            });
        }
    }

    /// Notes that `object` came to be under its key.
    #[inline]
    pub(crate) fn came(&mut self, db: Db, object: &Object) {
        if matches!(object.kind(), Kind::List | Kind::SortedSet | Kind::Stream) {
            self.stirred(db, object.key());
        }
    }

    /// Notes that `object` is gone from under its key: who waits for a group of a stream is told.
    #[inline]
    pub(crate) fn went(&mut self, db: Db, object: &Object) {
        if object.kind() == Kind::Stream {
            self.stirred(db, object.key());
        }
    }

    /// Notes that those who wait for `key` are to be looked at: there is something new, or something is gone.
    #[inline]
    pub(crate) fn stirred(&mut self, db: Db, key: &[u8]) {
        if self.is_awaited {
            self.filled.push((db, key.into()));
        }
        if self.has_waiters {
            self.ready.push((db, key.into()));
        }
    }

    #[inline]
    pub(crate) fn touched(&mut self, access: AccessStats) -> AccessStats {
        if self.touches {
            self.access.touched(access)
        } else {
            access
        }
    }
}
