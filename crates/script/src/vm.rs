//! A run: the machine's state, and what functions of the library see of it.
//!
//! Calls of functions of scripts never nest on the stack of this process, nor do those of the library that call back: what they
//! wait for is a frame ([`Waiting`]). That is why a run can stop anywhere and go on later.

use std::sync::Arc;

use crate::code::{Constant, Prototype};
use crate::drive::Action;
use crate::heap::{Closure, Heap, Loaded, Roots, Upval};
use crate::lexer::chunk_id;
use crate::native::Native;
use crate::raise::Raise;
use crate::random::Random;
use crate::session::Session;
use crate::thread::{Call, Status, Thread, Waiting, registers_of};
use crate::value::{ClosureRef, StrRef, TableRef, ThreadRef, UpvalRef, Value};

/// Calls within each other in one coroutine.
pub(crate) const CALLS_MAX: usize = 20_000;

/// Calls of functions of the library within each other, where one waits for the other.
pub(crate) const NATIVES_MAX: u32 = 200;

/// Places of the stack of one coroutine.
const STACK_MAX: usize = 1_000_000;

/// Steps for each byte of a text that is read as a number.
const STEPS_PER_DIGIT: u64 = 2;

/// Values that a call may take from a table, or give back.
pub(crate) const VALUES_MAX: usize = 8_000;

/// Values that a function of the library looks at before it is put off, where the host wants that: less than a millisecond.
pub(crate) const VALUES_AT_ONCE: usize = 8 * 1024;

/// Bytes that it copies or makes before it is.
pub(crate) const BYTES_AT_ONCE: usize = 256 * 1024;

/// Bytes of a text that is read value by value, or compiled, before it is: two or three milliseconds.
pub(crate) const PARSED_AT_ONCE: usize = 32 * 1024;

/// What is wrong with changing a table of Redis.
pub(crate) const READONLY: &str = "Attempt to modify a readonly table";

/// Events that a metatable may handle, as the first strings of every heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Index,
    NewIndex,
    Equal,
    Call,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Minus,
    Less,
    LessEqual,
    Concat,
    Tostring,
    Metatable,
    // Names that the library uses all the time.
    Err,
    Ok,
    N,
}

impl Event {
    pub(crate) const NAMES: &'static [&'static str] = &[
        "__index",
        "__newindex",
        "__eq",
        "__call",
        "__add",
        "__sub",
        "__mul",
        "__div",
        "__mod",
        "__pow",
        "__unm",
        "__lt",
        "__le",
        "__concat",
        "__tostring",
        "__metatable",
        "err",
        "ok",
        "n",
    ];

    pub(crate) fn name(self) -> StrRef {
        StrRef(self as u32)
    }
}

/// Tables that are there for every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) globals: TableRef,
    /// What a library sees instead while it is loaded.
    pub(crate) load_globals: TableRef,
    /// What its functions see.
    pub(crate) function_globals: TableRef,
    /// The one of these that is seen now.
    pub(crate) visible: TableRef,
    pub(crate) string_meta: TableRef,
    pub(crate) keys: StrRef,
    pub(crate) argv: StrRef,
}

/// The coroutine that runs, and those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Coroutines {
    /// `None` is the script itself.
    pub(crate) current: Option<ThreadRef>,
    pub(crate) resumers: Vec<(Option<ThreadRef>, Thread)>,
}

/// Where an error was raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) source: Arc<[u8]>,
    pub(crate) line: i64,
}

/// Instructions that are left, and those that were carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fuel {
    pub(crate) left: i64,
    pub(crate) given: u64,
}

impl Fuel {
    pub(crate) fn used(&self) -> u64 {
        self.given.saturating_add_signed(-self.left)
    }
}

/// A run.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) heap: Heap,
    pub(crate) loaded: Vec<Loaded>,
    /// Their code, which stays here while the machine has the rest.
    pub(crate) prototypes: Vec<Arc<Prototype>>,
    pub(crate) thread: Thread,
    pub(crate) coroutines: Coroutines,
    pub(crate) tables: Tables,
    /// Arguments or results on their way.
    pub(crate) values: Vec<Value>,
    pub(crate) random: Random,
    pub(crate) session: Session,
    pub(crate) fuel: Fuel,
    pub(crate) site: Option<Site>,
    /// KEYS, ARGV and what the host keeps.
    pub(crate) pinned: Vec<Value>,
    /// A call that was put off because the budget was used up.
    pub(crate) put_off: Option<Action>,
    /// Whether the host wants what takes long put off.
    pub(crate) puts_off_large: bool,
}

