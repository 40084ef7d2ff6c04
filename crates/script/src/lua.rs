//! Redis's Lua behind the trait.

use std::sync::Arc;

use sha1::{Digest, Sha1};

use crate::code::Prototype;
use crate::compiler::compile;
use crate::drive::{Action, Exit};
use crate::heap::Heap;
use crate::interpreter::{
    CompiledScript, Interpreter, Run, RunLimits, ScriptFailure, ScriptInput, ScriptStop,
};
use crate::native::Native;
use crate::raise::Raise;
use crate::random::Random;
use crate::reply::{Reply, hex};
use crate::session::{Asking, LogLine, Registered, Session};
use crate::shebang::{Purpose, Shebang};
use crate::thread::{Call, Thread, Waiting};
use crate::value::{TableRef, Value};
use crate::vm::{Coroutines, Event, Fuel, Tables, Vm};

/// The name of every script, as messages show it.
const CHUNK_NAME: &[u8] = b"@user_script";

/// The same of libraries.
const LIBRARY_NAME: &[u8] = b"@user_function";

/// The functions of `redis` while a library is loaded, among those of the others.
const LOADING: &str = "library";

/// Machines that wait for the next run.
const IDLE_MAX: usize = 8;

/// What `redis.REDIS_VERSION` says: what this speaks.
const REDIS_VERSION: &str = "7.2.0";
const REDIS_VERSION_NUM: f64 = 459_264.0;

/// Bytes of compiled code that a machine takes in at once: two or three milliseconds.
const LOADED_AT_ONCE: usize = 256 * 1024;

/// A script that was compiled.
#[derive(Clone, Debug)]
pub struct Script {
    prototype: Arc<Prototype>,
    sha1: Arc<str>,
    shebang: Option<Shebang>,
    is_large: bool,
}

impl Script {
    /// The line that the script begins with.
    #[must_use]
    pub fn shebang(&self) -> Option<&Shebang> {
        self.shebang.as_ref()
    }

    /// Whether it takes long to begin a run of it: all that it names is made first.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.is_large
    }
}

impl CompiledScript for Script {
    fn sha1(&self) -> &str {
        &self.sha1
    }
}

/// Redis's Lua. One for each worker: machines whose runs are over are kept and used again.
#[derive(Debug, Default)]
pub struct Lua {
    /// Boxed, since they are handed on with each run.
    #[allow(clippy::vec_box)]
    idle: Vec<Box<Machine>>,
}

impl Lua {
    /// An interpreter without machines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine that has loaded this, and where.
    fn machine(&mut self, prototype: &Arc<Prototype>) -> (Box<Machine>, u32) {
        let knows = |machine: &Machine| machine.place_of(prototype).is_some();
        let place = self.idle.iter().rposition(|machine| knows(machine));
        let mut machine = match place {
            Some(place) => self.idle.swap_remove(place),
            None => self.idle.pop().unwrap_or_default(),
        };
        if !machine.has_room_for(prototype) {
            *machine = Machine::default();
        }
        let main = machine.load(prototype);
        (machine, main)
    }
}

/// A machine with the scripts that it knows: their constants are there for every run, as the library is.
#[derive(Debug)]
struct Machine {
    vm: Vm,
    known: Vec<(Arc<Prototype>, u32)>,
    known_bytes: usize,
    /// Functions that stay loaded.
    kept: usize,
}

/// Scripts that a machine knows, and their bytes; one that would know more begins anew.
const KNOWN_MAX: usize = 128;
const KNOWN_BYTES_MAX: usize = 512 * 1024;

impl Default for Machine {
    fn default() -> Self {
        Self {
            vm: new_machine(),
            known: Vec::new(),
            known_bytes: 0,
            kept: 0,
        }
    }
}

