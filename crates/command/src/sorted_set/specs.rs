//! Sorted sets: the specs of their commands.

use super::SortedSetCommand;
use super::parse::*;
use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{CommandId, scan};

/// What all commands on sorted sets have in common.
const SORTED_SET: Spec = Spec {
    categories: Categories::SORTEDSET,
    route: Route::Keys,
    ..Spec::BASE
};

const DOCS: Docs = Docs {
    group: Group::SortedSet,
    ..Docs::BASE
};

const MEMBER: Argument = Argument::string("member");
const NUMKEYS: Argument = Argument::integer("numkeys");
const MIN_SCORE: Argument = Argument::new("min", ArgumentKind::Double);
const MAX_SCORE: Argument = Argument::new("max", ArgumentKind::Double);
const WITHSCORES: Argument = Argument::word("withscores", "WITHSCORES").optional();
const SORT_BY: Argument = Argument::one_of(
    "sortby",
    &[
        Argument::word("byscore", "BYSCORE"),
        Argument::word("bylex", "BYLEX"),
    ],
)
.optional();
const LIMIT: Argument = Argument::block(
    "offset_count",
    &[Argument::integer("offset"), Argument::integer("count")],
)
.token("LIMIT")
.optional();
const WEIGHTS: Argument = Argument::integer("weight").token("WEIGHTS").optional().multiple();
const AGGREGATE: Argument = Argument::one_of(
    "aggregate",
    &[
        Argument::word("sum", "SUM"),
        Argument::word("min", "MIN"),
        Argument::word("max", "MAX"),
    ],
)
.token("AGGREGATE")
.optional();

/// Of what looks at a part of the members in order.
const RANGE_COMPLEXITY: &str = "O(log(N)+M) for M of N members.";
/// Of what finds or removes members one by one.
const EACH_COMPLEXITY: &str = "O(M*log(N)) for M of N members.";

/// `ZADD`.
pub(crate) static ZADD: Spec = Spec {
    name: "zadd",
    id: CommandId::ZAdd,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds members with their scores to a sorted set, or changes the scores of members that are there.",
        since: "1.2.0",
        complexity: "O(log(N)) for each member, for a sorted set of N members.",
        history: &[
            ("2.4.0", "Several pairs."),
            ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "`GT` and `LT`."),
        ],
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "condition",
                &[Argument::word("nx", "NX"), Argument::word("xx", "XX")],
            )
            .since("3.0.2")
            .optional(),
            Argument::one_of(
                "comparison",
                &[Argument::word("gt", "GT"), Argument::word("lt", "LT")],
            )
            .since("6.2.0")
            .optional(),
            Argument::word("change", "CH").since("3.0.2").optional(),
            Argument::word("increment", "INCR").since("3.0.2").optional(),
            Argument::block(
                "score_member",
                &[Argument::new("score", ArgumentKind::Double), MEMBER],
            )
            .multiple(),
        ],
        ..DOCS
    },
    parse: Some(parse_zadd),
    ..SORTED_SET
};

/// `ZINCRBY`.
pub(crate) static ZINCRBY: Spec = Spec {
    name: "zincrby",
    id: CommandId::ZIncrBy,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds a number to the score of a member.",
        since: "1.2.0",
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[Argument::KEY, Argument::integer("increment"), MEMBER],
        ..DOCS
    },
    parse: Some(parse_zincrby),
    ..SORTED_SET
};

/// `ZREM`.
pub(crate) static ZREM: Spec = Spec {
    name: "zrem",
    id: CommandId::ZRem,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    docs: Docs {
        summary: "Removes members from a sorted set.",
        since: "1.2.0",
        complexity: EACH_COMPLEXITY,
        history: &[("2.4.0", "Several members.")],
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..DOCS
    },
    parse: Some(|args| {
        command(SortedSetCommand::Remove {
            key: args.arg(1),
            members: args.from(2),
        })
    }),
    ..SORTED_SET
};

/// `ZCARD`.
pub(crate) static ZCARD: Spec = Spec {
    name: "zcard",
    id: CommandId::ZCard,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many members a sorted set has.",
        since: "1.2.0",
        arguments: &[Argument::KEY],
        ..DOCS
    },
    parse: Some(|args| command(SortedSetCommand::Card { key: args.arg(1) })),
    ..SORTED_SET
};

/// `ZSCORE`.
pub(crate) static ZSCORE: Spec = Spec {
    name: "zscore",
    id: CommandId::ZScore,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the score of a member.",
        since: "1.2.0",
        arguments: &[Argument::KEY, MEMBER],
        ..DOCS
    },
    parse: Some(|args| {
        command(SortedSetCommand::Score {
            key: args.arg(1),
            member: args.arg(2),
        })
    }),
    ..SORTED_SET
};

