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
//! others, as does any node that is asked for what it does not know: what any node in reach knows, all do. Of a long script (below) `SCRIPT
//! LOAD` is answered when this node knows it: if the node is lost before another one has asked, it is unknown.
//!
//! A long source is compiled on the thread for offload jobs, and whoever sent it waits (`seeking.rs`).
//!
//! Each worker keeps those that it has met, compiled, so that no lock is taken on the way of a command. That of the node is
//! taken for what a worker meets for the first time.

use crate::library_command::RunningFunction;
use crate::library_keys::Stamp;
use crate::library_set::MetLibraries;
use crate::offload::OffloadJob;
use crate::script_runner::ScriptRunner;
use crate::shared::held;
use crate::short_script::CallRoom;
use command::CommandId;
use ids::UnixMillis;
use resp::Args;
use script::{CompiledScript, Interpreter, Lua, Purpose, Script, Shebang, sha1_hex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Scripts that a node keeps. At the limit those that came with `EVAL` are forgotten, the first ones first; where all were
/// loaded, no more are kept.
const SCRIPTS_MAX: usize = 4_096;

/// Bytes of their sources, in the same way.
const SOURCE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of one source. A longer one is refused.
const ONE_SOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of a source that a worker compiles itself: one or two milliseconds.
const COMPILED_HERE_BYTES_MAX: usize = 32 * 1024;

/// Long sources of which it is remembered that they do not compile: more than one program sends at once.
const WRONG_MAX: usize = 16;

/// Bytes that may wait to be dropped on the thread for offload jobs: what comes on top of that is dropped at once. More than all
/// scripts of a worker may have made.
const DROPPING_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// Bytes of a run that are dropped where it ends.
pub(crate) const DROPPED_HERE_BYTES_MAX: usize = 1024 * 1024;

/// Scripts that a worker keeps. At the limit it forgets all that it has met.
const MET_MAX: usize = 4_096;

/// How often a script that could not be carried out at once begins as a program, at most, before that is tried again: what it did was done
/// in vain. Once at first, as the next time it may be on other keys, and twice as often each time that it fails again.
const PUT_OFF_MAX: u8 = 32;

/// Tries behind which it is forgotten that one failed.
const TRIES: u8 = 4;

/// Bytes of the source that is compared with the next one. A longer one is looked for by its digits.
const LAST_BYTES_MAX: usize = 16 * 1024;

/// What a script or a function says of itself that does not write.
pub(crate) const NO_WRITES: &str = "no-writes";

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
    pub(crate) libraries_seen: LibrariesSeen,
    /// `DEBUG SET-DISABLE-DENY-SCRIPTS`: scripts may call `DEBUG PROTOCOL`.
    pub(crate) may_debug: AtomicBool,
    /// What any worker has read of libraries of functions.
    pub(crate) libraries: Mutex<MetLibraries>,
    long_runs: Mutex<LongRuns>,
}

/// How many libraries and functions there are, and bytes of their sources, as a group of this node has them: for `INFO`. Whichever
/// worker has looked last.
#[derive(Default)]
pub(crate) struct LibrariesSeen([AtomicU64; 3]);

impl LibrariesSeen {
    pub(crate) fn set(&self, stamp: Option<&Stamp>) {
        let counts = stamp.map_or([0; 3], |stamp| [stamp.libraries, stamp.functions, stamp.bytes]);
        for (seen, count) in self.0.iter().zip(counts) {
            seen.store(count, Ordering::Relaxed);
        }
    }

    /// Libraries, functions, bytes.
    pub(crate) fn get(&self) -> [u64; 3] {
        [0, 1, 2].map(|at| self.0[at].load(Ordering::Relaxed))
    }
}

/// Runs that have gone on for long, which `SCRIPT KILL` or `FUNCTION KILL` ends. Bounded by the runs that there may be.
#[derive(Default)]
struct LongRuns {
    begun: u64,
    runs: BTreeMap<u64, (LongRunOf, Arc<AtomicBool>)>,
}

/// What runs for long.
#[derive(Clone, Debug)]
pub(crate) enum LongRunOf {
    /// A script, or an `EXEC` with several.
    Script,
    /// A function: its name and the words that called it, and when.
    Function {
        name: Arc<[u8]>,
        words: Vec<Arc<[u8]>>,
        began: UnixMillis,
    },
}

