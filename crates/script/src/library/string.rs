//! Strings, patterns and formats aside.

use super::{Flow, Result};
use crate::raise::Raise;
use crate::value::Value;
use crate::vm::{Args, VALUES_MAX, Vm};

/// A position counted from the end if it is negative; before the beginning it is 0.
pub(super) fn from_end(position: i64, length: usize) -> i64 {
    if position < 0 {
        (position.saturating_add(length as i64 + 1)).max(0)
    } else {
        position
    }
}

pub(super) fn byte(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    let first = from_end(vm.optional_integer(args, 1, 1)?, text.len());
    let last = from_end(vm.optional_integer(args, 2, first)?, text.len());
    let (first, last) = (first.max(1) as usize, last.min(text.len() as i64));
    if last < first as i64 {
        return Ok(Flow::None);
    }
    let last = last as usize;
    if last - first + 1 >= VALUES_MAX {
        return Err(Raise::Text("string slice too long"));
    }
    vm.values.clear();
    for &byte in &text[first - 1..last] {
        vm.values.push(Value::Number(f64::from(byte)));
    }
    Ok(Flow::Values)
}

pub(super) fn char(vm: &mut Vm, args: Args) -> Result {
    let mut text = Vec::with_capacity(args.count);
    for index in 0..args.count {
        let code = vm.integer_arg(args, index)? as i32;
        match u8::try_from(code) {
            Ok(byte) => text.push(byte),
            Err(_) => return Err(vm.bad_argument(args, index, "invalid value")),
        }
    }
    vm.heap.text(&text).map(Flow::One)
}

/// What Redis gives is code that a hostile script can change and load again (CVE-2015-4335).
pub(super) fn dump(vm: &mut Vm, args: Args) -> Result {
    vm.function_arg(args, 0)?;
    Err(Raise::Text("unable to dump given function"))
}

pub(super) fn len(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    Ok(Flow::One(Value::Number(text.len() as f64)))
}

/// A string that is made byte by byte of another one.
fn mapped(vm: &mut Vm, args: Args, map: impl Fn(&mut [u8])) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    vm.may_make(text.len())?;
    vm.charge(text.len() / 32);
    if text.len() > vm.heap.room() {
        return Err(Raise::Memory);
    }
    let mut text = text.to_vec();
    map(&mut text);
    vm.heap.text(&text).map(Flow::One)
}

pub(super) fn lower(vm: &mut Vm, args: Args) -> Result {
    mapped(vm, args, <[u8]>::make_ascii_lowercase)
}

pub(super) fn upper(vm: &mut Vm, args: Args) -> Result {
    mapped(vm, args, <[u8]>::make_ascii_uppercase)
}

pub(super) fn reverse(vm: &mut Vm, args: Args) -> Result {
    mapped(vm, args, <[u8]>::reverse)
}

pub(super) fn rep(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    let count = usize::try_from((vm.integer_arg(args, 1)? as i32).max(0)).unwrap_or(0);
    // Before anything is made: the product may be anything at all. The result stands twice while it becomes a string.
    let length = text.len().saturating_mul(count);
    if length.saturating_mul(2) > vm.heap.room() {
        return Err(Raise::Memory);
    }
    vm.may_make(length)?;
    vm.charge(length / 32);
    let text = text.repeat(count);
    vm.heap.text(&text).map(Flow::One)
}

pub(super) fn sub(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    let first = from_end(vm.integer_arg(args, 1)?, text.len()).max(1) as usize;
    let last = from_end(vm.optional_integer(args, 2, -1)?, text.len()).min(text.len() as i64);
    if last < first as i64 {
        return vm.heap.text(b"").map(Flow::One);
    }
    let part = &text[first - 1..last as usize];
    vm.may_make(part.len())?;
    vm.charge(part.len() / 64);
    vm.heap.text(part).map(Flow::One)
}
