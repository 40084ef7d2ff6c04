//! A command on its way to a group, and what of it is long.

use crate::operation::Operation;
use bytes::Bytes;
use command::{Flags, Spec};
use ids::{Db, Monotonic, Slot};
use keyspace::KEPT_BYTES_MIN;
use resp::{Args, Protocol};
use std::time::Duration;

/// Bytes of what waits for an answer that are taken to be under way for a second: clients wait longer for what is long, and it is
/// not sent again meanwhile. A slow network carries as many to one node and from there to two others.
pub(super) const BYTES_PER_SECOND: usize = 16 * 1024 * 1024;

/// How much longer is waited for so many bytes.
pub fn time_of(bytes: usize) -> Duration {
    Duration::from_millis((bytes / (BYTES_PER_SECOND / 1_000)) as u64)
}

/// What is long, how it is cut, and what is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceSizes {
    /// Bytes of an operation from which on it goes in pieces.
    pub long_bytes_min: usize,
    /// Bytes of one piece: what others wait for that find it before them.
    pub piece_bytes: usize,
    /// Bytes of one request to a group: a value of the largest size with a good many words around it. What is longer is refused
    /// before anything of it is sent; an entry and a message between nodes have room for more ([`consensus::ENTRY_BYTES_MAX`]).
    pub request_bytes_max: usize,
    /// Bytes of the answers to the reads of one batch: as much. A read whose answer passes it is told so instead; a message between
    /// nodes has room for more.
    pub answers_bytes_max: usize,
    /// Bytes of one chunk of a state that is transferred: what a learner is sent at once.
    pub chunk_bytes: usize,
}

impl Default for PieceSizes {
    fn default() -> PieceSizes {
        PieceSizes {
            long_bytes_min: KEPT_BYTES_MIN,
            piece_bytes: 128 * 1024,
            request_bytes_max: 768 * 1024 * 1024,
            answers_bytes_max: 768 * 1024 * 1024,
            chunk_bytes: 128 * 1024,
        }
    }
}

/// Bytes that an entry has for each word beside it.
pub(super) const WORD_HEAD_BYTES: usize = 4;

impl PieceSizes {
    /// Whether a command goes in pieces.
    #[inline]
    pub fn is_long(&self, spec: &Spec, args: Args<'_>) -> bool {
        let bytes = args.byte_len() + args.len() * WORD_HEAD_BYTES;
        spec.flags.contains(Flags::WRITE) && bytes >= self.long_bytes_min
    }
}

/// A command on its way to a group.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Which command.
    pub spec: &'static Spec,
    /// The connection's database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Whether it counts as use of its keys.
    pub touches: bool,
    /// Whether its connection has nothing under way on the same slots: a read need not wait for what is in flight.
    pub is_free: bool,
    /// Since when it waits, if what it takes is to be told with its answer.
    pub began: Option<Monotonic>,
    /// Its words.
    pub args: Args<'a>,
    /// What they lie in, if that is so long that it is not copied: see [`keyspace::KEPT_BYTES_MIN`].
    pub frame: Option<&'a Bytes>,
}

impl<'a> Asked<'a> {
    /// A command that waited.
    pub fn of(operation: &'a Operation) -> Asked<'a> {
        let (spec, args) = operation.argv();
        Asked {
            spec,
            db: operation.db,
            protocol: operation.protocol,
            touches: true,
            is_free: false,
            began: None,
            args,
            frame: None,
        }
    }

    /// The same command, to outlive its frame.
    pub fn to_operation(&self) -> Operation {
        Operation {
            spec: self.spec,
            db: self.db,
            protocol: self.protocol,
            args: self.args.to_buf(),
        }
    }
}

/// The slot of a command's first key.
pub(super) fn first_slot(spec: &'static Spec, args: Args<'_>) -> Option<Slot> {
    if let Some(position) = command::only_key(spec) {
        return args.get(position).map(Slot::of_key);
    }
    let mut first = None;
    command::keys(spec, args, &mut |position, _| {
        first.get_or_insert_with(|| Slot::of_key(args.arg(position)));
    });
    first
}
