//! A program with scripts that is carried out for a while on the thread for offload jobs, as it would hold its worker up.
//!
//! ```text
//!   worker: go_on --> Heavy, before it happens --> waits for its turn --> HeavyRun --> the thread: go_on, for one slice
//!             ^                                          ^                                   |
//!             |                                          +------- Spent, after others <------+
//!             +--- groups have answered <--- Lacks, Asks, Over, Failed, LocksAll <-----------+
//! ```
//!
//! The run moves there with all that it needs, and nothing of it is shared: the program's words, the times of its groups, and an interpreter
//! of its own. What became of it comes back as any offload job does, and its worker goes on with that as if it had carried it out itself. So
//! it is the same machine (`script_run.rs`), with the same bounds; it only asks of no call how long that takes.

use crate::group_times::GroupTimes;
use crate::program::Program;
use crate::script_run::{ProgramRun, RunStopped, Surroundings};
use crate::script_runner::ScriptRunner;
use crate::shared::Shared;
use ids::{Groups, SemanticsVersion, UnixMillis};
use std::sync::Arc;
use txn::TxnId;

/// Instructions that one has before others on that thread have their turn: some ten milliseconds, and what its last call takes.
const SLICE_INSTRUCTIONS: u64 = 1_000_000;

/// See the file's header.
pub(crate) struct HeavyRun {
    pub(crate) txn: TxnId,
    pub(crate) program: Program,
    pub(crate) groups: Groups,
    pub(crate) times: GroupTimes,
    pub(crate) shared: Arc<Shared>,
    pub(crate) began: UnixMillis,
    pub(crate) has_locked_all: bool,
    pub(crate) semantics: SemanticsVersion,
    pub(crate) runner: ScriptRunner,
    /// Whether what is to be installed is sent to other replicas, or logged.
    pub(crate) is_encoded: bool,
    /// What is to go on, and then what became of it.
    pub(crate) state: HeavyState,
}

/// How far a heavy run is.
pub(crate) enum HeavyState {
    Begins(Box<ProgramRun>),
    Stopped(RunStopped),
    /// It is being carried out.
    Runs,
}

impl HeavyRun {
    /// Goes on for one slice.
    pub(crate) fn run(&mut self) {
        let HeavyState::Begins(run) = std::mem::replace(&mut self.state, HeavyState::Runs) else {
            unreachable!("it is carried out once")
        };
        let around = Surroundings {
            groups: self.groups,
            times: &self.times,
            shared: &self.shared,
            began: self.began,
            scope: &self.program.scope,
            has_locked_all: self.has_locked_all,
            semantics: self.semantics,
            is_worker: false,
            steps_max: usize::MAX,
        };
        let mut stopped = run.go_on(&mut self.runner, &self.program, &around, SLICE_INSTRUCTIONS);
        // What has ended here is dropped here.
        match &mut stopped {
            RunStopped::Over(ended) => {
                if self.is_encoded {
                    ended.evaluated.encode();
                }
                drop(ended.scratch.take_lazyfree());
            }
            RunStopped::Waits(run, _) => run.drop_deleted(),
        }
        self.state = HeavyState::Stopped(stopped);
        drop(self.runner.take_large());
    }
}
