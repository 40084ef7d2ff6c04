//! Commands whose keys are not where they were sent: the group has given the partition to another one.
//!
//! ```text
//!   sent to a group --Moved: where it went--> noted in this worker's table --> sent there, as something new
//!                        nobody knows where --> waits, a tick at a time, until that is known
//! ```
//!
//! A group that answers Moved has done nothing, and keeps that answer as it keeps any other ([decision 0074]): so what is sent on is carried out
//! once. What one connection has sent to one slot is never under way to two groups, but for what is sent on, in its order: as soon as
//! anything is, whoever has something under way waits with what names the same slots ([`may_change_groups`](crate::in_flight::may_change_groups)).
//!
//! [decision 0074]: ../../../docs/decisions/0074-partitions-move.md

use crate::blocking::OnMoved;
use crate::context::Context;
use crate::gateway::Gateway;
use crate::program::Program;
use command::Spread;
use ids::{GroupId, Host, Monotonic, PartitionId};
use keyspace::Moved;
use replica::{Operation, Output, ReplyTo, Request, UNREACHABLE};
use std::collections::VecDeque;
use std::time::Duration;

/// How long is looked for the group of a key, from when it was first not where it was sought.
const PATIENCE: Duration = Duration::from_secs(5);

/// Commands whose group nobody knows at present, in the order in which they came. Bounded by the connections: each has a bounded number of
/// these under way.
#[derive(Default)]
pub(crate) struct Unplaced(VecDeque<UnplacedCommand>);

struct UnplacedCommand {
    reply_to: ReplyTo,
    command: Box<Operation>,
    /// The group that does not have its keys; none if it is to be sent wherever they are thought to be.
    but: Option<GroupId>,
    since: Monotonic,
    /// Whether it is a client's that waits for its keys.
    is_blocking: bool,
}

impl Unplaced {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Context {
    /// Groups have said where partitions are that were sought there.
    pub(crate) fn learn_moved(&mut self, elsewhere: &[Moved]) {
        let known = elsewhere.iter().filter_map(|moved| {
            let (group, moves) = moved.to?;
            Some((moved.partition, Host { group, moves }))
        });
        self.learn_hosts(self.groups, known);
    }
}

impl Gateway {
    /// Begins with what is to be mended, or to move one of the partitions that are to go to other groups, if this worker leads the group that hosts it and moves none.
    pub(crate) fn begin_wanted_move(&mut self) {
        if !self.coordinator.may_move(self.cx.now) {
            return;
        }
        if self.coordinator.begin_ordered_mend(&mut self.cx) {
            return self.route();
        }
        let cx = &self.cx;
        let Some(layout) = cx.view.layout() else { return };
        let is_ours = |(partition, to): &(&PartitionId, &GroupId)| {
            let index = cx.local.index(cx.groups.host_of(**partition))?;
            let replica = &cx.local.replicas[index];
            let may_go = replica.leader().is_some() && replica.keyspace().hosts(**partition);
            may_go.then_some((index, **partition, **to))
        };
        // Each has its turn, though others come to nothing.
        let last = self.coordinator.last_tried();
        let wishes = || layout.wishes.iter();
        let behind = wishes().filter(|(partition, _)| **partition > last);
        let mut wishes = behind.chain(wishes().filter(|(partition, _)| **partition <= last));
        if let Some((index, partition, to)) = wishes.find_map(|wish| is_ours(&wish)) {
            self.coordinator.begin_move(&mut self.cx, index, partition, to);
            self.route();
        }
    }

    /// Keys of what was sent to a group belong to others.
    pub(crate) fn on_moved(
        &mut self,
        reply_to: ReplyTo,
        from: GroupId,
        elsewhere: &[Moved],
        command: Option<Box<Operation>>,
    ) {
        self.cx.learn_moved(elsewhere);
        // What comes from now on must not pass what is sent on.
        self.cx.hosts_version += 1;
        match self.blocking.on_moved(&mut self.cx, reply_to, from) {
            OnMoved::NotBlocked => {}
            OnMoved::Done => return,
            OnMoved::Unplaced(command) => {
                let unplaced = self.unplaced(reply_to, command, from, true);
                return self.unplaced.0.push_back(unplaced);
            }
        }
        if self.coordinator.on_one_phase(&mut self.cx, reply_to, false) {
            return;
        }
        if let Some(program) = self.coordinator.take_block(reply_to) {
            let extent = program.extent(self.cx.groups);
            // Sent to the same group again it would come back at once. As a transaction it waits until more is known.
            match extent.groups[..] == [from] {
                true => self
                    .coordinator
                    .start_transaction(&mut self.cx, reply_to, program, extent),
                false => self.coordinator.start(&mut self.cx, reply_to, program, extent),
            };
            return;
        }
        let Some(command) = command else {
            return self.fail_unplaced(reply_to);
        };
        // Those before it are not passed.
        self.place_unplaced();
        self.send_on(self.unplaced(reply_to, command, from, false));
    }

    fn unplaced(
        &self,
        reply_to: ReplyTo,
        command: Box<Operation>,
        from: GroupId,
        is_blocking: bool,
    ) -> UnplacedCommand {
        UnplacedCommand {
            reply_to,
            command,
            but: Some(from),
            since: self.cx.now,
            is_blocking,
        }
    }

    /// Looks again for the groups of commands that nobody knew.
    pub(crate) fn place_unplaced(&mut self) {
        for command in std::mem::take(&mut self.unplaced.0) {
            self.send_on(command);
        }
    }

    /// Sends a command to where its keys are by now, if that is known.
    fn send_on(&mut self, unplaced: UnplacedCommand) {
        let program = Program::single((*unplaced.command).clone());
        let mut extent = program.extent(self.cx.groups);
        // It has no condition: it is looked at as a whole.
        extent.flows |= unplaced.command.spec.spread == Spread::IfAllAbsent;
        let (reply_to, is_late) = (unplaced.reply_to, self.cx.now.since(unplaced.since) >= PATIENCE);
        match extent.groups[..] {
            [group] if Some(group) != unplaced.but && !unplaced.is_blocking => {
                let operation = *unplaced.command;
                self.cx.request(group, Request::Execute { reply_to, operation });
            }
            [group] if Some(group) != unplaced.but => self.blocking.go_on(&mut self.cx, reply_to),
            [_] if is_late => self.fail_unplaced(reply_to),
            [_] => self.unplaced.0.push_back(unplaced),
            _ if unplaced.is_blocking => self.blocking.go_on(&mut self.cx, reply_to),
            _ => self
                .coordinator
                .start_moved(&mut self.cx, reply_to, program, extent),
        }
    }

    fn fail_unplaced(&mut self, reply_to: ReplyTo) {
        let (error, journey) = (UNREACHABLE, None);
        self.cx.outbox.outputs.push_back(Output::Failed {
            reply_to,
            error,
            journey,
        });
    }
}
