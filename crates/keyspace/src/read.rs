//! Reads: answers from the state that cannot change it.
//!
//! A read runs on the leader's applied state and writes nothing to the log. It may be *suspended*: the answer
//! stands, but must not be released yet. Today the one reason is a key that has expired by the leader's clock
//! but not yet by group time: were it released at once, a new leader with a slower clock could bring the key
//! back to life. And it may be refused, because it needs a value of which this replica has a fragment alone (`coded.rs`).

use crate::Keyspace;
use crate::Large;
use crate::Value;
use crate::directories::Cursor;
use crate::directory::Position;
use crate::events::EventClasses;
use crate::local::LeaderLocal;
use crate::object::{Kind, Object};
use crate::slot_word::ObjectRef;
use command::glob::Glob;
use command::{Command, ObjectAspect, ReplyError, ScanOptions};
use ids::{Db, Slot, UnixMillis};
use resp::ReplyWriter;

/// Keys that one call of `SCAN` looks at, whatever its `COUNT`, which is a hint: a million would hold everybody else up.
pub const SCAN_COUNT_MAX: u64 = 16_384;

/// What became of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// The answer may go.
    Answered,
    /// The answer may go once group time has reached the leader's clock ([`LeaderLocal::now`]): open an entry.
    AwaitsTime,
    /// There is no answer, but the error that it lacks one: what [`LeaderLocal::to_gather`] names is here as fragments.
    NeedsWhole,
}

impl Reader<'_, '_> {
    /// Answers a command; with an error if the answer would be longer than what can be told together.
    #[inline]
    pub(crate) fn answer(&mut self, command: &Command<'_>) {
        let bound = self.out.bound(self.local.answers_bytes_max);
        self.command(command);
        if !self.out.end_bound(bound) {
            match self.lacks {
                false => ReplyError::RepliesTooLong.write(self.out),
                true => self.local.unmade().write(self.out),
            }
        }
    }
}

/// One read at work.
pub(crate) struct Reader<'k, 'w> {
    pub(crate) keyspace: &'k Keyspace,
    pub(crate) local: &'k mut LeaderLocal,
    pub(crate) db: Db,
    pub(crate) out: &'k mut ReplyWriter<'w>,
    /// By which clock keys are expired.
    pub(crate) now: UnixMillis,
    /// Whether an entry has brought the command: what is settled is as good as not here then.
    pub(crate) is_in_entry: bool,
    /// Whether an expired key was met that lives by group time.
    pub(crate) waits: bool,
    /// Whether a value was met that is needed and not here.
    pub(crate) lacks: bool,
}

impl Keyspace {
    /// Evaluates a command that does not write, at the leader's clock.
    #[inline]
    pub fn read(
        &self,
        db: Db,
        command: &Command<'_>,
        local: &mut LeaderLocal,
        out: &mut ReplyWriter<'_>,
    ) -> Read {
        let now = local.now.max(self.time());
        if self.coding.is_some() && !self.can_read(db, command, now, local) {
            local.unmade().write(out);
            return Read::NeedsWhole;
        }
        let mut reader = Reader {
            keyspace: self,
            local,
            db,
            out,
            now,
            is_in_entry: false,
            waits: false,
            lacks: false,
        };
        reader.answer(command);
        if reader.lacks {
            Read::NeedsWhole
        } else if reader.waits {
            reader.local.is_ahead = true;
            Read::AwaitsTime
        } else {
            Read::Answered
        }
    }

    /// One share of `SCAN`: calls `found` for keys from `from` on until about `budget` keys were looked at, over as many of
    /// the group's partitions as it takes. Returns where to go on, in the first partition behind the group's if all of these
    /// were seen; `None` if there is none. Expired keys are left out and remembered.
    pub fn scan(
        &self,
        db: Db,
        from: Cursor,
        budget: u64,
        local: &mut LeaderLocal,
        mut found: impl FnMut(&Object),
    ) -> Option<Cursor> {
        let now = local.now.max(self.time());
        let hosts = |partition| self.hosts(partition);
        self.database(db).walk(from, budget, hosts, |object| {
            if object.is_expired(now) {
                local.is_ahead |= !object.is_expired(self.time());
                local.met(db, object.key())
            } else {
                found(object)
            }
        })
    }
}

