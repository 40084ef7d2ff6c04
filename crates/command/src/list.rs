//! Lists.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Cost, Flags, Spec, ValueAccess};
use crate::{Command, ReplyError, number, pop_first};
use resp::Args;

/// One command on lists.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum ListCommand<'a> {
    /// `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`: `elements` are one or more.
    Push {
        key: &'a [u8],
        elements: Args<'a>,
        end: ListEnd,
        only_if_present: bool,
    },
    /// `LPOP key [count]`, `RPOP key [count]`.
    Pop {
        key: &'a [u8],
        end: ListEnd,
        count: Option<u64>,
    },
    /// `LLEN key`.
    Len { key: &'a [u8] },
    /// `LINDEX key index`. Negative indexes count from the end, here and below.
    Index { key: &'a [u8], index: i64 },
    /// `LSET key index element`.
    Set {
        key: &'a [u8],
        index: i64,
        element: &'a [u8],
    },
    /// `LRANGE key start stop`.
    Range { key: &'a [u8], start: i64, stop: i64 },
    /// `LTRIM key start stop`.
    Trim { key: &'a [u8], start: i64, stop: i64 },
    /// `LINSERT key BEFORE|AFTER pivot element`.
    Insert {
        key: &'a [u8],
        side: PivotSide,
        pivot: &'a [u8],
        element: &'a [u8],
    },
    /// `LREM key count element`: from the end if `count` is negative, all of them if it is 0.
    Remove {
        key: &'a [u8],
        count: i64,
        element: &'a [u8],
    },
    /// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`.
    Position {
        key: &'a [u8],
        element: &'a [u8],
        search: ListSearch,
    },
    /// `LMOVE source destination from to`, `RPOPLPUSH source destination`.
    Move {
        source: &'a [u8],
        destination: &'a [u8],
        from: ListEnd,
        to: ListEnd,
    },
    /// `LMPOP numkeys key [key ...] end [COUNT count]`: `count` is at least 1.
    PopFirst {
        keys: Args<'a>,
        end: ListEnd,
        count: u64,
    },
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListEnd {
    /// `LEFT`: the first element.
    Left,
    /// `RIGHT`: the last one.
    Right,
}

impl ListEnd {
    /// The end that `word` names.
    pub(crate) fn parse(word: &[u8]) -> Result<ListEnd, ReplyError> {
        if word.eq_ignore_ascii_case(b"left") {
            Ok(ListEnd::Left)
        } else if word.eq_ignore_ascii_case(b"right") {
            Ok(ListEnd::Right)
        } else {
            Err(ReplyError::Syntax)
        }
    }
}

/// On which side of its pivot an element is inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PivotSide {
    /// `BEFORE`
    Before,
    /// `AFTER`
    After,
}

/// What `LPOS` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListSearch {
    /// Where the search begins.
    pub from: ListEnd,
    /// The number of the first match that counts, from 1.
    pub rank: u64,
    /// How many matches are answered, in an array; 0 for all of them. `None` asks for one, and no array.
    pub count: Option<u64>,
    /// How many elements are looked at; 0 for all of them.
    pub length_max: u64,
}

impl ListCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            ListCommand::Len { .. }
            | ListCommand::Index { .. }
            | ListCommand::Range { .. }
            | ListCommand::Position { .. } => false,
            ListCommand::Push { .. }
            | ListCommand::Pop { .. }
            | ListCommand::Set { .. }
            | ListCommand::Trim { .. }
            | ListCommand::Insert { .. }
            | ListCommand::Remove { .. }
            | ListCommand::Move { .. }
            | ListCommand::PopFirst { .. } => true,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            ListCommand::Len { .. } => ValueAccess::Metadata,
            ListCommand::Index { .. } | ListCommand::Range { .. } | ListCommand::Position { .. } => {
                ValueAccess::Reads
            }
            ListCommand::Push { .. }
            | ListCommand::Pop { .. }
            | ListCommand::Set { .. }
            | ListCommand::Trim { .. }
            | ListCommand::Insert { .. }
            | ListCommand::Remove { .. }
            | ListCommand::Move { .. }
            | ListCommand::PopFirst { .. } => ValueAccess::Modifies,
        }
    }
}

pub(crate) const LPUSH: Spec = Spec::write("lpush", -3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| Ok(push(args, ListEnd::Left, false)));

pub(crate) const RPUSH: Spec = Spec::write("rpush", -3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| Ok(push(args, ListEnd::Right, false)));

pub(crate) const LPUSHX: Spec = Spec::write("lpushx", -3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| Ok(push(args, ListEnd::Left, true)));

pub(crate) const RPUSHX: Spec = Spec::write("rpushx", -3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| Ok(push(args, ListEnd::Right, true)));

fn push(args: Args<'_>, end: ListEnd, only_if_present: bool) -> Command<'_> {
    Command::List(ListCommand::Push {
        key: args.arg(1),
        elements: args.from(2),
        end,
        only_if_present,
    })
}

pub(crate) const LPOP: Spec = Spec::write("lpop", -2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .cost(Cost::Part)
    .parse(|args| parse_pop(args, ListEnd::Left, "lpop"));

pub(crate) const RPOP: Spec = Spec::write("rpop", -2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .cost(Cost::Part)
    .parse(|args| parse_pop(args, ListEnd::Right, "rpop"));

fn parse_pop<'a>(args: Args<'a>, end: ListEnd, name: &'static str) -> Result<Command<'a>, ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::WrongArity(name));
    }
    let count = match args.get(2) {
        None => None,
        Some(word) => Some(number::natural(word, ReplyError::NotPositive)?),
    };
    Ok(Command::List(ListCommand::Pop {
        key: args.arg(1),
        end,
        count,
    }))
}