/// `ZMSCORE`.
pub(crate) static ZMSCORE: Spec = Spec {
    name: "zmscore",
    id: CommandId::ZMScore,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the scores of several members.",
        since: "6.2.0",
        complexity: "O(N) for N members asked for.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..DOCS
    },
    parse: Some(|args| {
        command(SortedSetCommand::Scores {
            key: args.arg(1),
            members: args.from(2),
        })
    }),
    ..SORTED_SET
};

/// `ZRANK`.
pub(crate) static ZRANK: Spec = Spec {
    name: "zrank",
    id: CommandId::ZRank,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how many members have a lower score than this one.",
        since: "2.0.0",
        complexity: "O(log(N))",
        history: &[("7.2.0", "`WITHSCORE`.")],
        arguments: &[
            Argument::KEY,
            MEMBER,
            Argument::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..DOCS
    },
    parse: Some(parse_zrank),
    ..SORTED_SET
};

/// `ZREVRANK`.
pub(crate) static ZREVRANK: Spec = Spec {
    name: "zrevrank",
    id: CommandId::ZRevRank,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how many members have a higher score than this one.",
        since: "2.0.0",
        complexity: "O(log(N))",
        history: &[("7.2.0", "`WITHSCORE`.")],
        arguments: &[
            Argument::KEY,
            MEMBER,
            Argument::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..DOCS
    },
    parse: Some(parse_zrevrank),
    ..SORTED_SET
};

/// `ZCOUNT`.
pub(crate) static ZCOUNT: Spec = Spec {
    name: "zcount",
    id: CommandId::ZCount,
    arity: 4,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Counts the members whose scores are between two bounds.",
        since: "2.0.0",
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[Argument::KEY, MIN_SCORE, MAX_SCORE],
        ..DOCS
    },
    parse: Some(parse_zcount),
    ..SORTED_SET
};

/// `ZLEXCOUNT`.
pub(crate) static ZLEXCOUNT: Spec = Spec {
    name: "zlexcount",
    id: CommandId::ZLexCount,
    arity: 4,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Counts the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[Argument::KEY, Argument::string("min"), Argument::string("max")],
        ..DOCS
    },
    parse: Some(parse_zlexcount),
    ..SORTED_SET
};

/// `ZRANGE`.
pub(crate) static ZRANGE: Spec = Spec {
    name: "zrange",
    id: CommandId::ZRange,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of a range of ranks, of scores, or of members.",
        since: "1.2.0",
        complexity: RANGE_COMPLEXITY,
        history: &[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")],
        arguments: &[
            Argument::KEY,
            Argument::string("start"),
            Argument::string("stop"),
            SORT_BY.since("6.2.0"),
            Argument::word("rev", "REV").since("6.2.0").optional(),
            LIMIT.since("6.2.0"),
            WITHSCORES,
        ],
        ..DOCS
    },
    parse: Some(parse_zrange),
    ..SORTED_SET
};

/// `ZRANGESTORE`.
pub(crate) static ZRANGESTORE: Spec = Spec {
    name: "zrangestore",
    id: CommandId::ZRangeStore,
    arity: -5,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of a range as another sorted set.",
        since: "6.2.0",
        complexity: RANGE_COMPLEXITY,
        arguments: &[
            Argument::key("dst", 0),
            Argument::key("src", 1),
            Argument::string("min"),
            Argument::string("max"),
            SORT_BY,
            Argument::word("rev", "REV").optional(),
            LIMIT,
        ],
        ..DOCS
    },
    parse: Some(parse_zrangestore),
    ..SORTED_SET
};

/// `ZREVRANGE`.
pub(crate) static ZREVRANGE: Spec = Spec {
    name: "zrevrange",
    id: CommandId::ZRevRange,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of a range of ranks, the highest score first.",
        since: "1.2.0",
        complexity: RANGE_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("stop"),
            WITHSCORES,
        ],
        ..DOCS
    },
    parse: Some(parse_zrevrange),
    ..SORTED_SET
};

/// `ZRANGEBYSCORE`.
pub(crate) static ZRANGEBYSCORE: Spec = Spec {
    name: "zrangebyscore",
    id: CommandId::ZRangeByScore,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members whose scores are between two bounds.",
        since: "1.0.5",
        complexity: RANGE_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `BYSCORE`",
        }),
        history: &[("2.0.0", "`WITHSCORES`.")],
        arguments: &[
            Argument::KEY,
            MIN_SCORE,
            MAX_SCORE,
            WITHSCORES.since("2.0.0"),
            LIMIT,
        ],
        ..DOCS
    },
    parse: Some(parse_zrangebyscore),
    ..SORTED_SET
};

