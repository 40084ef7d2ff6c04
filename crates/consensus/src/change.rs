//! Changes of a group's members: from whole targets to the library's steps, and their bytes.
//!
//! The bytes are ours, so that the library's parser never reads what a peer sent: one for the kind of change, then for
//! each step one for its kind and eight for the replica, least significant first. No bytes at all end a joint change.

use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};

use crate::members::{MEMBERS_MAX, MembersInvalid};
use crate::message::{Index, LogEntry, Members, Payload, SnapshotPoint};
use codec::{Reader, Writer};
use ids::Incarnation;

const SIMPLE: u8 = 0;
const JOINT: u8 = 1;

const VOTER: u8 = 0;
const LEARNER: u8 = 1;
const REMOVE: u8 = 2;

const STEP_BYTES: usize = 9;

/// Most steps of one change: everybody goes, and everybody is new.
const STEPS_MAX: usize = 4 * MEMBERS_MAX;

/// Why a change of the members was not proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeRefused {
    /// This replica does not lead, or has not applied an entry of its own term yet.
    NotLeader,
    /// Leadership is being handed over.
    Transferring,
    /// Another change is not applied yet, or a joint one has not ended.
    Busy,
    /// The leader would not vote any more: leadership is to be transferred first.
    LeaderLeaves,
    /// The members are as wanted.
    Nothing,
    /// They cannot be members.
    Invalid(MembersInvalid),
}

/// The steps from `now` to `target`, with the change's bytes as its context.
pub(crate) fn steps(now: &Members, target: &Members) -> Result<ConfChangeV2, ChangeRefused> {
    let target = Members {
        voters: target.voters.clone(),
        learners: target.learners.clone(),
        ..Members::default()
    };
    target.validate().map_err(ChangeRefused::Invalid)?;
    let mut changes = Vec::new();
    for voter in &target.voters {
        if !now.voters.contains(voter) {
            changes.push((VOTER, *voter));
        }
    }
    for learner in &target.learners {
        if !now.learners.contains(learner) {
            changes.push((LEARNER, *learner));
        }
    }
    for member in now.all() {
        if !target.voters.contains(&member) && !target.learners.contains(&member) {
            changes.push((REMOVE, member));
        }
    }
    // A joint change wherever the voters change, also where one step would do: one way to change them, not two.
    let voters_change = now.voters.iter().any(|voter| !target.voters.contains(voter))
        || changes.iter().any(|(kind, _)| *kind == VOTER);
    let is_joint = voters_change || changes.len() > 1;
    if changes.is_empty() {
        return Err(ChangeRefused::Nothing);
    }
    let mut bytes = vec![if is_joint { JOINT } else { SIMPLE }];
    for (kind, replica) in changes {
        bytes.u8(kind);
        bytes.u64(replica.0);
    }
    Ok(decode(&bytes).expect("these bytes were just made by the rules that decode them"))
}

/// The change that `bytes` are, or `None` if they are none.
pub(crate) fn decode(bytes: &[u8]) -> Option<ConfChangeV2> {
    let mut change = ConfChangeV2::default();
    let Some((kind, steps)) = bytes.split_first() else {
        return Some(change);
    };
    if steps.is_empty() || steps.len() / STEP_BYTES > STEPS_MAX {
        return None;
    }
    let (mut reader, mut singles) = (Reader::new(steps), Vec::new());
    while !reader.is_empty() {
        let mut single = ConfChangeSingle::default();
        single.set_change_type(match reader.u8().ok()? {
            VOTER => ConfChangeType::AddNode,
            LEARNER => ConfChangeType::AddLearnerNode,
            REMOVE => ConfChangeType::RemoveNode,
            _ => return None,
        });
        single.node_id = reader.u64().ok()?;
        if single.node_id == 0 {
            return None;
        }
        singles.push(single);
    }
    match *kind {
        SIMPLE if singles.len() == 1 => change.set_transition(ConfChangeTransition::Auto),
        // The leader ends it by itself as soon as it is applied.
        JOINT => change.set_transition(ConfChangeTransition::Implicit),
        _ => return None,
    }
    change.set_changes(singles.into());
    change.set_context(bytes.to_vec().into());
    Some(change)
}

