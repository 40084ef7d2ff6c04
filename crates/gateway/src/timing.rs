//! How long commands take.
//!
//! ```text
//!  open_span --- GET -- GET -- INCR -- GET ---|--- KEYS * ---|-- GET -- ... --|
//!   clock             a span, shared by four  clock          clock            clock
//! ```
//!
//! A clock costs a tenth of what a small command costs, so it is not read for each one. Time runs on from one reading
//! to the next, so that no command needs two. Commands that take constant time, and those that replace a value unseen,
//! share a *span*: one reading for up to [`SPAN_MAX`] of them, and each is said to have taken an equal part. All others
//! are measured one by one, and so is everything while `slowlog-log-slower-than` is below [`EXACT_BELOW_MICROS`]. With a
//! higher threshold a command of constant time cannot reach it by itself, so a span that does leaves no entry in the
//! slow log; the latency monitor hears of it as `fast-command`.
//!
//! What is measured is the work of the worker, or of the thread for offload jobs, that carries a command out: not the way to
//! another worker, not the wait for a transaction or for a key to be filled. Of a command over several workers it is what
//! its own worker did at once. A command that waits for a key is measured when it has its answer. So is a command, or an
//! `EXEC`, on groups with replicas on other nodes: what its client waits for are leaders, majorities, other transactions.

use crate::client::ClientInfo;
use crate::context::Context;
use crate::program::Program;
use crate::slow_log::SlowEntry;
use crate::stats::Counter;
use command::{CommandId, CommandRoute, Flags, Spec, ValueAccess};
use replica::{Journey, Operation, ReplyTo};
use resp::Args;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Commands of one span: with more, one of them that is held up would be hidden by the others.
const SPAN_MAX: usize = 64;

/// Thresholds of the slow log below which every command is measured by itself.
const EXACT_BELOW_MICROS: i64 = 1_000;

/// The running measurement of one worker.
pub(crate) struct Timing {
    /// Nanoseconds since any fixed moment.
    clock: fn() -> u64,
    /// When the running span, or the command being carried out, began.
    since: u64,
    /// The commands of the running span.
    span: Vec<CommandId>,
    /// Every command is measured by itself.
    is_exact: bool,
    /// `latency-tracking`.
    pub(crate) tracks: bool,
    /// The command in hand was carried out here, or will be answered with what groups say: not refused, not queued,
    /// not sent on.
    pub(crate) is_ours: bool,
    /// The command in hand was refused before it was carried out.
    pub(crate) is_refused: bool,
}

/// For whom a command is carried out.
#[derive(Clone, Copy)]
pub(crate) enum Caller<'a> {
    /// A client of this worker.
    Here(&'a ClientInfo),
    /// A client of another one, or one that is to be looked up.
    There {
        /// Its worker.
        worker: u16,
        /// Its place there.
        connection: u64,
    },
}

impl Caller<'_> {
    /// Whoever waits for an answer.
    pub(crate) fn of(reply_to: ReplyTo) -> Caller<'static> {
        Caller::There {
            worker: reply_to.worker,
            connection: reply_to.connection,
        }
    }
}

impl Timing {
    pub(crate) fn new(clock: fn() -> u64) -> Timing {
        Timing {
            clock,
            since: 0,
            span: Vec::with_capacity(SPAN_MAX),
            is_exact: false,
            tracks: true,
            is_ours: false,
            is_refused: false,
        }
    }

    /// Follows `slowlog-log-slower-than`.
    pub(crate) fn set_slow_log(&mut self, slower_than_micros: i64) {
        self.is_exact = (0..EXACT_BELOW_MICROS).contains(&slower_than_micros);
    }

    /// What tells the time, for work that is done elsewhere.
    pub(crate) fn clock(&self) -> fn() -> u64 {
        self.clock
    }

