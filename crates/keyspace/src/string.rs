//! Strings: what `SET` and its family do.

use crate::apply::Apply;
use crate::coded::keep_settled;
use crate::directories::Location;
use crate::entry::KEPT_BYTES_MIN;
use crate::events::EventClasses;
use crate::large::Large;
use crate::object::{Kind, Object, Value};
use crate::read::Reader;
use crate::value::Digits;
use bytes::Bytes;
use command::number::{self, LongDouble};
use command::{ReplyError, SetCondition, SetExpiry, SetReply};
use ids::{UnixMillis, Version};
use mutations::Mutation;
use resp::{Args, ReplyWriter};

/// The longest string, in bytes: a growth beyond it is refused. Redis's default `proto-max-bulk-len`, fixed,
/// because `apply` takes no configuration.
pub(crate) const STRING_BYTES_MAX: u64 = 512 * 1024 * 1024;

impl Apply<'_, '_> {
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: SetCondition<'_>,
        expiry: SetExpiry,
        reply: SetReply,
    ) {
        let now = match mutations::is(Mutation::DeadlineByOwnClock) {
            true => self.local.now,
            false => self.time(),
        };
        let deadline = match expiry {
            SetExpiry::At(deadline) => match deadline.resolve(now) {
                Some(deadline) => Some(deadline),
                None => return ReplyError::InvalidExpireTime("set").write(self.out),
            },
            SetExpiry::Clear | SetExpiry::Keep => None,
        };
        let location = self.locate(key);
        let out = &mut *self.out;
        let (version, time) = (self.keyspace.applied(), self.keyspace.time());
        let fresh = self.local.access.fresh();
        let local = &mut *self.local;
        let mut revived = false;
        let mut replaced = None;
        let kept = kept(self.keyspace.source(), value);
        let reads = reply == SetReply::Old || matches!(condition, SetCondition::IfEqual(_));
        let found = self
            .keyspace
            .database_mut(self.db)
            .update(location, key, |object| {
                let expired = object.is_expired(time);
                if reads && !expired && object.kind() != Kind::String {
                    return Err(ReplyError::WrongType);
                }
                if reply == SetReply::Old {
                    if expired {
                        out.null()
                    } else {
                        write_string(out, object)
                    }
                }
                let written = match condition {
                    SetCondition::Always => true,
                    SetCondition::IfAbsent => expired,
                    SetCondition::IfPresent => !expired,
                    SetCondition::IfEqual(expected) => {
                        !expired && object.value().text(&mut Digits::default()) == expected
                    }
                };
                if written {
                    revived = expired;
                    local.expired += u64::from(expired);
                    local.changes += 1;
                    local.went(self.db, object);
                    replaced = object.take_large();
                    match &kept {
                        Some(kept) => object.set_kept(kept.clone()),
                        None => object.set_string(value),
                    }
                    object.set_version(version);
                    object.set_access(if expired {
                        fresh
                    } else {
                        local.touched(object.access())
                    });
                    if expiry != SetExpiry::Keep || expired {
                        object.set_deadline(deadline);
                    }
                }
                Ok(written)
            });
        if let Some(large) = replaced {
            self.keyspace.lazyfree().add_large(*large);
        }
        if revived {
            self.keyspace
                .database_mut(self.db)
                .note_revival(location, version);
            self.event(EventClasses::EXPIRED, "expired", key);
        }
        if reply == SetReply::Old && (found.is_none() || revived) {
            self.missed(key);
        }
        if revived {
            self.event(EventClasses::NEW, "new", key);
        }
        let written = match (found, condition) {
            (Some(Ok(written)), _) => written,
            (Some(Err(error)), _) => return error.write(self.out),
            (None, SetCondition::Always | SetCondition::IfAbsent) => {
                if reply == SetReply::Old {
                    self.out.null();
                }
                self.insert(location, string(key, value, kept, deadline, version));
                true
            }
            (None, SetCondition::IfPresent | SetCondition::IfEqual(_)) => {
                if reply == SetReply::Old {
                    self.out.null();
                }
                false
            }
        };
        if written {
            self.event(EventClasses::STRING, "set", key);
            if deadline.is_some() {
                self.event(EventClasses::GENERIC, "expire", key);
            }
        }
        match (reply, written) {
            (SetReply::Ok, true) => self.out.ok(),
            (SetReply::Ok, false) => self.out.null(),
            (SetReply::Integer, written) => self.out.integer(i64::from(written)),
            (SetReply::Old, _) => {}
        }
    }

    pub(crate) fn get_ex(&mut self, key: &[u8], expiry: SetExpiry) {
        let deadline = match expiry {
            SetExpiry::At(deadline) => match deadline.resolve(self.time()) {
                Some(deadline) => Some(deadline),
                None => return ReplyError::InvalidExpireTime("getex").write(self.out),
            },
            SetExpiry::Clear | SetExpiry::Keep => None,
        };
        if self.refuses_string(key) {
            return;
        }
        let location = self.locate(key);
        self.bury(location, key);
        match self.keyspace.database(self.db).find(location, key) {
            Some(object) => write_string(self.out, &object),
            None => {
                self.missed(key);
                return self.out.null();
            }
        }
        if deadline.is_some_and(|deadline| deadline <= self.time()) {
            self.remove(location, key);
            return self.event(EventClasses::GENERIC, "del", key);
        }
        let rule = self.keyspace.settling_rule(self.db);
        let changed = self.update(location, key, |change| {
            let changes = match expiry {
                SetExpiry::Keep => false,
                SetExpiry::Clear => change.object.deadline().is_some(),
                SetExpiry::At(_) => true,
            };
            if changes {
                keep_settled(rule, change.object);
                change.object.set_deadline(deadline);
                change.mark();
            }
            changes
        });
        if changed.unwrap_or(false) {
            let name = if deadline.is_some() { "expire" } else { "persist" };
            self.event(EventClasses::GENERIC, name, key);
        }
    }

    pub(crate) fn get_del(&mut self, key: &[u8]) {
        if self.refuses_string(key) {
            return;
        }
        let location = self.locate(key);
        match self.remove(location, key) {
            Some(object) => {
                write_string(self.out, &object);
                self.event(EventClasses::GENERIC, "del", key);
            }
            None => {
                self.missed(key);
                self.out.null();
            }
        }
    }

    pub(crate) fn mset(&mut self, pairs: Args<'_>) {
        self.put_pairs(pairs);
        self.out.ok();
    }

    /// The same without an answer, of a transaction.
    pub(crate) fn put_each<'p>(&mut self, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) {
        pairs.for_each(|(key, value)| self.put(key, value));
    }

    pub(crate) fn mset_nx(&mut self, pairs: Args<'_>) {
        for key in pairs.iter().step_by(2) {
            let location = self.locate(key);
            if self.is_present(location, key) {
                return self.out.integer(0);
            }
        }
        self.put_pairs(pairs);
        self.out.integer(1);
    }

    fn put_pairs(&mut self, pairs: Args<'_>) {
        for pair in 0..pairs.len() / 2 {
            self.put(pairs.arg(2 * pair), pairs.arg(2 * pair + 1));
        }
    }

    /// Sets `key` whatever it was; it lives for ever.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        let location = self.locate(key);
        let kept = kept(self.keyspace.source(), value);
        let replaced = self.update(location, key, |change| {
            let replaced = change.object.take_large();
            match &kept {
                Some(kept) => change.object.set_kept(kept.clone()),
                None => change.object.set_string(value),
            }
            change.object.set_deadline(None);
            change.mark();
            replaced
        });
        match replaced {
            Some(None) => {}
            Some(Some(large)) => {
                if matches!(*large, Large::Stream(_)) {
                    self.local.stirred(self.db, key);
                }
                self.keyspace.lazyfree().add_large(*large);
            }
            None => self.insert(location, string(key, value, kept, None, self.version())),
        }
        self.event(EventClasses::STRING, "set", key);
    }

    pub(crate) fn append(&mut self, key: &[u8], value: &[u8]) {
        let location = self.locate(key);
        let result = self.update_string(location, key, |change| {
            let before = change.object.value().len();
            let after = before + value.len();
            if after as u64 > STRING_BYTES_MAX {
                return Err(ReplyError::StringTooLong);
            }
            change.object.bytes_mut(after)[before..].copy_from_slice(value);
            change.mark();
            Ok(after)
        });
        match result {
            Some(Ok(length)) => self.out.integer(length as i64),
            Some(Err(error)) => return error.write(self.out),
            None => {
                self.insert(location, Object::string(key, value, None, self.version()));
                self.out.integer(value.len() as i64);
            }
        }
        self.event(EventClasses::STRING, "append", key);
    }

    pub(crate) fn incr_by(&mut self, key: &[u8], by: i64) {
        let location = self.locate(key);
        let result = self.update_string(location, key, |change| {
            let before = integer(change.object.value())?;
            let after = before.checked_add(by).ok_or(ReplyError::Overflow)?;
            change.object.set_integer(after);
            change.mark();
            Ok(after)
        });
        match result {
            Some(Ok(number)) => self.out.integer(number),
            Some(Err(error)) => return ReplyError::write(&error, self.out),
            None => {
                self.insert(location, Object::integer(key, by, None, self.version()));
                self.out.integer(by);
            }
        }
        self.event(EventClasses::STRING, "incrby", key);
    }

    pub(crate) fn incr_by_float(&mut self, key: &[u8], by: LongDouble) {
        let location = self.locate(key);
        let result = self.update_string(location, key, |change| {
            let mut digits = Digits::default();
            let text = change.object.value().text(&mut digits);
            let before = LongDouble::parse(text).ok_or(ReplyError::NotAFloat)?;
            let after = before + by;
            if !after.is_finite() {
                return Err(ReplyError::NanOrInfinity);
            }
            let text = after.to_text();
            // Redis keeps the result as text until the key is set anew, and `OBJECT ENCODING` shows it.
            change.object.set_text(text.as_bytes());
            change.mark();
            Ok(text)
        });
        match result {
            Some(Ok(text)) => self.out.bulk(text.as_bytes()),
            Some(Err(error)) => return ReplyError::write(&error, self.out),
            None if !by.is_finite() => return ReplyError::NanOrInfinity.write(self.out),
            None => {
                let text = by.to_text();
                let mut object = Object::string(key, b"", None, self.version());
                object.set_text(text.as_bytes());
                self.insert(location, object);
                self.out.bulk(text.as_bytes());
            }
        }
        self.event(EventClasses::STRING, "incrbyfloat", key);
    }

    pub(crate) fn set_range(&mut self, key: &[u8], offset: u64, value: &[u8]) {
        if self.refuses_string(key) {
            return;
        }
        let location = self.locate(key);
        if value.is_empty() {
            let length = self.look(location, key, |value| value.map_or(0, Value::len));
            return self.out.integer(length as i64);
        }
        let end = offset.saturating_add(value.len() as u64);
        if end > STRING_BYTES_MAX {
            return ReplyError::StringTooLong.write(self.out);
        }
        let (start, end) = (offset as usize, end as usize);
        self.write_bytes(location, key, end, |bytes| {
            bytes[start..end].copy_from_slice(value)
        });
        self.event(EventClasses::STRING, "setrange", key);
        let length = self.look(location, key, |value| value.map_or(0, Value::len));
        self.out.integer(length as i64);
    }

    /// Changes the string of `key` in place, grown with zeros to `length_min` bytes; an absent one is made.
    pub(crate) fn write_bytes<R>(
        &mut self,
        location: Location,
        key: &[u8],
        length_min: usize,
        change_bytes: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        if !self.is_present(location, key) {
            self.insert(location, Object::string(key, b"", None, self.version()));
        }
        let result = self.update(location, key, |change| {
            change.mark();
            change_bytes(change.object.bytes_mut(length_min))
        });
        result.expect("the key was present or has just been made")
    }
}

