//! Parcels to and from the other workers.

use crate::delivery::Delivery;
use crate::gateway::{Gateway, Incoming, busy};
use crate::message::{Message, Parcel};
use crate::program::group_of_key;
use crate::stats::WorkerStats;
use crate::timing::Caller;
use command::{Flags, ReplyError, Route};
use ids::GroupId;
use replica::{Asked, Output, Ticket, locks_of};
use resp::{Rope, Writer};
use std::collections::VecDeque;

impl Gateway {
    /// The parcel for `worker` that is being filled.
    pub(crate) fn parcel(&mut self, worker: u16) -> &mut Parcel {
        parcel(&mut self.posts[usize::from(worker)], &mut self.spare_parcels)
    }

    /// The parcel that [`Gateway::parcel`] gave last.
    pub(crate) fn parcel_being_filled(&mut self, worker: u16) -> &mut Parcel {
        self.posts[usize::from(worker)]
            .back_mut()
            .expect("the caller was given one")
    }

    /// Puts a message into the parcel for `worker`.
    pub fn send(&mut self, worker: u16, message: Message) {
        self.parcel(worker).push(message);
    }

    /// The other workers.
    pub(crate) fn other_workers(&self) -> impl Iterator<Item = (u16, &WorkerStats)> {
        let all = (0..).zip(self.shared.workers.iter().map(|stats| &**stats));
        all.filter(|(worker, _)| *worker != self.worker)
    }

    /// Sends all other workers a message.
    pub(crate) fn send_to_others(&mut self, message: impl Fn() -> Message) {
        for worker in (0..self.posts.len() as u16).filter(|worker| *worker != self.worker) {
            parcel(&mut self.posts[usize::from(worker)], &mut self.spare_parcels).push(message());
        }
    }

    /// The parcels for `worker`, oldest first; the driver takes what the queue has room for.
    pub fn post(&mut self, worker: u16) -> &mut VecDeque<Parcel> {
        &mut self.posts[usize::from(worker)]
    }

    /// Parcels that did not fit into queues yet. While there are many, the driver reads no more from clients.
    pub fn backlog(&self) -> usize {
        self.posts.iter().map(VecDeque::len).max().unwrap_or(0)
    }

    /// Takes an emptied parcel back, to be used again.
    pub fn recycle(&mut self, mut parcel: Parcel) {
        // One on its way to each worker, and one being filled. Each keeps some hundred kilobytes.
        if self.spare_parcels.len() < 2 * self.posts.len() {
            parcel.clear();
            self.spare_parcels.push(parcel);
        }
    }

