//! What a program with scripts knows of them: which they are, and what they may.

use crate::context::Context;
use crate::library_keys::changes_libraries;
use crate::program::{Item, Program};
use crate::script_cache::{NO_WRITES, Sha1, Sourced, WorkerScripts, sha1_of};
use crate::session::Queued;
use command::{CommandId, CommandRoute, Flags, ReplyError};
use resp::Args;
use script::{Registered, Script, ScriptInput};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// No node in reach knows it.
pub(crate) const UNKNOWN_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// `scripting no`.
pub(crate) const SWITCHED_OFF: &str = "ERR scripts are switched off: `scripting` is `no`";

const NO_CLUSTER: &str = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
const NUMKEYS_NEGATIVE: ReplyError = ReplyError::Fixed("ERR Number of keys can't be negative");
const NO_READS_FLAG: &str = "ERR Can not execute a script with write flag using *_ro command.";
const OUT_OF_MEMORY: &str =
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";

/// The scripts of a program.
#[derive(Default)]
pub(crate) struct Scripted {
    /// By the index of their item.
    scripts: Arc<BTreeMap<usize, Resolved>>,
    /// Whether memory was full when the program came.
    pub(crate) is_out_of_memory: bool,
    /// Whether its client has sent more behind it, by then.
    pub(crate) has_more_behind: bool,
    /// Whether what replicas here have applied will not do.
    pub(crate) asks_leaders: bool,
    /// Messages to channels, which are sent when it is committed.
    pub(crate) published: Vec<Queued>,
}

/// What an item's words came to.
pub(crate) enum Resolved {
    /// To be run.
    Script(Script, Rules),
    /// A function to be called, of what the transaction finds to be the libraries.
    Function {
        /// Whether it is called with `FCALL_RO`.
        is_read_only: bool,
    },
    /// Libraries are read or changed.
    Libraries,
    /// Only its digits are known so far.
    Unknown(Sha1),
    /// Its source is long, and to be compiled.
    Long,
    /// It cannot be run, and this is why.
    Refused(Vec<u8>),
}

/// What a script may.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rules {
    pub(crate) is_read_only: bool,
    /// Commands that need memory are refused, as long as it has written nothing.
    pub(crate) denies_oom: bool,
}

impl Scripted {
    /// Looks at each script of a program. `None` if it has none.
    pub(crate) fn of(cx: &mut Context, program: &Program, is_out_of_memory: bool) -> Option<Box<Scripted>> {
        let mut scripted = Scripted {
            is_out_of_memory,
            ..Scripted::default()
        };
        let mut scripts = BTreeMap::new();
        for (index, item) in program.items.iter().enumerate() {
            if let Item::Operation(operation) = item
                && operation.spec.route == CommandRoute::Script
            {
                let resolved = resolve(cx, operation.spec.id, operation.args.as_args(), is_out_of_memory);
                scripts.insert(index, resolved);
            }
        }
        scripted.scripts = Arc::new(scripts);
        (!scripted.scripts.is_empty()).then(|| Box::new(scripted))
    }

    /// Of a program that is one script, which has run.
    pub(crate) fn of_one(resolved: Resolved, published: Vec<Queued>) -> Scripted {
        Scripted {
            scripts: Arc::new(BTreeMap::from([(0, resolved)])),
            published,
            ..Scripted::default()
        }
    }

    /// The same, for whoever carries them out.
    pub(crate) fn to_carry_out(&self) -> Scripted {
        Scripted {
            scripts: self.scripts.clone(),
            is_out_of_memory: self.is_out_of_memory,
            ..Scripted::default()
        }
    }

    /// What an item's words came to.
    pub(crate) fn at(&self, index: usize) -> Option<&Resolved> {
        self.scripts.get(&index)
    }

    /// Scripts of which only the digits are known.
    pub(crate) fn unknown(&self) -> Vec<Sha1> {
        let digits = self.scripts.values().filter_map(|resolved| match resolved {
            Resolved::Unknown(sha1) => Some(*sha1),
            Resolved::Script(..)
            | Resolved::Function { .. }
            | Resolved::Libraries
            | Resolved::Long
            | Resolved::Refused(_) => None,
        });
        let mut digits: Vec<Sha1> = digits.collect();
        digits.sort_unstable();
        digits.dedup();
        digits
    }

    /// The items whose sources are to be compiled.
    pub(crate) fn long(&self) -> impl Iterator<Item = usize> {
        let is_long = |(_, resolved): &(&usize, &Resolved)| matches!(resolved, Resolved::Long);
        self.scripts.iter().filter(is_long).map(|(index, _)| *index)
    }

    /// The error of the only script, if it cannot be run.
    pub(crate) fn refusal(&self) -> Option<&[u8]> {
        self.scripts.values().find_map(|resolved| match resolved {
            Resolved::Refused(error) => Some(&error[..]),
            Resolved::Unknown(_) => Some(UNKNOWN_SCRIPT.as_bytes()),
            Resolved::Script(..) | Resolved::Function { .. } | Resolved::Libraries | Resolved::Long => None,
        })
    }

    /// Whether any is known to name keys that it does not declare.
    pub(crate) fn roams(&self, known: &WorkerScripts, program: &Program) -> bool {
        self.scripts.iter().any(|(index, resolved)| match resolved {
            Resolved::Script(script, _) => known.roams(script),
            Resolved::Function { .. } => match program.items.get(*index) {
                Some(Item::Operation(operation)) => known.function_roams(operation.args.as_args().arg(1)),
                Some(Item::Connection(_)) | None => false,
            },
            Resolved::Libraries | Resolved::Unknown(_) | Resolved::Long | Resolved::Refused(_) => false,
        })
    }
}

