//! HyperLogLogs: estimates of how many different elements were seen.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Flags, Spec, ValueAccess};
use crate::{Command, ReplyError};
use resp::Args;

/// One command of this family.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum HyperLogLogCommand<'a> {
    /// `PFADD key [element ...]`.
    Add { key: &'a [u8], elements: Args<'a> },
    /// `PFCOUNT key [key ...]`.
    Count { keys: Args<'a> },
    /// `PFMERGE destkey [sourcekey ...]`.
    Merge {
        destination: &'a [u8],
        sources: Args<'a>,
    },
    /// `PFDEBUG subcommand key`.
    Debug { key: &'a [u8], action: HyperLogLogDebug },
}

/// The subcommands of `PFDEBUG`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HyperLogLogDebug {
    /// `GETREG`: the value becomes dense, and all registers are answered.
    Registers,
    /// `DECODE`: the runs of a sparse value, in words.
    Decode,
    /// `ENCODING`
    Encoding,
    /// `TODENSE`
    ToDense,
}

impl HyperLogLogCommand<'_> {
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            HyperLogLogCommand::Add { .. } | HyperLogLogCommand::Merge { .. } => true,
            HyperLogLogCommand::Count { .. } => false,
            HyperLogLogCommand::Debug { action, .. } => match action {
                HyperLogLogDebug::Registers | HyperLogLogDebug::ToDense => true,
                HyperLogLogDebug::Decode | HyperLogLogDebug::Encoding => false,
            },
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> ValueAccess {
        if self.writes() {
            ValueAccess::Modifies
        } else {
            ValueAccess::Reads
        }
    }
}

pub(crate) const PFADD: Spec = Spec::write("pfadd", -2, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Add {
            key: args.arg(1),
            elements: args.from(2),
        }))
    });

pub(crate) const PFCOUNT: Spec = Spec::read_several("pfcount", -2)
    .keys(&[KeySpec::from(1, KeyFlags::RW.and(KeyFlags::ACCESS)).notes(
        "Redis writes the estimate into the value. Here nothing is written, and the keys are locked for \
         reading.",
    )])
    .flags(Flags::MAY_REPLICATE)
    .parse(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Count {
            keys: args.from(1),
        }))
    });

pub(crate) const PFMERGE: Spec = Spec::write_several("pfmerge", -2)
    .keys(&[
        KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::INSERT)),
        KeySpec::from(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .parse(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Merge {
            destination: args.arg(1),
            sources: args.from(2),
        }))
    });

pub(crate) const PFDEBUG: Spec = Spec::write(
    "pfdebug",
    3,
    &[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::ACCESS))],
)
.flags(Flags::DENYOOM.and(Flags::ADMIN))
.parse(parse_pfdebug);

fn parse_pfdebug(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let actions = [
        ("getreg", HyperLogLogDebug::Registers),
        ("decode", HyperLogLogDebug::Decode),
        ("encoding", HyperLogLogDebug::Encoding),
        ("todense", HyperLogLogDebug::ToDense),
    ];
    let word = args.arg(1);
    let found = actions
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    match found {
        Some(&(_, action)) => Ok(Command::HyperLogLog(HyperLogLogCommand::Debug {
            key: args.arg(2),
            action,
        })),
        None => Err(ReplyError::unknown_pfdebug(word)),
    }
}

pub(crate) const PFSELFTEST: Spec = Spec::new("pfselftest", 1).flags(Flags::ADMIN);
