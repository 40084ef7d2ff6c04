//! One command applied to the state: the dispatch, and what every effect stands on.

use crate::directories::Location;
use crate::events::EventClasses;
use crate::limits::EncodingLimits;
use crate::local::LeaderLocal;
use crate::object::{Kind, Object};
use crate::read::Reader;
use crate::slot_word::ObjectRef;
use crate::{Keyspace, Value};
use command::{Command, ReplyError};
use ids::{Db, HashSeed, Prng, UnixMillis, Version};
use resp::ReplyWriter;

/// One command at work. The effects of the data types are methods in `string.rs`, `bitmap.rs`, `generic.rs`.
pub(crate) struct Apply<'k, 'w> {
    pub(crate) keyspace: &'k mut Keyspace,
    pub(crate) local: &'k mut LeaderLocal,
    pub(crate) db: Db,
    pub(crate) out: &'k mut ReplyWriter<'w>,
}

impl Apply<'_, '_> {
    /// The one dispatch of commands that may write; reads inside a transaction go on to `read.rs`.
    #[inline]
    pub(crate) fn command(&mut self, command: &Command<'_>) {
        match *command {
            Command::Set {
                key,
                value,
                condition,
                expiry,
                reply,
            } => self.set(key, value, condition, expiry, reply),
            Command::GetEx { key, expiry } => self.get_ex(key, expiry),
            Command::GetDel { key } => self.get_del(key),
            Command::MSet { pairs } => self.mset(pairs),
            Command::MSetNx { pairs } => self.mset_nx(pairs),
            Command::Append { key, value } => self.append(key, value),
            Command::IncrBy { key, by } => self.incr_by(key, by),
            Command::IncrByFloat { key, by } => self.incr_by_float(key, by),
            Command::Cas { key, expected, new } => self.cas(key, expected, new),
            Command::Add { key, by } => self.add(key, by),
            Command::Xfer { from, to, amount } => self.xfer(from, to, amount),
            Command::Take { key, amount } => self.take(key, amount),
            Command::SetRange { key, offset, value } => self.set_range(key, offset, value),
            Command::SetBit { key, offset, bit } => self.set_bit(key, offset, bit),
            Command::BitOp {
                operation,
                destination,
                sources,
            } => self.bit_op(operation, destination, sources),
            Command::BitField {
                key,
                operations,
                writes: true,
            } => self.bit_field(key, operations),
            Command::Del { keys } => self.del(keys),
            Command::Expire {
                key,
                deadline,
                condition,
            } => self.set_expiry(key, deadline, condition),
            Command::Persist { key } => self.persist(key),
            Command::Rename {
                from,
                to,
                only_if_absent,
            } => self.rename(from, to, only_if_absent),
            Command::Copy {
                from,
                to,
                db,
                replace,
            } => self.copy(from, to, db, replace),
            Command::Move { key, db } => self.move_to(key, db),
            Command::Flush { all } => {
                self.keyspace.flush((!all).then_some(self.db));
                // Who waits for a group of a stream is told that it is gone.
                self.local.is_swapped |= self.local.is_awaited;
                self.local.is_all_ready |= self.local.has_waiters;
                self.out.ok();
            }
            Command::BackupMark { id } => {
                self.keyspace.mark_copy(id);
                self.out.ok();
            }
            Command::MRestore { triples } => self.restore(triples),
            Command::Restore {
                key,
                deadline,
                payload,
                replace,
                use_of_key,
            } => self.restore_dump(key, deadline, payload, replace, use_of_key),
            Command::SwapDb { a, b } => {
                self.keyspace.swap_databases(a, b);
                self.local.is_swapped = self.local.is_awaited;
                self.local.is_all_ready = self.local.has_waiters;
                self.out.ok();
            }
            Command::List(ref list) if list.writes() => self.list(list),
            Command::Members(ref set) if set.writes() => self.members(set),
            Command::Hash(ref hash) if hash.writes() => self.fields(hash),
            Command::SortedSet(ref sorted_set) if sorted_set.writes() => self.sorted_set(sorted_set),
            Command::Stream(ref stream) if stream.writes() => self.stream(stream),
            Command::HyperLogLog(ref hyperloglog) if hyperloglog.writes() => self.hyperloglog(hyperloglog),
            Command::Geo(ref geo) if geo.writes() => self.geo(geo),
            Command::Sort(ref sort) if sort.writes() => self.sort(sort),
            Command::Blocking(ref blocking) if blocking.pop.writes() => self.blocking(&blocking.pop),
            Command::List(_)
            | Command::Members(_)
            | Command::Hash(_)
            | Command::SortedSet(_)
            | Command::Stream(_)
            | Command::Blocking(_)
            | Command::HyperLogLog(_)
            | Command::Geo(_)
            | Command::Sort(_)
            | Command::Get { .. }
            | Command::MGet { .. }
            | Command::StrLen { .. }
            | Command::GetRange { .. }
            | Command::Lcs { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPos { .. }
            | Command::BitField { writes: false, .. }
            | Command::Exists { .. }
            | Command::Touch { .. }
            | Command::Type { .. }
            | Command::Ttl { .. }
            | Command::Dump { .. }
            | Command::Object { .. }
            | Command::MemoryUsage { .. }
            | Command::DebugObject { .. }
            | Command::DebugCoding { .. }
            | Command::DebugSdsLen { .. }
            | Command::Keys { .. }
            | Command::Scan { .. }
            | Command::RandomKey
            | Command::DbSize
            | Command::CountKeysInSlot { .. }
            | Command::KeysInSlot { .. } => self.read(command),
        }
    }

    /// Evaluates a read at group time. Expired keys it meets stay until the leader makes an entry of them:
    /// deleting them here would make the state depend on how many the leader remembers. Random picks follow from the
    /// entry: its replies are recorded.
    fn read(&mut self, command: &Command<'_>) {
        let now = self.keyspace.time();
        let local_prng = std::mem::replace(&mut self.local.prng, self.keyspace.prng().clone());
        Reader {
            keyspace: self.keyspace,
            local: self.local,
            db: self.db,
            out: self.out,
            now,
            is_in_entry: true,
            waits: false,
            lacks: false,
        }
        .answer(command);
        *self.keyspace.prng() = std::mem::replace(&mut self.local.prng, local_prng);
    }

    /// Where `key` belongs.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Location {
        self.keyspace.locate(key)
    }

