//! Where a gateway stands, which every part of it reads: its worker, the turn, the settings and the cluster as they are now.

use crate::cluster::Layout;
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::timing::Timing;
use crate::topology::Topology;
use bytes::Bytes;
use ids::{Boot, GroupId, Groups, Monotonic, NodeId, Prng, UnixMillis};
use keyspace::EventClasses;
use options::Settings;
use replica::Turn;
use std::ops::Deref;
use std::sync::Arc;
use txn::Participant;

/// See the file's header.
pub(crate) struct Context {
    pub(crate) worker: u16,
    pub(crate) shared: Arc<Shared>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) settings: Followed<Settings>,
    pub(crate) topology: Followed<Topology>,
    pub(crate) groups: Groups,
    /// The cluster as it is known here.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Whether keys may be on other nodes.
    pub(crate) is_spread: bool,
    pub(crate) turn: Turn,
    /// The raw monotonic time, as of this turn.
    pub(crate) now: Monotonic,
    pub(crate) prng: Prng,
    pub(crate) timing: Timing,
    /// The frame of the command that is being carried out, if it is long and need not be copied.
    pub(crate) frame: Option<Bytes>,
}

/// What all workers share and anybody may replace, as this worker has last looked at it.
pub(crate) struct Followed<T> {
    value: Arc<T>,
    version: u64,
}

impl<T> Followed<T> {
    fn new(value: Arc<T>) -> Followed<T> {
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
    pub(crate) fn new(worker: u16, shared: Arc<Shared>, seed: u64) -> Context {
        Context {
            worker,
            stats: shared.workers[usize::from(worker)].clone(),
            settings: Followed::new(shared.settings()),
            topology: Followed::new(shared.topology()),
            groups: shared.groups,
            layout: None,
            is_spread: false,
            turn: Turn {
                number: 0,
                now: UnixMillis(0),
                seed: 0,
                lfu: None,
                notify: EventClasses::default(),
                steps_max: crate::offload::STEPS_MAX,
                answers_bytes_max: shared.hooks.piece_sizes.answers_bytes_max,
                chunk_bytes: shared.hooks.piece_sizes.chunk_bytes,
                semantics: shared.semantics,
            },
            now: Monotonic(0),
            prng: Prng::new(seed),
            timing: Timing::new(shared.hooks.clock),
            frame: None,
            shared,
        }
    }

    /// The cluster as it is known here.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    /// This start of the node, as the cluster counts them; until it is known, as nobody else does.
    pub(crate) fn boot(&self) -> Boot {
        self.layout().map_or(self.shared.boot, |layout| layout.boot)
    }

    pub(crate) fn me(&self) -> NodeId {
        self.layout().expect("a node knows itself before it has peers").me
    }

    /// A group as it takes part in transactions that begin now.
    pub(crate) fn participant(&self, group: GroupId) -> Participant {
        let generation = self.layout().map_or(0, |layout| layout.group(group).generation);
        Participant { group, generation }
    }

    /// The other workers.
    pub(crate) fn other_workers(&self) -> impl Iterator<Item = (u16, &WorkerStats)> {
        let all = (0..).zip(self.shared.workers.iter().map(|stats| &**stats));
        all.filter(|(worker, _)| *worker != self.worker)
    }
}
