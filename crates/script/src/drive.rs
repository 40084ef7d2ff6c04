//! Calls, returns and errors: what happens between the instructions of two functions.
//!
//! ```text
//!            Call --------> a function of a script: its frame is pushed, and instructions go on
//!             ^   \-------> one of the library: Deliver, or Call of what it calls back, or the run stops
//!             |
//!   Deliver --+-----------> places of the stack; or the function of the library that waited, which goes on
//!   Raise  ---------------> frames are dropped up to a `pcall`, which delivers; or the run has failed
//! ```

use crate::code::Varargs;
use crate::heap::{Closure, Loaded};
use crate::library::{self, Flow};
use crate::raise::Raise;
use crate::thread::{Call, Frame, NativeFrame, Status, Then, Waiting};
use crate::value::{ClosureRef, Value};
use crate::vm::{Args, CALLS_MAX, Event, NATIVES_MAX, Site, Vm};

/// Places from its own on that a function of the library may use while it waits.
const KEPT_PLACES: usize = 5;

/// Bytes of a table of arguments, beside the arguments.
const ARGUMENTS_BYTES: usize = 512;

/// What happens next.
#[derive(Debug)]
pub(crate) enum Action {
    /// The function at a place of the stack is called with the arguments behind it.
    Call {
        at: usize,
        count: usize,
        then: Then,
    },
    /// What is in `values` goes where it is wanted.
    Deliver(Then),
    /// One value goes there.
    DeliverOne(Value, Then),
    Raise(Raise),
    /// The function of the library that waits on top goes on.
    Resume,
    /// Instructions go on.
    Go,
}

/// Why instructions do not go on.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The budget is used up.
    Yielded,
    /// What comes next would take long, and the host wants that put off.
    Large,
    /// A command is to be carried out; its words are in `values`.
    Command,
    /// Its values are in `values`.
    Finished,
    Failed(Value),
    OutOfMemory,
    /// A function has been compiled and is to be loaded.
    Load(std::sync::Arc<crate::code::Prototype>, Then),
}

/// Loaded functions, as the machine sees them while it runs.
pub(crate) type Functions<'a> = &'a [Loaded];

impl Vm {
    /// Goes on until instructions do.
    pub(crate) fn drive(&mut self, functions: Functions<'_>, mut action: Action) -> Result<(), Exit> {
        loop {
            action = match action {
                Action::Go => return Ok(()),
                Action::Call { at, count, .. } if self.fuel.left <= 0 => {
                    self.thread.top = at + 1 + count;
                    self.put_off = Some(action);
                    return Err(Exit::Yielded);
                }
                Action::Resume if self.fuel.left <= 0 => {
                    self.put_off = Some(action);
                    return Err(Exit::Yielded);
                }
                Action::Resume => self.resume_native()?,
                Action::Call { at, count, .. } if self.heap.wants_step() => {
                    // What is on its way must not be collected.
                    self.thread.top = at + 1 + count;
                    self.collect_step(functions);
                    action
                }
                Action::Call { at, count, then } => self.call(functions, at, count, then)?,
                Action::Deliver(then) => {
                    let values = std::mem::take(&mut self.values);
                    let next = self.deliver(&values, then);
                    // The scratch is used again, unless somebody else already put something there.
                    if self.values.is_empty() {
                        self.values = values;
                        self.values.clear();
                    }
                    match next {
                        Ok(action) => action,
                        Err(raise) => Action::Raise(raise),
                    }
                    .resume_waiting(self)?
                }
                Action::DeliverOne(value, then) => match self.deliver(&[value], then) {
                    Ok(action) => action,
                    Err(raise) => Action::Raise(raise),
                }
                .resume_waiting(self)?,
                Action::Raise(raise) => self.unwind(raise)?,
            };
        }
    }