impl LongRunOf {
    fn is_function(&self) -> bool {
        matches!(self, LongRunOf::Function { .. })
    }
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
    pub(crate) fn begin(shared: &Arc<crate::shared::Shared>, of: LongRunOf) -> LongRun {
        let mut runs = held(&shared.scripts.long_runs);
        runs.begun += 1;
        let (number, is_killed) = (runs.begun, Arc::new(AtomicBool::new(false)));
        runs.runs.insert(number, (of, is_killed.clone()));
        LongRun {
            scripts: shared.clone(),
            number,
            is_killed,
        }
    }

    /// Whether somebody ends it.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        held(&self.scripts.scripts.long_runs).runs.remove(&self.number);
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

    /// Whether what a command runs says of itself that it writes nothing. Of a function it is what this node has last heard of it.
    pub(crate) fn says_no_writes(&self, id: CommandId, args: Args<'_>) -> bool {
        let says = |shebang: Option<&Shebang>| {
            shebang.is_some_and(|shebang| shebang.flags.iter().any(|flag| flag == NO_WRITES))
        };
        match id {
            CommandId::Eval => {
                Shebang::parse(args.arg(1), Purpose::Script).is_ok_and(|(shebang, _)| says(shebang.as_ref()))
            }
            CommandId::EvalSha => sha1_of(args.arg(1)).is_some_and(|sha1| {
                let known = held(&self.known);
                let script = known.scripts.get(&sha1).map(|known| &known.script);
                script.is_some_and(|script| says(script.shebang()))
            }),
            CommandId::FCall => held(&self.libraries).last().is_some_and(|set| {
                let function = set.function(args.arg(1));
                function.is_some_and(|(_, function)| {
                    function
                        .flags
                        .iter()
                        .any(|flag| &flag[..] == NO_WRITES.as_bytes())
                })
            }),
            _ => false,
        }
    }

