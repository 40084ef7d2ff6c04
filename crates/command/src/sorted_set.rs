//! Sorted sets.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec};
use crate::{Command, CommandId};

/// One command on sorted sets.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum SortedSetCommand<'a> {
    /// `ZCARD key`.
    Card { key: &'a [u8] },
}

impl SortedSetCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            SortedSetCommand::Card { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            SortedSetCommand::Card { .. } => Access::Metadata,
        }
    }
}

/// `ZCARD`.
pub(crate) static ZCARD: Spec = Spec {
    name: "zcard",
    id: CommandId::ZCard,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many members a sorted set has.",
        since: "1.2.0",
        group: Group::SortedSet,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::SortedSet(SortedSetCommand::Card { key: args.arg(1) }))),
    ..Spec::BASE
};
