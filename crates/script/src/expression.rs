//! What is known of an expression while its code is being made.

use crate::code::Name;

/// The end of a list of jumps.
pub(crate) const NO_JUMP: i32 = -1;

/// Where the value of an expression is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Void,
    Nil,
    True,
    False,
    Number(f64),
    Constant(u32),
    Local(u8),
    Upval(u8),
    Global(u32),
    Indexed {
        table: u8,
        key: u16,
    },
    /// A comparison: this jump is taken if it is true.
    Jump(usize),
    /// This instruction gives it, into a register that is still to be chosen.
    Relocatable(usize),
    Fixed(u8),
    Call(usize),
    Vararg(usize),
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) kind: Kind,
    /// Jumps that are taken where it is known to be true, and false.
    pub(crate) if_true: i32,
    pub(crate) if_false: i32,
    pub(crate) name: Option<Name>,
}

impl Expression {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            if_true: NO_JUMP,
            if_false: NO_JUMP,
            name: None,
        }
    }

    pub(crate) fn has_jumps(&self) -> bool {
        self.if_true != self.if_false
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self.kind {
            Kind::Number(n) if !self.has_jumps() => Some(n),
            _ => None,
        }
    }

    pub(crate) fn has_many_values(&self) -> bool {
        matches!(self.kind, Kind::Call(_) | Kind::Vararg(_))
    }
}

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Concat,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

impl Binary {
    /// How strongly it binds to its left and to its right.
    pub(crate) fn priority(self) -> (u8, u8) {
        match self {
            Self::Add | Self::Sub => (6, 6),
            Self::Mul | Self::Div | Self::Mod => (7, 7),
            Self::Pow => (10, 9),
            Self::Concat => (5, 4),
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessEqual
            | Self::Greater
            | Self::GreaterEqual => (3, 3),
            Self::And => (2, 2),
            Self::Or => (1, 1),
        }
    }
}

/// An operator in front of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Minus,
    Not,
    Length,
}

/// How strongly those bind.
pub(crate) const UNARY_PRIORITY: u8 = 8;
