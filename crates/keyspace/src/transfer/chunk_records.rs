//! The chunks of a copy of the objects alone, record by record, for whoever keeps them without making a keyspace of them.
//!
//! It is total on any bytes: what is no such chunk is an error.

use super::{AT, BEGIN, EMPTY, END, FORMAT, FORMAT_CODED, FORMAT_OF_MOVES, OBJECT, PIECE};
use crate::directories::Location;
use crate::fields::read_db;
use crate::object_codec::{self, CODED, Head};
use codec::{DecodeError, Reader};
use ids::{Db, HashSeed, PartitionId};

/// Bytes of a seed in front of the elements of a large set, hash or sorted set.
const SEED_BYTES: usize = size_of::<HashSeed>();

/// Which keys: those of one hash, in one partition of one database. In this order they are gone through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecordPlace {
    /// The database, as it was numbered when the chunk was made.
    pub db: Db,
    /// The partition of the cluster.
    pub partition: PartitionId,
    /// The hash.
    pub hash: u64,
}

/// What a chunk says. Heads and values are as objects are written everywhere (`object_codec.rs`).
#[derive(Debug)]
pub enum ChunkRecord<'a> {
    /// Each database is what the one of this number was before; `None` an empty one. Each is named once at most.
    Arranged([Option<u8>; Db::COUNT as usize]),
    /// Exactly the objects that follow are there.
    Cleared(RecordPlace),
    /// An object.
    Object {
        /// Where.
        place: RecordPlace,
        /// Key, flags, deadline and form.
        head: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A large object begins. Its value is `begin` and the pieces that follow.
    Begun {
        /// Where.
        place: RecordPlace,
        /// Key, flags, deadline and form.
        head: &'a [u8],
        /// The beginning of the value.
        begin: &'a [u8],
    },
    /// A piece of the large object that was begun in this database.
    Piece(Db, &'a [u8]),
    /// It is complete.
    Ended(Db),
}

/// The head of an object that is whole: a fragment is nothing that anybody could keep.
fn whole_head<'a>(rest: &mut Reader<'a>) -> Result<Head<'a>, DecodeError> {
    let coded = rest.error("an object, and not a fragment of its value");
    let head = Head::read(rest)?;
    match head.form {
        CODED => Err(coded),
        _ => Ok(head),
    }
}

/// Goes through the records of a chunk of objects; answers its number.
///
/// # Errors
/// What is no such chunk, and what `visit` refuses.
pub fn read_records<'a, E: From<DecodeError>>(
    chunk: &'a [u8],
    mut visit: impl FnMut(ChunkRecord<'a>) -> Result<(), E>,
) -> Result<u64, E> {
    let rest = &mut Reader::new(chunk);
    let unknown = rest.error("a format that this build knows");
    let has_moves = match rest.u8()? {
        FORMAT => false,
        FORMAT_OF_MOVES | FORMAT_CODED => true,
        _ => return Err(unknown.into()),
    };
    let number = rest.u64()?;
    let seed = object_codec::read_seed(rest)?;
    let partitions = object_codec::read_partitions(rest)?;
    let (placing, _) = object_codec::read_placing(seed, partitions, has_moves, rest)?;
    let twice = rest.error("where each database comes from, none twice");
    let origins: [u8; Db::COUNT as usize] = rest.array()?;
    let mut named = [false; Db::COUNT as usize];
    for origin in origins.into_iter().filter(|origin| *origin != EMPTY) {
        match named.get_mut(usize::from(origin)) {
            Some(named) if !*named => *named = true,
            _ => return Err(twice.into()),
        }
    }
    visit(ChunkRecord::Arranged(
        origins.map(|origin| (origin != EMPTY).then_some(origin)),
    ))?;
    let place_of = |db, Location { partition, hash }: Location| RecordPlace {
        db,
        partition: partitions.at(partition),
        hash: hash.0,
    };
    let locate = |db, key: &[u8]| place_of(db, placing.locate(key));
    let object = |db, rest: &mut Reader<'a>| {
        let _version = rest.u64()?;
        let before = rest.rest();
        let key = whole_head(rest)?.key;
        let head = &before[..before.len() - rest.rest().len()];
        let value = rest.bytes()?;
        Ok::<_, DecodeError>(ChunkRecord::Object {
            place: locate(db, key),
            head,
            value,
        })
    };
    while !rest.is_empty() {
        let unknown = rest.error("a record of objects");
        let tag = rest.u8()?;
        let db = read_db(rest)?;
        match tag {
            AT => {
                let foreign = rest.error("a partition that is here");
                let (partition, hash) = (rest.u16()?, ids::KeyHash(rest.u64()?));
                if usize::from(partition) >= partitions.len() {
                    return Err(foreign.into());
                }
                let place = place_of(db, Location { partition, hash });
                visit(ChunkRecord::Cleared(place))?;
                for _ in 0..rest.u32()? {
                    visit(object(db, rest)?)?;
                }
            }
            OBJECT => visit(object(db, rest)?)?,
            BEGIN => {
                let before = rest.rest();
                let (key, form) = {
                    let head = whole_head(rest)?;
                    (head.key, head.form)
                };
                let head = &before[..before.len() - rest.rest().len()];
                let _version = rest.u64()?;
                let seed = &rest.rest()[..rest.rest().len().min(SEED_BYTES)];
                object_codec::read_seed(rest)?;
                let _length = rest.u64()?;
                let begin = if object_codec::has_seed(form) { seed } else { &[] };
                let place = locate(db, key);
                visit(ChunkRecord::Begun { place, head, begin })?;
            }
            PIECE => {
                let piece = rest.bytes()?;
                visit(ChunkRecord::Piece(db, piece))?;
            }
            END => visit(ChunkRecord::Ended(db))?,
            _ => return Err(unknown.into()),
        }
    }
    Ok(number)
}
