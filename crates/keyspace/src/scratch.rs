//! A small keyspace on which a transaction is tried out.
//!
//! The effects of a transaction over several groups must be known when its participants vote, and be invisible
//! until it is resolved. So its commands run, unchanged, on copies of the objects they name; what differs
//! afterwards is the effect.

use crate::access::AccessClock;
use crate::effects::Effect;
use crate::entry::{BlockCommand, Header};
use crate::events::{Event, EventClasses};
use crate::lazyfree::Lazyfree;
use crate::limits::EncodingLimits;
use crate::local::LeaderLocal;
use crate::object::Object;
use crate::{Keyspace, UnknownSemantics};
use command::{Command, CommandId, ReplyError};
use ids::{Db, HashSeed, UnixMillis, Version};
use resp::ReplyWriter;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A key with its database.
type FullKey = (Db, Box<[u8]>);

/// Copies of objects, and what commands made of them.
pub struct Scratch {
    keyspace: Keyspace,
    local: LeaderLocal,
    /// What was placed, with the version it had, and whether it was a string changed in place: `SETBIT` that changes no
    /// bit makes it one, under the same version.
    placed: BTreeMap<FullKey, Option<(Version, bool)>>,
    /// By which what is taken out again is judged.
    opened_at: UnixMillis,
}

/// Versions on the scratch begin here, far above any that a group counts to, so that a changed object never
/// has the version it had before.
const VERSION_FLOOR: Version = Version(1 << 47);

impl Scratch {
    /// An empty scratch. New large collections on it follow the order of `seed`, and its random choices what
    /// [`Scratch::open`] is told.
    pub fn new(seed: HashSeed) -> Scratch {
        Scratch {
            keyspace: Keyspace::scratch(seed, VERSION_FLOOR),
            local: LeaderLocal::new(seed.0[0]),
            placed: BTreeMap::new(),
            opened_at: UnixMillis(i64::MIN),
        }
    }

    /// Begins what follows, on an empty scratch: making one anew would cost more than most transactions. `header` says the
    /// time by which keys are judged, and the seed of random choices; the rest is for statistics and for who listens.
    ///
    /// # Errors
    /// This build does not know the rules that the header names.
    pub fn open(
        &mut self,
        header: &Header,
        access: AccessClock,
        notify: EventClasses,
    ) -> Result<(), UnknownSemantics> {
        debug_assert!(self.placed.is_empty(), "`take_effects` empties it");
        self.keyspace.open(header)?;
        self.opened_at = header.now;
        self.judge_by(header.now);
        self.local.access = access;
        self.local.notify = notify;
        self.local.events.clear();
        self.local.met_expired.clear();
        Ok(())
    }

    /// What follows is judged by this time, which may be before that of what was carried out so far: the keys of several groups may
    /// be here, each of which has a time of its own. What is taken out is judged by the time at which it was opened, which must be
    /// the earliest.
    pub fn judge_by(&mut self, time: UnixMillis) {
        debug_assert!(time >= self.opened_at, "it is opened at the earliest");
        self.keyspace.set_time(time);
        self.local.now = time;
    }

    /// Whether it is worth keeping for the next time: one that held very many keys keeps the tables they needed, and what was deleted and is
    /// large is dropped with it.
    pub fn is_small(&self) -> bool {
        /// Bytes of tables that an emptied scratch may hold.
        const KEPT_BYTES_MAX: usize = 64 * 1024;
        self.keyspace.memory() <= KEPT_BYTES_MAX && self.keyspace.lazyfree.is_empty()
    }

    /// How large collections may be and still be kept small: as in the groups whose objects are placed here.
    pub fn set_limits(&mut self, limits: EncodingLimits) {
        if self.keyspace.limits() != limits {
            self.keyspace.set_limits(limits);
        }
    }