impl<'k> Reader<'k, '_> {
    /// The one dispatch of reads.
    ///
    /// # Panics
    /// If the command writes: [`Command::writes`] sends it elsewhere.
    #[inline]
    pub(crate) fn command(&mut self, command: &Command<'_>) {
        match *command {
            Command::Get { key } => self.get(key),
            Command::MGet { keys } => self.mget(keys),
            Command::StrLen { key } => self.str_len(key),
            Command::GetRange { key, start, end } => self.get_range(key, start, end),
            Command::Lcs { left, right, output } => self.lcs(left, right, output),
            Command::GetBit { key, offset } => self.get_bit(key, offset),
            Command::BitCount { key, range } => self.bit_count(key, range),
            Command::BitPos {
                key,
                bit,
                start,
                end,
                unit,
            } => self.bit_pos(key, bit, start, end, unit),
            Command::BitField {
                key,
                operations,
                writes: false,
            } => self.bit_field_read(key, operations),
            Command::Exists { keys } => self.exists(keys),
            Command::Touch { keys } => self.touch(keys),
            Command::Type { key } => self.kind(key),
            Command::Ttl { key, form } => self.ttl(key, form),
            Command::Dump { key } => self.dump(key),
            Command::Object { key, aspect } => self.object(key, aspect),
            Command::MemoryUsage { key } => self.memory_usage(key),
            Command::DebugObject { key } => self.debug_object(key),
            Command::DebugCoding { key } => self.debug_coding(key),
            Command::DebugSdsLen { key } => self.debug_sds_len(key),
            Command::Keys { pattern } => self.keys(pattern),
            Command::Scan { cursor, options } => self.scan(cursor, options),
            Command::RandomKey => self.random_key(),
            Command::DbSize => self.out.integer(self.keyspace.counts(self.db).0 as i64),
            Command::CountKeysInSlot { slot } => self.count_keys_in_slot(slot),
            Command::KeysInSlot { slot, count } => self.keys_in_slot(slot, count),
            Command::List(ref list) => self.list(list),
            Command::Members(ref set) => self.members(set),
            Command::Hash(ref hash) => self.fields(hash),
            Command::SortedSet(ref sorted_set) => self.sorted_set(sorted_set),
            Command::Stream(ref stream) => self.stream(stream),
            Command::Blocking(ref blocking) if !blocking.pop.writes() => self.blocking(&blocking.pop),
            Command::HyperLogLog(ref hyperloglog) => self.hyperloglog(hyperloglog),
            Command::Geo(ref geo) => self.geo(geo),
            Command::Sort(ref sort) => self.sort(sort),
            Command::Blocking(_)
            | Command::Set { .. }
            | Command::GetEx { .. }
            | Command::GetDel { .. }
            | Command::MSet { .. }
            | Command::MSetNx { .. }
            | Command::Append { .. }
            | Command::IncrBy { .. }
            | Command::IncrByFloat { .. }
            | Command::Cas { .. }
            | Command::Add { .. }
            | Command::Xfer { .. }
            | Command::Take { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::BitOp { .. }
            | Command::BitField { writes: true, .. }
            | Command::Del { .. }
            | Command::Expire { .. }
            | Command::Persist { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Flush { .. }
            | Command::BackupMark { .. }
            | Command::MRestore { .. }
            | Command::Restore { .. }
            | Command::SwapDb { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    /// The living object of `key`, counted as an access and as a hit or miss.
    #[inline]
    pub(crate) fn lookup(&mut self, key: &[u8]) -> Option<ObjectRef<'k>> {
        let found = self.lookup_counted(key);
        if let Some(object) = &found {
            object.set_access(self.local.touched(object.access()));
        }
        found
    }

    /// [`Reader::lookup`] of an object of this kind.
    #[inline]
    pub(crate) fn lookup_kind(
        &mut self,
        key: &[u8],
        kind: Kind,
    ) -> Result<Option<ObjectRef<'k>>, ReplyError> {
        match self.lookup(key) {
            Some(object) if object.kind() != kind => Err(ReplyError::WrongType),
            found => Ok(found),
        }
    }

    /// [`Reader::lookup_kind`], or the end of the command: an error or the answer to an absent key is written.
    #[inline]
    pub(crate) fn lookup_or(
        &mut self,
        key: &[u8],
        kind: Kind,
        absent: impl FnOnce(&mut ReplyWriter<'_>),
    ) -> Option<ObjectRef<'k>> {
        match self.lookup_kind(key, kind) {
            Ok(Some(object)) => Some(object),
            Ok(None) => {
                absent(self.out);
                None
            }
            Err(error) => {
                error.write(self.out);
                None
            }
        }
    }

    /// The living object of `key`, counted as a hit or miss but not as an access.
    #[inline(always)]
    pub(crate) fn lookup_counted(&mut self, key: &[u8]) -> Option<ObjectRef<'k>> {
        let found = self.lookup_untouched(key);
        match found {
            Some(_) => self.local.hits += 1,
            None => {
                self.local.misses += 1;
                self.local.event(EventClasses::KEY_MISS, "keymiss", self.db, key);
            }
        }
        found
    }

    /// The living object of `key`, without a trace in the statistics.
    #[inline(always)]
    pub(crate) fn lookup_untouched(&mut self, key: &[u8]) -> Option<ObjectRef<'k>> {
        let object = self
            .keyspace
            .database(self.db)
            .find(self.keyspace.locate(key), key)?;
        if object.is_expired(self.now) {
            self.waits |= !object.is_expired(self.keyspace.time());
            self.local.met(self.db, key);
            return None;
        }
        Some(object)
    }

    fn object(&mut self, key: &[u8], aspect: ObjectAspect) {
        let Some(object) = self.lookup_untouched(key) else {
            return self.out.null();
        };
        let access = &self.local.access;
        match aspect {
            ObjectAspect::Encoding => self.out.bulk(encoding(&object).as_bytes()),
            ObjectAspect::RefCount => self.out.integer(1),
            ObjectAspect::IdleTime if access.counts_frequency() => ReplyError::NoIdleTime.write(self.out),
            ObjectAspect::IdleTime => self.out.integer(i64::from(access.idle_seconds(object.access()))),
            ObjectAspect::Frequency if access.counts_frequency() => {
                self.out.integer(i64::from(access.frequency(object.access())))
            }
            ObjectAspect::Frequency => ReplyError::NoFrequency.write(self.out),
        }
    }

    fn memory_usage(&mut self, key: &[u8]) {
        match self.lookup_untouched(key) {
            // A place in a segment is eight bytes, and segments are about three quarters full.
            Some(object) => self.out.integer(object.memory() as i64 + 11),
            None => self.out.null(),
        }
    }

    fn debug_object(&mut self, key: &[u8]) {
        let Some(object) = self.lookup_untouched(key) else {
            return ReplyError::NoSuchKey.write(self.out);
        };
        let access = object.access();
        self.out.simple(&format!(
            "Value at:{:#x} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
            std::ptr::from_ref(&*object).addr(),
            encoding(&object),
            object.value().len() + 1,
            access.0,
            self.local.access.idle_seconds(access),
        ));
    }

    /// How the value is kept where the group is led: as a whole or a fragment, and who has which row.
    fn debug_coding(&mut self, key: &[u8]) {
        let code = self.keyspace.code().cloned();
        let Some(object) = self.lookup_untouched(key) else {
            return ReplyError::NoSuchKey.write(self.out);
        };
        if object.kind() != Kind::String {
            return ReplyError::WrongType.write(self.out);
        }
        let (is_coded, is_held, version) = (object.is_coded(), object.is_held(), object.version());
        let length = object.value().len() as i64;
        let bytes = object.coded().map_or(length, |coded| coded.bytes().len() as i64);
        let rule = self.keyspace.settling_rule(self.db);
        let is_settled = rule.is_some_and(|rule| object.is_settled(rule));
        let row = code
            .as_ref()
            .zip(self.keyspace.holder())
            .and_then(|(code, me)| code.row_of(me));
        self.out.map(9);
        let out = &mut *self.out;
        out.bulk(b"form");
        out.bulk(if is_coded { b"fragment" } else { b"whole" });
        for (name, value) in [
            ("length", length),
            ("bytes-here", bytes),
            ("settled", i64::from(is_settled)),
            ("held", i64::from(is_held)),
            ("version", version.0 as i64),
            ("code-epoch", code.as_ref().map_or(0, |code| code.epoch.0.into())),
            ("row-here", row.map_or(-1, |row| row.number().into())),
        ] {
            out.bulk(name.as_bytes());
            out.integer(value);
        }
        out.bulk(b"rows");
        let holders = code.map(|code| code.holders).unwrap_or_default();
        out.array(holders.len());
        for holder in holders {
            match holder {
                Some(holder) => out.integer(holder.0 as i64),
                None => out.null(),
            }
        }
    }

    fn debug_sds_len(&mut self, key: &[u8]) {
        let Some(object) = self.lookup_untouched(key) else {
            return ReplyError::NoSuchKey.write(self.out);
        };
        if object.kind() != Kind::String {
            return ReplyError::WrongType.write(self.out);
        }
        let (key, value) = (object.key().len(), object.value().len());
        self.out.simple(&format!(
            "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, \
             val_sds_avail:0, val_zmalloc: {value}"
        ));
    }

    fn keys(&mut self, pattern: &[u8]) {
        let mut count = 0;
        let mut found = Vec::new();
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        let wanted = Glob::new(pattern);
        let (db, now, local) = (self.db, self.now, &mut *self.local);
        self.keyspace.database(db).for_each(|object| {
            if object.is_expired(now) {
                local.met(db, object.key());
            } else if wanted.matches(object.key()) {
                writer.bulk(object.key());
                count += 1;
            }
        });
        self.out.array(count);
        self.out.raw(&found);
    }

    /// `CLUSTER COUNTKEYSINSLOT`. Keys are in hash order, not in that of slots: all of the partition are looked at.
    fn count_keys_in_slot(&mut self, slot: Slot) {
        let now = self.now;
        let mut count = 0;
        self.keyspace.database(self.db).for_each_beside(slot, |object| {
            count += i64::from(!object.is_expired(now) && Slot::of_key(object.key()) == slot);
        });
        self.out.integer(count);
    }

    /// `CLUSTER GETKEYSINSLOT`.
    fn keys_in_slot(&mut self, slot: Slot, count_max: u64) {
        let now = self.now;
        let mut count = 0;
        let mut found = Vec::new();
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        self.keyspace.database(self.db).for_each_beside(slot, |object| {
            let is_wanted = count < count_max && Slot::of_key(object.key()) == slot;
            if is_wanted && !object.is_expired(now) {
                writer.bulk(object.key());
                count += 1;
            }
        });
        self.out
            .array(usize::try_from(count).expect("not more than there are keys"));
        self.out.raw(&found);
    }

    /// `SCAN` over what this group hosts. The gateway goes from one group to the next.
    fn scan(&mut self, cursor: u64, options: ScanOptions<'_>) {
        let Some(from) = Cursor::of_number(cursor) else {
            return ReplyError::InvalidCursor.write(self.out);
        };
        let (mut count, mut found) = (0, Vec::new());
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        let accepts = scan_accepts(&options);
        let budget = options.count.min(SCAN_COUNT_MAX);
        let next = self.keyspace.scan(self.db, from, budget, self.local, |object| {
            if accepts(object) {
                writer.bulk(object.key());
                count += 1;
            }
        });
        self.out.array(2);
        self.out
            .bulk_integer(next.map_or(0, |cursor| cursor.number() as i64));
        self.out.array(count);
        self.out.raw(&found);
    }

    fn random_key(&mut self) {
        self.out.array(2);
        self.out.integer(self.keyspace.counts(self.db).0 as i64);
        // Redis gives up after a hundred expired keys too: with luck alone it could search for ever.
        for _ in 0..100 {
            let Some(object) = self.keyspace.database(self.db).pick(&mut self.local.prng) else {
                break;
            };
            if !object.is_expired(self.now) {
                return self.out.bulk(object.key());
            }
            self.local.met(self.db, object.key());
        }
        self.out.null();
    }
}