    fn call(
        &mut self,
        functions: Functions<'_>,
        at: usize,
        count: usize,
        then: Then,
    ) -> Result<Action, Exit> {
        self.thread.top = 0;
        self.fuel.left -= 1;
        match self.thread.stack[at] {
            Value::Closure(closure) => Ok(match self.push_frame(functions, closure, at, count, then, 0) {
                Ok(()) => Action::Go,
                Err(raise) => Action::Raise(raise),
            }),
            function @ (Value::Native(_) | Value::Bound(_)) => {
                let native = self.native_of(function).expect("it is one");
                let flow = library::call(self, native, Args { base: at, count });
                if let Err(Raise::Large) = flow {
                    self.thread.top = at + 1 + count;
                    self.put_off = Some(Action::Call { at, count, then });
                    return Err(Exit::Large);
                }
                self.follow(flow, at, at + 1 + count, then)
            }
            other => {
                let handler = self.handler(other, Event::Call);
                if !Self::is_function(handler) {
                    return Ok(Action::Raise(self.operand_error("call", at)));
                }
                if let Err(raise) = self.ensure_stack(at + count + 2) {
                    return Ok(Action::Raise(raise));
                }
                self.thread.stack.copy_within(at..=at + count, at + 1);
                self.thread.stack[at] = handler;
                Ok(Action::Call {
                    at,
                    count: count + 1,
                    then,
                })
            }
        }
    }

    /// What a function of the library wants.
    pub(crate) fn follow(
        &mut self,
        flow: Result<Flow, Raise>,
        base: usize,
        top: usize,
        then: Then,
    ) -> Result<Action, Exit> {
        // Some keep more on the stack than their arguments.
        let top = top.max(base + KEPT_PLACES);
        match flow {
            Ok(Flow::One(value)) => Ok(Action::DeliverOne(value, then)),
            Ok(Flow::Values) => Ok(Action::Deliver(then)),
            Ok(Flow::None) => {
                self.values.clear();
                Ok(Action::Deliver(then))
            }
            Ok(Flow::Call { function, waiting }) => Ok(self.call_back(function, waiting, base, top, then)),
            Ok(Flow::Pause(waiting)) => {
                self.values.clear();
                self.wait(waiting, base, top, then);
                Ok(Action::Resume)
            }
            Ok(Flow::PutOff(waiting)) => {
                self.values.clear();
                self.wait(waiting, base, top, then);
                self.put_off = Some(Action::Resume);
                Err(Exit::Large)
            }
            Ok(Flow::Load(prototype)) => Err(Exit::Load(prototype, then)),
            Ok(Flow::Command { is_protected }) => {
                self.wait(Waiting::Command { is_protected }, base, top, then);
                Err(Exit::Command)
            }
            Ok(Flow::Yield) => Ok(self.yield_values(base, top, then)),
            Ok(Flow::Resume { thread, is_wrap }) => Ok(self.resume_thread(thread, is_wrap, base, top, then)),
            Err(raise) => Ok(Action::Raise(raise)),
        }
    }

    fn wait(&mut self, waiting: Waiting, base: usize, top: usize, then: Then) {
        let frame = NativeFrame {
            waiting,
            base: base as u32,
            top: top as u32,
        };
        self.thread.natives += 1;
        self.thread.calls.push((Call::Native(frame), then));
    }

    /// Calls a function with what is in `values`, on behalf of one of the library that waits for it.
    fn call_back(
        &mut self,
        function: Value,
        waiting: Waiting,
        base: usize,
        top: usize,
        then: Then,
    ) -> Action {
        if self.thread.natives >= NATIVES_MAX {
            return Action::Raise(Raise::Text("C stack overflow"));
        }
        let count = self.values.len();
        if let Err(raise) = self.ensure_stack(top + 1 + count) {
            return Action::Raise(raise);
        }
        self.wait(waiting, base, top, then);
        self.thread.stack[top] = function;
        self.thread.stack[top + 1..=top + count].copy_from_slice(&self.values);
        self.values.clear();
        Action::Call {
            at: top,
            count,
            then: Then::Native,
        }
    }

