//! What the meta group replicates: the cluster's state, and what was asked of it last.
//!
//! A proposal that nobody answered is sent again, and may stand in the log twice. The second time it is answered from
//! here. So a setting that was changed twice is not set back by a late repetition, and no group begins anew twice.

use super::message::Blob;
use super::proposal::{Author, Proposal};
use crate::command::{MetaOutcome, MetaRefusal};
use crate::state::State;
use crate::wire::{self, Wire, wire_struct};
use codec::{DecodeError, Reader};
use consensus::Index;
use ids::{Incarnation, NodeId, Token};
use std::collections::BTreeMap;

/// The format of books.
const FORMAT: u8 = 1;

/// The last proposal of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    start: Token,
    number: u64,
    outcome: Option<MetaOutcome>,
    refusal: Option<MetaRefusal>,
}

wire_struct!(Line {
    start,
    number,
    outcome,
    refusal
});

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Book {
    pub(crate) state: State,
    /// Of each member of the cluster, at most.
    lines: BTreeMap<NodeId, Line>,
    /// The place in the log of the last change of the group's members.
    pub(crate) configured: Index,
}

impl Wire for Book {
    fn put(&self, out: &mut Vec<u8>) {
        Blob(self.state.snapshot()).put(out);
        self.lines.put(out);
        self.configured.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Book, DecodeError> {
        Ok(Book {
            state: State::restore(&Blob::take(input)?.0)?,
            lines: Wire::take(input)?,
            configured: Wire::take(input)?,
        })
    }
}

/// A member's own copy: whose it is, and the book.
struct Owned {
    me: Incarnation,
    book: Blob,
}

wire_struct!(Owned { me, book });

impl Book {
    /// Before there is a cluster.
    pub(crate) fn blank() -> Book {
        Book {
            state: State::default(),
            lines: BTreeMap::new(),
            configured: Index(1),
        }
    }

    /// Carries out an entry. None if its author has gone on since: nobody waits for that.
    pub(crate) fn apply(&mut self, proposal: &Proposal) -> Option<Result<MetaOutcome, MetaRefusal>> {
        let Some(Author { node, start, number }) = proposal.author else {
            let result = self.state.apply(&proposal.command);
            self.lines.retain(|node, _| self.state.nodes().contains_key(node));
            return Some(result);
        };
        let is_its = |known: &&crate::node::Node| known.start == start;
        if self.state.nodes().get(&node).filter(is_its).is_none() {
            return Some(Err(MetaRefusal::Unknown));
        }
        if let Some(line) = self.lines.get(&node).filter(|line| line.start == start) {
            if number < line.number {
                return None;
            }
            if number == line.number {
                let outcome = line.outcome.clone().ok_or(MetaRefusal::Unknown);
                return Some(outcome.map_err(|_| line.refusal.unwrap_or(MetaRefusal::Unknown)));
            }
        }
        let result = self.state.apply(&proposal.command);
        let line = Line {
            start,
            number,
            outcome: result.clone().ok(),
            refusal: result.clone().err(),
        };
        self.lines.insert(node, line);
        self.lines.retain(|node, _| self.state.nodes().contains_key(node));
        Some(result)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// Total.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Book, DecodeError> {
        wire::decode(FORMAT, bytes)
    }

    /// For the disk of a member.
    pub(crate) fn encode_for(&self, me: Incarnation) -> Vec<u8> {
        let book = Blob(self.encode());
        wire::encode(FORMAT, &Owned { me, book })
    }

    /// From a member's disk. Total.
    pub(crate) fn decode_owned(bytes: &[u8]) -> Result<(Incarnation, Book), DecodeError> {
        let Owned { me, book } = wire::decode(FORMAT, bytes)?;
        Ok((me, Book::decode(&book.0)?))
    }
}
