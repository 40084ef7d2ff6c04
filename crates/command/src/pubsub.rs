//! Channels, and `MONITOR`, which listens too: the gateway keeps who listens to what, and no group takes part.
//!
//! The names of shard channels stand where keys stand, so that clients of a cluster find the node; they are no keys.

use crate::CommandId;
use crate::docs::{Argument, ArgumentKind, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Flags, Spec};

/// Of the commands that change what a connection listens to.
const LISTENING: Flags = Flags::PUBSUB
    .and(Flags::NOSCRIPT)
    .and(Flags::LOADING)
    .and(Flags::STALE);
/// Of the questions about who listens.
const ASKING: Flags = Flags::PUBSUB.and(Flags::LOADING).and(Flags::STALE);
const PUBLISHING: Flags = ASKING.and(Flags::FAST).and(Flags::MAY_REPLICATE);

/// `SUBSCRIBE`.
pub(crate) static SUBSCRIBE: Spec = Spec {
    name: "subscribe",
    id: CommandId::Subscribe,
    arity: -2,
    flags: LISTENING,
    docs: Docs {
        summary: "Listens to channels.",
        since: "2.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels.",
        arguments: &[Argument::string("channel").multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `UNSUBSCRIBE`.
pub(crate) static UNSUBSCRIBE: Spec = Spec {
    name: "unsubscribe",
    id: CommandId::Unsubscribe,
    arity: -1,
    flags: LISTENING,
    docs: Docs {
        summary: "Listens to channels no longer: to those named, or to all.",
        since: "2.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N listeners of a channel.",
        arguments: &[Argument::string("channel").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PSUBSCRIBE`.
pub(crate) static PSUBSCRIBE: Spec = Spec {
    name: "psubscribe",
    id: CommandId::PSubscribe,
    arity: -2,
    flags: LISTENING,
    docs: Docs {
        summary: "Listens to every channel that a pattern matches.",
        since: "2.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N patterns.",
        arguments: &[
            Argument::block("pattern", &[Argument::new("pattern", ArgumentKind::Pattern)]).multiple(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUNSUBSCRIBE`.
pub(crate) static PUNSUBSCRIBE: Spec = Spec {
    name: "punsubscribe",
    id: CommandId::PUnsubscribe,
    arity: -1,
    flags: LISTENING,
    docs: Docs {
        summary: "Listens to patterns no longer: to those named, or to all.",
        since: "2.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N listeners of a pattern.",
        arguments: &[Argument::new("pattern", ArgumentKind::Pattern)
            .optional()
            .multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBLISH`.
pub(crate) static PUBLISH: Spec = Spec {
    name: "publish",
    id: CommandId::Publish,
    arity: 3,
    flags: PUBLISHING,
    docs: Docs {
        summary: "Sends a message to everybody who listens to a channel.",
        since: "2.0.0",
        group: Group::PubSub,
        complexity: "O(N+M) for N listeners of the channel and M patterns of any client.",
        arguments: &[Argument::string("channel"), Argument::string("message")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SSUBSCRIBE`.
pub(crate) static SSUBSCRIBE: Spec = Spec {
    name: "ssubscribe",
    id: CommandId::SSubscribe,
    arity: -2,
    flags: LISTENING,
    keys: &[KeySpec::from(1, KeyFlags::NOT_KEY)],
    docs: Docs {
        summary: "Listens to shard channels.",
        since: "7.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels.",
        arguments: &[Argument::string("shardchannel").multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SUNSUBSCRIBE`.
pub(crate) static SUNSUBSCRIBE: Spec = Spec {
    name: "sunsubscribe",
    id: CommandId::SUnsubscribe,
    arity: -1,
    flags: LISTENING,
    keys: &[KeySpec::from(1, KeyFlags::NOT_KEY)],
    docs: Docs {
        summary: "Listens to shard channels no longer: to those named, or to all.",
        since: "7.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N listeners of a channel.",
        arguments: &[Argument::string("shardchannel").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SPUBLISH`.
pub(crate) static SPUBLISH: Spec = Spec {
    name: "spublish",
    id: CommandId::SPublish,
    arity: 3,
    flags: PUBLISHING,
    keys: &[KeySpec::at(1, KeyFlags::NOT_KEY)],
    docs: Docs {
        summary: "Sends a message to everybody who listens to a shard channel.",
        since: "7.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N listeners of the channel.",
        arguments: &[Argument::string("shardchannel"), Argument::string("message")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB`, the container.
pub(crate) static PUBSUB: Spec = Spec {
    name: "pubsub",
    id: CommandId::PubSub,
    arity: -2,
    docs: Docs {
        summary: "Tells who listens to what.",
        since: "2.8.0",
        group: Group::PubSub,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &PUBSUB_CHANNELS,
        &PUBSUB_NUMSUB,
        &PUBSUB_NUMPAT,
        &PUBSUB_SHARDCHANNELS,
        &PUBSUB_SHARDNUMSUB,
        &PUBSUB_HELP,
    ],
    ..Spec::BASE
};

/// `PUBSUB CHANNELS`.
pub(crate) static PUBSUB_CHANNELS: Spec = Spec {
    name: "pubsub|channels",
    id: CommandId::PubSubChannels,
    arity: -2,
    flags: ASKING,
    docs: Docs {
        summary: "Lists the channels that anybody listens to.",
        since: "2.8.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels.",
        arguments: &[Argument::new("pattern", ArgumentKind::Pattern).optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB NUMSUB`.
pub(crate) static PUBSUB_NUMSUB: Spec = Spec {
    name: "pubsub|numsub",
    id: CommandId::PubSubNumSub,
    arity: -2,
    flags: ASKING,
    docs: Docs {
        summary: "Counts the listeners of channels, those of patterns left out.",
        since: "2.8.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels named.",
        arguments: &[Argument::string("channel").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB NUMPAT`.
pub(crate) static PUBSUB_NUMPAT: Spec = Spec {
    name: "pubsub|numpat",
    id: CommandId::PubSubNumPat,
    arity: 2,
    flags: ASKING,
    docs: Docs {
        summary: "Counts the patterns that anybody listens to.",
        since: "2.8.0",
        group: Group::PubSub,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB SHARDCHANNELS`.
pub(crate) static PUBSUB_SHARDCHANNELS: Spec = Spec {
    name: "pubsub|shardchannels",
    id: CommandId::PubSubShardChannels,
    arity: -2,
    flags: ASKING,
    docs: Docs {
        summary: "Lists the shard channels that anybody listens to.",
        since: "7.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels.",
        arguments: &[Argument::new("pattern", ArgumentKind::Pattern).optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB SHARDNUMSUB`.
pub(crate) static PUBSUB_SHARDNUMSUB: Spec = Spec {
    name: "pubsub|shardnumsub",
    id: CommandId::PubSubShardNumSub,
    arity: -2,
    flags: ASKING,
    docs: Docs {
        summary: "Counts the listeners of shard channels.",
        since: "7.0.0",
        group: Group::PubSub,
        complexity: "O(N) for N channels named.",
        arguments: &[Argument::string("shardchannel").optional().multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PUBSUB HELP`.
pub(crate) static PUBSUB_HELP: Spec = Spec {
    name: "pubsub|help",
    id: CommandId::PubSubHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "6.2.0",
        group: Group::PubSub,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `MONITOR`.
pub(crate) static MONITOR: Spec = Spec {
    name: "monitor",
    id: CommandId::Monitor,
    arity: 1,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    docs: Docs {
        summary: "Shows every command that the server carries out.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "",
        ..Docs::BASE
    },
    ..Spec::BASE
};
