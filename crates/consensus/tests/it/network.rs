//! Links that lose, delay, reorder, double and replay what they carry.

use consensus::{Beat, BeatAnswer, RaftMessage, SnapshotPoint};
use ids::Prng;

use crate::node::State;

/// What travels between two nodes.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Raft(RaftMessage),
    Beat(Beat),
    Answer(BeatAnswer),
    /// The whole state as of a point, for a replica.
    Bulk {
        message_to: ids::Incarnation,
        point: SnapshotPoint,
        state: State,
    },
    /// It has arrived there.
    BulkHeld {
        by: ids::Incarnation,
        point: SnapshotPoint,
    },
}

/// How bad a network is, in per mille unless said otherwise. Drawn for each seed, so that some runs have none of a fault
/// and some have much of it.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) double: u64,
    pub(crate) slow: u64,
    pub(crate) slow_ms: u64,
    pub(crate) usual_us: u64,
    pub(crate) replay: u64,
}

impl Weather {
    pub(crate) const CALM: Weather = Weather {
        loss: 0,
        double: 0,
        slow: 0,
        slow_ms: 1,
        usual_us: 500,
        replay: 0,
    };

    pub(crate) fn draw(prng: &mut Prng) -> Weather {
        Weather {
            loss: pick(prng, &[0, 10, 50, 200]),
            double: pick(prng, &[0, 20, 100]),
            slow: pick(prng, &[0, 10, 50, 150]),
            slow_ms: pick(prng, &[50, 500, 3_000]),
            usual_us: pick(prng, &[200, 2_000, 20_000]),
            replay: pick(prng, &[0, 5, 20]),
        }
    }

    /// After how many nanoseconds each copy of a packet arrives.
    pub(crate) fn copies(&self, prng: &mut Prng) -> Vec<u64> {
        let mut copies = Vec::new();
        if !chance(prng, self.loss) {
            copies.push(self.delay(prng));
        }
        if chance(prng, self.double) {
            copies.push(self.delay(prng));
        }
        if chance(prng, self.replay) {
            // Very late: whoever sent it may be another one by then.
            copies.push(1_000_000 * (200 + prng.below(6_000)));
        }
        copies
    }

    fn delay(&self, prng: &mut Prng) -> u64 {
        if chance(prng, self.slow) {
            prng.below(self.slow_ms * 1_000_000)
        } else {
            50_000 + prng.below(self.usual_us * 1_000)
        }
    }
}

pub(crate) fn chance(prng: &mut Prng, per_mille: u64) -> bool {
    prng.below(1_000) < per_mille
}

pub(crate) fn pick(prng: &mut Prng, choices: &[u64]) -> u64 {
    choices[prng.below(choices.len() as u64) as usize]
}
