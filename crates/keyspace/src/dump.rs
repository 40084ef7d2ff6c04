//! `DUMP` and `RESTORE`: values as Redis writes them into its own files.
//!
//! What is made of a payload is what commands would have made of its elements, by the limits of this group: in which form Redis had it is no
//! matter. Every replica reads the payload where its entry is applied, and makes the same of it.

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::hash::{self, Fields};
use crate::limits::EncodingLimits;
use crate::object::{Kind, Object, Value};
use crate::read::Reader;
use crate::set::{self, Members};
use crate::sort;
use crate::sorted_set::{self, View};
use crate::stream;
use crate::value::Digits;
use command::{Deadline, ReplyError, RestoredUse};
use ids::{HashSeed, Version};
use rdb::PayloadWriter;

/// Bytes that a value of `RESTORE` may come to: a payload may be compressed, or name a long field in each of a million entries.
const MEMORY_MAX: usize = 4 << 30;

impl Reader<'_, '_> {
    /// `DUMP`.
    pub(crate) fn dump(&mut self, key: &[u8]) {
        match self.lookup(key) {
            Some(object) => self.out.bulk(&dumped(&object)),
            None => self.out.null(),
        }
    }
}

/// A value as a payload.
fn dumped(object: &Object) -> Vec<u8> {
    let (mut left, mut right) = (Digits::default(), Digits::default());
    let payload = match object.kind() {
        Kind::String => match object.value() {
            Value::Integer(number) => PayloadWriter::string(itoa::Buffer::new().format(number).as_bytes()),
            Value::Bytes(bytes) => PayloadWriter::string(bytes),
            value => unreachable!("{value:?} is no string that is here as a whole"),
        },
        Kind::List => {
            let mut payload = PayloadWriter::list(object.value().len());
            sort::for_each_element(object, |element| payload.element(element));
            payload
        }
        Kind::Set => {
            let members = Members::of(object);
            let mut payload = PayloadWriter::set(members.len());
            members.for_each(|member| payload.element(member));
            payload
        }
        Kind::Hash => {
            let fields = Fields::of(object.value());
            let mut payload = PayloadWriter::hash(fields.len());
            fields.for_each(|field, value| {
                payload.element(field.text(&mut left));
                payload.element(value.text(&mut right));
            });
            payload
        }
        Kind::SortedSet => {
            let view = View::of(object);
            let mut payload = PayloadWriter::sorted_set(view.len());
            // From the greatest on, as servers expect it.
            for (member, score) in view.members(0..view.len()).rev() {
                payload.element(member.text(&mut left));
                payload.score(score);
            }
            payload
        }
        Kind::Stream => return stream::dumped(stream::stream_of(object)),
    };
    payload.finish()
}

/// By what an object is made.
struct Making<'a> {
    key: &'a [u8],
    limits: EncodingLimits,
    seed: HashSeed,
    version: Version,
}

impl Making<'_> {
    /// The object that commands would have made. `None` if a stream has what none can.
    fn object(&self, value: rdb::PayloadValue) -> Option<Object> {
        let Making {
            key,
            limits,
            seed,
            version,
        } = self;
        Some(match value {
            rdb::PayloadValue::String(bytes) => Object::string(key, &bytes, None, *version),
            rdb::PayloadValue::List(elements) => sort::list_of(key, &elements, *limits, *version),
            rdb::PayloadValue::Set(members) => {
                let mut object = Object::collection(Kind::Set, key, *version);
                for member in &members {
                    set::add_new(&mut object, limits, *seed, member);
                }
                object
            }
            rdb::PayloadValue::Hash(fields) => {
                let mut object = Object::collection(Kind::Hash, key, *version);
                for (field, value) in &fields {
                    hash::set(&mut object, limits, *seed, field, value);
                }
                object
            }
            rdb::PayloadValue::SortedSet(mut members) => {
                sorted_set::sort(&mut members);
                sorted_set::object_of(key, &members, limits, *seed, *version)
            }
            rdb::PayloadValue::Stream(value) => stream::restored(key, &value, limits, *version)?,
        })
    }
}

impl Apply<'_, '_> {
    /// `RESTORE`.
    pub(crate) fn restore_dump(
        &mut self,
        key: &[u8],
        deadline: Option<Deadline>,
        payload: &[u8],
        replace: bool,
        use_of_key: RestoredUse,
    ) {
        if !replace && self.kind(key).is_some() {
            return ReplyError::BusyKey.write(self.out);
        }
        let Ok(body) = rdb::open(payload) else {
            return ReplyError::WrongPayload.write(self.out);
        };
        let making = Making {
            key,
            limits: self.keyspace.limits(),
            seed: self.keyspace.seed(),
            version: self.version(),
        };
        let memory_max = rdb::memory_max(body.len()).min(MEMORY_MAX);
        let value = rdb::read_within(body, memory_max);
        let object = value.ok().and_then(|value| making.object(value));
        let Some(mut object) = object else {
            return ReplyError::BadDataFormat.write(self.out);
        };
        let Some(deadline) = deadline.map_or(Some(None), |deadline| deadline.resolve(self.time()).map(Some))
        else {
            return ReplyError::InvalidExpireTime("restore").write(self.out);
        };
        if deadline.is_some_and(|deadline| deadline <= self.time()) {
            self.delete_and_note(key);
        } else {
            object.set_deadline(deadline);
            self.store(object);
            // What comes counts as used just now.
            if let Some(object) = self.keyspace.database(self.db).find(self.locate(key), key) {
                object.set_access(self.local.access.restored(use_of_key));
            }
            self.event(EventClasses::GENERIC, "restore", key);
        }
        self.out.ok();
    }
}