    /// Entry time.
    pub(crate) fn time(&self) -> UnixMillis {
        self.keyspace.time()
    }

    /// The version of whatever this command changes.
    pub(crate) fn version(&self) -> Version {
        self.keyspace.applied()
    }

    /// Deletes `key` if it has expired, so that what follows sees only the living.
    #[inline]
    pub(crate) fn bury(&mut self, location: Location, key: &[u8]) {
        if self.keyspace.database(self.db).with_deadline() > 0 {
            self.keyspace
                .remove_if_expired(self.db, location, key, self.local);
        }
    }

    /// Changes the living object of `key`; `None` if there is none. The caller sets the version if the change
    /// is one ([`Change::mark`]).
    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        location: Location,
        key: &[u8],
        change: impl FnOnce(&mut Change<'_>) -> R,
    ) -> Option<R> {
        self.bury(location, key);
        let version = self.version();
        let local = &mut *self.local;
        self.keyspace
            .database_mut(self.db)
            .update(location, key, |object| {
                object.set_access(local.touched(object.access()));
                let result = change(&mut Change { object, version });
                local.changes += u64::from(object.version() == version);
                result
            })
    }

    /// Changes the living string of `key`; `None` if the key is absent.
    #[inline]
    pub(crate) fn update_string<R>(
        &mut self,
        location: Location,
        key: &[u8],
        change: impl FnOnce(&mut Change<'_>) -> Result<R, ReplyError>,
    ) -> Option<Result<R, ReplyError>> {
        self.update(location, key, |found| {
            if found.object.kind() == Kind::String {
                change(found)
            } else {
                Err(ReplyError::WrongType)
            }
        })
    }

    /// Changes the living collection of `key`; `None` if the key is absent and `creates` is not set. An empty collection
    /// is made first if it is, and a collection that is left empty is deleted. `edit` says that it changed something
    /// with [`Edit::mark`].
    pub(crate) fn edit<R>(
        &mut self,
        kind: Kind,
        key: &[u8],
        creates: bool,
        edit: impl FnOnce(&mut Edit<'_>) -> R,
    ) -> Result<Option<R>, ReplyError> {
        let location = self.locate(key);
        self.bury(location, key);
        let version = self.version();
        let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
        let mut prng = self.keyspace.prng().clone();
        let mut edit = Some(edit);
        let mut run = |object: &mut Object| {
            let mut edited = Edit {
                object,
                version,
                limits,
                seed,
                prng: &mut prng,
                is_marked: false,
            };
            let edit = edit.take().expect("one of two branches runs it");
            let result = edit(&mut edited);
            (result, edited.is_marked, edited.object.value().len() == 0)
        };
        let local = &mut *self.local;
        let found = self
            .keyspace
            .database_mut(self.db)
            .update(location, key, |object| {
                if object.kind() != kind {
                    return Err(ReplyError::WrongType);
                }
                object.set_access(local.touched(object.access()));
                Ok(run(object))
            });
        let outcome = match found {
            Some(outcome) => outcome?,
            None if creates => {
                // It is filled before anybody sees it, so that whoever waits for the key finds something.
                let mut object = Object::collection(kind, key, version);
                let outcome = run(&mut object);
                *self.keyspace.prng() = prng;
                if !outcome.2 {
                    self.insert(location, object);
                }
                return Ok(Some(outcome.0));
            }
            None => return Ok(None),
        };
        *self.keyspace.prng() = prng;
        let (result, is_marked, is_empty) = outcome;
        self.local.changes += u64::from(is_marked);
        if is_empty {
            self.delete(location, key);
        }
        Ok(Some(result))
    }

    /// Lets `remove` take elements from the living collection of `key`, which says how many it did: also the answer. What
    /// happened is noted under this name, and so is the end of the key if nothing is left.
    pub(crate) fn remove_elements(
        &mut self,
        kind: Kind,
        key: &[u8],
        (class, name): (EventClasses, &'static str),
        remove: impl FnOnce(&mut Edit<'_>) -> usize,
    ) -> Result<usize, ReplyError> {
        let removed = self.edit(kind, key, false, |edit| {
            let count = remove(edit);
            if count > 0 {
                edit.mark();
            }
            (count, edit.object.value().len() == 0)
        })?;
        let (count, is_empty) = removed.unwrap_or((0, false));
        if count > 0 {
            self.event(class, name, key);
            if is_empty {
                self.event(EventClasses::GENERIC, "del", key);
            }
        }
        Ok(count)
    }

    /// The living object of `key` if it is of this kind, without a trace in the statistics.
    pub(crate) fn peek(&self, kind: Kind, key: &[u8]) -> Result<Option<ObjectRef<'_>>, ReplyError> {
        let found = self.keyspace.database(self.db).find(self.locate(key), key);
        match found.filter(|object| !object.is_expired(self.time())) {
            Some(object) if object.kind() != kind => Err(ReplyError::WrongType),
            found => Ok(found),
        }
    }

    /// The kind of the living object of `key`.
    pub(crate) fn kind(&self, key: &[u8]) -> Option<Kind> {
        let found = self.keyspace.database(self.db).find(self.locate(key), key)?;
        (!found.is_expired(self.time())).then(|| found.kind())
    }

    /// Puts `object` under its key, whatever was there: how results are stored. The object has this command's version.
    pub(crate) fn store(&mut self, object: Object) {
        let location = self.locate(object.key());
        if self.delete(location, object.key()) {
            self.put_back(location, object);
        } else {
            self.insert(location, object);
        }
    }

    /// [`Apply::store`] of a command's result, noted under this name; if there is none, `key` is deleted.
    pub(crate) fn store_result(
        &mut self,
        key: &[u8],
        result: Option<Object>,
        (class, name): (EventClasses, &'static str),
    ) {
        match result {
            Some(object) => {
                self.store(object);
                self.event(class, name, key);
            }
            None => {
                self.delete_and_note(key);
            }
        }
    }

    /// Whether `key` holds something else than a string: the error is written.
    pub(crate) fn refuses_string(&mut self, key: &[u8]) -> bool {
        let refuses = self.kind(key).is_some_and(|kind| kind != Kind::String);
        if refuses {
            ReplyError::WrongType.write(self.out);
        }
        refuses
    }

    /// Deletes the living object of `key`; whether there was one.
    pub(crate) fn delete(&mut self, location: Location, key: &[u8]) -> bool {
        let removed = self.remove(location, key);
        let was_there = removed.is_some();
        if let Some(object) = removed {
            self.keyspace.lazyfree().add(object);
        }
        was_there
    }

    /// [`Apply::delete`] as a command that clients hear of.
    pub(crate) fn delete_and_note(&mut self, key: &[u8]) -> bool {
        let location = self.locate(key);
        let was_there = self.delete(location, key);
        if was_there {
            self.event(EventClasses::GENERIC, "del", key);
        }
        was_there
    }

    /// Notes that a command which also writes did not find what it looked for under `key`.
    #[inline]
    pub(crate) fn missed(&mut self, key: &[u8]) {
        self.event(EventClasses::KEY_MISS, "keymiss", key);
    }

    /// Notes what happened to `key`, if somebody may want to hear of it.
    #[inline]
    pub(crate) fn event(&mut self, class: EventClasses, name: &'static str, key: &[u8]) {
        self.local.event(class, name, self.db, key);
    }

    /// Adds an object whose key is absent.
    #[inline]
    pub(crate) fn insert(&mut self, location: Location, object: Object) {
        self.local.event(EventClasses::NEW, "new", self.db, object.key());
        self.put_back(location, object);
    }

    /// Adds an object whose key was present until a moment ago: for whoever listens, it is not new.
    #[inline]
    fn put_back(&mut self, location: Location, object: Object) {
        object.set_access(self.local.access.fresh());
        self.local.changes += 1;
        self.local.came(self.db, &object);
        self.keyspace.database_mut(self.db).insert(location, object);
    }

    /// Calls `look` with the value of the living object of `key`, or `None`.
    pub(crate) fn look<R>(
        &mut self,
        location: Location,
        key: &[u8],
        look: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> R {
        self.bury(location, key);
        match self.keyspace.database(self.db).find(location, key) {
            Some(object) => look(Some(object.value())),
            None => look(None),
        }
    }

    /// Whether `key` lives.
    pub(crate) fn is_present(&mut self, location: Location, key: &[u8]) -> bool {
        self.look(location, key, |value| value.is_some())
    }

    /// Takes out the living object of `key`.
    pub(crate) fn remove(&mut self, location: Location, key: &[u8]) -> Option<Object> {
        self.bury(location, key);
        let version = self.keyspace.applied();
        let removed = self.keyspace.database_mut(self.db).remove(location, key, version);
        self.local.changes += u64::from(removed.is_some());
        if let Some(object) = &removed {
            self.local.went(self.db, object);
        }
        removed
    }
}

/// A living object on its way to be changed.
pub(crate) struct Change<'a> {
    /// The object.
    pub(crate) object: &'a mut Object,
    version: Version,
}

/// A collection on its way to be changed.
pub(crate) struct Edit<'a> {
    /// The object, of the kind that was asked for.
    pub(crate) object: &'a mut Object,
    /// How large collections may be and still be kept small.
    pub(crate) limits: EncodingLimits,
    /// For the order of large sets and hashes.
    pub(crate) seed: HashSeed,
    /// The randomness of the entry.
    pub(crate) prng: &'a mut Prng,
    version: Version,
    is_marked: bool,
}

impl Edit<'_> {
    /// Says that the collection changed: it gets the command's version.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.is_marked = true;
        self.object.set_version(self.version);
    }
}

impl Change<'_> {
    /// Says that the object changed: it gets the command's version.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.object.set_version(self.version);
    }
}
