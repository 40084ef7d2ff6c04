//! `CLUSTER`, `READONLY` and `READWRITE`, for clients of the cluster endpoint.

use crate::context::Context;
use crate::session::Session;
use crate::topology::Topology;
use command::{CommandId, ReplyError, Spec};
use ids::Slot;
use resp::{Args, ReplyWriter};
use std::sync::atomic::Ordering;

/// What is answered from the topology alone.
pub(super) fn cluster(
    cx: &Context,
    session: &Session,
    spec: &Spec,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let here = session.info.local_address.ip().to_canonical().to_string();
    let view = cx.view.topology.seen_at(&here);
    match spec.id {
        // Messages between nodes are not those of Redis Cluster, and are counted in bytes, by the metrics.
        CommandId::ClusterInfo => view.info(0, 0, w),
        CommandId::ClusterMyId => view.my_id(w),
        CommandId::ClusterMyShardId => view.my_shard_id(w),
        CommandId::ClusterNodes => linked(cx).seen_at(&here).nodes(w),
        CommandId::ClusterSlots => view.slots(w),
        CommandId::ClusterShards => view.shards(w),
        CommandId::ClusterLinks => linked(cx).seen_at(&here).links(w),
        CommandId::ClusterReplicas | CommandId::ClusterSlaves => {
            linked(cx).seen_at(&here).replicas(args.arg(2), w)?;
        }
        CommandId::ClusterCountFailureReports => view.failure_reports(args.arg(2), w)?,
        CommandId::ClusterKeySlot => w.integer(Slot::of_key(args.arg(2)).number().into()),
        _ => return Err(by_itself(spec)),
    }
    Ok(())
}

/// The cluster, and what is known of connections to other nodes.
fn linked(cx: &Context) -> Topology {
    cx.view.topology.linked(&cx.shared.links())
}

/// What administrates Redis Cluster by hand.
fn by_itself(spec: &Spec) -> ReplyError {
    let name = spec.name.to_ascii_uppercase().replace('|', " ");
    ReplyError::quoting(
        "ERR ",
        name.as_bytes(),
        " is not needed here: Chorale places slots and replicas and elects leaders by itself, and a node joins \
         when it is started with `chorale server --join HOST:PORT`",
    )
}

/// `READONLY`, `READWRITE`.
pub(super) fn read_at_replicas(session: &mut Session, reads_at_replicas: bool, w: &mut ReplyWriter<'_>) {
    session.modes.reads_at_replicas = reads_at_replicas;
    session
        .info
        .reads_at_replicas
        .store(reads_at_replicas, Ordering::Relaxed);
    w.ok();
}
