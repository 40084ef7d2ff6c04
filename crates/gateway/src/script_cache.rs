//! The scripts that a node knows, by the SHA-1 of their sources.
//!
//! ```text
//!   EVAL, SCRIPT LOAD --> this node
//!   EVALSHA, SCRIPT EXISTS --> this worker --> this node --> every other node: `seeking.rs`, `fanout.rs`
//!   SCRIPT FLUSH --> every node
//! ```
//!
//! As in Redis, scripts are not kept: a cluster whose nodes have all been started anew knows none, and tells clients `NOSCRIPT`, who
//! send the source again. `SCRIPT LOAD` is answered when every node in reach knows the script. One that was away asks the
//! others, as does any node that is asked for what it does not know: what any node in reach knows, all do.
//!
//! Each worker keeps those that it has met, compiled, so that no lock is taken on the way of a command. That of the node is
//! taken for what a worker meets for the first time.

use crate::shared::held;
use script::{CompiledScript, Interpreter, Lua, Script, sha1_hex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Scripts that a node keeps. At the limit those that came with `EVAL` are forgotten, the first ones first; where all were
/// loaded, no more are kept.
const SCRIPTS_MAX: usize = 4_096;

/// Bytes of their sources, in the same way.
const SOURCE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Scripts that a worker keeps. At the limit it forgets all that it has met.
const MET_MAX: usize = 4_096;

/// The forty digits of a SHA-1, in small letters.
pub(crate) type Sha1 = [u8; 40];

/// The digits as clients send them, if they are any.
pub(crate) fn sha1_of(word: &[u8]) -> Option<Sha1> {
    let mut digits: Sha1 = word.try_into().ok()?;
    digits.make_ascii_lowercase();
    Some(digits)
}

/// What the workers of a node share.
#[derive(Default)]
pub(crate) struct SharedScripts {
    known: Mutex<Known>,
    /// Changes when all are forgotten.
    version: AtomicU64,
    long_runs: Mutex<LongRuns>,
}

/// Runs that have gone on for long, which `SCRIPT KILL` ends. Bounded by the runs that there may be.
#[derive(Default)]
struct LongRuns {
    begun: u64,
    killed: BTreeMap<u64, Arc<AtomicBool>>,
}

#[derive(Default)]
struct Known {
    scripts: BTreeMap<Sha1, KnownScript>,
    /// Those that came with `EVAL`, in the order in which they came; some may be loaded since.
    evaluated: VecDeque<Sha1>,
    source_bytes: usize,
}

struct KnownScript {
    script: Script,
    source: Arc<[u8]>,
    is_loaded: bool,
}

impl Known {
    /// Makes room for a source; `false` if there is none.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.scripts.len() >= SCRIPTS_MAX || self.source_bytes + bytes > SOURCE_BYTES_MAX {
            let Some(first) = self.evaluated.pop_front() else {
                return false;
            };
            if self.scripts.get(&first).is_some_and(|known| !known.is_loaded)
                && let Some(known) = self.scripts.remove(&first)
            {
                self.source_bytes -= known.source.len();
            }
        }
        true
    }
}

/// A run that has gone on for long, for as long as it does.
pub(crate) struct LongRun {
    scripts: Arc<crate::shared::Shared>,
    number: u64,
    is_killed: Arc<AtomicBool>,
}

impl LongRun {
    pub(crate) fn begin(shared: &Arc<crate::shared::Shared>) -> LongRun {
        let mut runs = held(&shared.scripts.long_runs);
        runs.begun += 1;
        let (number, is_killed) = (runs.begun, Arc::new(AtomicBool::new(false)));
        runs.killed.insert(number, is_killed.clone());
        LongRun {
            scripts: shared.clone(),
            number,
            is_killed,
        }
    }

    /// Whether `SCRIPT KILL` ends it.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        held(&self.scripts.scripts.long_runs).killed.remove(&self.number);
    }
}

impl SharedScripts {
    /// How many there are, and bytes of their sources.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let known = held(&self.known);
        (known.scripts.len(), known.source_bytes)
    }

    /// The source of a script.
    pub(crate) fn source(&self, sha1: &Sha1) -> Option<Arc<[u8]>> {
        held(&self.known)
            .scripts
            .get(sha1)
            .map(|known| known.source.clone())
    }

    /// `SCRIPT FLUSH`.
    pub(crate) fn flush(&self) {
        *held(&self.known) = Known::default();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// `SCRIPT KILL`: how many runs end by it.
    pub(crate) fn kill(&self) -> usize {
        let runs = held(&self.long_runs);
        let alive = runs.killed.values();
        alive
            .filter(|is_killed| !is_killed.swap(true, Ordering::Relaxed))
            .count()
    }

    /// Keeps a script. `false`: there is no room for one that was loaded.
    fn keep(&self, sha1: Sha1, script: &Script, source: &[u8], is_loaded: bool) -> bool {
        let mut known = held(&self.known);
        if let Some(known) = known.scripts.get_mut(&sha1) {
            known.is_loaded |= is_loaded;
            return true;
        }
        let before = known.scripts.len();
        let has_room = known.make_room(source.len());
        if known.scripts.len() < before {
            // Workers forget too: else one would go on to run with EVAL what the others do not know by its digits.
            self.version.fetch_add(1, Ordering::Release);
        }
        if !has_room {
            return !is_loaded;
        }
        let kept = KnownScript {
            script: script.clone(),
            source: source.into(),
            is_loaded,
        };
        known.source_bytes += source.len();
        known.scripts.insert(sha1, kept);
        if !is_loaded {
            known.evaluated.push_back(sha1);
        }
        true
    }
}