impl Machine {
    fn place_of(&self, prototype: &Arc<Prototype>) -> Option<u32> {
        let found = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, prototype));
        found.map(|&(_, place)| place)
    }

    fn has_room_for(&self, prototype: &Arc<Prototype>) -> bool {
        self.known.is_empty()
            || self.place_of(prototype).is_some()
            || self.known.len() < KNOWN_MAX && self.known_bytes + prototype.bytes() <= KNOWN_BYTES_MAX
    }

    fn load(&mut self, prototype: &Arc<Prototype>) -> u32 {
        if let Some(place) = self.place_of(prototype) {
            return place;
        }
        // Between two runs nothing but what stays is there.
        self.vm.heap.set_limit(usize::MAX);
        let place = self.vm.load(prototype).expect("there is no limit");
        self.vm.heap.fix_strings();
        self.known.push((Arc::clone(prototype), place));
        self.known_bytes += prototype.bytes();
        self.kept = self.vm.loaded.len();
        place
    }

    fn reset(&mut self) {
        self.vm.reset(self.kept);
    }
}

/// The digits of the SHA-1 of a source.
#[must_use]
pub fn sha1_hex(source: &[u8]) -> String {
    String::from_utf8(hex(&Sha1::digest(source))).expect("digits are text")
}

impl Interpreter for Lua {
    type Script = Script;
    type Run = LuaRun;

    fn compile(&self, source: &[u8]) -> Result<Script, Vec<u8>> {
        let (shebang, body) = Shebang::parse(source, Purpose::Script).map_err(String::into_bytes)?;
        match compile(body, CHUNK_NAME) {
            Ok(prototype) => Ok(Script {
                is_large: prototype.bytes() > LOADED_AT_ONCE,
                prototype,
                sha1: Arc::from(sha1_hex(source)),
                shebang,
            }),
            Err(message) => Err([b"ERR Error compiling script (new function): ", &message[..]].concat()),
        }
    }

    fn start(&mut self, chunk: &Script, input: ScriptInput, limits: RunLimits) -> LuaRun {
        self.start_chunk(chunk, input, limits, false)
    }

    fn recycle(&mut self, run: LuaRun) {
        let mut machine = run.machine;
        if self.idle.len() < IDLE_MAX {
            machine.reset();
            self.idle.push(machine);
        }
    }
}

impl Lua {
    /// Begins a script, or a library, which sees little while it is loaded, and registers functions.
    fn start_chunk(
        &mut self,
        chunk: &Script,
        input: ScriptInput,
        limits: RunLimits,
        is_library: bool,
    ) -> LuaRun {
        let (mut machine, main) = self.machine(&chunk.prototype);
        let vm = &mut machine.vm;
        vm.heap.set_limit(limits.memory_bytes);
        vm.random = Random::for_run(input.seed);
        vm.session = Session {
            is_resp3: input.is_resp3,
            registering: is_library.then(Vec::new),
            ..Session::default()
        };
        let state = match begin(vm, main, &input, is_library) {
            Ok(action) => State::Ready(action),
            Err(_) => State::Over(Box::new(ScriptStop::Failed(out_of_memory()))),
        };
        LuaRun {
            machine,
            state,
            name: Arc::clone(&chunk.sha1),
            function: None,
        }
    }
}

/// Puts a function with its inputs onto the stack.
///
/// A function of a library is called with them, and knows no `KEYS`.
fn begin(vm: &mut Vm, main: u32, input: &ScriptInput, is_library: bool) -> Result<Action, Raise> {
    vm.fuel = Fuel::default();
    let keys = array_of(vm, &input.keys)?;
    let argv = array_of(vm, &input.argv)?;
    vm.pinned.extend([Value::Table(keys), Value::Table(argv)]);
    let tables = vm.tables;
    vm.heap.table_mut(tables.globals).is_readonly = false;
    vm.heap
        .replace_string(tables.globals, tables.keys, Value::Table(keys));
    vm.heap
        .replace_string(tables.globals, tables.argv, Value::Table(argv));
    vm.heap.table_mut(tables.globals).is_readonly = true;
    vm.tables.visible = if is_library {
        tables.load_globals
    } else {
        tables.globals
    };
    let main = vm.closure(main)?;
    vm.ensure_stack(1)?;
    vm.thread.stack[0] = Value::Closure(main);
    vm.thread.top = 1;
    // What it took to get here is nobody's.
    vm.heap.steps().reset();
    Ok(Action::Call {
        at: 0,
        count: 0,
        then: crate::thread::Then::Native,
    })
}

