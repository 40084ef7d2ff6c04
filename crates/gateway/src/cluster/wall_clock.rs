//! The time that entries carry: this node's wall clock, held within a second of what most nodes' clocks show.
//!
//! A key's deadline is judged by the times of its group's entries, and these never go back. One leader whose clock is an hour
//! ahead for a moment would delete keys an hour early, and the group could not take that back: its time would stand still for
//! an hour, and no key would expire. So nodes tell each other what their wall clocks show, and a node whose clock is far from
//! the others' uses theirs.
//!
//! ```text
//!   own clock   --+
//!   the others' --+--> median, as far as it is known --> own clock, but at most OFF_MAX before or behind it
//! ```
//!
//! What another clock shows is kept as how far it is ahead of the monotonic clock of this node, which nobody sets. So it is
//! known also while that node is out of reach. What it told may have been on its way for long, and then its clock seems to be
//! behind: of the last few of each node the one that was fastest counts.
//!
//! With two nodes nobody can say whose clock is wrong: each uses its own.

use ids::{Monotonic, NodeId, UnixMillis};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far the time that is used may be from what most clocks show.
pub(crate) const OFF_MAX: Duration = Duration::from_secs(1);

/// How often a node tells the others what its clock shows.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(500);

/// Of each node so many readings are remembered; older ones are forgotten, so that a clock which was set is believed soon.
const READINGS_MAX: usize = 4;

/// See the file's header.
#[derive(Default)]
pub(crate) struct WallClock {
    /// Of each other node: by how many milliseconds its clock is ahead of the monotonic clock here; the newest last.
    /// Bounded by the nodes of the cluster.
    others: BTreeMap<NodeId, [Option<i64>; READINGS_MAX]>,
    /// The fastest reading of each of them, ascending: every turn asks for the median.
    fastest: Vec<i64>,
    /// Whether an operator was told that this node's clock is off.
    is_off: bool,
}

impl WallClock {
    /// Another node has told what its clock shows.
    pub(crate) fn heard(&mut self, node: NodeId, wall: UnixMillis, now: Monotonic) {
        let readings = self.others.entry(node).or_default();
        readings.rotate_left(1);
        readings[READINGS_MAX - 1] = Some(ahead(wall, now));
        self.sort();
    }

    /// Only these nodes are in the cluster.
    pub(crate) fn retain(&mut self, is_there: impl Fn(NodeId) -> bool) {
        self.others.retain(|node, _| is_there(*node));
        self.sort();
    }

    fn sort(&mut self) {
        let fastest = |readings: &[Option<i64>; READINGS_MAX]| readings.iter().flatten().max().copied();
        self.fastest.clear();
        self.fastest.extend(self.others.values().filter_map(fastest));
        self.fastest.sort_unstable();
    }

    /// The time to use when the own clock shows `own`; what an operator is to be told, if that has changed.
    pub(crate) fn judge(&mut self, own: UnixMillis, now: Monotonic) -> (UnixMillis, Option<String>) {
        if self.others.is_empty() {
            return (own, None);
        }
        let own_ahead = ahead(own, now);
        // The own one among the others.
        let place = self.fastest.partition_point(|other| *other < own_ahead);
        let at = |index: usize| match index.cmp(&place) {
            Ordering::Less => self.fastest[index],
            Ordering::Equal => own_ahead,
            Ordering::Greater => self.fastest[index - 1],
        };
        // Of an even number of clocks whatever is between the two in the middle will do.
        let count = self.fastest.len() + 1;
        let (low, high) = (at((count - 1) / 2), at(count / 2));
        let off_max = OFF_MAX.as_millis() as i64;
        let used = own_ahead.clamp(low.saturating_sub(off_max), high.saturating_add(off_max));
        let was_off = std::mem::replace(&mut self.is_off, used != own_ahead);
        let notice = match (was_off, self.is_off) {
            (false, true) => {
                let (off, direction) = match own_ahead > high {
                    true => (own_ahead.saturating_sub(high), "ahead of"),
                    false => (low.saturating_sub(own_ahead), "behind"),
                };
                Some(format!(
                    "this node's wall clock is {off} ms {direction} that of most nodes; theirs is used until it is set right"
                ))
            }
            (true, false) => Some("this node's wall clock agrees with that of most nodes again".to_owned()),
            _ => None,
        };
        let by = used.saturating_sub(own_ahead);
        (UnixMillis(own.0.saturating_add(by)), notice)
    }

