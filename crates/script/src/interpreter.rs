//! The interpreter as its host sees it: the trait that it is behind, and what passes through.
//!
//! ```text
//!   compile(source) -> Script        start(chunk, KEYS, ARGV) -> Run
//!
//!              resume(budget)
//!      Run  ------------------->  Yielded       the budget is used up: others have their turn, then resume
//!                                 Large         what comes next takes long by itself: resume where nobody waits
//!                                 Call          carry this out, then resume_with its reply
//!                                 Permission    may this be carried out? then resume_with a whole number
//!                                 Finished      the reply
//!                                 Failed        an error, for the client
//! ```

use std::sync::Arc;

use crate::reply::Reply;
use crate::session::LogLine;

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Bytes of all that it makes. A run that needs more ends with [`ScriptStop::Failed`].
    pub memory_bytes: usize,
}

/// What a script is started with.
#[derive(Clone, Debug, Default)]
pub struct ScriptInput {
    /// `KEYS`.
    pub keys: Vec<Arc<[u8]>>,
    /// `ARGV`.
    pub argv: Vec<Arc<[u8]>>,
    /// Replies to its commands have RESP3's types from the beginning. Scripts begin with those of RESP2.
    pub is_resp3: bool,
    /// Where the numbers of `math.random` begin. With 0 it is where those of a Redis do.
    pub seed: i32,
}

/// Why a run has stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptStop {
    /// The budget is used up.
    Yielded,
    /// What comes next would take long by itself, and is put off ([`Run::put_off_large`]).
    Large,
    /// A command, to be carried out and answered.
    Call {
        /// Its words.
        words: Vec<Arc<[u8]>>,
        /// Its reply is to have the types of RESP3, which the script asked for.
        is_resp3: bool,
    },
    /// A command, of which it is asked whether its user may carry it out: answered with 1 or 0, or an error.
    Permission {
        /// Its words.
        words: Vec<Arc<[u8]>>,
    },
    /// The script has returned.
    Finished(Reply),
    /// It has not, and will not.
    Failed(ScriptFailure),
}

/// What ended a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    /// The error for the client, code first, without the dash; with where it was raised, as Redis says it.
    pub message: Vec<u8>,
    /// It needed more memory than it may have.
    pub is_out_of_memory: bool,
}

/// Source that was compiled: of no run, and shared by all.
pub trait CompiledScript: Clone + Send + Sync {
    /// The digits of the SHA-1 of the source, by which clients name it.
    fn sha1(&self) -> &str;
}

/// An interpreter.
pub trait Interpreter {
    /// What it compiles to.
    type Script: CompiledScript;
    /// What runs it.
    type Run: Run;

    /// Compiles a script.
    ///
    /// # Errors
    /// The error for the client, code first.
    fn compile(&self, source: &[u8]) -> Result<Self::Script, Vec<u8>>;

    /// Begins a run, which does nothing yet.
    fn start(&mut self, chunk: &Self::Script, input: ScriptInput, limits: RunLimits) -> Self::Run;

    /// Takes a run back, finished or not, to begin others faster.
    fn recycle(&mut self, run: Self::Run);
}

/// A script that runs.
pub trait Run {
    /// Goes on for at most so many instructions. What a function of the library does at once may be some more: each
    /// charges for its work, so that the next budget is smaller by that.
    fn resume(&mut self, budget: u64) -> ScriptStop;

    /// Gives the reply that [`ScriptStop::Call`] or [`ScriptStop::Permission`] asked for. The run goes on with the next
    /// [`resume`](Self::resume).
    fn resume_with(&mut self, reply: &Reply);

    /// Whether what takes more than some milliseconds by itself is put off from here on: a text that is long to be read, a table that is large to be
    /// written. The run stops before it with [`ScriptStop::Large`]. It begins without.
    fn put_off_large(&mut self, puts_off: bool);

    /// Instructions so far.
    fn instructions(&self) -> u64;

    /// Bytes that are in use.
    fn memory_bytes(&self) -> usize;

    /// Lines for the log since this was last asked.
    fn take_log(&mut self) -> Vec<LogLine>;
}
