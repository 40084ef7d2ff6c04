//! Who leads the meta group, as far as a node knows, and whom it asks.

use super::contact::Contact;
use super::effects::Notice;
use crate::map::RoutingMap;
use crate::node::NODES_MAX;
use consensus::Term;
use ids::{Monotonic, NodeId};
use std::collections::BTreeSet;
use std::time::Duration;

/// After so long without a word of a leader it is said that there is none.
const LEADERLESS_AFTER: Duration = Duration::from_secs(5);

/// See the file's header.
pub(crate) struct LeaderSearch {
    leader: Option<NodeId>,
    has_introducer: bool,
    /// Whom the node knew before this start.
    peers: Vec<NodeId>,
    turn: usize,
    /// When a leader was heard, or none was begun to be missed.
    heard: Monotonic,
    is_leaderless: bool,
    /// The last that was said of leaders.
    told: Option<Notice>,
}

impl LeaderSearch {
    pub(crate) fn new(mut peers: Vec<NodeId>, has_introducer: bool, now: Monotonic) -> LeaderSearch {
        peers.truncate(NODES_MAX);
        LeaderSearch {
            leader: None,
            has_introducer,
            peers,
            turn: 0,
            heard: now,
            is_leaderless: false,
            told: None,
        }
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Whether nothing was heard of a leader for some time.
    pub(crate) fn is_leaderless(&self) -> bool {
        self.is_leaderless
    }

    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        (!self.is_leaderless).then(|| self.heard.after(LEADERLESS_AFTER))
    }

    /// Whether that is news.
    pub(crate) fn set(&mut self, leader: Option<NodeId>) -> bool {
        std::mem::replace(&mut self.leader, leader) != leader
    }

    /// This one does not lead.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.leader = self.leader.filter(|&leader| leader != node);
    }

    /// A leader has answered.
    pub(crate) fn hear(&mut self, now: Monotonic) {
        self.heard = now;
    }

    /// Who leads, or may know who does. The guess and somebody else by turns.
    pub(crate) fn whom_to_ask(
        &mut self,
        tries: u32,
        me: Option<NodeId>,
        is_counted: bool,
        map: Option<&RoutingMap>,
    ) -> Option<Contact> {
        if let Some(leader) = self.leader
            && tries.is_multiple_of(2)
        {
            return Some(Contact::Node(leader));
        }
        // A node that is not started yet may have no link but that to the one that introduces it.
        let introducer = self.has_introducer.then_some(Contact::Introducer);
        if !is_counted && introducer.is_some() {
            return introducer;
        }
        let members = map.into_iter().flat_map(|map| &map.meta.replicas);
        let mut others: BTreeSet<NodeId> = members.map(|stop| stop.node).collect();
        if others.is_empty() || tries % 4 == 3 {
            others.extend(map.into_iter().flat_map(|map| map.nodes.keys()));
            others.extend(&self.peers);
        }
        let others = others.into_iter().filter(|&node| Some(node) != me);
        let mut others: Vec<Contact> = others.map(Contact::Node).collect();
        others.extend(introducer);
        if others.is_empty() {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        others.get(self.turn % others.len()).copied()
    }

    /// What is to be said of leaders, if that is news. `led` is the term in which this node leads; `is_answered` says whether the
    /// leader has answered.
    pub(crate) fn look(
        &mut self,
        led: Option<Term>,
        is_member: bool,
        is_answered: bool,
        now: Monotonic,
    ) -> Option<Notice> {
        if led.is_some() {
            self.heard = now;
        }
        self.is_leaderless = now.since(self.heard) >= LEADERLESS_AFTER;
        let notice = match (led, self.leader) {
            (Some(term), _) => Notice::Leads { term: term.0 },
            // Who is no member yet knows of no group that others lead or do not.
            (None, _) if self.is_leaderless && is_member => Notice::Leaderless,
            // Only one that has answered.
            (None, Some(leader)) if is_answered => Notice::Follows { leader },
            (None, _) => return None,
        };
        (self.told.replace(notice) != Some(notice)).then_some(notice)
    }
}
