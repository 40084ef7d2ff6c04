//! `MRESTORE`: objects as a backup has them.

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::object_codec::{self, Head, LAST_FLAT};
use codec::{Reader, Writer};
use command::{RESTORE_CONTINUES, RESTORE_FORMAT, ReplyError, RestoredObject};
use ids::UnixMillis;
use resp::Args;

impl Apply<'_, '_> {
    /// Puts all of these objects, or none if one of them is no object.
    pub(crate) fn restore(&mut self, triples: Args<'_>) {
        let all = || (0..triples.len() / 3).map(|at| RestoredObject::of(triples, at));
        if let Some(error) = all().find_map(|restored| self.refusal(&restored)) {
            return error.write(self.out);
        }
        for restored in all() {
            match restored
                .ok()
                .and_then(|restored| Payload::of(restored.payload).map(|payload| (restored, payload)))
            {
                Some((restored, payload)) if payload.continues => self.restore_more(restored.key, &payload),
                Some((restored, payload)) => self.restore_object(&restored, &payload),
                None => {}
            }
        }
        self.out.ok();
    }

    /// Why it cannot be put, if so.
    fn refusal(&self, restored: &Result<RestoredObject<'_>, ReplyError>) -> Option<ReplyError> {
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => return Some(error.clone()),
        };
        let Some(payload) = Payload::of(restored.payload) else {
            return Some(ReplyError::BadPayload);
        };
        if !payload.continues {
            return (!object_codec::check(payload.form, payload.value)).then_some(ReplyError::BadPayload);
        }
        let location = self.locate(restored.key);
        let found = self.keyspace.database(self.db).find(location, restored.key);
        let is_of_form = found.is_some_and(|object| object_codec::code(&object) == payload.form);
        match payload.form > LAST_FLAT && object_codec::are_elements(payload.form, payload.value) {
            true if is_of_form => None,
            true => Some(ReplyError::NothingToContinue),
            false => Some(ReplyError::BadPayload),
        }
    }

    fn restore_object(&mut self, restored: &RestoredObject<'_>, payload: &Payload<'_>) {
        let key = restored.key;
        if restored.deadline.is_some_and(|deadline| deadline <= self.time()) {
            self.delete_and_note(key);
            return;
        }
        let mut head = Vec::new();
        head.bytes(key);
        head.u8(payload.flags & !object_codec::HAS_DEADLINE | u8::from(restored.deadline.is_some()));
        head.i64(restored.deadline.map_or(0, |UnixMillis(millis)| millis));
        head.u8(payload.form);
        let head = Head::read(&mut Reader::new(&head)).expect("it was written a moment ago");
        let mut object = match object_codec::decode(payload.form, key, payload.value, restored.deadline) {
            Some(object) => object,
            // A large collection with a member twice, which nobody writes: `check` does not look for it.
            None if payload.form > LAST_FLAT => return,
            None => head.object(payload.value, self.keyspace.source()),
        };
        object.set_version(self.version());
        self.store(object);
        self.event(EventClasses::GENERIC, "restore", key);
    }

    /// Adds elements to a large collection that is there. Members that are there already stay, with the value that is given.
    fn restore_more(&mut self, key: &[u8], payload: &Payload<'_>) {
        let location = self.locate(key);
        let node_size = self.keyspace.limits().list_node_size;
        self.update(location, key, |change| {
            if let Some(large) = change.object.large_mut() {
                object_codec::merge_elements(payload.value, large, node_size);
            }
            change.mark();
        });
        self.event(EventClasses::GENERIC, "restore", key);
    }
}

/// The last word of the three: `format | flags | form | value`.
struct Payload<'a> {
    flags: u8,
    continues: bool,
    form: u8,
    value: &'a [u8],
}

impl<'a> Payload<'a> {
    fn of(bytes: &'a [u8]) -> Option<Payload<'a>> {
        let (&[RESTORE_FORMAT, flags, form], value) = bytes.split_first_chunk()? else {
            return None;
        };
        Some(Payload {
            flags: flags & !RESTORE_CONTINUES,
            continues: flags & RESTORE_CONTINUES != 0,
            form,
            value,
        })
    }
}