    /// Pushes the call of a function of a script, whose arguments are behind it.
    #[inline]
    pub(crate) fn push_frame(
        &mut self,
        functions: Functions<'_>,
        closure: ClosureRef,
        at: usize,
        count: usize,
        then: Then,
        tails: u32,
    ) -> Result<(), Raise> {
        let prototype = self.heap.closure(closure).prototype;
        let code = &functions[prototype as usize].prototype;
        let params = usize::from(code.params);
        let registers = usize::from(code.registers);
        if self.thread.calls.len() >= CALLS_MAX {
            return Err(Raise::Text("stack overflow"));
        }
        let (base, varargs) = if code.varargs == Varargs::None {
            let base = at + 1;
            self.ensure_stack(base + registers.max(count))?;
            if count < params {
                self.thread.stack[base + count..base + params].fill(Value::Nil);
            }
            (base, 0)
        } else {
            let base = at + 1 + count;
            self.ensure_stack(base + registers.max(params + 1))?;
            // Arguments are about to move, and a table may be made of them: there must be room before.
            if self.heap.room() < ARGUMENTS_BYTES + 64 * count {
                return Err(Raise::Memory);
            }
            for index in 0..params {
                self.thread.stack[base + index] = if index < count {
                    std::mem::replace(&mut self.thread.stack[at + 1 + index], Value::Nil)
                } else {
                    Value::Nil
                };
            }
            let varargs = count.saturating_sub(params);
            match code.varargs {
                Varargs::Table => {
                    let table = self.heap.add_table(varargs, 1)?;
                    for index in 0..varargs {
                        let value = self.thread.stack[base - varargs + index];
                        self.heap.set(table, Value::Number((index + 1) as f64), value)?;
                    }
                    let n = Value::Str(Event::N.name());
                    self.heap.set(table, n, Value::Number(varargs as f64))?;
                    self.thread.stack[base + params] = Value::Table(table);
                }
                Varargs::DotsAndNil => self.thread.stack[base + params] = Value::Nil,
                Varargs::None | Varargs::Dots => {}
            }
            (base, varargs)
        };
        self.thread.top = 0;
        let frame = Frame {
            closure,
            prototype,
            pc: 0,
            base: base as u32,
            function: at as u32,
            varargs: varargs as u32,
            tails,
        };
        self.thread.calls.push((Call::Script(frame), then));
        Ok(())
    }

    /// Puts results where they are wanted.
    fn deliver(&mut self, values: &[Value], then: Then) -> Result<Action, Raise> {
        let first = values.first().copied().unwrap_or(Value::Nil);
        match then {
            Then::Places { at, want } => {
                let at = at as usize;
                match want {
                    Some(want) => {
                        let want = want as usize;
                        let given = want.min(values.len());
                        self.thread.stack[at..at + given].copy_from_slice(&values[..given]);
                        self.thread.stack[at + given..at + want].fill(Value::Nil);
                    }
                    None => {
                        self.ensure_stack(at + values.len())?;
                        self.thread.stack[at..at + values.len()].copy_from_slice(values);
                        self.thread.top = at + values.len();
                    }
                }
            }
            Then::Loop { at, count } => {
                let (at, count) = (at as usize, count as usize);
                let given = count.min(values.len());
                self.thread.stack[at..at + given].copy_from_slice(&values[..given]);
                self.thread.stack[at + given..at + count].fill(Value::Nil);
                if !first.is_nil() {
                    self.thread.stack[at - 1] = first;
                } else if let Some((Call::Script(frame), _)) = self.thread.calls.last_mut() {
                    // The jump back is left out.
                    frame.pc += 1;
                }
            }
            Then::One(at) => self.thread.stack[at as usize] = first,
            Then::Nothing => {}
            Then::Compare { is } => {
                if first.is_truthy() != is
                    && let Some((Call::Script(frame), _)) = self.thread.calls.last_mut()
                {
                    frame.pc += 1;
                }
            }
            Then::Concat {
                to,
                first: begin,
                last,
            } => {
                self.thread.stack[last as usize] = first;
                return self.concat(to as usize, begin as usize, last as usize);
            }
            Then::Native => {
                self.values = values.to_vec();
                return Ok(Action::Deliver(Then::Native));
            }
        }
        Ok(Action::Go)
    }

    /// Lets the function of the library that waits go on with what is in `values`.
    fn resume_native(&mut self) -> Result<Action, Exit> {
        match self.thread.calls.pop() {
            Some((Call::Native(frame), then)) => {
                self.thread.natives -= 1;
                let (base, top) = (frame.base as usize, frame.top as usize);
                let flow = library::resume(self, frame.waiting, base);
                self.follow(flow, base, top, then)
            }
            Some(script) => {
                self.thread.calls.push(script);
                unreachable!("only functions of the library wait for values")
            }
            None => self.finish_thread(),
        }
    }

