//! Positions: the specs of their commands.

use super::GeoCommand;
use super::parse::*;
use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{Command, CommandId};

/// What all commands on positions have in common.
const GEO: Spec = Spec {
    categories: Categories::GEO,
    route: Route::Keys,
    ..Spec::BASE
};

const DOCS: Docs = Docs {
    group: Group::Geo,
    ..Docs::BASE
};

/// A number in degrees or units of length.
const fn double(name: &'static str) -> Argument {
    Argument::new(name, ArgumentKind::Double)
}

const LONGITUDE: Argument = double("longitude");
const LATITUDE: Argument = double("latitude");
const MEMBER: Argument = Argument::string("member");
const UNIT: Argument = Argument::one_of(
    "unit",
    &[
        Argument::word("m", "M"),
        Argument::word("km", "KM"),
        Argument::word("ft", "FT"),
        Argument::word("mi", "MI"),
    ],
);
const FROM: Argument = Argument::one_of(
    "from",
    &[
        MEMBER.token("FROMMEMBER"),
        Argument::block("longitude_latitude", &[LONGITUDE, LATITUDE]).token("FROMLONLAT"),
    ],
);
const BY: Argument = Argument::one_of(
    "by",
    &[
        Argument::block("circle", &[double("radius").token("BYRADIUS"), UNIT]),
        Argument::block("box", &[double("width").token("BYBOX"), double("height"), UNIT]),
    ],
);
const ORDER: Argument = Argument::one_of(
    "order",
    &[Argument::word("asc", "ASC"), Argument::word("desc", "DESC")],
)
.optional();
const ANY: Argument = Argument::word("any", "ANY").optional();
const COUNT: Argument =
    Argument::block("count", &[Argument::integer("count").token("COUNT"), ANY]).optional();
/// Of commands that are older than `ANY`, as Redis says it.
const COUNT_LATER_ANY: Argument = Argument::block(
    "count",
    &[Argument::integer("count").token("COUNT"), ANY.since("6.2.0")],
)
.optional();
const WITHCOORD: Argument = Argument::word("withcoord", "WITHCOORD").optional();
const WITHDIST: Argument = Argument::word("withdist", "WITHDIST").optional();
const WITHHASH: Argument = Argument::word("withhash", "WITHHASH").optional();
const STORE: Argument = Argument::key("key", 1).token("STORE").optional();
const STOREDIST: Argument = Argument::key("key", 2).token("STOREDIST").optional();

const SEARCH_COMPLEXITY: &str =
    "O(N+log(M)) for N members in the grid cells around the area, of M in the sorted set.";
const ANY_ADDED: (&str, &str) = ("6.2.0", "`ANY` after `COUNT`.");
const UPPERCASE_UNITS: (&str, &str) = ("7.0.0", "Units may be in upper case.");

/// `GEOADD`.
pub(crate) static GEOADD: Spec = Spec {
    name: "geoadd",
    id: CommandId::GeoAdd,
    arity: -5,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds members at positions on the earth, or moves them.",
        since: "3.2.0",
        complexity: "O(log(N)) for each member, in a sorted set of N.",
        history: &[("6.2.0", "`CH`, `NX` and `XX`.")],
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "condition",
                &[Argument::word("nx", "NX"), Argument::word("xx", "XX")],
            )
            .since("6.2.0")
            .optional(),
            Argument::word("change", "CH").since("6.2.0").optional(),
            Argument::block("longitude_latitude_member", &[LONGITUDE, LATITUDE, MEMBER]).multiple(),
        ],
        ..DOCS
    },
    parse: Some(add),
    ..GEO
};