/// What the words of a command with a script come to.
pub(crate) fn resolve(cx: &mut Context, id: CommandId, args: Args<'_>, is_out_of_memory: bool) -> Resolved {
    let refused = |error: ReplyError| Resolved::Refused(error.bytes().into_owned());
    if keeps_libraries(id) {
        let denies_oom = id.spec().flags.contains(Flags::DENYOOM);
        return match () {
            () if !cx.settings.scripting => Resolved::Refused(SWITCHED_OFF.as_bytes().to_vec()),
            () if denies_oom && is_out_of_memory => refused(ReplyError::OutOfMemory),
            () => Resolved::Libraries,
        };
    }
    if let CommandId::FCall | CommandId::FCallRo = id {
        let is_read_only = id == CommandId::FCallRo;
        return match cx.settings.scripting {
            false => Resolved::Refused(SWITCHED_OFF.as_bytes().to_vec()),
            true => Resolved::Function { is_read_only },
        };
    }
    if let Err(error) = key_range(args) {
        return refused(error);
    }
    let (is_by_digits, is_read_only) = match id {
        CommandId::EvalSha => (true, false),
        CommandId::EvalShaRo => (true, true),
        CommandId::EvalRo => (false, true),
        _ => (false, false),
    };
    if !cx.settings.scripting {
        return Resolved::Refused(SWITCHED_OFF.as_bytes().to_vec());
    }
    let shared = cx.shared.clone();
    let script = if is_by_digits {
        let Some(sha1) = sha1_of(args.arg(1)) else {
            return Resolved::Refused(UNKNOWN_SCRIPT.as_bytes().to_vec());
        };
        match cx.scripts.of_sha1(&shared.scripts, &sha1) {
            Some(script) => script,
            None => return Resolved::Unknown(sha1),
        }
    } else {
        match cx.scripts.of_source(&shared.scripts, args.arg(1)) {
            Ok(Sourced::Known(script)) => script,
            Ok(Sourced::Long) => return Resolved::Long,
            Err(error) => return Resolved::Refused(error),
        }
    };
    let Some(shebang) = script.shebang() else {
        let rules = Rules {
            is_read_only,
            denies_oom: is_out_of_memory,
        };
        return Resolved::Script(script, rules);
    };
    let says = |flag: &str| shebang.flags.iter().any(|said| said == flag);
    match Rules::by_flags(says, is_read_only, is_out_of_memory) {
        Ok(rules) => Resolved::Script(script, rules),
        Err(error) => Resolved::Refused(error.as_bytes().to_vec()),
    }
}

/// Whether a command is about libraries.
pub(crate) fn keeps_libraries(id: CommandId) -> bool {
    changes_libraries(id)
        || matches!(
            id,
            CommandId::FunctionList | CommandId::FunctionDump | CommandId::FunctionStats
        )
}

impl Rules {
    /// Of a script or a function that says of itself what it does.
    fn by_flags(
        says: impl Fn(&str) -> bool,
        is_read_only: bool,
        is_out_of_memory: bool,
    ) -> Result<Rules, &'static str> {
        let writes = !says(NO_WRITES);
        if is_read_only && writes {
            return Err(NO_READS_FLAG);
        }
        if is_out_of_memory && writes && !says("allow-oom") {
            return Err(OUT_OF_MEMORY);
        }
        Ok(Rules {
            is_read_only: is_read_only || !writes,
            denies_oom: false,
        })
    }

    /// Of a function.
    ///
    /// # Errors
    /// It may not be called so.
    pub(crate) fn of_function(function: &Registered, asked: Asked) -> Result<Rules, &'static str> {
        let says = |flag: &str| function.flags.iter().any(|said| &said[..] == flag.as_bytes());
        if asked.is_in_cluster && says("no-cluster") {
            return Err(NO_CLUSTER);
        }
        Rules::by_flags(says, asked.is_read_only, asked.is_out_of_memory)
    }
}

/// How a function is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// With `FCALL_RO`.
    pub(crate) is_read_only: bool,
    /// While memory is full.
    pub(crate) is_out_of_memory: bool,
    /// By a client of the cluster endpoint.
    pub(crate) is_in_cluster: bool,
}

/// Whether the numbers of keys that a call of a function says can be.
///
/// # Errors
/// They cannot, in Redis's words.
pub(crate) fn check_call(args: Args<'_>) -> Result<(), Vec<u8>> {
    match key_range(args) {
        Ok(_) => Ok(()),
        Err(ReplyError::NotAnInteger) => Err(b"ERR Bad number of keys provided".to_vec()),
        Err(error) => Err(error.bytes().into_owned()),
    }
}

/// Where the keys of a script stand among its words.
fn key_range(args: Args<'_>) -> Result<Range<usize>, ReplyError> {
    let count = command::number::parse_i64(args.arg(2)).ok_or(ReplyError::NotAnInteger)?;
    if count > (args.len() - 3) as i64 {
        return Err(ReplyError::NumKeysTooLarge);
    }
    let count = usize::try_from(count).map_err(|_| NUMKEYS_NEGATIVE)?;
    Ok(3..3 + count)
}

/// What a script is begun with: the words of its command, which were looked at, and where its random numbers begin.
pub(crate) fn input_of(args: Args<'_>, chance: u64) -> ScriptInput {
    let keys = key_range(args).unwrap_or(3..3);
    let words = |range: Range<usize>| range.map(|at| args.arg(at).into()).collect();
    ScriptInput {
        keys: words(keys.clone()),
        argv: words(keys.end..args.len()),
        is_resp3: false,
        seed: chance as i32,
    }
}
