//! Mailbox batches to and from the other workers.

use crate::delivery::Delivery;
use crate::gateway::{Gateway, Incoming, busy};
use crate::maxmemory::Changed;
use crate::message::{MailboxBatch, Message};
use crate::program::group_of_key;
use crate::pubsub::Published;
use crate::timing::Caller;
use command::{Flags, ReplyError, Route};
use ids::GroupId;
use replica::{Asked, Output, ReplyTo, locks_of};
use resp::{Rope, Writer};
use std::collections::VecDeque;

impl Gateway {
    /// Puts a message into the mailbox batch for `worker`.
    pub fn send(&mut self, worker: u16, message: Message) {
        self.cx.send(worker, message);
    }

    /// The mailbox batches for `worker`, oldest first; the driver takes what the queue has room for.
    pub fn post(&mut self, worker: u16) -> &mut VecDeque<MailboxBatch> {
        &mut self.cx.outbox.posts[usize::from(worker)]
    }

    /// Mailbox batches that did not fit into queues yet. While there are many, the driver reads no more from clients.
    pub fn backlog(&self) -> usize {
        self.cx.outbox.posts.iter().map(VecDeque::len).max().unwrap_or(0)
    }

    /// Takes an emptied mailbox batch back, to be used again.
    pub fn recycle(&mut self, mailbox_batch: MailboxBatch) {
        self.cx.outbox.recycle(mailbox_batch);
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
        self.cx.stats.hops.add(messages.len() as u64);
        self.cx.open_span();
        for message in messages {
            match message {
                Message::Execute { reply_to, command } => {
                    let asked = mailbox_batch.asked(&command);
                    self.cx.before_command(asked.spec);
                    self.cx.timing.is_ours = true;
                    self.on_forwarded(from, reply_to, asked);
                    let caller = Caller::There {
                        worker: from,
                        connection: reply_to.connection,
                    };
                    if self.cx.timing.is_ours {
                        self.cx.after_command(asked.spec, asked.args, caller);
                    }
                }
                Message::Answer {
                    connection,
                    sequence,
                    reply,
                } if self.awaits_scan(connection, sequence) => {
                    let reply_to = ReplyTo {
                        worker: self.cx.worker,
                        connection,
                        sequence,
                    };
                    let bytes = mailbox_batch.reply(reply).to_vec();
                    self.cx.deliver(Delivery::Reply { reply_to, bytes });
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
                    let began = self.cx.timing.now();
                    self.last_agent.on_part(
                        &mut self.cx,
                        &mut self.pubsub,
                        from,
                        seq,
                        &mailbox_batch.asked(&command),
                    );
                    self.maxmemory.changed = Changed::Any;
                    self.cx
                        .timing
                        .leave_out(self.cx.timing.now().saturating_sub(began));
                }
                Message::Decided { seq, reply } => {
                    let began = self.cx.timing.now();
                    let reply = reply.map(|reply| mailbox_batch.reply(reply));
                    let machines = (&mut self.coordinator, &mut self.pubsub);
                    self.last_agent
                        .on_decided(&mut self.cx, machines, from, seq, reply);
                    self.maxmemory.changed = Changed::Any;
                    self.route();
                    self.cx
                        .timing
                        .leave_out(self.cx.timing.now().saturating_sub(began));
                }
                Message::Request { group, request } => self.request(group, *request),
                Message::Output(output) => self.on_output(*output),
                Message::Broadcast {
                    reply_to,
                    kind,
                    words,
                } => {
                    let words = mailbox_batch.args(&words);
                    let published = Published {
                        kind,
                        channel: words.arg(0),
                        payload: words.arg(1),
                    };
                    self.pubsub.on_broadcast(&mut self.cx, from, reply_to, published);
                }
                Message::Received { reply_to, receivers } => {
                    self.pubsub.on_received(&mut self.cx, reply_to, receivers)
                }
                Message::Shown(line) => crate::monitor::on_shown(&mut self.cx, &self.pubsub, line),
                Message::Refresh { reply_to } => {
                    self.refresh_stats();
                    let counts = Box::new(crate::key_counts::key_counts(&self.cx));
                    self.cx.send(from, Message::Refreshed { reply_to, counts });
                }
                Message::Refreshed { reply_to, counts } => {
                    self.infos.on_counted(&mut self.cx, reply_to, Some(*counts))
                }
                Message::Wait(message) => self.blocking.on_wait_message(&mut self.cx, message),
                Message::Unblock { client, is_error } => {
                    self.blocking.on_unblock(&mut self.cx, client, is_error)
                }
                Message::ResetCounters => {
                    self.cx
                        .local
                        .replicas
                        .iter_mut()
                        .for_each(|replica| replica.state_mut().reset_counters());
                    self.cx.stats.clear();
                }
                Message::Wake => {}
                Message::Adopt => driver(Incoming::Adopt),
                Message::Reap => driver(Incoming::Reap),
            }
            self.route();
            self.serve_waiters();
        }
        self.cx.close_span();
        self.pump();
    }

