//! One command applied to the state: the dispatch, and what every effect stands on.

use crate::local::LeaderLocal;
use crate::object::Object;
use crate::read::Reader;
use crate::{Keyspace, Value};
use command::Command;
use ids::{Db, KeyHash, UnixMillis, Version};
use resp::Writer;

/// One command at work. The effects of the data types are methods in `string.rs`, `bitmap.rs`, `generic.rs`.
pub(crate) struct Apply<'k, 'w> {
    pub(crate) keyspace: &'k mut Keyspace,
    pub(crate) local: &'k mut LeaderLocal,
    pub(crate) db: Db,
    pub(crate) out: &'k mut Writer<'w>,
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
                self.out.ok();
            }
            Command::SwapDb { a, b } => {
                self.keyspace.swap_databases(a, b);
                self.out.ok();
            }
            Command::Get { .. }
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
            | Command::Object { .. }
            | Command::MemoryUsage { .. }
            | Command::DebugObject { .. }
            | Command::DebugSdsLen { .. }
            | Command::Keys { .. }
            | Command::Scan { .. }
            | Command::RandomKey
            | Command::DbSize => self.read(command),
        }
    }

    /// Evaluates a read at group time. Expired keys it meets stay until the leader makes an entry of them:
    /// deleting them here would make the state depend on how many the leader remembers.
    fn read(&mut self, command: &Command<'_>) {
        let now = self.keyspace.time();
        Reader {
            keyspace: self.keyspace,
            local: self.local,
            db: self.db,
            out: self.out,
            now,
            waits: false,
        }
        .command(command);
    }

    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.keyspace.seed().hash(key)
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
    pub(crate) fn bury(&mut self, hash: KeyHash, key: &[u8]) {
        if self.keyspace.database(self.db).with_deadline() > 0 {
            self.keyspace.remove_if_expired(self.db, hash, key, self.local);
        }
    }

    /// Changes the living object of `key`; `None` if there is none. The caller sets the version if the change
    /// is one ([`Change::mark`]).
    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        change: impl FnOnce(&mut Change<'_>) -> R,
    ) -> Option<R> {
        self.bury(hash, key);
        let version = self.version();
        let local = &mut *self.local;
        self.keyspace.database_mut(self.db).update(hash, key, |object| {
            object.set_access(local.touched(object.access()));
            let result = change(&mut Change { object, version });
            local.changes += u64::from(object.version() == version);
            result
        })
    }

    /// Adds an object whose key is absent.
    #[inline]
    pub(crate) fn insert(&mut self, hash: KeyHash, object: Object) {
        object.set_access(self.local.access.fresh());
        self.local.changes += 1;
        self.keyspace.database_mut(self.db).insert(hash, object);
    }

    /// Calls `look` with the value of the living object of `key`, or `None`.
    pub(crate) fn look<R>(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        look: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> R {
        self.bury(hash, key);
        match self.keyspace.database(self.db).find(hash, key) {
            Some(object) => look(Some(object.value())),
            None => look(None),
        }
    }

    /// Whether `key` lives.
    pub(crate) fn is_present(&mut self, hash: KeyHash, key: &[u8]) -> bool {
        self.look(hash, key, |value| value.is_some())
    }

    /// Takes out the living object of `key`.
    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Option<Object> {
        self.bury(hash, key);
        let removed = self.keyspace.database_mut(self.db).remove(hash, key);
        self.local.changes += u64::from(removed.is_some());
        removed
    }
}

/// A living object on its way to be changed.
pub(crate) struct Change<'a> {
    /// The object.
    pub(crate) object: &'a mut Object,
    version: Version,
}

impl Change<'_> {
    /// Says that the object changed: it gets the command's version.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.object.set_version(self.version);
    }
}
