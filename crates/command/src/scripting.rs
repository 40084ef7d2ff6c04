//! Scripts: the gateway runs them, and groups see what the commands in them come to.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{CommandRoute, Flags, Spec};

const MAY_WRITE: KeySpec = KeySpec::counted(2, KeyFlags::CHANGE);

const READS: KeySpec = KeySpec::counted(2, KeyFlags::READ);

/// A script that is run with what follows its name, or its source.
const fn run(name: &'static str, keys: &'static [KeySpec], use_flags: Flags) -> Spec {
    Spec::new(name, -3)
        .keys(keys)
        .flags(
            Flags::NOSCRIPT
                .and(Flags::STALE)
                .and(Flags::SKIP_MONITOR)
                .and(Flags::NO_MANDATORY_KEYS)
                .and(Flags::MOVABLEKEYS)
                .and(use_flags),
        )
        .route(CommandRoute::Script)
}

pub(crate) const EVAL: Spec = run(
    "eval",
    &[MAY_WRITE.notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
    Flags::MAY_REPLICATE,
);

pub(crate) const EVAL_RO: Spec = run(
    "eval_ro",
    &[READS.notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
    Flags::READONLY,
);

pub(crate) const EVALSHA: Spec = run("evalsha", &[MAY_WRITE], Flags::MAY_REPLICATE);

pub(crate) const EVALSHA_RO: Spec = run("evalsha_ro", &[READS], Flags::READONLY);

pub(crate) const SCRIPT: Spec = Spec::container("script");

pub(crate) const SCRIPT_LOAD: Spec = Spec::new("script|load", 3)
    .flags(Flags::NOSCRIPT.and(Flags::STALE))
    .tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const SCRIPT_EXISTS: Spec = Spec::new("script|exists", -3)
    .flags(Flags::NOSCRIPT)
    .tips("request_policy:all_shards response_policy:agg_logical_and");

pub(crate) const SCRIPT_FLUSH: Spec = Spec::new("script|flush", -2)
    .flags(Flags::NOSCRIPT)
    .tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const SCRIPT_KILL: Spec = Spec::new("script|kill", 2)
    .flags(Flags::NOSCRIPT.and(Flags::ALLOW_BUSY))
    .tips("request_policy:all_shards response_policy:one_succeeded");

pub(crate) const SCRIPT_HELP: Spec = Spec::help("script|help");

pub(crate) const FCALL: Spec = run(
    "fcall",
    &[MAY_WRITE.notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
    Flags::MAY_REPLICATE,
);

pub(crate) const FCALL_RO: Spec = run(
    "fcall_ro",
    &[READS.notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
    Flags::READONLY,
);

/// What reads or changes libraries, which are kept in groups under keys that no client sees.
const fn libraries(name: &'static str, arity: i16, flags: Flags) -> Spec {
    Spec::new(name, arity)
        .flags(Flags::NOSCRIPT.and(flags))
        .route(CommandRoute::Script)
}

/// How those go together that change them, in tools that know of many nodes.
const CHANGES: &str = "request_policy:all_shards response_policy:all_succeeded";

pub(crate) const FUNCTION: Spec = Spec::container("function");

pub(crate) const FUNCTION_LOAD: Spec =
    libraries("function|load", -3, Flags::WRITE.and(Flags::DENYOOM)).tips(CHANGES);

pub(crate) const FUNCTION_DELETE: Spec = libraries("function|delete", 3, Flags::WRITE).tips(CHANGES);

pub(crate) const FUNCTION_FLUSH: Spec = libraries("function|flush", -2, Flags::WRITE).tips(CHANGES);

pub(crate) const FUNCTION_LIST: Spec =
    libraries("function|list", -2, Flags::NONE).tips("nondeterministic_output_order");

pub(crate) const FUNCTION_DUMP: Spec = libraries("function|dump", 2, Flags::NONE);

pub(crate) const FUNCTION_RESTORE: Spec =
    libraries("function|restore", -3, Flags::WRITE.and(Flags::DENYOOM)).tips(CHANGES);

pub(crate) const FUNCTION_STATS: Spec = libraries("function|stats", 2, Flags::ALLOW_BUSY)
    .tips("nondeterministic_output request_policy:all_shards response_policy:special");

pub(crate) const FUNCTION_KILL: Spec = Spec::new("function|kill", 2)
    .flags(Flags::NOSCRIPT.and(Flags::ALLOW_BUSY))
    .tips("request_policy:all_shards response_policy:one_succeeded");

pub(crate) const FUNCTION_HELP: Spec = Spec::help("function|help");
