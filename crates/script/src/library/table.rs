//! Tables, sorting aside.

use super::{Flow, Result};
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::{TableRef, Value};
use crate::vm::{Args, Vm};

fn length(vm: &Vm, table: TableRef) -> i64 {
    i64::from(vm.heap.border(table))
}

fn get(vm: &Vm, table: TableRef, index: i64) -> Value {
    vm.heap.get_number(table, index as f64)
}

fn set(vm: &mut Vm, table: TableRef, index: i64, value: Value) -> std::result::Result<(), Raise> {
    vm.raw_set(table, Value::Number(index as f64), value)
}

pub(super) fn concat(vm: &mut Vm, args: Args) -> Result {
    let separator = match vm.arg(args, 1) {
        Value::Nil => std::sync::Arc::from(&b""[..]),
        _ => vm.bytes_arg(args, 1)?,
    };
    let table = vm.table_arg(args, 0)?;
    let first = i64::from(vm.optional_integer(args, 2, 1)? as i32);
    let last = match vm.arg(args, 3) {
        Value::Nil => length(vm, table),
        _ => i64::from(vm.integer_arg(args, 3)? as i32),
    };
    let mut text = Vec::new();
    let mut index = first;
    while index <= last {
        if vm.puts_off(usize::try_from(index - first).unwrap_or(0), text.len()) {
            return Err(Raise::Large);
        }
        match get(vm, table, index) {
            Value::Str(string) => {
                vm.may_make(vm.heap.bytes(string).len())?;
                text.extend_from_slice(vm.heap.bytes(string));
            }
            Value::Number(n) => crate::number::push_number(&mut text, n),
            other => {
                return Err(Raise::message(format!(
                    "invalid value ({}) at index {index} in table for 'concat'",
                    other.type_name()
                )));
            }
        }
        if index != last {
            text.extend_from_slice(&separator);
        }
        if text.len().saturating_mul(2) > vm.heap.room() {
            return Err(Raise::Memory);
        }
        index += 1;
    }
    vm.charge(text.len() / 32 + usize::try_from(last - first).unwrap_or(0) / 4);
    vm.heap.text(&text).map(Flow::One)
}

pub(super) fn getn(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    Ok(Flow::One(Value::Number(length(vm, table) as f64)))
}

pub(super) fn setn(vm: &mut Vm, args: Args) -> Result {
    vm.table_arg(args, 0)?;
    Err(Raise::Text("'setn' is obsolete"))
}

pub(super) fn maxn(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    vm.charge(vm.heap.table(table).places() / 4);
    let max = vm
        .heap
        .table(table)
        .entries()
        .fold(0.0, |max: f64, (key, _)| match key {
            Value::Number(n) if n > max => n,
            _ => max,
        });
    Ok(Flow::One(Value::Number(max)))
}

pub(super) fn insert(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let end = length(vm, table) + 1;
    let (at, value) = match args.count {
        2 => (end, vm.arg(args, 1)),
        3 => (i64::from(vm.integer_arg(args, 1)? as i32), vm.arg(args, 2)),
        _ => return Err(Raise::Text("wrong number of arguments to 'insert'")),
    };
    let end = end.max(at);
    if vm.heap.table(table).is_readonly {
        return Err(Raise::Bare(crate::vm::READONLY.into()));
    }
    if end > at {
        // The last one may need room: it is made before anything has moved.
        let last = get(vm, table, end - 1);
        set(vm, table, end, last)?;
        shift(vm, table, at, end - 1, true)?;
    }
    set(vm, table, at, value)?;
    Ok(Flow::None)
}

