//! This node's seat in the meta group, if it has one: it votes, keeps a part of the log, and may lead.
//!
//! ```text
//!   no seat --the map names this node--> vacant --filled--> follower <--elections--> leader (`leading.rs`)
//!      ^                                    |                   |                       |
//!      '--the map names it no more----------+-------------------+-----------------------'
//! ```
//!
//! Who has no seat still answers the heartbeats of those who lead, and knows where members speak from.
//!
//! Invariants:
//! 1. Who leads does so in the term that its replica is in.
//! 2. Heartbeats of the group go to nodes of members alone, and only from a seat.

use super::agent::Agent;
use super::contact::Contact;
use super::effects::{MetaEffects, MetaWrite, Notice, Record};
use super::leader_state::LeaderState;
use super::message::MetaMessage;
use super::seat::{Restored, Seat, SeatEffects};
use crate::group::GroupRef;
use crate::map::{RoutingMap, Standing};
use crate::reconciler::Pace;
use crate::state::{BOOTSTRAP_REPLICA, State};
use consensus::{
    Beat, BeatAnswer, Beats, HardState, Index, LOOK, Listener, Looks, Members, RaftMessage, SnapshotPoint,
    Term, Times,
};
use ids::{Boot, Epoch, Incarnation, Monotonic, NodeId, Prng};
use std::collections::BTreeMap;

/// Replicas of which it is remembered where they spoke from; above, all are forgotten, and heard again.
const SITES_MAX: usize = 64;

/// Nodes whose heartbeats' lists are remembered; above, all are forgotten, and told again.
const LISTENERS_MAX: usize = 32;

/// See the file's header.
pub(crate) struct Voter {
    times: Times,
    pub(super) pace: Pace,
    /// By which others tell this start's heartbeats from those of others. Its number may not be known yet; its token is as good
    /// a name.
    nonce: Boot,
    prng: Prng,
    looks: Looks,
    pub(super) seated: Option<Seated>,
    /// Counts writes.
    write: u64,
    listeners: BTreeMap<NodeId, Listener>,
    /// Where replicas spoke from that neither the state nor the map names.
    sites: BTreeMap<Incarnation, NodeId>,
}

/// What there is only with a seat.
pub(super) struct Seated {
    pub(super) seat: Seat,
    /// The epoch as of which it was taken.
    since: Epoch,
    pub(super) leader_state: Option<LeaderState>,
    beats: BTreeMap<NodeId, Beats>,
}

/// Whose the leadership is.
pub(super) enum Leadership {
    /// This node's, and whether it was so in this term.
    Own { is_new: bool },
    /// That of another, if it is known.
    Other(Option<NodeId>),
}

impl Seated {
    fn new(seat: Seat, since: Epoch) -> Seated {
        Seated {
            seat,
            since,
            leader_state: None,
            beats: BTreeMap::new(),
        }
    }
}

impl Voter {
    pub(crate) fn new(times: Times, pace: Pace, nonce: Boot, seed: u64) -> Voter {
        Voter {
            times,
            pace,
            nonce,
            prng: Prng::new(seed),
            looks: Looks::default(),
            seated: None,
            write: 0,
            listeners: BTreeMap::new(),
            sites: BTreeMap::new(),
        }
    }

    /// Takes the first seat of a new group.
    pub(crate) fn found(&mut self, now: Monotonic) {
        let seed = self.prng.next_u64();
        let seat = Seat::found(BOOTSTRAP_REPLICA, self.times, seed, now, &mut self.write);
        self.seated = Some(Seated::new(seat, Epoch(0)));
    }

    /// Goes on with what a log held, if there was one, and with its identity then.
    pub(crate) fn restore(
        &mut self,
        restored: Option<Restored>,
        now: Monotonic,
        out: &mut MetaEffects,
    ) -> Option<Incarnation> {
        let seed = self.prng.next_u64();
        let Some((me, seat)) = Seat::restore(restored?, self.times, seed, now) else {
            out.notices.push(Notice::LogRefused);
            return None;
        };
        let since = seat.book().map_or(Epoch(0), |book| book.state.epoch());
        self.seated = Some(Seated::new(seat, since));
        Some(me)
    }

