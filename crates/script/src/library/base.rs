//! The basic functions.

use super::{Flow, Result};
use crate::compiler::compile;
use crate::native::Native;
use crate::number;
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::Value;
use crate::vm::{Args, Event, VALUES_MAX, Vm};

/// A byte that begins what `string.dump` gives in Redis: never read, since nothing checks what it says.
const BYTECODE: u8 = 0x1b;

pub(super) fn assert(vm: &mut Vm, args: Args) -> Result {
    if !vm.any(args, 0)?.is_truthy() {
        let message = match vm.arg(args, 1) {
            Value::Nil => b"assertion failed!".to_vec(),
            _ => vm.bytes_arg(args, 1)?.to_vec(),
        };
        return Err(Raise::Message(message));
    }
    take_from(vm, args, 0);
    Ok(Flow::Values)
}

/// Arguments from `first` on, as values on their way.
fn take_from(vm: &mut Vm, args: Args, first: usize) {
    vm.values.clear();
    let all = &vm.thread.stack[args.base + 1..args.base + 1 + args.count];
    vm.values.extend_from_slice(all.get(first..).unwrap_or_default());
}

pub(super) fn collectgarbage(vm: &mut Vm, args: Args) -> Result {
    let option = match vm.arg(args, 0) {
        Value::Nil => std::sync::Arc::from(&b"collect"[..]),
        _ => vm.bytes_arg(args, 0)?,
    };
    let n = match &option[..] {
        b"count" => vm.heap.used() as f64 / 1024.0,
        b"collect" => {
            vm.heap.collect_everything();
            0.0
        }
        b"step" => {
            vm.heap.collect_everything();
            return Ok(Flow::One(Value::Bool(true)));
        }
        b"stop" | b"restart" => 0.0,
        b"setpause" | b"setstepmul" => 200.0,
        other => {
            let what = format!("invalid option '{}'", String::from_utf8_lossy(other));
            return Err(vm.bad_argument(args, 0, &what));
        }
    };
    Ok(Flow::One(Value::Number(n)))
}

pub(super) fn gcinfo(vm: &mut Vm) -> Result {
    Ok(Flow::One(Value::Number((vm.heap.used() / 1024) as f64)))
}

pub(super) fn error(vm: &mut Vm, args: Args) -> Result {
    let level = vm.optional_integer(args, 1, 1)?;
    let value = vm.arg(args, 0);
    if level > 0
        && let Some(bytes) = vm.to_bytes(value)
    {
        // A level that no call has gives no position.
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        let mut text = vm.position(level);
        text.extend_from_slice(&bytes);
        return Err(Raise::Value(vm.heap.text(&text)?));
    }
    Err(Raise::Value(value))
}

pub(super) fn getmetatable(vm: &mut Vm, args: Args) -> Result {
    let value = vm.any(args, 0)?;
    let Some(meta) = vm.metatable(value) else {
        return Ok(Flow::One(Value::Nil));
    };
    let shown = vm.heap.get_string(meta, Event::Metatable.name());
    Ok(Flow::One(if shown.is_nil() { Value::Table(meta) } else { shown }))
}

pub(super) fn setmetatable(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let meta = match vm.arg(args, 1) {
        Value::Nil if args.count > 1 => None,
        Value::Table(meta) => Some(meta),
        _ => return Err(vm.bad_argument(args, 1, "nil or table expected")),
    };
    if !vm.handler(Value::Table(table), Event::Metatable).is_nil() {
        return Err(Raise::Text("cannot change a protected metatable"));
    }
    if vm.heap.table(table).is_readonly {
        return Err(Raise::Bare(crate::vm::READONLY.into()));
    }
    vm.heap.table_to_fill(table).meta = meta;
    Ok(Flow::One(Value::Table(table)))
}

pub(super) fn ipairs(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    vm.values.clear();
    let iterator = Value::Native(Native::IpairsIterator);
    vm.values
        .extend([iterator, Value::Table(table), Value::Number(0.0)]);
    Ok(Flow::Values)
}

pub(super) fn ipairs_iterator(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let index = (vm.integer_arg(args, 1)? as i32).wrapping_add(1);
    let value = vm.heap.get_number(table, f64::from(index));
    vm.values.clear();
    if !value.is_nil() {
        vm.values.extend([Value::Number(f64::from(index)), value]);
    }
    Ok(Flow::Values)
}