    /// The first function of a coroutine, or of the script, has returned what is in `values`.
    pub(crate) fn finish_thread(&mut self) -> Result<Action, Exit> {
        if self.coroutines.current.is_none() {
            return Err(Exit::Finished);
        }
        self.switch_back(Status::Dead);
        Ok(self.resumed(true))
    }

    /// Gives what is in `values` to the `resume` that waits on top.
    fn resumed(&mut self, is_ok: bool) -> Action {
        let Some((Call::Native(frame), then)) = self.thread.calls.pop() else {
            unreachable!("whoever resumed a coroutine waits for it")
        };
        self.thread.natives -= 1;
        match frame.waiting {
            Waiting::Resume { is_wrap: true, .. } => {}
            _ => self.values.insert(0, Value::Bool(is_ok)),
        }
        Action::Deliver(then)
    }

    fn yield_values(&mut self, base: usize, top: usize, then: Then) -> Action {
        if self.coroutines.current.is_none() {
            return Action::Raise(Raise::Bare(
                b"attempt to yield across metamethod/C-call boundary".to_vec(),
            ));
        }
        self.wait(Waiting::Yield, base, top, then);
        self.switch_back(Status::Suspended);
        self.resumed(true)
    }

    fn resume_thread(
        &mut self,
        thread: crate::value::ThreadRef,
        is_wrap: bool,
        base: usize,
        top: usize,
        then: Then,
    ) -> Action {
        if self.thread.natives >= NATIVES_MAX || self.coroutines.resumers.len() >= NATIVES_MAX as usize {
            return Action::Raise(Raise::Text("C stack overflow"));
        }
        self.wait(Waiting::Resume { thread, is_wrap }, base, top, then);
        self.switch_to(thread);
        match self.thread.calls.pop() {
            Some((Call::Native(frame), then)) => {
                debug_assert!(matches!(frame.waiting, Waiting::Yield));
                self.thread.natives -= 1;
                Action::Deliver(then)
            }
            Some(script) => {
                self.thread.calls.push(script);
                unreachable!("a coroutine that waits is in `yield`")
            }
            None => {
                // Its function is the first value of its stack.
                let count = self.values.len();
                if let Err(raise) = self.ensure_stack(1 + count) {
                    return Action::Raise(raise);
                }
                self.thread.stack[1..=count].copy_from_slice(&self.values);
                self.values.clear();
                Action::Call {
                    at: 0,
                    count,
                    then: Then::Native,
                }
            }
        }
    }

    // ---- errors

    /// The error's value, with its position if it gets one.
    pub(crate) fn error_value(&mut self, raise: Raise) -> Result<Value, Raise> {
        match raise {
            Raise::Value(value) => Ok(value),
            Raise::Text(text) => self.error_value(Raise::Message(text.as_bytes().to_vec())),
            Raise::Message(message) => {
                let mut text = self.position(1);
                text.extend_from_slice(&message);
                self.heap.text(&text)
            }
            Raise::Bare(message) => self.heap.text(&message),
            Raise::Reply(message) => {
                let table = self.heap.add_table(0, 1)?;
                let text = self.heap.text(&message)?;
                self.heap.set(table, Value::Str(Event::Err.name()), text)?;
                Ok(Value::Table(table))
            }
            // A call that is put off is no error, and does not come here.
            Raise::Memory | Raise::Large => Err(Raise::Memory),
        }
    }