/// What one worker has met, and what runs it.
#[derive(Default)]
pub(crate) struct WorkerScripts {
    pub(crate) lua: Lua,
    met: BTreeMap<Sha1, Met>,
    /// Of [`SharedScripts`].
    version: u64,
}

#[derive(Clone)]
struct Met {
    script: Script,
    /// Whether it named keys that were not declared, when it ran here.
    roams: bool,
}

/// There is no room for a script that was to be loaded.
pub(crate) const FULL: &[u8] = b"OOM too many scripts are loaded; SCRIPT FLUSH forgets them";

impl WorkerScripts {
    fn follow(&mut self, shared: &SharedScripts) {
        let version = shared.version.load(Ordering::Acquire);
        if self.version != version || self.met.len() >= MET_MAX {
            self.version = version;
            self.met.clear();
        }
    }

    /// The script of a source, which is known from here on.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn of_source(&mut self, shared: &SharedScripts, source: &[u8]) -> Result<Script, Vec<u8>> {
        self.know(shared, source, false).map(|(_, script)| script)
    }

    /// `SCRIPT LOAD`: the digits by which it is known.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn load(&mut self, shared: &SharedScripts, source: &[u8]) -> Result<Sha1, Vec<u8>> {
        let (sha1, script) = self.know(shared, source, true)?;
        match shared.keep(sha1, &script, source, true) {
            true => Ok(sha1),
            false => Err(FULL.to_vec()),
        }
    }

    fn know(
        &mut self,
        shared: &SharedScripts,
        source: &[u8],
        is_loaded: bool,
    ) -> Result<(Sha1, Script), Vec<u8>> {
        self.follow(shared);
        let sha1 = sha1_of(sha1_hex(source).as_bytes()).expect("a SHA-1 has forty digits");
        if let Some(met) = self.met.get(&sha1) {
            return Ok((sha1, met.script.clone()));
        }
        let known = held(&shared.known)
            .scripts
            .get(&sha1)
            .map(|known| known.script.clone());
        let script = match known {
            Some(script) => script,
            None => self.lua.compile(source)?,
        };
        shared.keep(sha1, &script, source, is_loaded);
        self.meet(sha1, script.clone());
        Ok((sha1, script))
    }

    fn meet(&mut self, sha1: Sha1, script: Script) {
        self.met.insert(sha1, Met { script, roams: false });
    }

    /// The script of these digits, if this node knows it.
    pub(crate) fn of_sha1(&mut self, shared: &SharedScripts, sha1: &Sha1) -> Option<Script> {
        self.follow(shared);
        if let Some(met) = self.met.get(sha1) {
            return Some(met.script.clone());
        }
        let script = held(&shared.known).scripts.get(sha1)?.script.clone();
        self.meet(*sha1, script.clone());
        Some(script)
    }

    /// A script has named keys that were not declared.
    pub(crate) fn note_roaming(&mut self, script: &Script) {
        let sha1 = sha1_of(script.sha1().as_bytes());
        if let Some(met) = sha1.and_then(|sha1| self.met.get_mut(&sha1)) {
            met.roams = true;
        }
    }

    /// Whether it has done so before, on this worker.
    pub(crate) fn roams(&self, script: &Script) -> bool {
        let sha1 = sha1_of(script.sha1().as_bytes());
        sha1.and_then(|sha1| self.met.get(&sha1))
            .is_some_and(|met| met.roams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_came_with_eval_make_room_for_others_and_those_that_were_loaded_stay() {
        let shared = SharedScripts::default();
        let mut worker = WorkerScripts::default();
        let loaded = worker.load(&shared, b"return 'loaded'").unwrap();
        let first = b"return 0";
        worker.of_source(&shared, first).unwrap();
        let first = sha1_of(sha1_hex(first).as_bytes()).unwrap();
        assert!(shared.source(&first).is_some());
        for number in 1..SCRIPTS_MAX {
            worker
                .of_source(&shared, format!("return {number}").as_bytes())
                .unwrap();
        }
        assert_eq!(shared.counts().0, SCRIPTS_MAX);
        assert!(shared.source(&first).is_none(), "the oldest went");
        assert!(shared.source(&loaded).is_some());
        shared.flush();
        assert_eq!(shared.counts(), (0, 0));
        assert!(
            worker.of_sha1(&shared, &loaded).is_none(),
            "the worker forgets too"
        );
    }

    #[test]
    fn only_runs_that_are_still_there_are_killed() {
        let settings = options::load(&options::Sources::default()).expect("no option is given");
        let groups = ids::Groups::with_default_partitions(ids::GroupCount::new(1).unwrap());
        let shared = Arc::new(crate::shared::Shared::new(
            ids::Boot(1),
            "run".into(),
            0,
            6379,
            groups,
            1,
            settings,
        ));
        assert_eq!(shared.scripts.kill(), 0);
        let run = LongRun::begin(&shared);
        drop(LongRun::begin(&shared));
        assert_eq!(shared.scripts.kill(), 1);
        assert!(run.is_killed());
        assert_eq!(shared.scripts.kill(), 0, "it is on its way out");
    }
}
