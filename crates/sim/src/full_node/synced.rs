//! How far majorities have synced what they hold: whoever begins a group anew by itself may lose nothing of that.
//!
//! A place in a log counts for a replica once a sync has ended that began after the place was known to be written. Of two places the
//! one of the later term, and then the later one, is ahead: a majority that has synced a place has all that was acknowledged before it.

use super::FullNode;
use consensus::Members;
use control::{RecoverySource, RoutingMap};
use ids::Incarnation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// By term, then by place in the log.
type Place = (u64, u64);

/// Frames of a log that are synced behind one that was written before a place was: the one that it stands in is not known here.
const FRAMES_BEHIND: u64 = 2;

/// Places that wait for a sync. The oldest is passed over then, which lets more be lost than may be, and never less.
const WAITING_MAX: usize = 256;

/// See the file's header.
#[derive(Default)]
pub(super) struct SyncedPlaces {
    /// By group, generation and replica: what waits for a sync of which frame, in which start of the node's log.
    waiting: BTreeMap<(u16, u64, Incarnation), VecDeque<(u64, Place)>>,
    /// And what is synced.
    synced: BTreeMap<(u16, u64, Incarnation), Place>,
    /// New beginnings, by group and generation, that were looked at.
    begun: BTreeSet<(u16, u64)>,
}

impl SyncedPlaces {
    /// A node has taken a step.
    pub(super) fn note(&mut self, node: &FullNode) {
        let Some(serving) = node.serving() else { return };
        for worker in &serving.workers {
            let Some((written, synced)) = worker.disk.as_ref().map(super::disk::Disk::frames) else {
                continue;
            };
            for view in worker.gateway.replica_views() {
                let Some(member) = view.member() else { continue };
                let raft = member.raft();
                let key = (view.group.number(), view.generation, view.incarnation);
                let waiting = self.waiting.entry(key).or_default();
                // Frames count from 0 in each log.
                waiting.retain(|(frame, _)| *frame <= written + FRAMES_BEHIND);
                while let Some((_, place)) = waiting.pop_front_if(|(frame, _)| *frame <= synced) {
                    let known = self.synced.entry(key).or_default();
                    *known = place.max(*known);
                }
                let place = (raft.last_term().0, raft.last_index().0);
                // With the first entry of a group that begins nothing is promised.
                let is_kept = raft.is_durable() && raft.persisted_index() == raft.last_index();
                let is_new = waiting.back().is_none_or(|(_, last)| *last != place);
                if is_kept && is_new && place.1 > 1 && self.synced.get(&key) != Some(&place) {
                    if waiting.len() == WAITING_MAX {
                        waiting.pop_front();
                    }
                    waiting.push_back((written + FRAMES_BEHIND, place));
                }
            }
        }
    }

    /// A node knows a map: whether what majorities have synced is in the logs with which groups begin anew. `newest` are the last
    /// members that a group is known to have had, with their generation.
    pub(super) fn check(
        &mut self,
        map: &RoutingMap,
        running: &[Option<&FullNode>],
        newest: impl Fn(u16) -> Option<(u64, Members)>,
    ) -> Result<(), String> {
        for (group, route) in (0u16..).zip(&map.groups) {
            let Some(of) = route.recovered_from else { continue };
            if self.begun.contains(&(group, route.generation)) {
                continue;
            }
            let all = running.iter().flatten();
            let mut said = all.flat_map(|node| node.recovery_sources.values().flatten());
            let is_it = |said: &&RecoverySource| said.group.number() == group && said.incarnation == of;
            let (Some(source), Some((generation, members))) = (said.find(is_it), newest(group)) else {
                continue;
            };
            self.begun.insert((group, route.generation));
            if generation >= route.generation {
                continue;
            }
            let chosen = (source.generation, (source.term.0, source.last.0));
            let is_kept = |voters: &[Incarnation]| {
                let synced = voters
                    .iter()
                    .map(|voter| self.synced.get(&(group, generation, *voter)));
                let mut synced: Vec<Place> = synced.map(|place| place.copied().unwrap_or_default()).collect();
                synced.sort_unstable();
                // As much or more was synced by a majority.
                let place = synced.get(voters.len().saturating_sub(1) / 2);
                place.copied().unwrap_or_default()
            };
            let halves = [&members.voters, &members.outgoing];
            let halves = halves.into_iter().filter(|half| !half.is_empty());
            let synced = halves.map(|half| is_kept(half)).min().unwrap_or_default();
            if synced > (0, 0) && chosen < (generation, synced) {
                return Err(format!(
                    "group {group} begins anew in generation {} with {} of generation {}, whose log ends at {:?}; a majority of {members:?} \
                     had synced {synced:?} of generation {generation}",
                    route.generation, of.0, chosen.0, chosen.1
                ));
            }
        }
        Ok(())
    }
}