    /// Nanoseconds since any fixed moment.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Nanoseconds since the running span, or the command being carried out, began.
    pub(crate) fn spent(&self) -> u64 {
        self.now().saturating_sub(self.since)
    }

    /// What just took so long is not the work of the commands being measured.
    pub(crate) fn leave_out(&mut self, nanos: u64) {
        self.since += nanos;
    }

    /// Whether a command's time does not depend on how much there is.
    fn is_short(&self, spec: &Spec) -> bool {
        let overwrites = spec.route == CommandRoute::Keys && spec.access == ValueAccess::Overwrites;
        let may_wait = spec.flags.contains(Flags::BLOCKING);
        !self.is_exact && !may_wait && (spec.flags.contains(Flags::FAST) || overwrites)
    }
}

impl Context {
    /// Commands follow.
    #[inline]
    pub(crate) fn open_span(&mut self) {
        self.timing.since = self.timing.now();
    }

    /// No more commands follow for now, or one that is measured by itself.
    #[inline]
    pub(crate) fn close_span(&mut self) {
        if !self.timing.span.is_empty() {
            self.end_span();
        }
    }

    fn end_span(&mut self) {
        let now = self.timing.now();
        let elapsed = now.saturating_sub(self.timing.since);
        self.timing.since = now;
        let share = elapsed / self.timing.span.len() as u64;
        for id in &self.timing.span {
            self.stats.by_command[*id].took(share, self.timing.tracks);
        }
        self.timing.span.clear();
        self.note_event("fast-command", elapsed);
    }

    /// A command is about to be carried out.
    #[inline]
    pub(crate) fn before_command(&mut self, spec: &Spec) {
        (self.timing.is_ours, self.timing.is_refused) = (false, false);
        if !self.timing.is_short(spec) {
            self.close_span();
        }
    }

    /// A command was carried out.
    #[inline]
    pub(crate) fn after_command(&mut self, spec: &'static Spec, args: Args<'_>, caller: Caller<'_>) {
        if !self.timing.is_short(spec) {
            let now = self.timing.now();
            let elapsed = now.saturating_sub(self.timing.since);
            self.timing.since = now;
            return self.note_time(spec, elapsed, args, caller);
        }
        self.timing.span.push(spec.id);
        if self.timing.span.len() == SPAN_MAX {
            self.end_span();
        }
    }

    /// The command in hand waits: its time is noted with its answer. Returns what it took so far.
    pub(crate) fn postpone_time(&mut self) -> u64 {
        self.timing.is_ours = false;
        let now = self.timing.now();
        let elapsed = now.saturating_sub(self.timing.since);
        self.timing.since = now;
        elapsed
    }

    /// Notes the time of one command.
    pub(crate) fn note_time(&mut self, spec: &'static Spec, nanos: u64, args: Args<'_>, caller: Caller<'_>) {
        self.stats.by_command[spec.id].took(nanos, self.timing.tracks);
        let micros = nanos / 1_000;
        if self.is_slow(micros) && !spec.flags.contains(Flags::SKIP_SLOWLOG) {
            self.log_slow(micros, SlowEntry::words(spec, args), caller);
        }
        let is_fast = spec.flags.contains(Flags::FAST);
        self.note_event(if is_fast { "fast-command" } else { "command" }, nanos);
    }

    /// Notes the time of a command or an `EXEC` over groups whose logs decide, from its arrival to its answer. The entry of
    /// an `EXEC` in the slow log has the words of its commands.
    pub(crate) fn note_program(&mut self, program: &Program, nanos: u64, reply_to: ReplyTo) {
        let caller = Caller::of(reply_to);
        if !program.is_exec {
            if let Some(operation) = program.operations().next() {
                let (spec, args) = operation.argv();
                self.note_time(spec, nanos, args, caller);
            }
            return;
        }
        let exec = CommandId::Exec.spec();
        self.stats.by_command[exec.id].took(nanos, self.timing.tracks);
        let micros = nanos / 1_000;
        if self.is_slow(micros) {
            let commands = program.operations().map(Operation::argv);
            self.log_slow(micros, SlowEntry::words_of_exec(commands), caller);
        }
        self.note_event("command", nanos);
    }

