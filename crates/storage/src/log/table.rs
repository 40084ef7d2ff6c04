//! The table of a batch: how far the logs of its groups go.
//!
//! A row speaks of a group as it is behind the batch. A group stands in the table of each batch that has records of it, and in that of
//! the batch behind: if one batch is damaged, the next one says whose records it had, and what must have been there.

use super::Place;
use codec::{DecodeError, Reader, Writer};
use consensus::{HardState, Index, Term};
use ids::{GroupId, Incarnation};

const IN_THIS: u8 = 1;
const IN_BEFORE: u8 = 2;
const HAS_LOG: u8 = 4;
/// Bytes of the shortest row.
const ROW_BYTES_MIN: usize = 3;

/// What is said of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) group: GroupId,
    /// Whether this batch has records of it.
    pub(crate) is_in_this: bool,
    /// Whether the batch before has.
    pub(crate) is_in_before: bool,
    /// `None` if its log has ended.
    pub(crate) reached: Option<Reached>,
}

/// How far a group's log goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    pub(crate) incarnation: Incarnation,
    pub(crate) generation: u64,
    /// Of its last entry, or of its start.
    pub(crate) last: Place,
    pub(crate) term: Term,
    pub(crate) vote: Option<Incarnation>,
    /// What it must reach before it counts as whole, or zeros.
    pub(crate) floor: Place,
}

impl Reached {
    /// What a log proves that says `last` and `hard`.
    pub(crate) fn new(
        (incarnation, generation): (Incarnation, u64),
        last: Place,
        hard: &HardState,
        floor: Option<Place>,
    ) -> Reached {
        Reached {
            incarnation,
            generation,
            last,
            term: hard.term,
            vote: hard.vote,
            floor: floor.unwrap_or_default(),
        }
    }
}

pub(crate) fn write(out: &mut Vec<u8>, rows: &[Row]) {
    out.list(rows, |out, row| {
        out.u16(row.group.number());
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        out.u8(bit(row.is_in_this, IN_THIS)
            | bit(row.is_in_before, IN_BEFORE)
            | bit(row.reached.is_some(), HAS_LOG));
        let Some(reached) = &row.reached else { return };
        let (last, floor) = (reached.last, reached.floor);
        for number in [
            reached.incarnation.0,
            reached.generation,
            last.0.0,
            last.1.0,
            reached.term.0,
            reached.vote.map_or(0, |vote| vote.0),
            floor.0.0,
            floor.1.0,
        ] {
            out.varint(number);
        }
    });
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Row>, DecodeError> {
    reader.list(ROW_BYTES_MIN, read_row)
}

fn read_row(reader: &mut Reader<'_>) -> Result<Row, DecodeError> {
    let group = GroupId::new(reader.u16()?);
    let bits = reader.u8()?;
    if bits & !(IN_THIS | IN_BEFORE | HAS_LOG) != 0 {
        return Err(reader.unknown("the bits of a row"));
    }
    let reached = match bits & HAS_LOG {
        0 => None,
        _ => Some(Reached {
            incarnation: Incarnation(reader.varint()?),
            generation: reader.varint()?,
            last: read_place(reader)?,
            term: Term(reader.varint()?),
            vote: Some(Incarnation(reader.varint()?)).filter(|vote| vote.0 > 0),
            floor: read_place(reader)?,
        }),
    };
    Ok(Row {
        group,
        is_in_this: bits & IN_THIS != 0,
        is_in_before: bits & IN_BEFORE != 0,
        reached,
    })
}

fn read_place(reader: &mut Reader<'_>) -> Result<Place, DecodeError> {
    Ok((Term(reader.varint()?), Index(reader.varint()?)))
}