/// Moves the values from `first` on, before `end`, by one place: up, the last being overwritten, or down onto `first`.
fn shift(vm: &mut Vm, table: TableRef, first: i64, end: i64, is_up: bool) -> std::result::Result<(), Raise> {
    let count = end - first;
    let inside = vm.heap.table(table).array().len() as i64;
    if first >= 1 && end <= inside {
        vm.charge(usize::try_from(count).unwrap_or(0) / 16);
        let array = vm.heap.table_to_fill(table).array_mut();
        let (from, to) = ((first - 1) as usize, (end - 1) as usize);
        if is_up {
            array.copy_within(from..to, from + 1);
        } else {
            array.copy_within(from + 1..=to, from);
        }
        return Ok(());
    }
    if count <= 2 * vm.heap.table(table).places() as i64 + 64 {
        vm.charge(usize::try_from(count).unwrap_or(0));
        if is_up {
            for index in (first..end).rev() {
                let value = get(vm, table, index);
                set(vm, table, index + 1, value)?;
            }
        } else {
            for index in first..end {
                let value = get(vm, table, index + 1);
                set(vm, table, index, value)?;
            }
        }
        return Ok(());
    }
    // A range that somebody chose to be long: only what is there is moved.
    vm.charge(vm.heap.table(table).places());
    let (from, to, by) = if is_up {
        (first, end, 1.0)
    } else {
        (first + 1, end + 1, -1.0)
    };
    let inside: Vec<(f64, Value)> = vm
        .heap
        .table(table)
        .entries()
        .filter_map(|(key, value)| match key {
            Value::Number(n) if n >= from as f64 && n < to as f64 && n == n.trunc() => Some((n, value)),
            _ => None,
        })
        .collect();
    for &(n, _) in &inside {
        vm.raw_set(table, Value::Number(n), Value::Nil)?;
    }
    for (n, value) in inside {
        vm.raw_set(table, Value::Number(n + by), value)?;
    }
    Ok(())
}

pub(super) fn remove(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let end = length(vm, table);
    let at = i64::from(vm.optional_integer(args, 1, end)? as i32);
    if at < 1 || at > end {
        return Ok(Flow::None);
    }
    if vm.heap.table(table).is_readonly {
        return Err(Raise::Bare(crate::vm::READONLY.into()));
    }
    let value = get(vm, table, at);
    shift(vm, table, at, end, false)?;
    set(vm, table, end, Value::Nil)?;
    Ok(Flow::One(value))
}

// ---- loops with a function

pub(super) fn foreach(vm: &mut Vm, args: Args) -> Result {
    vm.table_arg(args, 0)?;
    vm.function_arg(args, 1)?;
    vm.ensure_stack(args.base + 4)?;
    vm.thread.stack[args.base + 3] = Value::Nil;
    vm.values.clear();
    foreach_next(vm, args.base)
}

pub(super) fn foreach_next(vm: &mut Vm, base: usize) -> Result {
    if let Some(&value) = vm.values.first()
        && !value.is_nil()
    {
        return Ok(Flow::One(value));
    }
    let args = Args { base, count: 3 };
    let table = vm.table_arg(args, 0)?;
    let key = vm.heap.hashed(vm.arg(args, 2));
    let Some((key, value)) = vm.heap.next(table, key) else {
        return Err(Raise::Bare(b"invalid key to 'next'".to_vec()));
    };
    if key.is_nil() {
        return Ok(Flow::None);
    }
    vm.thread.stack[base + 3] = key;
    vm.values.clear();
    vm.values.extend([key, value]);
    Ok(Flow::Call {
        function: vm.arg(args, 1),
        waiting: Waiting::Foreach,
    })
}

pub(super) fn foreachi(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    vm.function_arg(args, 1)?;
    let last = vm.heap.border(table);
    vm.values.clear();
    foreachi_next(vm, args.base, 1, last)
}

pub(super) fn foreachi_next(vm: &mut Vm, base: usize, next: u32, last: u32) -> Result {
    if let Some(&value) = vm.values.first()
        && !value.is_nil()
    {
        return Ok(Flow::One(value));
    }
    if next > last {
        return Ok(Flow::None);
    }
    let args = Args { base, count: 2 };
    let table = vm.table_arg(args, 0)?;
    let value = vm.heap.get_index(table, next);
    vm.values.clear();
    vm.values.extend([Value::Number(f64::from(next)), value]);
    Ok(Flow::Call {
        function: vm.arg(args, 1),
        waiting: Waiting::Foreachi { next: next + 1, last },
    })
}
