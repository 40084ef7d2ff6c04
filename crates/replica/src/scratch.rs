//! A small keyspace on which a transaction is tried out.
//!
//! The effects of a transaction over several groups must be known when its participants vote, and be invisible
//! until it is resolved. So its commands run, unchanged, on copies of the objects they name; what differs
//! afterwards is the effect.

use crate::operation::Replies;
use crate::replica::LocalCounts;
use crate::request::FullKey;
use crate::{Operation, Turn};
use command::{Command, CommandId};
use ids::{Db, HashSeed, UnixMillis, Version};
use keyspace::{Effect, Event, Garbage, Header, Keyspace, LeaderLocal, Limits, Object};
use resp::Writer;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Copies of objects, and what commands made of them.
pub struct Scratch {
    keyspace: Keyspace,
    local: LeaderLocal,
    /// What was placed, with the version it had, and whether it was a string changed in place: `SETBIT` that changes no
    /// bit makes it one, under the same version.
    placed: BTreeMap<FullKey, Option<(Version, bool)>>,
}

/// Versions on the scratch begin here, far above any that a group counts to, so that a changed object never
/// has the version it had before.
const VERSION_FLOOR: Version = Version(1 << 47);

impl Scratch {
    /// An empty scratch at `now`, group time.
    pub fn new(now: UnixMillis, turn: &Turn) -> Scratch {
        // Nobody sees the order of keys here: a seed that is no secret will do.
        let keyspace = Keyspace::scratch(HashSeed([turn.seed, !turn.seed]), VERSION_FLOOR);
        let mut scratch = Scratch {
            keyspace,
            local: LeaderLocal::new(turn.seed),
            placed: BTreeMap::new(),
        };
        scratch.reopen(now, turn);
        scratch
    }

    /// An emptied scratch, to be used again at `now`: making one anew would cost more than most transactions.
    pub fn reopen(&mut self, now: UnixMillis, turn: &Turn) {
        debug_assert!(self.placed.is_empty(), "`take_effects` empties it");
        let seed = turn.seed;
        let header = Header {
            semantics: ids::SemanticsVersion::CURRENT,
            now,
            seed,
        };
        self.keyspace
            .open(&header)
            .expect("a build knows the rules that it writes");
        self.local.now = now;
        self.local.access.set(turn.now, turn.lfu);
        self.local.notify = turn.notify;
        self.local.events.clear();
        self.local.met_expired.clear();
    }

    /// Whether it is worth keeping for the next time: one that held very many keys keeps the tables they needed.
    pub fn is_small(&self) -> bool {
        /// Bytes of tables that an emptied scratch may hold.
        const KEPT_BYTES_MAX: usize = 64 * 1024;
        self.keyspace.memory() <= KEPT_BYTES_MAX
    }

    /// How large collections may be and still be kept small: as in the groups whose objects are placed here.
    pub fn set_limits(&mut self, limits: Limits) {
        if self.keyspace.limits() != limits {
            self.keyspace.set_limits(limits);
        }
    }

    /// Whether `key` was placed already.
    pub fn holds(&self, db: Db, key: &[u8]) -> bool {
        self.placed.contains_key(&(db, Box::from(key)))
    }

    /// Places what a group holds under `key`: a copy of its object, or nothing.
    pub fn place(&mut self, db: Db, key: &[u8], object: Option<Object>) {
        self.placed
            .insert((db, key.into()), object.as_ref().map(identity));
        if let Some(object) = object {
            self.keyspace.place_object(db, object);
        }
    }

    /// Places what `object` gives of `key`, unless that was placed already.
    pub fn place_once(&mut self, db: Db, key: &[u8], object: impl FnOnce() -> Option<Object>) {
        let Entry::Vacant(place) = self.placed.entry((db, key.into())) else {
            return;
        };
        let object = object();
        place.insert(object.as_ref().map(identity));
        if let Some(object) = object {
            self.keyspace.place_object(db, object);
        }
    }

