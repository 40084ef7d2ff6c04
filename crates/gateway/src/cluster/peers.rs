//! The other nodes, as far as this worker listens to them: heartbeats, which carry claims to lead groups, and what their wall clocks
//! show.
//!
//! Who is in reach, and who is silent, stands in the [`ClusterView`], where everybody reads it.
//!
//! Invariant, as [`Peers::check`] looks at it: those are known here that the layout names.

use super::broken::guard;
use super::wall_clock::{TELL_EVERY, WallClock};
use super::{GroupLayout, Layout};
use crate::cluster_view::ClusterView;
use crate::context::Context;
use crate::outbox::Addressee;
use consensus::{Beat, BeatAnswer, Beats, Claim, Listener, Times};
use ids::{Boot, Monotonic, NodeId, PeerWorker, UnixMillis};
use peer_wire::{DiskHealth, PeerMessage};
use std::collections::BTreeMap;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Peers {
    peers: BTreeMap<PeerWorker, Peer>,
    /// What the others' wall clocks show, and when they were last told what this one does.
    wall_clock: WallClock,
    told_wall_at: Monotonic,
    /// What an operator is to be told of it.
    clock_notice: Option<String>,
    /// How the others were last told that the disk here is, and when.
    told_disk: (DiskHealth, Monotonic),
}

/// Heartbeats to a worker of another node, and from it.
struct Peer {
    beats: Beats,
    listener: Listener,
}

impl Peer {
    fn new(boot: Boot) -> Peer {
        Peer {
            beats: Beats::new(boot, Times::DEFAULT.heartbeat),
            listener: Listener::new(boot),
        }
    }
}

/// Replicas, by the indices of their groups, that panicked while they were told something, and with what.
pub(super) type Broken = Vec<(usize, String)>;

impl Peers {
    /// The cluster is another one. Those that are new in it.
    pub(crate) fn on_layout(&mut self, view: &ClusterView, layout: &Layout) -> Vec<NodeId> {
        let is_new = |node: &NodeId| !self.is_known(*node);
        let new: Vec<NodeId> = layout.peers.iter().copied().filter(is_new).collect();
        let workers = new.iter().flat_map(|node| view.counterparts(*node));
        self.peers
            .extend(workers.map(|peer| (peer, Peer::new(layout.boot))));
        self.peers.retain(|peer, _| layout.peers.contains(&peer.node));
        self.wall_clock.retain(|node| layout.peers.contains(&node));
        new
    }

    /// Whether the layout names a node.
    fn is_known(&self, node: NodeId) -> bool {
        let first = PeerWorker { node, worker: 0 };
        let last = PeerWorker {
            node,
            worker: u16::MAX,
        };
        self.peers.range(first..=last).next().is_some()
    }

    /// The links to a node came up. It may have another number of workers than before.
    pub(crate) fn on_link_up(&mut self, cx: &Context, node: NodeId) {
        let Some(layout) = cx.view.layout().filter(|_| self.is_known(node)) else {
            return;
        };
        let counterparts: Vec<PeerWorker> = cx.view.counterparts(node).collect();
        self.peers
            .retain(|peer, _| peer.node != node || counterparts.contains(peer));
        for peer in counterparts {
            let peer = self.peers.entry(peer);
            let peer = peer.or_insert_with(|| Peer::new(layout.boot));
            peer.beats.reconnected(cx.now);
        }
        // It may lead before it is told the next time.
        self.told_wall_at = Monotonic(0);
        self.told_disk.1 = Monotonic(0);
        // Another of its workers may have a group, even where these are the same ones.
        self.claim(cx);
    }

    /// Another node claims to lead groups. Replicas that panicked over it are answered.
    pub(crate) fn on_beat(&mut self, cx: &mut Context, from: PeerWorker, beat: Beat) -> Broken {
        let now = cx.now;
        let local = &mut cx.local;
        let mut broken = Vec::new();
        let Some(peer) = self.peers.get_mut(&from) else {
            return broken;
        };
        let answer = peer.listener.on_beat(beat, |claim| {
            let Some(index) = local.index(claim.group) else {
                return false;
            };
            let Some(raft) = local.replicas[index].raft_mut() else {
                return false;
            };
            let confirmed = guard(|| raft.confirm(claim, now));
            confirmed.unwrap_or_else(|words| {
                broken.push((index, words));
                false
            })
        });
        cx.send_to(Addressee::Worker(from), PeerMessage::HeartbeatAnswer(answer));
        broken
    }

    /// Another node says which of this one's claims it knows to be true. Replicas that panicked over it are answered.
    pub(crate) fn on_beat_answer(
        &mut self,
        cx: &mut Context,
        from: PeerWorker,
        answer: &BeatAnswer,
    ) -> Broken {
        let now = cx.now;
        let local = &mut cx.local;
        let mut broken = Vec::new();
        let Some(peer) = self.peers.get_mut(&from) else {
            return broken;
        };
        peer.beats.on_answer(answer, now, |claim, sent| {
            let Some(index) = local.index(claim.group) else {
                return;
            };
            let Some(raft) = local.replicas[index].raft_mut() else {
                return;
            };
            let told = guard(|| match sent {
                Some(sent) => raft.acknowledged(claim, answer.start, sent, now),
                None => raft.refused(claim, answer.start, now),
            });
            if let Err(words) = told {
                return broken.push((index, words));
            }
            if raft.has_ready() {
                local.visits.touch(index);
            }
        });
        broken
    }

