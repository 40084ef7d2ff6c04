//! A program with scripts that is being carried out on a scratch.
//!
//! ```text
//!             begin
//!               |          budget used up: others have their turn
//!               v       +--------------------------------------+
//!            go_on -----+                                      |
//!             ^ |  |    Spent, Heavy: elsewhere, perhaps <-----+
//!             | |  +--> Lacks(keys): groups are asked, `place`
//!             | |  +--> Asks(parts): groups are asked, `on_answered`
//!             +-+-----------+
//!               +-----> Over: what it answers and changes     Failed: nothing is done     LocksAll: it is to begin anew, with all groups locked
//! ```
//!
//! Commands of scripts, and those beside them in an `EXEC`, run one after the other on copies of the objects that they name. A key that
//! is not here yet stops the run where it stands. What differs at the end is the effect, on which groups vote, as for any other
//! transaction whose values cross groups: nobody sees anything of it before.
//!
//! What would hold a worker up stops the run there before it happens (`Heavy`): a text that is long to be read, a table that is large to be
//! written, a command that walks far. It goes on on the thread for offload jobs (`heavy_run.rs`), where nothing waits for it.
//!
//! Invariants:
//! 1. A command on keys runs only when all its keys are on the scratch; one on the whole keyspace only when all groups are locked.
//! 2. What a run was shown is what its groups are to vote on: of each key on the scratch, `expects` has the version, unless it is locked.

use crate::context::Context;
use crate::endpoint::Scope;
use crate::evaluation::{Evaluated, effects_of};
use crate::group_times::GroupTimes;
use crate::library_command;
use crate::library_keys::{self, Stamp};
use crate::library_set::LibrarySet;
use crate::program::{Item, Program, group_of_key};
use crate::script_cache::{DROPPED_HERE_BYTES_MAX, LongRun, LongRunOf, SharedScripts, WorkerScripts};
use crate::script_calls::{Caller, Publishing, admit, answer_own};
use crate::script_program::{Asked, Resolved, Rules, Scripted, UNKNOWN_SCRIPT, check_call, input_of};
use crate::script_reply;
use crate::script_runner::ScriptRunner;
use crate::session::Queued;
use crate::shared::Shared;
use crate::whole_keyspace::{Parts, WholeKeyspace, WholeOutcome};
use command::{CommandId, CommandRoute, Cost, Flags};
use ids::{Db, GroupId, Groups, Prng, SemanticsVersion, UnixMillis, Version};
use keyspace::{BlockCommand, KeyVersion, Object, SeenObject};
use mutations::Mutation;
use replica::{Condition, FullKey, Operation, Replies, Scratch};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};
use script::{CompiledScript, Interpreter, LogLevel, LuaRun, Reply, Run, RunLimits, Script, ScriptStop};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of what one script makes. One that needs more ends, and nothing of it is done.
const RUN_MEMORY_MAX: usize = 128 * 1024 * 1024;

/// The same of all scripts of a worker that are under way, and of what their commands have written. Whoever needs more than
/// [`FAIR_BYTES`] ends then. One string can be half of it.
const ALL_MEMORY_MAX: usize = 1024 * 1024 * 1024;

/// What a script may need while others need much.
const FAIR_BYTES: usize = 1024 * 1024;

/// Programs with scripts of a worker that are under way. Another one is refused.
pub(crate) const RUNS_MAX: usize = 1_024;

/// Keys that one program may come to name. One that names more ends, and nothing of it is done.
const KEYS_MAX: usize = 65_536;

/// Bytes of their values. One that names more ends in the same way.
const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of values from which on no more is asked for than what a command names.
const AHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Instructions after which a run counts as long: `SCRIPT KILL` ends it. Some ten milliseconds.
const LONG_INSTRUCTIONS: u64 = 1_000_000;

/// What a command counts as, in instructions, beside what its answer has.
const COMMAND_INSTRUCTIONS: u64 = 500;

/// What a key on the scratch counts as that a command on the whole keyspace looks at, in instructions.
const INSTRUCTIONS_A_KEY: u64 = 8;

/// Bytes of an answer that count as one instruction.
const BYTES_PER_INSTRUCTION: usize = 16;

/// How often a program may be answered by groups before others have their turn: some tenths of a millisecond, where they live here.
const ROUNDS_A_TURN: u32 = 64;

/// Keys on a scratch that are dropped where a program ends.
const DROPPED_HERE_KEYS_MAX: usize = 1_024;

/// Bytes that a script has made from which on it is carried out elsewhere: tables that grow are copied, and a pass over all of it takes some
/// milliseconds.
const MADE_HERE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of values on the scratch, and of words that were written there, from which on its commands are.
const VALUES_HERE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the words of one command, and of what groups have sent at once, in the same way.
const SENT_HERE_BYTES_MAX: usize = 256 * 1024;

/// Bytes of libraries that are read or changed, in the same way: to compile 32 KiB takes one or two milliseconds.
const LIBRARIES_HERE_BYTES_MAX: usize = 32 * 1024;

/// Steps of one command, in the same way: what it answers becomes a value of the script, which takes longer than the command.
pub(crate) const STEPS_HERE_MAX: usize = 4_096;

/// Keys on the scratch whose changes are gathered here, or which a command on the whole keyspace looks at.
const KEYS_HERE_MAX: usize = 4_096;

/// Bytes of values on the scratch from which on `LCS`, whose work is their product, is carried out elsewhere.
const LCS_HERE_BYTES_MAX: usize = 8 * 1024;

/// With fewer words than these, a command that does not walk is never worth a thought.
const WORDS_MIN: usize = 1_024;

/// Milliseconds by which the scratch is opened before what its groups have sent: one that is asked later may be behind.
const TIMES_APART: i64 = 60_000;

