//! The way to each group of this worker, where its leader may be on another node.
//!
//! ```text
//!   a command --> group client --turn's end--> replica here, if it leads --> response --> group client --> its answer
//!                      |                                                          ^
//!                      +------- Batch ------> leader elsewhere ---- Answers ------+
//! ```
//!
//! A [`GroupClient`] numbers what it is asked, keeps it until it is answered, and hands it over again if it was lost. Here stands to
//! whom: whoever is taken for the group's leader. If nobody is known to lead, its replicas are tried one after another.
//!
//! Invariant, as [`GroupClients::check`] looks at it: once there is a cluster, there is one for each of the worker's groups, in
//! their order, of the generation that the layout names.

use super::{GroupLayout, Layout};
use crate::cluster_view::ClusterView;
use crate::context::Context;
use consensus::Term;
use ids::{GatewayId, GroupId, NodeId};
use keyspace::ArrivingPiece;
use peer_wire::PeerMessage;
use replica::{
    Asked, Batch, BatchOutcome, BatchResponse, GroupClient, NoCheckOut, Output, PieceSizes, Replica, ReplyTo,
    Request, Sender,
};
use txn::{Refusal, TxnId, Vote};

/// See the file's header.
#[derive(Default)]
pub(crate) struct GroupClients {
    /// In the order of the worker's groups. None before there is a cluster.
    leaders: Vec<Leader>,
    /// Batches that went to other nodes.
    forwarded: u64,
}

/// The leader of a group, as whoever asks it knows it.
struct Leader {
    client: GroupClient,
    /// Where it is thought to be.
    target: Option<NodeId>,
    /// The term in which it was heard to lead; the first one if it was not.
    led_in: Term,
    /// Which replica is asked next if nobody knows who leads.
    tries: usize,
    /// Whether a hint was followed since the last tick.
    is_hinted: bool,
    /// The replica here goes on with a state that is still being read.
    is_awaited: bool,
}

/// Whom this node takes for the leader of a group, by the replica here.
pub(super) fn known_leader(replica: &Replica, group: &GroupLayout) -> Option<NodeId> {
    let leader = replica.member()?.leader()?;
    group.seats.get(&leader).copied()
}

impl Leader {
    fn new(group: GroupId, generation: u64, gateway: GatewayId, sizes: PieceSizes) -> Leader {
        let mut client = GroupClient::new(group, generation, gateway);
        client.set_piece_sizes(sizes);
        Leader {
            client,
            target: None,
            led_in: Term(0),
            tries: 0,
            is_hinted: false,
            is_awaited: false,
        }
    }

    /// Nobody is known to lead, and who may be waits here for its state.
    fn is_absent(&self) -> bool {
        self.is_awaited && self.target.is_none()
    }

    /// Time passes. Whether there is something to send.
    fn tick(&mut self, cx: &Context, layout: &Layout, index: usize, outputs: &mut Vec<Output>) -> bool {
        let replica = &cx.local.replicas[index];
        let group = layout.group(replica.group());
        let is_awaited = self.is_awaited;
        let is_up = |node: &NodeId| match *node == layout.me {
            true => !is_awaited,
            false => cx.view.is_up(*node),
        };
        if self.target.is_some_and(|target| cx.view.is_moving(target)) {
            self.client.on_moving();
        }
        self.client.give_up(outputs);
        self.is_hinted = false;
        self.target = self.target.filter(is_up);
        if self.target.is_none() {
            let last = group.leader.filter(|_| self.tries == 0);
            let known = known_leader(replica, group).or(last).filter(is_up);
            let candidates: Vec<NodeId> = group.nodes().into_iter().filter(is_up).collect();
            let next = || candidates.get(self.tries % candidates.len().max(1)).copied();
            if let Some(node) = known.or_else(next) {
                self.tries = self.tries.wrapping_add(1);
                self.aim(node, outputs);
            }
        }
        self.target.is_some() && self.client.has_due()
    }

    /// A node says what became of a batch. What was carried out counts whoever says it, as long as it is not lost since; the
    /// rest only from whom this node takes for the leader, in the term in which it leads.
    fn on_response(
        &mut self,
        view: &ClusterView,
        from: NodeId,
        response: &BatchResponse,
        outputs: &mut Vec<Output>,
    ) {
        let is_present = response.generation == self.client.generation();
        let is_asked = self.target == Some(from);
        let counts = is_asked && response.term >= self.led_in;
        match response.outcome {
            BatchOutcome::Done(_) if is_present => {}
            _ if !counts => return,
            BatchOutcome::NotLeader { leader } => return self.lose_target(view, leader, outputs),
            // Who was asked knows of another beginning of the group: one of the two is told of it soon.
            _ if !is_present => return self.lose_target(view, None, outputs),
            _ => {}
        }
        if counts {
            self.led_in = response.term;
        }
        // What no leader writes counts as no answer: the batch is sent again.
        self.client
            .on_outcome(response.sequence, &response.outcome, outputs);
    }