pub(crate) const LLEN: Spec = Spec::look("llen", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::List(ListCommand::Len { key: args.arg(1) })));

pub(crate) const LINDEX: Spec = Spec::read("lindex", 3).parse(|args| {
    Ok(Command::List(ListCommand::Index {
        key: args.arg(1),
        index: number::integer(args.arg(2))?,
    }))
});

pub(crate) const LSET: Spec = Spec::write("lset", 4, KeySpec::ADJUST)
    .flags(Flags::DENYOOM)
    .parse(|args| {
        Ok(Command::List(ListCommand::Set {
            key: args.arg(1),
            index: number::integer(args.arg(2))?,
            element: args.arg(3),
        }))
    });

pub(crate) const LRANGE: Spec = Spec::read("lrange", 4).cost(Cost::Part).parse(|args| {
    Ok(Command::List(ListCommand::Range {
        key: args.arg(1),
        start: number::integer(args.arg(2))?,
        stop: number::integer(args.arg(3))?,
    }))
});

pub(crate) const LTRIM: Spec = Spec::write("ltrim", 4, KeySpec::SHRINK)
    .cost(Cost::Part)
    .parse(|args| {
        Ok(Command::List(ListCommand::Trim {
            key: args.arg(1),
            start: number::integer(args.arg(2))?,
            stop: number::integer(args.arg(3))?,
        }))
    });

pub(crate) const LINSERT: Spec = Spec::write("linsert", 5, KeySpec::EXTEND)
    .flags(Flags::DENYOOM)
    .cost(Cost::Whole)
    .parse(parse_linsert);

fn parse_linsert(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let side = args.arg(2);
    let side = if side.eq_ignore_ascii_case(b"before") {
        PivotSide::Before
    } else if side.eq_ignore_ascii_case(b"after") {
        PivotSide::After
    } else {
        return Err(ReplyError::Syntax);
    };
    Ok(Command::List(ListCommand::Insert {
        key: args.arg(1),
        side,
        pivot: args.arg(3),
        element: args.arg(4),
    }))
}

pub(crate) const LREM: Spec = Spec::write("lrem", 4, KeySpec::SHRINK)
    .cost(Cost::Whole)
    .parse(|args| {
        Ok(Command::List(ListCommand::Remove {
            key: args.arg(1),
            count: number::integer(args.arg(2))?,
            element: args.arg(3),
        }))
    });

pub(crate) const LPOS: Spec = Spec::read("lpos", -3).cost(Cost::Part).parse(parse_lpos);

fn parse_lpos(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut search = ListSearch {
        from: ListEnd::Left,
        rank: 1,
        count: None,
        length_max: 0,
    };
    let mut at = 3;
    while let Some(option) = args.get(at) {
        let Some(value) = args.get(at + 1) else {
            return Err(ReplyError::Syntax);
        };
        if option.eq_ignore_ascii_case(b"rank") {
            let rank = match number::integer(value)? {
                0 => return Err(ReplyError::RankZero),
                i64::MIN => return Err(ReplyError::RankOutOfRange),
                rank => rank,
            };
            search.rank = rank.unsigned_abs();
            search.from = if rank > 0 { ListEnd::Left } else { ListEnd::Right };
        } else if option.eq_ignore_ascii_case(b"count") {
            search.count = Some(number::natural(value, ReplyError::CountNegative)?);
        } else if option.eq_ignore_ascii_case(b"maxlen") {
            search.length_max = number::natural(value, ReplyError::MaxLenNegative)?;
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 2;
    }
    Ok(Command::List(ListCommand::Position {
        key: args.arg(1),
        element: args.arg(2),
        search,
    }))
}

pub(crate) const LMOVE: Spec = Spec::write_several("lmove", 5)
    .keys(KeySpec::MOVE)
    .flags(Flags::DENYOOM)
    .parse(|args| {
        let from = ListEnd::parse(args.arg(3))?;
        let to = ListEnd::parse(args.arg(4))?;
        Ok(shift(args, from, to))
    });

pub(crate) const RPOPLPUSH: Spec = Spec::write_several("rpoplpush", 3)
    .keys(KeySpec::MOVE)
    .flags(Flags::DENYOOM)
    .parse(|args| Ok(shift(args, ListEnd::Right, ListEnd::Left)));

fn shift(args: Args<'_>, from: ListEnd, to: ListEnd) -> Command<'_> {
    Command::List(ListCommand::Move {
        source: args.arg(1),
        destination: args.arg(2),
        from,
        to,
    })
}

pub(crate) const LMPOP: Spec = Spec::write_several("lmpop", -4)
    .keys(&[KeySpec::counted(1, KeyFlags::TAKE)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(|args| {
        let (keys, end, count) = pop_first::parse(args.from(1), ListEnd::parse)?;
        Ok(Command::List(ListCommand::PopFirst { keys, end, count }))
    });
