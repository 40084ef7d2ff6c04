//! Long parts of a state that are no objects: an operation that waits for locks, what a transaction has prepared, replies that may not
//! have arrived.
//!
//! What is no object goes with the last chunk (`keyspace/remainder.rs`), which would take long if any of it were long. So
//! that goes before, in pieces, and the last chunk only says which part it is.
//!
//! ```text
//!   sender   [ begin 4, piece ] [ piece ] [ piece, begin 5, piece ] [ gone 4, begin 6, piece | rest: ... 5 ... 6 ... ]
//! ```
//!
//! Invariants:
//! 1. A part never changes while it is there, and another one has another name or length: what was sent of it stays right.
//! 2. The last chunk names only what was sent to its end.

use super::pieces::{self, Partial, Place};
use super::{GONE, PART, PART_BEGINS};
use crate::keyspace::Keyspace;
use crate::lazyfree::Lazyfree;
use crate::object::Object;
use crate::transactions::Origin;
use codec::{COUNT_BYTES, DecodeError, Reader, Writer, fill_count};
use ids::GatewayId;
use mutations::Mutation;
use std::collections::BTreeMap;
use txn::{RequestId, TxnId};

/// Stands for the length of a text that came before: its number follows.
const CAME_BEFORE: u32 = u32::MAX;

/// A part begins that is a run of bytes, of which the length follows.
const RUN: u8 = 0;

/// A part begins that is a large collection, of which the head follows.
const COLLECTION: u8 = 1;

/// Which part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PartId {
    /// An operation that waits for locks.
    Waiting(RequestId),
    /// The value of an effect of a transaction that is prepared: the effect's index.
    Effect(TxnId, u32),
    /// Its commands that are to be carried out when it is committed.
    InPlace(TxnId),
    /// What it is to put.
    Put(TxnId),
    /// What a transaction was answered that has ended.
    Ended(TxnId),
    /// An answer that came later than its batch.
    Deferred(Origin),
    /// What a batch was answered: its number.
    Record(GatewayId, u64),
}

/// A part as it is in the state.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Bytes.
    Run(&'a [u8]),
    /// An object whose value is a large collection.
    Collection(&'a Object),
}

impl Part<'_> {
    /// Bytes, about.
    pub(crate) fn len(self) -> usize {
        match self {
            Part::Run(bytes) => bytes.len(),
            Part::Collection(object) => object.memory(),
        }
    }
}

/// How far a transfer is with each part.
#[derive(Default, Debug)]
pub(crate) struct SentParts {
    sent: BTreeMap<PartId, Sent>,
    /// Parts that were begun.
    begun: u32,
    /// Bytes of those that went before the last chunk named them.
    vain_bytes: usize,
}

#[derive(Debug)]
struct Sent {
    number: u32,
    /// Of the whole.
    len: usize,
    bytes: usize,
    /// Where the next piece begins; `None` if there is none.
    next: Option<Place>,
}

impl SentParts {
    /// Bytes that were not sent, of parts that have at least `min`.
    pub(crate) fn left(&self, keyspace: &Keyspace, min: usize) -> usize {
        let mut left = 0;
        keyspace.each_part(&mut |id, part| {
            if part.len() >= min {
                left += match self.sent.get(&id) {
                    None => part.len(),
                    Some(Sent { next: None, .. }) => 0,
                    Some(sent) => part.len().saturating_sub(sent.bytes),
                };
            }
        });
        left
    }

    /// Bytes that were sent of parts that are not there any more.
    pub(crate) fn vain_bytes(&self) -> usize {
        self.vain_bytes
    }

    /// Writes what was not sent of parts that have at least `min` bytes, until there is so much. Whether nothing is left.
    pub(crate) fn send(&mut self, keyspace: &Keyspace, min: usize, limit: usize, to: &mut Vec<u8>) -> bool {
        let mut there = BTreeMap::new();
        keyspace.each_part(&mut |id, part| {
            if part.len() >= min {
                there.insert(id, part.len());
            }
        });
        let has_gone = |id: &PartId, sent: &mut Sent| there.get(id) != Some(&sent.len);
        let all_gone: Vec<Sent> = self.sent.extract_if(.., has_gone).map(|(_, gone)| gone).collect();
        for gone in all_gone {
            let is_new = |(id, len): &(&PartId, &usize)| **len == gone.len && !self.sent.contains_key(id);
            if mutations::is(Mutation::PartTakenForAnother)
                && let Some((id, _)) = there.iter().find(is_new)
            {
                self.sent.insert(*id, gone);
                continue;
            }
            self.vain_bytes += gone.bytes;
            to.u8(GONE);
            to.u32(gone.number);
        }
        let mut are_all_sent = true;
        if !there.is_empty() {
            keyspace.each_part(&mut |id, part| {
                if part.len() >= min && self.number(id).is_none() {
                    are_all_sent &= to.len() < limit && self.send_piece(id, part, limit, to);
                }
            });
        }
        are_all_sent
    }

