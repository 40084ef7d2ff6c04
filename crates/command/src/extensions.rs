//! Commands of our own, which Redis has not: a compare-and-set, counters that must exist, and transfers between them.
//!
//! `XFER` over two groups is two commands that nobody but gateways can say: `XFER.FROM` takes the amount in one group,
//! `XFER.TO` adds it in the other. Either may refuse, and then neither happens ([`Spread::AllOrNothing`]).

use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Flags, Spec, Spread};
use crate::{Command, ReplyError};
use resp::Args;

pub(crate) const CAS: Spec = Spec::write("cas", 4, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Cas {
            key: args.arg(1),
            expected: args.arg(2),
            new: args.arg(3),
        })
    });

pub(crate) const ADD: Spec = Spec::write("add", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Add {
            key: args.arg(1),
            by: number::integer(args.arg(2))?,
        })
    });

pub(crate) const SUB: Spec = Spec::write("sub", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_sub);

fn parse_sub(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let decrement = number::integer(args.arg(2))?;
    let by = decrement.checked_neg().ok_or(ReplyError::DecrementOverflow)?;
    Ok(Command::Add { key: args.arg(1), by })
}

pub(crate) const XFER: Spec = Spec::write_several("xfer", 4)
    .keys(&[KeySpec::at(1, KeyFlags::CHANGE).last(1)])
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .spread(Spread::AllOrNothing)
    .parse(|args| {
        Ok(Command::Xfer {
            from: args.arg(1),
            to: args.arg(2),
            amount: amount(args.arg(3))?,
        })
    });

/// `XFER.FROM key amount`: what `XFER` does in the group of the key that gives.
pub(crate) const XFER_FROM: Spec = Spec::write("xfer.from", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .internal()
    .parse(|args| {
        Ok(Command::Take {
            key: args.arg(1),
            amount: amount(args.arg(2))?,
        })
    });

/// `XFER.TO key amount`: what `XFER` does in the group of the key that is given to.
pub(crate) const XFER_TO: Spec = Spec::write("xfer.to", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .internal()
    .parse(|args| {
        Ok(Command::Add {
            key: args.arg(1),
            by: amount(args.arg(2))?,
        })
    });

/// What is moved: never negative, so that a transfer goes the way it says.
fn amount(word: &[u8]) -> Result<i64, ReplyError> {
    let amount = number::integer(word)?;
    if amount < 0 {
        return Err(ReplyError::NotPositive);
    }
    Ok(amount)
}
