//! What source becomes: functions as instructions over registers.
//!
//! The machine is one of registers, as Lua's is since 5.0: a local variable is a register, and an instruction names up to three. An
//! operand from [`CONSTANT`] on names a constant instead.

use std::sync::Arc;

/// Operands from here on are constants.
pub(crate) const CONSTANT: u16 = 256;

/// Constants that an operand can name; more are loaded into registers first.
pub(crate) const CONSTANTS_NEAR: usize = 0x7fff - CONSTANT as usize;

/// One instruction, of eight bytes. `a` is nearly always the register that gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Move {
        a: u8,
        b: u8,
    },
    Constant {
        a: u8,
        k: u32,
    },
    /// A truth value; then one instruction is left out, or none.
    Bool {
        a: u8,
        value: bool,
        skip: bool,
    },
    /// Registers `a` to `b`.
    Nil {
        a: u8,
        b: u8,
    },
    GetUpval {
        a: u8,
        b: u8,
    },
    SetUpval {
        a: u8,
        b: u8,
    },
    GetGlobal {
        a: u8,
        k: u32,
    },
    SetGlobal {
        a: u8,
        k: u32,
    },
    Index {
        a: u8,
        b: u8,
        c: u16,
    },
    /// Of a key that is a constant string.
    Field {
        a: u8,
        b: u8,
        k: u16,
    },
    SetIndex {
        a: u8,
        b: u16,
        c: u16,
    },
    SetField {
        a: u8,
        k: u16,
        c: u16,
    },
    NewTable {
        a: u8,
        array: u16,
        hash: u16,
    },
    /// `b[c]` into `a`, and `b` behind it.
    Method {
        a: u8,
        b: u8,
        c: u16,
    },
    Add {
        a: u8,
        b: u16,
        c: u16,
    },
    Sub {
        a: u8,
        b: u16,
        c: u16,
    },
    Mul {
        a: u8,
        b: u16,
        c: u16,
    },
    Div {
        a: u8,
        b: u16,
        c: u16,
    },
    Mod {
        a: u8,
        b: u16,
        c: u16,
    },
    Pow {
        a: u8,
        b: u16,
        c: u16,
    },
    Minus {
        a: u8,
        b: u8,
    },
    Not {
        a: u8,
        b: u8,
    },
    Length {
        a: u8,
        b: u8,
    },
    /// Registers `b` to `c`.
    Concat {
        a: u8,
        b: u8,
        c: u8,
    },
    Jump {
        by: i32,
    },
    /// The next instruction, a jump, is left out unless the comparison gives `is`.
    Equal {
        is: bool,
        b: u16,
        c: u16,
    },
    Less {
        is: bool,
        b: u16,
        c: u16,
    },
    LessEqual {
        is: bool,
        b: u16,
        c: u16,
    },
    /// The next instruction, a jump, is left out unless `a` is as true as `is`.
    Test {
        a: u8,
        is: bool,
    },
    /// The same of `b`, which is also copied if the jump is taken.
    TestSet {
        a: u8,
        b: u8,
        is: bool,
    },
    /// `a` with `args - 1` arguments behind it, or all there are; `results - 1` results from `a` on, or all.
    Call {
        a: u8,
        args: u8,
        results: u8,
    },
    TailCall {
        a: u8,
        args: u8,
    },
    /// `count - 1` values from `a` on, or all.
    Return {
        a: u8,
        count: u8,
    },
    ForLoop {
        a: u8,
        by: i32,
    },
    ForPrepare {
        a: u8,
        by: i32,
    },
    /// Calls the iterator at `a`; the jump behind it goes round once more.
    ForEach {
        a: u8,
        count: u8,
    },
    /// `count` values behind `a`, or all there are, from index `from` on.
    SetList {
        a: u8,
        count: u8,
        from: u32,
    },
    /// Captured variables from `a` on live by themselves now.
    Close {
        a: u8,
    },
    Closure {
        a: u8,
        child: u32,
    },
    /// `count - 1` of the arguments that have no name, or all.
    Vararg {
        a: u8,
        count: u8,
    },
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Arc<[u8]>),
}

/// Where a closure finds what it captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// In a register of the function that makes it.
    Register(u8),
    /// Among what that function has captured itself.
    Upval(u8),
}

/// What an operand was called, for messages about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) kind: NameKind,
    pub(crate) text: Arc<[u8]>,
}

/// What sort of thing has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    Local,
    Global,
    Upvalue,
    Field,
    Method,
}

impl NameKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
            Self::Upvalue => "upvalue",
            Self::Field => "field",
            Self::Method => "method",
        }
    }
}

/// A register of an instruction that had a name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) pc: u32,
    pub(crate) register: u8,
    pub(crate) name: Name,
}

/// How a function takes arguments that have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varargs {
    None,
    /// With `...`.
    Dots,
    /// With the table `arg`, as Lua 5.0 did: a function that is declared with `...` and does not use them.
    Table,
    /// Declared with `...` and using them: the local variable `arg` is there, and nil.
    DotsAndNil,
}

/// A function as it was compiled; nothing of it belongs to a run, so all runs share it.
#[derive(Debug)]
pub(crate) struct Prototype {
    pub(crate) code: Vec<Op>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) children: Vec<Arc<Prototype>>,
    pub(crate) captures: Vec<Capture>,
    /// By instruction, ascending.
    pub(crate) named: Vec<Named>,
    pub(crate) source: Arc<[u8]>,
    pub(crate) params: u8,
    pub(crate) varargs: Varargs,
    pub(crate) registers: u8,
}

impl Prototype {
    /// Bytes that it takes with all that it makes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.code.len() * (size_of::<Op>() + size_of::<u32>())
            + self.constants.len() * (size_of::<Constant>() + 16)
            + self.named.len() * size_of::<Named>()
            + self.children.iter().map(|child| child.bytes()).sum::<usize>()
    }

    /// What a register was called where an instruction uses it.
    pub(crate) fn name_of(&self, pc: u32, register: u8) -> Option<&Name> {
        let from = self.named.partition_point(|named| named.pc < pc);
        self.named[from..]
            .iter()
            .take_while(|named| named.pc == pc)
            .find(|named| named.register == register)
            .map(|named| &named.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_eight_bytes() {
        assert_eq!(size_of::<Op>(), 8);
    }
}
