//! What commands have changed in the open entry, so that it can be taken back: of a script that turns out not to be one that can be
//! carried out at once.
//!
//! ```text
//!   begin --keep(command), applied--> ... --keep(command), applied--> dropped: what was done stays
//!                                                           \-> take_back: it never was
//! ```
//!
//! Before a command changes an object, the object is copied. So nothing is copied of a script that only reads; and what is large is not
//! changed here: [`Undo::keep`] refuses it, and whoever asks finds another way.
//!
//! What is taken back is all that the state hash covers, and what is counted and told of it. What only tells of this replica
//! (statistics of access, changes that a transfer under way is told of once too often) stays.
//!
//! Invariant: what is kept of a key is what was there before the first command that named it.

use crate::database::Stamps;
use crate::keyspace::Keyspace;
use crate::local::LeaderLocal;
use crate::object::Object;
use command::{Command, KeyUse, Spec};
use ids::{Db, Prng, Version};
use resp::Args;

/// Bytes of objects that are copied at most, for one run of commands. Ten microseconds.
pub const UNDO_BYTES_MAX: usize = 64 * 1024;

/// Keys that are kept at most: they are looked through for each command.
const UNDO_KEYS_MAX: usize = 128;

/// See the file's header.
pub struct Undo {
    before: Vec<Before>,
    bytes: usize,
    /// From the first command on that writes.
    began: Option<Began>,
    mark: LocalMark,
}

/// What a key was.
struct Before {
    db: Db,
    what: What,
    stamps: Stamps,
}

enum What {
    There(Object),
    Absent(Box<[u8]>),
}

impl Before {
    fn key(&self) -> &[u8] {
        match &self.what {
            What::There(object) => object.key(),
            What::Absent(key) => key,
        }
    }
}

/// What the state counts.
struct Began {
    applied: Version,
    prng: Prng,
}

/// How far the leader's companion of the state was.
struct LocalMark {
    hits: u64,
    misses: u64,
    expired: u64,
    changes: u64,
    events: usize,
    filled: usize,
    ready: usize,
    met_expired: usize,
    is_ahead: bool,
}

impl Undo {
    /// Nothing has changed yet.
    pub fn begin(local: &LeaderLocal) -> Undo {
        Undo {
            before: Vec::new(),
            bytes: 0,
            began: None,
            mark: LocalMark {
                hits: local.hits,
                misses: local.misses,
                expired: local.expired,
                changes: local.changes,
                events: local.events.len(),
                filled: local.filled.len(),
                ready: local.ready.len(),
                met_expired: local.met_expired.len(),
                is_ahead: local.is_ahead,
            },
        }
    }

    /// Keeps what a command that writes may change, in the entry that is open, before it is applied. `false` if that is too much: the
    /// command is not to be applied then.
    pub fn keep(
        &mut self,
        keyspace: &Keyspace,
        db: Db,
        spec: &'static Spec,
        args: Args<'_>,
        command: &Command<'_>,
    ) -> bool {
        let other = match *command {
            Command::Copy { db, .. } => db,
            Command::Move { db, .. } => Some(db),
            _ => None,
        };
        self.began.get_or_insert_with(|| Began {
            applied: keyspace.applied(),
            prng: keyspace.prng_now(),
        });
        if let (Some(position), None) = (command::only_key(spec), other) {
            return self.keep_key(keyspace, db, args.arg(position), KeyUse::Write);
        }
        let mut is_kept = true;
        command::keys(spec, args, &mut |position, key_use| {
            for db in [Some(db), other].into_iter().flatten() {
                is_kept = is_kept && self.keep_key(keyspace, db, args.arg(position), key_use);
            }
        });
        is_kept
    }

    fn keep_key(&mut self, keyspace: &Keyspace, db: Db, key: &[u8], key_use: KeyUse) -> bool {
        let location = keyspace.locate(key);
        let database = keyspace.database(db);
        let found = database.find(location, key);
        let has_expired = found
            .as_ref()
            .is_some_and(|found| found.is_expired(keyspace.time()));
        // What is only read stays, unless it has expired.
        let may_change = key_use == KeyUse::Write || has_expired;
        let is_kept = |before: &Before| before.db == db && before.key() == key;
        if !may_change || self.before.iter().any(is_kept) {
            return true;
        }
        let bytes = found.as_ref().map_or(key.len(), |found| found.memory());
        if self.bytes + bytes > UNDO_BYTES_MAX || self.before.len() >= UNDO_KEYS_MAX {
            return false;
        }
        self.bytes += bytes;
        self.before.push(Before {
            db,
            what: match found {
                Some(found) => What::There(found.copy_as(key, found.deadline(), found.version())),
                None => What::Absent(key.into()),
            },
            stamps: database.stamps(location),
        });
        true
    }

    /// Nothing of what was applied since it began was ever applied.
    pub fn take_back(self, keyspace: &mut Keyspace, local: &mut LeaderLocal) {
        let Undo {
            before, began, mark, ..
        } = self;
        for Before { db, what, stamps } in before.into_iter().rev() {
            let (key, object): (Box<[u8]>, Option<Object>) = match what {
                What::There(object) => (object.key().into(), Some(object)),
                What::Absent(key) => (key, None),
            };
            let location = keyspace.locate(&key);
            let now = keyspace
                .database_mut(db)
                .take_back(location, &key, object, stamps);
            if let Some(now) = now {
                keyspace.lazyfree().add(now);
            }
        }
        if let Some(began) = began {
            keyspace.applied = began.applied;
            *keyspace.prng() = began.prng;
        }
        (local.hits, local.misses) = (mark.hits, mark.misses);
        (local.expired, local.changes) = (mark.expired, mark.changes);
        local.events.truncate(mark.events);
        local.filled.truncate(mark.filled);
        local.ready.truncate(mark.ready);
        local.met_expired.truncate(mark.met_expired);
        local.is_ahead = mark.is_ahead;
    }
}
