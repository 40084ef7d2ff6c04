//! Objects as they are written, to be decoded later or never.
//!
//! To encode or decode a set of a million members takes longer than a worker should be held up. So what a group has sent for a
//! transaction stays as it came until somebody works on it, and what that leads to is encoded where it was made: on a thread beside
//! the workers, if it is much.

use crate::entry::KEPT_BYTES_MIN;
use crate::object::{Object, Value};
use crate::object_codec::{self, Head};
use bytes::Bytes;
use codec::Reader;

/// Everything of an object but its version.
#[derive(Clone, Debug)]
pub struct EncodedObject {
    /// What [`object_codec::write_head`] wrote.
    head: Box<[u8]>,
    value: Bytes,
}

impl EncodedObject {
    /// Of what is worth it: a large collection, or a long string that nothing else shares.
    pub fn of(object: &Object) -> Option<EncodedObject> {
        let is_long = match object.value() {
            Value::Large(_) => true,
            value => value.len() >= KEPT_BYTES_MIN && object.kept_string().is_none(),
        };
        is_long.then(|| {
            let (mut head, mut value) = (Vec::new(), Vec::new());
            object_codec::write_head(&mut head, object);
            object_codec::encode(object, &mut value);
            EncodedObject {
                head: head.into(),
                value: value.into(),
            }
        })
    }

    /// Of what an object was written as.
    pub(crate) fn new(head: &[u8], value: Bytes) -> EncodedObject {
        EncodedObject {
            head: head.into(),
            value,
        }
    }

    fn head(&self) -> Head<'_> {
        Head::read(&mut Reader::new(&self.head)).expect("it was written or read before")
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.head().key
    }

    /// Bytes of the value.
    pub fn byte_len(&self) -> usize {
        self.value.len()
    }

    /// The object, of version 0; `None` if the bytes are none.
    pub fn decode(&self) -> Option<Object> {
        let head = self.head();
        object_codec::check(head.form, &self.value).then(|| head.object(&self.value, Some(&self.value)))
    }

    pub(crate) fn head_bytes(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn value_bytes(&self) -> &Bytes {
        &self.value
    }
}

/// What a group has sent of a key.
#[derive(Debug)]
pub enum SeenObject {
    /// The object.
    Whole(Object),
    /// A large collection, as it was sent.
    Encoded(EncodedObject),
}

impl SeenObject {
    /// About how many bytes there are to be worked on: nobody copies a string that is shared.
    pub fn byte_len(&self) -> usize {
        match self {
            SeenObject::Whole(object) if object.kept_string().is_some() => 0,
            SeenObject::Whole(object) => object.memory(),
            SeenObject::Encoded(encoded) => encoded.byte_len(),
        }
    }

    /// The object; `None` if what came is none.
    pub fn into_object(self) -> Option<Object> {
        match self {
            SeenObject::Whole(object) => Some(object),
            SeenObject::Encoded(encoded) => encoded.decode(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::effects::Effect;
    use crate::entry::{EntryOperation, Operations, Prepare, Work};
    use crate::large::Large;
    use ids::{Boot, Db, GroupId, HashSeed, UnixMillis, Version};
    use txn::{Participant, TxnId};

    /// A set of so many members.
    fn set(members: usize) -> Object {
        let mut directory = Directory::new(HashSeed([3, 4]));
        for number in 0..members {
            let member = format!("member:{number}");
            let hash = directory.hash(member.as_bytes());
            directory.insert(hash, Object::string(member.as_bytes(), b"", None, Version(0)));
        }
        Object::large(b"key", Large::Set(directory), Some(UnixMillis(9)), Version(0))
    }

    fn written(effect: Effect) -> Vec<u8> {
        let mut operations = Operations::new();
        operations.push(&EntryOperation::Prepare(Box::new(Prepare {
            txn: TxnId {
                boot: Boot(1),
                worker: 0,
                seq: 1,
                attempt: 1,
            },
            began: UnixMillis(1),
            participants: [Participant::first(GroupId::new(0))].into(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::Install {
                effects: vec![effect],
                after_lock: false,
                result: None,
            },
        })));
        operations.into_bytes()
    }

    #[test]
    fn what_is_encoded_is_written_as_what_it_was_made_of() {
        let db = Db::default();
        let long = vec![b'x'; KEPT_BYTES_MIN];
        let string = || Object::string(b"key", &long, None, Version(0));
        // The second one is a run of its own.
        for make in [&|| set(600) as Object, &|| set(90_000), &string] as [&dyn Fn() -> Object; 3] {
            let plain = Effect::Put { db, object: make() };
            let encoded = Effect::Put { db, object: make() }.encoded();
            assert!(matches!(encoded, Effect::PutEncoded { .. }));
            assert_eq!((plain.key(), encoded.key()), (&b"key"[..], &b"key"[..]));
            assert!(written(plain) == written(encoded));
        }
    }

    #[test]
    fn what_is_small_is_not_encoded() {
        let object = Object::string(b"key", b"value", None, Version(0));
        let db = Db::default();
        assert!(matches!(Effect::Put { db, object }.encoded(), Effect::Put { .. }));
    }

    #[test]
    fn bytes_that_are_no_value_are_not_decoded() {
        let encoded = EncodedObject::of(&set(600)).expect("it is large");
        assert!(encoded.decode().is_some());
        let short = encoded.value.slice(..encoded.value.len() - 1);
        assert!(EncodedObject::new(&encoded.head, short).decode().is_none());
    }
}