impl Reader<'_, '_> {
    pub(crate) fn get(&mut self, key: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::String, |out| out.null()) {
            write_string(self.out, &object);
        }
    }

    pub(crate) fn mget(&mut self, keys: Args<'_>) {
        self.out.array(keys.len());
        for key in keys.iter() {
            match self.lookup_kind(key, Kind::String) {
                Ok(Some(object)) => write_string(self.out, &object),
                // What is no string counts as absent here, as in Redis.
                Ok(None) | Err(_) => self.out.null(),
            }
        }
    }

    pub(crate) fn str_len(&mut self, key: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::String, |out| out.integer(0)) {
            self.out.integer(object.value().len() as i64);
        }
    }

    pub(crate) fn get_range(&mut self, key: &[u8], start: i64, end: i64) {
        let Some(object) = self.lookup_or(key, Kind::String, |out| out.bulk(b"")) else {
            return;
        };
        let mut digits = Digits::default();
        let text = object.value().text(&mut digits);
        let part = range(text, start, end);
        match object.kept_string() {
            Some(kept) if part.len() >= KEPT_BYTES_MIN => self.out.bulk_shared(&kept.slice_ref(part)),
            _ => self.out.bulk(part),
        }
    }
}

/// The part of `text` from `start` to `end`, included; negative positions count from the end.
fn range(text: &[u8], start: i64, end: i64) -> &[u8] {
    let length = text.len() as i64;
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let from_end = |position: i64| {
        if position < 0 {
            position.saturating_add(length).max(0)
        } else {
            position
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if length == 0 || start > end {
        b""
    } else {
        &text[start as usize..=end as usize]
    }
}

/// The integer that a string holds.
pub(crate) fn integer(value: Value<'_>) -> Result<i64, ReplyError> {
    match value {
        Value::Integer(number) => Ok(number),
        value => number::parse_i64(value.text(&mut Digits::default())).ok_or(ReplyError::NotAnInteger),
    }
}

/// The place of a long string in what it came with. Only where that is little more than the string: all of it stays.
#[inline]
pub(crate) fn kept(source: Option<&Bytes>, value: &[u8]) -> Option<Bytes> {
    if value.len() < KEPT_BYTES_MIN {
        return None;
    }
    let source = source?;
    let is_in_it = source.as_ptr_range().contains(&value.as_ptr());
    (is_in_it && is_most_of(value.len(), source.len())).then(|| source.slice_ref(value))
}

/// Whether bytes that a string of this length came in are little more than it.
pub(crate) fn is_most_of(length: usize, whole: usize) -> bool {
    whole.saturating_sub(length) <= length / 8
}

fn string(
    key: &[u8],
    value: &[u8],
    kept: Option<Bytes>,
    deadline: Option<UnixMillis>,
    version: Version,
) -> Object {
    match kept {
        Some(kept) => Object::kept(key, kept, deadline, version),
        None => Object::string(key, value, deadline, version),
    }
}

/// [`write_value`] of what may be shared with the reply.
#[inline]
fn write_string(out: &mut ReplyWriter<'_>, object: &Object) {
    match object.kept_string() {
        Some(kept) => out.bulk_shared(kept),
        None => write_value(out, object.value()),
    }
}

#[inline]
pub(crate) fn write_value(out: &mut ReplyWriter<'_>, value: Value<'_>) {
    match value {
        Value::Bytes(bytes) => out.bulk(bytes),
        Value::Integer(number) => out.bulk_integer(number),
        Value::Coded(_) => {
            unreachable!("a command that needs the value is refused before (`coded/needs.rs`)")
        }
        Value::Listpack(..) | Value::Integers(_) | Value::Large(_) => {
            unreachable!("the kind was checked: only strings are written as one")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_clamp_to_the_text() {
        let text = b"Hello World";
        for (start, end, expected) in [
            (0, 3, "Hell"),
            (0, -1, "Hello World"),
            (-4, -1, "orld"),
            (5, 3, ""),
            (5, 5000, " World"),
            (-5000, 10000, "Hello World"),
            (0, -100, "H"),
            (-1, -5, ""),
            (11, 12, ""),
            (i64::MIN, i64::MIN, "H"),
            (i64::MIN, i64::MAX, "Hello World"),
        ] {
            assert_eq!(range(text, start, end), expected.as_bytes(), "{start}..{end}");
        }
        assert_eq!(range(b"", 0, -1), b"");
    }
}
