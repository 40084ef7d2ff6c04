//! Sets.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec};
use crate::{Command, CommandId};

/// One command on sets.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum SetCommand<'a> {
    /// `SCARD key`.
    Card { key: &'a [u8] },
}

impl SetCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            SetCommand::Card { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            SetCommand::Card { .. } => Access::Metadata,
        }
    }
}

/// `SCARD`.
pub(crate) static SCARD: Spec = Spec {
    name: "scard",
    id: CommandId::SCard,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many members a set has.",
        since: "1.0.0",
        group: Group::Set,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Members(SetCommand::Card { key: args.arg(1) }))),
    ..Spec::BASE
};