    /// The group may have begun anew: then its terms have, too.
    fn begin_generation(&mut self, generation: u64, outputs: &mut Vec<Output>) {
        if generation > self.client.generation() {
            self.led_in = Term(0);
        }
        self.client.begin_generation(generation, outputs);
    }

    /// Whoever was asked does not lead, but may know who does.
    fn lose_target(&mut self, view: &ClusterView, hint: Option<NodeId>, outputs: &mut Vec<Output>) {
        let before = self.target.take();
        // One hint a tick is followed: two nodes that each take the other for the leader must not keep the link busy.
        if let Some(node) = hint.filter(|node| Some(*node) != before && view.is_in_reach(*node))
            && !std::mem::replace(&mut self.is_hinted, true)
        {
            self.aim(node, outputs);
        }
    }

    /// Asks a node from now on, which is in reach: what is sent to others is lost, and is asked again a second later.
    fn aim(&mut self, node: NodeId, outputs: &mut Vec<Output>) {
        if self.target != Some(node) {
            self.target = Some(node);
            self.led_in = Term(0);
            self.client.resend(outputs);
        }
    }
}

impl GroupClients {
    /// The client of a group, which learns what time it is, the rules, and the threshold: it may have been set a moment ago.
    fn client(&mut self, cx: &Context, index: usize) -> &mut GroupClient {
        let client = &mut self.leaders[index].client;
        client.begin(cx.now, cx.turn.semantics, cx.settings.slow_from());
        client
    }

    /// The layout is another one, of all groups in their order. The replica here may go on with a state that is still being read.
    pub(crate) fn on_layout(&mut self, cx: &mut Context, index: usize, is_awaited: bool) {
        let layout = cx.view.layout().expect("the caller has set it");
        let group = cx.local.replicas[index].group();
        let generation = layout.group(group).generation;
        if index == self.leaders.len() {
            let (boot, worker) = (layout.boot, cx.worker);
            let sizes = cx.shared.hooks.piece_sizes;
            let leader = Leader::new(group, generation, GatewayId { boot, worker }, sizes);
            self.leaders.push(leader);
        }
        // What clients ask for before the first tick is asked for now, not at the beginning of time.
        self.client(cx, index);
        let mut outputs = Vec::new();
        self.leaders[index].begin_generation(generation, &mut outputs);
        self.leaders[index].is_awaited = is_awaited;
        self.note_reach(cx, index);
        cx.outbox.outputs.extend(outputs);
    }

    /// A command of a client of this node.
    pub(crate) fn command(&mut self, cx: &mut Context, index: usize, reply_to: ReplyTo, asked: Asked<'_>) {
        let began = Some(cx.now);
        self.client(cx, index).command(reply_to, Asked { began, ..asked });
        cx.local.visits.touch(index);
    }

    /// A command for a group whose leader is out of reach: it is not sent.
    pub(crate) fn refuse(&self, cx: &mut Context, index: usize, reply_to: ReplyTo) {
        let mut outputs = Vec::new();
        self.leaders[index].client.refuse(reply_to, &mut outputs);
        cx.outbox.outputs.extend(outputs);
    }

