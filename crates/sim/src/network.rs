//! The network between nodes: when a frame arrives. Links carry streams: what is sent arrives in its order, or the link is
//! broken and what was under way is lost.

use crate::clock::{MILLIS, SECONDS};
use crate::swarm::Swarm;
use ids::Prng;
use std::collections::BTreeMap;

/// One direction between two nodes.
struct Path {
    /// Until then nothing passes.
    blocked_until: u64,
    /// How much slower than others it is.
    slowness: u64,
    /// Whether frames come late. One direction of a link may be worse than the other.
    is_congested: bool,
    /// When the latest frame of each stream arrives; those that have come are forgotten.
    latest: BTreeMap<u64, u64>,
}

/// A link between two nodes: up, or down until somebody sets it up again. Each time it is another one.
#[derive(Clone, Copy, Default)]
struct Link {
    life: u32,
    down_until: u64,
}

/// All paths. See the file's header.
pub(crate) struct Network {
    nodes: usize,
    paths: Vec<Path>,
    links: Vec<Link>,
    prng: Prng,
    /// Whether frames are harmed beyond partitions and broken links.
    is_calm: bool,
}

/// A frame's arrival.
pub(crate) struct Arrival {
    pub(crate) at: u64,
    /// Of the link it travels by.
    pub(crate) life: u32,
}

impl Network {
    pub(crate) fn new(nodes: usize, mut prng: Prng) -> Network {
        let paths = (0..nodes * nodes)
            .map(|_| Path {
                blocked_until: 0,
                slowness: if prng.below(12) == 0 {
                    prng.below(20) * MILLIS
                } else {
                    0
                },
                is_congested: prng.below(2) == 0,
                latest: BTreeMap::new(),
            })
            .collect();
        Network {
            nodes,
            paths,
            links: vec![Link::default(); nodes * nodes],
            prng,
            is_calm: true,
        }
    }

    /// From now on frames are harmed. Until then nothing is late.
    pub(crate) fn storm(&mut self) {
        self.is_calm = false;
    }

    /// From now on nothing is late, and all paths are open.
    pub(crate) fn calm(&mut self) {
        self.is_calm = true;
        for path in &mut self.paths {
            path.blocked_until = 0;
            path.slowness = 0;
        }
    }

    /// What becomes of a frame that is sent at `now`: when it arrives, if the link of this life is still there then; none if
    /// there is none now.
    pub(crate) fn send(
        &mut self,
        from: usize,
        to: usize,
        orders: [u64; 2],
        now: u64,
        swarm: &Swarm,
    ) -> Option<Arrival> {
        let link = self.link(from, to);
        if link.down_until > now {
            return None;
        }
        let prng = &mut self.prng;
        let path = &mut self.paths[from * self.nodes + to];
        let is_late =
            !self.is_calm && path.is_congested && swarm.delay.0 > 0 && prng.below(1_000_000) < swarm.delay.0;
        // What is blocked waits, and is sent again.
        let leaves = now.max(path.blocked_until);
        let mut at =
            leaves + swarm.latency.0 + prng.below(swarm.latency.1 - swarm.latency.0 + 1) + path.slowness;
        if is_late {
            at += prng.below(swarm.delay.1);
        }
        path.latest.retain(|_, latest| *latest >= now);
        for order in orders {
            at = at.max(path.latest.get(&order).map_or(0, |latest| latest + 1));
        }
        path.latest.extend(orders.map(|order| (order, at)));
        Some(Arrival { at, life: link.life })
    }

    fn index(&self, a: usize, b: usize) -> usize {
        a.min(b) * self.nodes + a.max(b)
    }

    fn link(&self, a: usize, b: usize) -> Link {
        self.links[self.index(a, b)]
    }

    /// Whether a frame of this life of the link still arrives.
    pub(crate) fn carries(&self, from: usize, to: usize, life: u32, now: u64) -> bool {
        let link = self.link(from, to);
        link.life == life && link.down_until <= now
    }

    /// Breaks a link until `until`: what is under way is lost.
    pub(crate) fn break_link(&mut self, a: usize, b: usize, until: u64) {
        let index = self.index(a, b);
        let link = &mut self.links[index];
        link.life += 1;
        link.down_until = link.down_until.max(until);
        for path in [a * self.nodes + b, b * self.nodes + a] {
            self.paths[path].latest.clear();
        }
    }

    /// Until when a link is down.
    pub(crate) fn down_until(&self, a: usize, b: usize) -> u64 {
        self.link(a, b).down_until
    }

    /// Sets all links up.
    pub(crate) fn mend_links(&mut self) {
        for link in &mut self.links {
            link.down_until = 0;
        }
    }

    /// Draws a partition and puts it in force; what it is called.
    pub(crate) fn partition(&mut self, now: u64) -> &'static str {
        let nodes = self.nodes;
        let until = now + 50 * MILLIS + self.prng.below(3 * SECONDS);
        let one = self.prng.below(nodes as u64) as usize;
        let other = (one + 1 + self.prng.below(nodes as u64 - 1) as usize) % nodes;
        let sides = self.prng.next_u64();
        let side = |node: usize| sides >> node & 1;
        let (name, is_cut): (_, Box<dyn Fn(usize, usize) -> bool>) = match self.prng.below(7) {
            0 => ("one is alone", Box::new(move |a, b| a == one || b == one)),
            1 => ("one is not heard", Box::new(move |a, _| a == one)),
            2 => ("one does not hear", Box::new(move |_, b| b == one)),
            3 => ("two sides", Box::new(move |a, b| side(a) != side(b))),
            4 => (
                "one side does not hear the other",
                Box::new(move |a, b| side(a) < side(b)),
            ),
            5 => (
                "a ring: each hears its neighbours",
                Box::new(move |a, b| (a + 1) % nodes != b && (b + 1) % nodes != a),
            ),
            _ => ("one path", Box::new(move |a, b| (a, b) == (one, other))),
        };
        for a in 0..nodes {
            for b in 0..nodes {
                if a != b && is_cut(a, b) {
                    self.paths[a * nodes + b].blocked_until = until;
                }
            }
        }
        name
    }
}
