//! Instructions.

use crate::arithmetic::Arithmetic;
use crate::code::{CONSTANT, Op};
use crate::drive::{Action, Exit, Functions};
use crate::library::{self, Flow};
use crate::raise::Raise;
use crate::thread::{Call, Then};
use crate::value::{StrRef, Value};
use crate::vm::{Args, Event, READONLY, Vm};
use std::cmp::Ordering;

/// Handlers that are asked one after the other for an index.
const HANDLERS_MAX: usize = 100;

/// Bytes that are compared in one step.
const COMPARED_PER_STEP: u64 = 8;

/// What an index gives.
pub(crate) enum Found {
    Value(Value),
    /// This function is to be asked.
    Handler(Value, Value),
    /// This value cannot be indexed; whether it is the one that the instruction names.
    Not(Value, bool),
    Loop,
}

impl Vm {
    pub(crate) fn index(&mut self, object: Value, key: Value) -> Found {
        let mut object = object;
        for step in 0..HANDLERS_MAX {
            let handler = if let Value::Table(table) = object {
                let value = self.heap.get(table, key);
                if !value.is_nil() {
                    return Found::Value(value);
                }
                let handler = self.table_handler(table, Event::Index);
                if handler.is_nil() {
                    return Found::Value(Value::Nil);
                }
                handler
            } else {
                let handler = self.handler(object, Event::Index);
                if handler.is_nil() {
                    return Found::Not(object, step == 0);
                }
                handler
            };
            if Self::is_function(handler) {
                return Found::Handler(handler, object);
            }
            object = handler;
        }
        Found::Loop
    }

    /// Reads `object[key]` into a place of the stack. `register` is where the object is, if it is in one.
    fn index_slow(
        &mut self,
        to: usize,
        object: Value,
        key: Value,
        register: Option<usize>,
    ) -> Result<Action, Raise> {
        match self.index(object, key) {
            Found::Value(value) => {
                self.thread.stack[to] = value;
                Ok(Action::Go)
            }
            Found::Handler(handler, object) => {
                self.call_handler(handler, &[object, key], Then::One(to as u32))
            }
            Found::Not(_, true) if register.is_some() => {
                Err(self.operand_error("index", register.unwrap_or_default()))
            }
            Found::Not(value, _) => Err(Self::value_error("index", value)),
            Found::Loop => Err(Raise::Text("loop in gettable")),
        }
    }

    /// Writes `object[key]`.
    fn set_index(
        &mut self,
        object: Value,
        key: Value,
        value: Value,
        register: Option<usize>,
    ) -> Result<Action, Raise> {
        let mut object = object;
        for step in 0..HANDLERS_MAX {
            let handler = if let Value::Table(table) = object {
                let handler = if self.heap.table(table).meta.is_none() || !self.heap.get(table, key).is_nil()
                {
                    Value::Nil
                } else {
                    self.table_handler(table, Event::NewIndex)
                };
                if handler.is_nil() {
                    match key {
                        Value::Nil => return Err(Raise::Text("table index is nil")),
                        Value::Number(n) if n.is_nan() => return Err(Raise::Text("table index is NaN")),
                        _ => {}
                    }
                    if self.heap.table(table).is_readonly {
                        return Err(Raise::Text(READONLY));
                    }
                    self.heap.set(table, key, value)?;
                    return Ok(Action::Go);
                }
                handler
            } else {
                let handler = self.handler(object, Event::NewIndex);
                if handler.is_nil() {
                    return Err(match register {
                        Some(register) if step == 0 => self.operand_error("index", register),
                        _ => Self::value_error("index", object),
                    });
                }
                handler
            };
            if Self::is_function(handler) {
                return self.call_handler(handler, &[object, key, value], Then::Nothing);
            }
            object = handler;
        }
        Err(Raise::Text("loop in settable"))
    }

