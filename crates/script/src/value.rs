//! What a variable of a script holds.

use crate::native::Native;

/// A string of the heap. Equal strings have equal references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StrRef(pub(crate) u32);

/// A table of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRef(pub(crate) u32);

/// A function of a script, with what it captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosureRef(pub(crate) u32);

/// A captured variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpvalRef(pub(crate) u32);

/// A coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadRef(pub(crate) u32);

/// A function of the library that was made for something: what `gmatch` and `wrap` give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundRef(pub(crate) u32);

/// Sixteen bytes, copied freely: what is large lives in the heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Number(f64),
    Str(StrRef),
    Table(TableRef),
    Closure(ClosureRef),
    Native(Native),
    Bound(BoundRef),
    Thread(ThreadRef),
    /// The light userdata that `cjson.null` is.
    Null,
}

impl Value {
    /// Lua's name of the type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Str(_) => "string",
            Self::Table(_) => "table",
            Self::Closure(_) | Self::Native(_) | Self::Bound(_) => "function",
            Self::Thread(_) => "thread",
            Self::Null => "userdata",
        }
    }

    /// Everything but `nil` and `false`.
    pub(crate) fn is_truthy(self) -> bool {
        !matches!(self, Self::Nil | Self::Bool(false))
    }

    pub(crate) fn is_nil(self) -> bool {
        matches!(self, Self::Nil)
    }
}
