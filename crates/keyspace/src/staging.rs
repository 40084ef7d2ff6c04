//! Long operations on their way into the state: in pieces, each in an entry of its own, and carried out when all are there.
//!
//! ```text
//!  entries   | stage 7, 0.. | SET a 1 | stage 7, 256 KiB.. | DEL b | ... | staged 7 |
//!                                                                          ^ what the pieces are is carried out here
//! ```
//!
//! So no entry is long, and what is short does not wait for what is long: between two pieces there is room for it. Pieces are
//! state as anything else is. Whoever leads next has them, and a gateway goes on where it was.
//!
//! A gateway has one long operation under way in a group. Another one takes its place, and a piece that does not follow those
//! before it ends it: such an operation is never whole, and is not carried out. Large values in it are put together as they
//! come: `building.rs`.
//!
//! Invariants:
//! 1. Of no operation there is more than it is said to have.
//! 2. All of them together are said to have at most [`STAGED_BYTES_MAX`].

use crate::building::{Building, Built};
use crate::digest::Digest;
use crate::fields::{read_gateway, write_gateway};
use crate::lazyfree::Lazyfree;
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use ids::{Boot, GatewayId};
use mutations::Mutation;
use std::collections::BTreeMap;

/// Bytes of all that is under way to one group.
pub const STAGED_BYTES_MAX: usize = 1 << 30;

/// A piece of an operation in the format of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Which of its gateway's operations.
    pub number: u64,
    /// Bytes of the whole; 0 if there is to be none any more.
    pub whole_bytes: u64,
    /// Where the piece begins. The first one begins at 0.
    pub offset: u64,
    /// The piece.
    pub bytes: &'a [u8],
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Staging(BTreeMap<GatewayId, Staged>);

struct Staged {
    number: u64,
    whole_bytes: u64,
    bytes: Vec<u8>,
    building: Building,
}

impl Staging {
    /// An operation of a gateway, if all of it has come.
    pub(crate) fn peek(&self, gateway: GatewayId, number: u64) -> Option<&[u8]> {
        let staged = self.0.get(&gateway).filter(|staged| staged.number == number)?;
        (staged.bytes.len() as u64 == staged.whole_bytes).then_some(&staged.bytes)
    }

    /// Takes a piece.
    pub(crate) fn add(&mut self, gateway: GatewayId, piece: Piece<'_>, lazyfree: &mut Lazyfree) {
        let Piece {
            number,
            whole_bytes,
            offset,
            bytes,
        } = piece;
        if offset == 0 {
            self.remove(gateway, lazyfree);
            let others: u64 = self.0.values().map(|staged| staged.whole_bytes).sum();
            if whole_bytes == 0 || whole_bytes > (STAGED_BYTES_MAX as u64).saturating_sub(others) {
                return;
            }
            let staged = Staged {
                number,
                whole_bytes,
                // It takes no memory until it is filled, and nothing is copied twice.
                bytes: Vec::with_capacity(whole_bytes as usize),
                building: Building::default(),
            };
            self.0.insert(gateway, staged);
        }
        let Some(staged) = self.0.get_mut(&gateway) else {
            return;
        };
        let has = staged.bytes.len() as u64;
        let is_next = (staged.number, has) == (number, offset);
        if is_next && has + bytes.len() as u64 <= staged.whole_bytes {
            staged.bytes.extend_from_slice(bytes);
            let whole_bytes = staged.whole_bytes as usize;
            staged.building.follow(&staged.bytes, whole_bytes, lazyfree);
        } else {
            self.remove(gateway, lazyfree);
        }
    }

    fn remove(&mut self, gateway: GatewayId, lazyfree: &mut Lazyfree) {
        if let Some(staged) = self.0.remove(&gateway) {
            staged.building.discard(lazyfree);
        }
    }

    /// Takes an operation out, if all of it is there, with the large values that it puts, by where they begin.
    pub(crate) fn take(
        &mut self,
        gateway: GatewayId,
        number: u64,
        lazyfree: &mut Lazyfree,
    ) -> Option<(Bytes, BTreeMap<usize, Built>)> {
        let mut staged = self.0.remove(&gateway)?;
        let is_whole = staged.bytes.len() as u64 == staged.whole_bytes;
        if staged.number == number && is_whole {
            return Some((staged.bytes.into(), staged.building.take_built()));
        }
        staged.building.discard(lazyfree);
        None
    }

    /// Drops what the dead have begun.
    pub(crate) fn fence(&mut self, is_dead: impl Fn(Boot) -> bool, lazyfree: &mut Lazyfree) {
        let dead = self.0.extract_if(.., |gateway, _| is_dead(gateway.boot));
        dead.for_each(|(_, staged)| staged.building.discard(lazyfree));
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        digest.number(self.0.len() as u64);
        for (gateway, staged) in &self.0 {
            digest.number(gateway.boot.0).number(gateway.worker.into());
            digest.number(staged.number).number(staged.whole_bytes);
            digest.bytes(&staged.bytes);
        }
    }

    /// Bytes of what has come.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(|staged| staged.bytes.len()).sum()
    }

    /// Which operations there are, and how far each is: what a transfer ends with.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        if mutations::is(Mutation::PiecesNotMoved) {
            return to.count(0);
        }
        to.count(self.0.len());
        for (gateway, staged) in &self.0 {
            write_gateway(to, *gateway);
            to.u64s(&[staged.number, staged.bytes.len() as u64]);
        }
    }

    /// Reads what [`Staging::encode`] wrote, and keeps of what has come so much as is named there; an error if that did not come.
    pub(crate) fn settle(&mut self, rest: &mut Reader<'_>) -> Result<(), DecodeError> {
        let mut named = BTreeMap::new();
        for _ in 0..rest.u32()? {
            let missing = rest.error("an operation of which so much has come");
            let gateway = read_gateway(rest)?;
            let (number, bytes) = (rest.u64()?, rest.u64()?);
            let staged = self.0.get(&gateway);
            if staged.is_none_or(|staged| (staged.number, staged.bytes.len() as u64) != (number, bytes)) {
                return Err(missing);
            }
            named.insert(gateway, number);
        }
        self.0.retain(|gateway, _| named.contains_key(gateway));
        Ok(())
    }
}