pub(super) fn next(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let key = vm.heap.hashed(vm.arg(args, 1));
    let Some((key, value)) = vm.heap.next(table, key) else {
        return Err(Raise::Bare(b"invalid key to 'next'".to_vec()));
    };
    vm.values.clear();
    vm.values.push(key);
    if !key.is_nil() {
        vm.values.push(value);
    }
    Ok(Flow::Values)
}

pub(super) fn pairs(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    vm.values.clear();
    vm.values
        .extend([Value::Native(Native::Next), Value::Table(table), Value::Nil]);
    Ok(Flow::Values)
}

pub(super) fn pcall(vm: &mut Vm, args: Args) -> Result {
    let function = vm.any(args, 0)?;
    take_from(vm, args, 1);
    Ok(Flow::Call {
        function,
        waiting: Waiting::Pcall,
    })
}

pub(super) fn xpcall(vm: &mut Vm, args: Args) -> Result {
    let function = vm.arg(args, 0);
    vm.any(args, 1)?;
    vm.values.clear();
    Ok(Flow::Call {
        function,
        waiting: Waiting::Xpcall,
    })
}

pub(super) fn rawequal(vm: &mut Vm, args: Args) -> Result {
    let equal = vm.any(args, 0)? == vm.any(args, 1)?;
    Ok(Flow::One(Value::Bool(equal)))
}

pub(super) fn rawget(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let key = vm.any(args, 1)?;
    Ok(Flow::One(vm.heap.get(table, key)))
}

pub(super) fn rawset(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let (key, value) = (vm.any(args, 1)?, vm.any(args, 2)?);
    match key {
        Value::Nil => return Err(Raise::Bare(b"table index is nil".to_vec())),
        Value::Number(n) if n.is_nan() => return Err(Raise::Bare(b"table index is NaN".to_vec())),
        _ => {}
    }
    vm.raw_set(table, key, value)?;
    Ok(Flow::One(Value::Table(table)))
}

pub(super) fn select(vm: &mut Vm, args: Args) -> Result {
    if let Value::Str(string) = vm.arg(args, 0)
        && vm.heap.bytes(string).first() == Some(&b'#')
    {
        return Ok(Flow::One(Value::Number((args.count - 1) as f64)));
    }
    let mut index = i64::from(vm.integer_arg(args, 0)? as i32);
    if index < 0 {
        index = index.saturating_add(args.count as i64);
    }
    if index < 1 {
        return Err(vm.bad_argument(args, 0, "index out of range"));
    }
    take_from(vm, args, usize::try_from(index).unwrap_or(usize::MAX));
    Ok(Flow::Values)
}

pub(super) fn tonumber(vm: &mut Vm, args: Args) -> Result {
    let base = vm.optional_integer(args, 1, 10)?;
    if base == 10 {
        let value = vm.any(args, 0)?;
        return Ok(Flow::One(vm.to_number(value).map_or(Value::Nil, Value::Number)));
    }
    let text = vm.bytes_arg(args, 0)?;
    if !(2..=36).contains(&base) {
        return Err(vm.bad_argument(args, 1, "base out of range"));
    }
    let n = number::parse_base(&text, base as u32);
    Ok(Flow::One(n.map_or(Value::Nil, Value::Number)))
}

/// What a value is called if nothing else says so.
pub(super) fn describe(vm: &mut Vm, value: Value) -> std::result::Result<Value, Raise> {
    let text = match value {
        Value::Str(_) => return Ok(value),
        Value::Nil => "nil".to_owned(),
        Value::Bool(bit) => bit.to_string(),
        Value::Number(n) => {
            let mut text = Vec::new();
            number::push_number(&mut text, n);
            return vm.heap.text(&text);
        }
        Value::Null => "userdata: (nil)".to_owned(),
        // Where an address would be: the same on every machine.
        Value::Table(table) => format!("table: 0x{:012x}", 0x1000 + u64::from(table.0) * 64),
        Value::Closure(closure) => format!("function: 0x{:012x}", 0x1_0000_0000 + u64::from(closure.0) * 64),
        Value::Native(native) => format!("function: 0x{:012x}", 0x2_0000_0000 + native as u64 * 64),
        Value::Bound(bound) => format!("function: 0x{:012x}", 0x3_0000_0000 + u64::from(bound.0) * 64),
        Value::Thread(thread) => format!("thread: 0x{:012x}", 0x4_0000_0000 + u64::from(thread.0) * 64),
    };
    vm.heap.text(text.as_bytes())
}