fn array_of(vm: &mut Vm, texts: &[Arc<[u8]>]) -> Result<TableRef, Raise> {
    let table = vm.heap.add_table(texts.len(), 0)?;
    for (index, text) in (1..).zip(texts) {
        let text = vm.heap.shared_string(text).map(Value::Str)?;
        vm.heap.set(table, Value::Number(f64::from(index)), text)?;
    }
    Ok(table)
}

fn out_of_memory() -> ScriptFailure {
    ScriptFailure {
        message: b"ERR Error running script: not enough memory".to_vec(),
        is_out_of_memory: true,
    }
}

/// A machine with the library and nothing else.
fn new_machine() -> Vm {
    let tables = Tables {
        globals: TableRef(0),
        load_globals: TableRef(0),
        function_globals: TableRef(0),
        visible: TableRef(0),
        string_meta: TableRef(0),
        keys: crate::value::StrRef(0),
        argv: crate::value::StrRef(0),
    };
    let mut vm = Vm {
        heap: Heap::new(),
        loaded: Vec::new(),
        prototypes: Vec::new(),
        thread: Thread::default(),
        coroutines: Coroutines::default(),
        tables,
        values: Vec::new(),
        random: Random::seeded(0),
        session: Session::default(),
        fuel: Fuel::default(),
        site: None,
        pinned: Vec::new(),
        put_off: None,
        puts_off_large: false,
    };
    build(&mut vm).expect("the library has all the memory there is");
    vm.heap.fix();
    vm
}

fn build(vm: &mut Vm) -> Result<(), Raise> {
    for name in Event::NAMES {
        vm.heap.string(name.as_bytes())?;
    }
    let globals = vm.heap.add_table(0, 64)?;
    let function_globals = vm.heap.add_table(0, 64)?;
    let mut libraries: Vec<(&str, TableRef)> = vec![("", globals)];
    for &(library, name, native) in Native::ALL {
        if library == "hidden" {
            continue;
        }
        let table = match libraries.iter().find(|(other, _)| *other == library) {
            Some(&(_, table)) => table,
            None => {
                let table = vm.heap.add_table(0, 0)?;
                if library != LOADING {
                    put(vm, globals, library, Value::Table(table))?;
                    put(vm, function_globals, library, Value::Table(table))?;
                }
                libraries.push((library, table));
                table
            }
        };
        put(vm, table, name, Value::Native(native))?;
        if library.is_empty() {
            put(vm, function_globals, name, Value::Native(native))?;
        }
    }
    let library = |name: &str| {
        let found = libraries.iter().find(|(other, _)| *other == name);
        found.expect("it has functions").1
    };
    put(vm, library("math"), "pi", Value::Number(std::f64::consts::PI))?;
    put(vm, library("math"), "huge", Value::Number(f64::INFINITY))?;
    for (table, name, text) in [
        ("cjson", "_NAME", "cjson"),
        ("cjson", "_VERSION", "2.1.0"),
        ("cmsgpack", "_NAME", "cmsgpack"),
        ("cmsgpack", "_VERSION", "lua-cmsgpack 0.4.0"),
        ("redis", "REDIS_VERSION", REDIS_VERSION),
        (LOADING, "REDIS_VERSION", REDIS_VERSION),
    ] {
        let text = vm.heap.text(text.as_bytes())?;
        put(vm, library(table), name, text)?;
    }
    put(vm, library("cjson"), "null", Value::Null)?;
    for (name, number) in [
        ("LOG_DEBUG", 0.0),
        ("LOG_VERBOSE", 1.0),
        ("LOG_NOTICE", 2.0),
        ("LOG_WARNING", 3.0),
        ("REPL_NONE", 0.0),
        ("REPL_AOF", 1.0),
        ("REPL_SLAVE", 2.0),
        ("REPL_REPLICA", 2.0),
        ("REPL_ALL", 3.0),
        ("REDIS_VERSION_NUM", REDIS_VERSION_NUM),
    ] {
        put(vm, library("redis"), name, Value::Number(number))?;
        if !name.starts_with("REPL_") {
            put(vm, library(LOADING), name, Value::Number(number))?;
        }
    }
    put(vm, library(LOADING), "log", Value::Native(Native::RedisLog))?;
    let load_globals = vm.heap.add_table(0, 1)?;
    put(vm, load_globals, "redis", Value::Table(library(LOADING)))?;
    let version = vm.heap.text(b"Lua 5.1")?;
    for table in [globals, function_globals] {
        put(vm, table, "_VERSION", version)?;
        put(vm, table, "_G", Value::Table(table))?;
    }
    // They are there, so that a run replaces values and makes no place.
    put(vm, globals, "KEYS", Value::Bool(false))?;
    put(vm, globals, "ARGV", Value::Bool(false))?;

    let meta = vm.heap.add_table(0, 1)?;
    put(vm, meta, "__index", Value::Native(Native::AbsentGlobal))?;
    for table in [globals, function_globals, load_globals, library(LOADING)] {
        vm.heap.table_to_fill(table).meta = Some(meta);
    }
    let string_meta = vm.heap.add_table(0, 1)?;
    put(vm, string_meta, "__index", Value::Table(library("string")))?;
    for table in
        libraries
            .iter()
            .map(|(_, table)| *table)
            .chain([meta, string_meta, load_globals, function_globals])
    {
        vm.heap.table_mut(table).is_readonly = true;
    }
    vm.tables = Tables {
        globals,
        load_globals,
        function_globals,
        visible: globals,
        string_meta,
        keys: vm.heap.string(b"KEYS")?,
        argv: vm.heap.string(b"ARGV")?,
    };
    // Names that replies are looked through for.
    for name in [
        "double",
        "map",
        "set",
        "big_number",
        "verbatim_string",
        "string",
        "format",
    ] {
        vm.heap.string(name.as_bytes())?;
    }
    Ok(())
}