    fn unwind(&mut self, raise: Raise) -> Result<Action, Exit> {
        if let Some((source, line)) = self.line_at(1) {
            self.site = Some(Site { source, line });
        }
        let Ok(mut error) = self.error_value(raise) else {
            return Err(Exit::OutOfMemory);
        };
        self.values.clear();
        loop {
            match self.thread.calls.pop() {
                Some((Call::Script(_), _)) => {}
                Some((Call::Native(frame), then)) => {
                    self.thread.natives -= 1;
                    let (base, top) = (frame.base as usize, frame.top as usize);
                    match frame.waiting {
                        Waiting::Pcall | Waiting::XpcallHandler => {
                            self.close_upvals(base);
                            // Redis's `pcall` gives the text of an error that is a reply.
                            if let (Waiting::Pcall, Value::Table(table)) = (&frame.waiting, error)
                                && let text @ (Value::Str(_) | Value::Number(_)) =
                                    self.heap.get_string(table, Event::Err.name())
                            {
                                error = text;
                            }
                            self.values.extend([Value::Bool(false), error]);
                            return Ok(Action::Deliver(then));
                        }
                        Waiting::Xpcall => {
                            self.close_upvals(base);
                            let handler = self.arg(Args { base, count: 2 }, 1);
                            self.values.push(error);
                            return Ok(self.call_back(handler, Waiting::XpcallHandler, base, top, then));
                        }
                        Waiting::Load(_) => {
                            self.close_upvals(base);
                            self.values.extend([Value::Nil, error]);
                            return Ok(Action::Deliver(then));
                        }
                        Waiting::Tostring
                        | Waiting::Search(_)
                        | Waiting::Substitution(_)
                        | Waiting::Sort(_)
                        | Waiting::Foreach
                        | Waiting::Foreachi { .. }
                        | Waiting::Resume { .. }
                        | Waiting::Yield
                        | Waiting::Command { .. } => {}
                    }
                }
                None if self.coroutines.current.is_none() => return Err(Exit::Failed(error)),
                None => {
                    self.close_upvals(0);
                    self.switch_back(Status::Dead);
                    let is_wrap = matches!(
                        self.thread.calls.last(),
                        Some((Call::Native(frame), _)) if matches!(frame.waiting, Waiting::Resume { is_wrap: true, .. })
                    );
                    if !is_wrap {
                        self.values.push(error);
                        return Ok(self.resumed(false));
                    }
                    self.thread.calls.pop();
                    self.thread.natives -= 1;
                    if let Value::Str(string) = error {
                        let mut text = self.position(1);
                        text.extend_from_slice(self.heap.bytes(string));
                        match self.heap.text(&text) {
                            Ok(text) => error = text,
                            Err(_) => return Err(Exit::OutOfMemory),
                        }
                    }
                    if let Some((source, line)) = self.line_at(1) {
                        self.site = Some(Site { source, line });
                    }
                }
            }
        }
    }

    /// `attempt to do something with a value`, with the value's name if it has one.
    pub(crate) fn operand_error(&self, what: &str, at: usize) -> Raise {
        let value = self.thread.stack[at];
        let mut text = format!("attempt to {what} ").into_bytes();
        if let Some((Call::Script(frame), _)) = self.thread.calls.last()
            && let Some(register) = at.checked_sub(frame.base as usize)
            && let Ok(register) = u8::try_from(register)
            && let Some(name) = self.prototypes[frame.prototype as usize].name_of(frame.pc - 1, register)
        {
            text.extend_from_slice(format!("{} '", name.kind.word()).as_bytes());
            text.extend_from_slice(&name.text);
            text.extend_from_slice(format!("' (a {} value)", value.type_name()).as_bytes());
        } else {
            text.extend_from_slice(format!("a {} value", value.type_name()).as_bytes());
        }
        Raise::Message(text)
    }

    /// The same of a value that is in no register.
    pub(crate) fn value_error(what: &str, value: Value) -> Raise {
        Raise::Message(format!("attempt to {what} a {} value", value.type_name()).into_bytes())
    }

    pub(crate) fn compare_error(a: Value, b: Value) -> Raise {
        let (a, b) = (a.type_name(), b.type_name());
        Raise::Message(if a == b {
            format!("attempt to compare two {a} values").into_bytes()
        } else {
            format!("attempt to compare {a} with {b}").into_bytes()
        })
    }

    // ---- strings

    /// Bytes of the strings from `first` to `last` of the stack.
    pub(crate) fn text_bytes(&self, first: usize, last: usize) -> usize {
        let texts = self.thread.stack[first..=last].iter();
        let bytes = texts.map(|value| match *value {
            Value::Str(string) => self.heap.bytes(string).len(),
            _ => 0,
        });
        bytes.sum()
    }

