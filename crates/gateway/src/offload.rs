//! What would hold the worker up, carried out on another thread: commands, heavy scripts (`heavy_run.rs`), the compilation of long ones
//! (`seeking.rs`), the dropping of what they have made.
//!
//! A command that walks over very large collections (`SMEMBERS` of a million, `SINTERSTORE` of two) takes longer than other
//! clients should wait. So its keys are locked, their values are *lent*: moved, not copied, to a scratch keyspace; the
//! command runs there, on a thread that the driver keeps for such *offload jobs*; and when it comes back, the values are
//! returned, what changed is installed, and the locks are released. Whoever wants the same keys waits meanwhile, as he
//! would have anyway; everybody else goes on.
//!
//! ```text
//!  steps > max --> locks, alone --> CheckOut --> Locked by all --> OffloadJob --> run --> on_offload_job --> CheckIn, answer
//!                       |                         |
//!                       +-- waits for its keys    +-- little after all, or only too large to copy: run here
//! ```
//!
//! What waits for its turn on that thread when its client's connection ends is not carried out: the values go back as they are.
//!
//! That is a transaction of its own kind, over however many groups and workers. How many steps a command would be is asked
//! of the keyspaces ([`keyspace::cost`]) where they are. A group that is asked to carry out or to copy too much refuses,
//! and its transaction begins again as one of this kind; so does a command that walks and has to wait for its keys, as
//! nobody can tell yet how far. A command of very many words is offloaded too, whatever it finds.
//!
//! Where groups have logs, nothing can be lent: their values are sent. The coordinator leaves them as they came if they are much, and
//! the offload job decodes them, carries the commands out, and encodes what each group is to install (`evaluation.rs`).
//!
//! What still runs on the worker, however long it takes: commands on very many keys (`DEL`, `MGET`, `MSET`), `KEYS`; a
//! `SORT` with patterns, which would take longer still to fetch key by key what they name, and an `EXEC` that has one; an
//! `EXEC` that has a command on the whole keyspace; the pops of clients that waited; and whatever works on the bytes of
//! one long string.

use crate::client::ClientInfo;
use crate::context::Context;
use crate::evaluation::Evaluation;
use crate::heavy_run::HeavyRun;
use crate::program::{Program, names_more};
use crate::script_cache::Compilation;
use command::{Command, CommandRoute, Cost, Flags, Spec, Spread};
use ids::{Db, UnixMillis};
use replica::{Operation, Replies, ReplyTo, Scratch};
use resp::Args;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use txn::TxnId;

/// Steps that a command may take on the worker itself: one or two milliseconds.
pub(crate) const STEPS_MAX: usize = 20_000;

/// Evaluations of a worker that may be away: each holds the values of its transaction until it is back. At the limit the worker
/// carries the next one out itself, and whoever sends so many waits for it.
pub(crate) const EVALUATIONS_MAX: usize = 64;

/// With fewer words than these, a command on one key that does not walk is never worth a thought.
const WORDS_MIN: usize = 1_024;

/// What would hold a worker up, with all that it needs: commands, the compilation of a long script, the dropping of what is large.
pub struct OffloadJob(pub(crate) Work);

pub(crate) enum Work {
    /// On values that are lent.
    CheckedOut(Box<CheckedOut>),
    /// On values that groups have sent, of which what is to be installed follows.
    Fetched(Box<Evaluation>),
    /// A program with scripts, which goes on there for a while.
    Heavy(Box<HeavyRun>),
    /// A long script is compiled, for whoever waits for it.
    Compiled(ReplyTo, Box<Compilation>),
    /// What is large, and nobody's any more, goes: about so many bytes.
    Dropped(Option<Box<dyn Send>>, usize),
}

pub(crate) struct CheckedOut {
    pub(crate) txn: TxnId,
    /// Whoever waits for it; `None` if the connection has ended already.
    client: Option<Arc<ClientInfo>>,
    pub(crate) operations: Vec<Operation>,
    /// By which each of them is judged.
    times: Vec<UnixMillis>,
    pub(crate) scratch: Scratch,
    pub(crate) replies: Replies,
    clock: fn() -> u64,
    /// What each command took, in nanoseconds.
    pub(crate) took: Vec<u64>,
}

impl OffloadJob {
    pub(crate) fn checked_out(lent: CheckedOut) -> OffloadJob {
        OffloadJob(Work::CheckedOut(Box::new(lent)))
    }

    pub(crate) fn fetched(evaluation: Evaluation) -> OffloadJob {
        OffloadJob(Work::Fetched(Box::new(evaluation)))
    }

