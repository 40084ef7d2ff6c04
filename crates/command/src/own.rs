//! Commands of our own, which Redis has not: a compare-and-set, counters that must exist, and transfers between them.
//!
//! `XFER` over two groups is two commands that nobody but gateways can say: `XFER.FROM` takes the amount in one group,
//! `XFER.TO` adds it in the other. Either may refuse, and then neither happens ([`Spread::AllOrNothing`]).

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread};
use crate::{Command, CommandId, ReplyError};
use resp::Args;

/// The version that these commands came with.
pub(crate) const SINCE: &str = "0.2.0";

/// `CAS`.
pub(crate) static CAS: Spec = Spec {
    name: "cas",
    id: CommandId::Cas,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Gives a key a new string if it holds the expected one, and keeps its time to live.",
        since: SINCE,
        group: Group::String,
        arguments: &[
            Argument::KEY,
            Argument::string("expected"),
            Argument::string("new"),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Cas {
            key: args.arg(1),
            expected: args.arg(2),
            new: args.arg(3),
        })
    }),
    ..Spec::BASE
};

/// `ADD`.
pub(crate) static ADD: Spec = Spec {
    name: "add",
    id: CommandId::Add,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to an integer that must be there.",
        since: SINCE,
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("increment")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Add {
            key: args.arg(1),
            by: number::integer(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// `SUB`.
pub(crate) static SUB: Spec = Spec {
    name: "sub",
    id: CommandId::Sub,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Subtracts from an integer that must be there.",
        since: SINCE,
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("decrement")],
        ..Docs::BASE
    },
    parse: Some(parse_sub),
    ..Spec::BASE
};

fn parse_sub(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let decrement = number::integer(args.arg(2))?;
    let by = decrement.checked_neg().ok_or(ReplyError::DecrementOverflow)?;
    Ok(Command::Add { key: args.arg(1), by })
}

/// `XFER`.
pub(crate) static XFER: Spec = Spec {
    name: "xfer",
    id: CommandId::Xfer,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec {
        last: 1,
        ..KeySpec::at(1, KeyFlags::CHANGE)
    }],
    route: Route::Keys,
    spread: Spread::AllOrNothing,
    access: Access::Modifies,
    docs: Docs {
        summary: "Moves an amount from one integer to another, both of which must be there, and overdraws none.",
        since: SINCE,
        group: Group::String,
        arguments: &[
            Argument::key("from", 0),
            Argument::key("to", 0),
            Argument::integer("amount"),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Xfer {
            from: args.arg(1),
            to: args.arg(2),
            amount: amount(args.arg(3))?,
        })
    }),
    ..Spec::BASE
};

/// `XFER.FROM key amount`: what `XFER` does in the group of the key that gives.
pub(crate) static XFER_FROM: Spec = Spec {
    name: "xfer.from",
    id: CommandId::XferFrom,
    arity: 3,
    is_internal: true,
    flags: XFER.flags,
    categories: XFER.categories,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "The part of `XFER` that takes.",
        since: SINCE,
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("amount")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Take {
            key: args.arg(1),
            amount: amount(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// `XFER.TO key amount`: what `XFER` does in the group of the key that is given to.
pub(crate) static XFER_TO: Spec = Spec {
    name: "xfer.to",
    id: CommandId::XferTo,
    arity: 3,
    is_internal: true,
    flags: XFER.flags,
    categories: XFER.categories,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "The part of `XFER` that adds.",
        since: SINCE,
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("amount")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Add {
            key: args.arg(1),
            by: amount(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// What is moved: never negative, so that a transfer goes the way it says.
fn amount(word: &[u8]) -> Result<i64, ReplyError> {
    let amount = number::integer(word)?;
    if amount < 0 {
        return Err(ReplyError::NotPositive);
    }
    Ok(amount)
}
