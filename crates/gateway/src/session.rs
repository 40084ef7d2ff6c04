//! One client's state: what the protocol makes a connection remember.

use crate::client::ClientInfo;
use crate::endpoint::Endpoint;
use crate::gateway::touches;
use crate::idempotency::Naming;
use crate::pubsub::Listening;
use bytes::Bytes;
use command::Spec;
use ids::{Db, RequestUuid, SLOT_COUNT, Slot};
use keyspace::KeyVersion;
use replica::{Asked, Operation};
use resp::{Args, ArgsBuf, Protocol};
use std::sync::Arc;

/// A connection as the gateway knows it.
pub struct Session {
    /// What other clients may see of it, shared with `CLIENT LIST`.
    pub info: Arc<ClientInfo>,
    /// The place of the connection in its worker's table; never reused for another connection.
    pub token: u64,
    /// Which way it came in.
    pub endpoint: Endpoint,
    /// `READONLY`.
    pub reads_at_replicas: bool,
    /// The selected database.
    pub db: Db,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether commands other than `AUTH`, `HELLO`, `QUIT` and `RESET` are allowed.
    pub is_authenticated: bool,
    /// The open `MULTI` block.
    pub block: Option<Block>,
    /// What `WATCH` remembers.
    pub watched: Vec<Watched>,
    /// Channels and patterns, and whether it monitors; `None` for most.
    pub(crate) listening: Option<Box<Listening>>,
    /// `CLIENT REPLY`.
    pub reply_mode: ReplyMode,
    /// The connection ends once its replies are sent.
    pub is_closing: bool,
    /// It holds more unread replies than it may: the driver ends it.
    pub is_overrun: bool,
    /// What was carried out for it must not be told: the driver closes it before anything is sent.
    pub is_void: bool,
    /// Keys of its transactions under way.
    pub(crate) busy: BusySlots,
    /// Where commands were sent that may not have been carried out.
    pub(crate) sent: SentSlots,
    /// `CLIENT NO-TOUCH ON`: its commands do not count as use of keys.
    pub no_touch: bool,
    /// `CLIENT REQUEST`.
    pub(crate) naming: Naming,
    /// `CLIENT PAUSE` holds back its next command. The driver sets this back when the pause is over.
    pub is_paused: bool,
    /// A command that others must not overtake is under way: no more are read until it is answered.
    pub is_waiting: bool,
}

/// The commands of a `MULTI` block.
#[derive(Default)]
pub struct Block {
    /// In the order they came.
    pub commands: Vec<Queued>,
    /// It names keys already, and was accepted here: it stays, wherever its later keys belong.
    pub has_place: bool,
    /// What `CLIENT REQUEST` called it.
    pub request: Option<RequestUuid>,
    /// A command was refused: `EXEC` must fail.
    pub is_broken: bool,
    /// Memory of the queued commands, bounded by the query buffer limit.
    pub bytes: usize,
}

/// The slots of commands that a connection sent to their groups, each to a single one, as far as they may not have been
/// carried out yet. Where such a command waits for locks, it holds nothing, and a transaction that comes later may count as
/// the older one: it must not begin before.
#[derive(Default)]
pub(crate) struct SentSlots {
    slots: Vec<(Slot, SentKind)>,
    /// How many of each kind, those included that found no room.
    writes: usize,
    ordered_reads: usize,
    free_reads: usize,
}

/// What a command that was sent does with its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SentKind {
    /// It may write them.
    Write,
    /// It reads them behind something of its connection.
    OrderedRead,
    /// It reads them, and waits for nothing of its connection.
    FreeRead,
}

impl SentSlots {
    /// With more, any slot may be among them.
    const SLOTS_MAX: usize = 256;

    /// A command on a key of this slot is sent. `is_settled` if all before it were answered.
    #[inline]
    pub(crate) fn add(&mut self, slot: Slot, kind: SentKind, is_settled: bool) {
        if is_settled {
            self.slots.clear();
            (self.writes, self.ordered_reads, self.free_reads) = (0, 0, 0);
        }
        match kind {
            SentKind::Write => self.writes += 1,
            SentKind::OrderedRead => self.ordered_reads += 1,
            SentKind::FreeRead => self.free_reads += 1,
        }
        if self.slots.len() < SentSlots::SLOTS_MAX {
            self.slots.push((slot, kind));
        }
    }

    /// Whether there are any, if not all were answered since.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a command on a key of this slot may be among them.
    pub(crate) fn may_hold(&self, slot: Slot) -> bool {
        self.is_full() || self.slots.iter().any(|(sent, _)| *sent == slot)
    }

    /// Whether any of them only reads.
    pub(crate) fn has_reads(&self) -> bool {
        self.ordered_reads + self.free_reads > 0
    }

    /// Whether a command that only reads a key of this slot may be among them.
    pub(crate) fn may_read(&self, slot: Slot) -> bool {
        let reads = |(sent, kind): &(Slot, SentKind)| *sent == slot && *kind != SentKind::Write;
        self.is_full() || self.slots.iter().any(reads)
    }

    /// Whether a read of this slot may have to be behind one of them. Reads that wait for nothing are carried out in the order in
    /// which they were sent, and so are those that wait; but not the ones and the others. So a read behind one that waits
    /// waits too.
    pub(crate) fn may_order(&self, slot: Slot) -> bool {
        let orders = |(sent, kind): &(Slot, SentKind)| *sent == slot && *kind != SentKind::FreeRead;
        self.writes + self.ordered_reads > 0 && (self.is_full() || self.slots.iter().any(orders))
    }

