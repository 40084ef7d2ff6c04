//! The server: configuration, commands, memory and time. Only what names a key reaches a group.

use crate::docs::{Argument, ArgumentKind, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Access, Categories, Flags, Route, Spec};
use crate::{Command, CommandId, ReplyError};
use resp::Args;

/// `INFO`.
pub(crate) static INFO: Spec = Spec {
    name: "info",
    id: CommandId::Info,
    arity: -1,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::DANGEROUS,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Describes the server, section by section.",
        since: "1.0.0",
        group: Group::Server,
        history: &[("7.0.0", "More than one section.")],
        arguments: &[Argument::string("section").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CONFIG`.
pub(crate) static CONFIG: Spec = Spec {
    name: "config",
    id: CommandId::Config,
    arity: -2,
    docs: Docs {
        summary: "Reads and changes the configuration.",
        since: "2.0.0",
        group: Group::Server,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &CONFIG_GET,
        &CONFIG_SET,
        &CONFIG_RESETSTAT,
        &CONFIG_REWRITE,
        &CONFIG_HELP,
    ],
    ..Spec::BASE
};

/// `CONFIG GET`.
pub(crate) static CONFIG_GET: Spec = Spec {
    name: "config|get",
    id: CommandId::ConfigGet,
    arity: -3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    docs: Docs {
        summary: "Returns the parameters that fit patterns.",
        since: "2.0.0",
        group: Group::Server,
        complexity: "O(N) for N parameters.",
        history: &[("7.0.0", "More than one pattern.")],
        arguments: &[Argument::block("parameter", &[Argument::string("parameter")]).multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CONFIG SET`.
pub(crate) static CONFIG_SET: Spec = Spec {
    name: "config|set",
    id: CommandId::ConfigSet,
    arity: -4,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Changes parameters.",
        since: "2.0.0",
        group: Group::Server,
        complexity: "O(N) for N parameters.",
        history: &[("7.0.0", "More than one parameter.")],
        arguments: &[Argument::block(
            "parameter_value",
            &[Argument::string("parameter"), Argument::string("value")],
        )
        .multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CONFIG RESETSTAT`.
pub(crate) static CONFIG_RESETSTAT: Spec = Spec {
    name: "config|resetstat",
    id: CommandId::ConfigResetStat,
    arity: 2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    docs: Docs {
        summary: "Sets the statistics of INFO to zero.",
        since: "2.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CONFIG HELP`.
pub(crate) static CONFIG_HELP: Spec = Spec {
    name: "config|help",
    id: CommandId::ConfigHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "5.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND`.
pub(crate) static COMMAND: Spec = Spec {
    name: "command",
    id: CommandId::Command,
    arity: -1,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    docs: Docs {
        summary: "Describes all commands.",
        since: "2.8.13",
        group: Group::Server,
        complexity: "O(N) for N commands.",
        ..Docs::BASE
    },
    subcommands: &[
        &COMMAND_COUNT,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_INFO,
        &COMMAND_LIST,
        &COMMAND_HELP,
    ],
    ..Spec::BASE
};

/// `COMMAND COUNT`.
pub(crate) static COMMAND_COUNT: Spec = Spec {
    name: "command|count",
    id: CommandId::CommandCount,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Counts the commands.",
        since: "2.8.13",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND DOCS`.
pub(crate) static COMMAND_DOCS: Spec = Spec {
    name: "command|docs",
    id: CommandId::CommandDocs,
    arity: -2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    docs: Docs {
        summary: "Documents commands.",
        since: "7.0.0",
        group: Group::Server,
        complexity: "O(N) for N commands.",
        arguments: &[Argument::string("command-name").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND GETKEYS`.
pub(crate) static COMMAND_GETKEYS: Spec = Spec {
    name: "command|getkeys",
    id: CommandId::CommandGetKeys,
    arity: -4,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Finds the keys among the words of a command.",
        since: "2.8.13",
        group: Group::Server,
        complexity: "O(N) for N words.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND GETKEYSANDFLAGS`.
pub(crate) static COMMAND_GETKEYSANDFLAGS: Spec = Spec {
    name: "command|getkeysandflags",
    id: CommandId::CommandGetKeysAndFlags,
    arity: -4,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Finds the keys among the words of a command, and their use.",
        since: "7.0.0",
        group: Group::Server,
        complexity: "O(N) for N words.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND INFO`.
pub(crate) static COMMAND_INFO: Spec = Spec {
    name: "command|info",
    id: CommandId::CommandInfo,
    arity: -2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    docs: Docs {
        summary: "Describes commands.",
        since: "2.8.13",
        group: Group::Server,
        complexity: "O(N) for N commands.",
        history: &[("7.0.0", "All commands if none is given.")],
        arguments: &[Argument::string("command-name").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND LIST`.
pub(crate) static COMMAND_LIST: Spec = Spec {
    name: "command|list",
    id: CommandId::CommandList,
    arity: -2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    docs: Docs {
        summary: "Lists the names of commands.",
        since: "7.0.0",
        group: Group::Server,
        complexity: "O(N) for N commands.",
        arguments: &[Argument::one_of(
            "filterby",
            &[
                Argument::string("module-name").token("MODULE"),
                Argument::string("category").token("ACLCAT"),
                Argument::new("pattern", ArgumentKind::Pattern).token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `COMMAND HELP`.
pub(crate) static COMMAND_HELP: Spec = Spec {
    name: "command|help",
    id: CommandId::CommandHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "5.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `TIME`.
pub(crate) static TIME: Spec = Spec {
    name: "time",
    id: CommandId::Time,
    arity: 1,
    flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
    tips: &["nondeterministic_output"],
    docs: Docs {
        summary: "Returns the time of the server.",
        since: "2.6.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `WAIT`.
pub(crate) static WAIT: Spec = Spec {
    name: "wait",
    id: CommandId::Wait,
    arity: 3,
    flags: Flags::NOSCRIPT,
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    docs: Docs {
        summary: "Waits until replicas hold the writes of this connection.",
        since: "3.0.0",
        group: Group::Generic,
        arguments: &[Argument::integer("numreplicas"), Argument::integer("timeout")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MEMORY`.
pub(crate) static MEMORY: Spec = Spec {
    name: "memory",
    id: CommandId::Memory,
    arity: -2,
    docs: Docs {
        summary: "Tells about memory.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &MEMORY_USAGE,
        &MEMORY_STATS,
        &MEMORY_DOCTOR,
        &MEMORY_MALLOC_STATS,
        &MEMORY_PURGE,
        &MEMORY_HELP,
    ],
    ..Spec::BASE
};

/// `MEMORY USAGE`.
pub(crate) static MEMORY_USAGE: Spec = Spec {
    name: "memory|usage",
    id: CommandId::MemoryUsage,
    arity: -3,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Estimates the memory of a key and its value.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "O(N) for N samples.",
        arguments: &[
            Argument::KEY,
            Argument::integer("count").token("SAMPLES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_memory_usage),
    ..Spec::BASE
};

fn parse_memory_usage(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match args.get(at + 1) {
            // The number only has to be one: nothing here is estimated from samples.
            Some(number) if word.eq_ignore_ascii_case(b"samples") => {
                if number::integer(number)? < 0 {
                    return Err(ReplyError::Syntax);
                }
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    Ok(Command::MemoryUsage { key: args.arg(2) })
}

/// `MEMORY HELP`.
pub(crate) static MEMORY_HELP: Spec = Spec {
    name: "memory|help",
    id: CommandId::MemoryHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "4.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `DEBUG`.
pub(crate) static DEBUG: Spec = Spec {
    name: "debug",
    id: CommandId::Debug,
    arity: -2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    docs: Docs {
        summary: "Helps to debug the server.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "That of the subcommand.",
        internal: true,
        ..Docs::BASE
    },
    subcommands: &[&DEBUG_OBJECT, &DEBUG_SDSLEN],
    open: true,
    ..Spec::BASE
};

/// `DEBUG OBJECT`.
pub(crate) static DEBUG_OBJECT: Spec = Spec {
    name: "debug|object",
    id: CommandId::DebugObject,
    arity: -3,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::READONLY),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Tells how a value is stored.",
        since: "1.0.0",
        group: Group::Server,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::DebugObject { key: args.arg(2) })),
    ..Spec::BASE
};

/// `DEBUG SDSLEN`.
pub(crate) static DEBUG_SDSLEN: Spec = Spec {
    name: "debug|sdslen",
    id: CommandId::DebugSdsLen,
    arity: 3,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::READONLY),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns the lengths of a key and its value.",
        since: "1.0.0",
        group: Group::Server,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::DebugSdsLen { key: args.arg(2) })),
    ..Spec::BASE
};

/// `FUNCTION`.
pub(crate) static FUNCTION: Spec = Spec {
    name: "function",
    id: CommandId::Function,
    arity: -2,
    docs: Docs {
        summary: "Manages functions.",
        since: "7.0.0",
        group: Group::Scripting,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[&FUNCTION_FLUSH, &FUNCTION_HELP],
    ..Spec::BASE
};

/// `FUNCTION FLUSH`.
pub(crate) static FUNCTION_FLUSH: Spec = Spec {
    name: "function|flush",
    id: CommandId::FunctionFlush,
    arity: -2,
    flags: Flags::WRITE.and(Flags::NOSCRIPT),
    categories: Categories::SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Deletes all functions.",
        since: "7.0.0",
        group: Group::Scripting,
        complexity: "O(N) for N functions.",
        arguments: &[Argument::one_of(
            "async",
            &[Argument::word("async", "ASYNC"), Argument::word("sync", "SYNC")],
        )
        .optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `FUNCTION HELP`.
pub(crate) static FUNCTION_HELP: Spec = Spec {
    name: "function|help",
    id: CommandId::FunctionHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::SCRIPTING,
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "7.0.0",
        group: Group::Scripting,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MODULE`.
pub(crate) static MODULE: Spec = Spec {
    name: "module",
    id: CommandId::Module,
    arity: -2,
    docs: Docs {
        summary: "Tells about modules: there are none.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[&MODULE_LIST, &MODULE_HELP],
    ..Spec::BASE
};

/// `MODULE LIST`.
pub(crate) static MODULE_LIST: Spec = Spec {
    name: "module|list",
    id: CommandId::ModuleList,
    arity: 2,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT),
    tips: &["nondeterministic_output_order"],
    docs: Docs {
        summary: "Returns the loaded modules: none.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "O(N) for N modules.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MODULE HELP`.
pub(crate) static MODULE_HELP: Spec = Spec {
    name: "module|help",
    id: CommandId::ModuleHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "5.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `ROLE`.
pub(crate) static ROLE: Spec = Spec {
    name: "role",
    id: CommandId::Role,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST),
    categories: Categories::ADMIN.and(Categories::DANGEROUS),
    docs: Docs {
        summary: "Returns what the server is in its replication.",
        since: "2.8.12",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LASTSAVE`.
pub(crate) static LASTSAVE: Spec = Spec {
    name: "lastsave",
    id: CommandId::LastSave,
    arity: 1,
    flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
    categories: Categories::ADMIN.and(Categories::DANGEROUS),
    tips: &["nondeterministic_output"],
    docs: Docs {
        summary: "Returns when data were last saved, in seconds of Unix time.",
        since: "1.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SAVE`.
pub(crate) static SAVE: Spec = Spec {
    name: "save",
    id: CommandId::Save,
    arity: 1,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::NO_ASYNC_LOADING)
        .and(Flags::NO_MULTI),
    docs: Docs {
        summary: "Writes all data to disk before it answers.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "O(N) for N keys.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SHUTDOWN`.
pub(crate) static SHUTDOWN: Spec = Spec {
    name: "shutdown",
    id: CommandId::Shutdown,
    arity: -1,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::NO_MULTI)
        .and(Flags::ALLOW_BUSY),
    docs: Docs {
        summary: "Stops the server.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "O(N) for N keys if they are saved, else O(1).",
        history: &[("7.0.0", "`NOW`, `FORCE` and `ABORT`.")],
        arguments: &[
            Argument::one_of(
                "nosave_save",
                &[Argument::word("nosave", "NOSAVE"), Argument::word("save", "SAVE")],
            )
            .optional(),
            Argument::word("now", "NOW").since("7.0.0").optional(),
            Argument::word("force", "FORCE").since("7.0.0").optional(),
            Argument::word("abort", "ABORT").since("7.0.0").optional(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CONFIG REWRITE`.
pub(crate) static CONFIG_REWRITE: Spec = Spec {
    name: "config|rewrite",
    id: CommandId::ConfigRewrite,
    arity: 2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    docs: Docs {
        summary: "Writes the parameters to the configuration file.",
        since: "2.8.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MEMORY STATS`.
pub(crate) static MEMORY_STATS: Spec = Spec {
    name: "memory|stats",
    id: CommandId::MemoryStats,
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Tells what memory is used for.",
        since: "4.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MEMORY DOCTOR`.
pub(crate) static MEMORY_DOCTOR: Spec = Spec {
    name: "memory|doctor",
    id: CommandId::MemoryDoctor,
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Looks for problems with memory, for people.",
        since: "4.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MEMORY MALLOC-STATS`.
pub(crate) static MEMORY_MALLOC_STATS: Spec = Spec {
    name: "memory|malloc-stats",
    id: CommandId::MemoryMallocStats,
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Returns the figures of the allocator.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "That of asking the allocator.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MEMORY PURGE`.
pub(crate) static MEMORY_PURGE: Spec = Spec {
    name: "memory|purge",
    id: CommandId::MemoryPurge,
    arity: 2,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Lets the allocator return unused memory.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "That of the allocator's work.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LOLWUT`.
pub(crate) static LOLWUT: Spec = Spec {
    name: "lolwut",
    id: CommandId::LolWut,
    arity: -1,
    flags: Flags::READONLY.and(Flags::FAST),
    docs: Docs {
        summary: "Draws a picture.",
        since: "5.0.0",
        group: Group::Server,
        complexity: "",
        arguments: &[Argument::integer("version").token("VERSION").optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};