/// What a command on libraries counts as, in instructions: it writes hundreds of keys.
const LIBRARIES_INSTRUCTIONS: u64 = 40_000;

const KILLED: &str = "ERR Script killed by user with SCRIPT KILL; nothing of it was done";
const KILLED_FUNCTION: &str = "ERR Script killed by user with FUNCTION KILL; nothing of it was done";
const UNREADABLE_LIBRARIES: &str = "ERR the libraries of functions that are kept cannot be read; FUNCTION FLUSH deletes them, nothing was done";
const OLDER_BUILDS: &str = "ERR libraries of functions cannot be changed while a node of the cluster may be of a build that does not know them: start all nodes \
     with this build first; nothing was done";
const NOT_WHOLE: &str = "ERR commands on the whole keyspace cannot be called from scripts while a node of the cluster may be of a build that does not \
     know how: start all nodes with this build first";
const TOO_MANY_KEYS: &str = "ERR the script names more keys than one may; nothing was done";
const TOO_LARGE: &str = "ERR the values that the script names are more than one may name; nothing was done";
const TOO_MUCH_MEMORY: &str =
    "OOM the scripts that run on this node need more memory than they may; nothing was done";
const UNREADABLE: &str = "CLUSTERDOWN a group has sent something that is no value; nothing was done";

