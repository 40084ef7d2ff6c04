//! Hashes.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec};
use crate::{Command, CommandId};

/// One command on hashes.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum HashCommand<'a> {
    /// `HLEN key`.
    Len { key: &'a [u8] },
}

impl HashCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            HashCommand::Len { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            HashCommand::Len { .. } => Access::Metadata,
        }
    }
}

/// `HLEN`.
pub(crate) static HLEN: Spec = Spec {
    name: "hlen",
    id: CommandId::HLen,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many fields a hash has.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Hash(HashCommand::Len { key: args.arg(1) }))),
    ..Spec::BASE
};