    /// Whether what took so long gets an entry in the slow log.
    fn is_slow(&self, micros: u64) -> bool {
        let slower_than = self.settings.slowlog_log_slower_than_micros;
        u64::try_from(slower_than).is_ok_and(|least| micros >= least)
    }

    /// A command was answered by its group's leader, wherever that is: it took as long as it waited for the answer.
    pub(crate) fn note_journey(&mut self, journey: &Journey, reply: &[u8], info: &ClientInfo) {
        let Journey {
            spec,
            took,
            argv: words,
        } = journey;
        if reply.first().is_none_or(|&first| first == b'-') {
            self.stats.by_command[spec.id].failed.add(1);
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.stats.by_command[spec.id].took(nanos, self.timing.tracks);
        let is_told = !spec.flags.contains(Flags::SKIP_SLOWLOG);
        let words = words.as_ref().filter(|_| is_told);
        if let Some(words) = words.and_then(|words| words.look(|args| SlowEntry::words(spec, args))) {
            self.log_slow(nanos / 1_000, words, Caller::Here(info));
        }
        let is_fast = spec.flags.contains(Flags::FAST);
        self.note_event(if is_fast { "fast-command" } else { "command" }, nanos);
    }

    fn log_slow(&mut self, micros: u64, words: Vec<Vec<u8>>, caller: Caller<'_>) {
        let describe = |info: &ClientInfo| (info.address.to_string(), info.labels().name.clone());
        let (address, name) = match caller {
            Caller::Here(info) => describe(info),
            Caller::There { worker, connection } => {
                // It may have ended meanwhile.
                let found = self.shared.clients.at(worker, connection);
                found.map_or_else(Default::default, |info| describe(&info))
            }
        };
        let entry = SlowEntry {
            id: self.shared.slow_entries.fetch_add(1, Ordering::Relaxed),
            at_secs: self.turn.now.0.div_euclid(1_000),
            micros,
            words,
            address,
            name,
        };
        let most = usize::try_from(self.settings.slowlog_max_len).unwrap_or(usize::MAX);
        self.stats.slow_log().push(entry, most);
    }

    /// Tells the latency monitor what an event took, if that is long.
    pub(crate) fn note_event(&mut self, event: &'static str, nanos: u64) {
        let threshold = self.settings.latency_monitor_threshold_millis;
        let millis = nanos / 1_000_000;
        if threshold > 0 && millis >= threshold {
            let now_secs = self.turn.now.0.div_euclid(1_000);
            self.shared.latency().add(event, now_secs, millis);
        }
    }
}

/// How often something took how long: counts in buckets an eighth of a power of two wide.
///
/// One worker counts, anyone reads. The memory comes with the first count.
#[derive(Default)]
pub struct Distribution(OnceLock<Box<[Counter]>>);

/// Buckets in each power of two.
const PARTS: usize = 8;
const PART_BITS: u32 = PARTS.ilog2();
/// Times from 2 to the 36th nanoseconds on, about a minute, count as the longest that is told apart.
const BITS_MAX: u32 = 36;
const BUCKETS: usize = (BITS_MAX - PART_BITS + 1) as usize * PARTS;

impl Distribution {
    /// Counts one time. Only the owning worker may.
    pub fn count(&self, nanos: u64) {
        let buckets = self
            .0
            .get_or_init(|| (0..BUCKETS).map(|_| Counter::default()).collect());
        buckets[bucket(nanos)].add(1);
    }

    /// Forgets all counts. A worker other than the owning one may, but what is counted at the same moment may bring
    /// old counts back: then the owner has to follow.
    pub fn clear(&self) {
        for counter in self.0.get().into_iter().flatten() {
            counter.set(0);
        }
    }

