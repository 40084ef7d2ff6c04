//! A short script, run to its end within the turn in which it came.
//!
//! ```text
//!   begin --> call by call, on some ground ---> over, or an error that nobody caught: what it answers
//!                          |
//!                          v
//!                       Unsuited: another way is to be found, and nothing has happened
//! ```
//!
//! What its commands run on is one of two grounds: the state of groups that are alone (`script_at_once.rs`), or copies of what a replica
//! of its group has applied (`script_on_copies.rs`). Whatever is not short, waits, or is unknown begins as a program (`script_run.rs`).

use crate::context::Context;
use crate::library_set::LibrarySet;
use crate::program::names_more;
use crate::script_calls::{Caller, Publishing, admit, answer_own};
use crate::script_program::{Asked, Resolved, Rules, UNKNOWN_SCRIPT, input_of, resolve};
use crate::script_reply;
use crate::script_run::{Body, STEPS_HERE_MAX, start_function};
use crate::shared::Shared;
use command::{CommandId, CommandRoute, Cost, Flags, Spec};
use ids::{Db, UnixMillis};
use keyspace::Keyspace;
use replica::Call;
use resp::{Args, ArgsRoom, Protocol, ReplyWriter};
use script::{CompiledScript, Interpreter, LuaRun, Reply, Run, RunLimits, ScriptStop, sha1_hex};
use std::sync::Arc;

/// Instructions that a script may have at once: a third of a millisecond. Others wait for that long.
const INSTRUCTIONS: u64 = 40_000;

/// What a command counts as, beside its steps and what its answer has.
const CALL_INSTRUCTIONS: u64 = 100;

/// Bytes of an answer, or of a value that is copied, that count as one instruction.
pub(crate) const BYTES_PER_INSTRUCTION: usize = 16;

/// Bytes of strings that are copied, or filled with zeros, that count as one.
const COPIED_BYTES_PER_INSTRUCTION: usize = 64;

/// Bytes that it may make.
const MEMORY_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of the words that it is called with, which are copied.
const WORDS_BYTES_MAX: usize = 256 * 1024;

/// Bytes of strings that one command copies out, or fills with zeros.
const STRING_BYTES_MAX: usize = 256 * 1024;

/// With fewer words than these, a command on one key that does not walk is never worth a thought.
const WORDS_MIN: usize = 1_024;

/// Bytes of room that is kept for the next script.
const ROOM_KEPT_BYTES: usize = 64 * 1024;

/// A call of a script.
#[derive(Clone, Copy)]
pub(crate) struct Called<'a> {
    pub(crate) spec: &'static Spec,
    pub(crate) args: Args<'a>,
    /// The database of its connection.
    pub(crate) db: Db,
    /// Whether memory was full when it came.
    pub(crate) is_out_of_memory: bool,
    /// Whether its client came in by the cluster endpoint.
    pub(crate) is_in_cluster: bool,
}

impl Called<'_> {
    /// What the script is known by: its digits, or the function's name.
    pub(crate) fn name(&self) -> Vec<u8> {
        name_of(self.spec, self.args)
    }
}

/// What a script is known by: its digits, or the function's name.
pub(crate) fn name_of(spec: &'static Spec, args: Args<'_>) -> Vec<u8> {
    match spec.id {
        CommandId::Eval | CommandId::EvalRo => sha1_hex(args.arg(1)).into_bytes(),
        _ => args.arg(1).to_ascii_lowercase(),
    }
}

/// Why another way is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsuited {
    /// The script is as it is: so it will be the next time.
    ByNature,
    /// What it met may be otherwise the next time: keys that are held, values that are large, a group that is busy.
    ForNow,
    /// It was so of late by nature, and is not tried now.
    PutOff,
}

/// Room for words and answers, one after the other.
#[derive(Default)]
pub(crate) struct CallRoom {
    words: ArgsRoom,
    answer: Vec<u8>,
}

impl CallRoom {
    pub(crate) fn is_small(&self) -> bool {
        self.words.memory() + self.answer.capacity() <= ROOM_KEPT_BYTES
    }
}