/// `ZREVRANGEBYSCORE`.
pub(crate) static ZREVRANGEBYSCORE: Spec = Spec {
    name: "zrevrangebyscore",
    id: CommandId::ZRevRangeByScore,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members whose scores are between two bounds, the highest score first.",
        since: "2.2.0",
        complexity: RANGE_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV` and `BYSCORE`",
        }),
        history: &[("2.1.6", "Bounds can be exclusive.")],
        arguments: &[Argument::KEY, MAX_SCORE, MIN_SCORE, WITHSCORES, LIMIT],
        ..DOCS
    },
    parse: Some(parse_zrevrangebyscore),
    ..SORTED_SET
};

/// `ZRANGEBYLEX`.
pub(crate) static ZRANGEBYLEX: Spec = Spec {
    name: "zrangebylex",
    id: CommandId::ZRangeByLex,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        complexity: RANGE_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `BYLEX`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::string("min"),
            Argument::string("max"),
            LIMIT,
        ],
        ..DOCS
    },
    parse: Some(parse_zrangebylex),
    ..SORTED_SET
};

/// `ZREVRANGEBYLEX`.
pub(crate) static ZREVRANGEBYLEX: Spec = Spec {
    name: "zrevrangebylex",
    id: CommandId::ZRevRangeByLex,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members between two bounds, the last one first, where all scores are equal.",
        since: "2.8.9",
        complexity: RANGE_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV` and `BYLEX`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::string("max"),
            Argument::string("min"),
            LIMIT,
        ],
        ..DOCS
    },
    parse: Some(parse_zrevrangebylex),
    ..SORTED_SET
};

/// `ZREMRANGEBYRANK`.
pub(crate) static ZREMRANGEBYRANK: Spec = Spec {
    name: "zremrangebyrank",
    id: CommandId::ZRemRangeByRank,
    arity: 4,
    flags: Flags::WRITE,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members of a range of ranks.",
        since: "2.0.0",
        complexity: RANGE_COMPLEXITY,
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("stop"),
        ],
        ..DOCS
    },
    parse: Some(parse_zremrangebyrank),
    ..SORTED_SET
};

/// `ZREMRANGEBYSCORE`.
pub(crate) static ZREMRANGEBYSCORE: Spec = Spec {
    name: "zremrangebyscore",
    id: CommandId::ZRemRangeByScore,
    arity: 4,
    flags: Flags::WRITE,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members whose scores are between two bounds.",
        since: "1.2.0",
        complexity: RANGE_COMPLEXITY,
        arguments: &[Argument::KEY, MIN_SCORE, MAX_SCORE],
        ..DOCS
    },
    parse: Some(parse_zremrangebyscore),
    ..SORTED_SET
};

/// `ZREMRANGEBYLEX`.
pub(crate) static ZREMRANGEBYLEX: Spec = Spec {
    name: "zremrangebylex",
    id: CommandId::ZRemRangeByLex,
    arity: 4,
    flags: Flags::WRITE,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        complexity: RANGE_COMPLEXITY,
        arguments: &[Argument::KEY, Argument::string("min"), Argument::string("max")],
        ..DOCS
    },
    parse: Some(parse_zremrangebylex),
    ..SORTED_SET
};

/// `ZPOPMIN`.
pub(crate) static ZPOPMIN: Spec = Spec {
    name: "zpopmin",
    id: CommandId::ZPopMin,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members with the lowest scores and returns them.",
        since: "5.0.0",
        complexity: EACH_COMPLEXITY,
        arguments: &[Argument::KEY, Argument::integer("count").optional()],
        ..DOCS
    },
    parse: Some(parse_zpopmin),
    ..SORTED_SET
};

/// `ZPOPMAX`.
pub(crate) static ZPOPMAX: Spec = Spec {
    name: "zpopmax",
    id: CommandId::ZPopMax,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members with the highest scores and returns them.",
        since: "5.0.0",
        complexity: EACH_COMPLEXITY,
        arguments: &[Argument::KEY, Argument::integer("count").optional()],
        ..DOCS
    },
    parse: Some(parse_zpopmax),
    ..SORTED_SET
};

/// `ZMPOP`.
pub(crate) static ZMPOP: Spec = Spec {
    name: "zmpop",
    id: CommandId::ZMPop,
    arity: -4,
    flags: Flags::WRITE.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::TAKE)],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes members from one end of the first sorted set that has any, and returns them.",
        since: "7.0.0",
        complexity: "O(K+M*log(N)) for K keys and M of N members.",
        arguments: &[
            NUMKEYS,
            Argument::KEY.multiple(),
            Argument::one_of(
                "where",
                &[Argument::word("min", "MIN"), Argument::word("max", "MAX")],
            ),
            Argument::integer("count").token("COUNT").optional(),
        ],
        ..DOCS
    },
    parse: Some(parse_zmpop),
    ..SORTED_SET
};

