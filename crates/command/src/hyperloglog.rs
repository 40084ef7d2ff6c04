//! HyperLogLogs: estimates of how many different elements were seen.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread};
use crate::{Command, CommandId, ReplyError};
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
    pub fn access(&self) -> Access {
        if self.writes() {
            Access::Modifies
        } else {
            Access::Reads
        }
    }
}

/// `PFADD`.
pub(crate) static PFADD: Spec = Spec {
    name: "pfadd",
    id: CommandId::PfAdd,
    arity: -2,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HYPERLOGLOG,
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds elements to a HyperLogLog, which is made if there is none.",
        since: "2.8.9",
        group: Group::HyperLogLog,
        complexity: "O(N) for N elements.",
        arguments: &[Argument::KEY, Argument::string("element").optional().multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Add {
            key: args.arg(1),
            elements: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `PFCOUNT`.
pub(crate) static PFCOUNT: Spec = Spec {
    name: "pfcount",
    id: CommandId::PfCount,
    arity: -2,
    flags: Flags::READONLY.and(Flags::MAY_REPLICATE),
    categories: Categories::HYPERLOGLOG,
    keys: &[KeySpec {
        notes: Some(
            "Redis writes the estimate into the value. Here nothing is written, and the keys are locked for reading.",
        ),
        ..KeySpec::from(1, KeyFlags::RW.and(KeyFlags::ACCESS))
    }],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    docs: Docs {
        summary: "Estimates how many different elements were added to HyperLogLogs.",
        since: "2.8.9",
        group: Group::HyperLogLog,
        complexity: "O(N) for N keys.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Count {
            keys: args.from(1),
        }))
    }),
    ..Spec::BASE
};

/// `PFMERGE`.
pub(crate) static PFMERGE: Spec = Spec {
    name: "pfmerge",
    id: CommandId::PfMerge,
    arity: -2,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::HYPERLOGLOG,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::INSERT)),
        KeySpec::from(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to a HyperLogLog what others have seen.",
        since: "2.8.9",
        group: Group::HyperLogLog,
        complexity: "O(N) for N keys.",
        arguments: &[
            Argument::key("destkey", 0),
            Argument::key("sourcekey", 1).multiple(),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::HyperLogLog(HyperLogLogCommand::Merge {
            destination: args.arg(1),
            sources: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `PFDEBUG`.
pub(crate) static PFDEBUG: Spec = Spec {
    name: "pfdebug",
    id: CommandId::PfDebug,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::ADMIN),
    categories: Categories::HYPERLOGLOG,
    keys: &[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::ACCESS))],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Shows how a HyperLogLog is kept.",
        since: "2.8.9",
        group: Group::HyperLogLog,
        complexity: "O(1), of many registers.",
        internal: true,
        arguments: &[Argument::string("subcommand"), Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(parse_pfdebug),
    ..Spec::BASE
};

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

/// `PFSELFTEST`.
pub(crate) static PFSELFTEST: Spec = Spec {
    name: "pfselftest",
    id: CommandId::PfSelfTest,
    arity: 1,
    flags: Flags::ADMIN,
    categories: Categories::HYPERLOGLOG,
    docs: Docs {
        summary: "Checks that HyperLogLogs count as well as they should.",
        since: "2.8.9",
        group: Group::HyperLogLog,
        complexity: "O(1), of many registers.",
        internal: true,
        ..Docs::BASE
    },
    ..Spec::BASE
};