fn put(vm: &mut Vm, table: TableRef, name: &str, value: Value) -> Result<(), Raise> {
    let name = vm.heap.text(name.as_bytes())?;
    vm.heap.set(table, name, value)
}

/// How far a run is.
#[derive(Debug)]
enum State {
    /// The next resume begins with this.
    Ready(Action),
    /// A reply is awaited.
    Waiting,
    /// It has returned a value, which is to become a reply.
    Returning,
    /// It has ended so.
    Over(Box<ScriptStop>),
}

/// A script that runs.
#[derive(Debug)]
pub struct LuaRun {
    machine: Box<Machine>,
    state: State,
    /// What messages call it.
    name: Arc<str>,
    /// The function that is called when its library has run.
    function: Option<usize>,
}

impl LuaRun {
    fn run(&mut self, mut action: Action) -> ScriptStop {
        loop {
            let functions = std::mem::take(&mut self.machine.vm.loaded);
            let exit = self.machine.vm.execute(&functions, action);
            self.machine.vm.loaded = functions;
            match exit {
                Exit::Yielded => {
                    self.state = State::Ready(self.machine.vm.put_off.take().unwrap_or(Action::Go));
                    return ScriptStop::Yielded;
                }
                Exit::Large => {
                    self.state = State::Ready(self.machine.vm.put_off.take().unwrap_or(Action::Go));
                    return ScriptStop::Large;
                }
                Exit::Command => {
                    self.state = State::Waiting;
                    let words = std::mem::take(&mut self.machine.vm.session.words);
                    return match self.machine.vm.session.asking {
                        Asking::Command => ScriptStop::Call {
                            words,
                            is_resp3: self.machine.vm.session.is_resp3,
                        },
                        Asking::Permission => ScriptStop::Permission { words },
                    };
                }
                Exit::Finished if self.function.is_some() => match self.call_function() {
                    Ok(next) => action = next,
                    Err(_) => return self.end(ScriptStop::Failed(out_of_memory())),
                },
                Exit::Finished => return self.finish(),
                Exit::Failed(error) => {
                    let failure = self.failure(error);
                    return self.end(ScriptStop::Failed(failure));
                }
                Exit::OutOfMemory => return self.end(ScriptStop::Failed(out_of_memory())),
                Exit::Load(prototype, then) => {
                    let loaded = self
                        .machine
                        .vm
                        .load(&prototype)
                        .and_then(|loaded| self.machine.vm.closure(loaded));
                    action = match loaded {
                        Ok(closure) => Action::DeliverOne(Value::Closure(closure), then),
                        Err(_) => return self.end(ScriptStop::Failed(out_of_memory())),
                    };
                }
            }
        }
    }

