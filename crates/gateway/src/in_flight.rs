//! What a connection has under way, and what of its commands may pass what.
//!
//! A command may be carried out before another one of its connection that is not answered, unless the two have a key in common.
//! Keys are told apart by their slots.

use crate::combining;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::idempotency::Naming;
use crate::program::names_more;
use crate::script_ahead::ScriptsAhead;
use crate::script_program::keeps_libraries;
use crate::session::Session;
use command::{CommandId, CommandRoute, Flags, Spec, Spread};
use ids::{Groups, SLOT_COUNT, Slot};
use resp::Args;

/// See the file's header.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Keys of its transactions under way.
    pub(crate) busy: BusySlots,
    /// Where commands were sent that may not have been carried out.
    pub(crate) sent: SentSlots,
    /// Scripts among these, with the slots that each of them keeps busy, by the places of their replies.
    passed: Vec<(u64, Vec<Slot>)>,
    /// Scripts that run before it is known what those before them name.
    pub(crate) ahead: ScriptsAhead,
    /// A command that others must not overtake is under way.
    pub(crate) is_waiting: bool,
    /// `CLIENT PAUSE` holds back its next command.
    pub(crate) is_paused: bool,
}

impl InFlight {
    /// The script that is waited for is waited for no more, but by what names its keys, all of which it has declared.
    pub(crate) fn pass(&mut self, sequence: u64, slots: Vec<Slot>) {
        self.busy.begin(slots.iter().copied());
        self.passed.push((sequence, slots));
        self.is_waiting = false;
    }

    /// What stands at this place is answered. `false` if it is no script that others may have passed.
    pub(crate) fn end_passed(&mut self, sequence: u64) -> bool {
        let mut passed = self.passed.iter();
        let Some(at) = passed.position(|(passed, _)| *passed == sequence) else {
            return false;
        };
        let (_, slots) = self.passed.swap_remove(at);
        self.busy.end(slots.into_iter());
        true
    }

    /// Says which keys are held back by no transaction.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.busy.is_empty() && self.busy.bits.iter().any(|bits| *bits != 0) {
            true => Err("keys are busy, and no transaction is under way".to_owned()),
            false => Ok(()),
        }
    }
}

