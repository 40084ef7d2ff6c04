//! What the cluster's state, and its map, say of groups that were added and of partitions that move to them.

use crate::wire::{Last, Wire, wire_struct};
use codec::{DecodeError, Reader};
use ids::{GroupCount, GroupId, Groups, Host, PartitionCount, PartitionId};
use std::collections::BTreeMap;

/// See the file's header. Nothing, as long as there are the groups that the cluster was founded with and each hosts what it did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GrowthState {
    /// How many groups of keys there were at first; 0 if there are as many now.
    pub founded: u16,
    /// The partitions that have moved, and where they are.
    pub hosts: BTreeMap<PartitionId, Host>,
    /// The partitions that are to go elsewhere, and where to.
    pub wishes: BTreeMap<PartitionId, GroupId>,
}

wire_struct!(GrowthState {
    founded,
    hosts,
    wishes
});

impl Last for GrowthState {
    fn is_there(&self) -> bool {
        *self != GrowthState::default()
    }

    fn put_last(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn take_last(input: &mut Reader<'_>) -> Result<GrowthState, DecodeError> {
        Wire::take(input)
    }
}

impl GrowthState {
    /// So many groups, and what each hosts. None if there are not that many of them.
    pub(crate) fn groups(&self, count: GroupCount, partitions: PartitionCount) -> Option<Groups> {
        let founded = match self.founded {
            0 => count,
            founded => GroupCount::new(founded).filter(|founded| founded.get() <= count.get())?,
        };
        let hosts = self.hosts.iter().map(|(partition, host)| (*partition, *host));
        let groups = Groups::new(founded, partitions)?.with_more(count);
        (groups.count() == count).then(|| groups.with_hosts(hosts))
    }
}