/// What the commands of a script run on.
pub(crate) trait Ground {
    /// Carries out a command on keys, and writes what it answers. What it takes is counted, beside the call: [`charge_steps`].
    ///
    /// # Errors
    /// Another way is to be found, and the command has done nothing.
    fn carry_out(
        &mut self,
        call: &Call<'_>,
        spent: &mut u64,
        out: &mut ReplyWriter<'_>,
    ) -> Result<(), Unsuited>;
}

/// Counts what a command takes that walks over values, or copies long strings.
///
/// # Errors
/// It is too much.
pub(crate) fn charge_steps(spent: &mut u64, call: &Call<'_>, keyspace: &Keyspace) -> Result<(), Unsuited> {
    let bytes = keyspace::string_bytes(call.command, call.db, &|_| Some(keyspace));
    if bytes > STRING_BYTES_MAX {
        return Err(Unsuited::ForNow);
    }
    *spent = spent.saturating_add((bytes / COPIED_BYTES_PER_INSTRUCTION) as u64);
    if call.spec.cost == Cost::Little && call.args.len() <= WORDS_MIN {
        return Ok(());
    }
    let steps = replica::steps(call.db, call.spec, call.args, Some(call.command), &|_| {
        Some(keyspace)
    });
    *spent = spent.saturating_add(steps as u64);
    match *spent <= INSTRUCTIONS && steps <= 2 * STEPS_HERE_MAX {
        true => Ok(()),
        false => Err(Unsuited::ByNature),
    }
}

/// A script that is about to run.
pub(crate) struct Begun {
    pub(crate) run: LuaRun,
    pub(crate) rules: Rules,
    pub(crate) body: Body,
}

impl Begun {
    /// What its words have come to.
    pub(crate) fn resolved(&self, spec: &Spec) -> Resolved {
        match &self.body {
            Body::Script(script) => Resolved::Script(script.clone(), self.rules),
            Body::Function(_) => Resolved::Function {
                is_read_only: spec.id == CommandId::FCallRo,
            },
        }
    }
}

/// Begins a script. `libraries` finds those that are kept, if it is a function.
///
/// # Errors
/// `Err(Err(_))`: another way is to be found. `Err(Ok(_))`: it cannot run at all, and this is what its client is answered.
pub(crate) fn begin(
    cx: &mut Context,
    called: &Called<'_>,
    libraries: impl FnOnce(&mut Context) -> Option<Arc<LibrarySet>>,
) -> Result<Begun, Result<Vec<u8>, Unsuited>> {
    const ELSEWHERE: Result<Vec<u8>, Unsuited> = Err(Unsuited::ForNow);
    let args = called.args;
    if args.byte_len() > WORDS_BYTES_MAX {
        return Err(ELSEWHERE);
    }
    let limits = RunLimits {
        memory_bytes: MEMORY_BYTES,
    };
    match resolve(cx, called.spec.id, args, called.is_out_of_memory) {
        Resolved::Script(script, rules) => {
            if cx.scripts.puts_off() && cx.scripts.is_put_off(script.sha1().as_bytes()) {
                return Err(Err(Unsuited::PutOff));
            }
            if script.is_large() {
                return Err(ELSEWHERE);
            }
            let input = input_of(args, cx.scripts.runner.draws.next_u64());
            let run = cx.scripts.runner.lua.start(&script, input, limits);
            let body = Body::Script(script);
            Ok(Begun { run, rules, body })
        }
        Resolved::Function { is_read_only } => {
            if cx.scripts.puts_off() && cx.scripts.is_put_off(&called.name()) {
                return Err(Err(Unsuited::PutOff));
            }
            let set = libraries(cx).ok_or(ELSEWHERE)?;
            let function = set.function(args.arg(1));
            if function.is_some_and(|(library, _)| library.read.is_large()) {
                return Err(ELSEWHERE);
            }
            let asked = Asked {
                is_read_only,
                is_out_of_memory: called.is_out_of_memory,
                is_in_cluster: called.is_in_cluster,
            };
            let begun = start_function(&mut cx.scripts.runner, &set, args, asked, limits).map_err(Ok)?;
            Ok(Begun {
                run: begun.run,
                rules: begun.rules,
                body: Body::Function(begun.name),
            })
        }
        Resolved::Refused(error) => Err(Ok(error)),
        Resolved::Unknown(_) if cx.view.nodes_up().next().is_none() => {
            Err(Ok(UNKNOWN_SCRIPT.as_bytes().to_vec()))
        }
        Resolved::Libraries | Resolved::Unknown(_) | Resolved::Long => Err(ELSEWHERE),
    }
}

