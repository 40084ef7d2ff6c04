//! The client protocol as values: RESP2 and RESP3, incremental and borrowed.
//!
//! A [`Decoder`] turns the bytes a client sent into [`Args`], borrowed from those bytes; a [`ReplyWriter`] turns a
//! command's answer into the bytes a client expects. Both do exactly what Redis 7.0 does, limits and
//! messages included, since clients depend on them.
//!
//! This crate knows no command, no socket and no clock: it never reads, waits or closes, it only says what
//! the bytes mean. It does not read replies either, beyond finding where one ends.
//!
//! Reading order: `args` (what a command is made of), `limits`, `error`, `decode` (the frames clients send)
//! with `inline` (the lines people type) and `number`, `write` (the replies) into `rope` (what is long in them is not
//! copied), `skip` (where a reply ends).

mod args;
mod decode;
mod error;
mod inline;
mod limits;
mod number;
mod rope;
mod skip;
mod write;

pub use args::{Args, ArgsBuf, ArgsRoom, Span};
pub use decode::{Decoded, Decoder, second_words};
pub use error::ProtocolError;
pub use limits::{Limits, Protocol};
pub use rope::{FrozenRope, Rope};
pub use skip::{parse_array_header, skip_value};
pub use write::{Bound, ReplyWriter};