    /// A request for a replicated group.
    pub(crate) fn ask(&mut self, cx: &mut Context, index: usize, request: Request) {
        let group = cx.local.replicas[index].group();
        let client = self.client(cx, index);
        let mut outputs = Vec::new();
        match request {
            Request::Execute { reply_to, .. }
            | Request::Wait { reply_to, .. }
            | Request::Block { reply_to, .. }
            | Request::Once { reply_to, .. }
            | Request::OnePhase { reply_to, .. }
                if client.is_cut_off() =>
            {
                client.refuse(reply_to, &mut outputs);
            }
            Request::Watch { reply_to, .. } if client.is_cut_off() => {
                let error = replica::UNREACHABLE;
                outputs.push(Output::FailedWatch { reply_to, error });
            }
            Request::Execute { reply_to, operation } => {
                client.command(reply_to, Asked::of(&operation));
            }
            Request::Wait { reply_to, operation } => client.wait(reply_to, &operation),
            Request::EndWait { reply_to } => client.end_wait(reply_to),
            Request::Part { txn, .. } if client.is_cut_off() => {
                let error = replica::UNREACHABLE;
                outputs.push(Output::FailedPart { txn, group, error });
            }
            Request::Part { txn, operation } => client.part(txn, Asked::of(&operation)),
            Request::Block {
                reply_to,
                conditions,
                operations,
            } => client.block(reply_to, &conditions, &operations),
            Request::Once {
                reply_to,
                request,
                operations,
            } => client.once(reply_to, request, &operations),
            Request::OnePhase {
                reply_to,
                expects,
                effects,
            } => client.one_phase(reply_to, &expects, effects),
            Request::Watch { reply_to, keys } => client.versions(reply_to, &keys),
            Request::Arrive {
                txn,
                partition,
                number,
                seed,
                records,
            } => client.arrive(ArrivingPiece {
                txn,
                partition,
                number,
                seed,
                records: &records,
            }),
            Request::Prepare(part) | Request::Lock(part) => {
                let txn = part.txn;
                if let Err(NoCheckOut) = client.vote(*part) {
                    outputs.push(without_check_out(txn, group));
                }
            }
            Request::Decide {
                txn,
                is_committed: true,
                is_awaited: false,
                worker,
                is_final: _,
            } => client.commit_lazily(txn, worker),
            Request::Decide {
                txn,
                is_committed,
                is_awaited: _,
                worker,
                is_final: _,
            } => client.decide(txn, is_committed, worker),
            Request::QueryTxn {
                txn,
                participants,
                worker,
            } => client.query_txn(txn, participants, worker),
            Request::Wound { txn } => client.wound(txn),
            Request::Forget { txn, low } => client.forget(txn, low),
            Request::SnapshotRead {
                txn,
                conditions,
                operations,
                asker,
            } => client.snapshot_read(txn, &conditions, &operations, asker),
            Request::OptimisticRead {
                txn,
                keys,
                may_be_old,
                is_holder,
            } => {
                let replica = &cx.local.replicas[index];
                match may_be_old
                    .then(|| replica.read_here(&cx.turn, txn, &keys))
                    .flatten()
                {
                    Some(seen) => outputs.push(seen),
                    None => client.optimistic_read(txn, &keys, is_holder),
                }
            }
            // The group held its keys for it. If it has let go of them since, there is nothing to check out any more.
            Request::CheckOut { txn, .. } => outputs.push(without_check_out(txn, group)),
            // A group gets no log while anything of it is checked out: `Replica::give_log` insists on it.
            Request::CheckIn { txn, .. } => {
                let number = group.number();
                cx.outbox.notices.push(format!(
                    "group {number} has a log, and does not take back what transaction {txn} brings it"
                ));
            }
        }
        cx.local.visits.touch(index);
        cx.outbox.outputs.extend(outputs);
    }

    /// A response to a batch that was handed to the replica here, or to a group elsewhere.
    pub(crate) fn on_response(
        &mut self,
        cx: &mut Context,
        index: usize,
        from: NodeId,
        response: &BatchResponse,
    ) {
        let mut outputs = Vec::new();
        self.client(cx, index);
        self.leaders[index].on_response(&cx.view, from, response, &mut outputs);
        self.drop_spent(cx, index);
        self.note_reach(cx, index);
        // What it brought is handed out when the turn ends.
        cx.local.visits.touch(index);
        cx.outbox.outputs.extend(outputs);
    }

    /// A group elsewhere says what became of a batch of this worker.
    pub(crate) fn on_answers(&mut self, cx: &mut Context, from: NodeId, response: &BatchResponse) {
        let index = cx.local.index(response.group);
        // If not, it was for the boot before this one.
        let is_ours = |index: &usize| {
            let leader = self.leaders.get(*index);
            leader.is_some_and(|leader| leader.client.gateway() == response.gateway)
        };
        if let Some(index) = index.filter(is_ours) {
            self.on_response(cx, index, from, response);
        }
    }

    /// Goes after the leader that the replica here knows.
    pub(crate) fn follow(&mut self, cx: &mut Context, index: usize) {
        let mut outputs = Vec::new();
        let known = known_leader(&cx.local.replicas[index], cx.layout_of(index));
        if let Some(node) = known.filter(|node| cx.view.is_in_reach(*node)) {
            self.leaders[index].aim(node, &mut outputs);
        }
        cx.outbox.outputs.extend(outputs);
    }