/// The arguments of a function of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    /// The function itself; the arguments are behind it.
    pub(crate) base: usize,
    pub(crate) count: usize,
}

struct RunRoots<'a> {
    thread: &'a mut Thread,
    coroutines: &'a Coroutines,
    values: &'a [Value],
    pinned: &'a [Value],
    loaded: &'a [Loaded],
    extent: usize,
}

impl Roots for RunRoots<'_> {
    fn each(&mut self, mark: &mut dyn FnMut(Value)) {
        let extent = self.extent;
        self.thread.stack[..extent].iter().for_each(|&value| mark(value));
        for (call, _) in &self.thread.calls {
            match call {
                Call::Script(frame) => mark(Value::Closure(frame.closure)),
                Call::Native(frame) => {
                    if let Waiting::Resume { thread, .. } = frame.waiting {
                        mark(Value::Thread(thread));
                    }
                }
            }
        }
        self.values
            .iter()
            .chain(self.pinned)
            .for_each(|&value| mark(value));
        for loaded in self.loaded {
            loaded.constants.iter().for_each(|&value| mark(value));
        }
        if let Some(current) = self.coroutines.current {
            mark(Value::Thread(current));
        }
        for (id, thread) in &self.coroutines.resumers {
            if let Some(id) = *id {
                mark(Value::Thread(id));
            }
            thread.each(mark);
        }
    }

    fn clear_unused(&mut self) {
        let extent = self.extent;
        self.thread.stack[extent..].fill(Value::Nil);
    }

    fn open_upvals(&self, mark: &mut dyn FnMut(UpvalRef)) {
        self.thread.open_upvals(mark);
        for (_, thread) in &self.coroutines.resumers {
            thread.open_upvals(mark);
        }
    }
}

impl Vm {
    /// Loads a function into the heap, with all that it makes.
    pub(crate) fn load(&mut self, prototype: &Arc<Prototype>) -> Result<u32, Raise> {
        self.heap.take(prototype.bytes())?;
        self.load_counted(prototype)
    }

    fn load_counted(&mut self, prototype: &Arc<Prototype>) -> Result<u32, Raise> {
        let mut constants = Vec::with_capacity(prototype.constants.len());
        for constant in &prototype.constants {
            constants.push(match constant {
                Constant::Nil => Value::Nil,
                Constant::Bool(bit) => Value::Bool(*bit),
                Constant::Number(n) => Value::Number(*n),
                Constant::Text(text) => Value::Str(self.heap.shared_string(text)?),
            });
        }
        let mut children = Vec::with_capacity(prototype.children.len());
        for child in &prototype.children {
            children.push(self.load_counted(child)?);
        }
        self.prototypes.push(Arc::clone(prototype));
        self.loaded.push(Loaded {
            prototype: Arc::clone(prototype),
            constants: constants.into_boxed_slice(),
            children: children.into_boxed_slice(),
        });
        Ok((self.loaded.len() - 1) as u32)
    }

    /// A function without captured variables.
    pub(crate) fn closure(&mut self, prototype: u32) -> Result<ClosureRef, Raise> {
        self.heap.add_closure(Closure {
            prototype,
            upvals: Box::default(),
        })
    }

    /// One step of the collector, and what it costs.
    pub(crate) fn collect_step(&mut self, loaded: &[Loaded]) {
        let registers = |prototype: u32| registers_of(&loaded[prototype as usize].prototype) as u8;
        let extent = self.thread.extent(registers);
        let mut roots = RunRoots {
            thread: &mut self.thread,
            coroutines: &self.coroutines,
            values: &self.values,
            pinned: &self.pinned,
            loaded,
            extent,
        };
        let work = self.heap.step(&mut roots);
        // An instruction costs about as much as looking at four values.
        self.fuel.left -= (work / 4) as i64;
    }

    pub(crate) fn ensure_stack(&mut self, length: usize) -> Result<(), Raise> {
        let now = self.thread.stack.len();
        if length <= now {
            return Ok(());
        }
        if length > STACK_MAX {
            return Err(Raise::Text("stack overflow"));
        }
        let length = (length + 32).max(now * 2).min(STACK_MAX.max(length));
        self.heap.take((length - now) * size_of::<Value>())?;
        self.thread.stack.resize(length, Value::Nil);
        Ok(())
    }

    // ---- captured variables

