//! Lists.

use crate::docs::{Argument, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{Command, CommandId, ReplyError, number, pop_first};
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
    pub fn access(&self) -> Access {
        match self {
            ListCommand::Len { .. } => Access::Metadata,
            ListCommand::Index { .. } | ListCommand::Range { .. } | ListCommand::Position { .. } => {
                Access::Reads
            }
            ListCommand::Push { .. }
            | ListCommand::Pop { .. }
            | ListCommand::Set { .. }
            | ListCommand::Trim { .. }
            | ListCommand::Insert { .. }
            | ListCommand::Remove { .. }
            | ListCommand::Move { .. }
            | ListCommand::PopFirst { .. } => Access::Modifies,
        }
    }
}

/// What all commands on one list have in common.
const ONE_LIST: Spec = Spec {
    categories: Categories::LIST,
    route: Route::Keys,
    ..Spec::BASE
};

const LIST_DOCS: Docs = Docs {
    group: Group::List,
    ..Docs::BASE
};

const ENDS: &[Argument] = &[Argument::word("left", "LEFT"), Argument::word("right", "RIGHT")];

/// What the specs of the four pushes share.
const PUSH: Spec = Spec {
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    access: Access::Modifies,
    ..ONE_LIST
};

const PUSH_DOCS: Docs = Docs {
    complexity: "O(1) for each element.",
    arguments: &[Argument::KEY, Argument::string("element").multiple()],
    ..LIST_DOCS
};

/// `LPUSH`.
pub(crate) static LPUSH: Spec = Spec {
    name: "lpush",
    id: CommandId::LPush,
    docs: Docs {
        summary: "Puts elements in front of a list, each before the last. Makes the list if there is none.",
        since: "1.0.0",
        history: &[("2.4.0", "Several elements.")],
        ..PUSH_DOCS
    },
    parse: Some(|args| Ok(push(args, ListEnd::Left, false))),
    ..PUSH
};

/// `RPUSH`.
pub(crate) static RPUSH: Spec = Spec {
    name: "rpush",
    id: CommandId::RPush,
    docs: Docs {
        summary: "Puts elements at the end of a list. Makes the list if there is none.",
        since: "1.0.0",
        history: &[("2.4.0", "Several elements.")],
        ..PUSH_DOCS
    },
    parse: Some(|args| Ok(push(args, ListEnd::Right, false))),
    ..PUSH
};

/// `LPUSHX`.
pub(crate) static LPUSHX: Spec = Spec {
    name: "lpushx",
    id: CommandId::LPushX,
    docs: Docs {
        summary: "Puts elements in front of a list if there is one.",
        since: "2.2.0",
        history: &[("4.0.0", "Several elements.")],
        ..PUSH_DOCS
    },
    parse: Some(|args| Ok(push(args, ListEnd::Left, true))),
    ..PUSH
};

/// `RPUSHX`.
pub(crate) static RPUSHX: Spec = Spec {
    name: "rpushx",
    id: CommandId::RPushX,
    docs: Docs {
        summary: "Puts elements at the end of a list if there is one.",
        since: "2.2.0",
        history: &[("4.0.0", "Several elements.")],
        ..PUSH_DOCS
    },
    parse: Some(|args| Ok(push(args, ListEnd::Right, true))),
    ..PUSH
};

fn push(args: Args<'_>, end: ListEnd, only_if_present: bool) -> Command<'_> {
    Command::List(ListCommand::Push {
        key: args.arg(1),
        elements: args.from(2),
        end,
        only_if_present,
    })
}

/// What the specs of the two pops share.
const POP: Spec = Spec {
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    access: Access::Modifies,
    ..ONE_LIST
};

const POP_DOCS: Docs = Docs {
    since: "1.0.0",
    complexity: "O(N), N being the number of elements that are returned.",
    history: &[("6.2.0", "The `count` argument.")],
    arguments: &[
        Argument::KEY,
        Argument::integer("count").since("6.2.0").optional(),
    ],
    ..LIST_DOCS
};

/// `LPOP`.
pub(crate) static LPOP: Spec = Spec {
    name: "lpop",
    id: CommandId::LPop,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the first elements of a list and returns them.",
        ..POP_DOCS
    },
    parse: Some(|args| parse_pop(args, ListEnd::Left, "lpop")),
    ..POP
};