/// `ZUNION`.
pub(crate) static ZUNION: Spec = Spec {
    name: "zunion",
    id: CommandId::ZUnion,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of any of several sorted sets.",
        since: "6.2.0",
        complexity: "O(N*log(M)) for N members of all sources and M of the result.",
        arguments: &[NUMKEYS, Argument::KEY.multiple(), WEIGHTS, AGGREGATE, WITHSCORES],
        ..DOCS
    },
    parse: Some(parse_zunion),
    ..SORTED_SET
};

/// `ZINTER`.
pub(crate) static ZINTER: Spec = Spec {
    name: "zinter",
    id: CommandId::ZInter,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members that several sorted sets share.",
        since: "6.2.0",
        complexity: "O(N*K+M*log(M)) for K sources, N members of the smallest, and M of the result.",
        arguments: &[NUMKEYS, Argument::KEY.multiple(), WEIGHTS, AGGREGATE, WITHSCORES],
        ..DOCS
    },
    parse: Some(parse_zinter),
    ..SORTED_SET
};

/// `ZDIFF`.
pub(crate) static ZDIFF: Spec = Spec {
    name: "zdiff",
    id: CommandId::ZDiff,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of the first sorted set that are in no other.",
        since: "6.2.0",
        complexity: "O(N*K+M*log(M)) for K sources, N members of the first, and M of the result.",
        arguments: &[NUMKEYS, Argument::KEY.multiple(), WITHSCORES],
        ..DOCS
    },
    parse: Some(parse_zdiff),
    ..SORTED_SET
};

/// `ZUNIONSTORE`.
pub(crate) static ZUNIONSTORE: Spec = Spec {
    name: "zunionstore",
    id: CommandId::ZUnionStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of any of several sorted sets as a sorted set.",
        since: "2.0.0",
        complexity: "O(N*log(M)) for N members of all sources and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            NUMKEYS,
            Argument::key("key", 1).multiple(),
            WEIGHTS,
            AGGREGATE,
        ],
        ..DOCS
    },
    parse: Some(parse_zunionstore),
    ..SORTED_SET
};

/// `ZINTERSTORE`.
pub(crate) static ZINTERSTORE: Spec = Spec {
    name: "zinterstore",
    id: CommandId::ZInterStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members that several sorted sets share as a sorted set.",
        since: "2.0.0",
        complexity: "O(N*K+M*log(M)) for K sources, N members of the smallest, and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            NUMKEYS,
            Argument::key("key", 1).multiple(),
            WEIGHTS,
            AGGREGATE,
        ],
        ..DOCS
    },
    parse: Some(parse_zinterstore),
    ..SORTED_SET
};

/// `ZDIFFSTORE`.
pub(crate) static ZDIFFSTORE: Spec = Spec {
    name: "zdiffstore",
    id: CommandId::ZDiffStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of the first sorted set that are in no other as a sorted set.",
        since: "6.2.0",
        complexity: "O(N*K+M*log(M)) for K sources, N members of the first, and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            NUMKEYS,
            Argument::key("key", 1).multiple(),
        ],
        ..DOCS
    },
    parse: Some(parse_zdiffstore),
    ..SORTED_SET
};

/// `ZINTERCARD`.
pub(crate) static ZINTERCARD: Spec = Spec {
    name: "zintercard",
    id: CommandId::ZInterCard,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Counts the members that several sorted sets share.",
        since: "7.0.0",
        complexity: "O(N*K) for K sources and N members of the smallest.",
        arguments: &[
            NUMKEYS,
            Argument::KEY.multiple(),
            Argument::integer("limit").token("LIMIT").optional(),
        ],
        ..DOCS
    },
    parse: Some(parse_zintercard),
    ..SORTED_SET
};

/// `ZRANDMEMBER`.
pub(crate) static ZRANDMEMBER: Spec = Spec {
    name: "zrandmember",
    id: CommandId::ZRandMember,
    arity: -2,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns members picked at random.",
        since: "6.2.0",
        complexity: EACH_COMPLEXITY,
        arguments: &[
            Argument::KEY,
            Argument::block("options", &[Argument::integer("count"), WITHSCORES]).optional(),
        ],
        ..DOCS
    },
    parse: Some(parse_zrandmember),
    ..SORTED_SET
};

/// `ZSCAN`.
pub(crate) static ZSCAN: Spec = Spec {
    name: "zscan",
    id: CommandId::ZScan,
    arity: -3,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Walks through the members of a sorted set, a few at each call.",
        since: "2.8.0",
        complexity: "O(1) for each call, O(N) for the whole walk over N members.",
        arguments: scan::WITHIN_KEY,
        ..DOCS
    },
    parse: Some(parse_zscan),
    ..SORTED_SET
};