    pub(crate) fn find_upval(&mut self, at: usize) -> Result<UpvalRef, Raise> {
        let at = at as u32;
        let place = self.thread.open.partition_point(|&(open, _)| open < at);
        if let Some(&(open, upval)) = self.thread.open.get(place)
            && open == at
        {
            return Ok(upval);
        }
        let upval = self.heap.add_upval(Upval::Open {
            thread: self.coroutines.current,
            at,
        })?;
        self.thread.open.insert(place, (at, upval));
        Ok(upval)
    }

    /// Variables from a place of the stack on live by themselves now.
    pub(crate) fn close_upvals(&mut self, from: usize) {
        while let Some(&(at, upval)) = self.thread.open.last() {
            if (at as usize) < from {
                break;
            }
            let value = self.thread.stack[at as usize];
            self.heap.set_upval(upval, Upval::Closed(value));
            self.thread.open.pop();
        }
    }

    pub(crate) fn thread_of(&self, id: Option<ThreadRef>) -> &Thread {
        if id == self.coroutines.current {
            return &self.thread;
        }
        if let Some((_, thread)) = self.coroutines.resumers.iter().find(|(other, _)| *other == id) {
            return thread;
        }
        self.heap
            .thread(id.expect("the script itself runs or waits for a coroutine"))
    }

    fn thread_of_mut(&mut self, id: Option<ThreadRef>) -> &mut Thread {
        if id == self.coroutines.current {
            return &mut self.thread;
        }
        if let Some(place) = self
            .coroutines
            .resumers
            .iter()
            .position(|(other, _)| *other == id)
        {
            return &mut self.coroutines.resumers[place].1;
        }
        self.heap
            .thread_mut(id.expect("the script itself runs or waits for a coroutine"))
    }

    pub(crate) fn upval(&self, upval: UpvalRef) -> Value {
        match self.heap.upval(upval) {
            Upval::Closed(value) => value,
            Upval::Open { thread, at } => self.thread_of(thread).stack[at as usize],
        }
    }

    pub(crate) fn set_upval(&mut self, upval: UpvalRef, value: Value) {
        match self.heap.upval(upval) {
            Upval::Closed(_) => self.heap.set_upval(upval, Upval::Closed(value)),
            Upval::Open { thread, at } => self.thread_of_mut(thread).stack[at as usize] = value,
        }
    }

    // ---- metatables

    pub(crate) fn metatable(&self, value: Value) -> Option<TableRef> {
        match value {
            Value::Table(table) => self.heap.table(table).meta,
            Value::Str(_) => Some(self.tables.string_meta),
            _ => None,
        }
    }

    pub(crate) fn handler(&self, value: Value, event: Event) -> Value {
        match self.metatable(value) {
            Some(meta) => self.heap.get_string(meta, event.name()),
            None => Value::Nil,
        }
    }

    /// A handler of a table that nearly always has none.
    #[inline]
    pub(crate) fn table_handler(&mut self, table: TableRef, event: Event) -> Value {
        let Some(meta) = self.heap.table(table).meta else {
            return Value::Nil;
        };
        let bit = 1u8 << (event as u8);
        if self.heap.table(meta).absent & bit != 0 {
            return Value::Nil;
        }
        let handler = self.heap.get_string(meta, event.name());
        if handler.is_nil() {
            self.heap.table_mut(meta).absent |= bit;
        }
        handler
    }

    // ---- what the library asks

    #[inline]
    pub(crate) fn arg(&self, args: Args, index: usize) -> Value {
        if index < args.count {
            self.thread.stack[args.base + 1 + index]
        } else {
            Value::Nil
        }
    }

    /// Work of a function of the library, in instructions.
    pub(crate) fn charge(&mut self, instructions: usize) {
        self.fuel.left -= instructions as i64;
    }

    /// Whether a function of the library that looks at so many values, or makes so many bytes, is put off before it does more.
    #[inline]
    pub(crate) fn puts_off(&self, values: usize, bytes: usize) -> bool {
        self.puts_off_large && (values > VALUES_AT_ONCE || bytes > BYTES_AT_ONCE)
    }

    /// Puts off what makes so many bytes.
    pub(crate) fn may_make(&self, bytes: usize) -> Result<(), Raise> {
        match self.puts_off(0, bytes) {
            true => Err(Raise::Large),
            false => Ok(()),
        }
    }

    /// Puts off what reads a text of so many bytes.
    pub(crate) fn may_parse(&self, bytes: usize) -> Result<(), Raise> {
        match self.puts_off_large && bytes > PARSED_AT_ONCE {
            true => Err(Raise::Large),
            false => Ok(()),
        }
    }

