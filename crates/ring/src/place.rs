//! The rule: which nodes hold which group.
//!
//! ```text
//!  previous --> keep --> fill --> part, even out --> cap --> fill --> exchange --> placement
//!               what     what      by single         what is          by chains, until
//!               is a     is        moves             above it is      nothing can be
//!               member   missing                     taken away       better
//! ```
//!
//! - *Keep*: a replica stays on its node, if that is a member, unless there are more than `rf`.
//! - *Fill*: a missing replica goes to the next node clockwise from its group's position, skipping nodes that have it,
//!   zones that have it, and nodes that have enough. Enough is first the node's share (`share.rs`) rounded down, then rounded up, then
//!   the cap: so the ring chooses among nodes that are in need. If there is none, room is made by the shortest chain of moves.
//! - *Part*: what shares a zone goes to the next node clockwise where it does not. Exchanges would find it too, one chain at a time: for nodes
//!   that get zones all at once this is several times as fast.
//! - *Even out*: a node that joined has nothing; it takes, from whoever is fullest, the groups that meet it soonest on the
//!   circle. A group never loses a zone by this.
//! - *Exchange*: closed chains of moves (`exchange.rs`) get replicas apart that share a zone, give nodes their shares, and take back moves
//!   that were for nothing.
//!
//! Invariants, asserted at the end:
//! 1. Each group has min(`rf`, number of members) different members.
//! 2. No node has more than its cap.
//! 3. No zone has so many replicas of a group that the others are no majority, where there are zones enough (`zone_max`).
//!
//! What follows from the rule, and tests hold us to: of what the invariants allow, as few replicas as can be share a zone with another one of
//! their group; with that, nodes have their shares, rounded down or up, as nearly as can be; with that, as few replicas move as can be.
//! The same members place nothing anew: each step finds nothing to do. Where there are neither zones nor weights, a joining node moves no
//! replicas but those that it gets.