    /// `SCRIPT FLUSH`.
    pub(crate) fn flush(&self) {
        *held(&self.known) = Known::default();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// `SCRIPT KILL` or `FUNCTION KILL`: how many runs end by it.
    pub(crate) fn kill(&self, functions: bool) -> usize {
        let runs = held(&self.long_runs);
        let meant = runs.runs.values().filter(|(of, _)| of.is_function() == functions);
        meant
            .filter(|(_, is_killed)| !is_killed.swap(true, Ordering::Relaxed))
            .count()
    }

    /// The function that has run for longest.
    pub(crate) fn running_function(&self, now: UnixMillis) -> Option<RunningFunction> {
        let runs = held(&self.long_runs);
        runs.runs.values().find_map(|(of, _)| match of {
            LongRunOf::Script => None,
            LongRunOf::Function { name, words, began } => Some(RunningFunction {
                name: name.clone(),
                words: words.clone(),
                millis: (now.0 - began.0).max(0),
            }),
        })
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
pub(crate) struct WorkerScripts {
    pub(crate) runner: ScriptRunner,
    /// Functions that named keys which were not declared, when they ran here; in small letters.
    roaming_functions: BTreeSet<Vec<u8>>,
    met: BTreeMap<Sha1, Met>,
    /// What came last with `EVAL`: mostly it comes again, and to compare it takes less than its digits.
    last: Option<(Box<[u8]>, Script)>,
    /// Scripts and functions, by their digits and names, that could not be carried out at once.
    put_off: BTreeMap<Box<[u8]>, PutOff>,
    /// For those that are carried out at once.
    pub(crate) room: CallRoom,
    /// The last long sources that did not compile, with their errors: whoever waited for one looks here.
    wrong: VecDeque<(Sha1, Vec<u8>)>,
    /// The long source that came last, with its digits.
    last_long: Option<(Box<[u8]>, Sha1)>,
    /// Bytes of what is to be dropped on the thread for offload jobs, and was not yet.
    dropping_bytes: usize,
    /// Of [`SharedScripts`].
    version: u64,
}

/// Whether a source is compiled elsewhere.
pub(crate) fn is_long_source(source: &[u8]) -> bool {
    source.len() > COMPILED_HERE_BYTES_MAX
}

/// What a source came to.
#[derive(Debug)]
pub(crate) enum Sourced {
    /// It is known, compiled.
    Known(Script),
    /// It is to be compiled elsewhere first ([`Compilation`]).
    Long,
}

/// A long source that is compiled on another thread.
pub(crate) struct Compilation {
    sha1: Sha1,
    source: Box<[u8]>,
    is_loaded: bool,
    outcome: Option<Result<Script, Vec<u8>>>,
}

impl Compilation {
    /// Does it.
    pub(crate) fn run(&mut self) {
        self.outcome = Some(Lua::default().compile(&self.source));
    }
}

/// A script that could not be carried out at once.
#[derive(Default)]
struct PutOff {
    /// How often that is not tried, and how often it was not when it had failed last.
    left: u8,
    times: u8,
    /// How often it was tried since.
    tries: u8,
}

#[derive(Clone)]
struct Met {
    script: Script,
    /// Whether it named keys that were not declared, when it ran here.
    roams: bool,
}

const TOO_LONG: &[u8] = b"ERR the script is longer than 4 MiB";
const LONG_IN_BLOCK: &[u8] =
    b"ERR a script of more than 32 KiB cannot be loaded in a transaction; load it before";

/// There is no room for a script that was to be loaded.
pub(crate) const FULL: &[u8] = b"OOM too many scripts are loaded; SCRIPT FLUSH forgets them";

impl WorkerScripts {
    /// None. `seed` decides where random numbers of scripts begin.
    pub(crate) fn new(seed: u64) -> WorkerScripts {
        WorkerScripts {
            runner: ScriptRunner::new(seed),
            roaming_functions: BTreeSet::new(),
            met: BTreeMap::new(),
            last: None,
            put_off: BTreeMap::new(),
            room: CallRoom::default(),
            wrong: VecDeque::new(),
            last_long: None,
            dropping_bytes: 0,
            version: 0,
        }
    }

    /// What is to have so many bytes dropped on the thread for offload jobs; `None` if much waits for that already.
    pub(crate) fn drop_elsewhere(&mut self, what: Box<dyn Send>, bytes: usize) -> Option<OffloadJob> {
        let has_room = self.dropping_bytes.saturating_add(bytes) <= DROPPING_BYTES_MAX;
        has_room.then(|| {
            self.dropping_bytes += bytes;
            OffloadJob::dropped(what, bytes)
        })
    }

    /// Bytes of what may be dropped there besides.
    pub(crate) fn room_to_drop(&self) -> usize {
        DROPPING_BYTES_MAX.saturating_sub(self.dropping_bytes)
    }

    /// So many were dropped there.
    pub(crate) fn on_dropped(&mut self, bytes: usize) {
        self.dropping_bytes -= bytes;
    }

    /// It could not be carried out at once, and is as it is. So for a while that is not tried.
    pub(crate) fn put_off(&mut self, name: &[u8]) {
        if self.put_off.len() >= MET_MAX {
            self.put_off.clear();
        }
        let put_off = self.put_off.entry(name.into()).or_default();
        put_off.times = (2 * put_off.times + 1).min(PUT_OFF_MAX);
        (put_off.left, put_off.tries) = (put_off.times, 0);
    }

    /// Whether there is any such one.
    #[inline]
    pub(crate) fn puts_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// Whether it is not to be carried out at once this time.
    pub(crate) fn is_put_off(&mut self, name: &[u8]) -> bool {
        let Some(put_off) = self.put_off.get_mut(name) else {
            return false;
        };
        if put_off.left > 0 {
            put_off.left -= 1;
            return true;
        }
        put_off.tries += 1;
        if put_off.tries == TRIES {
            self.put_off.remove(name);
        }
        false
    }

    fn follow(&mut self, shared: &SharedScripts) {
        let version = shared.version.load(Ordering::Acquire);
        if self.version != version || self.met.len() >= MET_MAX {
            self.version = version;
            self.met.clear();
            self.last = None;
        }
    }

    /// The script of a source, which is known from here on, unless it is long.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn of_source(&mut self, shared: &SharedScripts, source: &[u8]) -> Result<Sourced, Vec<u8>> {
        self.follow(shared);
        if let Some((last, script)) = &self.last
            && **last == *source
        {
            return Ok(Sourced::Known(script.clone()));
        }
        let (_, sourced) = self.know(shared, source, false)?;
        if let (Sourced::Known(script), true) = (&sourced, source.len() <= LAST_BYTES_MAX) {
            self.last = Some((source.into(), script.clone()));
        }
        Ok(sourced)
    }

    /// What is to be done elsewhere for a long source, or nothing: it is short, or known by now, or wrong.
    pub(crate) fn compilation(
        &mut self,
        shared: &SharedScripts,
        source: &[u8],
        is_loaded: bool,
    ) -> Option<Compilation> {
        if !is_long_source(source) {
            return None;
        }
        match self.know(shared, source, is_loaded) {
            Ok((sha1, Sourced::Long)) => Some(Compilation {
                sha1,
                source: source.into(),
                is_loaded,
                outcome: None,
            }),
            Ok((_, Sourced::Known(_))) | Err(_) => None,
        }
    }

    /// A long source was compiled: it is known from here on, or wrong.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn on_compiled(
        &mut self,
        shared: &SharedScripts,
        compilation: Compilation,
    ) -> Result<Sha1, Vec<u8>> {
        let Compilation {
            sha1,
            source,
            is_loaded,
            outcome,
        } = compilation;
        let outcome = outcome.unwrap_or_else(|| self.runner.lua.compile(&source));
        let script = outcome.inspect_err(|error| {
            self.wrong.truncate(WRONG_MAX - 1);
            self.wrong.push_front((sha1, error.clone()));
        })?;
        let is_kept = shared.keep(sha1, &script, &source, is_loaded);
        self.meet(sha1, script);
        match is_kept {
            true => Ok(sha1),
            false => Err(FULL.to_vec()),
        }
    }

    /// `SCRIPT LOAD`: the digits by which it is known.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn load(&mut self, shared: &SharedScripts, source: &[u8]) -> Result<Sha1, Vec<u8>> {
        let (sha1, Sourced::Known(script)) = self.know(shared, source, true)? else {
            return Err(LONG_IN_BLOCK.to_vec());
        };
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
    ) -> Result<(Sha1, Sourced), Vec<u8>> {
        self.follow(shared);
        if source.len() > ONE_SOURCE_BYTES_MAX {
            return Err(TOO_LONG.to_vec());
        }
        let sha1 = self.digits_of(source);
        if let Some(met) = self.met.get(&sha1) {
            return Ok((sha1, Sourced::Known(met.script.clone())));
        }
        if let Some((_, error)) = self.wrong.iter().find(|(wrong, _)| *wrong == sha1) {
            return Err(error.clone());
        }
        let known = held(&shared.known)
            .scripts
            .get(&sha1)
            .map(|known| known.script.clone());
        let script = match known {
            Some(script) => script,
            None if is_long_source(source) => return Ok((sha1, Sourced::Long)),
            None => self.runner.lua.compile(source)?,
        };
        shared.keep(sha1, &script, source, is_loaded);
        self.meet(sha1, script.clone());
        Ok((sha1, Sourced::Known(script)))
    }