    /// Keys that a command would read and that only the data name, as far as they were not placed. What they hold may
    /// lead to more: ask again when they are placed.
    pub fn wanted(&mut self, operation: &Operation) -> Vec<(Db, Box<[u8]>)> {
        if !matches!(operation.spec.id, CommandId::Sort | CommandId::SortRo) {
            return Vec::new();
        }
        let Ok(Command::Sort(mut sort)) = operation.parse() else {
            return Vec::new();
        };
        // Sorting for an answer reads what sorting for a destination does, and leaves everything as it is.
        sort.destination = None;
        let mut answer = Vec::new();
        let mut out = Writer::new(&mut answer, operation.protocol);
        self.local.collects_wanted = true;
        self.keyspace
            .read(operation.db, &Command::Sort(sort), &mut self.local, &mut out);
        self.local.collects_wanted = false;
        let wanted = std::mem::take(&mut self.local.wanted);
        let is_missing = |(db, key): &(Db, Box<[u8]>)| !self.holds(*db, key);
        wanted.into_iter().filter(is_missing).collect()
    }

    /// Carries out a command.
    pub fn run(&mut self, operation: &Operation, replies: &mut Replies) {
        replies.push(operation.protocol, |out| match operation.parse() {
            Ok(command) => self
                .keyspace
                .apply_command(operation.db, &command, &mut self.local, out),
            Err(error) => error.write(out),
        });
    }

    /// What was placed, as commands have left it.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Whether lookups count as use of keys: `CLIENT NO-TOUCH`.
    pub fn touch(&mut self, touches: bool) {
        self.local.touches = touches;
    }

    /// What was looked up since the last call.
    pub fn take_counts(&mut self) -> LocalCounts {
        LocalCounts {
            hits: std::mem::take(&mut self.local.hits),
            misses: std::mem::take(&mut self.local.misses),
        }
    }

    /// What happened, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.local.events)
    }

    /// What changed. The scratch is empty afterwards. A key that came and went within the transaction leaves no
    /// effect: nobody else could ever have seen it.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.take_back(|outcome| match outcome {
            Returned::Unchanged(..) => {}
            Returned::Changed(effect) => effects.push(effect),
        });
        effects
    }

    /// What became of every key that was placed. The scratch is empty afterwards.
    pub fn take_back(&mut self, mut found: impl FnMut(Returned)) {
        for ((db, key), before) in std::mem::take(&mut self.placed) {
            let after = self.keyspace.take_object(db, &key);
            match (before, after) {
                (None, None) => {}
                (Some(_), None) => found(Returned::Changed(Effect::Delete { db, key })),
                (Some(before), Some(object)) if before == identity(&object) => {
                    found(Returned::Unchanged(db, object));
                }
                (_, Some(object)) => found(Returned::Changed(Effect::Put { db, object })),
            }
        }
    }

    /// Large values that were deleted, for somebody who drops them piece by piece.
    pub fn take_garbage(&mut self) -> Garbage {
        self.keyspace.take_garbage()
    }
}

/// What is equal only for an object that nobody changed.
fn identity(object: &Object) -> (Version, bool) {
    (object.version(), object.is_grown())
}

/// What became of a key on the scratch.
#[derive(Debug)]
pub enum Returned {
    /// Its object is as it was placed.
    Unchanged(Db, Object),
    /// Its new state.
    Changed(Effect),
}

impl Returned {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Returned::Unchanged(_, object) => object.key(),
            Returned::Changed(effect) => effect.key(),
        }
    }
}

/// The databases in which operations may touch keys: their own, and the targets of `COPY` and `MOVE`.
pub fn databases<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Vec<Db> {
    let mut databases = Vec::new();
    for operation in operations {
        let target = match operation.spec.id {
            CommandId::Copy | CommandId::Move => match operation.parse() {
                Ok(Command::Copy { db, .. }) => db,
                Ok(Command::Move { db, .. }) => Some(db),
                _ => None,
            },
            _ => None,
        };
        for db in [Some(operation.db), target].into_iter().flatten() {
            if !databases.contains(&db) {
                databases.push(db);
            }
        }
    }
    databases
}
