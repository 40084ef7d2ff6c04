//! What workers say to each other.

use crate::chores::{Chore, Outcome};
use crate::key_counts::KeyCounts;
use crate::pubsub::SubscriptionKind;
use crate::script_ahead::Ran;
use crate::script_on_copies::Copied;
use bytes::Bytes;
use command::Spec;
use ids::{Db, GroupId, Groups};
use replica::{Asked, Operation, Output, ReplyTo, Request};
use resp::{Args, Protocol, Span};
use std::ops::Range;
use std::sync::Arc;

/// Everything that one worker has for another at the end of a turn: one queue operation, one wake-up.
///
/// Forwarded commands and their answers lie side by side in `bytes`, so that a hop costs a copy and no
/// allocation of its own.
#[derive(Default)]
pub struct MailboxBatch {
    /// In the order they are to be handled.
    pub(crate) messages: Vec<Message>,
    /// Whether the receiver is to be woken even if nobody waits for locks there. Decisions need not: whoever comes
    /// for the keys they release wakes the worker himself, and finds them.
    is_urgent: bool,
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// One message.
pub enum Message {
    /// A command on keys of one group.
    Execute {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// The group of its keys, as the sender knows it; none of a script, or of what goes through all keys.
        group: Option<GroupId>,
        /// Which one.
        command: Carried,
    },
    /// The answer to `Execute`.
    Answer {
        /// The connection.
        connection: u64,
        /// Its reply slot in the pipeline.
        sequence: u64,
        /// Where the reply lies: [`MailboxBatch::reply`].
        reply: Range<usize>,
    },
    /// The answer to `Execute` of a script that can be carried out neither at once nor on copies: nothing was done.
    Unsuited {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// The script.
        operation: Box<Operation>,
        /// Whether it will be so the next time.
        is_by_nature: bool,
        /// Whether what the replica there has applied will not do.
        asks_leaders: bool,
    },
    /// The answer to `Execute` of a script that has run on copies: its group is to judge what came of it.
    Copied {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// The script.
        operation: Box<Operation>,
        /// Whether its lookups count as use of keys.
        touches: bool,
        /// What came of it.
        copied: Box<Copied>,
    },
    /// A script that stands behind others of its connection, to run on copies: `script_ahead.rs`.
    Ahead {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// Which one.
        command: Carried,
    },
    /// The answer to `Ahead`.
    RanAhead {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// What came of it.
        ran: Box<Ran>,
    },
    /// This worker's part of a command on keys of two workers, to be carried out here and now if they are free: see
    /// `last_agent.rs`.
    LastAgent {
        /// The transaction, among those of its coordinator.
        seq: u64,
        /// Which one, with the keys of this worker alone.
        command: Carried,
    },
    /// The answer to `LastAgent`.
    Decided {
        /// Which transaction.
        seq: u64,
        /// Where the reply lies ([`MailboxBatch::reply`]), if it was carried out; if not, nothing was done.
        reply: Option<Range<usize>>,
    },
    /// Anything else for a group.
    Request {
        /// The group.
        group: GroupId,
        /// What is asked.
        request: Box<Request>,
    },
    /// What a group answered to a request of this worker.
    Output(Box<Output>),
    /// A message to a channel, for the connections that listen.
    Broadcast {
        /// Who wants to know how many there were.
        reply_to: Option<ReplyTo>,
        /// Which space of names the channel is of.
        kind: SubscriptionKind,
        /// The channel and the message: [`MailboxBatch::args`].
        words: Words,
    },
    /// The answer to `Broadcast`.
    Received {
        /// Who asked.
        reply_to: ReplyTo,
        /// Connections that the message was handed to.
        receivers: u64,
    },
    /// A command as `MONITOR` shows it.
    Shown(Arc<[u8]>),
    /// Refresh your figures: somebody wants to read them.
    Refresh {
        /// Who asks.
        reply_to: ReplyTo,
    },
    /// The answer to `Refresh`.
    Refreshed {
        /// Who asked.
        reply_to: ReplyTo,
        /// How many keys there are.
        counts: Box<KeyCounts>,
    },
    /// Do this with all replicas of yours: `chores.rs`.
    Chore {
        /// Who asks.
        reply_to: ReplyTo,
        /// What.
        chore: Chore,
    },
    /// The answer to `Chore`.
    ChoreDone {
        /// Who asked.
        reply_to: ReplyTo,
        /// What came of it.
        outcome: Outcome,
    },
    /// Of a client that waits for keys.
    Wait(WaitMessage),
    /// `CLIENT UNBLOCK`.
    Unblock {
        /// The client's number.
        client: u64,
        /// Whether it is answered an error.
        is_error: bool,
    },
    /// Set the counters of `CONFIG RESETSTAT` back.
    ResetCounters,
    /// Nothing, but the receiver is awake: `CLIENT PAUSE` ended.
    Wake,
    /// The driver has handed the receiver new connections.
    Adopt,
    /// Look for connections that `CLIENT KILL` marked.
    Reap,
}

/// What two workers tell each other of a client that waits for keys: `blocking.rs`.
pub enum WaitMessage {
    /// It waits for keys of the receiver, or goes on waiting.
    Await {
        /// Its reply slot.
        reply_to: ReplyTo,
        /// The command.
        operation: Box<Operation>,
        /// Whether all its keys are the receiver's, which then pops for it.
        is_served: bool,
        /// Who hosts them, as far as the sender knows.
        hosts: Groups,
    },
    /// It does not wait any more.
    Forget {
        /// Its reply slot.
        reply_to: ReplyTo,
        /// What it is to be answered if it was not yet.
        answer: Option<Vec<u8>>,
    },
    /// Its answer.
    Served {
        /// Its reply slot.
        reply_to: ReplyTo,
        /// The reply.
        bytes: Vec<u8>,
        /// How long that took, in nanoseconds.
        nanos: u64,
    },
    /// A key that it waits for was filled: its worker is to try.
    Woken {
        /// Its reply slot.
        reply_to: ReplyTo,
    },
    /// Its worker wants it to try, because keys may be elsewhere by now: it is [woken](WaitMessage::Woken) if it was not answered yet.
    Recall {
        /// Its reply slot.
        reply_to: ReplyTo,
    },
}

/// A command in a mailbox batch: what [`Asked`] says of it, and its words, that the mailbox batch owns.
pub struct Carried {
    spec: &'static Spec,
    db: Db,
    protocol: Protocol,
    touches: bool,
    is_free: bool,
    words: Words,
}

impl Carried {
    fn new(asked: &Asked<'_>, words: Words) -> Carried {
        Carried {
            spec: asked.spec,
            db: asked.db,
            protocol: asked.protocol,
            touches: asked.touches,
            is_free: asked.is_free,
            words,
        }
    }
}

/// Where a command's words lie in a mailbox batch.
pub struct Words {
    first: u32,
    count: u32,
    /// What they lie in, if not among the bytes of the mailbox batch: a long frame is not copied.
    frame: Option<Box<Bytes>>,
}

impl Message {
    /// All are but decisions that nobody awaits: whoever comes for the keys that one releases wakes the worker himself.
    fn is_urgent(&self) -> bool {
        let Message::Request { request, .. } = self else {
            return true;
        };
        !matches!(
            **request,
            Request::Decide {
                is_awaited: false,
                is_final: true,
                ..
            }
        )
    }
}

impl MailboxBatch {
    /// Bytes after which a mailbox batch is closed and the next begun: spans count in 32 bits, and a huge mailbox batch
    /// would be a stall for its receiver.
    const BYTES_MAX: usize = 4 * 1024 * 1024;
    /// Messages after which a mailbox batch is closed.
    const MESSAGES_MAX: usize = 4_096;