    /// The library has run: now its function is called with the keys and the arguments.
    fn call_function(&mut self) -> Result<Action, Raise> {
        let index = self.function.take().unwrap_or_default();
        self.machine.vm.session.registering = None;
        self.machine.vm.tables.visible = self.machine.vm.tables.function_globals;
        self.machine.vm.ensure_stack(3)?;
        let [keys, argv] = [self.machine.vm.pinned[0], self.machine.vm.pinned[1]];
        let callback = self
            .machine
            .vm
            .pinned
            .get(2 + index)
            .copied()
            .unwrap_or(Value::Nil);
        self.machine.vm.thread.stack[..3].copy_from_slice(&[callback, keys, argv]);
        self.machine.vm.values.clear();
        Ok(Action::Call {
            at: 0,
            count: 2,
            then: crate::thread::Then::Native,
        })
    }

    /// What it has returned becomes its reply, unless that is much, and to be put off.
    fn finish(&mut self) -> ScriptStop {
        let value = self.machine.vm.values.first().copied().unwrap_or(Value::Nil);
        match self.machine.vm.reply_of(value) {
            Some(reply) => self.end(ScriptStop::Finished(reply)),
            None => {
                self.state = State::Returning;
                ScriptStop::Large
            }
        }
    }

    fn end(&mut self, step: ScriptStop) -> ScriptStop {
        self.state = State::Over(Box::new(step.clone()));
        step
    }

    /// An error that nobody has caught, as the client is told.
    fn failure(&mut self, error: Value) -> ScriptFailure {
        let mut message = match error {
            Value::Table(table) => match self.machine.vm.heap.get_string(table, Event::Err.name()) {
                Value::Str(text) => self.machine.vm.heap.bytes(text).to_vec(),
                // A table that says nothing.
                _ => b"ERR unknown error".to_vec(),
            },
            value => {
                let text = self.machine.vm.to_bytes(value).map(|text| text.to_vec());
                let text = text.unwrap_or_else(|| match value {
                    Value::Bool(bit) => bit.to_string().into_bytes(),
                    other => other.type_name().as_bytes().to_vec(),
                });
                [b"ERR ", &text[..]].concat()
            }
        };
        // What goes wrong while a library is loaded has no name yet.
        if let Some(site) = &self.machine.vm.site
            && !self.name.is_empty()
        {
            message.extend_from_slice(format!(" script: {}, on ", self.name).as_bytes());
            message.extend_from_slice(&site.source);
            message.extend_from_slice(format!(":{}.", site.line).as_bytes());
        }
        for byte in &mut message {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        ScriptFailure {
            message,
            is_out_of_memory: false,
        }
    }
}

impl Run for LuaRun {
    fn resume(&mut self, budget: u64) -> ScriptStop {
        let budget = i64::try_from(budget).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        match std::mem::replace(&mut self.state, State::Waiting) {
            State::Ready(action) => {
                self.machine.vm.fuel.left += budget;
                self.machine.vm.fuel.given += budget as u64;
                let step = self.run(action);
                self.machine.vm.pay_for_steps();
                // What is left of a budget is not kept, but what was charged beyond it is.
                let unused = self.machine.vm.fuel.left.max(0);
                self.machine.vm.fuel.left -= unused;
                self.machine.vm.fuel.given -= unused as u64;
                step
            }
            State::Returning => self.finish(),
            State::Waiting => panic!("a run that waits for a reply was resumed without one"),
            State::Over(step) => {
                self.state = State::Over(step.clone());
                *step
            }
        }
    }

    fn resume_with(&mut self, reply: &Reply) {
        assert!(
            matches!(self.state, State::Waiting),
            "a run that waits for no reply was given one"
        );
        let Some((Call::Native(frame), then)) = self.machine.vm.thread.calls.pop() else {
            unreachable!("a run that waits for a reply is in a function of the library")
        };
        self.machine.vm.thread.natives -= 1;
        let is_protected = matches!(frame.waiting, Waiting::Command { is_protected: true });
        let is_error = matches!(reply, Reply::Error(_));
        let value = match self.machine.vm.session.asking {
            Asking::Permission if !is_error => Ok(Value::Bool(*reply == Reply::Integer(1))),
            Asking::Permission | Asking::Command => self.machine.vm.value_of(reply),
        };
        self.state = match value {
            Ok(value) if is_error && !is_protected => State::Ready(Action::Raise(Raise::Value(value))),
            Ok(value) => State::Ready(Action::DeliverOne(value, then)),
            Err(_) => State::Over(Box::new(ScriptStop::Failed(out_of_memory()))),
        };
    }