    /// Whether this node's clock is not used as it is.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }
}

/// By how many milliseconds a wall clock is ahead of a monotonic one.
fn ahead(wall: UnixMillis, now: Monotonic) -> i64 {
    // Nanoseconds of 64 bits are below 2^45 milliseconds.
    wall.0.saturating_sub((now.0 / 1_000_000) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(millis: i64) -> Monotonic {
        Monotonic(millis as u64 * 1_000_000)
    }

    /// A clock beside others that show what `others` says at the monotonic moment 1,000.
    fn beside(others: &[i64]) -> WallClock {
        let mut clock = WallClock::default();
        for (node, wall) in (1..).zip(others) {
            clock.heard(NodeId(node), UnixMillis(*wall), at(1_000));
        }
        clock
    }

    #[test]
    fn a_clock_that_agrees_within_a_second_is_used_as_it_is() {
        let mut clock = beside(&[50_000, 50_900]);
        for own in [49_100, 50_000, 51_800] {
            assert_eq!(clock.judge(UnixMillis(own), at(1_000)), (UnixMillis(own), None));
        }
    }

    #[test]
    fn a_clock_an_hour_ahead_is_held_at_a_second_from_the_others_and_told_of_once() {
        let mut clock = beside(&[50_000, 50_000]);
        let (used, notice) = clock.judge(UnixMillis(50_000 + HOUR), at(1_000));
        assert_eq!(used, UnixMillis(51_000));
        assert!(notice.is_some_and(|notice| notice.contains("3600000 ms ahead")));
        assert!(clock.is_off());
        // Later, with the others out of reach: their clocks went on.
        assert_eq!(
            clock.judge(UnixMillis(60_000 + HOUR), at(11_000)),
            (UnixMillis(61_000), None)
        );
        let (used, notice) = clock.judge(UnixMillis(62_000), at(13_000));
        assert_eq!(used, UnixMillis(62_000), "somebody has set it right");
        assert!(notice.is_some_and(|notice| notice.contains("agrees")));
    }

    #[test]
    fn a_clock_an_hour_behind_is_brought_up_to_a_second() {
        let mut clock = beside(&[50_000 + HOUR, 50_000 + HOUR]);
        let (used, notice) = clock.judge(UnixMillis(50_000), at(1_000));
        assert_eq!(used, UnixMillis(49_000 + HOUR));
        assert!(notice.is_some_and(|notice| notice.contains("behind")));
    }

    #[test]
    fn of_two_clocks_nobody_knows_which_is_wrong() {
        let mut clock = beside(&[50_000]);
        let own = UnixMillis(50_000 + HOUR);
        assert_eq!(clock.judge(own, at(1_000)), (own, None));
    }

    #[test]
    fn one_other_clock_that_is_wrong_changes_nothing() {
        let mut clock = beside(&[50_000, 50_000 + HOUR]);
        let own = UnixMillis(50_100);
        assert_eq!(clock.judge(own, at(1_000)), (own, None));
    }

    #[test]
    fn what_was_on_its_way_for_long_does_not_make_a_clock_seem_slow() {
        let mut clock = beside(&[50_000, 50_000]);
        for node in [1, 2] {
            // It was sent at the moment 2,000 and came at 9,000.
            clock.heard(NodeId(node), UnixMillis(51_000), at(9_000));
        }
        let own = UnixMillis(58_500);
        assert_eq!(clock.judge(own, at(9_000)), (own, None));
    }

    #[test]
    fn a_clock_that_was_set_back_is_believed_after_a_few_readings() {
        let mut clock = beside(&[50_000 + HOUR, 50_000 + HOUR]);
        for second in 1..=READINGS_MAX as i64 {
            for node in [1, 2] {
                clock.heard(
                    NodeId(node),
                    UnixMillis(50_000 + second * 500),
                    at(1_000 + second * 500),
                );
            }
        }
        let own = UnixMillis(53_000);
        assert_eq!(clock.judge(own, at(4_000)), (own, None));
    }

    #[test]
    fn a_node_that_left_has_no_say() {
        let mut clock = beside(&[50_000, 50_000]);
        clock.retain(|node| node == NodeId(1));
        let own = UnixMillis(50_000 + HOUR);
        assert_eq!(clock.judge(own, at(1_000)), (own, None));
    }
}