    pub(crate) fn to_number(&self, value: Value) -> Option<f64> {
        match value {
            Value::Number(n) => Some(n),
            Value::Str(string) => {
                let text = self.heap.bytes(string);
                self.heap.steps().add(text.len() as u64 * STEPS_PER_DIGIT);
                crate::number::parse(text)
            }
            _ => None,
        }
    }

    /// The bytes of a string or a number.
    pub(crate) fn to_bytes(&self, value: Value) -> Option<Arc<[u8]>> {
        match value {
            Value::Str(string) => Some(Arc::clone(self.heap.bytes(string))),
            Value::Number(n) => {
                let mut text = Vec::new();
                crate::number::push_number(&mut text, n);
                Some(Arc::from(text))
            }
            _ => None,
        }
    }

    /// The name under which a function was called, for messages about its arguments.
    pub(crate) fn bad_argument(&self, args: Args, index: usize, what: &str) -> Raise {
        let name = match self.thread.stack.get(args.base) {
            Some(Value::Native(native)) => native.name(),
            Some(Value::Bound(bound)) => self.heap.bound(*bound).native.name(),
            _ => "?",
        };
        let (number, name) = (
            index + 1,
            self.called_as(args).unwrap_or_else(|| name.as_bytes().to_vec()),
        );
        let name = String::from_utf8_lossy(&name).into_owned();
        match self.is_method_call(args) {
            true if number == 1 => {
                Raise::Message(format!("calling '{name}' on bad self ({what})").into_bytes())
            }
            true => Raise::Message(format!("bad argument #{} to '{name}' ({what})", number - 1).into_bytes()),
            false => Raise::Message(format!("bad argument #{number} to '{name}' ({what})").into_bytes()),
        }
    }

    fn call_name(&self, args: Args) -> Option<&crate::code::Name> {
        let Some((Call::Script(frame), _)) = self.thread.calls.last() else {
            return None;
        };
        let register = args.base.checked_sub(frame.base as usize)?;
        let loaded = self.prototypes.get(frame.prototype as usize)?;
        loaded.name_of(frame.pc.checked_sub(1)?, u8::try_from(register).ok()?)
    }

    fn called_as(&self, args: Args) -> Option<Vec<u8>> {
        // A function that was not called from a script's instruction has no name; Lua says so.
        match self.thread.calls.last() {
            Some((Call::Script(_), _)) => Some(
                self.call_name(args)
                    .map_or(b"?".to_vec(), |name| name.text.to_vec()),
            ),
            _ => Some(b"?".to_vec()),
        }
    }

    fn is_method_call(&self, args: Args) -> bool {
        self.call_name(args)
            .is_some_and(|name| name.kind == crate::code::NameKind::Method)
    }

    pub(crate) fn type_error(&self, args: Args, index: usize, expected: &str) -> Raise {
        let found = if index < args.count {
            self.arg(args, index).type_name()
        } else {
            "no value"
        };
        self.bad_argument(args, index, &format!("{expected} expected, got {found}"))
    }

    pub(crate) fn any(&self, args: Args, index: usize) -> Result<Value, Raise> {
        if index < args.count {
            Ok(self.arg(args, index))
        } else {
            Err(self.bad_argument(args, index, "value expected"))
        }
    }

    pub(crate) fn table_arg(&self, args: Args, index: usize) -> Result<TableRef, Raise> {
        match self.arg(args, index) {
            Value::Table(table) => Ok(table),
            _ => Err(self.type_error(args, index, "table")),
        }
    }

    pub(crate) fn number_arg(&self, args: Args, index: usize) -> Result<f64, Raise> {
        match self.to_number(self.arg(args, index)) {
            Some(n) => Ok(n),
            None => Err(self.type_error(args, index, "number")),
        }
    }

    /// A whole number as C's conversion makes it.
    pub(crate) fn integer_arg(&self, args: Args, index: usize) -> Result<i64, Raise> {
        self.number_arg(args, index).map(crate::number::to_i64)
    }

    pub(crate) fn optional_integer(&self, args: Args, index: usize, default: i64) -> Result<i64, Raise> {
        if self.arg(args, index).is_nil() {
            return Ok(default);
        }
        self.integer_arg(args, index)
    }

    pub(crate) fn bytes_arg(&self, args: Args, index: usize) -> Result<Arc<[u8]>, Raise> {
        match self.to_bytes(self.arg(args, index)) {
            Some(bytes) => Ok(bytes),
            None => Err(self.type_error(args, index, "string")),
        }
    }