/// `RPOP`.
pub(crate) static RPOP: Spec = Spec {
    name: "rpop",
    id: CommandId::RPop,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the last elements of a list and returns them, the last one first.",
        ..POP_DOCS
    },
    parse: Some(|args| parse_pop(args, ListEnd::Right, "rpop")),
    ..POP
};

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

/// `LLEN`.
pub(crate) static LLEN: Spec = Spec {
    name: "llen",
    id: CommandId::LLen,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many elements a list has.",
        since: "1.0.0",
        arguments: &[Argument::KEY],
        ..LIST_DOCS
    },
    parse: Some(|args| Ok(Command::List(ListCommand::Len { key: args.arg(1) }))),
    ..ONE_LIST
};

/// `LINDEX`.
pub(crate) static LINDEX: Spec = Spec {
    name: "lindex",
    id: CommandId::LIndex,
    arity: 3,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns one element of a list, by its index.",
        since: "1.0.0",
        complexity: "O(N), N being the number of nodes between the element and the nearer end; O(1) at either end.",
        arguments: &[Argument::KEY, Argument::integer("index")],
        ..LIST_DOCS
    },
    parse: Some(|args| {
        Ok(Command::List(ListCommand::Index {
            key: args.arg(1),
            index: number::integer(args.arg(2))?,
        }))
    }),
    ..ONE_LIST
};

/// `LSET`.
pub(crate) static LSET: Spec = Spec {
    name: "lset",
    id: CommandId::LSet,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    access: Access::Modifies,
    docs: Docs {
        summary: "Puts another element in the place of one of a list.",
        since: "1.0.0",
        complexity: "O(N), N being the number of nodes between the element and the nearer end; O(1) at either end.",
        arguments: &[
            Argument::KEY,
            Argument::integer("index"),
            Argument::string("element"),
        ],
        ..LIST_DOCS
    },
    parse: Some(|args| {
        Ok(Command::List(ListCommand::Set {
            key: args.arg(1),
            index: number::integer(args.arg(2))?,
            element: args.arg(3),
        }))
    }),
    ..ONE_LIST
};

const RANGE_ARGUMENTS: &[Argument] = &[
    Argument::KEY,
    Argument::integer("start"),
    Argument::integer("stop"),
];

/// `LRANGE`.
pub(crate) static LRANGE: Spec = Spec {
    name: "lrange",
    id: CommandId::LRange,
    arity: 4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns a range of a list's elements.",
        since: "1.0.0",
        complexity: "O(S+N), S being the number of nodes between `start` and the nearer end, and N the number of elements that are returned.",
        arguments: RANGE_ARGUMENTS,
        ..LIST_DOCS
    },
    parse: Some(|args| {
        Ok(Command::List(ListCommand::Range {
            key: args.arg(1),
            start: number::integer(args.arg(2))?,
            stop: number::integer(args.arg(3))?,
        }))
    }),
    ..ONE_LIST
};

/// `LTRIM`.
pub(crate) static LTRIM: Spec = Spec {
    name: "ltrim",
    id: CommandId::LTrim,
    arity: 4,
    flags: Flags::WRITE,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes all elements of a list but those in a range.",
        since: "1.0.0",
        complexity: "O(N), N being the number of nodes that are removed.",
        arguments: RANGE_ARGUMENTS,
        ..LIST_DOCS
    },
    parse: Some(|args| {
        Ok(Command::List(ListCommand::Trim {
            key: args.arg(1),
            start: number::integer(args.arg(2))?,
            stop: number::integer(args.arg(3))?,
        }))
    }),
    ..ONE_LIST
};

/// `LINSERT`.
pub(crate) static LINSERT: Spec = Spec {
    name: "linsert",
    id: CommandId::LInsert,
    arity: 5,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    access: Access::Modifies,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Inserts an element into a list, next to the first one that equals the pivot.",
        since: "2.2.0",
        complexity: "O(N), N being the number of elements before the pivot.",
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "where",
                &[
                    Argument::word("before", "BEFORE"),
                    Argument::word("after", "AFTER"),
                ],
            ),
            Argument::string("pivot"),
            Argument::string("element"),
        ],
        ..LIST_DOCS
    },
    parse: Some(parse_linsert),
    ..ONE_LIST
};

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