pub(super) fn tostring(vm: &mut Vm, args: Args) -> Result {
    let value = vm.any(args, 0)?;
    let handler = vm.handler(value, Event::Tostring);
    if handler.is_nil() {
        return describe(vm, value).map(Flow::One);
    }
    vm.values.clear();
    vm.values.push(value);
    Ok(Flow::Call {
        function: handler,
        waiting: Waiting::Tostring,
    })
}

pub(super) fn type_of(vm: &mut Vm, args: Args) -> Result {
    let name = vm.any(args, 0)?.type_name();
    vm.heap.text(name.as_bytes()).map(Flow::One)
}

pub(super) fn unpack(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let first = vm.optional_integer(args, 1, 1)? as i32;
    let last = match vm.arg(args, 2) {
        Value::Nil => i64::from(vm.heap.border(table)),
        _ => vm.integer_arg(args, 2)?,
    } as i32;
    if first > last {
        return Ok(Flow::None);
    }
    let count = i64::from(last) - i64::from(first) + 1;
    if count >= VALUES_MAX as i64 {
        return Err(Raise::Text("too many results to unpack"));
    }
    vm.charge(count as usize / 4);
    vm.values.clear();
    for index in first..=last {
        let value = vm.heap.get_number(table, f64::from(index));
        vm.values.push(value);
    }
    Ok(Flow::Values)
}

// ---- code from text

fn load_text(vm: &mut Vm, text: &[u8], name: &[u8]) -> Result {
    vm.charge(text.len() / 8);
    // Compiling takes several times as much as the text for a while.
    if text.len().saturating_mul(16) > vm.heap.room() {
        return Err(Raise::Memory);
    }
    let result = if text.first() == Some(&BYTECODE) {
        Err([&crate::lexer::chunk_id(name)[..], b": bytecode is not loaded"].concat())
    } else {
        compile(text, name)
    };
    match result {
        Ok(prototype) => Ok(Flow::Load(prototype)),
        Err(message) => {
            let message = vm.heap.text(&message)?;
            vm.values.clear();
            vm.values.extend([Value::Nil, message]);
            Ok(Flow::Values)
        }
    }
}

pub(super) fn loadstring(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    let name = match vm.arg(args, 1) {
        Value::Nil => text.clone(),
        _ => vm.bytes_arg(args, 1)?,
    };
    vm.may_parse(text.len())?;
    load_text(vm, &text, &name)
}

pub(super) fn load(vm: &mut Vm, args: Args) -> Result {
    let function = vm.function_arg(args, 0)?;
    if !vm.arg(args, 1).is_nil() {
        vm.bytes_arg(args, 1)?;
    }
    vm.values.clear();
    Ok(Flow::Call {
        function,
        waiting: Waiting::Load(Vec::new()),
    })
}

pub(super) fn load_next(vm: &mut Vm, mut text: Vec<u8>, base: usize) -> Result {
    let args = Args { base, count: 2 };
    let piece = vm.values.first().copied().unwrap_or(Value::Nil);
    let bytes = match piece {
        Value::Nil => None,
        _ => match vm.to_bytes(piece) {
            Some(bytes) => Some(bytes),
            None => {
                let message = vm.heap.text(b"reader function must return a string")?;
                vm.values.clear();
                vm.values.extend([Value::Nil, message]);
                return Ok(Flow::Values);
            }
        },
    };
    if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
        if text.len() + bytes.len() > vm.heap.room() {
            return Err(Raise::Memory);
        }
        text.extend_from_slice(&bytes);
        vm.values.clear();
        return Ok(Flow::Call {
            function: vm.arg(args, 0),
            waiting: Waiting::Load(text),
        });
    }
    if vm.may_parse(text.len()).is_err() {
        return Ok(Flow::PutOff(Waiting::Load(text)));
    }
    let name = match vm.arg(args, 1) {
        Value::Str(name) => vm.heap.bytes(name).clone(),
        _ => std::sync::Arc::from(&b"=(load)"[..]),
    };
    load_text(vm, &text, &name)
}
