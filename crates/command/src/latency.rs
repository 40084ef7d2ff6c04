//! `LATENCY`: how long commands and events took.

use crate::CommandId;
use crate::docs::{Argument, Docs, Group};
use crate::spec::{Flags, Spec};

/// `LATENCY`.
pub(crate) static LATENCY: Spec = Spec {
    name: "latency",
    id: CommandId::Latency,
    arity: -2,
    docs: Docs {
        summary: "Tells how long commands and events took.",
        since: "2.8.13",
        group: Group::Server,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
        &LATENCY_HELP,
    ],
    ..Spec::BASE
};

/// `LATENCY DOCTOR`.
pub(crate) static LATENCY_DOCTOR: Spec = Spec {
    name: "latency|doctor",
    id: CommandId::LatencyDoctor,
    arity: 2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Explains what took long, for people.",
        since: "2.8.13",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY GRAPH`.
pub(crate) static LATENCY_GRAPH: Spec = Spec {
    name: "latency|graph",
    id: CommandId::LatencyGraph,
    arity: 3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Draws how long an event took over time.",
        since: "2.8.13",
        group: Group::Server,
        arguments: &[Argument::string("event")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY HISTOGRAM`.
pub(crate) static LATENCY_HISTOGRAM: Spec = Spec {
    name: "latency|histogram",
    id: CommandId::LatencyHistogram,
    arity: -2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Returns the distribution of how long commands took.",
        since: "7.0.0",
        group: Group::Server,
        complexity: "O(N) for N commands.",
        arguments: &[Argument::string("command").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY HISTORY`.
pub(crate) static LATENCY_HISTORY: Spec = Spec {
    name: "latency|history",
    id: CommandId::LatencyHistory,
    arity: 3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Returns when an event took long, and how long.",
        since: "2.8.13",
        group: Group::Server,
        arguments: &[Argument::string("event")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY LATEST`.
pub(crate) static LATENCY_LATEST: Spec = Spec {
    name: "latency|latest",
    id: CommandId::LatencyLatest,
    arity: 2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    docs: Docs {
        summary: "Returns when each event last took long.",
        since: "2.8.13",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY RESET`.
pub(crate) static LATENCY_RESET: Spec = Spec {
    name: "latency|reset",
    id: CommandId::LatencyReset,
    arity: -2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Forgets what events took.",
        since: "2.8.13",
        group: Group::Server,
        arguments: &[Argument::string("event").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `LATENCY HELP`.
pub(crate) static LATENCY_HELP: Spec = Spec {
    name: "latency|help",
    id: CommandId::LatencyHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "2.8.13",
        group: Group::Server,
        ..Docs::BASE
    },
    ..Spec::BASE
};
