//! Where a gateway stands: the worker, the turn, the settings and the cluster, which every part of it reads, and the outbox for what
//! it says.

use crate::cluster_view::ClusterView;
use crate::connection::Connection;
use crate::delivery::Delivery;
use crate::local_groups::LocalGroups;
use crate::message::{MailboxBatch, Message};
use crate::outbox::{Addressee, Outbox};
use crate::script_cache::WorkerScripts;
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::timing::Timing;
use bytes::Bytes;
use command::Spec;
use ids::{
    Boot, GroupCount, GroupId, Groups, HashSeed, Host, Monotonic, NodeId, PartitionId, Prng, UnixMillis,
};
use keyspace::{EncodingLimits, EventClasses, Moved};
use options::Settings;
use peer_wire::{PeerAnswer, PeerMessage};
use replica::{Copying, ReplyTo, Request, Turn};
use resp::Args;
use std::ops::Deref;
use std::sync::Arc;

/// See the file's header.
pub(crate) struct Context {
    pub(crate) worker: u16,
    pub(crate) shared: Arc<Shared>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) settings: Followed<Settings>,
    /// How large collections may be and still be kept small, as the settings say.
    pub(crate) limits: EncodingLimits,
    /// Who hosts what, as far as this worker knows.
    pub(crate) groups: Groups,
    /// Counts what it has learned of that.
    pub(crate) hosts_version: u32,
    pub(crate) view: ClusterView,
    pub(crate) turn: Turn,
    /// The raw monotonic time, as of this turn.
    pub(crate) now: Monotonic,
    pub(crate) prng: Prng,
    pub(crate) timing: Timing,
    /// The frame of the command that is being carried out, if it is long and need not be copied.
    pub(crate) frame: Option<Bytes>,
    pub(crate) local: LocalGroups,
    pub(crate) scripts: WorkerScripts,
    pub(crate) outbox: Outbox,
}

/// What all workers share and anybody may replace, as this worker has last looked at it.
pub(crate) struct Followed<T> {
    value: Arc<T>,
    version: u64,
}

impl<T> Followed<T> {
    pub(crate) fn new(value: Arc<T>) -> Followed<T> {
        Followed { value, version: 0 }
    }

    /// Whether this is another version.
    #[inline]
    pub(crate) fn is_behind(&self, version: u64) -> bool {
        self.version != version
    }

    pub(crate) fn follow(&mut self, value: Arc<T>, version: u64) {
        *self = Followed { value, version };
    }
}

impl<T> Deref for Followed<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

impl Context {
    pub(crate) fn new(worker: u16, shared: Arc<Shared>, secret: HashSeed, seed: u64) -> Context {
        Context {
            worker,
            stats: shared.workers[usize::from(worker)].clone(),
            settings: Followed::new(shared.settings()),
            limits: EncodingLimits::default(),
            groups: shared.groups,
            hosts_version: 0,
            view: ClusterView::new(
                shared.topology(),
                worker,
                shared.workers.len() as u16,
                shared.groups,
            ),
            turn: Turn {
                number: 0,
                now: UnixMillis(0),
                seed: 0,
                lfu: None,
                notify: EventClasses::default(),
                steps_max: crate::offload::STEPS_MAX,
                answers_bytes_max: shared.hooks.piece_sizes.answers_bytes_max,
                copying: Copying {
                    may_copy: true,
                    may_send: true,
                    chunk_bytes: shared.hooks.piece_sizes.chunk_bytes,
                    clock: shared.hooks.clock,
                },
                semantics: shared.semantics,
                coding: None,
            },
            now: Monotonic(0),
            prng: Prng::new(seed),
            timing: Timing::new(shared.hooks.clock),
            frame: None,
            local: LocalGroups::new(worker, &shared, secret),
            // Another sequence than the one above.
            scripts: WorkerScripts::new(!seed),
            outbox: Outbox::new(shared.workers.len()),
            shared,
        }
    }

    /// Makes the groups that the layout has and that are not here yet, and learns from it what groups host.
    pub(crate) fn make_groups(&mut self) {
        let Some(layout) = self.view.layout() else { return };
        let count = GroupCount::new(layout.groups.len().try_into().unwrap_or(GroupCount::MAX));
        let all = count.map_or(self.groups, |count| self.groups.with_more(count));
        let made = self.local.make(all);
        for replica in &mut self.local.replicas[made] {
            replica.state_mut().set_limits(&self.turn, self.limits);
        }
        self.shared.note_made(self.worker, all.get());
        self.follow_groups();
    }