/// What all runs of a worker use.
#[derive(Clone, Default)]
pub(crate) struct RunTotals {
    runs: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl RunTotals {
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

/// What one of them uses, as long as it is there.
struct Share {
    totals: RunTotals,
    bytes: usize,
}

impl Share {
    fn of(totals: &RunTotals) -> Share {
        totals.runs.fetch_add(1, Ordering::Relaxed);
        Share {
            totals: totals.clone(),
            bytes: 0,
        }
    }

    /// It uses so much now. Whether that is more than it may.
    fn is_too_much(&mut self, bytes: usize) -> bool {
        let all = &self.totals.bytes;
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        bytes > FAIR_BYTES && all.load(Ordering::Relaxed) > ALL_MEMORY_MAX
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.totals.runs.fetch_sub(1, Ordering::Relaxed);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a program has stopped.
pub(crate) enum RunStop {
    /// Others are to have their turn.
    Spent,
    /// What comes next would hold the worker up: it is to go on elsewhere.
    Heavy,
    /// These keys are to be placed.
    Lacks(Vec<FullKey>),
    /// These groups are to be asked, each for its part of a command on the whole keyspace.
    Asks(Vec<(GroupId, Operation)>),
    /// All groups are to be locked for it: then it begins anew.
    LocksAll,
    /// It has come to its end.
    Over,
    /// It is given up, and this is why.
    Failed(&'static str),
}

/// A program that has stopped.
pub(crate) enum RunStopped {
    /// It is not over: it is to be kept, or given up.
    Waits(Box<ProgramRun>, RunStop),
    /// It has come to its end.
    Over(Box<EndedRun>),
}

/// What is known outside of a run.
pub(crate) struct Surroundings<'a> {
    pub(crate) groups: Groups,
    pub(crate) times: &'a GroupTimes,
    pub(crate) shared: &'a Arc<Shared>,
    /// When the transaction came: what the time is to its scripts.
    pub(crate) began: UnixMillis,
    /// What its commands on the whole keyspace concern.
    pub(crate) scope: &'a Scope,
    /// Whether all groups are locked for it.
    pub(crate) has_locked_all: bool,
    /// The rules that every node of the cluster follows.
    pub(crate) semantics: SemanticsVersion,
    /// Whether it is carried out by a worker, which others wait for.
    pub(crate) is_worker: bool,
    /// Steps that a command may take on a worker.
    pub(crate) steps_max: usize,
}

/// See the file's header.
pub(crate) struct ProgramRun {
    scratch: Scratch,
    opened_at: UnixMillis,
    /// The item that is being carried out.
    at: usize,
    script: Option<ScriptRun>,
    replies: Replies,
    publishing: Publishing,
    /// What groups were asked for since it began, in the order of their answers.
    pub(crate) asked: BTreeMap<GroupId, Vec<FullKey>>,
    /// How often groups were asked.
    pub(crate) rounds: u32,
    expects: BTreeMap<GroupId, Vec<Condition>>,
    held: Held,
    whole: WholeKeyspace,
    /// Instructions, of all its scripts.
    spent: u64,
    long: Option<LongRun>,
    share: Share,
}

/// What a group holds under a key, and its version, unless it is locked.
pub(crate) struct SentObject {
    pub(crate) group: GroupId,
    pub(crate) key: FullKey,
    pub(crate) object: Option<SeenObject>,
    pub(crate) version: Option<KeyVersion>,
}

/// One that has come to its end.
pub(crate) struct EndedRun {
    pub(crate) evaluated: Evaluated,
    pub(crate) expects: BTreeMap<GroupId, Vec<Condition>>,
    pub(crate) whole: WholeKeyspace,
    pub(crate) published: Vec<Queued>,
    /// It is empty.
    pub(crate) scratch: Scratch,
    /// Whether groups were asked once, before it began.
    pub(crate) is_one_round: bool,
}

/// How much is on the scratch.
#[derive(Default)]
struct Held {
    keys: usize,
    value_bytes: usize,
    /// By how much commands have made it grow.
    made_bytes: usize,
    /// Words of commands that may have written them there.
    written_bytes: usize,
    /// What groups have sent that is too much to be placed by the worker.
    unplaced: Vec<SentObject>,
}

impl Held {
    /// About how much is there.
    fn bytes(&self) -> usize {
        self.value_bytes.saturating_add(self.written_bytes)
    }
}

/// A script of it.
struct ScriptRun {
    run: LuaRun,
    body: Body,
    rules: Rules,
    db: Db,
    /// The command that waits for its keys.
    awaits: Option<Operation>,
    has_written: bool,
}

/// What runs.
pub(crate) enum Body {
    Script(Script),
    Function(Arc<[u8]>),
}

impl Body {
    pub(crate) fn is_function(&self) -> bool {
        matches!(self, Body::Function(_))
    }

    /// Whether it is known to name keys that it does not declare.
    pub(crate) fn roams(&self, known: &WorkerScripts) -> bool {
        match self {
            Body::Script(script) => known.roams(script),
            Body::Function(name) => known.function_roams(name),
        }
    }

    /// Its digits, or the function's name.
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Body::Script(script) => script.sha1().as_bytes(),
            Body::Function(name) => name,
        }
    }
}

/// Libraries that are needed.
enum Libraries {
    Known(Arc<LibrarySet>),
    /// They are to be placed.
    Lack(FullKey),
    /// They are much, and to be read elsewhere.
    Heavy,
    /// There are none, and this is why.
    Unreadable(&'static str),
}

impl Surroundings<'_> {
    /// Whether its client came in by the cluster endpoint.
    fn is_in_cluster(&self) -> bool {
        matches!(self.scope, Scope::Node(_))
    }
}

impl ProgramRun {
    /// When a scratch is opened on which groups place what they have at these times.
    pub(crate) fn opening(cx: &Context, times: &GroupTimes) -> UnixMillis {
        let earliest = times.try_earliest().unwrap_or(cx.turn.now);
        UnixMillis(earliest.0.saturating_sub(TIMES_APART))
    }

    pub(crate) fn new(scratch: Scratch, opened_at: UnixMillis, totals: &RunTotals) -> ProgramRun {
        ProgramRun {
            scratch,
            opened_at,
            at: 0,
            script: None,
            replies: Replies::default(),
            publishing: Publishing::default(),
            asked: BTreeMap::new(),
            rounds: 0,
            expects: BTreeMap::new(),
            held: Held::default(),
            whole: WholeKeyspace::default(),
            spent: 0,
            long: None,
            share: Share::of(totals),
        }
    }

    /// Whether others are to have their turn before it goes on: it has been answered often by groups of this worker, in one turn perhaps.
    pub(crate) fn is_to_give_way(&self) -> bool {
        self.rounds.is_multiple_of(ROUNDS_A_TURN) || self.whole.walks()
    }

    /// Whether so much hangs on it that a worker would be held up by dropping it.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes() > DROPPED_HERE_BYTES_MAX || self.held.keys > DROPPED_HERE_KEYS_MAX
    }

    /// About how much hangs on it.
    pub(crate) fn bytes(&self) -> usize {
        let of_script = self.script.as_ref().map_or(0, |script| script.run.memory_bytes());
        let unplaced = self.held.unplaced.iter().filter_map(|sent| sent.object.as_ref());
        let unplaced: usize = unplaced.map(SeenObject::byte_len).sum();
        of_script
            .saturating_add(self.scratch_bytes())
            .saturating_add(unplaced)
    }

    /// About how much is on the scratch.
    fn scratch_bytes(&self) -> usize {
        self.held.bytes().max(self.scratch.keyspace().memory())
    }

    /// What was deleted on the scratch goes.
    pub(crate) fn drop_deleted(&mut self) {
        drop(self.scratch.take_lazyfree());
    }

    /// Carries a command out on the scratch, and counts what it makes there.
    fn on_scratch(&mut self, operation: &Operation, carry_out: impl FnOnce(&mut Scratch, &mut Replies)) {
        if !operation.spec.flags.contains(Flags::WRITE) {
            return carry_out(&mut self.scratch, &mut self.replies);
        }
        let before = self.scratch.keyspace().memory();
        // One that is shared is copied when it is changed in place, and counts as much as before.
        let unshared = self.unshared_bytes(operation);
        carry_out(&mut self.scratch, &mut self.replies);
        let after = self.scratch.keyspace().memory().saturating_add(unshared);
        let made = self.held.made_bytes.saturating_add(after);
        self.held.made_bytes = made.saturating_sub(before);
    }

    /// Bytes that a command fills with zeros in front of what it writes.
    fn zero_bytes(&self, operation: &Operation) -> usize {
        match operation.spec.id {
            CommandId::SetRange | CommandId::SetBit | CommandId::BitField => {
                let bytes = operation
                    .parse()
                    .map_or(0, |command| keyspace::zero_bytes(&command));
                let key = operation.args.as_args().arg(1);
                bytes.saturating_sub(self.scratch.keyspace().text_len(operation.db, key))
            }
            _ => 0,
        }
    }

    /// Bytes of a shared string that a command changes in place.
    fn unshared_bytes(&self, operation: &Operation) -> usize {
        match operation.spec.id {
            CommandId::Append | CommandId::SetRange | CommandId::SetBit | CommandId::BitField => {
                let (db, key) = (operation.db, operation.args.as_args().arg(1));
                self.scratch.keyspace().shared_len(db, key)
            }
            _ => 0,
        }
    }

    /// It does not run any more, however long it has.
    pub(crate) fn end_long(&mut self) {
        self.long = None;
    }

    /// Places what groups have sent; much of it is placed elsewhere, when the run goes on there.
    ///
    /// # Errors
    /// It is nothing like a value, or together they are too much.
    pub(crate) fn place_all(&mut self, sent: Vec<SentObject>) -> Result<(), &'static str> {
        let objects = sent.iter().filter_map(|sent| sent.object.as_ref());
        let bytes: usize = objects.map(SeenObject::byte_len).sum();
        if bytes > SENT_HERE_BYTES_MAX {
            self.held.unplaced = sent;
            return match self.held.value_bytes.saturating_add(bytes) > VALUE_BYTES_MAX {
                true => Err(TOO_LARGE),
                false => Ok(()),
            };
        }
        sent.into_iter().try_for_each(|sent| self.place(sent))
    }