/// How far a transfer is with each operation that is under way: its number, and how many bytes of it were sent.
#[derive(Default, Debug)]
pub(crate) struct SentStaging(BTreeMap<GatewayId, (u64, u64)>);

impl SentStaging {
    /// Bytes that were not sent.
    pub(crate) fn left(&self, staging: &Staging) -> usize {
        let left = staging.0.iter().map(|(gateway, staged)| {
            let known = self.0.get(gateway).filter(|(number, _)| *number == staged.number);
            staged.bytes.len() - known.map_or(0, |&(_, sent)| sent as usize)
        });
        left.sum()
    }

    /// Writes what was not sent, until there is so much. Whether nothing is left.
    pub(crate) fn send(&mut self, staging: &Staging, tag: u8, limit: usize, to: &mut Vec<u8>) -> bool {
        self.0.retain(|gateway, (number, _)| {
            let staged = staging.0.get(gateway);
            staged.is_some_and(|staged| staged.number == *number)
        });
        for (&gateway, staged) in &staging.0 {
            let (_, sent) = self.0.entry(gateway).or_insert((staged.number, 0));
            let rest = &staged.bytes[*sent as usize..];
            let room = limit.saturating_sub(to.len());
            let piece = &rest[..rest.len().min(room)];
            if piece.is_empty() && *sent > 0 {
                if !rest.is_empty() {
                    return false;
                }
                continue;
            }
            to.u8(tag);
            write_gateway(to, gateway);
            to.u64s(&[staged.number, staged.whole_bytes, *sent]);
            to.bytes(piece);
            *sent += piece.len() as u64;
            if piece.len() < rest.len() {
                return false;
            }
        }
        true
    }
}

/// Reads what [`SentStaging::send`] wrote behind its tag.
pub(crate) fn read_piece<'a>(rest: &mut Reader<'a>) -> Result<(GatewayId, Piece<'a>), DecodeError> {
    let gateway = read_gateway(rest)?;
    let piece = Piece {
        number: rest.u64()?,
        whole_bytes: rest.u64()?,
        offset: rest.u64()?,
        bytes: rest.bytes()?,
    };
    Ok((gateway, piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(worker: u16) -> GatewayId {
        GatewayId {
            boot: Boot(1),
            worker,
        }
    }

    fn piece(number: u64, whole_bytes: u64, offset: u64, bytes: &[u8]) -> Piece<'_> {
        Piece {
            number,
            whole_bytes,
            offset,
            bytes,
        }
    }

    fn take(staging: &mut Staging, gateway: GatewayId, number: u64) -> Option<Bytes> {
        let taken = staging.take(gateway, number, &mut Lazyfree::default());
        taken.map(|(bytes, _)| bytes)
    }

    #[test]
    fn what_is_whole_is_taken_once() {
        let mut staging = Staging::default();
        staging.add(gateway(1), piece(7, 6, 0, b"abc"), &mut Lazyfree::default());
        staging.add(gateway(2), piece(7, 1, 0, b"x"), &mut Lazyfree::default());
        staging.add(gateway(1), piece(7, 6, 3, b"def"), &mut Lazyfree::default());
        assert_eq!(take(&mut staging, gateway(1), 7).as_deref(), Some(&b"abcdef"[..]));
        assert_eq!(take(&mut staging, gateway(1), 7), None);
        assert_eq!(
            take(&mut staging, gateway(2), 7).as_deref(),
            Some(&b"x"[..]),
            "another's"
        );
    }

    #[test]
    fn what_does_not_follow_ends_what_was_begun() {
        let first = piece(7, 6, 0, b"abc");
        for wrong in [
            piece(7, 6, 4, b"ef"),
            piece(7, 6, 2, b"cdef"),
            piece(8, 6, 3, b"def"),
            piece(7, 6, 3, b"defg"),
            piece(7, 0, 0, b""),
        ] {
            let mut staging = Staging::default();
            staging.add(gateway(1), first, &mut Lazyfree::default());
            staging.add(gateway(1), wrong, &mut Lazyfree::default());
            staging.add(gateway(1), piece(7, 6, 3, b"def"), &mut Lazyfree::default());
            assert_eq!(take(&mut staging, gateway(1), 7), None, "{wrong:?}");
        }
        let mut staging = Staging::default();
        staging.add(gateway(1), first, &mut Lazyfree::default());
        assert_eq!(take(&mut staging, gateway(1), 7), None, "not all of it has come");
    }

    #[test]
    fn no_more_is_begun_than_there_is_room_for() {
        let mut staging = Staging::default();
        let most = STAGED_BYTES_MAX as u64;
        staging.add(gateway(1), piece(1, most - 3, 0, b"a"), &mut Lazyfree::default());
        staging.add(gateway(2), piece(1, 4, 0, b"abcd"), &mut Lazyfree::default());
        staging.add(gateway(3), piece(1, 3, 0, b"abc"), &mut Lazyfree::default());
        assert_eq!(take(&mut staging, gateway(2), 1), None);
        assert!(take(&mut staging, gateway(3), 1).is_some());
        staging.add(gateway(1), piece(2, u64::MAX, 0, b"a"), &mut Lazyfree::default());
        assert!(staging.0.is_empty(), "what was begun before is gone, too");
    }
}
