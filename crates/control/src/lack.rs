//! What a node lacks of all that it is to have: one that lacks nothing is ready.
//!
//! A follower does not know how far its leader is, and a node that has just joined does not know what it is to have. Whoever leads the meta
//! group knows both, and says it to each node with the answer to its heartbeat. What *caught up* means is what permission to stop means by it
//! (`permit.rs`).

use crate::goal::NodeGoal;
use crate::group::{Group, GroupRef, MemberRole};
use crate::map::{Route, RoutingMap, Standing};
use crate::observations::{GroupReport, Observations};
use crate::permit::is_steady;
use crate::reconciler::Pace;
use crate::state::State;
use crate::wire::{wire_enum, wire_struct};
use ids::{Boot, NodeId};
use std::collections::BTreeMap;

/// Groups that are named. Of more there is only the number.
const NAMED_MAX: usize = 8;

/// What a node lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lack {
    /// Of which start.
    pub boot: Boot,
    /// Whether that start is so new that what leaders say may be true of an earlier one, or so that nothing was placed on the node yet.
    pub is_new: bool,
    /// In how many groups it lacks something.
    pub count: u64,
    /// The first of these, and what it is.
    pub groups: Vec<(GroupRef, Missing)>,
}

/// What there is not of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Anything: it has not begun.
    Replica,
    /// A vote: it is being filled.
    Vote,
    /// The end of the log: it has not caught up.
    End,
    /// A leader who says how it is.
    Leader,
}

wire_enum!(Missing {
    1 Replica {},
    2 Vote {},
    3 End {},
    4 Leader {},
});
wire_struct!(Lack {
    boot,
    is_new,
    count,
    groups
});

impl Lack {
    fn none(boot: Boot, is_new: bool) -> Lack {
        Lack {
            boot,
            is_new,
            count: 0,
            groups: Vec::new(),
        }
    }

    /// Whether there is nothing that it lacks.
    pub fn is_nothing(&self) -> bool {
        self.count == 0 && !self.is_new
    }

    fn add(&mut self, group: GroupRef, missing: Missing) {
        self.count += 1;
        if self.groups.len() < NAMED_MAX {
            self.groups.push((group, missing));
        }
    }

    /// As far as a map says it: where whoever leads is of a build that says no more.
    pub(crate) fn of_map(map: &RoutingMap, me: NodeId, boot: Boot) -> Lack {
        let mut lack = Lack::none(boot, false);
        let data = (0..).zip(&map.groups);
        let data = data.map(|(number, route)| (GroupRef::Data(ids::GroupId::new(number)), &**route));
        let missing = |route: &Route| {
            let mut stops = route.replicas.iter();
            match stops.find(|stop| stop.node == me)?.standing {
                Standing::Voter => None,
                Standing::Learner => Some(Missing::Vote),
                Standing::Expected => Some(Missing::Replica),
            }
        };
        for (name, route) in [(GroupRef::Meta, &map.meta)].into_iter().chain(data) {
            if let Some(missing) = missing(route) {
                lack.add(name, missing);
            }
        }
        lack
    }
}

/// What each node lacks, as whoever leads sees it.
pub(crate) fn lacks(state: &State, observations: &Observations, pace: &Pace) -> BTreeMap<NodeId, Lack> {
    let is_alone = state.nodes.len() == 1;
    let nodes = state.nodes.iter().map(|(&id, node)| {
        let is_new = !is_alone && !is_steady(observations, pace, id);
        // Nobody is placed during a pause, and who is to go gets nothing.
        let is_unplaced =
            !state.placed_for.contains(&id) && state.pause.is_none() && node.goal == NodeGoal::Stays;
        (id, Lack::none(node.boot, is_new || is_unplaced))
    });
    let mut lacks: BTreeMap<NodeId, Lack> = nodes.collect();
    for (&name, group) in &state.groups {
        let seen = observations.groups.get(&name).map(|seen| &**seen);
        let seen = seen.filter(|seen| seen.report.generation == group.generation && !group.is_unheard);
        let members = group.members.iter().map(|member| member.node);
        let mut nodes: Vec<NodeId> = members.chain(group.targets.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            if let Some(missing) = missing(group, seen, node)
                && let Some(lack) = lacks.get_mut(&node)
            {
                lack.add(name, missing);
            }
        }
    }
    lacks
}

/// What a node lacks of one group.
fn missing(group: &Group, seen: Option<&GroupReport>, node: NodeId) -> Option<Missing> {
    let is_target = group.targets.contains(&node);
    let member = group.member_on(node);
    let member = member.filter(|member| !group.is_lost(member.incarnation));
    match member {
        None => is_target.then_some(Missing::Replica),
        // What is no target's is taken away again.
        Some(member) if member.role == MemberRole::Learner => is_target.then_some(Missing::Vote),
        Some(member) => match seen {
            None => Some(Missing::Leader),
            Some(seen) => (!seen.caught_up.contains(&member.incarnation)).then_some(Missing::End),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Stop;
    use ids::Incarnation;
    use std::sync::Arc;

    #[test]
    fn a_map_says_what_has_no_vote_yet_and_of_many_groups_how_many() {
        let route = |standing| {
            Arc::new(Route {
                replicas: vec![Stop {
                    node: NodeId(2),
                    incarnation: Incarnation(7),
                    standing,
                }],
                ..Route::default()
            })
        };
        let mut map = RoutingMap::of(&State::default());
        map.groups = vec![
            route(Standing::Voter),
            route(Standing::Learner),
            route(Standing::Expected),
        ];
        let data = |number| GroupRef::Data(ids::GroupId::new(number));
        let lack = Lack::of_map(&map, NodeId(2), Boot(1));
        assert_eq!(
            lack.groups,
            [(data(1), Missing::Vote), (data(2), Missing::Replica)]
        );
        assert!(Lack::of_map(&map, NodeId(3), Boot(1)).is_nothing());
        map.groups = vec![route(Standing::Learner); 2 * NAMED_MAX];
        let lack = Lack::of_map(&map, NodeId(2), Boot(1));
        assert_eq!((lack.count, lack.groups.len()), (2 * NAMED_MAX as u64, NAMED_MAX));
    }
}
