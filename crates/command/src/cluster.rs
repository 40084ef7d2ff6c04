//! `CLUSTER`, and what clients of a cluster say of their connections.
//!
//! The gateway answers from what it knows of the cluster; only the keys of a slot are asked of their group. What
//! administrates Redis Cluster by hand is known by name, so that clients are told what does its work here.

use crate::command::Command;
use crate::docs::{Argument, Deprecated, Docs, Group};
use crate::spec::{Categories, Flags, Merge, Route, Spec, Spread};
use crate::{CommandId, ReplyError, number};
use ids::Slot;
use resp::Args;

/// Of the questions.
const QUESTION: Spec = Spec {
    arity: 2,
    flags: Flags::STALE,
    ..Spec::BASE
};
/// Of the questions for operators.
const INSPECTION: Flags = Flags::ADMIN.and(Flags::STALE);
/// Of what changes Redis Cluster.
const ADMINISTRATION: Flags = INSPECTION.and(Flags::NO_ASYNC_LOADING);
/// Of the three that a connection says of itself.
const CONNECTION: Flags = Flags::LOADING.and(Flags::STALE).and(Flags::FAST);

const CHANGES: &[&str] = &["nondeterministic_output"];
const DOCS: Docs = Docs {
    since: "3.0.0",
    group: Group::Cluster,
    ..Docs::BASE
};
const NODE: &[Argument] = &[Argument::string("node-id")];
const SLOTS: &[Argument] = &[Argument::integer("slot").multiple()];
const RANGES: &[Argument] = &[Argument::block(
    "start-slot_end-slot",
    &[Argument::integer("start-slot"), Argument::integer("end-slot")],
)
.multiple()];

/// `CLUSTER`.
pub(crate) static CLUSTER: Spec = Spec {
    name: "cluster",
    id: CommandId::Cluster,
    arity: -2,
    docs: Docs {
        summary: "Tells about the cluster.",
        complexity: "That of the subcommand.",
        ..DOCS
    },
    subcommands: &[
        &CLUSTER_INFO,
        &CLUSTER_MYID,
        &CLUSTER_MYSHARDID,
        &CLUSTER_NODES,
        &CLUSTER_SLOTS,
        &CLUSTER_SHARDS,
        &CLUSTER_KEYSLOT,
        &CLUSTER_COUNTKEYSINSLOT,
        &CLUSTER_GETKEYSINSLOT,
        &CLUSTER_LINKS,
        &CLUSTER_REPLICAS,
        &CLUSTER_SLAVES,
        &CLUSTER_COUNT_FAILURE_REPORTS,
        &CLUSTER_HELP,
        &CLUSTER_ADDSLOTS,
        &CLUSTER_ADDSLOTSRANGE,
        &CLUSTER_BUMPEPOCH,
        &CLUSTER_DELSLOTS,
        &CLUSTER_DELSLOTSRANGE,
        &CLUSTER_FAILOVER,
        &CLUSTER_FLUSHSLOTS,
        &CLUSTER_FORGET,
        &CLUSTER_MEET,
        &CLUSTER_REPLICATE,
        &CLUSTER_RESET,
        &CLUSTER_SAVECONFIG,
        &CLUSTER_SET_CONFIG_EPOCH,
        &CLUSTER_SETSLOT,
    ],
    ..Spec::BASE
};