    fn place(&mut self, sent: SentObject) -> Result<(), &'static str> {
        let SentObject {
            group,
            key: (db, key),
            object,
            version,
        } = sent;
        self.held.keys += 1;
        self.held.value_bytes += object.as_ref().map_or(0, SeenObject::byte_len);
        if self.held.value_bytes > VALUE_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        let object = match object {
            Some(seen) => Some(seen.into_object().ok_or(UNREADABLE)?),
            None => None,
        };
        if let (None, Some(object)) = (version, &object) {
            self.whole.note_held(db, &key, Some(object.kind()));
        }
        self.scratch.place(db, &key, object);
        if let Some(version) = version
            && !mutations::is(Mutation::ShownNotExpected)
        {
            let unchanged = Condition::Unchanged { db, key, version };
            self.expects.entry(group).or_default().push(unchanged);
        }
        Ok(())
    }

    /// Groups have answered what it asked of them.
    pub(crate) fn on_answered(&mut self, parts: Parts, groups: Groups, bytes_max: usize) {
        self.rounds += 1;
        self.whole.on_answered(parts, groups, bytes_max);
    }

    /// Goes on, for about so many instructions.
    pub(crate) fn go_on(
        mut self: Box<Self>,
        runner: &mut ScriptRunner,
        program: &Program,
        around: &Surroundings<'_>,
        budget: u64,
    ) -> RunStopped {
        match self.go_on_to_stop(runner, program, around, budget) {
            RunStop::Over => RunStopped::Over(Box::new(self.finish(around.groups))),
            stop => {
                // How long a heavy one takes, its instructions do not say; it may stand in line first.
                let is_long = self.spent >= LONG_INSTRUCTIONS || matches!(stop, RunStop::Heavy);
                if is_long && self.long.is_none() {
                    let of = match program.items.get(self.at) {
                        Some(Item::Operation(operation)) => self.long_run_of(operation, around),
                        _ => LongRunOf::Script,
                    };
                    self.long = Some(LongRun::begin(around.shared, of));
                }
                RunStopped::Waits(self, stop)
            }
        }
    }

    fn go_on_to_stop(
        &mut self,
        runner: &mut ScriptRunner,
        program: &Program,
        around: &Surroundings<'_>,
        budget: u64,
    ) -> RunStop {
        if self.is_killed() {
            let is_function = |script: &ScriptRun| matches!(script.body, Body::Function(_));
            return RunStop::Failed(match self.script.as_ref().is_some_and(is_function) {
                true => KILLED_FUNCTION,
                false => KILLED,
            });
        }
        if around.is_worker && !self.held.unplaced.is_empty() {
            return RunStop::Heavy;
        }
        for sent in std::mem::take(&mut self.held.unplaced) {
            if let Err(error) = self.place(sent) {
                return RunStop::Failed(error);
            }
        }
        let end = self.spent + budget;
        loop {
            let Some(item) = program.items.get(self.at) else {
                let is_much = self.scratch_bytes() > VALUES_HERE_BYTES_MAX || self.held.keys > KEYS_HERE_MAX;
                return match around.is_worker && is_much {
                    true => RunStop::Heavy,
                    false => RunStop::Over,
                };
            };
            let (Item::Operation(operation), Some(scripted)) = (item, &program.scripted) else {
                self.at += 1;
                continue;
            };
            // Commands beside scripts may be many.
            if self.spent >= end {
                return RunStop::Spent;
            }
            let stop = if operation.spec.route == CommandRoute::Script {
                self.go_on_with_script(runner, operation, scripted, around, end)
            } else {
                self.carry_out_plain(runner, operation, around)
            };
            match stop {
                RunStop::Over => self.at += 1,
                RunStop::Spent
                | RunStop::Heavy
                | RunStop::Lacks(_)
                | RunStop::Asks(_)
                | RunStop::LocksAll
                | RunStop::Failed(_) => return stop,
            }
        }
    }

    /// A command beside scripts in an `EXEC`.
    fn carry_out_plain(
        &mut self,
        runner: &mut ScriptRunner,
        operation: &Operation,
        around: &Surroundings<'_>,
    ) -> RunStop {
        if let CommandRoute::Everywhere | CommandRoute::Scan = operation.spec.route {
            return match self.carry_out_whole(&mut runner.draws, operation, around) {
                Ok(reply) => {
                    self.replies.push(operation.protocol, |out| out.raw(&reply));
                    RunStop::Over
                }
                Err(stop) => stop,
            };
        }
        let lacks = self.lacks(operation, around.groups);
        if !lacks.is_empty() {
            return self.lacking(lacks);
        }
        if around.is_worker && self.is_heavy(operation, around) {
            return RunStop::Heavy;
        }
        if !self.has_room_for(operation, 0) {
            return RunStop::Failed(TOO_MUCH_MEMORY);
        }
        self.note_written(operation);
        self.scratch.judge_by(self.time_of(operation, around));
        let before = self.replies.bytes().len();
        self.on_scratch(operation, |scratch, replies| operation.run_on(scratch, replies));
        let written = self.replies.bytes().len() - before;
        self.spent += COMMAND_INSTRUCTIONS + (written / BYTES_PER_INSTRUCTION) as u64;
        RunStop::Over
    }

    fn go_on_with_script(
        &mut self,
        runner: &mut ScriptRunner,
        operation: &Operation,
        scripted: &Scripted,
        around: &Surroundings<'_>,
        end: u64,
    ) -> RunStop {
        let mut script = match self.script.take() {
            Some(script) => script,
            // What it is given is copied.
            None if around.is_worker && operation.args.as_args().byte_len() > SENT_HERE_BYTES_MAX => {
                return RunStop::Heavy;
            }
            None => match scripted.at(self.at) {
                Some(Resolved::Script(script, _)) if around.is_worker && script.is_large() => {
                    return RunStop::Heavy;
                }
                Some(Resolved::Script(script, rules)) => {
                    let limits = RunLimits {
                        memory_bytes: RUN_MEMORY_MAX,
                    };
                    let input = input_of(operation.args.as_args(), runner.draws.next_u64());
                    ScriptRun {
                        run: runner.lua.start(script, input, limits),
                        body: Body::Script(script.clone()),
                        rules: *rules,
                        db: operation.db,
                        awaits: None,
                        has_written: false,
                    }
                }
                Some(Resolved::Function { is_read_only }) => {
                    let set = match self.libraries(
                        runner,
                        &around.shared.scripts,
                        library_keys::stamp_of_call(operation),
                        around.is_worker,
                    ) {
                        Libraries::Known(set) => set,
                        Libraries::Lack(key) => return self.lacking(vec![key]),
                        Libraries::Heavy => return RunStop::Heavy,
                        Libraries::Unreadable(error) => return RunStop::Failed(error),
                    };
                    let function = set.function(operation.args.as_args().arg(1));
                    if around.is_worker && function.is_some_and(|(library, _)| library.read.is_large()) {
                        return RunStop::Heavy;
                    }
                    let asked = Asked {
                        is_read_only: *is_read_only,
                        is_out_of_memory: scripted.is_out_of_memory,
                        is_in_cluster: around.is_in_cluster(),
                    };
                    let limits = RunLimits {
                        memory_bytes: RUN_MEMORY_MAX,
                    };
                    match start_function(runner, &set, operation.args.as_args(), asked, limits) {
                        Ok(begun) => ScriptRun {
                            run: begun.run,
                            body: Body::Function(begun.name),
                            rules: begun.rules,
                            db: operation.db,
                            awaits: None,
                            has_written: false,
                        },
                        Err(error) => return self.answer_error(operation.protocol, &error),
                    }
                }
                Some(Resolved::Libraries) => return self.keep_libraries(runner, operation, around),
                Some(Resolved::Refused(error)) => return self.answer_error(operation.protocol, error),
                Some(Resolved::Unknown(_) | Resolved::Long) | None => {
                    return self.answer_error(operation.protocol, UNKNOWN_SCRIPT.as_bytes());
                }
            },
        };
        let stop = self.run_script(runner, &mut script, operation.protocol, around, end);
        log_lines(&mut script.run);
        match stop {
            RunStop::Over => {
                runner.let_go(script.run);
                self.share.is_too_much(self.held.made_bytes);
            }
            RunStop::Spent | RunStop::Heavy | RunStop::Lacks(_) | RunStop::Asks(_)
                if self
                    .share
                    .is_too_much(script.run.memory_bytes().saturating_add(self.held.made_bytes)) =>
            {
                runner.let_go(script.run);
                return RunStop::Failed(TOO_MUCH_MEMORY);
            }
            RunStop::Lacks(_) if mutations::is(Mutation::ScriptBegunTwice) => runner.let_go(script.run),
            RunStop::Spent | RunStop::Heavy | RunStop::Lacks(_) | RunStop::Asks(_) => {
                self.script = Some(script);
            }
            RunStop::LocksAll | RunStop::Failed(_) => runner.let_go(script.run),
        }
        stop
    }

    /// The libraries that are there, by a stamp: without reading them, if this worker has met them.
    fn libraries(
        &self,
        runner: &mut ScriptRunner,
        shared: &SharedScripts,
        stamp: &[u8],
        is_worker: bool,
    ) -> Libraries {
        let (db, all) = (Db::LIBRARIES, library_keys::LIBRARIES);
        if !self.scratch.holds(db, stamp) {
            return Libraries::Lack((db, stamp.into()));
        }
        let Some(kept) = self.scratch.keyspace().text(db, stamp) else {
            return Libraries::Known(Arc::default());
        };
        if let Some(set) = Stamp::decode(&kept).and_then(|stamp| runner.libraries(shared, &stamp.sha1)) {
            return Libraries::Known(set);
        }
        if !self.scratch.holds(db, all) {
            return Libraries::Lack((db, all.into()));
        }
        if is_worker && self.libraries_len() > LIBRARIES_HERE_BYTES_MAX {
            return Libraries::Heavy;
        }
        self.all_libraries(runner, shared)
    }

    /// Bytes of all that are kept, which are here.
    fn libraries_len(&self) -> usize {
        let kept = self
            .scratch
            .keyspace()
            .text(Db::LIBRARIES, library_keys::LIBRARIES);
        kept.map_or(0, |kept| kept.len())
    }

    /// All that are kept, which are here.
    fn all_libraries(&self, runner: &mut ScriptRunner, shared: &SharedScripts) -> Libraries {
        let Some(payload) = self
            .scratch
            .keyspace()
            .text(Db::LIBRARIES, library_keys::LIBRARIES)
        else {
            return Libraries::Known(Arc::default());
        };
        let digits = Stamp::digits_of(&payload);
        if let Some(set) = runner.libraries(shared, &digits) {
            return Libraries::Known(set);
        }
        let known = runner.last_libraries(shared);
        match LibrarySet::of_payload(&mut runner.lua, &payload, known.as_deref()) {
            Ok(set) => {
                let set = Arc::new(set);
                runner.meet_libraries(shared, digits, set.clone());
                Libraries::Known(set)
            }
            Err(error) => {
                let error = String::from_utf8_lossy(&error);
                tracing::error!(%error, "the libraries of functions that are kept cannot be read");
                Libraries::Unreadable(UNREADABLE_LIBRARIES)
            }
        }
    }

    /// A subcommand of `FUNCTION`.
    fn keep_libraries(
        &mut self,
        runner: &mut ScriptRunner,
        operation: &Operation,
        around: &Surroundings<'_>,
    ) -> RunStop {
        let id = operation.spec.id;
        let mut lacks = library_keys::keys_of(operation);
        lacks.retain(|(db, key)| !self.scratch.holds(*db, key));
        if !lacks.is_empty() {
            return self.lacking(lacks);
        }
        let bytes = self.libraries_len() + operation.args.as_args().byte_len();
        if around.is_worker && bytes > LIBRARIES_HERE_BYTES_MAX {
            return RunStop::Heavy;
        }
        let replaces_all = id == CommandId::FunctionFlush;
        let set = match self.all_libraries(runner, &around.shared.scripts) {
            Libraries::Known(set) => set,
            Libraries::Lack(key) => return self.lacking(vec![key]),
            Libraries::Heavy => return RunStop::Heavy,
            // So there is a way out.
            Libraries::Unreadable(_) if replaces_all => Arc::default(),
            Libraries::Unreadable(error) => return RunStop::Failed(error),
        };
        self.spent += LIBRARIES_INSTRUCTIONS;
        let running = match id {
            CommandId::FunctionStats => around.shared.scripts.running_function(around.began),
            _ => None,
        };
        let args = operation.args.as_args();
        let outcome = match library_command::carry_out(id, args, &set, &mut runner.lua, running) {
            Ok(outcome) => outcome,
            Err(error) => return self.answer_error(operation.protocol, &error),
        };
        if let Some(changed) = outcome.changed {
            if around.semantics < SemanticsVersion::LIBRARIES {
                return self.answer_error(operation.protocol, OLDER_BUILDS.as_bytes());
            }
            self.put_libraries(runner, &around.shared.scripts, changed);
        }
        self.replies
            .push(operation.protocol, |out| script_reply::write(&outcome.reply, out));
        RunStop::Over
    }

    /// Libraries are these from here on.
    fn put_libraries(&mut self, runner: &mut ScriptRunner, shared: &SharedScripts, set: LibrarySet) {
        let payload = (!set.is_empty()).then(|| set.to_payload());
        let stamp = payload.as_ref().map(|payload| set.stamp_of(payload));
        if let Some(stamp) = stamp {
            // Known by what it is: nobody is led astray if it does not come to that.
            runner.meet_libraries(shared, stamp.sha1, Arc::new(set));
        }
        let stamp = stamp.map(|stamp| stamp.encode());
        self.scratch.judge_by(self.opened_at);
        self.put_text(library_keys::LIBRARIES, payload.as_deref());
        for key in library_keys::stamps() {
            self.put_text(key, stamp.as_deref());
        }
    }

    fn put_text(&mut self, key: &[u8], value: Option<&[u8]>) {
        let args = match value {
            Some(value) => ArgsBuf::from_slices([&b"SET"[..], key, value]),
            None => ArgsBuf::from_slices([&b"DEL"[..], key]),
        };
        let mut answer = Vec::new();
        let command = BlockCommand {
            db: Db::LIBRARIES,
            protocol: Protocol::Resp2,
            args: args.as_args(),
        };
        let out = &mut ReplyWriter::new(&mut answer, command.protocol);
        self.scratch.run(&command, out);
    }

    /// What runs for long, if an item does.
    fn long_run_of(&self, operation: &Operation, around: &Surroundings<'_>) -> LongRunOf {
        match &self.script {
            Some(ScriptRun {
                body: Body::Function(name),
                ..
            }) => LongRunOf::Function {
                name: name.clone(),
                words: operation.args.as_args().iter().map(Arc::from).collect(),
                began: around.began,
            },
            Some(_) | None => LongRunOf::Script,
        }
    }

    fn run_script(
        &mut self,
        runner: &mut ScriptRunner,
        script: &mut ScriptRun,
        protocol: Protocol,
        around: &Surroundings<'_>,
        end: u64,
    ) -> RunStop {
        script.run.put_off_large(around.is_worker);
        if let Some(operation) = script.awaits.take() {
            match self.carry_out(runner, script, operation, around) {
                Ok(reply) => script.run.resume_with(&reply),
                Err(stop) => return stop,
            }
        }
        loop {
            if self.spent >= end {
                return RunStop::Spent;
            }
            if around.is_worker && script.run.memory_bytes() > MADE_HERE_BYTES_MAX {
                return RunStop::Heavy;
            }
            let before = script.run.instructions();
            let stop = script.run.resume(end - self.spent);
            self.spent += script.run.instructions() - before;
            match stop {
                ScriptStop::Yielded => return RunStop::Spent,
                ScriptStop::Large => return RunStop::Heavy,
                ScriptStop::Call { words, is_resp3 } => {
                    let protocol = if is_resp3 {
                        Protocol::Resp3
                    } else {
                        Protocol::Resp2
                    };
                    match self.call(runner, script, ArgsBuf::from_slices(&words), protocol, around) {
                        Ok(reply) => script.run.resume_with(&reply),
                        Err(stop) => return stop,
                    }
                }
                ScriptStop::Permission { words } => {
                    let words = ArgsBuf::from_slices(&words);
                    let reply = script_reply::permission(words.as_args());
                    script.run.resume_with(&reply);
                }
                ScriptStop::Finished(reply) => {
                    self.replies
                        .push(protocol, |out| script_reply::write(&reply, out));
                    return RunStop::Over;
                }
                ScriptStop::Failed(failure) if failure.is_out_of_memory => {
                    return RunStop::Failed("ERR Error running script: not enough memory; nothing was done");
                }
                ScriptStop::Failed(failure) => return self.answer_error(protocol, &failure.message),
            }
        }
    }

    fn answer_error(&mut self, protocol: Protocol, error: &[u8]) -> RunStop {
        self.replies.push(protocol, |out| out.error_bytes(error));
        RunStop::Over
    }

    fn lacking(&self, keys: Vec<FullKey>) -> RunStop {
        match self.held.keys + keys.len() > KEYS_MAX {
            true => RunStop::Failed(TOO_MANY_KEYS),
            false => RunStop::Lacks(keys),
        }
    }

    /// A command of a script, from its words.
    ///
    /// # Errors
    /// It is not answered yet, or not at all.
    fn call(
        &mut self,
        runner: &mut ScriptRunner,
        script: &mut ScriptRun,
        args: ArgsBuf,
        protocol: Protocol,
        around: &Surroundings<'_>,
    ) -> Result<Reply, RunStop> {
        let caller = Caller {
            rules: script.rules,
            has_written: script.has_written,
        };
        let spec = match admit(caller, args.as_args(), protocol, around.shared) {
            Ok(spec) => spec,
            Err(reply) => return Ok(reply),
        };
        let operation = Operation {
            spec,
            db: script.db,
            protocol,
            args,
        };
        if spec.route != CommandRoute::Connection {
            return self.carry_out(runner, script, operation, around);
        }
        self.spent += COMMAND_INSTRUCTIONS;
        let args = operation.args.as_args();
        let reply = answer_own(
            spec,
            args,
            &mut script.db,
            &mut self.publishing,
            around.began,
            around.shared,
        );
        reply.map_err(RunStop::Failed)
    }

    /// A command on keys, or on the whole keyspace.
    ///
    /// # Errors
    /// As of [`ProgramRun::call`].
    fn carry_out(
        &mut self,
        runner: &mut ScriptRunner,
        script: &mut ScriptRun,
        operation: Operation,
        around: &Surroundings<'_>,
    ) -> Result<Reply, RunStop> {
        if operation.spec.route != CommandRoute::Keys {
            let looked = self.carry_out_whole(&mut runner.draws, &operation, around);
            if let Err(RunStop::Asks(_) | RunStop::Heavy) = looked {
                script.awaits = Some(operation);
            } else {
                script.has_written |= operation.spec.flags.contains(Flags::WRITE);
            }
            return looked.map(|reply| script_reply::read(&reply));
        }
        let lacks = self.lacks(&operation, around.groups);
        if !lacks.is_empty() {
            script.awaits = Some(operation);
            return Err(self.lacking(lacks));
        }
        if around.is_worker && self.is_heavy(&operation, around) {
            script.awaits = Some(operation);
            return Err(RunStop::Heavy);
        }
        if !self.has_room_for(&operation, script.run.memory_bytes()) {
            return Err(RunStop::Failed(TOO_MUCH_MEMORY));
        }
        self.note_written(&operation);
        script.has_written |= operation.spec.flags.contains(Flags::WRITE);
        self.scratch.judge_by(self.time_of(&operation, around));
        let mut bytes = Vec::new();
        let mut out = ReplyWriter::new(&mut bytes, operation.protocol);
        self.on_scratch(&operation, |scratch, _| {
            scratch.run(&operation.as_state(), &mut out)
        });
        self.spent += COMMAND_INSTRUCTIONS + (bytes.len() / BYTES_PER_INSTRUCTION) as u64;
        Ok(script_reply::read(&bytes))
    }

    /// A command on the whole keyspace: its reply.
    ///
    /// # Errors
    /// As of [`ProgramRun::call`].
    fn carry_out_whole(
        &mut self,
        draws: &mut Prng,
        operation: &Operation,
        around: &Surroundings<'_>,
    ) -> Result<Vec<u8>, RunStop> {
        let (mut reply, protocol) = (Vec::new(), operation.protocol);
        if let Err(error) = operation.parse() {
            error.write(&mut ReplyWriter::new(&mut reply, protocol));
            return Ok(reply);
        }
        if around.semantics < SemanticsVersion::HOLDER_READS {
            ReplyWriter::new(&mut reply, protocol).error(NOT_WHOLE);
            return Ok(reply);
        }
        if !around.has_locked_all {
            return Err(RunStop::LocksAll);
        }
        if let Some(asks) = self.whole.next_of_walk() {
            return Err(RunStop::Asks(asks));
        }
        let looks_far = self.whole.answered_bytes() > SENT_HERE_BYTES_MAX || self.held.keys > KEYS_HERE_MAX;
        if around.is_worker && looks_far {
            return Err(RunStop::Heavy);
        }
        self.scratch.judge_by(self.time_of(operation, around));
        let looked = self
            .whole
            .carry_out(operation, around.groups, around.scope, &mut self.scratch, draws);
        match looked {
            WholeOutcome::Reply(reply) => {
                let looked_at = self.whole.take_looked_at() * INSTRUCTIONS_A_KEY;
                self.spent += COMMAND_INSTRUCTIONS + looked_at + (reply.len() / BYTES_PER_INSTRUCTION) as u64;
                Ok(reply)
            }
            WholeOutcome::Asks(parts) => Err(RunStop::Asks(parts)),
        }
    }

    /// Whether a command on keys, which are here, would hold a worker up.
    fn is_heavy(&self, operation: &Operation, around: &Surroundings<'_>) -> bool {
        let (spec, args) = operation.argv();
        let held = self.scratch_bytes().saturating_add(self.zero_bytes(operation));
        let is_much = held > VALUES_HERE_BYTES_MAX
            || args.byte_len() > SENT_HERE_BYTES_MAX
            || spec.id == CommandId::Lcs && held > LCS_HERE_BYTES_MAX;
        let walks = spec.cost != Cost::Little || args.len() > WORDS_MIN;
        is_much
            || walks
                && replica::steps_of([operation], &|_| Some(self.scratch.keyspace()))
                    > around.steps_max.min(STEPS_HERE_MAX)
    }

    /// Whether what a command writes has room beside what all scripts of the worker have made, of which its script has so much.
    fn has_room_for(&mut self, operation: &Operation, of_script: usize) -> bool {
        if !operation.spec.flags.contains(Flags::WRITE) {
            return true;
        }
        let made = [
            of_script,
            self.held.made_bytes,
            self.unshared_bytes(operation),
            self.zero_bytes(operation),
            operation.args.as_args().byte_len(),
        ];
        !self
            .share
            .is_too_much(made.into_iter().fold(0, usize::saturating_add))
    }

    fn note_written(&mut self, operation: &Operation) {
        if operation.spec.flags.contains(Flags::WRITE) {
            let bytes = operation.args.as_args().byte_len();
            self.held.written_bytes = self.held.written_bytes.saturating_add(bytes);
        }
    }

    /// Keys of a command that are not here, and what is to be asked for with them. What is known of a key without asking is placed: that it is
    /// absent, or that it is there and will be deleted.
    fn lacks(&mut self, operation: &Operation, groups: Groups) -> Vec<FullKey> {
        let databases = replica::databases([operation]);
        let mut lacks: Vec<FullKey> = Vec::new();
        operation.keys(|key, _| {
            for db in &databases {
                if !self.scratch.holds(*db, key) {
                    lacks.push((*db, key.into()));
                }
            }
        });
        if lacks.is_empty() {
            lacks = self.scratch.wanted(&operation.as_state());
        }
        lacks.retain(|(db, key)| {
            let is_emptied = self.whole.is_emptied(groups, (*db, key)) && self.held.keys < KEYS_MAX;
            if is_emptied {
                self.held.keys += 1;
                self.scratch.place(*db, key, None);
            }
            !is_emptied
        });
        if let CommandId::Del | CommandId::Unlink = operation.spec.id {
            // It is enough that they are there: whatever they hold is gone then.
            lacks.retain(|key| !self.is_placed_as_named(key));
        }
        if self.held.value_bytes <= AHEAD_BYTES_MAX && self.held.keys <= KEYS_MAX / 2 {
            let ahead = self.whole.ahead_of(&lacks, groups, &self.scratch);
            lacks.extend(ahead);
        }
        lacks.sort_unstable();
        lacks.dedup();
        lacks
    }

    /// Places something under a key that a group has named, in the stead of what it holds there. Whether it has.
    fn is_placed_as_named(&mut self, key: &FullKey) -> bool {
        let is_known = self.whole.is_named(key) && self.held.keys < KEYS_MAX;
        if is_known {
            let (db, key) = key;
            self.held.keys += 1;
            self.whole.note_held(*db, key, None);
            self.scratch
                .place(*db, key, Some(Object::string(key, b"", None, Version(1))));
        }
        is_known
    }

    fn time_of(&self, operation: &Operation, around: &Surroundings<'_>) -> UnixMillis {
        let time = match around.times.try_earliest() {
            Some(_) => around.times.of(operation, around.groups),
            None => around.began,
        };
        time.max(self.opened_at)
    }

    /// Whether what it asks groups next is a step of a walk through all that they have.
    pub(crate) fn walks(&self) -> bool {
        self.whole.walks()
    }

    /// Whether somebody wants it to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.long.as_ref().is_some_and(LongRun::is_killed)
    }

    /// Notes which scripts named keys that they had not declared.
    pub(crate) fn note_roaming(&self, scripts: &mut WorkerScripts) {
        if let Some(script) = &self.script {
            match &script.body {
                Body::Script(script) => scripts.note_roaming(script),
                Body::Function(name) => scripts.note_roaming_function(name),
            }
        }
    }

    /// What it came to, with what it did to the whole keyspace before; and what remains is its scratch, which is empty.
    pub(crate) fn finish(mut self, groups: Groups) -> EndedRun {
        let evaluated = Evaluated {
            lacks: Vec::new(),
            replies: std::mem::take(&mut self.replies),
            effects: effects_of(&mut self.scratch, groups),
        };
        EndedRun {
            evaluated,
            expects: self.expects,
            whole: self.whole,
            published: self.publishing.messages,
            scratch: self.scratch,
            is_one_round: self.rounds <= 1,
        }
    }
}