/// Tells whether `SCAN` with these options answers an object.
pub fn scan_accepts<'a>(options: &ScanOptions<'a>) -> impl Fn(&Object) -> bool + use<'a> {
    let (kind, filter) = (options.kind, options.filter());
    move |object| {
        let is_kind = |kind: &[u8]| kind.eq_ignore_ascii_case(object.kind().name().as_bytes());
        kind.is_none_or(is_kind) && filter.matches(object.key())
    }
}

/// The answer of `SCAN` and its kin: where to go on, and the `count` elements that are written in `found`.
pub(crate) fn write_scan(out: &mut ReplyWriter<'_>, next: Option<Position>, count: usize, found: &[u8]) {
    out.array(2);
    out.bulk_integer(next.map_or(0, |position| position.bits() as i64));
    out.array(count);
    out.raw(found);
}

/// What `OBJECT ENCODING` says, by Redis's rules.
fn encoding(object: &Object) -> &'static str {
    match object.value() {
        Value::Integer(_) => "int",
        Value::Bytes(bytes) if bytes.len() <= 44 && !object.is_grown() => "embstr",
        Value::Bytes(_) | Value::Coded(_) => "raw",
        Value::Listpack(..) => "listpack",
        Value::Integers(_) => "intset",
        Value::Large(Large::List(_)) => "quicklist",
        Value::Large(Large::Set(_) | Large::Hash(_)) => "hashtable",
        Value::Large(Large::SortedSet(_)) => "skiplist",
        Value::Large(Large::Stream(_)) => "stream",
    }
}
