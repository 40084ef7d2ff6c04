//! The two endpoints, and what each refuses before it is looked at.
//!
//! Both reach the same data. The *any-node endpoint* says that it is a Redis by itself, and carries out everything. The
//! *cluster endpoint* says that it is a node of a Redis Cluster: it sends clients to the leader of what they ask for, and
//! has one database. It never answers `CROSSSLOT`: what names keys of several slots is carried out.

use crate::context::Context;
use crate::idempotency::Naming;
use crate::program::scan_from;
use crate::scan::scan_words;
use crate::session::Session;
use crate::topology::Topology;
use command::{Command, CommandId, CommandRoute, Flags, ReplyError, Spec};
use ids::{GroupId, Groups, PartitionCount, Slot};
use keyspace::Position;
use replica::Operation;
use resp::{Args, ArgsBuf};
use std::sync::Arc;

/// Which way a client came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Endpoint {
    /// The front door: every command on every key, as one Redis.
    #[default]
    AnyNode,
    /// As a node of a Redis Cluster.
    Cluster,
}

impl Endpoint {
    /// As `HELLO` and `INFO` call it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Endpoint::AnyNode => "standalone",
            Endpoint::Cluster => "cluster",
        }
    }
}

/// The groups that commands on the whole keyspace concern.
#[derive(Clone)]
pub(crate) enum Scope {
    /// All.
    Cluster,
    /// Those that this node leads: who asks each node gets each key once.
    Node(Arc<Topology>),
}

impl Scope {
    /// Whether a command on the whole keyspace concerns this group. Those on the keys of a slot concern only its own.
    pub(crate) fn holds(&self, groups: Groups, spec: &Spec, args: Args<'_>, group: GroupId) -> bool {
        let is_ours = match self {
            Scope::Cluster => true,
            Scope::Node(topology) => topology.leads(group),
        };
        let is_asked = |slot| groups.group_of(slot) == group;
        is_ours && command::slot_asked_for(spec, args).is_none_or(is_asked)
    }

    /// The same of an operation.
    pub(crate) fn concerns(&self, groups: Groups, operation: &Operation, group: GroupId) -> bool {
        let (spec, args) = operation.argv();
        self.holds(groups, spec, args, group)
    }

    /// The groups that a command on the whole keyspace concerns: none that hosts nothing.
    pub(crate) fn groups_of(&self, groups: Groups, operation: &Operation) -> impl Iterator<Item = GroupId> {
        let (spec, args) = operation.argv();
        let hosting = groups.hosting().iter().copied();
        hosting.filter(move |group| self.holds(groups, spec, args, *group))
    }
}

impl Context {
    /// What commands on the whole keyspace concern that come from this client.
    pub(crate) fn scope(&self, session: &Session) -> Scope {
        match session.endpoint {
            Endpoint::Cluster if !self.view.topology.leads_all() => Scope::Node(self.view.topology.clone()),
            Endpoint::Cluster | Endpoint::AnyNode => Scope::Cluster,
        }
    }

    /// Why the endpoint that a command came through refuses it, if it does.
    #[inline]
    pub(crate) fn endpoint_refuses(
        &self,
        session: &Session,
        spec: &Spec,
        args: Args<'_>,
    ) -> Option<ReplyError> {
        match session.endpoint {
            Endpoint::AnyNode => is_of_clusters(spec).then_some(ReplyError::ClusterDisabled),
            Endpoint::Cluster => self.cluster_refuses(session, spec, args),
        }
    }

    fn cluster_refuses(&self, session: &Session, spec: &Spec, args: Args<'_>) -> Option<ReplyError> {
        match spec.id {
            CommandId::Select if is_another_db(args) => return Some(ReplyError::SelectInCluster),
            CommandId::SwapDb => return Some(ReplyError::SwapDbInCluster),
            CommandId::Move => return Some(ReplyError::MoveInCluster),
            CommandId::Copy if copies_to_another_db(spec, args) => return Some(ReplyError::CopyInCluster),
            _ => {}
        }
        if self.view.topology.leads_all() {
            return None;
        }
        let slot = only_slot(spec, args)?;
        let leader = self.view.topology.led_elsewhere(slot)?;
        let reads_here = session.modes.reads_at_replicas
            && session.block.is_none()
            && spec.flags.contains(Flags::READONLY)
            && self.view.topology.follows(self.groups.group_of(slot));
        // The first keys of a block decide where it belongs: what follows may be anywhere.
        let has_place = session.block.as_ref().is_some_and(|block| block.has_place);
        // Its name would be lost on the way.
        let has_name = session.modes.naming != Naming::Nothing
            || session
                .block
                .as_ref()
                .is_some_and(|block| block.request.is_some());
        if reads_here || has_place || has_name {
            return None;
        }
        let here = session.info.local_address.ip().to_canonical().to_string();
        Some(self.view.topology.seen_at(&here).moved(slot, leader))
    }

    /// The words of a `SCAN` through the cluster endpoint that has come to a group which another node leads: it goes on
    /// with the next one that this node leads. `None`: as they are.
    pub(crate) fn scan_on(&self, session: &Session, args: Args<'_>) -> Option<ArgsBuf> {
        let scope = self.scope(session);
        let cursor = command::cursor(args.get(1)?).ok()?;
        let from = scan_from(self.groups, &scope, cursor);
        // A cursor behind the last partition ends the scan.
        let end = u64::from(PartitionCount::MAX) << Position::BITS;
        let from = from.map_or(end, |(_, from)| from.number());
        if from == cursor {
            return None;
        }
        Some(scan_words(args, from, None))
    }
}

/// Whether only a node of a Redis Cluster knows the command.
#[inline]
fn is_of_clusters(spec: &Spec) -> bool {
    (CommandId::Cluster..=CommandId::Asking).contains(&spec.id)
}

fn is_another_db(args: Args<'_>) -> bool {
    args.get(1)
        .and_then(command::number::parse_i64)
        .is_some_and(|db| db != 0)
}

fn copies_to_another_db(spec: &Spec, args: Args<'_>) -> bool {
    let command = spec.parse.map(|parse| parse(args));
    matches!(command, Some(Ok(Command::Copy { db: Some(db), .. })) if db.number() != 0)
}

/// The slot of a command's keys, if it has any and they are all in one.
fn only_slot(spec: &Spec, args: Args<'_>) -> Option<Slot> {
    let mut slots: Option<(Slot, bool)> = None;
    if matches!(spec.route, CommandRoute::Keys | CommandRoute::Script) || spec.id == CommandId::Watch {
        command::keys(spec, args, &mut |position, _| {
            let slot = Slot::of_key(args.arg(position));
            let (first, is_one) = *slots.get_or_insert((slot, true));
            slots = Some((first, is_one && first == slot));
        });
    }
    slots.and_then(|(slot, is_one)| is_one.then_some(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_clusters_stand_in_a_row_in_the_table() {
        for id in CommandId::ALL {
            let spec = id.spec();
            let name = spec.name.split('|').next().unwrap();
            let is_one = ["cluster", "readonly", "readwrite", "asking"].contains(&name);
            assert_eq!(is_of_clusters(spec), is_one, "{}", spec.name);
        }
    }
}