    fn arithmetic_slow(
        &mut self,
        operation: Arithmetic,
        to: usize,
        (a, b): (Value, Value),
        (at_a, at_b): (Option<usize>, Option<usize>),
    ) -> Result<Action, Raise> {
        if let (Some(x), Some(y)) = (self.to_number(a), self.to_number(b)) {
            self.thread.stack[to] = Value::Number(operation.of(x, y));
            return Ok(Action::Go);
        }
        let event = match operation {
            Arithmetic::Add => Event::Add,
            Arithmetic::Sub => Event::Sub,
            Arithmetic::Mul => Event::Mul,
            Arithmetic::Div => Event::Div,
            Arithmetic::Mod => Event::Mod,
            Arithmetic::Pow => Event::Pow,
            Arithmetic::Minus => Event::Minus,
        };
        let mut handler = self.handler(a, event);
        if handler.is_nil() {
            handler = self.handler(b, event);
        }
        if handler.is_nil() {
            let is_first = self.to_number(a).is_none();
            let (value, at) = if is_first { (a, at_a) } else { (b, at_b) };
            let what = "perform arithmetic on";
            return Err(match at {
                Some(at) => self.operand_error(what, at),
                None => Self::value_error(what, value),
            });
        }
        self.call_handler(handler, &[a, b], Then::One(to as u32))
    }