    /// What this node leads has changed: heartbeats claim it from here on, to each node that has a part in it.
    pub(crate) fn claim(&mut self, cx: &Context) {
        let layout = cx.view.layout().expect("who leads has a layout");
        let mut claims: BTreeMap<PeerWorker, Vec<Claim>> = BTreeMap::new();
        for replica in &cx.local.replicas {
            let GroupLayout { seats, .. } = layout.group(replica.group());
            let member = replica.member().into_iter();
            for claim in member.flat_map(|member| member.raft().claims()) {
                if let Some(&node) = seats.get(&claim.to) {
                    let peer = cx.view.counterpart(node, replica.group());
                    claims.entry(peer).or_default().push(claim);
                }
            }
        }
        for (worker, peer) in &mut self.peers {
            peer.beats
                .claim(claims.remove(worker).unwrap_or_default(), cx.now);
        }
    }

    /// Sends the heartbeats that are due.
    pub(crate) fn beat(&mut self, cx: &mut Context) {
        for (&worker, peer) in &mut self.peers {
            if cx.view.is_up(worker.node)
                && let Some(beat) = peer.beats.beat(cx.now)
            {
                cx.send_to(Addressee::Worker(worker), PeerMessage::Heartbeat(beat));
            }
        }
    }

    /// Whether a heartbeat is due.
    pub(crate) fn has_due(&self, cx: &Context) -> bool {
        let is_due = |peer: &Peer| peer.beats.due().is_some_and(|due| due <= cx.now);
        let mut peers = self.peers.iter();
        peers.any(|(worker, peer)| is_due(peer) && cx.view.is_up(worker.node))
    }

    /// When the next heartbeat is due.
    pub(crate) fn next_beat(&self, cx: &Context) -> Option<Monotonic> {
        let peers = self.peers.iter();
        let up = peers.filter(|(worker, _)| cx.view.is_up(worker.node));
        up.filter_map(|(_, peer)| peer.beats.due()).min()
    }

    /// The time to go by when the wall clock here shows `own`.
    pub(crate) fn judge_wall_clock(&mut self, own: UnixMillis, now: Monotonic) -> UnixMillis {
        let (time, notice) = self.wall_clock.judge(own, now);
        self.clock_notice = notice.or(self.clock_notice.take());
        time
    }

    /// Another node has told what its wall clock shows.
    pub(crate) fn on_wall_clock(&mut self, from: NodeId, wall: UnixMillis, now: Monotonic) {
        if self.is_known(from) {
            self.wall_clock.heard(from, wall, now);
        }
    }

    /// Tells the other nodes now and then what the wall clock here shows.
    pub(crate) fn tell_wall_clock(&mut self, cx: &mut Context, own: UnixMillis) {
        if cx.now >= self.told_wall_at.after(TELL_EVERY) {
            self.told_wall_at = cx.now;
            let peers = cx.view.nodes_up().flat_map(|node| cx.view.counterparts(node));
            let messages = peers.map(|peer| (Addressee::Worker(peer), PeerMessage::WallClock(own)));
            cx.outbox.peer_messages.extend(messages);
        }
    }

    /// Tells the other nodes how the disk here is, when they have to go by something else, and now and then.
    pub(crate) fn tell_disk_health(&mut self, cx: &mut Context) {
        let (own, (told, at)) = (cx.view.own_disk(), self.told_disk);
        let is_news = (own.is_short, own.is_slow) != (told.is_short, told.is_slow);
        if own != DiskHealth::default() && cx.now >= at.after(TELL_EVERY) || is_news {
            self.told_disk = (own, cx.now);
            let peers = cx.view.nodes_up().flat_map(|node| cx.view.counterparts(node));
            let messages = peers.map(|peer| (Addressee::Worker(peer), PeerMessage::DiskHealth(own)));
            cx.outbox.peer_messages.extend(messages);
        }
    }

    /// What an operator is to be told of the wall clock here.
    pub(crate) fn take_clock_notice(&mut self) -> Option<String> {
        self.clock_notice.take()
    }

    /// Whether the wall clock here is so far from the others' that theirs is used.
    pub(crate) fn is_wall_clock_off(&self) -> bool {
        self.wall_clock.is_off()
    }

    /// Says whether the invariant does not hold.
    pub(crate) fn check(&self, cx: &Context) -> Result<(), String> {
        let named = cx.view.layout().into_iter().flat_map(|layout| &layout.peers);
        let mut named: Vec<NodeId> = named.copied().collect();
        named.sort_unstable();
        let mut known: Vec<NodeId> = self.peers.keys().map(|peer| peer.node).collect();
        known.dedup();
        match known == named {
            true => Ok(()),
            false => Err("the other nodes here are not those that the layout names".to_owned()),
        }
    }
}