/// `LREM`.
pub(crate) static LREM: Spec = Spec {
    name: "lrem",
    id: CommandId::LRem,
    arity: 4,
    flags: Flags::WRITE,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Removes the elements of a list that equal a given one: the first so many, the last so many, or all.",
        since: "1.0.0",
        complexity: "O(N), N being the length of the list.",
        arguments: &[
            Argument::KEY,
            Argument::integer("count"),
            Argument::string("element"),
        ],
        ..LIST_DOCS
    },
    parse: Some(|args| {
        Ok(Command::List(ListCommand::Remove {
            key: args.arg(1),
            count: number::integer(args.arg(2))?,
            element: args.arg(3),
        }))
    }),
    ..ONE_LIST
};

/// `LPOS`.
pub(crate) static LPOS: Spec = Spec {
    name: "lpos",
    id: CommandId::LPos,
    arity: -3,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the indexes of the elements of a list that equal a given one.",
        since: "6.0.6",
        complexity: "O(N), N being the number of elements that are looked at.",
        arguments: &[
            Argument::KEY,
            Argument::string("element"),
            Argument::integer("rank").token("RANK").optional(),
            Argument::integer("num-matches").token("COUNT").optional(),
            Argument::integer("len").token("MAXLEN").optional(),
        ],
        ..LIST_DOCS
    },
    parse: Some(parse_lpos),
    ..ONE_LIST
};

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

/// What the specs of `LMOVE` and `RPOPLPUSH` share.
const MOVE: Spec = Spec {
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::EXTEND)],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    ..ONE_LIST
};

/// `LMOVE`.
pub(crate) static LMOVE: Spec = Spec {
    name: "lmove",
    id: CommandId::LMove,
    arity: 5,
    docs: Docs {
        summary: "Moves an element from an end of one list to an end of another, or of the same, and returns it.",
        since: "6.2.0",
        arguments: &[
            Argument::key("source", 0),
            Argument::key("destination", 1),
            Argument::one_of("wherefrom", ENDS),
            Argument::one_of("whereto", ENDS),
        ],
        ..LIST_DOCS
    },
    parse: Some(|args| {
        let from = ListEnd::parse(args.arg(3))?;
        let to = ListEnd::parse(args.arg(4))?;
        Ok(shift(args, from, to))
    }),
    ..MOVE
};

/// `RPOPLPUSH`.
pub(crate) static RPOPLPUSH: Spec = Spec {
    name: "rpoplpush",
    id: CommandId::RPopLPush,
    arity: 3,
    docs: Docs {
        summary: "Moves the last element of a list to the front of another, or of the same, and returns it.",
        since: "1.2.0",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        arguments: &[Argument::key("source", 0), Argument::key("destination", 1)],
        ..LIST_DOCS
    },
    parse: Some(|args| Ok(shift(args, ListEnd::Right, ListEnd::Left))),
    ..MOVE
};

fn shift(args: Args<'_>, from: ListEnd, to: ListEnd) -> Command<'_> {
    Command::List(ListCommand::Move {
        source: args.arg(1),
        destination: args.arg(2),
        from,
        to,
    })
}

/// `LMPOP`.
pub(crate) static LMPOP: Spec = Spec {
    name: "lmpop",
    id: CommandId::LMPop,
    arity: -4,
    flags: Flags::WRITE.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::TAKE)],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes elements from an end of the first list that has any, and returns its key and them.",
        since: "7.0.0",
        complexity: "O(N+M), N being the number of keys and M the number of elements that are returned.",
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::one_of("where", ENDS),
            Argument::integer("count").token("COUNT").optional(),
        ],
        ..LIST_DOCS
    },
    parse: Some(|args| {
        let (keys, end, count) = pop_first::parse(args.from(1), ListEnd::parse)?;
        Ok(Command::List(ListCommand::PopFirst { keys, end, count }))
    }),
    ..ONE_LIST
};
