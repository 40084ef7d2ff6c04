//! The network between nodes: what becomes of a frame.

use crate::clock::{MILLIS, SECONDS};
use crate::swarm::Swarm;
use ids::Prng;
use std::collections::BTreeMap;

/// Old frames that each direction of a link keeps, to deliver them again; at the limit a random one is replaced.
const OLD_MAX: usize = 32;

/// One direction between two nodes.
struct Path<F> {
    /// Until then nothing passes.
    blocked_until: u64,
    /// How much slower than others it is.
    slowness: u64,
    /// Whether frames come late, or again long after. One direction of a link may be worse than the other.
    is_congested: bool,
    /// When the latest frame of each stream arrives; those that have come are forgotten.
    latest: BTreeMap<u64, u64>,
    old: Vec<F>,
}

/// A link between two nodes: up, or down until somebody sets it up again. Each time it is another one.
#[derive(Clone, Copy, Default)]
struct Link {
    life: u32,
    down_until: u64,
}

/// All paths. See the file's header.
pub(crate) struct Network<F> {
    nodes: usize,
    paths: Vec<Path<F>>,
    links: Vec<Link>,
    prng: Prng,
    /// Whether frames are harmed beyond partitions and broken links.
    is_calm: bool,
}

/// A frame's arrival.
pub(crate) struct Arrival<F> {
    pub(crate) at: u64,
    pub(crate) frame: F,
    /// Of the link it travels by; `None` if it comes whatever became of that.
    pub(crate) life: Option<u32>,
}

impl<F: Clone> Network<F> {
    pub(crate) fn new(nodes: usize, mut prng: Prng) -> Network<F> {
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
                old: Vec::new(),
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

    /// From now on frames are harmed. Until then nothing is lost, late or repeated.
    pub(crate) fn storm(&mut self) {
        self.is_calm = false;
    }

    /// From now on nothing is lost, late or repeated, and all paths are open.
    pub(crate) fn calm(&mut self) {
        self.is_calm = true;
        for path in &mut self.paths {
            path.blocked_until = 0;
            path.slowness = 0;
            path.old.clear();
        }
    }

    /// What becomes of a frame that is sent at `now`: no arrival, one, or several.
    pub(crate) fn send(
        &mut self,
        from: usize,
        to: usize,
        frame: F,
        orders: [u64; 2],
        now: u64,
        swarm: &Swarm,
    ) -> Vec<Arrival<F>> {
        let link = self.link(from, to);
        let prng = &mut self.prng;
        let path = &mut self.paths[from * self.nodes + to];
        let mut arrivals = Vec::new();
        let mut chance = |of: u64| !self.is_calm && of > 0 && prng.below(1_000_000) < of;
        if path.is_congested
            && chance(swarm.replays)
            && let Some(old) = path.old.get(chance_index(now, path.old.len()))
        {
            arrivals.push(Arrival {
                at: now + 20 * MILLIS,
                frame: old.clone(),
                life: None,
            });
        }
        if link.down_until > now {
            return arrivals;
        }
        let (is_lost, is_doubled, is_late) = (
            chance(swarm.loss),
            chance(swarm.duplicates),
            chance(swarm.delay.0),
        );
        if swarm.replays > 0 && !self.is_calm {
            if path.old.len() < OLD_MAX {
                path.old.push(frame.clone());
            } else {
                path.old[chance_index(now, OLD_MAX)] = frame.clone();
            }
        }
        let mut takes =
            || swarm.latency.0 + prng.below(swarm.latency.1 - swarm.latency.0 + 1) + path.slowness;
        let mut at = now + takes();
        if path.blocked_until > now {
            if !swarm.is_stream {
                return arrivals;
            }
            // A stream waits, and sends again.
            at = path.blocked_until + takes();
        }
        let twin = now + takes();
        if is_late && path.is_congested {
            at += prng.below(swarm.delay.1);
        }
        if swarm.is_stream {
            path.latest.retain(|_, latest| *latest >= now);
            for order in orders {
                at = at.max(path.latest.get(&order).map_or(0, |latest| latest + 1));
            }
            path.latest.extend(orders.map(|order| (order, at)));
        }
        if is_doubled {
            arrivals.push(Arrival {
                at: twin,
                frame: frame.clone(),
                life: Some(link.life),
            });
        }
        if !is_lost {
            arrivals.push(Arrival {
                at,
                frame,
                life: Some(link.life),
            });
        }
        arrivals
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

/// Some index below `count`, without drawing from the generator: what is replayed need not be random, only varied.
fn chance_index(now: u64, count: usize) -> usize {
    (now / 1_000 % count.max(1) as u64) as usize
}
