//! Mailbox batches to and from the other workers.

use crate::delivery::Delivery;
use crate::gateway::{Gateway, Incoming, busy};
use crate::message::{MailboxBatch, Message};
use crate::program::group_of_key;
use crate::stats::WorkerStats;
use crate::timing::Caller;
use command::{Flags, ReplyError, Route};
use ids::GroupId;
use replica::{Asked, Output, ReplyTo, locks_of};
use resp::{Rope, Writer};
use std::collections::VecDeque;

impl Gateway {
    /// The mailbox batch for `worker` that is being filled.
    pub(crate) fn mailbox_batch(&mut self, worker: u16) -> &mut MailboxBatch {
        mailbox_batch(
            &mut self.posts[usize::from(worker)],
            &mut self.spare_mailbox_batches,
        )
    }

    /// The mailbox batch that [`Gateway::mailbox_batch`] gave last.
    pub(crate) fn mailbox_batch_being_filled(&mut self, worker: u16) -> &mut MailboxBatch {
        self.posts[usize::from(worker)]
            .back_mut()
            .expect("the caller was given one")
    }

    /// Puts a message into the mailbox batch for `worker`.
    pub fn send(&mut self, worker: u16, message: Message) {
        self.mailbox_batch(worker).push(message);
    }

    /// The other workers.
    pub(crate) fn other_workers(&self) -> impl Iterator<Item = (u16, &WorkerStats)> {
        let all = (0..).zip(self.shared.workers.iter().map(|stats| &**stats));
        all.filter(|(worker, _)| *worker != self.worker)
    }

    /// Sends all other workers a message.
    pub(crate) fn send_to_others(&mut self, message: impl Fn() -> Message) {
        for worker in (0..self.posts.len() as u16).filter(|worker| *worker != self.worker) {
            mailbox_batch(
                &mut self.posts[usize::from(worker)],
                &mut self.spare_mailbox_batches,
            )
            .push(message());
        }
    }

    /// The mailbox batches for `worker`, oldest first; the driver takes what the queue has room for.
    pub fn post(&mut self, worker: u16) -> &mut VecDeque<MailboxBatch> {
        &mut self.posts[usize::from(worker)]
    }

    /// Mailbox batches that did not fit into queues yet. While there are many, the driver reads no more from clients.
    pub fn backlog(&self) -> usize {
        self.posts.iter().map(VecDeque::len).max().unwrap_or(0)
    }

    /// Takes an emptied mailbox batch back, to be used again.
    pub fn recycle(&mut self, mut mailbox_batch: MailboxBatch) {
        // One on its way to each worker, and one being filled. Each keeps some hundred kilobytes.
        if self.spare_mailbox_batches.len() < 2 * self.posts.len() {
            mailbox_batch.clear();
            self.spare_mailbox_batches.push(mailbox_batch);
        }
    }