    fn put_off_large(&mut self, puts_off: bool) {
        self.machine.vm.puts_off_large = puts_off;
    }

    fn instructions(&self) -> u64 {
        self.machine.vm.fuel.used()
    }

    fn memory_bytes(&self) -> usize {
        self.machine.vm.heap.used()
    }

    fn take_log(&mut self) -> Vec<LogLine> {
        let log = std::mem::take(&mut self.machine.vm.session.log);
        let bytes = log.iter().map(|line| line.text.len()).sum();
        self.machine.vm.heap.give(bytes);
        log
    }
}

// ---- libraries of functions

impl FunctionLibrary {
    /// Whether it takes long to begin a call of one of its functions.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.is_large
    }
}

/// A library of functions, as `FUNCTION LOAD` has read it.
#[derive(Clone, Debug)]
pub struct FunctionLibrary {
    /// Its name.
    pub name: String,
    /// Its functions.
    pub functions: Vec<Registered>,
    prototype: Arc<Prototype>,
    is_large: bool,
}

impl Lua {
    /// Reads a library: runs it, which registers its functions and may do nothing else, for at most so many instructions.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub fn load_library(
        &mut self,
        source: &[u8],
        limits: RunLimits,
        instructions: u64,
    ) -> Result<FunctionLibrary, Vec<u8>> {
        let (shebang, body) = Shebang::parse(source, Purpose::Library).map_err(String::into_bytes)?;
        let name = shebang.and_then(|shebang| shebang.name).unwrap_or_default();
        let prototype = compile(body, LIBRARY_NAME)
            .map_err(|message| [b"ERR Error compiling function: ", &message[..]].concat())?;
        let mut run = self.start_library(&prototype, limits);
        let step = run.resume(instructions);
        let functions = run.machine.vm.session.registering.take().unwrap_or_default();
        self.recycle(run);
        match step {
            ScriptStop::Finished(_) if functions.is_empty() => Err(b"ERR No functions registered".to_vec()),
            ScriptStop::Finished(_) => Ok(FunctionLibrary {
                name,
                functions,
                is_large: prototype.bytes() > LOADED_AT_ONCE,
                prototype,
            }),
            ScriptStop::Failed(failure) => {
                Err([b"ERR Error registering functions: ", &failure.message[..]].concat())
            }
            ScriptStop::Yielded => Err(b"ERR FUNCTION LOAD timeout".to_vec()),
            ScriptStop::Call { .. } | ScriptStop::Permission { .. } | ScriptStop::Large => {
                unreachable!("a library that is loaded has no `redis.call`, and nothing of it is put off")
            }
        }
    }

    /// Begins a call of a library's function, whose name may be in other letters: the library runs once more, and then the function.
    /// `None` if it has no such one.
    pub fn start_function(
        &mut self,
        library: &FunctionLibrary,
        name: &[u8],
        input: ScriptInput,
        limits: RunLimits,
    ) -> Option<LuaRun> {
        let index = library
            .functions
            .iter()
            .position(|function| function.name.eq_ignore_ascii_case(name))?;
        let chunk = Script {
            prototype: Arc::clone(&library.prototype),
            sha1: Arc::from(String::from_utf8_lossy(name)),
            shebang: None,
            is_large: false,
        };
        let mut run = self.start_chunk(&chunk, input, limits, true);
        run.function = Some(index);
        Some(run)
    }

    fn start_library(&mut self, prototype: &Arc<Prototype>, limits: RunLimits) -> LuaRun {
        let chunk = Script {
            prototype: Arc::clone(prototype),
            sha1: Arc::from(""),
            shebang: None,
            is_large: false,
        };
        self.start_chunk(&chunk, ScriptInput::default(), limits, true)
    }
}
