//! What workers know of partitions beside what groups host: with that and what groups report, the meta group can tell whether each of them is
//! hosted by one group, and by one that all can find (`mending.rs`).

use crate::group::GroupRef;
use crate::wire::{Wire, wire_struct};
use codec::{DecodeError, Reader};
use ids::{Host, PartitionId, Whereabouts};
use std::collections::BTreeMap;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionNotes {
    /// By group that is led there, what it has given away: which partition, to which group, and how often that had moved then.
    pub given: BTreeMap<GroupRef, Vec<(PartitionId, Host)>>,
    /// The partitions that are known there to have moved more often than the map says, each with how often.
    pub ahead: BTreeMap<PartitionId, u32>,
}

wire_struct!(PartitionNotes { given, ahead });

impl PartitionNotes {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == PartitionNotes::default()
    }

    /// What is known here or there.
    pub fn merge(&mut self, other: &PartitionNotes) {
        for (group, given) in &other.given {
            self.given.insert(*group, given.clone());
        }
        for (partition, moves) in &other.ahead {
            let known = self.ahead.entry(*partition).or_default();
            *known = (*known).max(*moves);
        }
    }
}

impl Wire for Whereabouts {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Whereabouts::Unknown => out.push(0),
            Whereabouts::Here(moves) => {
                out.push(1);
                moves.put(out);
            }
            Whereabouts::Gone(host) => {
                out.push(2);
                host.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Whereabouts, DecodeError> {
        match input.u8()? {
            0 => Ok(Whereabouts::Unknown),
            1 => Wire::take(input).map(Whereabouts::Here),
            2 => Wire::take(input).map(Whereabouts::Gone),
            _ => Err(input.error("what a group knows of a partition")),
        }
    }
}
