//! What stands for the meta group, and what the checks remember.
//!
//! Invariants of a cluster, checked after every step:
//! 1. A group has one leader in a term.
//! 2. What was applied at a place of a group's log is the same on every replica, and for ever.
//! 3. Replicas that applied the same entries have the same state.
//! 4. No two replicas of a group have a lease at the same moment.
//! 5. What a leader reads contains every write that was answered before it was asked.
//! 6. The entries of a message follow the place that it names.

use super::Bare;
use super::replica::Replica;
use crate::node::Shape;
use consensus::{Body, Index, Members, Message, ReadPermit, Term};
use ids::{Boot, GroupId, HashSeed, Incarnation, Monotonic, NodeId, Prng};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Who is to hold what: as the meta group commits it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directory {
    /// Later ones are newer.
    pub(crate) version: u64,
    /// The newest boot of each node.
    pub(crate) boots: Vec<Boot>,
    /// By group.
    pub(crate) places: Vec<Place>,
    /// Where each replica is, or was.
    pub(crate) nodes: BTreeMap<Incarnation, NodeId>,
}

/// The replicas of one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// Who is to vote.
    pub(crate) wanted: BTreeSet<Incarnation>,
    /// Who is not to any more, and is kept until the group says the same.
    pub(crate) leaving: BTreeSet<Incarnation>,
}

/// See the file's header.
pub struct Cluster {
    pub(crate) shape: Shape,
    pub(crate) seeds: Vec<HashSeed>,
    pub(crate) directory: Rc<Directory>,
    /// The version that nodes were told.
    told: u64,
    boots: u64,
    incarnations: u64,
    /// Which nodes have ever run.
    born: BTreeSet<NodeId>,
    /// What the members of each group were to be since they last were as wanted.
    pending: Vec<Vec<BTreeSet<Incarnation>>>,
    leaders: BTreeMap<(GroupId, Term), Incarnation>,
    applied: BTreeMap<(GroupId, Index), (Term, u64)>,
    states: BTreeMap<(GroupId, Index), u64>,
    /// The last entry of each group whose writes were answered.
    answered: Vec<Index>,
    /// The first invariant that was found broken in the midst of a step.
    broken: Option<String>,
}

impl Cluster {
    pub(crate) fn new(shape: &Shape, seed: u64) -> Cluster {
        let mut prng = Prng::new(seed);
        let mut cluster = Cluster {
            shape: shape.clone(),
            seeds: (0..shape.groups)
                .map(|_| HashSeed([prng.next_u64(), prng.next_u64()]))
                .collect(),
            directory: Rc::default(),
            told: 0,
            boots: 0,
            incarnations: 0,
            born: BTreeSet::new(),
            pending: Vec::new(),
            leaders: BTreeMap::new(),
            applied: BTreeMap::new(),
            states: BTreeMap::new(),
            answered: vec![Index(0); usize::from(shape.groups)],
            broken: None,
        };
        let mut directory = Directory {
            boots: vec![Boot(0); shape.nodes],
            ..Directory::default()
        };
        for group in 0..usize::from(shape.groups) {
            let mut place = Place::default();
            for replica in 0..shape.replicas {
                cluster.incarnations += 1;
                let incarnation = Incarnation(cluster.incarnations);
                let node = NodeId(((group + replica) % shape.nodes) as u64);
                place.wanted.insert(incarnation);
                directory.nodes.insert(incarnation, node);
            }
            cluster.pending.push(vec![place.wanted.clone()]);
            directory.places.push(place);
        }
        cluster.directory = Rc::new(directory);
        cluster
    }