    // ---- what is known

    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seated.as_ref().map(|seated| &seated.seat)
    }

    /// The state; it may lag.
    pub(crate) fn state(&self) -> Option<&State> {
        Some(&self.seat()?.book()?.state)
    }

    pub(crate) fn leader_state(&self) -> Option<&LeaderState> {
        self.seated.as_ref()?.leader_state.as_ref()
    }

    /// The seat of whoever leads, and what it knows besides.
    pub(super) fn led(&mut self) -> Option<(&mut Seat, &mut LeaderState)> {
        let seated = self.seated.as_mut()?;
        Some((&mut seated.seat, seated.leader_state.as_mut()?))
    }

    fn me(&self) -> Option<Incarnation> {
        self.seat().map(|seat| seat.raft.me())
    }

    /// The replica here, once it has the state, and the members in force as it knows them.
    pub(crate) fn replica(&self) -> Option<(Incarnation, &Members)> {
        let seat = self.seat()?;
        seat.book()?;
        Some((seat.raft.me(), seat.raft.members()))
    }

    /// What the replica here may not forget once a turn is over.
    pub(crate) fn promises(&self) -> Option<(Incarnation, HardState)> {
        let seat = self.seat().filter(|seat| seat.is_on_disk())?;
        Some((seat.raft.me(), seat.raft.hard_state()))
    }

    /// Where a member of the group is.
    pub(super) fn node_of(&self, member: Incarnation, agent: &Agent) -> Option<NodeId> {
        if Some(member) == self.me() {
            return agent.node();
        }
        let group = self.state().and_then(|state| state.groups().get(&GroupRef::Meta));
        if let Some(group) = group {
            let members = group.members.iter().map(|known| (known.incarnation, known.node));
            let expected = group.expected.iter().map(|known| (known.incarnation, known.node));
            if let Some((_, node)) = members.chain(expected).find(|(known, _)| *known == member) {
                return Some(node);
            }
        }
        let named = agent.view.node_of(member);
        named.or_else(|| self.sites.get(&member).copied())
    }

    /// When `tick` has something to do. Who does not know who it is looks at nothing.
    pub(crate) fn next_timer(&self, is_member: bool) -> Option<Monotonic> {
        let Seated {
            seat,
            leader_state,
            beats,
            ..
        } = self.seated.as_ref()?;
        let leader_state = leader_state.as_ref().filter(|_| is_member);
        let timers = [
            seat.raft.next_timer(),
            // A standstill is noticed by looking.
            Some(self.looks.after(LOOK)),
            beats.values().filter_map(Beats::due).min(),
            leader_state.and_then(|leader_state| leader_state.next_timer(seat.applied())),
        ];
        timers.into_iter().flatten().min()
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.seat().is_some_and(|seat| seat.raft.has_ready())
    }

    /// Checks the invariants of the file's header.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(Seated {
            seat, leader_state, ..
        }) = &self.seated
        else {
            return Ok(());
        };
        let status = seat.raft.status();
        match leader_state {
            Some(led) if !seat.raft.is_leader() || led.term != status.term => Err(format!(
                "it leads in {:?}, and its replica is in {:?}",
                led.term, status.term
            )),
            _ => Ok(()),
        }
    }

    // ---- inputs

    pub(crate) fn tick(&mut self, now: Monotonic) {
        let stood_still = self.looks.look(now);
        if let Some(Seated { seat, .. }) = &mut self.seated {
            if let Some(span) = stood_still {
                seat.raft.stood_still(span, now);
            }
            seat.raft.tick(now);
        }
    }

    pub(crate) fn on_persisted(&mut self, number: u64, now: Monotonic) {
        if let Some(seated) = &mut self.seated {
            seated.seat.on_persisted(number, now);
        }
    }

    pub(crate) fn on_link(&mut self, node: NodeId, is_up: bool, agent: &Agent, now: Monotonic) {
        let leader = self.seat().and_then(|seat| seat.raft.status().leader);
        let is_leaders = leader.and_then(|leader| self.node_of(leader, agent)) == Some(node);
        let Some(seated) = &mut self.seated else { return };
        if is_up {
            if let Some(beats) = seated.beats.get_mut(&node) {
                beats.reconnected(now);
            }
            if let Some(leader_state) = &mut seated.leader_state {
                leader_state.telling.forget(node);
            }
        } else if is_leaders {
            seated.seat.raft.leader_link_lost(now);
        }
    }

    /// Something has changed that whoever leads looks at.
    pub(crate) fn on_news(&mut self) {
        if let Some((_, leader_state)) = self.led() {
            leader_state.on_news();
        }
    }

    pub(crate) fn on_raft(&mut self, from: Contact, message: RaftMessage, now: Monotonic) {
        let Contact::Node(node) = from else { return };
        if self.sites.len() >= SITES_MAX && !self.sites.contains_key(&message.from) {
            self.sites.clear();
        }
        self.sites.insert(message.from, node);
        if let Some(seated) = &mut self.seated {
            seated.seat.raft.step(message, now);
        }
    }

    pub(crate) fn on_beat(&mut self, from: Contact, beat: Beat, now: Monotonic, out: &mut MetaEffects) {
        let Contact::Node(node) = from else { return };
        if self.listeners.len() >= LISTENERS_MAX && !self.listeners.contains_key(&node) {
            self.listeners.clear();
        }
        let seated = &mut self.seated;
        let listener = self
            .listeners
            .entry(node)
            .or_insert_with(|| Listener::new(Boot(0)));
        let answer = listener.on_beat(beat, |claim| {
            let seated = seated.as_mut();
            seated.is_some_and(|seated| seated.seat.raft.confirm(claim, now))
        });
        out.send(from, MetaMessage::BeatAnswer(answer));
    }

    pub(crate) fn on_beat_answer(&mut self, from: Contact, answer: &BeatAnswer, now: Monotonic) {
        let (Contact::Node(node), Some(Seated { seat, beats, .. })) = (from, &mut self.seated) else {
            return;
        };
        let Some(beats) = beats.get_mut(&node) else { return };
        beats.on_answer(answer, now, |claim, sent| match sent {
            Some(sent) => seat.raft.acknowledged(claim, answer.start, sent, now),
            None => seat.raft.refused(claim, answer.start, now),
        });
    }

    /// The state has come from whoever leads.
    pub(crate) fn on_state(
        &mut self,
        from: Contact,
        (sender, to): (Incarnation, Incarnation),
        point: &SnapshotPoint,
        state: &[u8],
        out: &mut MetaEffects,
    ) {
        let seated = self.seated.as_mut();
        let Some(Seated { seat, .. }) = seated.filter(|seated| seated.seat.raft.me() == to) else {
            return;
        };
        if seat.hold(point, state) {
            out.send(
                from,
                MetaMessage::StateHeld {
                    from: to,
                    to: sender,
                    index: point.index,
                    term: point.term,
                },
            );
        }
    }

    /// A member holds the state that it was sent.
    pub(crate) fn on_state_held(
        &mut self,
        member: Incarnation,
        to: Incarnation,
        (index, term): (Index, Term),
        now: Monotonic,
    ) {
        let Some((seat, leader_state)) = self.led() else {
            return;
        };
        if seat.raft.me() != to {
            return;
        }
        if let Some(point) = leader_state.on_filled(member, index, term)
            && !seat.raft.offer_transfer(member, point, now)
        {
            seat.raft.transfer_failed(member);
        }
    }

    /// Takes the seat that the map has for this start, and leaves one that it does not have any more.
    pub(crate) fn on_map(&mut self, map: &RoutingMap, agent: &Agent, now: Monotonic, out: &mut MetaEffects) {
        let Some((node, boot)) = agent.counted() else {
            return;
        };
        // A map from before this start names identities whose memory may be gone.
        let is_of_now = map.nodes.get(&node).is_none_or(|site| site.boot >= boot) || agent.is_forgotten(map);
        if !is_of_now {
            return;
        }
        let own = || map.meta.replicas.iter().filter(|stop| stop.node == node);
        if let Some(Seated { seat, since, .. }) = &self.seated
            && map.epoch > *since
            && !own().any(|stop| stop.incarnation == seat.raft.me())
        {
            self.leave_seat(out);
        }
        let is_current = map.nodes.get(&node).is_some_and(|site| site.boot == boot);
        if self.seated.is_some() || !is_current {
            return;
        }
        if let Some(stop) = own().find(|stop| stop.standing != Standing::Voter) {
            let seed = self.prng.next_u64();
            let seat = Seat::vacant(stop.incarnation, self.times, seed, now);
            self.seated = seat.map(|seat| Seated::new(seat, map.epoch));
        }
    }

    pub(crate) fn leave_seat(&mut self, out: &mut MetaEffects) {
        let Some(Seated { mut seat, .. }) = self.seated.take() else {
            return;
        };
        out.persist.append(&mut seat.take_writes());
        if seat.is_on_disk() {
            self.write += 1;
            out.persist.push(MetaWrite {
                number: self.write,
                record: Record::End,
            });
        }
    }

    // ---- work

    /// Carries out what consensus says; what follows for others is the caller's.
    pub(crate) fn turn(&mut self, now: Monotonic, out: &mut MetaEffects) -> Option<SeatEffects> {
        let Seated { seat, .. } = self.seated.as_mut()?;
        let mut effects = SeatEffects::default();
        seat.turn(&mut self.write, now, &mut effects);
        out.persist.append(&mut seat.take_writes());
        Some(effects)
    }

    /// Leadership of the meta group is another.
    pub(super) fn on_status(&mut self, agent: &Agent, now: Monotonic) -> Option<Leadership> {
        let Seated {
            seat, leader_state, ..
        } = self.seated.as_mut()?;
        let status = seat.raft.status();
        if seat.raft.is_leader() {
            let is_new = leader_state.as_ref().map(|led| led.term) != Some(status.term);
            if is_new {
                *leader_state = Some(LeaderState::new(status.term, now));
            }
            return Some(Leadership::Own { is_new });
        }
        *leader_state = None;
        let leader = status.leader.and_then(|leader| self.node_of(leader, agent));
        Some(Leadership::Other(leader))
    }

    /// To whom the heartbeats of this node go.
    pub(crate) fn claim(&mut self, agent: &Agent, now: Monotonic) {
        let Some(seat) = self.seat() else { return };
        let mut claims: BTreeMap<NodeId, Vec<consensus::Claim>> = BTreeMap::new();
        for claim in seat.raft.claims() {
            if let Some(node) = self.node_of(claim.to, agent) {
                claims.entry(node).or_default().push(claim);
            }
        }
        let (nonce, interval) = (self.nonce, self.times.heartbeat);
        let Some(Seated { beats, .. }) = &mut self.seated else {
            return;
        };
        beats.retain(|node, _| claims.contains_key(node));
        for (node, claims) in claims {
            let beats = beats.entry(node).or_insert_with(|| Beats::new(nonce, interval));
            beats.claim(claims, now);
        }
    }

    /// Sends messages of consensus to members whose place is known.
    pub(crate) fn send_raft(&self, messages: Vec<RaftMessage>, agent: &Agent, out: &mut MetaEffects) {
        for message in messages {
            if let Some(node) = self.node_of(message.to, agent) {
                out.send(Contact::Node(node), MetaMessage::Raft(message));
            }
        }
    }

    pub(crate) fn send_beats(&mut self, now: Monotonic, out: &mut MetaEffects) {
        let beats = self.seated.iter_mut().flat_map(|seated| &mut seated.beats);
        for (&node, beats) in beats {
            if let Some(beat) = beats.beat(now) {
                out.send(Contact::Node(node), MetaMessage::Beat(beat));
            }
        }
    }
}
