//! A state that comes from another replica has that one's rows. Whoever had rows of its own of the same values keeps them instead.
//!
//! ```text
//!   chunk: k1 whole | k2 row 0 | k3 row 0       state before: k2 row 1 | k9 row 1 (k3 has been renamed from k9)
//!          |          |          |
//!          as it is   row 1      row 1          --> the receiver, and the disk
//! ```
//!
//! Otherwise a replica that was away for longer than the log goes back would have to make its rows anew of those of two others; and if one of
//! them is lost, nobody could: a loss that the code does not bear, though one replica alone is lost.
//!
//! Values are the same if they have the same length and checksum. Of a settled value every holder has had its row, so what is not found under its
//! key has been given another name since.

use super::HEAD_BYTES_MAX;
use crate::fields::read_stored_db;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::object_codec::{self, CODED, Head};
use crate::staging;
use crate::transfer::{AT, BEGIN, EMPTY, END, FORMAT_CODED, GONE, OBJECT, PART, PART_BEGINS, PIECE, STAGED};
use codec::{DecodeError, Reader, Writer};
use coding::{Fragment, FragmentHead};
use ids::Db;
use mutations::Mutation;
use std::collections::BTreeMap;
use std::ops::Range;

/// A key with its database.
type FullKey = (Db, Box<[u8]>);

/// What is known of a transfer whose chunks are looked through. See the file's header.
#[derive(Default)]
pub struct OwnRows {
    /// By database, the long fragment of which pieces come.
    open: BTreeMap<Db, Open>,
    /// Where there is a row of the value with this checksum and length; made when one is first missed.
    by_value: Option<BTreeMap<(u32, usize), FullKey>>,
}

enum Open {
    /// Nothing of it has come but its key, and bytes that are held back: too few to tell what it is.
    Begun(Box<[u8]>, Vec<u8>),
    /// Another row was written in the place of its first piece.
    Replaced,
}

/// What is to stand in the place of some bytes of a chunk.
type Patch = (Range<usize>, Vec<u8>);

impl OwnRows {
    /// The next chunk of a transfer, with rows of `former` in the place of others; `None` if it is to be as it is.
    pub fn put_in(&mut self, former: &Keyspace, chunk: &[u8]) -> Option<Vec<u8>> {
        if former.coding.is_none() || former.key_count() == 0 || mutations::is(Mutation::OwnRowsLost) {
            return None;
        }
        let mut patches = Vec::new();
        // What is no chunk is found where it is taken.
        self.look_through(former, chunk, &mut patches).ok()?;
        if patches.is_empty() {
            return None;
        }
        let (mut out, mut at) = (Vec::with_capacity(chunk.len()), 0);
        for (range, bytes) in patches {
            out.extend_from_slice(&chunk[at..range.start]);
            out.extend_from_slice(&bytes);
            at = range.end;
        }
        out.extend_from_slice(&chunk[at..]);
        Some(out)
    }

