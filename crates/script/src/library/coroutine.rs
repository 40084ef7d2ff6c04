//! Coroutines. They can wait anywhere, even where those of Lua 5.1 cannot: below `pcall`, a metamethod or `sort`.

use super::{Flow, Result};
use crate::heap::Bound;
use crate::native::Native;
use crate::raise::Raise;
use crate::thread::{Status, Thread};
use crate::value::{ThreadRef, Value};
use crate::vm::{Args, Vm};

fn make(vm: &mut Vm, args: Args) -> std::result::Result<ThreadRef, Raise> {
    let function = match vm.arg(args, 0) {
        function @ Value::Closure(_) => function,
        _ => return Err(vm.bad_argument(args, 0, "Lua function expected")),
    };
    vm.heap.add_thread(Thread {
        stack: vec![function],
        top: 1,
        ..Thread::default()
    })
}

pub(super) fn create(vm: &mut Vm, args: Args) -> Result {
    make(vm, args).map(|thread| Flow::One(Value::Thread(thread)))
}

pub(super) fn wrap(vm: &mut Vm, args: Args) -> Result {
    let thread = make(vm, args)?;
    let bound = vm.heap.add_bound(Bound {
        native: Native::Wrapped,
        state: [Value::Thread(thread), Value::Nil, Value::Nil],
    })?;
    Ok(Flow::One(Value::Bound(bound)))
}

fn status_of(vm: &Vm, thread: ThreadRef) -> Status {
    if vm.coroutines.current == Some(thread) {
        return Status::Running;
    }
    vm.thread_of(Some(thread)).status
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Suspended => "suspended",
        Status::Running => "running",
        Status::Normal => "normal",
        Status::Dead => "dead",
    }
}

fn thread_arg(vm: &Vm, args: Args) -> std::result::Result<ThreadRef, Raise> {
    match vm.arg(args, 0) {
        Value::Thread(thread) => Ok(thread),
        _ => Err(vm.bad_argument(args, 0, "coroutine expected")),
    }
}

fn take(vm: &mut Vm, args: Args, first: usize) {
    vm.values.clear();
    let all = &vm.thread.stack[args.base + 1..args.base + 1 + args.count];
    vm.values.extend_from_slice(all.get(first..).unwrap_or_default());
}

pub(super) fn resume(vm: &mut Vm, args: Args) -> Result {
    let thread = thread_arg(vm, args)?;
    let status = status_of(vm, thread);
    if status != Status::Suspended {
        let text = format!("cannot resume {} coroutine", word(status));
        let message = vm.heap.text(text.as_bytes())?;
        vm.values.clear();
        vm.values.extend([Value::Bool(false), message]);
        return Ok(Flow::Values);
    }
    take(vm, args, 1);
    Ok(Flow::Resume {
        thread,
        is_wrap: false,
    })
}

pub(super) fn wrapped(vm: &mut Vm, args: Args) -> Result {
    let thread = match vm.thread.stack[args.base] {
        Value::Bound(bound) => vm.heap.bound(bound).state[0],
        _ => Value::Nil,
    };
    let Value::Thread(thread) = thread else {
        return Err(Raise::Text("cannot resume dead coroutine"));
    };
    let status = status_of(vm, thread);
    if status != Status::Suspended {
        return Err(Raise::message(format!(
            "cannot resume {} coroutine",
            word(status)
        )));
    }
    take(vm, args, 0);
    Ok(Flow::Resume {
        thread,
        is_wrap: true,
    })
}

pub(super) fn running(vm: &mut Vm) -> Result {
    Ok(Flow::One(vm.coroutines.current.map_or(Value::Nil, Value::Thread)))
}

pub(super) fn status(vm: &mut Vm, args: Args) -> Result {
    let thread = thread_arg(vm, args)?;
    let text = word(status_of(vm, thread));
    vm.heap.text(text.as_bytes()).map(Flow::One)
}

pub(super) fn yield_values(vm: &mut Vm, args: Args) -> Result {
    take(vm, args, 0);
    Ok(Flow::Yield)
}
