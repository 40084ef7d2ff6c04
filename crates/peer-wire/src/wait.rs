//! Clients of a node that wait for keys of a group of which it has no replica.
//!
//! ```text
//!  await   group u16 | db u8 | is_on u8 | key to the end of the message
//!  filled  group u16 | db u8 | is_kept u8 | key to the end of the message
//! ```
//!
//! *Await* goes to a node with a replica, which keeps it until it is taken back, or until the link breaks. *Filled* says
//! that the key may hold something; and, if it is not kept, that nothing more will be said.

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use ids::{Db, GroupId};

/// Whether a node wants to be told when a key is filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Await {
    /// The key's group.
    pub group: GroupId,
    /// Its database.
    pub db: Db,
    /// Whether it wants to be told, from now on, or not any more.
    pub is_on: bool,
    /// The key.
    pub key: Bytes,
}

/// A key may have been filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filled {
    /// The key's group.
    pub group: GroupId,
    /// Its database.
    pub db: Db,
    /// Whether it is told of the next time too. If not, it has to ask again.
    pub is_kept: bool,
    /// The key.
    pub key: Bytes,
}

impl Await {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        2 + 1 + 1 + self.key.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        encode(out, self.group, self.db, self.is_on, &self.key);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Await, DecodeError> {
        let (group, db, is_on, key) = decode(reader)?;
        Ok(Await {
            group,
            db,
            is_on,
            key,
        })
    }
}

impl Filled {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        2 + 1 + 1 + self.key.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        encode(out, self.group, self.db, self.is_kept, &self.key);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Filled, DecodeError> {
        let (group, db, is_kept, key) = decode(reader)?;
        Ok(Filled {
            group,
            db,
            is_kept,
            key,
        })
    }
}

fn encode(out: &mut impl Writer, group: GroupId, db: Db, flag: bool, key: &Bytes) {
    out.u16(group.number());
    out.u8(db.number());
    out.bool(flag);
    out.raw(key);
}

fn decode(reader: &mut Reader<'_>) -> Result<(GroupId, Db, bool, Bytes), DecodeError> {
    let group = GroupId::new(reader.u16()?);
    let unknown = reader.error("a database that there is");
    let db = Db::new(reader.u8()?).ok_or(unknown)?;
    Ok((group, db, reader.bool()?, reader.shared_remainder()))
}
