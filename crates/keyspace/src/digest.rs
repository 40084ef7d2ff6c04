//! The state hash that replicas compare.

use crate::coded::SettlingRule;
use crate::large::Large;
use crate::object::{Object, Value};
use crate::value::Digits;
use mutations::Mutation;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// SipHash-1-3 with a fixed key over what clients could observe, in hash order. Every part is preceded by its
/// length, so that no two states have the same stream.
pub(crate) struct Digest(SipHasher13);

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(SipHasher13::new())
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Digest {
        self.0.write(&number.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Digest {
        self.number(bytes.len() as u64);
        self.0.write(bytes);
        self
    }

    /// Of a string that is settled by `rule`, or will be, everything but its form.
    pub(crate) fn object(&mut self, object: &Object, rule: Option<SettlingRule>) {
        self.bytes(object.key()).number(object.version().0);
        match object.deadline() {
            None => self.number(0),
            Some(deadline) => self.number(1).number(deadline.0 as u64),
        };
        match object.value() {
            Value::Integer(number) => self.number(0).number(number as u64),
            Value::Bytes(bytes)
                if let Some(rule) = rule
                    && bytes.len() >= rule.threshold
                    && !mutations::is(Mutation::FormIsHashed) =>
            {
                let is_settled = object.is_settled(rule);
                self.string(object, bytes.len(), crc32c::crc32c(bytes), is_settled)
            }
            Value::Coded(coded) => self.string(object, coded.length(), coded.checksum(), true),
            Value::Bytes(bytes) => self.number(1 + u64::from(object.is_grown())).bytes(bytes),
            Value::Listpack(kind, listpack) => self.number(3 + kind as u64).bytes(listpack.bytes()),
            Value::Integers(bytes) => self.number(9).bytes(bytes),
            Value::Large(large) => self.number(10 + large.kind() as u64).large(large),
        };
    }

    fn string(&mut self, object: &Object, length: usize, checksum: u32, is_settled: bool) -> &mut Digest {
        let flags = u64::from(object.is_grown()) | u64::from(is_settled) << 1;
        self.number(16 + flags)
            .number(length as u64)
            .number(checksum.into())
    }

    fn large(&mut self, large: &Large) -> &mut Digest {
        self.number(large.len() as u64);
        match large {
            Large::List(list) => list.for_each(|element| {
                self.bytes(element);
            }),
            Large::Set(directory) | Large::Hash(directory) => {
                let seed = directory.seed();
                self.number(seed.0[0]).number(seed.0[1]);
                directory.for_each(|member| {
                    self.bytes(member.key());
                    self.bytes(member.value().text(&mut Digits::default()));
                });
            }
            Large::SortedSet(sorted_set) => sorted_set.for_each(|member, score| {
                self.bytes(member).number(score.to_bits());
            }),
            Large::Stream(stream) => {
                let mut records = Vec::new();
                stream.write(&mut records);
                self.bytes(&records);
            }
        }
        self
    }

    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}
