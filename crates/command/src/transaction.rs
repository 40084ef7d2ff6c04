//! Transactions: the gateway keeps the queue, groups only see what `EXEC` runs.

use crate::CommandId;
use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Categories, Flags, Spec};

/// `MULTI`.
pub(crate) static MULTI: Spec = Spec {
    name: "multi",
    id: CommandId::Multi,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    docs: Docs {
        summary: "Starts a transaction.",
        since: "1.2.0",
        group: Group::Transactions,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `EXEC`.
pub(crate) static EXEC: Spec = Spec {
    name: "exec",
    id: CommandId::Exec,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::SKIP_SLOWLOG),
    categories: Categories::TRANSACTION,
    docs: Docs {
        summary: "Runs the commands since MULTI as one transaction.",
        since: "1.2.0",
        group: Group::Transactions,
        complexity: "That of the commands.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `DISCARD`.
pub(crate) static DISCARD: Spec = Spec {
    name: "discard",
    id: CommandId::Discard,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    docs: Docs {
        summary: "Forgets the commands since MULTI.",
        since: "2.0.0",
        group: Group::Transactions,
        complexity: "O(N) for N commands.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `WATCH`.
pub(crate) static WATCH: Spec = Spec {
    name: "watch",
    id: CommandId::Watch,
    arity: -2,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    keys: &[KeySpec::from(1, KeyFlags::RO)],
    docs: Docs {
        summary: "Lets EXEC run nothing if one of these keys changes before it.",
        since: "2.2.0",
        group: Group::Transactions,
        complexity: "O(1) for each key.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `UNWATCH`.
pub(crate) static UNWATCH: Spec = Spec {
    name: "unwatch",
    id: CommandId::Unwatch,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    docs: Docs {
        summary: "Forgets all watched keys.",
        since: "2.2.0",
        group: Group::Transactions,
        ..Docs::BASE
    },
    ..Spec::BASE
};
