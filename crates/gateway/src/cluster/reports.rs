//! What the meta group is told of the groups of a worker.

use super::seat::Seat;
use super::{GroupLayout, Seats};
use crate::context::Context;
use control::{GivenUp, GroupRef, GroupReport, PartitionNotes, RecoverySource};
use ids::{Host, PartitionId, SemanticsVersion};
use replica::Replica;
use std::time::Duration;

impl Seats {
    /// What the meta group is to be told of the groups that this worker leads, and which it does not lead.
    pub(crate) fn group_reports(&self, cx: &Context) -> (Vec<GroupReport>, Vec<GroupRef>) {
        let (mut led, mut not_led) = (Vec::new(), Vec::new());
        for (seat, replica, layout) in self.seats(cx) {
            match seat.group_report(cx.view.me(), replica, layout, |node| cx.view.is_unfit(node)) {
                Some(group_report) => led.push(group_report),
                None => not_led.push(GroupRef::Data(replica.group())),
            }
        }
        (led, not_led)
    }

    /// What is known here of partitions beside what groups host.
    pub(crate) fn partition_notes(&self, cx: &Context) -> PartitionNotes {
        let mut notes = PartitionNotes::default();
        if cx.turn.semantics < SemanticsVersion::PARTITIONS_MENDED {
            return notes;
        }
        let led = cx
            .local
            .replicas
            .iter()
            .filter(|replica| replica.leader().is_some());
        for replica in led {
            let given: Vec<_> = replica.keyspace().given_away().collect();
            if !given.is_empty() {
                notes.given.insert(GroupRef::Data(replica.group()), given);
            }
        }
        let in_map = cx.view.layout().and_then(|layout| layout.hosted);
        let is_ahead = |(partition, host): &(PartitionId, Host)| {
            host.moves > in_map.map_or(0, |groups| groups.moves_of(*partition))
        };
        let ahead = cx.groups.moved().filter(is_ahead);
        notes.ahead = ahead.map(|(partition, host)| (partition, host.moves)).collect();
        notes
    }

    /// How long after [`Seats::group_reports`] they are asked for again, if there is no news. Soon where a leader has nothing
    /// to say yet, at the beginning of its term, or something else to say before long.
    pub(crate) fn group_reports_pause(&self, cx: &Context) -> Duration {
        const GROUP_REPORTS: Duration = Duration::from_secs(1);
        const GROUP_REPORTS_SOON: Duration = Duration::from_millis(50);
        let is_settling = self.seats(cx).any(|(seat, replica, layout)| {
            let group_report =
                seat.group_report(cx.view.me(), replica, layout, |node| cx.view.is_unfit(node));
            replica.leader().is_some() && group_report.is_none_or(|group_report| group_report.is_settling())
        });
        if is_settling {
            GROUP_REPORTS_SOON
        } else {
            GROUP_REPORTS
        }
    }

    /// The replicas of this worker that know no leader of their group, and what is kept from before groups began anew.
    pub(crate) fn recovery_sources(&self, cx: &Context) -> Vec<RecoverySource> {
        let (me, now) = (cx.view.me(), cx.now);
        let recovery_sources = self.seats(cx).flat_map(|(seat, replica, layout)| {
            let former = seat.former_recovery_source(me, replica.group(), layout);
            seat.recovery_source(me, replica, layout, now)
                .into_iter()
                .chain(former)
        });
        recovery_sources.collect()
    }

    /// The replicas that were given up because their state differed from that of most others, with their nodes: the meta group is
    /// to give these other ones.
    pub(crate) fn given_up(&self, cx: &Context) -> Vec<GivenUp> {
        let given_up = self.seats(cx).flat_map(|(seat, replica, layout)| {
            let all = seat.given_up(replica, layout);
            all.into_iter().map(|(node, incarnation)| GivenUp {
                group: replica.group(),
                generation: layout.generation,
                node,
                incarnation,
            })
        });
        given_up.collect()
    }

    /// The seats with their replicas, and what the layout says of their groups.
    fn seats<'a>(
        &'a self,
        cx: &'a Context,
    ) -> impl Iterator<Item = (&'a Seat, &'a Replica, &'a GroupLayout)> {
        let seats = self.seats.iter().zip(&cx.local.replicas).enumerate();
        seats.map(|(index, (seat, replica))| (seat, replica, cx.layout_of(index)))
    }
}
