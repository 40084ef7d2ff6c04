//! How much each node is to hold.
//!
//! ```text
//!  8 groups of 3 replicas; 4 nodes in a zone, 1 in each of two others:
//!    by weight    4  4  4  4 | 4 | 4      the first zone would have 16 replicas, two of each group
//!    8 a zone     2  2  2  2 | 8 | 8      what it may not have is for the others
//! ```
//!
//! A share is in proportion to the weight, but for two limits. A node has a group once at most. And where there are zones enough for it, no
//! zone has so many replicas of a group that the others are no majority. What is above a limit goes to all others in proportion.
//!
//! Shares are fractions, of which sums are exact: there is a placement in which every node has its share, rounded down or up. A group
//! can be given to each node in proportion to its share, and a flow in fractions between limits in whole numbers may be had in whole
//! numbers too.

use crate::circle::Circle;

/// The most replicas of a group of `rf` that one zone may have, so that the loss of any zone leaves a majority of it. None if there are
/// too few zones for that, or nodes in them.
pub(crate) fn zone_max(circle: &Circle, rf: usize) -> Option<usize> {
    let most = rf.checked_sub(rf / 2 + 1)?;
    let zones = circle.zones();
    let room: usize = zones.iter().map(|nodes| nodes.len().min(most)).sum();
    (room >= rf).then_some(most)
}

/// How much one node is to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// Its share, rounded down.
    pub(crate) least: usize,
    /// Rounded up.
    pub(crate) enough: usize,
    /// The cap: rounded up, or 1.1 times the share if that is more.
    pub(crate) most: usize,
    /// How much fuller it is with one replica more, of `FULL`.
    pub(crate) step: u64,
}

/// A node that has its share; many times as much as there are replicas, so that rounding decides nothing.
const FULL: u64 = 1 << 40;

/// So large that as many as there are replicas can be added up.
const STEP_MAX: u64 = u64::MAX >> 16;

/// The share of each node, of `rf` replicas of each group. There are at least as many nodes.
pub(crate) fn shares(circle: &Circle, groups: usize, rf: usize) -> Vec<Share> {
    let mut sharing = Sharing {
        circle,
        groups: groups as u64,
        shares: vec![(0, 1); circle.len()],
    };
    let mut left = sharing.groups * rf as u64;
    let mut open = circle.zones().to_vec();
    loop {
        sharing.give(open.concat(), left);
        let zone_max = zone_max(circle, rf).map(|most| sharing.groups * most as u64);
        let is_above = |zone: &Vec<usize>| zone_max.is_some_and(|most| sharing.is_above(zone, most));
        let (above, within): (Vec<_>, Vec<_>) = open.into_iter().partition(is_above);
        let Some(most) = zone_max.filter(|_| !above.is_empty()) else {
            return sharing.shares.into_iter().map(share_of).collect();
        };
        for zone in above {
            sharing.give(zone, most);
            left -= most;
        }
        open = within;
    }
}

fn share_of((over, under): (u64, u64)) -> Share {
    let whole = |number: u64| usize::try_from(number).expect("no more than there are replicas");
    Share {
        least: whole(over / under),
        enough: whole(over.div_ceil(under)),
        most: whole(over.div_ceil(under).max(over * 11 / (under * 10))),
        // With a weight so small beside others that it is nearly nothing, one replica is very much.
        step: u64::try_from(u128::from(FULL) * u128::from(under) / u128::from(over.max(1)))
            .map_or(STEP_MAX, |step| step.min(STEP_MAX)),
    }
}

struct Sharing<'a> {
    circle: &'a Circle,
    groups: u64,
    /// Of each node, as a fraction: all that are below their limit have one denominator, and others 1.
    shares: Vec<(u64, u64)>,
}

impl Sharing<'_> {
    /// Gives these nodes so much, and none of them more than there are groups.
    fn give(&mut self, mut open: Vec<usize>, mut left: u64) {
        loop {
            let weight: u64 = open.iter().map(|&node| self.circle.weight(node)).sum();
            let share = |node: usize| self.circle.weight(node) * left;
            let (above, within): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|&&node| share(node) > self.groups * weight);
            if above.is_empty() {
                for node in within {
                    self.shares[node] = (share(node), weight);
                }
                return;
            }
            left -= self.groups * above.len() as u64;
            above
                .iter()
                .for_each(|&node| self.shares[node] = (self.groups, 1));
            open = within;
        }
    }

    /// Whether a zone has more than so much.
    fn is_above(&self, zone: &[usize], most: u64) -> bool {
        let (mut whole, mut over, mut under) = (0, 0, 1);
        for &node in zone {
            match self.shares[node] {
                (replicas, 1) => whole += replicas,
                part => (over, under) = (over + part.0, part.1),
            }
        }
        whole * under + over > most * under
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circle::RingNode;
    use ids::NodeId;

    fn shares_of(members: &[(&str, u16)], groups: usize, rf: usize) -> Vec<(usize, usize, usize)> {
        let members: Vec<RingNode<'_>> = (1..)
            .zip(members)
            .map(|(id, &(zone, weight))| RingNode {
                node: NodeId(id),
                zone,
                weight,
            })
            .collect();
        let shares = shares(&Circle::new(&members), groups, rf);
        let shares = shares.iter().map(|share| (share.least, share.enough, share.most));
        shares.collect()
    }

    #[test]
    fn shares_are_in_proportion_to_weights_as_far_as_a_node_can_have_them() {
        assert_eq!(shares_of(&[("", 1); 4], 10, 3), [(7, 8, 8); 4]);
        let doubled = [("", 2), ("", 2), ("", 1), ("", 1), ("", 1), ("", 1)];
        let shares = shares_of(&doubled, 40, 3);
        assert_eq!(
            shares,
            [[(30, 30, 33); 2].as_slice(), &[(15, 15, 16); 4]].concat()
        );
        // One node cannot have a group twice: the others share what is left.
        let heavy = [("", 9), ("", 1), ("", 1), ("", 1)];
        let shares = shares_of(&heavy, 12, 3);
        assert_eq!(
            shares,
            [[(12, 12, 13)].as_slice(), &[(8, 8, 8); 3]].concat(),
            "a cap above what can be binds nobody"
        );
    }

    #[test]
    fn a_zone_has_no_more_than_its_loss_may_take_where_that_can_be() {
        let six = [("a", 1), ("a", 1), ("a", 1), ("a", 1), ("b", 1), ("c", 1)];
        let shares = shares_of(&six, 8, 3);
        assert_eq!(shares, [[(2, 2, 2); 4].as_slice(), &[(8, 8, 8); 2]].concat());
        // Two zones cannot bear it, whatever is done, nor can six with five replicas where one node stands alone twice.
        assert_eq!(shares_of(&six[..5], 10, 3), [(6, 6, 6); 5]);
        assert_eq!(shares_of(&six, 6, 5), [(5, 5, 5); 6]);
    }
}
