//! What stands in the meta group's log, and who has proposed it.

use crate::command::MetaCommand;
use crate::wire::{self, wire_struct};
use codec::DecodeError;
use ids::{NodeId, Token};

/// The format of proposals.
const FORMAT: u8 = 1;

/// Whose proposal it is. A start's proposals are carried out once each, in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Author {
    /// The node.
    pub(crate) node: NodeId,
    /// Its start.
    pub(crate) start: Token,
    /// From 1 on.
    pub(crate) number: u64,
}

wire_struct!(Author { node, start, number });

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Proposal {
    /// None for what may be carried out twice: whoever leads the group proposes that, or the command has a name of its own.
    pub(crate) author: Option<Author>,
    /// What is to be done.
    pub(crate) command: MetaCommand,
}

wire_struct!(Proposal { author, command });

impl Proposal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// Total.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Proposal, DecodeError> {
        wire::decode(FORMAT, bytes)
    }
}
