//! `SLOWLOG`: commands that took long.

use crate::CommandId;
use crate::docs::{Argument, Docs, Group};
use crate::spec::{Flags, Spec};

/// `SLOWLOG`.
pub(crate) static SLOWLOG: Spec = Spec {
    name: "slowlog",
    id: CommandId::SlowLog,
    arity: -2,
    docs: Docs {
        summary: "Tells which commands took long.",
        since: "2.2.12",
        group: Group::Server,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[&SLOWLOG_LEN, &SLOWLOG_GET, &SLOWLOG_RESET, &SLOWLOG_HELP],
    ..Spec::BASE
};

/// `SLOWLOG LEN`.
pub(crate) static SLOWLOG_LEN: Spec = Spec {
    name: "slowlog|len",
    id: CommandId::SlowLogLen,
    arity: 2,
    flags: Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE),
    tips: &[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ],
    docs: Docs {
        summary: "Counts the entries of the slow log.",
        since: "2.2.12",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SLOWLOG GET`.
pub(crate) static SLOWLOG_GET: Spec = Spec {
    name: "slowlog|get",
    id: CommandId::SlowLogGet,
    arity: -2,
    flags: Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE),
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    docs: Docs {
        summary: "Returns the newest entries of the slow log.",
        since: "2.2.12",
        group: Group::Server,
        complexity: "O(N) for N entries.",
        history: &[("4.0.0", "The client's address and name.")],
        arguments: &[Argument::integer("count").optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SLOWLOG RESET`.
pub(crate) static SLOWLOG_RESET: Spec = Spec {
    name: "slowlog|reset",
    id: CommandId::SlowLogReset,
    arity: 2,
    flags: Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Empties the slow log.",
        since: "2.2.12",
        group: Group::Server,
        complexity: "O(N) for N entries.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SLOWLOG HELP`.
pub(crate) static SLOWLOG_HELP: Spec = Spec {
    name: "slowlog|help",
    id: CommandId::SlowLogHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "6.2.0",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};
