//! The snapshots of a worker's groups that are on disk, until nobody needs them.
//!
//! ```text
//!   the newest of its group --another one counts, or the replica ends--> outdated --the log is synced so far--> removed
//!                                                                            \--still being read--> removed once it is
//! ```

use crate::snapshot_name::SnapshotName;
use ids::GroupId;
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// See the file's header.
#[derive(Default)]
pub(crate) struct SnapshotFiles {
    of_groups: BTreeMap<GroupId, Vec<SnapshotName>>,
    /// Those that go when the log is synced up to this frame.
    outdated: VecDeque<(u64, Vec<SnapshotName>)>,
    /// Those whose states are being read.
    unread: BTreeSet<SnapshotName>,
    /// The outdated ones among them that would have gone.
    unread_outdated: BTreeSet<SnapshotName>,
}

impl SnapshotFiles {
    /// These are kept, of any group; of `unread` the states are being read.
    pub(crate) fn new(
        files: impl IntoIterator<Item = SnapshotName>,
        unread: BTreeSet<SnapshotName>,
    ) -> SnapshotFiles {
        let mut of_groups: BTreeMap<GroupId, Vec<SnapshotName>> = BTreeMap::new();
        for name in files {
            of_groups.entry(name.group).or_default().push(name);
        }
        SnapshotFiles {
            of_groups,
            unread,
            ..SnapshotFiles::default()
        }
    }

    /// One more is kept.
    pub(crate) fn add(&mut self, name: SnapshotName) {
        self.of_groups.entry(name.group).or_default().push(name);
    }

    /// It counts in place of all others of its group, which go when the log is synced up to `frame`.
    pub(crate) fn replace(&mut self, name: SnapshotName, frame: u64) {
        let files = self.of_groups.entry(name.group).or_default();
        let outdated: Vec<SnapshotName> = files.extract_if(.., |file| *file != name).collect();
        *files = vec![name];
        if !outdated.is_empty() {
            self.outdated.push_back((frame, outdated));
        }
    }

    /// Nothing of a group is needed once the next batch is synced.
    pub(crate) fn end(&mut self, group: GroupId) {
        if let Some(names) = self.of_groups.remove(&group) {
            self.outdated.push_back((u64::MAX, names));
        }
    }

    /// Those of a group, which are forgotten.
    pub(crate) fn take(&mut self, group: GroupId) -> Option<Vec<SnapshotName>> {
        self.of_groups.remove(&group)
    }

    /// The batch that was open ends with this frame.
    pub(crate) fn close(&mut self, frame: u64) {
        for (outdated, _) in &mut self.outdated {
            *outdated = (*outdated).min(frame);
        }
    }

    /// The next ones that are to be removed, now that the log is synced up to a frame; none of them if all are still being read.
    pub(crate) fn next_removed(&mut self, synced: u64) -> Option<Vec<SnapshotName>> {
        let (_, names) = self.outdated.pop_front_if(|(frame, _)| *frame <= synced)?;
        let stays =
            |name: &SnapshotName| self.unread.contains(name) && !mutations::is(Mutation::UnreadRemoved);
        let (unread, names): (Vec<SnapshotName>, Vec<SnapshotName>) = names.into_iter().partition(stays);
        self.unread_outdated.extend(unread);
        Some(names)
    }

    /// The state of a group was read. The file, if it is to be removed now.
    pub(crate) fn on_read(&mut self, group: GroupId) -> Option<SnapshotName> {
        let is_its = |name: &SnapshotName| name.group == group;
        let name = self.unread.extract_if(.., is_its).next()?;
        self.unread_outdated.take(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Index;
    use ids::Incarnation;

    fn name(group: u16, incarnation: u64, index: u64) -> SnapshotName {
        SnapshotName {
            group: GroupId::new(group),
            incarnation: Incarnation(incarnation),
            index: Index(index),
        }
    }

    #[test]
    fn what_counts_no_more_goes_when_the_log_is_synced() {
        let mut files = SnapshotFiles::new([name(1, 4, 10), name(2, 5, 10)], BTreeSet::new());
        files.replace(name(1, 4, 20), u64::MAX);
        assert_eq!(files.next_removed(7), None, "the batch is open");
        files.close(8);
        assert_eq!(files.next_removed(7), None);
        assert_eq!(files.next_removed(8), Some(vec![name(1, 4, 10)]));
        files.end(GroupId::new(2));
        assert_eq!(files.next_removed(u64::MAX), Some(vec![name(2, 5, 10)]));
        assert_eq!(files.next_removed(u64::MAX), None);
    }

    #[test]
    fn what_is_being_read_stays_until_it_is() {
        let (read, other) = (name(1, 4, 10), name(2, 5, 10));
        let mut files = SnapshotFiles::new([read, other], BTreeSet::from([read, other]));
        files.replace(name(1, 9, 3), 1);
        assert_eq!(files.next_removed(1), Some(Vec::new()), "it is not yet read");
        assert_eq!(files.on_read(GroupId::new(2)), None, "it still counts");
        assert_eq!(files.on_read(GroupId::new(1)), Some(read));
        assert_eq!(files.on_read(GroupId::new(1)), None, "once");
        mutations::plant(Some(Mutation::UnreadRemoved));
        let mut files = SnapshotFiles::new([read], BTreeSet::from([read]));
        files.replace(name(1, 9, 3), 1);
        let removed = files.next_removed(1);
        mutations::plant(None);
        assert_eq!(removed, Some(vec![read]), "the mistake would be noticed");
    }
}