    pub(crate) fn function_arg(&self, args: Args, index: usize) -> Result<Value, Raise> {
        match self.arg(args, index) {
            value @ (Value::Closure(_) | Value::Native(_) | Value::Bound(_)) => Ok(value),
            _ => Err(self.type_error(args, index, "function")),
        }
    }

    /// Changes a table that scripts may change, as `rawset` does.
    pub(crate) fn raw_set(&mut self, table: TableRef, key: Value, value: Value) -> Result<(), Raise> {
        if self.heap.table(table).is_readonly {
            return Err(Raise::Bare(READONLY.into()));
        }
        self.heap.set(table, key, value)
    }

    // ---- positions

    /// The position of a call, counted from the innermost: `file:line: `, or nothing.
    pub(crate) fn position(&self, level: usize) -> Vec<u8> {
        match self.line_at(level) {
            Some((source, line)) if line > 0 => {
                let mut text = chunk_id(&source);
                text.extend_from_slice(format!(":{line}: ").as_bytes());
                text
            }
            _ => Vec::new(),
        }
    }

    /// Source and line of a call; level 1 is the innermost.
    pub(crate) fn line_at(&self, level: usize) -> Option<(Arc<[u8]>, i64)> {
        let mut left = level;
        for (call, _) in self.thread.calls.iter().rev() {
            let (here, tails) = match call {
                Call::Script(frame) => (Some(frame), frame.tails as usize),
                Call::Native(_) => (None, 0),
            };
            left -= 1;
            if left == 0 {
                return Some(match here {
                    Some(frame) => {
                        let prototype = self.prototypes.get(frame.prototype as usize)?;
                        let line = prototype.lines.get(frame.pc.saturating_sub(1) as usize).copied();
                        (Arc::clone(&prototype.source), i64::from(line.unwrap_or(0)))
                    }
                    None => (Arc::from(&b"=[C]"[..]), -1),
                });
            }
            if left <= tails {
                return Some((Arc::from(&b"=(tail call)"[..]), -1));
            }
            left -= tails;
        }
        None
    }

    // ---- coroutines

    /// Begins to run another coroutine; what runs now waits for it.
    pub(crate) fn switch_to(&mut self, thread: ThreadRef) {
        let mut next = std::mem::take(self.heap.thread_mut(thread));
        next.status = Status::Running;
        let mut previous = std::mem::replace(&mut self.thread, next);
        previous.status = Status::Normal;
        let id = self.coroutines.current.replace(thread);
        self.coroutines.resumers.push((id, previous));
    }

    /// Goes back to who resumed this coroutine.
    pub(crate) fn switch_back(&mut self, status: Status) {
        let (id, mut previous) = self
            .coroutines
            .resumers
            .pop()
            .expect("a coroutine was resumed by somebody");
        previous.status = Status::Running;
        let mut finished = std::mem::replace(&mut self.thread, previous);
        finished.status = status;
        let current = std::mem::replace(&mut self.coroutines.current, id);
        let current = current.expect("the script itself is resumed by nobody");
        if status == Status::Dead {
            self.heap.give(finished.bytes());
            finished = Thread {
                status,
                ..Thread::default()
            };
        }
        *self.heap.thread_mut(current) = finished;
    }

    /// Forgets a run.
    pub(crate) fn reset(&mut self, keep_loaded: usize) {
        let globals = self.tables.globals;
        self.heap.table_mut(globals).is_readonly = false;
        for name in [self.tables.keys, self.tables.argv] {
            self.heap.replace_string(globals, name, Value::Bool(false));
        }
        self.heap.table_mut(globals).is_readonly = true;
        self.heap.reset();
        self.loaded.truncate(keep_loaded);
        self.prototypes.truncate(keep_loaded);
        self.thread = Thread::default();
        self.coroutines = Coroutines::default();
        self.values.clear();
        self.pinned.clear();
        self.site = None;
        self.put_off = None;
        self.puts_off_large = false;
    }

    /// True of functions, whoever wrote them.
    pub(crate) fn is_function(value: Value) -> bool {
        matches!(value, Value::Closure(_) | Value::Native(_) | Value::Bound(_))
    }

    pub(crate) fn native_of(&self, value: Value) -> Option<Native> {
        match value {
            Value::Native(native) => Some(native),
            Value::Bound(bound) => Some(self.heap.bound(bound).native),
            _ => None,
        }
    }
}