    /// A command from another worker, for a group that lives here.
    pub(crate) fn on_forwarded(&mut self, from: u16, reply_to: ReplyTo, asked: Asked<'_>) {
        let (spec, db, args) = (asked.spec, asked.db, asked.args);
        let denied = spec.flags.contains(Flags::DENYOOM) && !self.make_room();
        let mut group = GroupId::new(0);
        command::keys(spec, args, &mut |position, _| {
            group = group_of_key(self.cx.groups, args.arg(position))
        });
        let index = if spec.route == Route::Scan {
            None
        } else {
            self.cx.local.index(group)
        };
        if let Some(index) = index.filter(|&index| !denied && self.cx.local.replicas[index].has_log()) {
            self.cx.timing.is_ours = false;
            return self.ask_for_other(reply_to, asked, index);
        }
        let waits = index.is_some_and(|index| {
            !denied && !self.cx.local.replicas[index].is_free(|| locks_of([(spec, args)], |_| true))
        });
        if waits && index.is_some_and(|index| self.cx.local.replicas[index].has_room_to_wait()) {
            return self.wait_for_keys(group, reply_to, asked.to_operation(), asked.touches);
        }
        let may_run = index.is_some() && !denied && !waits;
        let parsed = spec.parse.filter(|_| may_run).map(|parse| parse(args));
        if let Some(Ok(command)) = &parsed
            && crate::offload::is_heavy(&self.cx, db, spec, args, command)
        {
            return self.run_aside(reply_to, asked.to_operation(), asked.touches);
        }
        let mut answer = Rope::over(self.cx.mailbox_batch(from).take_bytes());
        let start = answer.mark();
        let mut out = Writer::sharing(&mut answer, asked.protocol);
        match (index, parsed) {
            _ if denied => ReplyError::OutOfMemory.write(&mut out),
            _ if waits => busy(&mut out),
            (None, _) => crate::scan::scan_here(&mut self.cx, db, spec, args, &mut out),
            (Some(_), None) => unreachable!("only commands on keys are forwarded"),
            (Some(index), Some(Ok(command))) => {
                let replica = &mut self.cx.local.replicas[index];
                replica.state_mut().touch(asked.touches);
                replica.execute(&self.cx.turn, db, &command, &mut out);
                replica.state_mut().touch(true);
            }
            (Some(_), Some(Err(error))) => error.write(&mut out),
        }
        self.cx.look_at_reply(Some(spec), &answer.bytes_mut()[start..]);
        let (bytes, long) = answer.into_bytes_and_long(start);
        match long {
            None => self
                .cx
                .outbox
                .mailbox_batch_being_filled(from)
                .push_answer(reply_to, bytes, start),
            Some(reply) => {
                let output = Output::Replied {
                    reply_to,
                    reply,
                    journey: None,
                };
                self.cx
                    .outbox
                    .mailbox_batch_being_filled(from)
                    .push_long_answer(bytes, output);
            }
        }
        if let Some(index) = index {
            self.cx.local.note_events(index);
        }
        self.tell_noted();
    }
}