/// A script on its way.
pub(crate) struct ShortScript<'a, G> {
    pub(crate) ground: G,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) began: UnixMillis,
    pub(crate) rules: Rules,
    pub(crate) db: Db,
    pub(crate) publishing: Publishing,
    has_written: bool,
    /// Instructions, beside those of the interpreter.
    spent: u64,
}

impl<'a, G: Ground> ShortScript<'a, G> {
    /// One that has done nothing yet.
    pub(crate) fn new(ground: G, shared: &'a Arc<Shared>, began: UnixMillis, rules: Rules, db: Db) -> Self {
        ShortScript {
            ground,
            shared,
            began,
            rules,
            db,
            publishing: Publishing::default(),
            has_written: false,
            spent: 0,
        }
    }

    /// Goes on to its end, and writes what it answers.
    ///
    /// # Errors
    /// Another way is to be found. What it has done on its ground is to be taken back.
    pub(crate) fn run(
        &mut self,
        run: &mut LuaRun,
        room: &mut CallRoom,
        out: &mut ReplyWriter<'_>,
    ) -> Result<(), Unsuited> {
        run.put_off_large(true);
        loop {
            let used = run.instructions() + self.spent;
            let Some(left) = INSTRUCTIONS.checked_sub(used).filter(|left| *left > 0) else {
                return Err(Unsuited::ByNature);
            };
            match run.resume(left) {
                ScriptStop::Call { words, is_resp3 } => {
                    let protocol = if is_resp3 {
                        Protocol::Resp3
                    } else {
                        Protocol::Resp2
                    };
                    let CallRoom { words: list, answer } = &mut *room;
                    let reply = self.call(list.fill(&words), protocol, answer)?;
                    run.resume_with(&reply);
                }
                ScriptStop::Permission { words } => {
                    run.resume_with(&script_reply::permission(room.words.fill(&words)));
                }
                ScriptStop::Finished(reply) => {
                    script_reply::write(&reply, out);
                    return Ok(());
                }
                ScriptStop::Failed(failure) if !failure.is_out_of_memory => {
                    out.error_bytes(&failure.message);
                    return Ok(());
                }
                ScriptStop::Yielded | ScriptStop::Large | ScriptStop::Failed(_) => {
                    return Err(Unsuited::ByNature);
                }
            }
        }
    }

    /// A command that it calls.
    fn call(&mut self, args: Args<'_>, protocol: Protocol, answer: &mut Vec<u8>) -> Result<Reply, Unsuited> {
        self.spent += CALL_INSTRUCTIONS;
        let caller = Caller {
            rules: self.rules,
            has_written: self.has_written,
        };
        let spec = match admit(caller, args, protocol, self.shared) {
            Ok(spec) => spec,
            Err(reply) => return Ok(reply),
        };
        // All groups are to be locked for it.
        if let CommandRoute::Everywhere | CommandRoute::Scan = spec.route {
            return Err(Unsuited::ByNature);
        }
        if spec.route != CommandRoute::Keys {
            return answer_own(
                spec,
                args,
                &mut self.db,
                &mut self.publishing,
                self.began,
                self.shared,
            )
            .map_err(|_| Unsuited::ByNature);
        }
        // What waits, and what reads keys that only the data name, is for whoever looks at the values.
        if command::waits(spec, args) || names_more(spec, args) {
            return Err(Unsuited::ByNature);
        }
        let parse = spec.parse.expect("a command on keys has a parser");
        let command = match parse(args) {
            Ok(command) => command,
            Err(error) => return Ok(Reply::Error(error.bytes().into_owned())),
        };
        let call = Call {
            spec,
            db: self.db,
            protocol,
            args,
            command: &command,
        };
        answer.clear();
        let out = &mut ReplyWriter::new(answer, protocol);
        self.ground.carry_out(&call, &mut self.spent, out)?;
        self.has_written |= spec.flags.contains(Flags::WRITE);
        self.spent += (answer.len() / BYTES_PER_INSTRUCTION) as u64;
        Ok(script_reply::read(answer))
    }
}