    pub(crate) fn heavy(run: HeavyRun) -> OffloadJob {
        OffloadJob(Work::Heavy(Box::new(run)))
    }

    pub(crate) fn compiled(reply_to: ReplyTo, compilation: Compilation) -> OffloadJob {
        OffloadJob(Work::Compiled(reply_to, Box::new(compilation)))
    }

    pub(crate) fn dropped(what: Box<dyn Send>, bytes: usize) -> OffloadJob {
        OffloadJob(Work::Dropped(Some(what), bytes))
    }

    /// Carries the commands out, or does what else it is.
    pub fn run(&mut self) {
        match &mut self.0 {
            Work::Heavy(heavy) => heavy.run(),
            Work::Compiled(_, compilation) => compilation.run(),
            Work::Dropped(what, _) => drop(what.take()),
            Work::CheckedOut(lent) => lent.run(),
            Work::Fetched(evaluation) => evaluation.run(),
        }
    }
}

impl CheckedOut {
    pub(crate) fn new(
        txn: TxnId,
        client: Option<Arc<ClientInfo>>,
        operations: Vec<Operation>,
        times: Vec<UnixMillis>,
        scratch: Scratch,
        clock: fn() -> u64,
    ) -> CheckedOut {
        CheckedOut {
            txn,
            client,
            operations,
            times,
            scratch,
            replies: Replies::default(),
            clock,
            took: Vec::new(),
        }
    }

    /// How many steps it would be.
    pub(crate) fn steps(&self) -> usize {
        replica::steps_of(&self.operations, &|_| Some(self.scratch.keyspace()))
    }

    /// Whether it only reads, and nobody is left to be answered. What writes is carried out: what its client sent behind it is, too.
    pub(crate) fn is_vain(&self) -> bool {
        let is_gone = |client: &Arc<ClientInfo>| client.is_gone.load(Ordering::Relaxed);
        let writes = |operation: &Operation| operation.spec.flags.contains(Flags::WRITE);
        self.client.as_ref().is_none_or(is_gone) && !self.operations.iter().any(writes)
    }

    /// Carries the commands out, all or none: none if that would be vain.
    pub(crate) fn run(&mut self) {
        if self.is_vain() {
            return;
        }
        let mut began = (self.clock)();
        for (operation, time) in self.operations.iter().zip(&self.times) {
            self.scratch.judge_by(*time);
            operation.run_on(&mut self.scratch, &mut self.replies);
            let ended = (self.clock)();
            self.took.push(ended.saturating_sub(began));
            began = ended;
        }
    }
}

/// Whether a command whose keys all live here takes more steps than the worker should make.
#[inline]
pub(crate) fn is_heavy(
    cx: &Context,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    command: &Command<'_>,
) -> bool {
    // What `SORT` finds by patterns would have to be fetched key by key: that would take longer still.
    let may_be = spec.cost != Cost::Little || args.len() > WORDS_MIN && spec.spread == Spread::Single;
    may_be
        && spec.route == CommandRoute::Keys
        && !names_more(spec, args)
        && steps(cx, db, spec, args, command) > cx.turn.steps_max
        && !is_getting_a_log(cx, spec, args)
}

/// Whether a group of these keys is to get a log as soon as nothing is under way there: nothing more is lent of it.
fn is_getting_a_log(cx: &Context, spec: &'static Spec, args: Args<'_>) -> bool {
    let mut is_any = false;
    command::keys(spec, args, &mut |position, _| {
        let index = cx.local.index_of_key(args.arg(position));
        is_any |= index.is_some_and(|index| cx.local.replicas[index].awaits_log());
    });
    is_any
}

fn steps(cx: &Context, db: Db, spec: &'static Spec, args: Args<'_>, command: &Command<'_>) -> usize {
    let keyspace_of = |key: &[u8]| {
        let index = cx.local.index_of_key(key)?;
        Some(cx.local.replicas[index].keyspace())
    };
    replica::steps(db, spec, args, Some(command), &keyspace_of)
}

/// [`is_heavy`] of the commands of a program together.
pub(crate) fn is_heavy_program(cx: &Context, program: &Program) -> bool {
    let mut sum = 0_usize;
    for operation in program.operations() {
        if let Ok(command) = operation.parse()
            && operation.spec.cost != Cost::Little
        {
            let (spec, args) = operation.argv();
            sum = sum.saturating_add(steps(cx, operation.db, spec, args, &command));
        }
    }
    sum > cx.turn.steps_max
}