    /// Handles a mailbox batch's messages; answers to connections and connections to adopt are handed to `driver`.
    pub fn receive(
        &mut self,
        from: u16,
        mailbox_batch: &mut MailboxBatch,
        driver: &mut dyn FnMut(Incoming<'_>),
    ) {
        self.follow_settings();
        let messages = std::mem::take(&mut mailbox_batch.messages);
        self.stats.hops.add(messages.len() as u64);
        self.open_span();
        for message in messages {
            match message {
                Message::Execute { reply_to, command } => {
                    let asked = mailbox_batch.asked(&command);
                    self.before_command(asked.spec);
                    self.timing.is_ours = true;
                    self.on_forwarded(from, reply_to, asked);
                    let caller = Caller::There {
                        worker: from,
                        connection: reply_to.connection,
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
                    let reply_to = ReplyTo {
                        worker: self.worker,
                        connection,
                        sequence,
                    };
                    let bytes = mailbox_batch.reply(reply).to_vec();
                    self.deliveries.push_back(Delivery::Reply { reply_to, bytes });
                }
                Message::Answer {
                    connection,
                    sequence,
                    reply,
                } => driver(Incoming::Answer {
                    connection,
                    sequence,
                    reply: mailbox_batch.reply(reply),
                }),
                Message::LastAgent { seq, command } => {
                    let began = self.timing.now();
                    self.on_last_agent(from, seq, &mailbox_batch.asked(&command));
                    self.timing.leave_out(self.timing.now().saturating_sub(began));
                }
                Message::Decided { seq, reply } => {
                    let began = self.timing.now();
                    self.on_last_agent_decided(from, seq, reply.map(|reply| mailbox_batch.reply(reply)));
                    self.timing.leave_out(self.timing.now().saturating_sub(began));
                }
                Message::Request { group, request } => self.request(group, *request),
                Message::Output(output) => self.on_output(*output),
                Message::Broadcast {
                    reply_to,
                    kind,
                    words,
                } => {
                    self.on_broadcast(from, reply_to, kind, mailbox_batch.args(&words));
                }
                Message::Received { reply_to, receivers } => self.on_received(reply_to, receivers),
                Message::Shown(line) => self.on_shown(line),
                Message::Refresh { reply_to } => {
                    self.refresh_stats();
                    let counts = Box::new(self.key_counts());
                    self.send(from, Message::Refreshed { reply_to, counts });
                }
                Message::Refreshed { reply_to, counts } => self.on_counted(reply_to, Some(*counts)),
                Message::Wait(message) => self.on_wait_message(message),
                Message::Unblock { client, is_error } => self.on_unblock(client, is_error),
                Message::ResetCounters => {
                    self.replicas
                        .iter_mut()
                        .for_each(|replica| replica.state_mut().reset_counters());
                    self.stats.clear();
                }
                Message::Wake => {}
                Message::Adopt => driver(Incoming::Adopt),
                Message::Reap => driver(Incoming::Reap),
            }
            self.serve_waiters();
        }
        self.close_span();
        self.pump();
    }

    /// A command from another worker, for a group that lives here.
    pub(crate) fn on_forwarded(&mut self, from: u16, reply_to: ReplyTo, asked: Asked<'_>) {
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
            return self.ask_for_other(reply_to, asked, index);
        }
        let waits = index.is_some_and(|index| {
            !denied && !self.replicas[index].is_free(|| locks_of([(spec, args)], |_| true))
        });
        if waits && index.is_some_and(|index| self.replicas[index].has_room_to_wait()) {
            return self.wait_for_keys(group, reply_to, asked.to_operation(), asked.touches);
        }
        let may_run = index.is_some() && !denied && !waits;
        let parsed = spec.parse.filter(|_| may_run).map(|parse| parse(args));
        if let Some(Ok(command)) = &parsed
            && self.is_heavy(db, spec, args, command)
        {
            return self.run_aside(reply_to, asked.to_operation(), asked.touches);
        }
        let mut answer = Rope::over(self.mailbox_batch(from).take_bytes());
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
            None => self
                .mailbox_batch_being_filled(from)
                .push_answer(reply_to, bytes, start),
            Some(reply) => {
                let output = Output::Replied {
                    reply_to,
                    reply,
                    journey: None,
                };
                self.mailbox_batch_being_filled(from)
                    .push_long_answer(bytes, output);
            }
        }
        if let Some(index) = index {
            self.tell(index);
        }
    }
}

/// The mailbox batch of a post that is being filled.
pub(crate) fn mailbox_batch<'p>(
    post: &'p mut VecDeque<MailboxBatch>,
    spare_mailbox_batches: &mut Vec<MailboxBatch>,
) -> &'p mut MailboxBatch {
    if post.back().is_none_or(|mailbox_batch| mailbox_batch.is_full()) {
        post.push_back(spare_mailbox_batches.pop().unwrap_or_default());
    }
    post.back_mut().expect("one was pushed")
}