/// Who belongs to a group by the last change in this log, committed or not, and the place of that; those at the start if no change is
/// behind it.
pub fn last_members(start: &SnapshotPoint, entries: &[LogEntry]) -> (Index, Members) {
    let (mut at, mut members) = (start.index, start.members.clone());
    for entry in entries {
        let Payload::Members(bytes) = &entry.payload else {
            continue;
        };
        let Some(change) = decode(bytes) else { continue };
        at = entry.index;
        if change.leave_joint() {
            members.outgoing.clear();
            members.learners.append(&mut members.learners_next);
            members.ends_itself = false;
            continue;
        }
        if change.enter_joint().is_some() {
            members.outgoing.clone_from(&members.voters);
            members.ends_itself = true;
        }
        for single in change.get_changes() {
            let member = Incarnation(single.node_id);
            members.voters.retain(|voter| *voter != member);
            members.learners.retain(|learner| *learner != member);
            match single.get_change_type() {
                ConfChangeType::AddNode => members.voters.push(member),
                ConfChangeType::AddLearnerNode if members.outgoing.contains(&member) => {
                    members.learners_next.push(member);
                }
                ConfChangeType::AddLearnerNode => members.learners.push(member),
                ConfChangeType::RemoveNode => {}
            }
        }
        members.voters.sort_unstable();
        members.learners.sort_unstable();
    }
    (at, members)
}

/// Whom a change leaves as voters, for those who ask before it is proposed.
pub(crate) fn keeps_voter(target: &Members, replica: Incarnation) -> bool {
    target.voters.contains(&replica)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Term;

    fn members(voters: &[u64], learners: &[u64]) -> Members {
        Members {
            voters: voters.iter().copied().map(Incarnation).collect(),
            learners: learners.iter().copied().map(Incarnation).collect(),
            ..Members::default()
        }
    }

    #[test]
    fn a_learner_is_added_in_one_step_and_voters_change_jointly() {
        let now = members(&[1, 2, 3], &[]);
        let added = steps(&now, &members(&[1, 2, 3], &[4])).expect("a change");
        assert_eq!(added.enter_joint(), None);
        let replaced = steps(&members(&[1, 2, 3], &[4]), &members(&[1, 2, 4], &[])).expect("a change");
        assert_eq!(replaced.enter_joint(), Some(true));
        assert_eq!(replaced.changes.len(), 2);
        let removed = steps(&now, &members(&[1, 2], &[])).expect("a change");
        assert_eq!(removed.enter_joint(), Some(true));
        assert_eq!(steps(&now, &now), Err(ChangeRefused::Nothing));
    }

    #[test]
    fn the_members_by_a_log_are_those_of_its_last_change() {
        let start = SnapshotPoint {
            index: Index(7),
            term: Term(2),
            members: members(&[1, 2, 3], &[4]),
        };
        let mut entries = Vec::new();
        assert_eq!(last_members(&start, &entries), (Index(7), start.members.clone()));
        let mut add = |change: Option<ConfChangeV2>| {
            let bytes = change.map_or(Vec::new(), |change| change.context.to_vec());
            let payload = Payload::Members(bytes);
            entries.push(LogEntry {
                index: Index(8 + entries.len() as u64),
                term: Term(2),
                payload,
            });
            last_members(&start, &entries)
        };
        let change = steps(&start.members, &members(&[1, 2, 4], &[])).expect("a change");
        let (at, joint) = add(Some(change));
        assert_eq!(
            (at, &joint.voters, &joint.outgoing),
            (Index(8), &members(&[1, 2, 4], &[]).voters, &start.members.voters)
        );
        assert_eq!(joint.validate(), Ok(()));
        assert_eq!(add(None), (Index(9), members(&[1, 2, 4], &[])));
        let change = steps(&members(&[1, 2, 4], &[]), &members(&[1, 2, 4], &[5])).expect("a change");
        assert_eq!(add(Some(change)), (Index(10), members(&[1, 2, 4], &[5])));
    }

    #[test]
    fn bytes_that_are_no_change_are_refused() {
        assert!(decode(&[]).is_some_and(|change| change.leave_joint()));
        assert!(decode(&[SIMPLE]).is_none());
        assert!(decode(&[JOINT, VOTER, 1, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(decode(&[JOINT, VOTER, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(decode(&[JOINT, 3, 1, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(decode(&[2, VOTER, 1, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(decode(&[JOINT, VOTER, 1, 0, 0, 0, 0, 0, 0, 0]).is_some());
    }
}