    /// A process starts, with its memory or without: its boot, and whether the node is a new one.
    pub(crate) fn boot(&mut self, node: NodeId, has_memory: bool) -> (Boot, bool) {
        self.boots += 1;
        let boot = Boot(self.boots);
        let is_new = self.born.insert(node);
        let directory = Rc::make_mut(&mut self.directory);
        directory.version += 1;
        directory.boots[node.0 as usize] = boot;
        if !has_memory && !is_new && !planted::is(planted::Bug::AmnesiacVote) {
            for (place, pending) in directory.places.iter_mut().zip(&mut self.pending) {
                let here = |incarnation: &Incarnation| directory.nodes.get(incarnation) == Some(&node);
                // What leaves is not there any more either.
                place.leaving.retain(|incarnation| !here(incarnation));
                let gone = place.wanted.iter().copied().find(|incarnation| here(incarnation));
                if let Some(gone) = gone {
                    place.wanted.remove(&gone);
                    self.incarnations += 1;
                    let fresh = Incarnation(self.incarnations);
                    place.wanted.insert(fresh);
                    directory.nodes.insert(fresh, node);
                    pending.push(place.wanted.clone());
                }
            }
        }
        (boot, is_new)
    }

    /// The operator moves a replica to a node that has none of the group, if the group is as wanted.
    pub(crate) fn move_replica(&mut self, prng: &mut Prng) {
        let group = prng.below(self.directory.places.len() as u64) as usize;
        if self.pending[group].len() > 1 {
            return;
        }
        let directory = Rc::make_mut(&mut self.directory);
        let place = &mut directory.places[group];
        let taken: BTreeSet<NodeId> = place
            .wanted
            .iter()
            .chain(&place.leaving)
            .map(|incarnation| directory.nodes[incarnation])
            .collect();
        let free: Vec<NodeId> = (0..self.shape.nodes as u64)
            .map(NodeId)
            .filter(|node| !taken.contains(node))
            .collect();
        let Some(&to) = free.get(prng.below(free.len().max(1) as u64) as usize) else {
            return;
        };
        let which = prng.below(place.wanted.len() as u64) as usize;
        let Some(&from) = place.wanted.iter().nth(which) else {
            return;
        };
        self.incarnations += 1;
        let fresh = Incarnation(self.incarnations);
        place.wanted.remove(&from);
        place.leaving.insert(from);
        place.wanted.insert(fresh);
        directory.nodes.insert(fresh, to);
        directory.version += 1;
        self.pending[group].push(place.wanted.clone());
    }

    /// The newest directory, if nodes have not been told.
    pub(crate) fn news(&mut self) -> Option<Rc<Directory>> {
        if self.told == self.directory.version {
            return None;
        }
        self.told = self.directory.version;
        Some(self.directory.clone())
    }

    /// A replica leads a group whose members are committed and these.
    fn settle(&mut self, group: GroupId, members: &Members) {
        let place = &self.directory.places[group.index()];
        let is_settled = !members.is_joint()
            && members.learners.is_empty()
            && members.voters.iter().copied().collect::<BTreeSet<_>>() == place.wanted;
        if !is_settled || (place.leaving.is_empty() && self.pending[group.index()].len() == 1) {
            return;
        }
        let directory = Rc::make_mut(&mut self.directory);
        let place = &mut directory.places[group.index()];
        place.leaving.clear();
        directory.version += 1;
        self.pending[group.index()] = vec![place.wanted.clone()];
    }

    // ---- invariants

    fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// A replica applied an entry.
    pub(crate) fn applied(&mut self, group: GroupId, index: Index, term: Term, entry: u64) {
        let known = *self.applied.entry((group, index)).or_insert((term, entry));
        if known != (term, entry) {
            self.breaks(|| {
                format!(
                    "group {}: two entries at {}: one of term {}, another of term {}",
                    group.number(),
                    index.0,
                    known.0.0,
                    term.0
                )
            });
        }
    }

    /// A replica has this state after an entry.
    pub(crate) fn state(&mut self, group: GroupId, index: Index, state: u64) {
        let known = *self.states.entry((group, index)).or_insert(state);
        if known != state {
            self.breaks(|| format!("group {}: two states after entry {}", group.number(), index.0));
        }
    }

    /// A replica sends a message.
    pub(crate) fn sends(&mut self, group: GroupId, message: &Message) {
        if let Body::Append { index, entries, .. } = &message.body
            && let Some(first) = entries.first()
            && first.index.0 != index.0 + 1
        {
            self.breaks(|| {
                format!(
                    "group {}: entries from {} on are said to follow {}",
                    group.number(),
                    first.index.0,
                    index.0
                )
            });
        }
    }