    /// Bytes of what is answered together: [`LeaderLocal::answers_bytes_max`].
    pub fn bound_answers(&mut self, bytes_max: usize) {
        self.local.answers_bytes_max = bytes_max;
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
    pub fn wanted(&mut self, command: &BlockCommand<'_>) -> Vec<(Db, Box<[u8]>)> {
        let is_sort = |id| matches!(id, CommandId::Sort | CommandId::SortRo);
        let Some(Ok(Command::Sort(mut sort))) = command::resolve_in_group(command.args)
            .ok()
            .filter(|spec| is_sort(spec.id))
            .and_then(|spec| command::parse(spec, command.args))
        else {
            return Vec::new();
        };
        // Sorting for an answer reads what sorting for a destination does, and leaves everything as it is.
        sort.destination = None;
        let mut answer = Vec::new();
        let mut out = ReplyWriter::new(&mut answer, command.protocol);
        self.local.collects_wanted = true;
        self.keyspace
            .read(command.db, &Command::Sort(sort), &mut self.local, &mut out);
        self.local.collects_wanted = false;
        let wanted = std::mem::take(&mut self.local.wanted);
        let is_missing = |(db, key): &(Db, Box<[u8]>)| !self.holds(*db, key);
        wanted.into_iter().filter(is_missing).collect()
    }

    /// Carries out a command, and writes what it answers.
    pub fn run(&mut self, command: &BlockCommand<'_>, out: &mut ReplyWriter<'_>) {
        match crate::keyspace::parse(command.args) {
            Ok(parsed) => self.run_parsed(command.db, &parsed, out),
            Err(error) => ReplyError::write(&error, out),
        }
    }

    /// The same of one that was parsed.
    #[inline]
    pub fn run_parsed(&mut self, db: Db, command: &Command<'_>, out: &mut ReplyWriter<'_>) {
        self.keyspace.apply_command(db, command, &mut self.local, out);
    }

    /// Carries out a command on the whole keyspace, of which only what it does to the keys that were placed and that it
    /// `concerns` is wanted: whoever has the others answers it. What was changed before is taken as known
    /// ([`Scratch::take_changes`]), and what it changes too.
    pub fn run_on_all(&mut self, command: &BlockCommand<'_>, concerns: impl Fn(&[u8]) -> bool) {
        self.judge_by(self.opened_at);
        let others: Vec<FullKey> = self
            .placed
            .keys()
            .filter(|(_, key)| !concerns(key))
            .cloned()
            .collect();
        let aside = others.into_iter().filter_map(|(db, key)| {
            let object = self.keyspace.take_object(db, &key)?;
            Some((db, object))
        });
        let aside: Vec<(Db, Object)> = aside.collect();
        let (mut answer, events) = (Vec::new(), self.local.events.len());
        self.run(command, &mut ReplyWriter::new(&mut answer, command.protocol));
        self.local.events.truncate(events);
        for (db, object) in aside {
            self.keyspace.place_object(db, object);
        }
        for ((db, key), known) in &mut self.placed {
            *known = self.keyspace.peek_object(*db, key).as_deref().map(identity);
        }
    }

    /// What has changed since it was last asked. The scratch stays as it is.
    pub fn take_changes(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for ((db, key), known) in &mut self.placed {
            let object = self.keyspace.peek_object(*db, key);
            let now = object.as_deref().map(identity);
            if std::mem::replace(known, now) == now {
                continue;
            }
            effects.push(match object {
                None => Effect::Delete {
                    db: *db,
                    key: key.clone(),
                },
                Some(object) => Effect::Put {
                    db: *db,
                    object: object.copy_as(key, object.deadline(), object.version()),
                },
            });
        }
        effects
    }

    /// What was placed, as commands have left it.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Whether lookups count as use of keys: `CLIENT NO-TOUCH`.
    pub fn touch(&mut self, touches: bool) {
        self.local.touches = touches;
    }

    /// How many of the lookups since the last call found a key, and how many found none.
    pub fn take_lookups(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.local.hits),
            std::mem::take(&mut self.local.misses),
        )
    }

    /// What happened, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.local.events)
    }

    /// What changed. The scratch is empty afterwards. A key that came and went within the transaction leaves no
    /// effect: nobody else could ever have seen it.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.check_in(|outcome| match outcome {
            Returned::Unchanged(..) => {}
            Returned::Changed(effect) => effects.push(effect),
        });
        effects
    }

    /// What became of every key that was placed. The scratch is empty afterwards.
    pub fn check_in(&mut self, mut found: impl FnMut(Returned)) {
        self.judge_by(self.opened_at);
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
    pub fn take_lazyfree(&mut self) -> Lazyfree {
        self.keyspace.take_lazyfree()
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

/// The databases in which commands may touch keys: their own, the targets of `COPY` and `MOVE`, and those that `SWAPDB`
/// exchanges.
pub fn databases<'a>(commands: impl IntoIterator<Item = BlockCommand<'a>>) -> Vec<Db> {
    let mut databases = Vec::new();
    for BlockCommand { db, args, .. } in commands {
        let spec = command::resolve_in_group(args).ok();
        let target = spec
            .filter(|spec| matches!(spec.id, CommandId::Copy | CommandId::Move | CommandId::SwapDb))
            .and_then(|spec| command::parse(spec, args)?.ok());
        let targets = match target {
            Some(Command::Copy { db, .. }) => [db, None],
            Some(Command::Move { db, .. }) => [Some(db), None],
            Some(Command::SwapDb { a, b }) => [Some(a), Some(b)],
            _ => [None, None],
        };
        for db in [Some(db)].into_iter().chain(targets).flatten() {
            if !databases.contains(&db) {
                databases.push(db);
            }
        }
    }
    databases
}
