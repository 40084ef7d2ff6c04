//! A stack with the calls on it: that of the script, and one for each coroutine.

use crate::code::Prototype;
use crate::library::{Search, Sort, Substitution};
use crate::value::{ClosureRef, ThreadRef, UpvalRef, Value};

/// What becomes of the results of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// They go to places of the stack from `at` on: so many, or all of them.
    Places { at: u32, want: Option<u32> },
    /// The first goes to a place: a metamethod gave a value.
    One(u32),
    /// Nobody wants them.
    Nothing,
    /// The next instruction is left out unless the first is as true as `is`.
    Compare { is: bool },
    /// The first is the last of the values from `first` to `last` that are put together into `to`.
    Concat { to: u32, first: u32, last: u32 },
    /// They go to places of the stack, for a loop that goes round once more unless the first is nil.
    Loop { at: u32, count: u32 },
    /// The function of the library below takes them.
    Native,
}

/// A call of a function of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) closure: ClosureRef,
    pub(crate) prototype: u32,
    pub(crate) pc: u32,
    pub(crate) base: u32,
    /// Where the function itself stands.
    pub(crate) function: u32,
    /// Arguments without a name, which lie below the base.
    pub(crate) varargs: u32,
    /// Calls that this one replaced.
    pub(crate) tails: u32,
}

/// A function of the library that waits for something.
#[derive(Debug)]
pub(crate) enum Waiting {
    Pcall,
    Xpcall,
    XpcallHandler,
    Tostring,
    Search(Box<Search>),
    Substitution(Box<Substitution>),
    Sort(Box<Sort>),
    /// `foreach`: the last key is at `base + 3`.
    Foreach,
    Foreachi {
        next: u32,
        last: u32,
    },
    /// `load`: what its function has given.
    Load(Vec<u8>),
    /// `resume`, or a function that `wrap` made.
    Resume {
        thread: ThreadRef,
        is_wrap: bool,
    },
    Yield,
    /// The host carries out a command.
    Command {
        is_protected: bool,
    },
}

/// Its call.
#[derive(Debug)]
pub(crate) struct NativeFrame {
    pub(crate) waiting: Waiting,
    /// Where the function stands; its arguments are behind it.
    pub(crate) base: u32,
    /// The end of what it uses.
    pub(crate) top: u32,
}

/// A call.
#[derive(Debug)]
pub(crate) enum Call {
    Script(Frame),
    Native(NativeFrame),
}

/// How far a coroutine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// Has not begun, or waits in `yield`.
    #[default]
    Suspended,
    Running,
    /// Waits for another one that it resumed.
    Normal,
    Dead,
}

/// A stack with the calls on it.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) stack: Vec<Value>,
    pub(crate) calls: Vec<(Call, Then)>,
    /// Captured variables on the stack, lowest first.
    pub(crate) open: Vec<(u32, UpvalRef)>,
    pub(crate) status: Status,
    /// The end of the values that nobody has taken yet.
    pub(crate) top: usize,
    /// Calls of functions of the library that wait; C's stack has room for so many.
    pub(crate) natives: u32,
}

impl Thread {
    /// Bytes that it takes beside its place in the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.stack.len() * size_of::<Value>()
    }

    /// The end of what may be in use on the stack.
    pub(crate) fn extent(&self, registers: impl Fn(u32) -> u8) -> usize {
        let extent = match self.calls.last() {
            None => self.top,
            Some((Call::Script(frame), _)) => frame.base as usize + usize::from(registers(frame.prototype)),
            Some((Call::Native(frame), _)) => frame.top as usize,
        };
        extent.max(self.top).min(self.stack.len())
    }

    /// A coroutine that waits is in a function of the library, or has not begun: what is above is not in use.
    pub(crate) fn clear_unused(&mut self) {
        if matches!(self.calls.last(), Some((Call::Script(_), _))) {
            return;
        }
        let extent = self.extent(|_| 0);
        self.stack[extent..].fill(Value::Nil);
    }

    pub(crate) fn each(&self, mark: &mut dyn FnMut(Value)) {
        self.stack.iter().for_each(|&value| mark(value));
        for (call, _) in &self.calls {
            match call {
                Call::Script(frame) => mark(Value::Closure(frame.closure)),
                Call::Native(frame) => {
                    if let Waiting::Resume { thread, .. } = frame.waiting {
                        mark(Value::Thread(thread));
                    }
                }
            }
        }
    }

    pub(crate) fn open_upvals(&self, mark: &mut dyn FnMut(UpvalRef)) {
        self.open.iter().for_each(|&(_, upval)| mark(upval));
    }
}

/// Registers of a function.
pub(crate) fn registers_of(prototype: &Prototype) -> usize {
    usize::from(prototype.registers)
}