    /// Handles a parcel's messages; answers to connections and connections to adopt are handed to `driver`.
    pub fn receive(&mut self, from: u16, parcel: &mut Parcel, driver: &mut dyn FnMut(Incoming<'_>)) {
        self.follow_settings();
        let messages = std::mem::take(&mut parcel.messages);
        self.stats.hops.add(messages.len() as u64);
        self.open_span();
        for message in messages {
            match message {
                Message::Execute { ticket, command } => {
                    let asked = parcel.asked(&command);
                    self.before_command(asked.spec);
                    self.timing.is_ours = true;
                    self.on_forwarded(from, ticket, asked);
                    let caller = Caller::There {
                        worker: from,
                        connection: ticket.connection,
                    };
                    if self.timing.is_ours {
                        self.after_command(asked.spec, asked.args, caller);
                    }
                }
                Message::Answer {
                    connection,
                    sequence,
                    reply,
                } if self.awaits_scan(connection, sequence) => {
                    let ticket = Ticket {
                        worker: self.worker,
                        connection,
                        sequence,
                    };
                    let bytes = parcel.reply(reply).to_vec();
                    self.deliveries.push_back(Delivery::Reply { ticket, bytes });
                }
                Message::Answer {
                    connection,
                    sequence,
                    reply,
                } => driver(Incoming::Answer {
                    connection,
                    sequence,
                    reply: parcel.reply(reply),
                }),
                Message::Entrust { seq, command } => {
                    let began = self.timing.now();
                    self.on_entrusted(from, seq, &parcel.asked(&command));
                    self.timing.leave_out(self.timing.now().saturating_sub(began));
                }
                Message::Decided { seq, reply } => {
                    let began = self.timing.now();
                    self.on_entrusted_decided(from, seq, reply.map(|reply| parcel.reply(reply)));
                    self.timing.leave_out(self.timing.now().saturating_sub(began));
                }
                Message::Request { group, request } => self.request(group, *request),
                Message::Output(output) => self.on_output(*output),
                Message::Broadcast { ticket, kind, words } => {
                    self.on_broadcast(from, ticket, kind, parcel.args(&words));
                }
                Message::Received { ticket, receivers } => self.on_received(ticket, receivers),
                Message::Shown(line) => self.on_shown(line),
                Message::Refresh { ticket } => {
                    self.refresh_figures();
                    let counts = Box::new(self.key_counts());
                    self.send(from, Message::Refreshed { ticket, counts });
                }
                Message::Refreshed { ticket, counts } => self.on_counted(ticket, Some(*counts)),
                Message::Wait(message) => self.on_wait_message(message),
                Message::Unblock { client, is_error } => self.on_unblock(client, is_error),
                Message::ResetCounters => {
                    self.replicas
                        .iter_mut()
                        .for_each(|replica| replica.state_mut().reset_counters());
                    self.stats.clear();
                }
                Message::Wake => {}
                Message::Adopt(stream, endpoint) => driver(Incoming::Adopt(stream, endpoint)),
                Message::Reap => driver(Incoming::Reap),
            }
            self.serve_waiters();
        }
        self.close_span();
        self.pump();
    }

    /// A command from another worker, for a group that lives here.
    pub(crate) fn on_forwarded(&mut self, from: u16, ticket: Ticket, asked: Asked<'_>) {
        let (spec, db, args) = (asked.spec, asked.db, asked.args);
        let denied = spec.flags.contains(Flags::DENYOOM) && !self.make_room();
        let mut group = GroupId::new(0);
        command::keys(spec, args, &mut |position, _| {
            group = group_of_key(self.groups, args.arg(position))
        });
        let index = if spec.route == Route::Scan {
            None
        } else {
            self.local(group)
        };
        if let Some(index) = index.filter(|&index| !denied && self.replicas[index].has_log()) {
            self.timing.is_ours = false;
            return self.ask_for_other(ticket, asked, index);
        }
        let waits = index.is_some_and(|index| {
            !denied && !self.replicas[index].is_free(|| locks_of([(spec, args)], |_| true))
        });
        if waits && index.is_some_and(|index| self.replicas[index].has_room_to_wait()) {
            return self.wait_for_keys(group, ticket, asked.to_operation(), asked.touches);
        }
        let may_run = index.is_some() && !denied && !waits;
        let parsed = spec.parse.filter(|_| may_run).map(|parse| parse(args));
        if let Some(Ok(command)) = &parsed
            && self.is_heavy(db, spec, args, command)
        {
            return self.run_aside(ticket, asked.to_operation(), asked.touches);
        }
        let mut answer = Rope::over(self.parcel(from).take_bytes());
        let start = answer.mark();
        let mut out = Writer::sharing(&mut answer, asked.protocol);
        match (index, parsed) {
            _ if denied => ReplyError::OutOfMemory.write(&mut out),
            _ if waits => busy(&mut out),
            (None, _) => self.scan_here(db, spec, args, &mut out),
            (Some(_), None) => unreachable!("only commands on keys are forwarded"),
            (Some(index), Some(Ok(command))) => {
                let replica = &mut self.replicas[index];
                replica.state_mut().touch(asked.touches);
                replica.execute(&self.turn, db, &command, &mut out);
                replica.state_mut().touch(true);
            }
            (Some(_), Some(Err(error))) => error.write(&mut out),
        }
        self.look_at_reply(Some(spec), &answer.bytes_mut()[start..]);
        let (bytes, long) = answer.into_bytes_and_long(start);
        match long {
            None => self.parcel_being_filled(from).push_answer(ticket, bytes, start),
            Some(reply) => {
                let output = Output::Replied {
                    ticket,
                    reply,
                    journey: None,
                };
                self.parcel_being_filled(from).push_long_answer(bytes, output);
            }
        }
        if let Some(index) = index {
            self.tell(index);
        }
    }
}

/// The parcel of a post that is being filled.
pub(crate) fn parcel<'p>(post: &'p mut VecDeque<Parcel>, spare_parcels: &mut Vec<Parcel>) -> &'p mut Parcel {
    if post.back().is_none_or(|parcel| parcel.is_full()) {
        post.push_back(spare_parcels.pop().unwrap_or_default());
    }
    post.back_mut().expect("one was pushed")
}