use crate::circle::{Circle, RingNode};
use crate::exchange::Exchanges;
use crate::placement::Placement;
use crate::share::{Share, shares, zone_max};
use crate::table::Table;
use ids::{GroupCount, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// The most replicas that each of these nodes may hold, of `rf` of each group: its share rounded up, or 1.1 times the share if that is
/// more. Shares are in proportion to weights, as far as zones allow.
pub fn load_max(members: &[RingNode<'_>], groups: GroupCount, rf: usize) -> Vec<(NodeId, usize)> {
    let circle = Circle::new(members);
    let shares = shares(&circle, groups.get().into(), rf.min(circle.len()));
    let caps = shares.iter().enumerate();
    caps.map(|(node, share)| (circle.node(node), share.most))
        .collect()
}

/// Whether groups of `rf` replicas that are placed on these nodes go on without any one of their zones. A group of one never does.
pub fn bears_loss_of_zone(members: &[RingNode<'_>], rf: usize) -> bool {
    zone_max(&Circle::new(members), rf).is_some()
}

/// Places `rf` replicas of each group, or as many as there are members.
///
/// `previous` is what was placed before: of any members, with any `rf`, or nothing.
pub fn place(members: &[RingNode<'_>], groups: GroupCount, rf: usize, previous: &Placement) -> Placement {
    let circle = Circle::new(members);
    let groups = usize::from(groups.get());
    let rf = rf.min(circle.len());
    let mut placing = Placing {
        table: Table::new(&circle, groups),
        rf,
        shares: shares(&circle, groups, rf),
        zone_max: zone_max(&circle, rf),
        had: vec![Vec::new(); groups],
    };
    placing.keep(previous);
    placing.fill();
    placing.part();
    placing.even_out();
    if placing.cap() {
        placing.fill();
    }
    Exchanges::new(
        &mut placing.table,
        &placing.shares,
        placing.zone_max,
        &placing.had,
    )
    .make();
    placing.finish()
}

struct Placing<'a> {
    table: Table<'a>,
    rf: usize,
    /// For each node.
    shares: Vec<Share>,
    zone_max: Option<usize>,
    /// For each group the nodes that had it before.
    had: Vec<Vec<usize>>,
}

impl Placing<'_> {
    fn keep(&mut self, previous: &Placement) {
        let circle = self.table.circle;
        for (group, nodes) in previous.0.iter().enumerate().take(self.table.group_count()) {
            for node in nodes.iter().filter_map(|&node| circle.find(node)) {
                if !self.table.holds(group, node) {
                    self.table.add(group, node);
                    self.had[group].push(node);
                }
            }
        }
        for group in 0..self.table.group_count() {
            while self.table.nodes_of(group).len() > self.rf {
                let worst = self.worst(group);
                self.table.remove(group, worst.expect("there are more than `rf`"));
            }
        }
    }

    /// Which of a group's nodes it had best leave: one that is not alone in its zone, then one that has much, then the
    /// last one clockwise.
    fn worst(&self, group: usize) -> Option<usize> {
        let table = &self.table;
        let nodes = table.nodes_of(group).iter().copied();
        nodes.max_by_key(|&node| {
            let zone = table.in_zone(group, table.circle.zone(node));
            (zone, self.fullness(node), table.circle.distance(group, node))
        })
    }

    /// How full the node is beside its share.
    fn fullness(&self, node: usize) -> u64 {
        self.table.load(node) as u64 * self.shares[node].step
    }

    /// Gives each group as many replicas as it is to have.
    fn fill(&mut self) {
        let levels = self.levels();
        // A zone has the group once if that can be, twice if that can be, and so on.
        for per_zone in 1..=self.rf {
            for level in &levels {
                for group in 0..self.table.group_count() {
                    while self.table.nodes_of(group).len() < self.rf && self.fill_one(group, level, per_zone)
                    {
                    }
                }
            }
        }
        // If nobody who could take a replica of it has room.
        for group in 0..self.table.group_count() {
            while self.table.nodes_of(group).len() < self.rf {
                self.make_room(group, &levels[2]);
            }
        }
    }

    /// Gets replicas of a group apart that share a zone, by single moves.
    fn part(&mut self) {
        for level in self.levels() {
            for group in 0..self.table.group_count() {
                while self.part_one(group, &level) {}
            }
        }
    }

    fn part_one(&mut self, group: usize, loads: &[usize]) -> bool {
        let table = &self.table;
        let Some(from) = self.worst(group) else {
            return false;
        };
        let shares_with = table.in_zone(group, table.circle.zone(from));
        let may_get = |node: usize| {
            table.load(node) < loads[node]
                && !table.holds(group, node)
                && table.in_zone(group, table.circle.zone(node)) + 1 < shares_with
        };
        let found = (shares_with > 1).then(|| table.circle.walk(group).find(|&node| may_get(node)));
        let Some(to) = found.flatten() else {
            return false;
        };
        self.table.shift(group, from, to);
        true
    }

    /// How much a node has before another one is asked: at first what all have by right, at last what they may have.
    fn levels(&self) -> [Vec<usize>; 3] {
        let of_all = |level: fn(&Share) -> usize| self.shares.iter().map(level).collect();
        [
            of_all(|share| share.least),
            of_all(|share| share.enough),
            of_all(|share| share.most),
        ]
    }

    /// Places one more replica of the group if that can be, without any node getting more than `loads` says.
    fn fill_one(&mut self, group: usize, loads: &[usize], per_zone: usize) -> bool {
        let table = &self.table;
        let may_get = |node: usize| {
            table.load(node) < loads[node]
                && !table.holds(group, node)
                && table.in_zone(group, table.circle.zone(node)) < per_zone
        };
        let found = table.circle.walk(group).find(|&node| may_get(node));
        if let Some(node) = found {
            self.table.add(group, node);
        }
        found.is_some()
    }

    /// Places one more replica of the group: some node takes it that passes another group on, and so on, to one that has room. This is an
    /// augmenting path, found breadth first. There is always one, since there is a placement within the caps.
    fn make_room(&mut self, group: usize, loads: &[usize]) {
        let table = &self.table;
        let mut reached_by: Vec<Option<(usize, usize)>> = vec![None; table.circle.len()];
        let (without, mut with): (Vec<usize>, Vec<usize>) =
            (0..table.circle.len()).partition(|&node| !table.holds(group, node));
        let mut queue = VecDeque::from(without);
        while let Some(node) = queue.pop_front() {
            if table.load(node) < loads[node] {
                let mut at = node;
                while let Some((from, other)) = reached_by[at] {
                    self.table.shift(other, from, at);
                    at = from;
                }
                self.table.add(group, at);
                return;
            }
            for &other in table.groups_on(node) {
                let (found, left): (Vec<usize>, _) =
                    with.into_iter().partition(|&to| !table.holds(other, to));
                with = left;
                found.iter().for_each(|&to| reached_by[to] = Some((node, other)));
                queue.extend(found);
            }
        }
        unreachable!("the caps leave room for all replicas");
    }

    /// Lets whoever is least full take from whoever is fullest, until no single move brings a node nearer to its share, and none further away.
    /// Each one does, so that it ends.
    fn even_out(&mut self) {
        let all = 0..self.table.circle.len();
        let mut takers: BTreeSet<(u64, usize)> = all.map(|node| (self.fullness_with(node), node)).collect();
        while let Some((_, taker)) = takers.pop_first() {
            let Some(giver) = self.take(taker) else {
                continue;
            };
            takers.insert((self.fullness_with(taker), taker));
            // It has one less than it was known by, if it may still take.
            if takers.remove(&(self.fullness_with(giver) + self.shares[giver].step, giver)) {
                takers.insert((self.fullness_with(giver), giver));
            }
        }
    }

    /// How full the node would be with one more.
    fn fullness_with(&self, node: usize) -> u64 {
        self.fullness(node) + self.shares[node].step
    }

    /// Moves one replica from the fullest node that has too much, if this one has not enough, or the other way round, and one that may move:
    /// the one that meets it soonest on the circle. Answers that node, if there is one.
    fn take(&mut self, to: usize) -> Option<usize> {
        let table = &self.table;
        let (taken, takes) = (table.load(to), &self.shares[to]);
        if taken >= takes.enough {
            return None;
        }
        let gives = |node: &usize| {
            let (given, gives) = (table.load(*node), &self.shares[*node]);
            match taken < takes.least {
                true => given > gives.least,
                false => given > gives.enough,
            }
        };
        let mut givers: Vec<usize> = (0..table.circle.len()).filter(gives).collect();
        givers.sort_by_key(|&node| Reverse(self.fullness(node)));
        let found = givers.iter().find_map(|&from| {
            let groups = table.groups_on(from).iter().copied();
            groups
                .filter(|&group| table.keeps_zones(group, from, to))
                .min_by_key(|&group| table.circle.distance(group, to))
                .map(|group| (group, from))
        });
        let (group, from) = found?;
        self.table.shift(group, from, to);
        Some(from)
    }

    /// Takes away what is above the cap. True if anything was.
    fn cap(&mut self) -> bool {
        let mut is_any = false;
        for node in 0..self.table.circle.len() {
            while self.table.load(node) > self.shares[node].most {
                let table = &self.table;
                let groups = table.groups_on(node).iter().copied();
                let last = groups.max_by_key(|&group| table.circle.distance(group, node));
                self.table
                    .remove(last.expect("more than none are above the cap"), node);
                is_any = true;
            }
        }
        is_any
    }

    fn finish(self) -> Placement {
        let table = &self.table;
        for (node, share) in self.shares.iter().enumerate() {
            assert!(table.load(node) <= share.most, "no node has more than its cap");
        }
        let groups = (0..table.group_count()).map(|group| {
            let mut nodes = table.nodes_of(group).to_vec();
            assert_eq!(nodes.len(), self.rf, "each group has its replicas");
            let in_zone = |&node: &usize| table.in_zone(group, table.circle.zone(node));
            let fullest = nodes.iter().map(in_zone).max().unwrap_or(0);
            assert!(
                self.zone_max.is_none_or(|most| fullest <= most),
                "no zone has what is needed for a majority"
            );
            nodes.sort_by_key(|&node| (table.circle.distance(group, node), node));
            nodes.iter().map(|&node| table.circle.node(node)).collect()
        });
        Placement(groups.collect())
    }
}