    /// Writes up to this entry are answered.
    pub(crate) fn answers(&mut self, group: GroupId, index: Index) {
        let answered = &mut self.answered[group.index()];
        *answered = index.max(*answered);
    }

    /// What a read that is asked now has to contain.
    pub(crate) fn floor(&self, group: GroupId) -> Index {
        self.answered[group.index()]
    }

    /// A read is answered from the state after this entry.
    pub(crate) fn reads(&mut self, group: GroupId, applied: Index, floor: Index) {
        if applied < floor {
            self.breaks(|| {
                format!(
                    "group {}: a read of the state after entry {}, when writes up to {} had been answered",
                    group.number(),
                    applied.0,
                    floor.0
                )
            });
        }
    }

    pub(crate) fn check(
        &mut self,
        running: &[Option<&Bare>],
        stepped: NodeId,
        clocks: &dyn Fn(NodeId) -> Monotonic,
    ) -> Result<(), String> {
        let Some(node) = running[stepped.0 as usize] else {
            return Ok(());
        };
        for replica in node.replicas.values() {
            let group = replica.group.group();
            if replica.group.is_leader() {
                let (term, me) = (replica.group.status().term, replica.group.me());
                let known = *self.leaders.entry((group, term)).or_insert(me);
                if known != me {
                    self.breaks(|| {
                        let number = group.number();
                        format!("group {number}: {} and {} lead in term {}", known.0, me.0, term.0)
                    });
                }
                self.settle(group, replica.group.members());
            }
            if self.shape.has_leases {
                self.check_leases(group, running, clocks);
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn check_leases(
        &mut self,
        group: GroupId,
        running: &[Option<&Bare>],
        clocks: &dyn Fn(NodeId) -> Monotonic,
    ) {
        let leased = |node: &&Bare| {
            node.replicas.get(&group).is_some_and(|replica| {
                matches!(replica.group.read_permit(clocks(node.me)), ReadPermit::Lease(_))
            })
        };
        let leases: Vec<u64> = running
            .iter()
            .flatten()
            .filter(|node| leased(node))
            .map(|node| node.me.0)
            .collect();
        if leases.len() > 1 {
            self.breaks(|| format!("group {}: nodes {leases:?} have a lease at once", group.number()));
        }
    }

    /// Whether every group can go on with these replicas.
    pub(crate) fn survives<'a>(&self, replicas: impl Iterator<Item = (Incarnation, &'a Members)>) -> bool {
        let replicas: Vec<_> = replicas.collect();
        let holders: BTreeSet<Incarnation> = replicas.iter().map(|(incarnation, _)| *incarnation).collect();
        let is_majority = |voters: &mut dyn Iterator<Item = &Incarnation>| {
            let (mut held, mut all) = (0, 0);
            for voter in voters {
                all += 1;
                held += usize::from(holders.contains(voter));
            }
            all == 0 || held > all / 2
        };
        let views = replicas.iter().all(|(_, members)| {
            is_majority(&mut members.voters.iter()) && is_majority(&mut members.outgoing.iter())
        });
        views
            && self
                .pending
                .iter()
                .flatten()
                .all(|wanted| is_majority(&mut wanted.iter()))
    }

    pub(crate) fn check_at_rest(&mut self, running: &[Option<&Bare>]) -> Result<(), String> {
        for (number, place) in self.directory.places.iter().enumerate() {
            let group = GroupId::new(number as u16);
            let replicas: Vec<&Replica> = running
                .iter()
                .flatten()
                .filter_map(|node| node.replicas.get(&group))
                .filter(|replica| place.wanted.contains(&replica.group.me()))
                .collect();
            let applied: BTreeSet<Index> = replicas
                .iter()
                .map(|replica| replica.group.point().index)
                .collect();
            let states: BTreeSet<u64> = replicas
                .iter()
                .map(|replica| replica.keyspace.state_hash())
                .collect();
            if applied.len() > 1 {
                return Err(format!(
                    "group {number} is at rest, and its replicas are at {applied:?}"
                ));
            }
            if states.len() > 1 {
                return Err(format!("group {number} is at rest, and its replicas differ"));
            }
        }
        Ok(())
    }
}
