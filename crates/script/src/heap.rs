//! All that a script has made, its size, and the collector that takes it away again.
//!
//! The collector goes in steps, which the machine takes between instructions, so that no script waits for all of its heap to be
//! looked at: white objects were not seen, gray ones were seen and not looked into, black ones were (Dijkstra and others,
//! "On-the-fly Garbage Collection", 1978). A black table into which something is put becomes gray again.
//!
//! A function of the library may hold references that nothing else knows of, and so nothing is collected while one runs. One
//! that finds no room fails with [`Raise::Memory`] and has changed nothing that a script could see; the machine collects
//! everything, and calls it again.
//!
//! Invariants:
//! 1. `used` is the sum of what all objects take, and never above `limit`.
//! 2. No black object holds a white one, coroutines and the stack aside, which are looked at last.

use std::sync::Arc;

use crate::arena::{Arena, Mark};
use crate::code::Prototype;
use crate::raise::Raise;
use crate::strings::Strings;
use crate::table::{Full, Hashed, Steps, StringHashes as _, Table, hashed};
use crate::thread::Thread;
use crate::value::{BoundRef, ClosureRef, StrRef, TableRef, ThreadRef, UpvalRef, Value};

/// A function of a script.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// Which of the loaded ones.
    pub(crate) prototype: u32,
    pub(crate) upvals: Box<[UpvalRef]>,
}

/// A captured variable: on a stack while its block runs, by itself afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upval {
    Open { thread: Option<ThreadRef>, at: u32 },
    Closed(Value),
}

impl Default for Upval {
    fn default() -> Self {
        Self::Closed(Value::Nil)
    }
}

/// A function of the library with what it was made for.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) native: crate::native::Native,
    pub(crate) state: [Value; 3],
}

impl Default for Bound {
    fn default() -> Self {
        Self {
            native: crate::native::Native::Assert,
            state: [Value::Nil; 3],
        }
    }
}