/// `GEOPOS`.
pub(crate) static GEOPOS: Spec = Spec {
    name: "geopos",
    id: CommandId::GeoPos,
    arity: -2,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the positions of members.",
        since: "3.2.0",
        complexity: "O(N) for N members asked for.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..DOCS
    },
    parse: Some(|args| {
        Ok(Command::Geo(GeoCommand::Positions {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..GEO
};

/// `GEODIST`.
pub(crate) static GEODIST: Spec = Spec {
    name: "geodist",
    id: CommandId::GeoDist,
    arity: -4,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how far two members are from each other.",
        since: "3.2.0",
        complexity: "O(log(N))",
        arguments: &[
            Argument::KEY,
            Argument::string("member1"),
            Argument::string("member2"),
            UNIT.optional(),
        ],
        ..DOCS
    },
    parse: Some(distance),
    ..GEO
};

/// `GEOHASH`.
pub(crate) static GEOHASH: Spec = Spec {
    name: "geohash",
    id: CommandId::GeoHash,
    arity: -2,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the positions of members as geohash texts.",
        since: "3.2.0",
        complexity: "O(log(N)) for each member asked for, in a sorted set of N.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..DOCS
    },
    parse: Some(|args| {
        Ok(Command::Geo(GeoCommand::Hashes {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..GEO
};

/// `GEOSEARCH`.
pub(crate) static GEOSEARCH: Spec = Spec {
    name: "geosearch",
    id: CommandId::GeoSearch,
    arity: -7,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members inside a circle or a box.",
        since: "6.2.0",
        complexity: SEARCH_COMPLEXITY,
        history: &[UPPERCASE_UNITS],
        arguments: &[
            Argument::KEY,
            FROM,
            BY,
            ORDER,
            COUNT,
            WITHCOORD,
            WITHDIST,
            WITHHASH,
        ],
        ..DOCS
    },
    parse: Some(search),
    ..GEO
};

/// `GEOSEARCHSTORE`.
pub(crate) static GEOSEARCHSTORE: Spec = Spec {
    name: "geosearchstore",
    id: CommandId::GeoSearchStore,
    arity: -8,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members inside a circle or a box, and stores them as a sorted set.",
        since: "6.2.0",
        complexity: SEARCH_COMPLEXITY,
        history: &[UPPERCASE_UNITS],
        arguments: &[
            Argument::key("destination", 0),
            Argument::key("source", 1),
            FROM,
            BY,
            ORDER,
            COUNT,
            Argument::word("storedist", "STOREDIST").optional(),
        ],
        ..DOCS
    },
    parse: Some(search_store),
    ..GEO
};

/// `GEORADIUS`.
pub(crate) static GEORADIUS: Spec = Spec {
    name: "georadius",
    id: CommandId::GeoRadius,
    arity: -6,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    keys: &[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 6, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 6, KeyFlags::OVERWRITE),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a position, and stores them where asked to.",
        since: "3.2.0",
        complexity: SEARCH_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS`",
        }),
        history: &[ANY_ADDED, UPPERCASE_UNITS],
        arguments: &[
            Argument::KEY,
            LONGITUDE,
            LATITUDE,
            double("radius"),
            UNIT,
            WITHCOORD,
            WITHDIST,
            WITHHASH,
            COUNT_LATER_ANY,
            ORDER,
            STORE,
            STOREDIST,
        ],
        ..DOCS
    },
    parse: Some(|args| radius(args, Form::RadiusStoring)),
    ..GEO
};

/// `GEORADIUS_RO`.
pub(crate) static GEORADIUS_RO: Spec = Spec {
    name: "georadius_ro",
    id: CommandId::GeoRadiusRo,
    arity: -6,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a position.",
        since: "3.2.10",
        complexity: SEARCH_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` with `BYRADIUS`",
        }),
        history: &[ANY_ADDED],
        arguments: &[
            Argument::KEY,
            LONGITUDE,
            LATITUDE,
            double("radius"),
            UNIT,
            WITHCOORD,
            WITHDIST,
            WITHHASH,
            COUNT_LATER_ANY,
            ORDER,
        ],
        ..DOCS
    },
    parse: Some(|args| radius(args, Form::Radius)),
    ..GEO
};

/// `GEORADIUSBYMEMBER`.
pub(crate) static GEORADIUSBYMEMBER: Spec = Spec {
    name: "georadiusbymember",
    id: CommandId::GeoRadiusByMember,
    arity: -5,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    keys: &[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 5, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 5, KeyFlags::OVERWRITE),
    ],
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a member, and stores them where asked to.",
        since: "3.2.0",
        complexity: SEARCH_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`",
        }),
        history: &[UPPERCASE_UNITS],
        arguments: &[
            Argument::KEY,
            MEMBER,
            double("radius"),
            UNIT,
            WITHCOORD,
            WITHDIST,
            WITHHASH,
            COUNT,
            ORDER,
            STORE,
            STOREDIST,
        ],
        ..DOCS
    },
    parse: Some(|args| radius_by_member(args, Form::RadiusStoring)),
    ..GEO
};

/// `GEORADIUSBYMEMBER_RO`.
pub(crate) static GEORADIUSBYMEMBER_RO: Spec = Spec {
    name: "georadiusbymember_ro",
    id: CommandId::GeoRadiusByMemberRo,
    arity: -5,
    flags: Flags::READONLY,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a member.",
        since: "3.2.10",
        complexity: SEARCH_COMPLEXITY,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`",
        }),
        arguments: &[
            Argument::KEY,
            MEMBER,
            double("radius"),
            UNIT,
            WITHCOORD,
            WITHDIST,
            WITHHASH,
            COUNT,
            ORDER,
        ],
        ..DOCS
    },
    parse: Some(|args| radius_by_member(args, Form::Radius)),
    ..GEO
};
