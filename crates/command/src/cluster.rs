//! `CLUSTER`, and what clients of a cluster say of their connections.
//!
//! The gateway answers from what it knows of the cluster; only the keys of a slot are asked of their group. What
//! administrates Redis Cluster by hand is known by name, so that clients are told what does its work here.

use crate::command::Command;
use crate::spec::{Categories, Flags, Merge, Spec};
use crate::{CommandId, ReplyError, number};
use ids::Slot;
use resp::Args;

const fn question(name: &'static str, arity: i16) -> Spec {
    Spec::new(name, arity).flags(Flags::STALE)
}

/// A question for operators.
const fn inspection(name: &'static str, arity: i16) -> Spec {
    question(name, arity).flags(Flags::ADMIN)
}

/// What changes Redis Cluster.
const fn administration(name: &'static str, arity: i16) -> Spec {
    inspection(name, arity).flags(Flags::NO_ASYNC_LOADING)
}

pub(crate) const CLUSTER: Spec = Spec::container("cluster");

pub(crate) const CLUSTER_INFO: Spec = question("cluster|info", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_MYID: Spec = question("cluster|myid", 2);

pub(crate) const CLUSTER_MYSHARDID: Spec = question("cluster|myshardid", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_NODES: Spec = question("cluster|nodes", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_SLOTS: Spec = question("cluster|slots", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_SHARDS: Spec = question("cluster|shards", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_KEYSLOT: Spec = question("cluster|keyslot", 3);

pub(crate) const CLUSTER_COUNTKEYSINSLOT: Spec = question("cluster|countkeysinslot", 3)
    .everywhere(Merge::Sum)
    .parse(|args| {
        let slot = number::integer(args.arg(2))?;
        let slot = slot_of(slot).ok_or(ReplyError::InvalidSlot)?;
        Ok(Command::CountKeysInSlot { slot })
    });

pub(crate) const CLUSTER_GETKEYSINSLOT: Spec = question("cluster|getkeysinslot", 4)
    .tips("nondeterministic_output")
    .everywhere(Merge::Concatenate)
    .parse(|args| {
        let slot = number::integer(args.arg(2))?;
        let count = number::integer(args.arg(3))?;
        match (slot_of(slot), u64::try_from(count)) {
            (Some(slot), Ok(count)) => Ok(Command::KeysInSlot { slot, count }),
            _ => Err(ReplyError::InvalidSlotOrCount),
        }
    });

pub(crate) const CLUSTER_LINKS: Spec = question("cluster|links", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_REPLICAS: Spec = inspection("cluster|replicas", 3).tips("nondeterministic_output");

pub(crate) const CLUSTER_SLAVES: Spec = inspection("cluster|slaves", 3).tips("nondeterministic_output");

pub(crate) const CLUSTER_COUNT_FAILURE_REPORTS: Spec =
    inspection("cluster|count-failure-reports", 3).tips("nondeterministic_output");

pub(crate) const CLUSTER_HELP: Spec = Spec::help("cluster|help");

pub(crate) const CLUSTER_ADDSLOTS: Spec = administration("cluster|addslots", -3);

pub(crate) const CLUSTER_ADDSLOTSRANGE: Spec = administration("cluster|addslotsrange", -4);

pub(crate) const CLUSTER_BUMPEPOCH: Spec =
    administration("cluster|bumpepoch", 2).tips("nondeterministic_output");

pub(crate) const CLUSTER_DELSLOTS: Spec = administration("cluster|delslots", -3);

pub(crate) const CLUSTER_DELSLOTSRANGE: Spec = administration("cluster|delslotsrange", -4);

pub(crate) const CLUSTER_FAILOVER: Spec = administration("cluster|failover", -2);

pub(crate) const CLUSTER_FLUSHSLOTS: Spec = administration("cluster|flushslots", 2);

pub(crate) const CLUSTER_FORGET: Spec = administration("cluster|forget", 3);

pub(crate) const CLUSTER_MEET: Spec = administration("cluster|meet", -4);

pub(crate) const CLUSTER_REPLICATE: Spec = administration("cluster|replicate", 3);

pub(crate) const CLUSTER_RESET: Spec =
    Spec::new("cluster|reset", -2).flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE));

pub(crate) const CLUSTER_SAVECONFIG: Spec = administration("cluster|saveconfig", 2);

pub(crate) const CLUSTER_SET_CONFIG_EPOCH: Spec = administration("cluster|set-config-epoch", 3);

pub(crate) const CLUSTER_SETSLOT: Spec = administration("cluster|setslot", -4);

pub(crate) const READONLY: Spec = Spec::new("readonly", 1)
    .flags(Flags::ANYTIME.and(Flags::FAST))
    .of(Categories::CONNECTION);

pub(crate) const READWRITE: Spec = Spec::new("readwrite", 1)
    .flags(Flags::ANYTIME.and(Flags::FAST))
    .of(Categories::CONNECTION);

pub(crate) const ASKING: Spec = Spec::new("asking", 1)
    .flags(Flags::FAST)
    .of(Categories::CONNECTION);

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