    fn look_through(
        &mut self,
        former: &Keyspace,
        chunk: &[u8],
        patches: &mut Vec<Patch>,
    ) -> Result<(), DecodeError> {
        let rest = &mut Reader::new(chunk);
        if rest.u8()? != FORMAT_CODED {
            return Ok(());
        }
        let _number = rest.u64()?;
        let seed = object_codec::read_seed(rest)?;
        let partitions = object_codec::read_partitions(rest)?;
        object_codec::read_placing(seed, partitions, true, rest)?;
        let origins: [u8; Db::COUNT as usize] = rest.array()?;
        self.arrange(&origins);
        while !rest.is_empty() {
            match rest.u8()? {
                STAGED => _ = staging::read_piece(rest)?,
                PART_BEGINS => {
                    let _number = rest.u32()?;
                    match rest.u8()? {
                        0 => _ = rest.u64()?,
                        _ => _ = begun(rest)?,
                    }
                }
                PART => {
                    let _number = rest.u32()?;
                    rest.bytes()?;
                }
                GONE => _ = rest.u32()?,
                tag @ (AT | OBJECT | BEGIN | PIECE | END) => {
                    let db = read_stored_db(rest)?;
                    match tag {
                        AT => {
                            let (_partition, _hash) = (rest.u16()?, rest.u64()?);
                            for _ in 0..rest.u32()? {
                                self.object(former, db, chunk, rest, patches)?;
                            }
                        }
                        OBJECT => self.object(former, db, chunk, rest, patches)?,
                        BEGIN => {
                            let head = begun(rest)?;
                            self.open.remove(&db);
                            if head.form == CODED {
                                self.open.insert(db, Open::Begun(head.key.into(), Vec::new()));
                            }
                        }
                        PIECE => self.piece(former, db, chunk, rest, patches)?,
                        _ => _ = self.open.remove(&db),
                    }
                }
                // Behind the rest of the state there are no objects.
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Databases have changed places.
    fn arrange(&mut self, origins: &[u8; Db::COUNT as usize]) {
        let mut before = std::mem::take(&mut self.open);
        for (db, &origin) in (0..).zip(origins).filter(|(_, origin)| **origin != EMPTY) {
            if let Some((db, from)) = Db::stored(db).zip(Db::stored(origin))
                && let Some(open) = before.remove(&from)
            {
                self.open.insert(db, open);
            }
        }
        // Those that are no client's stay where they are.
        before.retain(|db, _| db.index() >= usize::from(Db::COUNT));
        self.open.append(&mut before);
    }

    fn object(
        &mut self,
        former: &Keyspace,
        db: Db,
        chunk: &[u8],
        rest: &mut Reader<'_>,
        patches: &mut Vec<Patch>,
    ) -> Result<(), DecodeError> {
        let _version = rest.u64()?;
        let head = Head::read(rest)?;
        let from = chunk.len() - rest.rest().len();
        let value = rest.bytes()?;
        if head.form == CODED
            && let Ok(arrived) = Fragment::read(value)
        {
            self.replace(
                former,
                db,
                head.key,
                arrived.head,
                from..chunk.len() - rest.rest().len(),
                patches,
            );
        }
        Ok(())
    }

    fn piece(
        &mut self,
        former: &Keyspace,
        db: Db,
        chunk: &[u8],
        rest: &mut Reader<'_>,
        patches: &mut Vec<Patch>,
    ) -> Result<(), DecodeError> {
        let from = chunk.len() - rest.rest().len();
        let piece = rest.bytes()?;
        let range = from..chunk.len() - rest.rest().len();
        match self.open.remove(&db) {
            Some(Open::Begun(key, mut before)) => {
                before.extend_from_slice(piece);
                match FragmentHead::of_beginning(&before) {
                    None if before.len() < HEAD_BYTES_MAX => {
                        patches.push((range, with_length(&[])));
                        self.open.insert(db, Open::Begun(key, before));
                    }
                    Some(arrived) if self.replace(former, db, &key, arrived, range.clone(), patches) => {
                        self.open.insert(db, Open::Replaced);
                    }
                    _ if before.len() > piece.len() => patches.push((range, with_length(&before))),
                    _ => {}
                }
            }
            Some(Open::Replaced) => {
                patches.push((range, with_length(&[])));
                self.open.insert(db, Open::Replaced);
            }
            None => {}
        }
        Ok(())
    }

    /// Notes a row of `former` for the place of one that has come, which `range` has with its length before it. Whether there is one.
    fn replace(
        &mut self,
        former: &Keyspace,
        db: Db,
        key: &[u8],
        arrived: FragmentHead,
        range: Range<usize>,
        patches: &mut Vec<Patch>,
    ) -> bool {
        let Some(row) = self.row_of(former, db, key, arrived) else {
            return false;
        };
        patches.push((range, with_length(&row)));
        true
    }

    fn row_of(&mut self, former: &Keyspace, db: Db, key: &[u8], arrived: FragmentHead) -> Option<Vec<u8>> {
        if db.index() >= former.databases.len() {
            return None;
        }
        if let Some(row) = former
            .peek_object(db, key)
            .and_then(|object| row_in(former, &object, arrived))
        {
            return Some(row);
        }
        let by_value = self.by_value.get_or_insert_with(|| rows_by_value(former));
        let (db, key) = by_value.get(&(arrived.checksum, arrived.length))?;
        let object = former.peek_object(*db, key)?;
        row_in(former, &object, arrived)
    }
}

/// As values and pieces stand in a chunk.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size_of::<u32>() + bytes.len());
    out.bytes(bytes);
    out
}

/// What stands before the pieces of a long value.
fn begun<'a>(rest: &mut Reader<'a>) -> Result<Head<'a>, DecodeError> {
    let head = Head::read(rest)?;
    let _version = rest.u64()?;
    object_codec::read_seed(rest)?;
    let _length = rest.u64()?;
    Ok(head)
}

/// The row of this value that an object has, or can make; `None` if it is another value, or the same row.
fn row_in(former: &Keyspace, object: &Object, arrived: FragmentHead) -> Option<Vec<u8>> {
    let is_same = |head: &FragmentHead| {
        (head.checksum, head.length, head.code) == (arrived.checksum, arrived.length, arrived.code)
            && head.row != arrived.row
    };
    let mut bytes = Vec::new();
    if let Some(coded) = object.coded() {
        let fragment = coded.fragment();
        return is_same(&fragment.head).then(|| coded.bytes().to_vec());
    }
    let whole = object.whole().filter(|whole| whole.len() == arrived.length)?;
    let head = former.coding.as_ref()?.head(whole).filter(is_same)?;
    head.write_fragment(whole, &mut bytes);
    Some(bytes)
}

fn rows_by_value(former: &Keyspace) -> BTreeMap<(u32, usize), FullKey> {
    let mut found = BTreeMap::new();
    for db in (0..Db::STORED)
        .filter_map(Db::stored)
        .filter(|db| db.index() < former.databases.len())
    {
        former.database(db).for_each(|object| {
            if let Some(coded) = object.coded() {
                found.insert((coded.checksum(), coded.length()), (db, object.key().into()));
            }
        });
    }
    found
}
