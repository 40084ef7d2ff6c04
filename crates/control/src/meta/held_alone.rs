//! What a node alone is to have on its disk, by the cluster's own state there: nobody else has it.
//!
//! A start is counted before anything that was kept is used, and from then on replicas have other names. So whoever would begin
//! without what he is to have looks before that.

use super::seat::Restored;
use crate::group::GroupRef;
use ids::{GroupId, Incarnation, NodeId, Token};

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldAlone {
    /// The last start that the state has counted.
    pub start: Token,
    /// The groups that have acknowledged anything, and the names under which their replicas may be found.
    pub groups: Vec<(GroupId, Vec<Incarnation>)>,
}

impl HeldAlone {
    /// By what is on the disk of `node`. None if there are others in its cluster, or the state cannot be read.
    ///
    /// A group that has begun is reported some 100 ms later, and has acknowledged writes by then. So where the node `was_ready`, which it is when
    /// the logs of all groups that it was founded with have begun, these are known without a report. One that was added has nothing before
    /// it is reported: no partition goes there earlier.
    pub fn of(restored: &Restored, node: NodeId, was_ready: bool) -> Option<HeldAlone> {
        let (_, book) = restored.book()?;
        let state = book.state;
        let mut nodes = state.nodes().iter();
        let (Some((&only, itself)), None) = (nodes.next(), nodes.next()) else {
            return None;
        };
        let start = (only == node).then_some(itself.start)?;
        let founded = state.key_groups()?.founded().get();
        let groups = state.groups().iter().filter_map(|(name, group)| {
            let GroupRef::Data(number) = *name else {
                return None;
            };
            // One that has begun anew may have done so with nothing. Who was lost once is looked for no more.
            let is_founded = number.number() < founded;
            let has_begun = group.index > 0 || was_ready && is_founded && group.generation == 0;
            let is_kept = has_begun && !group.is_unheard && group.lost.is_empty();
            let members = group.members.iter().map(|member| member.incarnation);
            is_kept.then(|| (number, members.chain(group.recovered_from).collect()))
        });
        Some(HeldAlone {
            start,
            groups: groups.collect(),
        })
    }
}
