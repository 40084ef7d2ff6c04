//! A record of a batch: what has become of one group's log.
//!
//! ```text
//!  1 live      group u16 | incarnation u64 | generation u64 | point | hard state | entries
//!  2 append    group u16 | hard state | entries
//!  3 end       group u16
//!  4 snapshot  group u16 | incarnation u64 | generation u64 | point | hard state
//!  5 short     group u16 | hard state and entries with varints in place of all numbers of 64 bits, and of the vote, or 0
//!
//!  hard state  term u64 | option of the vote u64 | commit u64
//!  entries     count u32 | each as in `entry.rs`
//! ```
//!
//! *Short* says what *append* says. Where a batch holds few commands it is most of what a batch has beside them; *append* is what segments of
//! version 1 have.

use crate::entry;
use codec::{DecodeError, Reader, Writer};
use consensus::{HardState, Index, LogEntry, SnapshotPoint, Term};
use ids::{GroupId, Incarnation};

const LIVE: u8 = 1;
const APPEND: u8 = 2;
const END: u8 = 3;
const SNAPSHOT: u8 = 4;
const SHORT: u8 = 5;
/// Bytes of an entry without its payload.
const ENTRY_BYTES_MIN: usize = 25;
const SHORT_ENTRY_BYTES_MIN: usize = 4;

/// Of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) group: GroupId,
    pub(crate) change: Change,
}

/// What has become of its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// All of it stands here; nothing earlier counts.
    Live {
        incarnation: Incarnation,
        generation: u64,
        start: SnapshotPoint,
        hard: HardState,
        entries: Vec<LogEntry>,
    },
    /// Entries in place of those at the same or later places.
    Append {
        hard: HardState,
        entries: Vec<LogEntry>,
        is_short: bool,
    },
    /// It is void.
    End,
    /// It begins behind this point from now on: a snapshot of it is kept. Later entries stay.
    Snapshot {
        incarnation: Incarnation,
        generation: u64,
        point: SnapshotPoint,
        hard: HardState,
    },
}

pub(crate) fn write_live(
    out: &mut impl Writer,
    group: GroupId,
    ids: (Incarnation, u64),
    (start, hard): (&SnapshotPoint, &HardState),
    entries: &[LogEntry],
) {
    begin(out, LIVE, group);
    out.u64s(&[ids.0.0, ids.1]);
    start.encode(out);
    write_tail(out, hard, entries);
}

pub(crate) fn write_append(out: &mut impl Writer, group: GroupId, hard: &HardState, entries: &[LogEntry]) {
    begin(out, SHORT, group);
    out.varint(hard.term.0);
    out.varint(hard.vote.map_or(0, |vote| vote.0));
    out.varint(hard.commit.0);
    out.list(entries, entry::write_short);
}

pub(crate) fn write_end(out: &mut impl Writer, group: GroupId) {
    begin(out, END, group);
}

pub(crate) fn write_snapshot(
    out: &mut impl Writer,
    group: GroupId,
    ids: (Incarnation, u64),
    (point, hard): (&SnapshotPoint, &HardState),
) {
    begin(out, SNAPSHOT, group);
    out.u64s(&[ids.0.0, ids.1]);
    point.encode(out);
    write_hard(out, hard);
}

fn begin(out: &mut impl Writer, kind: u8, group: GroupId) {
    out.u8(kind);
    out.u16(group.number());
}

fn write_hard(out: &mut impl Writer, hard: &HardState) {
    out.u64(hard.term.0);
    out.option(&hard.vote, |out, vote| out.u64(vote.0));
    out.u64(hard.commit.0);
}

fn write_tail(out: &mut impl Writer, hard: &HardState, entries: &[LogEntry]) {
    write_hard(out, hard);
    out.list(entries, entry::write);
}

fn read_hard(reader: &mut Reader<'_>) -> Result<HardState, DecodeError> {
    Ok(HardState {
        term: Term(reader.u64()?),
        vote: reader.option(|reader| reader.u64().map(Incarnation))?,
        commit: Index(reader.u64()?),
    })
}

fn read_short_hard(reader: &mut Reader<'_>) -> Result<HardState, DecodeError> {
    Ok(HardState {
        term: Term(reader.varint()?),
        vote: Some(Incarnation(reader.varint()?)).filter(|vote| vote.0 > 0),
        commit: Index(reader.varint()?),
    })
}

fn read_entries(reader: &mut Reader<'_>) -> Result<Vec<LogEntry>, DecodeError> {
    reader.list(ENTRY_BYTES_MIN, entry::read)
}

impl Record {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let group = self.group;
        match &self.change {
            Change::Live {
                incarnation,
                generation,
                start,
                hard,
                entries,
            } => write_live(out, group, (*incarnation, *generation), (start, hard), entries),
            Change::Append {
                hard,
                entries,
                is_short: true,
            } => write_append(out, group, hard, entries),
            Change::Append {
                hard,
                entries,
                is_short: false,
            } => {
                begin(out, APPEND, group);
                write_tail(out, hard, entries);
            }
            Change::End => write_end(out, group),
            Change::Snapshot {
                incarnation,
                generation,
                point,
                hard,
            } => write_snapshot(out, group, (*incarnation, *generation), (point, hard)),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Record, DecodeError> {
        let kind = reader.u8()?;
        if !(LIVE..=SHORT).contains(&kind) {
            return Err(reader.unknown("a kind of record"));
        }
        let group = GroupId::new(reader.u16()?);
        let change = match kind {
            LIVE => Change::Live {
                incarnation: Incarnation(reader.u64()?),
                generation: reader.u64()?,
                start: SnapshotPoint::decode(reader)?,
                hard: read_hard(reader)?,
                entries: read_entries(reader)?,
            },
            APPEND => Change::Append {
                hard: read_hard(reader)?,
                entries: read_entries(reader)?,
                is_short: false,
            },
            SHORT => Change::Append {
                hard: read_short_hard(reader)?,
                entries: reader.list(SHORT_ENTRY_BYTES_MIN, entry::read_short)?,
                is_short: true,
            },
            END => Change::End,
            _ => Change::Snapshot {
                incarnation: Incarnation(reader.u64()?),
                generation: reader.u64()?,
                point: SnapshotPoint::decode(reader)?,
                hard: read_hard(reader)?,
            },
        };
        Ok(Record { group, change })
    }
}