/// `CLUSTER INFO`.
pub(crate) static CLUSTER_INFO: Spec = Spec {
    name: "cluster|info",
    id: CommandId::ClusterInfo,
    tips: CHANGES,
    docs: Docs {
        summary: "Tells whether the cluster is well, and how large it is.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER MYID`.
pub(crate) static CLUSTER_MYID: Spec = Spec {
    name: "cluster|myid",
    id: CommandId::ClusterMyId,
    docs: Docs {
        summary: "Returns the id of this node.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER MYSHARDID`.
pub(crate) static CLUSTER_MYSHARDID: Spec = Spec {
    name: "cluster|myshardid",
    id: CommandId::ClusterMyShardId,
    tips: CHANGES,
    docs: Docs {
        summary: "Returns the id of the shard that this node belongs to.",
        since: "7.2.0",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER NODES`.
pub(crate) static CLUSTER_NODES: Spec = Spec {
    name: "cluster|nodes",
    id: CommandId::ClusterNodes,
    tips: CHANGES,
    docs: Docs {
        summary: "Describes all nodes, a line for each.",
        complexity: "O(N) for N nodes.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SLOTS`.
pub(crate) static CLUSTER_SLOTS: Spec = Spec {
    name: "cluster|slots",
    id: CommandId::ClusterSlots,
    tips: CHANGES,
    docs: Docs {
        summary: "Returns which nodes serve which slots.",
        complexity: "O(N) for N nodes.",
        deprecated: Some(Deprecated {
            since: "7.0.0",
            replaced_by: "`CLUSTER SHARDS`",
        }),
        history: &[
            ("4.0.0", "Ids of nodes."),
            ("7.0.0", "A place for more about a node."),
        ],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SHARDS`.
pub(crate) static CLUSTER_SHARDS: Spec = Spec {
    name: "cluster|shards",
    id: CommandId::ClusterShards,
    tips: CHANGES,
    docs: Docs {
        summary: "Returns the shards: their slots and their nodes.",
        since: "7.0.0",
        complexity: "O(N) for N nodes.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER KEYSLOT`.
pub(crate) static CLUSTER_KEYSLOT: Spec = Spec {
    name: "cluster|keyslot",
    id: CommandId::ClusterKeySlot,
    arity: 3,
    docs: Docs {
        summary: "Returns the slot of a key.",
        complexity: "O(N) for N bytes of the key.",
        arguments: &[Argument::string("key")],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER COUNTKEYSINSLOT`.
pub(crate) static CLUSTER_COUNTKEYSINSLOT: Spec = Spec {
    name: "cluster|countkeysinslot",
    id: CommandId::ClusterCountKeysInSlot,
    arity: 3,
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Sum),
    docs: Docs {
        summary: "Counts the keys of a slot that this node leads.",
        arguments: &[Argument::integer("slot")],
        ..DOCS
    },
    parse: Some(|args| {
        let slot = number::integer(args.arg(2))?;
        let slot = slot_of(slot).ok_or(ReplyError::InvalidSlot)?;
        Ok(Command::CountKeysInSlot { slot })
    }),
    ..QUESTION
};

/// `CLUSTER GETKEYSINSLOT`.
pub(crate) static CLUSTER_GETKEYSINSLOT: Spec = Spec {
    name: "cluster|getkeysinslot",
    id: CommandId::ClusterGetKeysInSlot,
    arity: 4,
    tips: CHANGES,
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Concatenate),
    docs: Docs {
        summary: "Returns keys of a slot that this node leads.",
        complexity: "O(N) for N keys of the slot's group.",
        arguments: &[Argument::integer("slot"), Argument::integer("count")],
        ..DOCS
    },
    parse: Some(|args| {
        let slot = number::integer(args.arg(2))?;
        let count = number::integer(args.arg(3))?;
        match (slot_of(slot), u64::try_from(count)) {
            (Some(slot), Ok(count)) => Ok(Command::KeysInSlot { slot, count }),
            _ => Err(ReplyError::InvalidSlotOrCount),
        }
    }),
    ..QUESTION
};

/// `CLUSTER LINKS`.
pub(crate) static CLUSTER_LINKS: Spec = Spec {
    name: "cluster|links",
    id: CommandId::ClusterLinks,
    tips: CHANGES,
    docs: Docs {
        summary: "Describes the links to other nodes.",
        since: "7.0.0",
        complexity: "O(N) for N nodes.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER REPLICAS`.
pub(crate) static CLUSTER_REPLICAS: Spec = Spec {
    name: "cluster|replicas",
    id: CommandId::ClusterReplicas,
    arity: 3,
    flags: INSPECTION,
    tips: CHANGES,
    docs: Docs {
        summary: "Describes the replicas of a node.",
        since: "5.0.0",
        arguments: NODE,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SLAVES`.
pub(crate) static CLUSTER_SLAVES: Spec = Spec {
    name: "cluster|slaves",
    id: CommandId::ClusterSlaves,
    arity: 3,
    flags: INSPECTION,
    tips: CHANGES,
    docs: Docs {
        summary: "Describes the replicas of a node.",
        deprecated: Some(Deprecated {
            since: "5.0.0",
            replaced_by: "`CLUSTER REPLICAS`",
        }),
        arguments: NODE,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER COUNT-FAILURE-REPORTS`.
pub(crate) static CLUSTER_COUNT_FAILURE_REPORTS: Spec = Spec {
    name: "cluster|count-failure-reports",
    id: CommandId::ClusterCountFailureReports,
    arity: 3,
    flags: INSPECTION,
    tips: CHANGES,
    docs: Docs {
        summary: "Counts the nodes that take a node for failed.",
        complexity: "O(N) for N reports.",
        arguments: NODE,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER HELP`.
pub(crate) static CLUSTER_HELP: Spec = Spec {
    name: "cluster|help",
    id: CommandId::ClusterHelp,
    flags: Flags::LOADING.and(Flags::STALE),
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "5.0.0",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER ADDSLOTS`.
pub(crate) static CLUSTER_ADDSLOTS: Spec = Spec {
    name: "cluster|addslots",
    id: CommandId::ClusterAddSlots,
    arity: -3,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        complexity: "O(N) for N slots.",
        arguments: SLOTS,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER ADDSLOTSRANGE`.
pub(crate) static CLUSTER_ADDSLOTSRANGE: Spec = Spec {
    name: "cluster|addslotsrange",
    id: CommandId::ClusterAddSlotsRange,
    arity: -4,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        since: "7.0.0",
        complexity: "O(N) for N slots.",
        arguments: RANGES,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER BUMPEPOCH`.
pub(crate) static CLUSTER_BUMPEPOCH: Spec = Spec {
    name: "cluster|bumpepoch",
    id: CommandId::ClusterBumpEpoch,
    flags: ADMINISTRATION,
    tips: CHANGES,
    docs: Docs {
        summary: "Refused: epochs are counted by the cluster.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER DELSLOTS`.
pub(crate) static CLUSTER_DELSLOTS: Spec = Spec {
    name: "cluster|delslots",
    id: CommandId::ClusterDelSlots,
    arity: -3,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        complexity: "O(N) for N slots.",
        arguments: SLOTS,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER DELSLOTSRANGE`.
pub(crate) static CLUSTER_DELSLOTSRANGE: Spec = Spec {
    name: "cluster|delslotsrange",
    id: CommandId::ClusterDelSlotsRange,
    arity: -4,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        since: "7.0.0",
        complexity: "O(N) for N slots.",
        arguments: RANGES,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER FAILOVER`.
pub(crate) static CLUSTER_FAILOVER: Spec = Spec {
    name: "cluster|failover",
    id: CommandId::ClusterFailover,
    arity: -2,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: leaders are elected.",
        arguments: &[Argument::one_of(
            "options",
            &[
                Argument::word("force", "FORCE"),
                Argument::word("takeover", "TAKEOVER"),
            ],
        )
        .optional()],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER FLUSHSLOTS`.
pub(crate) static CLUSTER_FLUSHSLOTS: Spec = Spec {
    name: "cluster|flushslots",
    id: CommandId::ClusterFlushSlots,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER FORGET`.
pub(crate) static CLUSTER_FORGET: Spec = Spec {
    name: "cluster|forget",
    id: CommandId::ClusterForget,
    arity: 3,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: nodes leave by themselves.",
        arguments: NODE,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER MEET`.
pub(crate) static CLUSTER_MEET: Spec = Spec {
    name: "cluster|meet",
    id: CommandId::ClusterMeet,
    arity: -4,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: nodes join by themselves.",
        history: &[("4.0.0", "`cluster_bus_port`.")],
        arguments: &[
            Argument::string("ip"),
            Argument::integer("port"),
            Argument::integer("cluster_bus_port").since("4.0.0").optional(),
        ],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER REPLICATE`.
pub(crate) static CLUSTER_REPLICATE: Spec = Spec {
    name: "cluster|replicate",
    id: CommandId::ClusterReplicate,
    arity: 3,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: replicas are placed by the cluster.",
        arguments: NODE,
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER RESET`.
pub(crate) static CLUSTER_RESET: Spec = Spec {
    name: "cluster|reset",
    id: CommandId::ClusterReset,
    arity: -2,
    flags: INSPECTION.and(Flags::NOSCRIPT),
    docs: Docs {
        summary: "Refused: a node that is to begin anew is started without its data.",
        complexity: "O(N) for N nodes.",
        arguments: &[Argument::one_of(
            "hard_soft",
            &[Argument::word("hard", "HARD"), Argument::word("soft", "SOFT")],
        )
        .optional()],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SAVECONFIG`.
pub(crate) static CLUSTER_SAVECONFIG: Spec = Spec {
    name: "cluster|saveconfig",
    id: CommandId::ClusterSaveConfig,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: what nodes know of the cluster is kept by themselves.",
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SET-CONFIG-EPOCH`.
pub(crate) static CLUSTER_SET_CONFIG_EPOCH: Spec = Spec {
    name: "cluster|set-config-epoch",
    id: CommandId::ClusterSetConfigEpoch,
    arity: 3,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: epochs are counted by the cluster.",
        arguments: &[Argument::integer("config-epoch")],
        ..DOCS
    },
    ..QUESTION
};

/// `CLUSTER SETSLOT`.
pub(crate) static CLUSTER_SETSLOT: Spec = Spec {
    name: "cluster|setslot",
    id: CommandId::ClusterSetSlot,
    arity: -4,
    flags: ADMINISTRATION,
    docs: Docs {
        summary: "Refused: slots are given to nodes by themselves.",
        arguments: &[
            Argument::integer("slot"),
            Argument::one_of(
                "subcommand",
                &[
                    Argument::string("node-id").token("IMPORTING"),
                    Argument::string("node-id").token("MIGRATING"),
                    Argument::string("node-id").token("NODE"),
                    Argument::word("stable", "STABLE"),
                ],
            ),
        ],
        ..DOCS
    },
    ..QUESTION
};

/// `READONLY`.
pub(crate) static READONLY: Spec = Spec {
    name: "readonly",
    id: CommandId::ReadOnly,
    arity: 1,
    flags: CONNECTION,
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lets this connection read at replicas.",
        ..DOCS
    },
    ..Spec::BASE
};

/// `READWRITE`.
pub(crate) static READWRITE: Spec = Spec {
    name: "readwrite",
    id: CommandId::ReadWrite,
    arity: 1,
    flags: CONNECTION,
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lets this connection read at leaders only, as it does at first.",
        ..DOCS
    },
    ..Spec::BASE
};

/// `ASKING`.
pub(crate) static ASKING: Spec = Spec {
    name: "asking",
    id: CommandId::Asking,
    arity: 1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Accepted before a command that follows an -ASK, which Chorale never answers.",
        ..DOCS
    },
    ..Spec::BASE
};

fn slot_of(number: i64) -> Option<Slot> {
    u16::try_from(number).ok().and_then(Slot::new)
}

/// The slot whose keys a command is about, if that is what it asks for: then it concerns the group of this slot alone.
pub fn slot_asked_for(spec: &Spec, args: Args<'_>) -> Option<Slot> {
    match spec.id {
        CommandId::ClusterCountKeysInSlot | CommandId::ClusterGetKeysInSlot => {
            args.get(2).and_then(number::parse_i64).and_then(slot_of)
        }
        _ => None,
    }
}