    /// The replica here has ended. Whoever was asked may have been it.
    pub(crate) fn on_vacated(&mut self, index: usize) {
        self.leaders[index].target = None;
    }

    /// A node is out of reach.
    pub(crate) fn on_link_lost(&mut self, index: usize, node: NodeId) {
        let target = &mut self.leaders[index].target;
        *target = target.filter(|target| *target != node);
    }

    /// Time passes for a group. Where it is thought to be led.
    pub(crate) fn tick(&mut self, cx: &mut Context, index: usize) -> Option<NodeId> {
        let mut outputs = Vec::new();
        self.client(cx, index);
        let layout = cx.view.layout().expect("there is one before there are ticks");
        let leader = &mut self.leaders[index];
        if leader.tick(cx, layout, index, &mut outputs) {
            cx.local.visits.touch(index);
        }
        self.drop_spent(cx, index);
        cx.outbox.outputs.extend(outputs);
        self.note_reach(cx, index);
        self.leaders[index].target
    }

    /// Has long operations that nobody needs any more dropped elsewhere.
    fn drop_spent(&mut self, cx: &mut Context, index: usize) {
        for spent in self.leaders[index].client.take_spent() {
            let bytes = spent.len();
            let dropped = cx.scripts.drop_elsewhere(Box::new(spent), bytes);
            cx.outbox.offload_jobs.extend(dropped);
        }
    }

    /// Tells all workers whether the leader of a group can be reached.
    fn note_reach(&self, cx: &Context, index: usize) {
        let group = cx.local.replicas[index].group();
        cx.shared.set_cut_off(group, self.is_cut_off(index));
        cx.shared
            .loading
            .set_absent(group, self.leaders[index].is_absent());
    }

    /// The turn ends: what was gathered for a group goes on its way. Batches for the replica here are answered.
    pub(crate) fn finish(&mut self, cx: &mut Context, index: usize) -> Vec<Batch> {
        self.client(cx, index);
        let GroupClients { leaders, forwarded } = self;
        let Leader { client, target, .. } = &mut leaders[index];
        let mut here = Vec::new();
        let Some(target) = target.filter(|_| client.has_due()) else {
            return here;
        };
        let (group, gateway) = (cx.local.replicas[index].group(), client.gateway());
        let is_here = target == cx.view.me();
        client.dispatch(|batch| {
            let batch = batch.clone();
            if is_here {
                here.push(batch);
            } else {
                let batch = peer_wire::BatchRequest {
                    group,
                    gateway,
                    batch,
                };
                *forwarded += 1;
                cx.send_to_node(target, PeerMessage::Batch(batch));
            }
        });
        here
    }

    /// Who hands batches to a group, for the replica here.
    pub(crate) fn sender(&self, cx: &Context, index: usize) -> Sender {
        let (node, gateway) = (cx.view.me(), self.leaders[index].client.gateway());
        Sender { node, gateway }
    }

    /// Whether nothing is under way to a group.
    pub(crate) fn is_idle(&self, index: usize) -> bool {
        self.leaders[index].client.is_idle()
    }

    /// Whether the leader of a group has been out of reach for longer than anybody waits.
    pub(crate) fn is_cut_off(&self, index: usize) -> bool {
        self.leaders[index].client.is_cut_off()
    }

    /// Whether ticks have nothing to do for a group until something happens.
    pub(crate) fn is_quiet(&self, index: usize) -> bool {
        let leader = &self.leaders[index];
        leader.target.is_some() && leader.client.is_idle()
    }

    /// How many batches were handed to leaders, how many of these once more, and how many went to other nodes.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let all = self.leaders.iter().map(|leader| leader.client.handed());
        let (handed, resent) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (handed, resent, self.forwarded)
    }

    /// Says whether the invariant does not hold.
    pub(crate) fn check(&self, cx: &Context) -> Result<(), String> {
        let layout = cx.view.layout();
        let groups = layout.into_iter().flat_map(|layout| {
            let replicas = cx.local.replicas.iter();
            replicas.map(|replica| layout.group(replica.group()).generation)
        });
        let known = self.leaders.iter().map(|leader| leader.client.generation());
        match groups.eq(known) {
            true => Ok(()),
            false => Err("the clients of groups are of other generations than the layout names".to_owned()),
        }
    }
}

/// What a group with a log answers to whoever wants to check its values out: it is to be carried out in another way.
fn without_check_out(txn: TxnId, group: GroupId) -> Output {
    Output::Voted {
        txn,
        group,
        vote: Vote::Refused(Refusal::Busy),
        is_logged: true,
        replies: replica::Replies::default(),
    }
}