/// A function's code with its constants in this heap.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) prototype: Arc<Prototype>,
    pub(crate) constants: Box<[Value]>,
    /// Those that it makes, among the loaded ones.
    pub(crate) children: Box<[u32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pause,
    Mark,
    SweepStrings(usize),
    Sweep(Kind, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tables,
    Closures,
    Upvals,
    Bounds,
    Threads,
}

#[derive(Clone, Copy, Debug)]
enum Gray {
    Table(TableRef),
    Closure(ClosureRef),
    Bound(BoundRef),
}

/// How many bytes a heap may hold before its first collection.
const FIRST_THRESHOLD: usize = 256 * 1024;

/// Units of work in one step of the collector. A unit is about what looking at one value costs.
const STEP_WORK: usize = 4_096;

/// The collector's state.
#[derive(Debug)]
struct Collector {
    phase: Phase,
    gray: Vec<Gray>,
    /// Tables that were black when something was put into them.
    again: Vec<TableRef>,
    /// Coroutines that are reached; their stacks are looked at last.
    threads: Vec<ThreadRef>,
    white: bool,
    /// Bytes in use at which the next step is due.
    threshold: usize,
    /// Collections that must end before anything else happens.
    forced: u8,
}

/// All objects.
#[derive(Debug)]
pub(crate) struct Heap {
    pub(crate) strings: Strings,
    tables: Arena<Table>,
    closures: Arena<Closure>,
    upvals: Arena<Upval>,
    bounds: Arena<Bound>,
    threads: Arena<Thread>,
    used: usize,
    fixed_bytes: usize,
    limit: usize,
    collector: Collector,
}

/// What is in use whatever the objects say.
pub(crate) trait Roots {
    fn each(&mut self, mark: &mut dyn FnMut(Value));
    /// Clears what stands above the part of the stack that is in use, and reports the captured variables that are open.
    fn clear_unused(&mut self);
    fn open_upvals(&self, mark: &mut dyn FnMut(UpvalRef));
}

impl Heap {
    pub(crate) fn new() -> Self {
        Self {
            strings: Strings::new(),
            tables: Arena::default(),
            closures: Arena::default(),
            upvals: Arena::default(),
            bounds: Arena::default(),
            threads: Arena::default(),
            used: 0,
            fixed_bytes: 0,
            limit: usize::MAX,
            collector: Collector {
                phase: Phase::Pause,
                gray: Vec::new(),
                again: Vec::new(),
                threads: Vec::new(),
                white: false,
                threshold: FIRST_THRESHOLD,
                forced: 0,
            },
        }
    }

    /// Bytes that a run may have, beside what every run begins with.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = self.fixed_bytes.saturating_add(limit);
        self.collector.threshold = self.used.saturating_add(FIRST_THRESHOLD.min(limit / 2));
    }

    pub(crate) fn used(&self) -> usize {
        self.used - self.fixed_bytes
    }

    /// Bytes that may still be taken.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }

    /// Counts bytes that somebody takes beside the objects: stacks, code, what a function of the library has begun.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Raise> {
        if bytes > self.room() {
            return Err(Raise::Memory);
        }
        self.used += bytes;
        Ok(())
    }

    pub(crate) fn give(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    fn white(&self) -> Mark {
        Mark::White(self.collector.white)
    }

    // ---- strings

    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<StrRef, Raise> {
        let white = self.white();
        match self.strings.look_up(bytes, white) {
            Ok(string) => Ok(string),
            Err(hash) => {
                self.take(Strings::bytes_of(bytes.len()))?;
                Ok(self.strings.add(Arc::from(bytes), hash, white))
            }
        }
    }

    /// The same of bytes that are shared with somebody else.
    pub(crate) fn shared_string(&mut self, bytes: &Arc<[u8]>) -> Result<StrRef, Raise> {
        let white = self.white();
        match self.strings.look_up(bytes, white) {
            Ok(string) => Ok(string),
            Err(hash) => {
                self.take(Strings::bytes_of(bytes.len()))?;
                Ok(self.strings.add(Arc::clone(bytes), hash, white))
            }
        }
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<Value, Raise> {
        self.string(bytes).map(Value::Str)
    }

    #[inline]
    pub(crate) fn bytes(&self, string: StrRef) -> &Arc<[u8]> {
        self.strings.bytes(string)
    }

    pub(crate) fn hashed(&self, key: Value) -> Hashed {
        hashed(key, &self.strings)
    }

    // ---- tables

    pub(crate) fn add_table(&mut self, array: usize, hash: usize) -> Result<TableRef, Raise> {
        let nodes = if hash == 0 { 0 } else { hash.next_power_of_two() };
        self.take(Arena::<Table>::BYTES + Table::bytes_of(array, nodes))?;
        let mark = self.white();
        Ok(TableRef(self.tables.add(Table::with_room(array, hash), mark)))
    }

    #[inline]
    pub(crate) fn table(&self, table: TableRef) -> &Table {
        self.tables.get(table.0)
    }

    /// For changes that put no value in.
    pub(crate) fn table_mut(&mut self, table: TableRef) -> &mut Table {
        self.tables.get_mut(table.0)
    }

    #[inline]
    fn barrier(&mut self, table: TableRef) {
        if self.tables.mark(table.0) == Mark::Black && self.collector.phase == Phase::Mark {
            // Looked into once more at the end, and not before: a loop that fills a large table would have it looked
            // into all the time.
            self.tables.set_mark(table.0, Mark::Gray);
            self.collector.again.push(table);
        }
    }

    /// For changes that put values in.
    #[inline]
    pub(crate) fn table_to_fill(&mut self, table: TableRef) -> &mut Table {
        self.barrier(table);
        self.tables.get_mut(table.0)
    }

    pub(crate) fn get(&self, table: TableRef, key: Value) -> Value {
        self.table(table).get(self.hashed(key), self.strings.steps())
    }

    #[inline]
    pub(crate) fn get_number(&self, table: TableRef, n: f64) -> Value {
        self.table(table).get_number(n, self.strings.steps())
    }

    #[inline]
    pub(crate) fn get_index(&self, table: TableRef, index: u32) -> Value {
        self.table(table).get_index(index, self.strings.steps())
    }

    #[inline]
    pub(crate) fn steps(&self) -> &Steps {
        self.strings.steps()
    }

    /// An error if what decodes text meets keys that were made to collide.
    pub(crate) fn check_steps(&self) -> Result<(), Raise> {
        if self.steps().are_too_many() {
            return Err(Raise::Text("too many keys share a place"));
        }
        Ok(())
    }

    pub(crate) fn border(&self, table: TableRef) -> u32 {
        self.table(table).border(self.strings.steps())
    }

    /// The first key with a value behind `key`, with it: `None` if `key` is not of this table, nil at the end.
    pub(crate) fn next(&self, table: TableRef, key: Hashed) -> Option<(Value, Value)> {
        self.table(table).next(key, self.strings.steps())
    }

    #[inline]
    pub(crate) fn get_string(&self, table: TableRef, key: StrRef) -> Value {
        let table = self.table(table);
        table.get_string(key, self.strings.hash_of(key), self.strings.steps())
    }

    /// Puts a value into a table, whatever its metatable says. The key is neither nil nor NaN.
    pub(crate) fn set(&mut self, table: TableRef, key: Value, value: Value) -> Result<(), Raise> {
        self.barrier(table);
        let hashed = hashed(key, &self.strings);
        let room = self.limit.saturating_sub(self.used);
        let object = self.tables.get_mut(table.0);
        let before = object.bytes();
        let result = object.set(hashed, value, &self.strings, room);
        object.absent = 0;
        let after = object.bytes();
        self.used = self.used + after - before;
        result.map_err(Raise::from)
    }

    /// Replaces a value that is there, without looking further.
    #[inline]
    pub(crate) fn replace_string(&mut self, table: TableRef, key: StrRef, value: Value) -> bool {
        let hash = self.strings.hash_of(key);
        self.barrier(table);
        let object = self.tables.get_mut(table.0);
        !object.is_readonly && object.replace_string(key, hash, value, self.strings.steps())
    }

    /// The same of a number in the array.
    #[inline]
    pub(crate) fn replace_number(&mut self, table: TableRef, n: f64, value: Value) -> bool {
        self.barrier(table);
        let object = self.tables.get_mut(table.0);
        !object.is_readonly && object.replace_number(n, value)
    }

    /// Makes room for so many values from 1 on.
    pub(crate) fn reserve_array(&mut self, table: TableRef, length: usize) -> Result<(), Raise> {
        let room = self.room();
        let object = self.tables.get_mut(table.0);
        let before = object.bytes();
        let result = object.reserve_array(length, &self.strings, room);
        let after = object.bytes();
        self.used = self.used + after - before;
        result.map_err(Raise::from)
    }

    // ---- other objects

    pub(crate) fn add_closure(&mut self, closure: Closure) -> Result<ClosureRef, Raise> {
        self.take(Arena::<Closure>::BYTES + closure.upvals.len() * 4)?;
        let mark = self.white();
        Ok(ClosureRef(self.closures.add(closure, mark)))
    }

    #[inline]
    pub(crate) fn closure(&self, closure: ClosureRef) -> &Closure {
        self.closures.get(closure.0)
    }

    pub(crate) fn add_upval(&mut self, upval: Upval) -> Result<UpvalRef, Raise> {
        self.take(Arena::<Upval>::BYTES)?;
        let mark = self.white();
        Ok(UpvalRef(self.upvals.add(upval, mark)))
    }

    #[inline]
    pub(crate) fn upval(&self, upval: UpvalRef) -> Upval {
        *self.upvals.get(upval.0)
    }

    pub(crate) fn set_upval(&mut self, upval: UpvalRef, to: Upval) {
        *self.upvals.get_mut(upval.0) = to;
        // A black one must not hold a white value; the value is what is marked, since there is nothing else in it.
        if self.upvals.mark(upval.0) == Mark::Black
            && self.collector.phase == Phase::Mark
            && let Upval::Closed(value) = to
        {
            self.mark(value);
        }
    }

    pub(crate) fn add_bound(&mut self, bound: Bound) -> Result<BoundRef, Raise> {
        self.take(Arena::<Bound>::BYTES)?;
        let mark = self.white();
        Ok(BoundRef(self.bounds.add(bound, mark)))
    }

    pub(crate) fn bound(&self, bound: BoundRef) -> &Bound {
        self.bounds.get(bound.0)
    }

    /// Changes a number of what it was made for: no reference, or the collector would have to know.
    pub(crate) fn set_bound_number(&mut self, bound: BoundRef, at: usize, n: f64) {
        self.bounds.get_mut(bound.0).state[at] = Value::Number(n);
    }

    pub(crate) fn add_thread(&mut self, thread: Thread) -> Result<ThreadRef, Raise> {
        self.take(Arena::<Thread>::BYTES + thread.bytes())?;
        let mark = self.white();
        Ok(ThreadRef(self.threads.add(thread, mark)))
    }

    pub(crate) fn thread(&self, thread: ThreadRef) -> &Thread {
        self.threads.get(thread.0)
    }

    pub(crate) fn thread_mut(&mut self, thread: ThreadRef) -> &mut Thread {
        self.threads.get_mut(thread.0)
    }

    // ---- collection

    /// True if a step of the collector is due.
    #[inline]
    pub(crate) fn wants_step(&self) -> bool {
        self.used >= self.collector.threshold || self.collector.forced > 0
    }

    /// From now on steps are due until all that is dead now has gone.
    pub(crate) fn collect_everything(&mut self) {
        // A collection that is under way lets live what has died since it began.
        self.collector.forced = if self.collector.phase == Phase::Pause {
            1
        } else {
            2
        };
    }

    fn mark(&mut self, value: Value) {
        let gray = match value {
            Value::Nil | Value::Bool(_) | Value::Number(_) | Value::Native(_) | Value::Null => return,
            Value::Str(string) => return self.strings.mark(string),
            Value::Table(table) => {
                if !matches!(self.tables.mark(table.0), Mark::White(_)) {
                    return;
                }
                self.tables.set_mark(table.0, Mark::Gray);
                Gray::Table(table)
            }
            Value::Closure(closure) => {
                if !matches!(self.closures.mark(closure.0), Mark::White(_)) {
                    return;
                }
                self.closures.set_mark(closure.0, Mark::Gray);
                Gray::Closure(closure)
            }
            Value::Bound(bound) => {
                if !matches!(self.bounds.mark(bound.0), Mark::White(_)) {
                    return;
                }
                self.bounds.set_mark(bound.0, Mark::Gray);
                Gray::Bound(bound)
            }
            Value::Thread(thread) => {
                if matches!(self.threads.mark(thread.0), Mark::White(_)) {
                    self.threads.set_mark(thread.0, Mark::Gray);
                    self.collector.threads.push(thread);
                }
                return;
            }
        };
        self.collector.gray.push(gray);
    }

    fn mark_upval(&mut self, upval: UpvalRef) {
        if !matches!(self.upvals.mark(upval.0), Mark::White(_)) {
            return;
        }
        self.upvals.set_mark(upval.0, Mark::Black);
        match *self.upvals.get(upval.0) {
            Upval::Closed(value) => self.mark(value),
            // Its value is on the stack of a coroutine, which must not go before it.
            Upval::Open { thread, .. } => {
                if let Some(thread) = thread {
                    self.mark(Value::Thread(thread));
                }
            }
        }
    }

    /// Looks into one gray object, and returns the work that it was.
    fn propagate(&mut self) -> usize {
        match self.collector.gray.pop() {
            None => 0,
            Some(Gray::Table(table)) => {
                self.tables.set_mark(table.0, Mark::Black);
                let object = std::mem::take(self.tables.get_mut(table.0));
                if let Some(meta) = object.meta {
                    self.mark(Value::Table(meta));
                }
                object.held().for_each(|value| self.mark(value));
                let work = object.places() + 4;
                *self.tables.get_mut(table.0) = object;
                work
            }
            Some(Gray::Closure(closure)) => {
                self.closures.set_mark(closure.0, Mark::Black);
                let count = self.closures.get(closure.0).upvals.len();
                for at in 0..count {
                    let upval = self.closures.get(closure.0).upvals[at];
                    self.mark_upval(upval);
                }
                count + 2
            }
            Some(Gray::Bound(bound)) => {
                self.bounds.set_mark(bound.0, Mark::Black);
                for value in self.bounds.get(bound.0).state {
                    self.mark(value);
                }
                4
            }
        }
    }

    fn mark_roots(&mut self, roots: &mut dyn Roots) {
        roots.each(&mut |value| self.mark(value));
        roots.open_upvals(&mut |upval| self.mark_upval(upval));
    }

    /// All that must be done in one go: the stacks, which change without telling.
    fn finish_marking(&mut self, roots: &mut dyn Roots) {
        roots.clear_unused();
        self.mark_roots(roots);
        let again = std::mem::take(&mut self.collector.again);
        self.collector.gray.extend(again.into_iter().map(Gray::Table));
        let mut looked_at = 0;
        loop {
            while !self.collector.gray.is_empty() {
                self.propagate();
            }
            let Some(&thread) = self.collector.threads.get(looked_at) else {
                break;
            };
            looked_at += 1;
            let mut object = std::mem::take(self.threads.get_mut(thread.0));
            object.clear_unused();
            object.each(&mut |value| self.mark(value));
            object.open_upvals(&mut |upval| self.mark_upval(upval));
            *self.threads.get_mut(thread.0) = object;
            self.threads.set_mark(thread.0, Mark::Black);
        }
        self.collector.threads.clear();
        self.collector.white = !self.collector.white;
        self.collector.phase = Phase::SweepStrings(0);
    }

    /// One step of the collector; returns the work that it was. The machine is between two instructions.
    pub(crate) fn step(&mut self, roots: &mut dyn Roots) -> usize {
        let mut work = 0;
        while work < STEP_WORK {
            match self.collector.phase {
                Phase::Pause => {
                    self.collector.phase = Phase::Mark;
                    self.mark_roots(roots);
                    work += 64;
                }
                Phase::Mark => {
                    if self.collector.gray.is_empty() {
                        self.finish_marking(roots);
                        work += 256;
                    } else {
                        work += self.propagate();
                    }
                }
                Phase::SweepStrings(bucket) => {
                    if bucket < self.strings.bucket_count() {
                        let dead = Mark::White(!self.collector.white);
                        let freed = self.strings.sweep(bucket, dead, self.white());
                        self.used -= freed;
                        self.collector.phase = Phase::SweepStrings(bucket + 1);
                        work += 2;
                    } else {
                        self.collector.phase = Phase::Sweep(Kind::Tables, self.tables.fixed());
                    }
                }
                Phase::Sweep(kind, at) => work += self.sweep(kind, at, STEP_WORK - work),
            }
            if self.collector.phase == Phase::Pause {
                self.collector.forced = self.collector.forced.saturating_sub(1);
                break;
            }
        }
        // While a collection is under way a step is due with each further kilobytes; it must be faster than the script.
        self.collector.threshold = if self.collector.phase == Phase::Pause {
            let next = self.used + (self.used - self.fixed_bytes).max(FIRST_THRESHOLD);
            // Before the limit, so that a collection begins while there is still room.
            next.min(self.used + self.room() / 2)
        } else {
            self.used + STEP_BYTES
        };
        work
    }

    fn sweep(&mut self, kind: Kind, from: usize, budget: usize) -> usize {
        let dead = Mark::White(!self.collector.white);
        let white = self.white();
        let (length, next_kind) = match kind {
            Kind::Tables => (self.tables.len(), Some(Kind::Closures)),
            Kind::Closures => (self.closures.len(), Some(Kind::Upvals)),
            Kind::Upvals => (self.upvals.len(), Some(Kind::Bounds)),
            Kind::Bounds => (self.bounds.len(), Some(Kind::Threads)),
            Kind::Threads => (self.threads.len(), None),
        };
        let to = length.min(from + budget.max(1));
        for id in from..to {
            let id = id as u32;
            match kind {
                Kind::Tables => match self.tables.mark(id) {
                    mark if mark == dead => {
                        let table = self.tables.remove(id);
                        self.used -= Arena::<Table>::BYTES + table.bytes();
                    }
                    Mark::Black | Mark::Gray => self.tables.set_mark(id, white),
                    _ => {}
                },
                Kind::Closures => match self.closures.mark(id) {
                    mark if mark == dead => {
                        let closure = self.closures.remove(id);
                        self.used -= Arena::<Closure>::BYTES + closure.upvals.len() * 4;
                    }
                    Mark::Black | Mark::Gray => self.closures.set_mark(id, white),
                    _ => {}
                },
                Kind::Upvals => match self.upvals.mark(id) {
                    mark if mark == dead => {
                        self.upvals.remove(id);
                        self.used -= Arena::<Upval>::BYTES;
                    }
                    Mark::Black | Mark::Gray => self.upvals.set_mark(id, white),
                    _ => {}
                },
                Kind::Bounds => match self.bounds.mark(id) {
                    mark if mark == dead => {
                        self.bounds.remove(id);
                        self.used -= Arena::<Bound>::BYTES;
                    }
                    Mark::Black | Mark::Gray => self.bounds.set_mark(id, white),
                    _ => {}
                },
                Kind::Threads => match self.threads.mark(id) {
                    mark if mark == dead => {
                        let thread = self.threads.remove(id);
                        self.used -= Arena::<Thread>::BYTES + thread.bytes();
                    }
                    Mark::Black | Mark::Gray => self.threads.set_mark(id, white),
                    _ => {}
                },
            }
        }
        self.collector.phase = if to < length {
            Phase::Sweep(kind, to)
        } else {
            self.collector.gray.clear();
            match next_kind {
                Some(kind) => Phase::Sweep(kind, self.fixed_of(kind)),
                None => Phase::Pause,
            }
        };
        to - from + 1
    }

    fn fixed_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Tables => self.tables.fixed(),
            Kind::Closures => self.closures.fixed(),
            Kind::Upvals => self.upvals.fixed(),
            Kind::Bounds => self.bounds.fixed(),
            Kind::Threads => self.threads.fixed(),
        }
    }

    /// What is here now is there for every run.
    pub(crate) fn fix(&mut self) {
        self.strings.fix();
        self.tables.fix();
        self.closures.fix();
        self.upvals.fix();
        self.bounds.fix();
        self.threads.fix();
        self.fixed_bytes = self.used;
    }

    /// The strings that are here now are there for every run. Nothing else has been made since the last one.
    pub(crate) fn fix_strings(&mut self) {
        self.strings.fix();
        self.fixed_bytes = self.used;
    }

    /// Forgets a run.
    pub(crate) fn reset(&mut self) {
        self.strings.reset();
        self.tables.reset();
        self.closures.reset();
        self.upvals.reset();
        self.bounds.reset();
        self.threads.reset();
        self.used = self.fixed_bytes;
        self.collector.gray.clear();
        self.collector.again.clear();
        self.collector.threads.clear();
        self.collector.phase = Phase::Pause;
        self.collector.forced = 0;
    }
}

/// Bytes that a script may take between two steps of a collection that is under way.
const STEP_BYTES: usize = 8 * 1024;

impl From<Full> for Raise {
    fn from(full: Full) -> Self {
        match full {
            Full::Memory => Self::Memory,
            Full::Overflow => Self::Text("table overflow"),
        }
    }
}