    /// Puts a message in.
    pub(crate) fn push(&mut self, message: Message) {
        self.is_urgent |= message.is_urgent();
        self.messages.push(message);
    }

    /// Whether the receiver is to be woken for it.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Whether nothing was put in.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether another mailbox batch is to be begun.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= MailboxBatch::BYTES_MAX || self.messages.len() >= MailboxBatch::MESSAGES_MAX
    }

    /// Puts a command in.
    pub fn push_command(&mut self, reply_to: ReplyTo, group: Option<GroupId>, asked: &Asked<'_>) {
        let command = self.carry(asked);
        self.push(Message::Execute {
            reply_to,
            group,
            command,
        });
    }

    /// Puts in a script that is to run ahead.
    pub(crate) fn push_ahead(&mut self, reply_to: ReplyTo, asked: &Asked<'_>) {
        let command = self.carry(asked);
        self.push(Message::Ahead { reply_to, command });
    }

    fn carry(&mut self, asked: &Asked<'_>) -> Carried {
        let words = match asked.frame {
            Some(frame) => self.push_framed(asked.args, frame),
            None => self.push_words(asked.args.iter()),
        };
        Carried::new(asked, words)
    }

    /// Puts in a part of a command that the receiver decides as last agent: these of its words.
    pub(crate) fn push_last_agent<'a>(
        &mut self,
        seq: u64,
        asked: &Asked<'_>,
        words: impl Iterator<Item = &'a [u8]>,
    ) {
        let command = Carried::new(asked, self.push_words(words));
        self.push(Message::LastAgent { seq, command });
    }

    /// Puts an answer to such a part in.
    pub(crate) fn push_decided(&mut self, seq: u64, reply: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(reply.unwrap_or_default());
        let reply = reply.map(|_| start..self.bytes.len());
        self.push(Message::Decided { seq, reply });
    }

    /// Puts a message to a channel in.
    pub(crate) fn push_broadcast(
        &mut self,
        reply_to: Option<ReplyTo>,
        kind: SubscriptionKind,
        channel: &[u8],
        message: &[u8],
    ) {
        let words = self.push_words([channel, message].into_iter());
        self.push(Message::Broadcast {
            reply_to,
            kind,
            words,
        });
    }

    fn push_words<'a>(&mut self, all: impl Iterator<Item = &'a [u8]>) -> Words {
        let first = self.spans.len() as u32;
        for word in all {
            // A frame is below 4 GiB and a mailbox batch holds one that passes BYTES_MAX at most.
            self.spans.push(Span {
                start: self.bytes.len() as u32,
                len: word.len() as u32,
            });
            self.bytes.extend_from_slice(word);
        }
        Words {
            first,
            count: self.spans.len() as u32 - first,
            frame: None,
        }
    }

    /// The same of words that lie in a frame.
    fn push_framed(&mut self, args: Args<'_>, frame: &Bytes) -> Words {
        let Some(spans) = args.spans_in(frame) else {
            return self.push_words(args.iter());
        };
        let first = self.spans.len() as u32;
        self.spans.extend(spans);
        Words {
            first,
            count: args.len() as u32,
            frame: Some(Box::new(frame.clone())),
        }
    }

    /// A command of this mailbox batch.
    pub(crate) fn asked<'a>(&'a self, command: &'a Carried) -> Asked<'a> {
        Asked {
            spec: command.spec,
            db: command.db,
            protocol: command.protocol,
            touches: command.touches,
            is_free: command.is_free,
            began: None,
            args: self.args(&command.words),
            frame: command.words.frame.as_deref(),
        }
    }

    /// The words of a message in this mailbox batch.
    pub fn args<'a>(&'a self, words: &'a Words) -> Args<'a> {
        let first = words.first as usize;
        let bytes = words.frame.as_deref().map_or(&self.bytes[..], |frame| &frame[..]);
        Args::new(bytes, &self.spans[first..first + words.count as usize])
    }

    /// Takes the bytes out, for an answer to be written behind them; [`MailboxBatch::push_answer`] puts them back.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Puts an answer in: what stands in `bytes` from `start` on.
    pub(crate) fn push_answer(&mut self, reply_to: ReplyTo, bytes: Vec<u8>, start: usize) {
        self.bytes = bytes;
        self.push(Message::Answer {
            connection: reply_to.connection,
            sequence: reply_to.sequence,
            reply: start..self.bytes.len(),
        });
    }

    /// Puts the bytes back, and an answer in that holds a long value: it is not copied.
    pub(crate) fn push_long_answer(&mut self, bytes: Vec<u8>, output: Output) {
        self.bytes = bytes;
        self.push(Message::Output(Box::new(output)));
    }

    /// The bytes of an answer in this mailbox batch.
    pub fn reply(&self, lies: Range<usize>) -> &[u8] {
        &self.bytes[lies]
    }

    /// Empties the mailbox batch, to be used again; a large one gives its memory back.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.is_urgent = false;
        self.spans.clear();
        self.bytes.clear();
        self.bytes.shrink_to(64 * 1024);
        self.messages.shrink_to(1_024);
        self.spans.shrink_to(4_096);
    }
}