    /// Whether it was the last piece.
    fn send_piece(&mut self, id: PartId, part: Part<'_>, limit: usize, to: &mut Vec<u8>) -> bool {
        let begun = &mut self.begun;
        let sent = self.sent.entry(id).or_insert_with(|| {
            *begun += 1;
            begin(*begun, part, to);
            Sent {
                number: *begun,
                len: part.len(),
                bytes: 0,
                next: Some(Place::Index(0)),
            }
        });
        to.u8(PART);
        to.u32(sent.number);
        let length_at = to.len();
        to.count(0);
        // A piece's length has 32 bits, however large the chunk may be.
        let budget = limit.saturating_sub(length_at).clamp(1, 1 << 30);
        sent.next = match part {
            Part::Run(bytes) => {
                let end = bytes.len().min(sent.bytes + budget);
                to.raw(&bytes[sent.bytes..end]);
                (end < bytes.len()).then_some(Place::Index(end))
            }
            Part::Collection(object) => pieces::write(to, object, sent.next, budget),
        };
        fill_count(to, length_at);
        sent.bytes += to.len() - length_at - COUNT_BYTES;
        sent.next.is_none()
    }

    /// The number of a part that was sent to its end.
    pub(crate) fn number(&self, id: PartId) -> Option<u32> {
        let sent = self.sent.get(&id)?;
        sent.next.is_none().then_some(sent.number)
    }

    /// Writes the bytes behind their length, or which part they are.
    pub(crate) fn text(&self, id: PartId, bytes: &[u8], to: &mut Vec<u8>) {
        match self.number(id) {
            Some(number) => {
                to.u32(CAME_BEFORE);
                to.u32(number);
            }
            None => to.bytes(bytes),
        }
    }
}

fn begin(number: u32, part: Part<'_>, to: &mut Vec<u8>) {
    to.u8(PART_BEGINS);
    to.u32(number);
    match part {
        Part::Run(bytes) => {
            to.u8(RUN);
            to.u64(bytes.len() as u64);
        }
        Part::Collection(object) => {
            to.u8(COLLECTION);
            pieces::write_head(to, object);
        }
    }
}

/// The parts that have come, whole or not, by their numbers: the receiver's side.
#[derive(Default)]
pub(crate) struct Parts(BTreeMap<u32, Arriving>);

enum Arriving {
    Run { bytes: Vec<u8>, length: u64 },
    Collection(Partial),
}

impl Parts {
    /// Reads what stands behind `tag`; `None` if that is no record of parts.
    pub(crate) fn record(
        &mut self,
        tag: u8,
        rest: &mut Reader<'_>,
        lazyfree: &mut Lazyfree,
    ) -> Result<(), DecodeError> {
        let number = rest.u32()?;
        let unknown = rest.error("a part that follows those before");
        let done = match tag {
            PART_BEGINS => {
                let part = match rest.u8()? {
                    RUN => {
                        let length = rest.u64()?;
                        // Whoever announces much takes no more room than one value may have; what is beyond moves as it grows.
                        let is_within = self.announced().saturating_add(length) <= pieces::FLAT_ROOM_MAX;
                        let bytes = pieces::room(if is_within { length } else { 0 }).ok_or(unknown)?;
                        Arriving::Run { bytes, length }
                    }
                    COLLECTION => Arriving::Collection(Partial::read(rest)?),
                    _ => return Err(unknown),
                };
                self.0.insert(number, part).is_none().then_some(())
            }
            PART => {
                let piece = rest.bytes()?;
                match self.0.get_mut(&number).ok_or(unknown)? {
                    Arriving::Run { bytes, length } => {
                        let is_within = (bytes.len() + piece.len()) as u64 <= *length;
                        is_within.then(|| bytes.extend_from_slice(piece))
                    }
                    Arriving::Collection(partial) => partial.add(piece),
                }
            }
            GONE => {
                discard(self.0.remove(&number).ok_or(unknown)?, lazyfree);
                Some(())
            }
            _ => None,
        };
        done.ok_or(unknown)
    }

    /// Bytes that runs are said to have.
    fn announced(&self) -> u64 {
        let lengths = self.0.values().map(|part| match part {
            Arriving::Run { length, .. } => *length,
            Arriving::Collection(_) => 0,
        });
        lengths.fold(0, u64::saturating_add)
    }

    /// Reads what [`SentParts::text`] wrote; `None` if it is nothing like it.
    pub(crate) fn text(&mut self, rest: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        match rest.u32()? {
            CAME_BEFORE => self.run(rest),
            length => rest.take(length as usize).map(<[u8]>::to_vec),
        }
    }

    /// The bytes whose number follows; `None` if they have not come, or not all of them.
    pub(crate) fn run(&mut self, rest: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        let missing = rest.error("a run of bytes that has come");
        match self.0.remove(&rest.u32()?) {
            Some(Arriving::Run { bytes, length }) if bytes.len() as u64 == length => Ok(bytes),
            _ => Err(missing),
        }
    }

    /// The object whose number follows.
    pub(crate) fn collection(&mut self, rest: &mut Reader<'_>) -> Result<Object, DecodeError> {
        let missing = rest.error("a collection that has come");
        let object = match self.0.remove(&rest.u32()?) {
            Some(Arriving::Collection(partial)) => partial.finish(),
            Some(Arriving::Run { .. }) | None => None,
        };
        object.ok_or(missing)
    }

    /// Drops what nobody has asked for.
    pub(crate) fn discard(&mut self, lazyfree: &mut Lazyfree) {
        for part in std::mem::take(&mut self.0).into_values() {
            discard(part, lazyfree);
        }
    }
}

fn discard(part: Arriving, lazyfree: &mut Lazyfree) {
    if let Arriving::Collection(partial) = part
        && let Some(large) = partial.into_large()
    {
        lazyfree.add_large(large);
    }
}