    /// The order of two strings: bytes, as in the C locale.
    pub(crate) fn less(&self, a: Value, b: Value) -> Option<bool> {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => Some(a < b),
            (Value::Str(a), Value::Str(b)) => Some(self.order(a, b).is_lt()),
            _ => None,
        }
    }

    /// Which string comes first. Whoever compares long ones pays for it.
    fn order(&self, a: StrRef, b: StrRef) -> Ordering {
        let (a, b) = (self.heap.bytes(a), self.heap.bytes(b));
        self.heap
            .steps()
            .add(a.len().min(b.len()) as u64 / COMPARED_PER_STEP);
        a.cmp(b)
    }

    /// The handler of a comparison, if both sides have the same one.
    pub(crate) fn order_handler(&self, a: Value, b: Value, event: Event) -> Option<Value> {
        let handler = self.handler(a, event);
        (!handler.is_nil() && handler == self.handler(b, event)).then_some(handler)
    }

    fn compare_slow(&mut self, is: bool, a: Value, b: Value, is_or_equal: bool) -> Result<Action, Raise> {
        if std::mem::discriminant(&a) != std::mem::discriminant(&b) && !Self::is_function(a) {
            return Err(Self::compare_error(a, b));
        }
        if is_or_equal {
            if let (Value::Str(x), Value::Str(y)) = (a, b) {
                let result = self.order(x, y).is_le();
                return Ok(self.compared(result, is));
            }
            if let Some(handler) = self.order_handler(a, b, Event::LessEqual) {
                return self.call_handler(handler, &[a, b], Then::Compare { is });
            }
            if let Some(handler) = self.order_handler(b, a, Event::Less) {
                return self.call_handler(handler, &[b, a], Then::Compare { is: !is });
            }
        } else {
            if let Some(result) = self.less(a, b) {
                return Ok(self.compared(result, is));
            }
            if let Some(handler) = self.order_handler(a, b, Event::Less) {
                return self.call_handler(handler, &[a, b], Then::Compare { is });
            }
        }
        Err(Self::compare_error(a, b))
    }

    pub(crate) fn pay_for_steps(&mut self) {
        self.fuel.left -= self.heap.steps().pay() as i64;
    }

    fn compared(&mut self, result: bool, is: bool) -> Action {
        if result != is
            && let Some((Call::Script(frame), _)) = self.thread.calls.last_mut()
        {
            frame.pc += 1;
        }
        Action::Go
    }

    fn equal_slow(&mut self, is: bool, a: Value, b: Value) -> Result<Action, Raise> {
        if let (Value::Table(x), Value::Table(y)) = (a, b)
            && x != y
        {
            let handler = self.table_handler(x, Event::Equal);
            if !handler.is_nil() && handler == self.table_handler(y, Event::Equal) {
                return self.call_handler(handler, &[a, b], Then::Compare { is });
            }
        }
        Ok(self.compared(a == b, is))
    }

    /// Carries out instructions of the call on top, until something else must happen.
    ///
    /// Everything that calls, fails or may take long leaves the inner loop by way of an action.
    pub(crate) fn execute(&mut self, functions: Functions<'_>, first: Action) -> Exit {
        let mut action = first;
        loop {
            let mut is_second_try = false;
            if let Action::Raise(Raise::Memory) = action {
                let Some((Call::Script(frame), _)) = self.thread.calls.last_mut() else {
                    return Exit::OutOfMemory;
                };
                // Nothing of the instruction has happened: everything is collected, and it is tried again.
                frame.pc -= 1;
                self.heap.collect_everything();
                is_second_try = true;
                action = Action::Go;
            }
            if let Err(exit) = self.drive(functions, action) {
                return exit;
            }
            while self.heap.wants_step() {
                if self.fuel.left <= 0 && !is_second_try {
                    return Exit::Yielded;
                }
                self.collect_step(functions);
            }
            self.pay_for_steps();
            let result = if is_second_try {
                // One instruction, so that its failing again is told from another one's.
                let left = self.fuel.left;
                self.fuel.left = 1;
                let result = self.instructions(functions);
                self.fuel.left += left - 1;
                match result {
                    Ok(Action::Raise(Raise::Memory)) => return Exit::OutOfMemory,
                    Err(Exit::Yielded) => Ok(Action::Go),
                    other => other,
                }
            } else {
                self.instructions(functions)
            };
            action = match result {
                Ok(action) => action,
                Err(exit) => return exit,
            };
        }
    }

    /// Nothing of the instruction on top has happened, and it is carried out when the host says so.
    fn put_off_instruction(&mut self) -> Exit {
        if let Some((Call::Script(frame), _)) = self.thread.calls.last_mut() {
            frame.pc -= 1;
        }
        Exit::Large
    }

    #[allow(clippy::too_many_lines)]
    fn instructions(&mut self, functions: Functions<'_>) -> Result<Action, Exit> {
        'call: loop {
            // A deeper stack may have taken what a step is due for: it is taken here, and not where a budget happens to end.
            if self.heap.wants_step() {
                return Ok(Action::Go);
            }
            let Some((Call::Script(frame), _)) = self.thread.calls.last() else {
                unreachable!("instructions go on in a function of a script")
            };
            let (closure, base) = (frame.closure, frame.base as usize);
            let mut pc = frame.pc as usize;
            let function = &functions[frame.prototype as usize];
            let code = &function.prototype.code[..];
            let constants = &function.constants[..];

            macro_rules! register {
                ($index:expr) => {
                    self.thread.stack[base + usize::from($index)]
                };
            }
            macro_rules! operand {
                ($index:expr) => {
                    if $index < CONSTANT {
                        self.thread.stack[base + usize::from($index)]
                    } else {
                        constants[usize::from($index - CONSTANT)]
                    }
                };
            }
            macro_rules! save {
                () => {
                    if let Some((Call::Script(frame), _)) = self.thread.calls.last_mut() {
                        frame.pc = pc as u32;
                    }
                };
            }
            macro_rules! leave {
                ($action:expr) => {{
                    save!();
                    return Ok(match $action {
                        Ok(action) => action,
                        Err(raise) => Action::Raise(raise),
                    });
                }};
            }
            macro_rules! place {
                ($operand:expr) => {
                    ($operand < CONSTANT).then(|| base + usize::from($operand))
                };
            }
            macro_rules! arithmetic {
                ($a:expr, $b:expr, $c:expr, $operation:ident, $fast:expr) => {{
                    let (x, y) = (operand!($b), operand!($c));
                    if let (Value::Number(x), Value::Number(y)) = (x, y) {
                        register!($a) = Value::Number($fast(x, y));
                    } else {
                        let to = base + usize::from($a);
                        let places = (place!($b), place!($c));
                        save!();
                        leave!(self.arithmetic_slow(Arithmetic::$operation, to, (x, y), places));
                    }
                }};
            }

            // Keys that share a place with many others cost more.
            macro_rules! pay {
                () => {
                    if self.heap.steps().are_many() {
                        self.pay_for_steps();
                    }
                };
            }

            loop {
                if self.fuel.left <= 0 {
                    save!();
                    return Err(Exit::Yielded);
                }
                self.fuel.left -= 1;
                let op = code[pc];
                pc += 1;
                match op {
                    Op::Move { a, b } => register!(a) = register!(b),
                    Op::Constant { a, k } => register!(a) = constants[k as usize],
                    Op::Bool { a, value, skip } => {
                        register!(a) = Value::Bool(value);
                        pc += usize::from(skip);
                    }
                    Op::Nil { a, b } => {
                        self.thread.stack[base + usize::from(a)..=base + usize::from(b)].fill(Value::Nil);
                    }
                    Op::GetUpval { a, b } => {
                        let upval = self.heap.closure(closure).upvals[usize::from(b)];
                        register!(a) = self.upval(upval);
                    }
                    Op::SetUpval { a, b } => {
                        let upval = self.heap.closure(closure).upvals[usize::from(b)];
                        let value = register!(a);
                        self.set_upval(upval, value);
                    }
                    Op::GetGlobal { a, k } => {
                        let key = constants[k as usize];
                        let value = match key {
                            Value::Str(key) => self.heap.get_string(self.tables.visible, key),
                            _ => Value::Nil,
                        };
                        if value.is_nil() {
                            let globals = Value::Table(self.tables.visible);
                            save!();
                            leave!(self.index_slow(base + usize::from(a), globals, key, None));
                        }
                        register!(a) = value;
                    }
                    Op::SetGlobal { a, k } => {
                        let (key, value) = (constants[k as usize], register!(a));
                        let globals = Value::Table(self.tables.visible);
                        save!();
                        leave!(self.set_index(globals, key, value, None));
                    }
                    Op::Index { a, b, c } => {
                        pay!();
                        let (object, key) = (register!(b), operand!(c));
                        if let (Value::Table(table), Value::Number(n)) = (object, key) {
                            let value = self.heap.get_number(table, n);
                            if !value.is_nil() {
                                register!(a) = value;
                                continue;
                            }
                        }
                        if let (Value::Table(table), Value::Str(key)) = (object, key) {
                            let value = self.heap.get_string(table, key);
                            if !value.is_nil() {
                                register!(a) = value;
                                continue;
                            }
                        }
                        save!();
                        let at = Some(base + usize::from(b));
                        leave!(self.index_slow(base + usize::from(a), object, key, at));
                    }
                    Op::Field { a, b, k } => {
                        pay!();
                        let (object, key) = (register!(b), constants[usize::from(k)]);
                        if let (Value::Table(table), Value::Str(key)) = (object, key) {
                            let value = self.heap.get_string(table, key);
                            if !value.is_nil() || self.heap.table(table).meta.is_none() {
                                register!(a) = value;
                                continue;
                            }
                        }
                        save!();
                        let at = Some(base + usize::from(b));
                        leave!(self.index_slow(base + usize::from(a), object, key, at));
                    }
                    Op::SetIndex { a, b, c } => {
                        pay!();
                        let (object, key, value) = (register!(a), operand!(b), operand!(c));
                        if let (Value::Table(table), Value::Number(n)) = (object, key)
                            && self.heap.replace_number(table, n, value)
                        {
                            continue;
                        }
                        save!();
                        let at = Some(base + usize::from(a));
                        match self.set_index(object, key, value, at) {
                            Ok(Action::Go) if !self.heap.wants_step() => {}
                            other => leave!(other),
                        }
                    }
                    Op::SetField { a, k, c } => {
                        pay!();
                        let (object, key, value) = (register!(a), constants[usize::from(k)], operand!(c));
                        if let (Value::Table(table), Value::Str(key)) = (object, key)
                            && self.heap.replace_string(table, key, value)
                        {
                            continue;
                        }
                        save!();
                        let at = Some(base + usize::from(a));
                        match self.set_index(object, key, value, at) {
                            Ok(Action::Go) if !self.heap.wants_step() => {}
                            other => leave!(other),
                        }
                    }
                    Op::NewTable { a, array, hash } => {
                        match self.heap.add_table(usize::from(array), usize::from(hash)) {
                            Ok(table) => register!(a) = Value::Table(table),
                            Err(raise) => leave!(Err(raise)),
                        }
                        if self.heap.wants_step() {
                            leave!(Ok(Action::Go));
                        }
                    }
                    Op::Method { a, b, c } => {
                        pay!();
                        let (object, key) = (register!(b), operand!(c));
                        register!(a + 1) = object;
                        save!();
                        // The name of the object is that of its register before it was moved.
                        let at = Some(base + usize::from(b));
                        match self.index(object, key) {
                            Found::Value(value) => register!(a) = value,
                            _ => leave!(self.index_slow(base + usize::from(a), object, key, at)),
                        }
                    }
                    Op::Add { a, b, c } => arithmetic!(a, b, c, Add, |x: f64, y: f64| x + y),
                    Op::Sub { a, b, c } => arithmetic!(a, b, c, Sub, |x: f64, y: f64| x - y),
                    Op::Mul { a, b, c } => arithmetic!(a, b, c, Mul, |x: f64, y: f64| x * y),
                    Op::Div { a, b, c } => arithmetic!(a, b, c, Div, |x: f64, y: f64| x / y),
                    Op::Mod { a, b, c } => arithmetic!(a, b, c, Mod, crate::arithmetic::modulo),
                    Op::Pow { a, b, c } => arithmetic!(a, b, c, Pow, libm::pow),
                    Op::Minus { a, b } => {
                        let value = register!(b);
                        if let Value::Number(n) = value {
                            register!(a) = Value::Number(-n);
                        } else {
                            let at = Some(base + usize::from(b));
                            save!();
                            let to = base + usize::from(a);
                            leave!(self.arithmetic_slow(Arithmetic::Minus, to, (value, value), (at, at)));
                        }
                    }
                    Op::Not { a, b } => register!(a) = Value::Bool(!register!(b).is_truthy()),
                    Op::Length { a, b } => match register!(b) {
                        Value::Table(table) => {
                            register!(a) = Value::Number(f64::from(self.heap.border(table)));
                        }
                        Value::Str(string) => {
                            register!(a) = Value::Number(self.heap.bytes(string).len() as f64);
                        }
                        _ => {
                            save!();
                            leave!(Err(self.operand_error("get length of", base + usize::from(b))));
                        }
                    },
                    Op::Concat { a, b, c } => {
                        save!();
                        let (to, first, last) = (
                            base + usize::from(a),
                            base + usize::from(b),
                            base + usize::from(c),
                        );
                        if self.puts_off_large && self.puts_off(0, self.text_bytes(first, last)) {
                            return Err(self.put_off_instruction());
                        }
                        match self.concat(to, first, last) {
                            Ok(Action::Go) if !self.heap.wants_step() => {}
                            other => leave!(other),
                        }
                    }
                    Op::Jump { by } => pc = pc.wrapping_add_signed(by as isize),
                    Op::Equal { is, b, c } => {
                        let (x, y) = (operand!(b), operand!(c));
                        if let (Value::Table(_), Value::Table(_)) = (x, y) {
                            save!();
                            leave!(self.equal_slow(is, x, y));
                        }
                        if (x == y) != is {
                            pc += 1;
                        }
                    }
                    Op::Less { is, b, c } => {
                        let (x, y) = (operand!(b), operand!(c));
                        if let (Value::Number(x), Value::Number(y)) = (x, y) {
                            if (x < y) != is {
                                pc += 1;
                            }
                        } else {
                            save!();
                            leave!(self.compare_slow(is, x, y, false));
                        }
                    }
                    Op::LessEqual { is, b, c } => {
                        let (x, y) = (operand!(b), operand!(c));
                        if let (Value::Number(x), Value::Number(y)) = (x, y) {
                            if (x <= y) != is {
                                pc += 1;
                            }
                        } else {
                            save!();
                            leave!(self.compare_slow(is, x, y, true));
                        }
                    }
                    Op::Test { a, is } => {
                        if register!(a).is_truthy() != is {
                            pc += 1;
                        }
                    }
                    Op::TestSet { a, b, is } => {
                        let value = register!(b);
                        if value.is_truthy() == is {
                            register!(a) = value;
                        } else {
                            pc += 1;
                        }
                    }
                    Op::Call { a, args, results } => {
                        let at = base + usize::from(a);
                        let count = if args == 0 {
                            self.thread.top - at - 1
                        } else {
                            usize::from(args) - 1
                        };
                        let then = Then::Places {
                            at: at as u32,
                            want: u32::from(results).checked_sub(1),
                        };
                        save!();
                        match self.thread.stack[at] {
                            Value::Closure(closure) => {
                                match self.push_frame(functions, closure, at, count, then, 0) {
                                    Ok(()) => continue 'call,
                                    Err(raise) => return Ok(Action::Raise(raise)),
                                }
                            }
                            Value::Native(native) => {
                                if args == 0 {
                                    // What is collected must not be what is on its way.
                                    self.thread.top = at + 1 + count;
                                }
                                let flow = library::call(self, native, Args { base: at, count });
                                pay!();
                                if let Err(Raise::Large) = flow {
                                    return Err(self.put_off_instruction());
                                }
                                if !matches!(flow, Err(Raise::Memory)) {
                                    self.thread.top = 0;
                                }
                                if let Ok(Flow::One(value)) = flow
                                    && results > 0
                                {
                                    if results > 1 {
                                        self.thread.stack[at] = value;
                                        let end = at + usize::from(results) - 1;
                                        self.thread.stack[at + 1..end].fill(Value::Nil);
                                    }
                                    if self.heap.wants_step() {
                                        return Ok(Action::Go);
                                    }
                                    continue;
                                }
                                return self.follow(flow, at, at + 1 + count, then);
                            }
                            _ => return Ok(Action::Call { at, count, then }),
                        }
                    }
                    Op::TailCall { a, args } => {
                        let at = base + usize::from(a);
                        let count = if args == 0 {
                            self.thread.top - at - 1
                        } else {
                            usize::from(args) - 1
                        };
                        save!();
                        if let Value::Closure(closure) = self.thread.stack[at] {
                            self.close_upvals(base);
                            let Some((Call::Script(frame), then)) = self.thread.calls.pop() else {
                                unreachable!("it was there a moment ago")
                            };
                            let below = frame.function as usize;
                            self.thread.stack.copy_within(at..=at + count, below);
                            match self.push_frame(functions, closure, below, count, then, frame.tails + 1) {
                                Ok(()) => continue 'call,
                                // The arguments have moved, so it cannot be tried again.
                                Err(Raise::Memory) => return Err(Exit::OutOfMemory),
                                Err(raise) => {
                                    self.thread.calls.push((Call::Script(frame), then));
                                    return Ok(Action::Raise(raise));
                                }
                            }
                        }
                        // What is not a function of a script is called, and then its results are returned.
                        let then = Then::Places {
                            at: at as u32,
                            want: None,
                        };
                        return Ok(Action::Call { at, count, then });
                    }
                    Op::Return { a, count } => {
                        let at = base + usize::from(a);
                        let count = if count == 0 {
                            self.thread.top - at
                        } else {
                            usize::from(count) - 1
                        };
                        self.close_upvals(base);
                        let Some((_, then)) = self.thread.calls.pop() else {
                            unreachable!("it was there a moment ago")
                        };
                        self.thread.top = 0;
                        match then {
                            Then::Places { at: to, want } => {
                                let to = to as usize;
                                match want {
                                    Some(want) => {
                                        let want = want as usize;
                                        let given = want.min(count);
                                        for index in 0..given {
                                            self.thread.stack[to + index] = self.thread.stack[at + index];
                                        }
                                        if given < want {
                                            self.thread.stack[to + given..to + want].fill(Value::Nil);
                                        }
                                    }
                                    None => {
                                        self.thread.stack.copy_within(at..at + count, to);
                                        self.thread.top = to + count;
                                    }
                                }
                                continue 'call;
                            }
                            other => {
                                self.values.clear();
                                self.values.extend_from_slice(&self.thread.stack[at..at + count]);
                                return Ok(Action::Deliver(other));
                            }
                        }
                    }
                    Op::ForPrepare { a, by } => {
                        let [from, limit, step] = [0, 1, 2].map(|index| self.to_number(register!(a + index)));
                        let what = match (from, limit, step) {
                            (None, _, _) => "'for' initial value must be a number",
                            (_, None, _) => "'for' limit must be a number",
                            (_, _, None) => "'for' step must be a number",
                            (Some(from), Some(limit), Some(step)) => {
                                register!(a) = Value::Number(from - step);
                                register!(a + 1) = Value::Number(limit);
                                register!(a + 2) = Value::Number(step);
                                pc = pc.wrapping_add_signed(by as isize);
                                continue;
                            }
                        };
                        leave!(Err(Raise::Text(what)));
                    }
                    Op::ForLoop { a, by } => {
                        if let (Value::Number(index), Value::Number(limit), Value::Number(step)) =
                            (register!(a), register!(a + 1), register!(a + 2))
                        {
                            let index = index + step;
                            if if step > 0.0 {
                                index <= limit
                            } else {
                                limit <= index
                            } {
                                register!(a) = Value::Number(index);
                                register!(a + 3) = Value::Number(index);
                                pc = pc.wrapping_add_signed(by as isize);
                            }
                        }
                    }
                    Op::ForEach { a, count } => {
                        pay!();
                        let at = base + usize::from(a);
                        let [iterator, state, control] = [0, 1, 2].map(|index| self.thread.stack[at + index]);
                        // The two iterators that nearly all loops have are not called.
                        if let Value::Table(table) = state {
                            let pair = match iterator {
                                Value::Native(crate::native::Native::Next) => {
                                    self.heap.next(table, self.heap.hashed(control))
                                }
                                Value::Native(crate::native::Native::IpairsIterator) => {
                                    let index = match control {
                                        Value::Number(n) => n + 1.0,
                                        _ => f64::NAN,
                                    };
                                    let value = self.heap.get_number(table, index);
                                    let is_plain = self.heap.table(table).meta.is_none();
                                    if value.is_nil() {
                                        is_plain.then_some((Value::Nil, Value::Nil))
                                    } else {
                                        Some((Value::Number(index), value))
                                    }
                                }
                                _ => None,
                            };
                            if let Some((key, value)) = pair {
                                if key.is_nil() {
                                    // The jump back is left out.
                                    pc += 1;
                                    continue;
                                }
                                self.thread.stack[at + 2] = key;
                                self.thread.stack[at + 3] = key;
                                if count > 1 {
                                    self.thread.stack[at + 4] = value;
                                    let end = at + 3 + usize::from(count);
                                    self.thread.stack[at + 5..end].fill(Value::Nil);
                                }
                                continue;
                            }
                        }
                        let call = at + 3;
                        self.thread.stack[call] = iterator;
                        self.thread.stack[call + 1] = state;
                        self.thread.stack[call + 2] = control;
                        // The jump behind it looks at what came, so that a call that was interrupted is like any other.
                        let then = Then::Loop {
                            at: call as u32,
                            count: u32::from(count),
                        };
                        save!();
                        return Ok(Action::Call {
                            at: call,
                            count: 2,
                            then,
                        });
                    }
                    Op::SetList { a, count, from } => {
                        let at = base + usize::from(a);
                        let count = if count == 0 {
                            self.thread.top - at - 1
                        } else {
                            usize::from(count)
                        };
                        if let Value::Table(table) = self.thread.stack[at] {
                            save!();
                            let last = from as usize + count - 1;
                            if let Err(raise) = self.heap.reserve_array(table, last.min(1 << 26)) {
                                leave!(Err(raise));
                            }
                            for index in (0..count).rev() {
                                let value = self.thread.stack[at + 1 + index];
                                let key = Value::Number((from as usize + index) as f64);
                                if let Err(raise) = self.heap.set(table, key, value) {
                                    leave!(Err(raise));
                                }
                            }
                        }
                        self.thread.top = 0;
                        if self.heap.wants_step() {
                            leave!(Ok(Action::Go));
                        }
                    }
                    Op::Close { a } => self.close_upvals(base + usize::from(a)),
                    Op::Closure { a, child } => {
                        let prototype = function.children[child as usize];
                        save!();
                        match self.make_closure(functions, prototype, base, closure) {
                            Ok(value) => register!(a) = value,
                            Err(raise) => leave!(Err(raise)),
                        }
                        if self.heap.wants_step() {
                            leave!(Ok(Action::Go));
                        }
                    }
                    Op::Vararg { a, count } => {
                        let Some((Call::Script(frame), _)) = self.thread.calls.last() else {
                            unreachable!("it was there a moment ago")
                        };
                        let given = frame.varargs as usize;
                        let at = base + usize::from(a);
                        let want = if count == 0 { given } else { usize::from(count) - 1 };
                        if let Err(raise) = self.ensure_stack(at + want) {
                            leave!(Err(raise));
                        }
                        for index in 0..want {
                            self.thread.stack[at + index] = if index < given {
                                self.thread.stack[base - given + index]
                            } else {
                                Value::Nil
                            };
                        }
                        if count == 0 {
                            self.thread.top = at + given;
                        }
                        if self.heap.wants_step() {
                            leave!(Ok(Action::Go));
                        }
                    }
                }
            }
        }
    }
}