/// A call of a function that was begun.
pub(crate) struct BegunCall {
    pub(crate) run: LuaRun,
    pub(crate) rules: Rules,
    pub(crate) name: Arc<[u8]>,
}

/// Begins a call of a function.
///
/// # Errors
/// The error for the client, code first.
pub(crate) fn start_function(
    runner: &mut ScriptRunner,
    set: &LibrarySet,
    args: Args<'_>,
    asked: Asked,
    limits: RunLimits,
) -> Result<BegunCall, Vec<u8>> {
    const ABSENT: &[u8] = b"ERR Function not found";
    let (library, function) = set.function(args.arg(1)).ok_or(ABSENT)?;
    check_call(args)?;
    let rules = Rules::of_function(function, asked)?;
    let input = input_of(args, runner.draws.next_u64());
    let run = runner
        .lua
        .start_function(&library.read, args.arg(1), input, limits);
    Ok(BegunCall {
        run: run.ok_or(ABSENT)?,
        rules,
        name: function.name.clone(),
    })
}

/// What a script says to the log.
pub(crate) fn log_lines(run: &mut LuaRun) {
    for line in run.take_log() {
        let text = String::from_utf8_lossy(&line.text);
        match line.level {
            LogLevel::Debug | LogLevel::Verbose => tracing::debug!(%text, "a script says"),
            LogLevel::Notice => tracing::info!(%text, "a script says"),
            LogLevel::Warning => tracing::warn!(%text, "a script says"),
        }
    }
}

/// The keys by their groups.
pub(crate) fn by_their_groups(groups: Groups, keys: Vec<FullKey>) -> BTreeMap<GroupId, Vec<FullKey>> {
    let mut found: BTreeMap<GroupId, Vec<FullKey>> = BTreeMap::new();
    for key in keys {
        found.entry(group_of_key(groups, &key.1)).or_default().push(key);
    }
    found
}
