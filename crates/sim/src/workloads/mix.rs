//! How often clients ask for which transactions.

use ids::Prng;

/// Kinds of transactions.
pub(crate) const WORKLOADS: usize = 11;
/// Keys of each workload at most: those of a ring.
const KEYS_MAX: u64 = 6;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mix {
    /// Of a hundred turns of a client, how many are transactions.
    pub(crate) share: u64,
    /// Keys of a workload.
    pub(crate) keys: u64,
    /// How many of a hundred transactions only read.
    pub(crate) reads: u64,
    /// The chances of the workloads.
    pub(crate) weights: [u64; WORKLOADS],
}

impl Mix {
    /// On few keys.
    fn often(reads: u64, weights: [u64; WORKLOADS]) -> Mix {
        Mix {
            share: 90,
            keys: 3,
            reads,
            weights,
        }
    }

    /// Of many workloads, on few keys.
    pub(crate) fn busy(reads: u64) -> Mix {
        Mix::often(reads, [2, 1, 1, 3, 1, 0, 0, 0, 0, 0, 0])
    }

    /// Of the whole keyspace alone.
    pub(crate) fn whole(reads: u64) -> Mix {
        Mix::often(reads, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    }

    /// Of elements alone: no key of them stays for long.
    pub(crate) fn elements(reads: u64) -> Mix {
        Mix::often(reads, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Of named requests alone.
    pub(crate) fn named() -> Mix {
        Mix::often(0, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    }

    /// Of jobs alone.
    pub(crate) fn jobs(reads: u64) -> Mix {
        Mix::often(reads, [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0])
    }

    /// Of scripts alone.
    pub(crate) fn scripts(reads: u64) -> Mix {
        Mix::often(reads, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
    }

    pub(crate) fn draw(prng: &mut Prng) -> Mix {
        let mut weights = [0; WORKLOADS];
        let [others @ .., _, _, _] = &mut weights;
        others.fill_with(|| [0, 1, 1, 4][prng.below(4) as usize]);
        // While one over a whole database is under way, all others wait.
        others[5] = others[5].min(1);
        if others.iter().all(|weight| *weight == 0) {
            others.fill(1);
        }
        let mut mix = Mix {
            share: [0, 10, 50, 90][prng.below(4) as usize],
            keys: 3 + prng.below(KEYS_MAX - 2),
            reads: [10, 30, 60][prng.below(3) as usize],
            weights,
        };
        // What is drawn for jobs changes nothing else.
        mix.weights[WORKLOADS - 3] = [0, 0, 1, 4][prng.below(4) as usize];
        mix
    }

    /// Whether scripts are among the transactions, and how many.
    pub(crate) fn draw_scripts(&mut self, prng: &mut Prng) {
        self.weights[WORKLOADS - 2] = [0, 0, 1, 4][prng.below(4) as usize];
    }

    /// How many of the transactions need the bytes of strings.
    pub(crate) fn draw_strings(&mut self, prng: &mut Prng) {
        self.weights[WORKLOADS - 1] = [1, 4, 8][prng.below(3) as usize];
    }

    /// Whether scripts may be run: those of their own workload, and those that fill a database.
    pub(crate) fn runs_scripts(&self) -> bool {
        self.share > 0 && (self.weights[5] > 0 || self.weights[WORKLOADS - 1] > 0)
    }

    /// Which workload comes next.
    pub(crate) fn draw_workload(&self, prng: &mut Prng) -> usize {
        let total: u64 = self.weights.iter().sum();
        let mut draw = prng.below(total.max(1));
        for (workload, weight) in self.weights.iter().enumerate() {
            if draw < *weight {
                return workload;
            }
            draw -= weight;
        }
        0
    }
}