    /// Puts the values from `first` to `last` of the stack together into `to`, from the right.
    pub(crate) fn concat(&mut self, to: usize, first: usize, mut last: usize) -> Result<Action, Raise> {
        while last > first {
            let (a, b) = (self.thread.stack[last - 1], self.thread.stack[last]);
            let is_text = |value: Value| matches!(value, Value::Str(_) | Value::Number(_));
            if !is_text(a) || !is_text(b) {
                let mut handler = self.handler(a, Event::Concat);
                if handler.is_nil() {
                    handler = self.handler(b, Event::Concat);
                }
                if handler.is_nil() {
                    let at = if is_text(a) { last } else { last - 1 };
                    return Err(self.operand_error("concatenate", at));
                }
                let then = Then::Concat {
                    to: to as u32,
                    first: first as u32,
                    last: (last - 1) as u32,
                };
                return self.call_handler(handler, &[a, b], then);
            }
            let mut begin = last - 1;
            while begin > first && is_text(self.thread.stack[begin - 1]) {
                begin -= 1;
            }
            let mut text = Vec::new();
            let mut length = 0usize;
            for value in &self.thread.stack[begin..=last] {
                if let Value::Str(string) = *value {
                    length += self.heap.bytes(string).len();
                }
            }
            // Before anything is copied: what does not fit is not made.
            if length > self.heap.room() {
                return Err(Raise::Memory);
            }
            text.reserve(length + 32);
            for value in &self.thread.stack[begin..=last] {
                match *value {
                    Value::Str(string) => text.extend_from_slice(self.heap.bytes(string)),
                    Value::Number(n) => crate::number::push_number(&mut text, n),
                    _ => {}
                }
            }
            self.charge(text.len() / 64);
            // Should there be no room for a handler's call, then that must be known before anything is replaced.
            if begin > first {
                let extent = self.extent();
                self.ensure_stack(extent + 3)?;
            }
            let result = self.heap.text(&text)?;
            self.thread.stack[begin] = result;
            last = begin;
        }
        self.thread.stack[to] = self.thread.stack[first];
        Ok(Action::Go)
    }

    /// The end of what is in use on the stack.
    fn extent(&self) -> usize {
        let extent = match self.thread.calls.last() {
            Some((Call::Script(frame), _)) => {
                frame.base as usize + usize::from(self.prototypes[frame.prototype as usize].registers)
            }
            Some((Call::Native(frame), _)) => frame.top as usize,
            None => 0,
        };
        extent.max(self.thread.top)
    }

    /// Calls a handler of a metatable, above all that is in use.
    pub(crate) fn call_handler(
        &mut self,
        handler: Value,
        args: &[Value],
        then: Then,
    ) -> Result<Action, Raise> {
        let at = self.extent();
        self.ensure_stack(at + 1 + args.len())?;
        self.thread.stack[at] = handler;
        self.thread.stack[at + 1..=at + args.len()].copy_from_slice(args);
        Ok(Action::Call {
            at,
            count: args.len(),
            then,
        })
    }

    /// Makes a function of a script, with what it captures.
    pub(crate) fn make_closure(
        &mut self,
        functions: Functions<'_>,
        prototype: u32,
        base: usize,
        outer: ClosureRef,
    ) -> Result<Value, Raise> {
        let captures = &functions[prototype as usize].prototype.captures;
        let mut upvals = Vec::with_capacity(captures.len());
        for capture in captures {
            upvals.push(match *capture {
                crate::code::Capture::Register(register) => self.find_upval(base + usize::from(register))?,
                crate::code::Capture::Upval(upval) => self.heap.closure(outer).upvals[usize::from(upval)],
            });
        }
        let closure = Closure {
            prototype,
            upvals: upvals.into_boxed_slice(),
        };
        self.heap.add_closure(closure).map(Value::Closure)
    }
}

impl Action {
    /// If values are for a function of the library that waits, lets it go on.
    fn resume_waiting(self, vm: &mut Vm) -> Result<Action, Exit> {
        match self {
            Action::Deliver(Then::Native) => vm.resume_native(),
            other => Ok(other),
        }
    }
}