    /// Whether reads of both kinds may be among them, and it is not known of which slots.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_full() && self.free_reads > 0 && self.writes + self.ordered_reads > 0
    }

    fn is_full(&self) -> bool {
        self.slots.len() == SentSlots::SLOTS_MAX
    }
}

/// One command of a `MULTI` block.
pub struct Queued {
    /// Which command.
    pub spec: &'static Spec,
    /// Name and arguments.
    pub args: ArgsBuf,
}

/// One watched key.
#[derive(Clone)]
pub struct Watched {
    /// Its database.
    pub db: Db,
    /// The key.
    pub key: Box<[u8]>,
    /// What it was.
    pub version: KeyVersion,
}

/// Which replies are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the one to the command being read now (`CLIENT REPLY SKIP` itself).
    SkipThis,
    /// Not the next one.
    SkipNext,
}

impl Session {
    /// Keys that one connection may watch. At the limit `WATCH` answers an error.
    pub const WATCHED_MAX: usize = 1 << 20;

    /// A new connection.
    pub fn new(info: Arc<ClientInfo>, token: u64, endpoint: Endpoint, is_authenticated: bool) -> Session {
        info.token.store(token, std::sync::atomic::Ordering::Relaxed);
        Session {
            info,
            token,
            endpoint,
            reads_at_replicas: false,
            db: Db::default(),
            protocol: Protocol::Resp2,
            is_authenticated,
            block: None,
            watched: Vec::new(),
            listening: None,
            reply_mode: ReplyMode::On,
            is_closing: false,
            is_overrun: false,
            is_void: false,
            busy: BusySlots::default(),
            sent: SentSlots::default(),
            no_touch: false,
            naming: Naming::Nothing,
            is_paused: false,
            is_waiting: false,
        }
    }

    /// A command of this connection, as an operation that outlives its frame.
    pub(crate) fn operation(&self, spec: &'static Spec, args: Args<'_>) -> Operation {
        Operation {
            spec,
            db: self.db,
            protocol: self.protocol,
            args: args.to_buf(),
        }
    }

    /// A command of this connection on its way to its group.
    pub(crate) fn asked<'a>(
        &self,
        spec: &'static Spec,
        args: Args<'a>,
        is_free: bool,
        frame: Option<&'a Bytes>,
    ) -> Asked<'a> {
        Asked {
            spec,
            db: self.db,
            protocol: self.protocol,
            touches: touches(self, spec),
            is_free,
            began: None,
            args,
            frame,
        }
    }

    /// Whether the reply to the current command is to be dropped.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.reply_mode != ReplyMode::On
    }

    /// Moves `CLIENT REPLY SKIP` and `CLIENT REQUEST` on by one command.
    #[inline]
    pub fn end_command(&mut self) {
        self.reply_mode = match self.reply_mode {
            ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
            ReplyMode::SkipThis => ReplyMode::SkipNext,
            ReplyMode::SkipNext => ReplyMode::On,
        };
        self.naming.end_command();
    }
}

/// The slots of the keys of a connection's commands over several groups that are not answered yet.
///
/// What the connection sends meanwhile may pass them, unless it names a key of the same slot: then it waits, so
/// that a client always sees its own writes in the order it made them.
///
/// Invariant: no slot belongs to two of them, so that each takes out what it put in.
#[derive(Default)]
pub(crate) struct BusySlots {
    transactions: usize,
    /// One bit for each slot; made when first needed.
    bits: Box<[u64]>,
}

impl BusySlots {
    /// Transactions of one connection that may be under way at a time. More would hold more locks for longer, and
    /// make others wait, to gain little.
    const TRANSACTIONS_MAX: usize = 4;

    /// The same while the worker has little under way but what other workers of the node decide: what goes there together is
    /// paid for once, and the locks are held for as long as a message and its answer take.
    const LAST_AGENT_MAX: usize = 32;

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// Whether no more transactions may begin.
    pub(crate) fn is_full(&self, is_worker_busy: bool) -> bool {
        let most = match is_worker_busy {
            true => BusySlots::TRANSACTIONS_MAX,
            false => BusySlots::LAST_AGENT_MAX,
        };
        self.transactions >= most
    }

    pub(crate) fn holds(&self, slot: Slot) -> bool {
        let (word, bit) = BusySlots::place(slot);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// A transaction on keys of these slots begins.
    pub(crate) fn begin(&mut self, slots: impl Iterator<Item = Slot>) {
        if self.bits.is_empty() {
            self.bits = vec![0; usize::from(SLOT_COUNT) / 64].into_boxed_slice();
        }
        self.transactions += 1;
        for (word, bit) in slots.map(BusySlots::place) {
            self.bits[word] |= bit;
        }
    }

    /// The transaction on keys of these slots was answered.
    pub(crate) fn end(&mut self, slots: impl Iterator<Item = Slot>) {
        self.transactions -= 1;
        for (word, bit) in slots.map(BusySlots::place) {
            self.bits[word] &= !bit;
        }
    }

    fn place(slot: Slot) -> (usize, u64) {
        (usize::from(slot.number()) / 64, 1 << (slot.number() % 64))
    }
}