/// The slots of commands that a connection sent to their groups, each to a single one, as far as they may not have been
/// carried out yet. Where such a command waits for locks, it holds nothing, and a transaction that comes later may count as
/// the older one: it must not begin before.
#[derive(Default)]
pub(crate) struct SentSlots {
    slots: Vec<(Slot, SentKind)>,
    /// What was known of who hosts what when the first of them was sent ([`Context`](crate::context::Context)'s `hosts_version`).
    hosts_version: u32,
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
    pub(crate) fn add(&mut self, slot: Slot, kind: SentKind, is_settled: bool, hosts_version: u32) {
        if is_settled {
            self.slots.clear();
            self.hosts_version = hosts_version;
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

    /// The same of scripts that others may pass.
    const PASSED_MAX: usize = 64;

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
        self.transactions = self.transactions.checked_sub(1).expect("each ends once");
        for (word, bit) in slots.map(BusySlots::place) {
            self.bits[word] &= !bit;
        }
    }

    fn place(slot: Slot) -> (usize, u64) {
        (usize::from(slot.number()) / 64, 1 << (slot.number() % 64))
    }
}

/// Whether a command may be carried out before the connection's transactions under way are answered: if it is on
/// other keys than theirs, and on keys alone. The worker is busy if it has transactions under way that not only other workers of the
/// node decide.
pub(crate) fn may_pass(
    session: &Session,
    groups: Groups,
    spec: &Spec,
    args: Args<'_>,
    is_spread: bool,
    is_busy: bool,
) -> bool {
    let busy = &session.in_flight.busy;
    let (passed, ahead) = (session.in_flight.passed.len(), session.in_flight.ahead.len());
    // What shares a transaction locks for as long as one does.
    let is_busy = is_spread && !combining::is_combined(spec) || !is_spread && is_busy;
    let is_script = spec.route == CommandRoute::Script && !keeps_libraries(spec.id);
    let begins_none = match is_script {
        // It may come to name other keys, and waits for those before it then: for scripts (`OnePhase` in `coordinator.rs`).
        true => busy.transactions == passed && passed + ahead < BusySlots::PASSED_MAX,
        false => is_of_one_group(groups, spec, args) || !busy.is_full(is_busy),
    };
    // One that waits for keys holds its connection up: the answer to a transaction must not let go of it.
    let may_wait = command::waits(spec, args);
    session.block.is_none()
        && (spec.route == CommandRoute::Keys || is_script)
        && begins_none
        && !may_wait
        && !any_slot(spec, args, |slot| busy.holds(slot))
}

/// Notes that a command whose keys are all in one group is about to be sent there, or to wait there.
#[inline]
pub(crate) fn note_sent(connection: &mut Connection, hosts_version: u32, spec: &Spec, args: Args<'_>) {
    let is_settled = connection.pipeline.is_settled();
    let kind = if spec.flags.contains(Flags::WRITE) {
        SentKind::Write
    } else if is_free(connection, spec, args) {
        SentKind::FreeRead
    } else {
        SentKind::OrderedRead
    };
    if let Some(position) = command::only_key(spec) {
        let slot = Slot::of_key(args.arg(position));
        let sent = &mut connection.session.in_flight.sent;
        return sent.add(slot, kind, is_settled, hosts_version);
    }
    let mut is_first = true;
    command::keys(spec, args, &mut |position, _| {
        let slot = Slot::of_key(args.arg(position));
        connection
            .session
            .in_flight
            .sent
            .add(slot, kind, is_settled && is_first, hosts_version);
        is_first = false;
    });
}

/// Whether a command only reads, and need not be behind anything that its connection has under way on the same slots: neither a
/// write nor a read that is behind one.
pub(crate) fn is_free(connection: &Connection, spec: &Spec, args: Args<'_>) -> bool {
    let sent = &connection.session.in_flight.sent;
    !spec.flags.contains(Flags::WRITE)
        && (connection.pipeline.is_settled()
            || mutations::is(mutations::Mutation::OwnWriteNotAwaited)
            || !any_slot(spec, args, |slot| sent.may_order(slot)))
}

/// Whether a command on keys goes to a single group, as one of a single key does, and keeps its place behind what was sent there:
/// keys of one group are no transaction, whatever others the command could name. What waits is asked for in steps of its own.
fn is_of_one_group(groups: Groups, spec: &Spec, args: Args<'_>) -> bool {
    let mut group = None;
    let mut is_another = |slot| {
        let found = groups.group_of(slot);
        group.replace(found).is_some_and(|before| before != found)
    };
    !names_more(spec, args)
        && (spec.spread == Spread::Single
            || !command::waits(spec, args) && !any_slot(spec, args, &mut is_another))
}

/// Whether this is so of the slot of any key of a command.
#[inline]
fn any_slot(spec: &Spec, args: Args<'_>, mut is_so: impl FnMut(Slot) -> bool) -> bool {
    let mut any = false;
    command::keys(spec, args, &mut |position, _| {
        any = any || is_so(Slot::of_key(args.arg(position)));
    });
    any
}

/// Whether a command only reads, and its connection has nothing under way on the same slots: answered at once, it comes behind
/// whatever was asked before it.
pub(crate) fn is_untouched(connection: &Connection, spec: &Spec, args: Args<'_>) -> bool {
    !spec.flags.contains(Flags::WRITE) && has_nothing_under_way(connection, spec, args)
}

/// Whether the connection of a command has nothing under way on the same slots.
#[inline]
pub(crate) fn has_nothing_under_way(connection: &Connection, spec: &Spec, args: Args<'_>) -> bool {
    let sent = &connection.session.in_flight.sent;
    connection.pipeline.is_settled() || !any_slot(spec, args, |slot| sent.may_hold(slot))
}

/// Whether a plain write would come behind a read of the same connection that was not answered, of the same slot. Where groups
/// are led elsewhere a read may have to be asked again, when the write is done: the write waits for it. A client of the
/// cluster endpoint is told to try again.
pub(crate) fn may_hide(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    session.in_flight.sent.has_reads()
        && spec.flags.contains(Flags::WRITE)
        && spec.route == CommandRoute::Keys
        && session.block.is_none()
        && session.endpoint == Endpoint::AnyNode
        && any_slot(spec, args, |slot| session.in_flight.sent.may_read(slot))
}

/// Whether a command may be sent to another group than one of the same slots that its connection sent earlier and that was not answered yet,
/// as more is known by now of who hosts what.
#[inline]
pub(crate) fn may_change_groups(session: &Session, hosts_version: u32, spec: &Spec, args: Args<'_>) -> bool {
    let sent = &session.in_flight.sent;
    sent.hosts_version != hosts_version
        && !sent.is_empty()
        && (session.block.is_some() || any_slot(spec, args, |slot| sent.may_hold(slot)))
}

/// Whether a command might be carried out before one that the same connection sent earlier and that was not answered yet:
/// if it is one for several groups, and they have a key in common.
#[inline]
pub(crate) fn may_overtake(session: &Session, groups: Groups, spec: &Spec, args: Args<'_>) -> bool {
    if let CommandId::Wait
    | CommandId::WaitAof
    | CommandId::Save
    | CommandId::BgSave
    | CommandId::BgRewriteAof = spec.id
    {
        // It is about the writes before it, whatever their keys.
        return true;
    }
    let is_plain = || {
        spec.route == CommandRoute::Keys
            && session.modes.naming == Naming::Nothing
            && is_of_one_group(groups, spec, args)
    };
    !session.in_flight.sent.is_empty() && !is_plain() && is_among_sent(session, spec, args)
}

fn is_among_sent(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    let is_among = |spec: &Spec, args: Args<'_>| {
        matches!(spec.route, CommandRoute::Everywhere | CommandRoute::Script)
            || names_more(spec, args)
            || spec.route == CommandRoute::Keys
                && any_slot(spec, args, |slot| session.in_flight.sent.may_hold(slot))
    };
    match &session.block {
        None => is_among(spec, args),
        Some(_) if spec.id != CommandId::Exec => false,
        Some(block) => {
            let mut commands = block.commands.iter();
            commands.any(|queued| is_among(queued.spec, queued.args.as_args()))
        }
    }
}
