//! Every command, once: name, arity, flags, keys, documentation and parsing.
//!
//! A command's [`Spec`] stands in the file of its family (`string`, `list`, `generic`, `connection`, ..), next to the
//! function that parses it. [`table`](CommandId) lists them all. What people are told of it stands in `commands.txt`, which
//! no command needs to run. Everything else is made from these: [`lookup`] and [`resolve`] find the specs, [`keys`] says
//! which keys a command touches and how, [`introspect`] answers `COMMAND`.
//!
//! To add a command: write its spec and its parser in its family's file, name it in the table and describe it in
//! `commands.txt`, and add a variant to [`Command`], or to its family's enum, if its effect is new.
//!
//! What is absent: effects (those of [`Command`] belong to the data, those of [`CommandRoute::Connection`] to the
//! gateway), configuration, and any state. The words of an error follow Redis 7.0; the words of the documentation
//! are our own.

mod backup;
mod bitfield;
mod bitmap;
mod blocking;
mod cluster;
mod command;
mod connection;
mod deadline;
mod docs;
mod extensions;
mod generic;
mod geo;
pub mod glob;
mod hash;
mod hyperloglog;
pub mod introspect;
mod key_spec;
mod latency;
mod list;
pub mod number;
mod pop_first;
mod pubsub;
mod reference;
mod reply_error;
mod scan;
mod scripting;
mod server;
mod set;
mod slowlog;
mod sort;
mod sorted_set;
mod spec;
mod stream;
mod string;
mod table;
mod transaction;
mod word;

pub use backup::{RESTORE_CONTINUES, RESTORE_FORMAT, RestoredObject, backup_id};
pub use bitfield::{BitFieldAction, BitFieldOperation, BitFieldOverflow, bitfield_operations};
pub use blocking::{BlockingCommand, BlockingPop, waits};
pub use cluster::slot_asked_for;
pub use command::{
    BitOperation, BitRange, BitUnit, Command, Deadline, ExpireCondition, LcsOutput, ObjectAspect,
    RestoredUse, SetCondition, SetExpiry, SetReply, TtlForm,
};
pub use geo::*;
pub use hash::*;
pub use hyperloglog::*;
pub use key_spec::{KeyFlags, KeySpec, KeyUse, Search, keys, only_key};
pub use list::*;
pub use reference::{listing, reference};
pub use reply_error::ReplyError;
pub use scan::{Filter, ScanOptions, cursor};
pub use set::*;
pub use sort::*;
pub use sorted_set::*;
pub use spec::{Categories, CommandRoute, Cost, Flags, Merge, Parse, Spec, Spread, ValueAccess};
pub use stream::*;
pub use table::{CommandId, TABLE, check_arity, lookup, resolve, resolve_in_group};

/// The longest value, in bytes: what Redis's `proto-max-bulk-len` is by default.
pub const VALUE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The typed command of words that [`resolve`] found a spec for; `None` if the gateway answers it itself.
#[inline]
pub fn parse<'a>(spec: &Spec, args: resp::Args<'a>) -> Option<Result<Command<'a>, ReplyError>> {
    spec.parse.map(|parse| parse(args))
}
