//! What a node says of the replicas that it has, in its heartbeats and, if it leads the meta group, to itself.

use crate::given_up::GivenUp;
use crate::group::GroupRef;
use crate::node_memory::NodeMemory;
use crate::observations::GroupReport;
use crate::partition_notes::PartitionNotes;
use crate::recovery_source::RecoverySource;
use std::collections::BTreeMap;

/// See the file's header.
#[derive(Default)]
pub(crate) struct OwnReports {
    /// Of groups that are led here.
    pub(crate) groups: BTreeMap<GroupRef, GroupReport>,
    /// Replicas of groups that nobody leads.
    pub(crate) recovery_sources: Vec<RecoverySource>,
    /// Replicas that were given up, here or as leaders here say.
    pub(crate) given_up: Vec<GivenUp>,
    /// How much the node holds.
    pub(crate) memory: Option<NodeMemory>,
    /// What else is known here of partitions.
    pub(crate) partition_notes: PartitionNotes,
}

impl OwnReports {
    /// Takes in what leaders here say of their groups, of which there are `count`. Whether any of it is news.
    pub(crate) fn on_groups(&mut self, group_reports: Vec<GroupReport>, count: usize) -> bool {
        let mut is_news = false;
        for group_report in group_reports {
            let name = group_report.report.group;
            let is_group = matches!(name, GroupRef::Data(group) if group.index() < count);
            if is_group && self.groups.get(&name) != Some(&group_report) {
                self.groups.insert(name, group_report);
                is_news = true;
            }
        }
        is_news
    }

    /// Adds the recovery sources here to those that are known elsewhere.
    pub(crate) fn add_recovery_sources(&self, recovery_sources: &mut Vec<RecoverySource>) {
        let is_told = |own: &&RecoverySource| {
            !recovery_sources
                .iter()
                .any(|told| told.incarnation == own.incarnation)
        };
        let untold: Vec<RecoverySource> = self.recovery_sources.iter().filter(is_told).cloned().collect();
        recovery_sources.extend(untold);
    }
}
