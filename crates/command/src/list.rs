//! Lists.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec};
use crate::{Command, CommandId};

/// One command on lists.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum ListCommand<'a> {
    /// `LLEN key`.
    Len { key: &'a [u8] },
}

impl ListCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            ListCommand::Len { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            ListCommand::Len { .. } => Access::Metadata,
        }
    }
}

/// `LLEN`.
pub(crate) static LLEN: Spec = Spec {
    name: "llen",
    id: CommandId::LLen,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::LIST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many elements a list has.",
        since: "1.0.0",
        group: Group::List,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::List(ListCommand::Len { key: args.arg(1) }))),
    ..Spec::BASE
};