    /// Uses the groups that all workers of this node have made, and what the layout knows of their hosts.
    pub(crate) fn follow_groups(&mut self) {
        let common = GroupCount::new(self.shared.common_groups());
        let groups = common.map_or(self.groups, |common| self.groups.with_more(common));
        let hosted = self.view.layout().and_then(|layout| layout.hosted);
        let newer = hosted.into_iter().flat_map(Groups::moved);
        self.learn_hosts(groups, newer);
    }

    /// Learns where partitions are, of these groups, where that is newer than what is known here. What names a group that is not used yet is
    /// passed over: the layout says it again.
    pub(crate) fn learn_hosts(
        &mut self,
        groups: Groups,
        newer: impl IntoIterator<Item = (PartitionId, Host)>,
    ) {
        let groups = groups.with_hosts(newer);
        if groups != self.groups {
            self.groups = groups;
            self.local.use_groups(groups);
            self.hosts_version += 1;
        }
    }

    /// See [`Outbox::mailbox_batch`].
    #[inline]
    pub(crate) fn mailbox_batch(&mut self, worker: u16) -> &mut MailboxBatch {
        self.outbox.mailbox_batch(worker)
    }

    /// Puts a message into the mailbox batch for `worker`.
    pub(crate) fn send(&mut self, worker: u16, message: Message) {
        self.mailbox_batch(worker).push(message);
    }

    pub(crate) fn send_to_node(&mut self, node: NodeId, message: PeerMessage) {
        self.send_to(Addressee::Node(node), message);
    }

    pub(crate) fn send_to(&mut self, to: Addressee, message: PeerMessage) {
        self.outbox.peer_messages.push((to, message));
    }

    /// Answers a question of another node.
    pub(crate) fn answer_node(&mut self, node: NodeId, answer: PeerAnswer) {
        let asker = self.view.asker(node, answer.id);
        self.send_to(Addressee::Worker(asker), PeerMessage::FanoutAnswer(answer));
    }

    /// A group of another node, or worker, hosts a partition by now, after so many moves.
    pub(crate) fn learn_host(&mut self, partition: PartitionId, group: GroupId, moves: u32) {
        let to = Some((group, moves));
        self.learn_moved(&[Moved { partition, to }]);
    }

    /// Asks a group something, wherever it lives.
    pub(crate) fn request(&mut self, group: GroupId, request: Request) {
        self.outbox.requests.push_back((group, request));
    }

    /// An answer, or a message, for connections of this worker.
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        self.outbox.deliveries.push_back(delivery);
    }

    /// This start of the node, as the cluster counts them; until it is known, as nobody else does.
    pub(crate) fn boot(&self) -> Boot {
        self.view.layout().map_or(self.shared.boot, |layout| layout.boot)
    }

    /// Whether whoever coordinates a transaction, or waits, at this boot cannot be reached from here.
    pub(crate) fn is_lost(&self, boot: Boot) -> bool {
        boot != self.boot() && (self.view.is_dead(boot) || self.view.is_boot_down(boot))
    }

    /// Reserves the place of an answer that comes later.
    pub(crate) fn reserve(&self, connection: &mut Connection) -> ReplyTo {
        let sequence = connection.pipeline.reserve(connection.session.is_silent());
        ReplyTo {
            worker: self.worker,
            connection: connection.session.token,
            sequence,
        }
    }

    /// The same of a command that is sent to its group. One that goes there in pieces is not to be overtaken.
    pub(crate) fn reserve_behind(&self, connection: &mut Connection, spec: &Spec, args: Args<'_>) -> ReplyTo {
        let reply_to = self.reserve(connection);
        if self.shared.hooks.piece_sizes.is_long(spec, args) {
            connection.pipeline.hold_behind(reply_to.sequence);
        }
        reply_to
    }

    /// Whether nothing is written to a group of this worker at present, because disks are full.
    pub(crate) fn is_full(&self, index: usize) -> bool {
        self.shared.is_full(self.local.replicas[index].group())
    }

    /// What the layout says of a group of this worker.
    pub(crate) fn layout_of(&self, index: usize) -> &crate::cluster::GroupLayout {
        let layout = self.view.layout.as_ref().expect("seats are made from a layout");
        layout.group(self.local.replicas[index].group())
    }

    /// The other workers.
    pub(crate) fn other_workers(&self) -> impl Iterator<Item = (u16, &WorkerStats)> {
        let all = (0..).zip(self.shared.workers.iter().map(|stats| &**stats));
        all.filter(|(worker, _)| *worker != self.worker)
    }
}