    /// Adds the counts to a sum over workers.
    pub fn add_to(&self, sum: &mut Counts) {
        for (counter, count) in self.0.get().into_iter().flatten().zip(&mut sum.0) {
            *count += counter.get();
        }
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << BITS_MAX) - 1);
    if nanos < PARTS as u64 {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    let part = (nanos >> (exponent - PART_BITS)) as usize % PARTS;
    (exponent - PART_BITS + 1) as usize * PARTS + part
}

/// The time from which on a bucket counts no more.
fn end(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64 + 1;
    }
    let shift = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS + 1) as u64) << shift
}

/// A [`Distribution`] as read.
pub struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Counts {
        Counts(vec![0; BUCKETS])
    }
}

impl Counts {
    /// How many times were counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time, in nanoseconds, that `percent` of the counted ones did not exceed, to an eighth; 0 if there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let total = self.total();
        let wanted = ((total as f64 * percent / 100.0).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return end(bucket) - 1;
            }
        }
        0
    }

    /// How many of the times were at or below each of these bounds, in nanoseconds and ascending, and above the one before; and last how
    /// many were above all. To an eighth.
    pub fn within(&self, bounds: &[u64]) -> Vec<u64> {
        let mut found = vec![0; bounds.len() + 1];
        for (bucket, count) in self.0.iter().enumerate() {
            found[bounds.partition_point(|bound| *bound < end(bucket) - 1)] += count;
        }
        found
    }

    /// Counts of the times up to 1, 2, 4, 8, 16, 33 microseconds and so on, where they differ from the one before. The
    /// bounds are powers of two in units of 1,024 nanoseconds; their names are those that Redis gives them.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mut seen = 0;
        let mut before = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            let bound = end(bucket).next_power_of_two().max(1_024);
            let is_last = end(bucket + 1) > bound;
            if is_last && seen > before {
                found.push(((bound + bound / 128 - 1) / 1_000, seen));
                before = seen;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(times: &[u64]) -> Counts {
        let distribution = Distribution::default();
        times.iter().for_each(|nanos| distribution.count(*nanos));
        let mut counts = Counts::default();
        distribution.add_to(&mut counts);
        counts
    }

    #[test]
    fn a_bucket_holds_times_that_differ_by_an_eighth_at_most() {
        let mut before = 0;
        for nanos in (0..5_000).chain((0..60).map(|shift| 1 << shift)) {
            let at = bucket(nanos);
            assert!(at < BUCKETS);
            assert!(at >= before || nanos < 5_000, "{nanos}");
            before = at;
            if nanos < 1 << BITS_MAX {
                assert!(end(at) > nanos && end(at) - nanos <= nanos / 8 + 1, "{nanos}");
            }
        }
    }

    #[test]
    fn percentiles_are_times_that_were_counted() {
        let counts = counts(&(1..=100).map(|n| n * 1_000_000).collect::<Vec<_>>());
        for (percent, millis) in [(0.0, 1), (50.0, 50), (99.0, 99), (100.0, 100)] {
            let found = counts.percentile(percent);
            let exact = millis * 1_000_000;
            assert!(found >= exact && found <= exact + exact / 8, "{percent}: {found}");
        }
        assert_eq!(Counts::default().percentile(50.0), 0);
    }

    #[test]
    fn times_are_counted_within_bounds() {
        let counts = counts(&[300, 900, 2_000, 30_000, 30_100, 600_000]);
        assert_eq!(counts.within(&[1_000, 20_000, 100_000]), [2, 1, 2, 1]);
    }

    #[test]
    fn bounds_are_named_as_redis_names_them() {
        let counts = counts(&[300, 900, 2_000, 30_000, 30_100, 600_000]);
        assert_eq!(counts.cumulative(), [(1, 2), (2, 3), (33, 5), (1_056, 6)]);
        assert_eq!(counts.total(), 6);
    }
}
