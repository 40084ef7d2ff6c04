//! Why a function did not return.

use crate::value::Value;

/// What ends a function before its end.
#[derive(Clone, Debug)]
pub(crate) enum Raise {
    /// An error with a value, which `pcall` gives.
    Value(Value),
    /// An error with a text that is given its position first.
    Text(&'static str),
    /// The same of a text that was put together.
    Message(Vec<u8>),
    /// An error with a text as it is.
    Bare(Vec<u8>),
    /// A table with the text as `err`, as functions of `redis` raise; with `ERR` in front if it says so.
    Reply(Vec<u8>),
    /// There is no room for what was to be made. No script can catch it.
    Memory,
    /// It would take long, and the host wants that put off ([`Vm::puts_off`]): nothing has happened, and it is called again. Only what a call of
    /// the library begins with may give it.
    ///
    /// [`Vm::puts_off`]: crate::vm::Vm::puts_off
    Large,
}

impl Raise {
    pub(crate) fn message(text: impl AsRef<[u8]>) -> Self {
        Self::Message(text.as_ref().to_vec())
    }

    pub(crate) fn reply(text: &str) -> Self {
        Self::Reply(text.as_bytes().to_vec())
    }
}
