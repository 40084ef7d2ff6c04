//! What happened to a key, for the clients of another node that listen to keyspace notifications.
//!
//! ```text
//!  notify  db u8 | class u32 | length u32 | event | key to the end of the message
//! ```
//!
//! It is sent once, and becomes messages to channels where the clients are, as that node's settings say.

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use ids::Db;

/// What happened to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notify {
    /// The key's database.
    pub db: Db,
    /// The event's class, as `keyspace::EventClasses` has it.
    pub class: u32,
    /// What happened, as clients see it.
    pub event: Bytes,
    /// The key.
    pub key: Bytes,
}

impl Notify {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        1 + 4 + 4 + self.event.len() + self.key.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u8(self.db.number());
        out.u32(self.class);
        out.bytes(&self.event);
        out.raw(&self.key);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Notify, DecodeError> {
        let unknown = reader.error("a database that there is");
        Ok(Notify {
            db: Db::new(reader.u8()?).ok_or(unknown)?,
            class: reader.u32()?,
            event: reader.shared_bytes()?,
            key: reader.shared_remainder(),
        })
    }
}