    /// The digits of a source. Of a long one they are asked for several times before it runs, and take milliseconds.
    fn digits_of(&mut self, source: &[u8]) -> Sha1 {
        if let Some((long, sha1)) = &self.last_long
            && **long == *source
        {
            return *sha1;
        }
        let sha1 = sha1_of(sha1_hex(source).as_bytes()).expect("a SHA-1 has forty digits");
        if is_long_source(source) {
            self.last_long = Some((source.into(), sha1));
        }
        sha1
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

    /// A function has done so.
    pub(crate) fn note_roaming_function(&mut self, name: &[u8]) {
        if self.roaming_functions.len() >= MET_MAX {
            self.roaming_functions.clear();
        }
        self.roaming_functions.insert(name.to_ascii_lowercase());
    }

    /// Whether it has done so before, on this worker.
    pub(crate) fn function_roams(&self, name: &[u8]) -> bool {
        !self.roaming_functions.is_empty() && self.roaming_functions.contains(&name.to_ascii_lowercase())
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
        let mut worker = WorkerScripts::new(0);
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
    fn what_fails_again_and_again_is_tried_more_rarely() {
        let mut worker = WorkerScripts::new(0);
        let skipped = |worker: &mut WorkerScripts| {
            let skipped = (0..100).take_while(|_| worker.is_put_off(b"x")).count();
            worker.put_off(b"x");
            skipped
        };
        let seen: Vec<usize> = (0..8).map(|_| skipped(&mut worker)).collect();
        assert_eq!(seen, [0, 1, 3, 7, 15, 31, 32, 32]);
        let tries = (0..100).filter(|_| !worker.is_put_off(b"x")).count();
        assert_eq!(tries, 100 - 32);
        assert!(!worker.puts_off(), "it has not failed since");
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
        let of_function = LongRunOf::Function {
            name: b"f"[..].into(),
            words: Vec::new(),
            began: UnixMillis(3),
        };
        assert_eq!(shared.scripts.kill(false), 0);
        let run = LongRun::begin(&shared, LongRunOf::Script);
        let function = LongRun::begin(&shared, of_function);
        drop(LongRun::begin(&shared, LongRunOf::Script));
        assert_eq!(shared.scripts.kill(false), 1);
        assert!(run.is_killed() && !function.is_killed());
        assert_eq!(shared.scripts.kill(false), 0, "it is on its way out");
        let running = shared.scripts.running_function(UnixMillis(10));
        assert_eq!(running.map(|running| running.millis), Some(7));
        assert_eq!(shared.scripts.kill(true), 1);
        assert!(function.is_killed());
        drop(function);
        assert!(shared.scripts.running_function(UnixMillis(10)).is_none());
    }
}
