//! Positions on the earth, kept in sorted sets.
//!
//! Ten commands are four effects: adding positions, three ways to ask for those of named members, and the search, whose
//! result is answered or stored. `GEORADIUS` and its kin are the search with a fixed order of their first words.

use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{AddOptions, Command, CommandId, ReplyError, number};
use resp::Args;

/// The largest longitude, in degrees; the smallest is its negative.
pub const LONGITUDE_MAX: f64 = 180.0;
/// The largest latitude, in degrees: there a map in Mercator's projection becomes a square (EPSG:3857).
pub const LATITUDE_MAX: f64 = 85.051_128_78;

/// One command on positions.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum GeoCommand<'a> {
    /// `GEOADD key [NX|XX] [CH] longitude latitude member [..]`: the words from the first longitude on, checked by the
    /// parser and read with [`geo_positions`].
    Add {
        key: &'a [u8],
        positions: Args<'a>,
        options: AddOptions,
    },
    /// `GEOPOS key [member ...]`.
    Positions { key: &'a [u8], members: Args<'a> },
    /// `GEOHASH key [member ...]`.
    Hashes { key: &'a [u8], members: Args<'a> },
    /// `GEODIST key member1 member2 [unit]`.
    Distance {
        key: &'a [u8],
        from: &'a [u8],
        to: &'a [u8],
        unit: GeoUnit,
    },
    /// `GEOSEARCH`, `GEORADIUS`, `GEORADIUSBYMEMBER` and their read-only forms.
    Search {
        key: &'a [u8],
        search: GeoSearch<'a>,
        reply: GeoReply,
    },
    /// `GEOSEARCHSTORE`; `GEORADIUS` and `GEORADIUSBYMEMBER` with `STORE` or `STOREDIST`.
    Store {
        destination: &'a [u8],
        source: &'a [u8],
        search: GeoSearch<'a>,
        /// The scores are distances, not positions.
        distances: bool,
        /// What listeners are told.
        event: &'static str,
    },
}

/// A position in degrees, within [`LONGITUDE_MAX`] and [`LATITUDE_MAX`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeoPosition {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

/// In what lengths are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeoUnit {
    /// `M`
    Metres,
    /// `KM`
    Kilometres,
    /// `FT`
    Feet,
    /// `MI`
    Miles,
}

impl GeoUnit {
    /// How many metres one is.
    pub fn metres(self) -> f64 {
        match self {
            GeoUnit::Metres => 1.0,
            GeoUnit::Kilometres => 1000.0,
            GeoUnit::Feet => 0.3048,
            GeoUnit::Miles => 1609.34,
        }
    }

    fn parse(word: &[u8]) -> Result<GeoUnit, ReplyError> {
        [
            (&b"m"[..], GeoUnit::Metres),
            (b"km", GeoUnit::Kilometres),
            (b"ft", GeoUnit::Feet),
            (b"mi", GeoUnit::Miles),
        ]
        .into_iter()
        .find_map(|(name, unit)| word.eq_ignore_ascii_case(name).then_some(unit))
        .ok_or(ReplyError::GeoUnit)
    }
}

/// What is searched for, and which of what is found is taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeoSearch<'a> {
    /// The middle of the area.
    pub center: GeoCenter<'a>,
    /// The area.
    pub shape: GeoShape,
    /// In what the shape and all distances are counted.
    pub unit: GeoUnit,
    /// How members are ordered; `None` as they are found.
    pub order: Option<GeoOrder>,
    /// How many are taken.
    pub limit: Option<GeoLimit>,
}

/// The middle of an area.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GeoCenter<'a> {
    /// Where this member is.
    Member(&'a [u8]),
    /// Here.
    Position(GeoPosition),
}

/// The shape of an area; no length is negative, and any may be infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GeoShape {
    /// `BYRADIUS`
    Circle {
        /// From the middle.
        radius: f64,
    },
    /// `BYBOX`
    Box {
        /// From west to east, through the middle.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// By distance from the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeoOrder {
    /// `ASC`: the nearest first.
    Ascending,
    /// `DESC`: the farthest first.
    Descending,
}

/// `COUNT count [ANY]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeoLimit {
    /// At least 1.
    pub count: u64,
    /// `ANY`: the search ends as soon as so many are found.
    pub any: bool,
}

/// What is answered beside each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GeoReply {
    /// `WITHDIST`
    pub distance: bool,
    /// `WITHHASH`
    pub score: bool,
    /// `WITHCOORD`
    pub position: bool,
}

impl GeoReply {
    /// How many things are answered for a member, itself not counted.
    pub fn extras(self) -> usize {
        usize::from(self.distance) + usize::from(self.score) + usize::from(self.position)
    }
}

impl GeoCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            GeoCommand::Add { .. } | GeoCommand::Store { .. } => true,
            GeoCommand::Positions { .. }
            | GeoCommand::Hashes { .. }
            | GeoCommand::Distance { .. }
            | GeoCommand::Search { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            GeoCommand::Add { .. } | GeoCommand::Store { .. } => Access::Modifies,
            GeoCommand::Positions { .. }
            | GeoCommand::Hashes { .. }
            | GeoCommand::Distance { .. }
            | GeoCommand::Search { .. } => Access::Reads,
        }
    }
}

/// The positions and members in the words of [`GeoCommand::Add`].
///
/// # Panics
/// If the words were not checked by the parser.
pub fn geo_positions<'a>(words: Args<'a>) -> impl Iterator<Item = (GeoPosition, &'a [u8])> {
    positions(words).map(|read| read.expect("the parser has read the same words before"))
}

/// Reads triples of longitude, latitude and member.
fn positions<'a>(words: Args<'a>) -> impl Iterator<Item = Result<(GeoPosition, &'a [u8]), ReplyError>> {
    (0..words.len() / 3).map(move |triple| {
        let at = 3 * triple;
        Ok((position(words.arg(at), words.arg(at + 1))?, words.arg(at + 2)))
    })
}

/// Reads a position.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<GeoPosition, ReplyError> {
    let longitude = number::parse_double(longitude).ok_or(ReplyError::NotAFloat)?;
    let latitude = number::parse_double(latitude).ok_or(ReplyError::NotAFloat)?;
    if longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX {
        Ok(GeoPosition { longitude, latitude })
    } else {
        Err(ReplyError::position_out_of_range(longitude, latitude))
    }
}

/// Reads a length; `otherwise` is what is wrong with one that is no number.
fn length(word: &[u8], otherwise: ReplyError) -> Result<f64, ReplyError> {
    number::parse_double(word).ok_or(otherwise)
}

/// Reads a radius and its unit.
fn circle(radius: &[u8], unit: &[u8]) -> Result<(GeoShape, GeoUnit), ReplyError> {
    let radius = length(radius, ReplyError::GeoRadius)?;
    if radius < 0.0 {
        return Err(ReplyError::GeoRadiusNegative);
    }
    Ok((GeoShape::Circle { radius }, GeoUnit::parse(unit)?))
}

/// Reads the sides of a box and their unit.
fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(GeoShape, GeoUnit), ReplyError> {
    let width = length(width, ReplyError::GeoWidth)?;
    let height = length(height, ReplyError::GeoHeight)?;
    if width < 0.0 || height < 0.0 {
        return Err(ReplyError::GeoBoxNegative);
    }
    Ok((GeoShape::Box { width, height }, GeoUnit::parse(unit)?))
}

/// Which words a search takes beside those that all of them do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `GEORADIUS_RO`, `GEORADIUSBYMEMBER_RO`.
    Radius,
    /// `GEORADIUS`, `GEORADIUSBYMEMBER`: and `STORE`, `STOREDIST`, each with a key.
    RadiusStoring,
    /// `GEOSEARCH`: and the middle and the shape.
    Search,
    /// `GEOSEARCHSTORE`: and `STOREDIST` alone.
    SearchStoring,
}

/// The options of a search, as far as they have been read.
#[derive(Default)]
struct Options<'a> {
    center: Option<GeoCenter<'a>>,
    shape: Option<(GeoShape, GeoUnit)>,
    order: Option<GeoOrder>,
    count: Option<u64>,
    any: bool,
    reply: GeoReply,
    destination: Option<&'a [u8]>,
    distances: bool,
}

impl<'a> Options<'a> {
    /// Reads `words`: of an option that stands twice, the last one counts.
    fn read(&mut self, words: Args<'a>, form: Form) -> Result<(), ReplyError> {
        let is_search = matches!(form, Form::Search | Form::SearchStoring);
        let mut at = 0;
        while at < words.len() {
            let word = words.arg(at);
            let left = words.len() - at - 1;
            let is = |name: &str, needs: usize| left >= needs && word.eq_ignore_ascii_case(name.as_bytes());
            at += 1;
            if is("withdist", 0) {
                self.reply.distance = true;
            } else if is("withhash", 0) {
                self.reply.score = true;
            } else if is("withcoord", 0) {
                self.reply.position = true;
            } else if is("any", 0) {
                self.any = true;
            } else if is("asc", 0) {
                self.order = Some(GeoOrder::Ascending);
            } else if is("desc", 0) {
                self.order = Some(GeoOrder::Descending);
            } else if is("count", 1) {
                let count = number::integer(words.arg(at))?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0);
                self.count = Some(count.ok_or(ReplyError::GeoCount)?);
                at += 1;
            } else if form == Form::RadiusStoring && (is("store", 1) || is("storedist", 1)) {
                self.destination = Some(words.arg(at));
                self.distances = is("storedist", 1);
                at += 1;
            } else if form == Form::SearchStoring && is("storedist", 0) {
                self.distances = true;
            } else if is_search && is("frommember", 1) && !matches!(self.center, Some(GeoCenter::Position(_)))
            {
                self.center = Some(GeoCenter::Member(words.arg(at)));
                at += 1;
            } else if is_search && is("fromlonlat", 2) && !matches!(self.center, Some(GeoCenter::Member(_))) {
                self.center = Some(GeoCenter::Position(position(words.arg(at), words.arg(at + 1))?));
                at += 2;
            } else if is_search && is("byradius", 2) && !matches!(self.shape, Some((GeoShape::Box { .. }, _)))
            {
                self.shape = Some(circle(words.arg(at), words.arg(at + 1))?);
                at += 2;
            } else if is_search && is("bybox", 3) && !matches!(self.shape, Some((GeoShape::Circle { .. }, _)))
            {
                self.shape = Some(rectangle(words.arg(at), words.arg(at + 1), words.arg(at + 2))?);
                at += 3;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        Ok(())
    }

    /// What the options make of a command called `name` on `source`.
    fn command(self, name: &[u8], source: &'a [u8], form: Form) -> Result<Command<'a>, ReplyError> {
        if self.destination.is_some() && self.reply.extras() > 0 {
            return Err(match form {
                Form::SearchStoring => ReplyError::GeoSearchStoreWith,
                Form::Radius | Form::RadiusStoring | Form::Search => ReplyError::GeoRadiusStoreWith,
            });
        }
        let Some(center) = self.center else {
            return Err(ReplyError::quoting(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ",
                name,
                "",
            ));
        };
        let Some((shape, unit)) = self.shape else {
            return Err(ReplyError::quoting(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for ",
                name,
                "",
            ));
        };
        if self.any && self.count.is_none() {
            return Err(ReplyError::GeoAnyWithoutCount);
        }
        let limit = self.count.map(|count| GeoLimit { count, any: self.any });
        let search = GeoSearch {
            center,
            shape,
            unit,
            // A number of members says little unless they are the nearest.
            order: self
                .order
                .or((limit.is_some() && !self.any).then_some(GeoOrder::Ascending)),
            limit,
        };
        Ok(Command::Geo(match self.destination {
            Some(destination) => GeoCommand::Store {
                destination,
                source,
                search,
                distances: self.distances,
                event: match form {
                    Form::SearchStoring => "geosearchstore",
                    Form::Radius | Form::RadiusStoring | Form::Search => "georadiusstore",
                },
            },
            None => GeoCommand::Search {
                key: source,
                search,
                reply: self.reply,
            },
        }))
    }
}

/// `GEORADIUS key longitude latitude radius unit ..`.
fn radius(args: Args<'_>, form: Form) -> Result<Command<'_>, ReplyError> {
    let mut options = Options {
        center: Some(GeoCenter::Position(position(args.arg(2), args.arg(3))?)),
        shape: Some(circle(args.arg(4), args.arg(5))?),
        ..Options::default()
    };
    options.read(args.from(6), form)?;
    options.command(args.arg(0), args.arg(1), form)
}

/// `GEORADIUSBYMEMBER key member radius unit ..`.
fn radius_by_member(args: Args<'_>, form: Form) -> Result<Command<'_>, ReplyError> {
    let mut options = Options {
        center: Some(GeoCenter::Member(args.arg(2))),
        shape: Some(circle(args.arg(3), args.arg(4))?),
        ..Options::default()
    };
    options.read(args.from(5), form)?;
    options.command(args.arg(0), args.arg(1), form)
}

/// `GEOADD key ..`.
fn add(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut options = AddOptions::default();
    let mut first = 2;
    while let Some(word) = args.get(first) {
        if word.eq_ignore_ascii_case(b"nx") {
            options.if_absent = true;
        } else if word.eq_ignore_ascii_case(b"xx") {
            options.if_present = true;
        } else if word.eq_ignore_ascii_case(b"ch") {
            options.counts_changes = true;
        } else {
            break;
        }
        first += 1;
    }
    let words = args.from(first);
    if options.if_absent && options.if_present {
        return Err(ReplyError::Syntax);
    }
    if words.is_empty() || !words.len().is_multiple_of(3) {
        return Err(ReplyError::Syntax);
    }
    positions(words).try_for_each(|read| read.map(drop))?;
    Ok(Command::Geo(GeoCommand::Add {
        key: args.arg(1),
        positions: words,
        options,
    }))
}

/// `GEODIST key member1 member2 [unit]`.
fn distance(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let unit = match args.len() {
        4 => GeoUnit::Metres,
        5 => GeoUnit::parse(args.arg(4))?,
        _ => return Err(ReplyError::Syntax),
    };
    Ok(Command::Geo(GeoCommand::Distance {
        key: args.arg(1),
        from: args.arg(2),
        to: args.arg(3),
        unit,
    }))
}

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
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds members at positions on the earth, or moves them.",
        since: "3.2.0",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(add),
    ..Spec::BASE
};

/// `GEOPOS`.
pub(crate) static GEOPOS: Spec = Spec {
    name: "geopos",
    id: CommandId::GeoPos,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the positions of members.",
        since: "3.2.0",
        group: Group::Geo,
        complexity: "O(N) for N members asked for.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Geo(GeoCommand::Positions {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `GEODIST`.
pub(crate) static GEODIST: Spec = Spec {
    name: "geodist",
    id: CommandId::GeoDist,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how far two members are from each other.",
        since: "3.2.0",
        group: Group::Geo,
        complexity: "O(log(N))",
        arguments: &[
            Argument::KEY,
            Argument::string("member1"),
            Argument::string("member2"),
            UNIT.optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(distance),
    ..Spec::BASE
};

/// `GEOHASH`.
pub(crate) static GEOHASH: Spec = Spec {
    name: "geohash",
    id: CommandId::GeoHash,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the positions of members as geohash texts.",
        since: "3.2.0",
        group: Group::Geo,
        complexity: "O(log(N)) for each member asked for, in a sorted set of N.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Geo(GeoCommand::Hashes {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `GEOSEARCH`.
pub(crate) static GEOSEARCH: Spec = Spec {
    name: "geosearch",
    id: CommandId::GeoSearch,
    arity: -7,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members inside a circle or a box.",
        since: "6.2.0",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| {
        let mut options = Options::default();
        options.read(args.from(2), Form::Search)?;
        options.command(args.arg(0), args.arg(1), Form::Search)
    }),
    ..Spec::BASE
};

/// `GEOSEARCHSTORE`.
pub(crate) static GEOSEARCHSTORE: Spec = Spec {
    name: "geosearchstore",
    id: CommandId::GeoSearchStore,
    arity: -8,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::GEO,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members inside a circle or a box, and stores them as a sorted set.",
        since: "6.2.0",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| {
        let mut options = Options {
            destination: Some(args.arg(1)),
            ..Options::default()
        };
        options.read(args.from(3), Form::SearchStoring)?;
        options.command(args.arg(0), args.arg(2), Form::SearchStoring)
    }),
    ..Spec::BASE
};

/// `GEORADIUS`.
pub(crate) static GEORADIUS: Spec = Spec {
    name: "georadius",
    id: CommandId::GeoRadius,
    arity: -6,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    categories: Categories::GEO,
    keys: &[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 6, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 6, KeyFlags::OVERWRITE),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a position, and stores them where asked to.",
        since: "3.2.0",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| radius(args, Form::RadiusStoring)),
    ..Spec::BASE
};

/// `GEORADIUS_RO`.
pub(crate) static GEORADIUS_RO: Spec = Spec {
    name: "georadius_ro",
    id: CommandId::GeoRadiusRo,
    arity: -6,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a position.",
        since: "3.2.10",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| radius(args, Form::Radius)),
    ..Spec::BASE
};

/// `GEORADIUSBYMEMBER`.
pub(crate) static GEORADIUSBYMEMBER: Spec = Spec {
    name: "georadiusbymember",
    id: CommandId::GeoRadiusByMember,
    arity: -5,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    categories: Categories::GEO,
    keys: &[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::after("STORE", 5, KeyFlags::OVERWRITE),
        KeySpec::after("STOREDIST", 5, KeyFlags::OVERWRITE),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a member, and stores them where asked to.",
        since: "3.2.0",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| radius_by_member(args, Form::RadiusStoring)),
    ..Spec::BASE
};

/// `GEORADIUSBYMEMBER_RO`.
pub(crate) static GEORADIUSBYMEMBER_RO: Spec = Spec {
    name: "georadiusbymember_ro",
    id: CommandId::GeoRadiusByMemberRo,
    arity: -5,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Finds the members around a member.",
        since: "3.2.10",
        group: Group::Geo,
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
        ..Docs::BASE
    },
    parse: Some(|args| radius_by_member(args, Form::Radius)),
    ..Spec::BASE
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyUse, keys, parse, resolve};
    use resp::ArgsBuf;

    fn words(line: &str) -> ArgsBuf {
        ArgsBuf::from_slices(line.split(' '))
    }

    /// The error of a command, or nothing.
    fn error(line: &str) -> String {
        let args = words(line);
        let parsed = resolve(args.as_args()).and_then(|spec| parse(spec, args.as_args()).expect(line));
        parsed.err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// Calls `check` with the command that a line becomes.
    fn with(line: &str, check: impl FnOnce(GeoCommand<'_>)) {
        let args = words(line);
        let spec = resolve(args.as_args()).expect(line);
        match parse(spec, args.as_args())
            .expect("a group answers it")
            .expect(line)
        {
            Command::Geo(command) => check(command),
            other => panic!("{line} became {other:?}"),
        }
    }

    #[test]
    fn lines_are_refused_in_the_words_of_redis() {
        const SYNTAX: &str = "ERR syntax error";
        const FLOAT: &str = "ERR value is not a valid float";
        const RADIUS: &str = "ERR need numeric radius";
        for (line, expected) in [
            ("geoadd k nx xx 1 2 a", SYNTAX),
            ("geoadd k ch ch ch", SYNTAX),
            ("geoadd k 1 2 a 3 4", SYNTAX),
            ("geoadd k x 2 a", FLOAT),
            ("geoadd k 1 nan a", FLOAT),
            ("geoadd k 1 2 a 3 1e400 b", FLOAT),
            (
                "geoadd k 200 1 a",
                "ERR invalid longitude,latitude pair 200.000000,1.000000",
            ),
            (
                "geoadd k inf -86 a",
                "ERR invalid longitude,latitude pair inf,-86.000000",
            ),
            (
                "geodist k a b xx",
                "ERR unsupported unit provided. please use M, KM, FT, MI",
            ),
            ("geodist k a b m x", SYNTAX),
            ("georadius k 1 2 x km", RADIUS),
            ("georadius k x 2 x km", FLOAT),
            ("georadius k 1 2 -1 xx", "ERR radius cannot be negative"),
            (
                "georadius k 1 2 1 xx",
                "ERR unsupported unit provided. please use M, KM, FT, MI",
            ),
            ("georadius k 1 2 1 km foo", SYNTAX),
            ("georadius k 1 2 1 km count", SYNTAX),
            ("georadius k 1 2 1 km count 0", "ERR COUNT must be > 0"),
            (
                "georadius k 1 2 1 km count x",
                "ERR value is not an integer or out of range",
            ),
            (
                "georadius k 1 2 1 km any",
                "ERR the ANY argument requires COUNT argument",
            ),
            ("georadius k 1 2 1 km store", SYNTAX),
            ("georadius k 1 2 1 km frommember a", SYNTAX),
            (
                "georadius k 1 2 1 km store d withdist",
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            ("georadius_ro k 1 2 1 km store d", SYNTAX),
            ("georadiusbymember k a x km", RADIUS),
            ("georadiusbymember_ro k a 1 km storedist d", SYNTAX),
            (
                "geosearch k withdist withdist withdist withdist withdist",
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch",
            ),
            (
                "GeoSearch k frommember a asc asc asc",
                "ERR exactly one of BYRADIUS and BYBOX can be specified for GeoSearch",
            ),
            ("geosearch k frommember a fromlonlat 1 2 byradius 1 km", SYNTAX),
            ("geosearch k frommember a byradius 1 km bybox 1 1 km", SYNTAX),
            ("geosearch k frommember a byradius 1 km storedist", SYNTAX),
            ("geosearch k frommember a bybox x 1 km", "ERR need numeric width"),
            ("geosearch k frommember a bybox 1 x km", "ERR need numeric height"),
            (
                "geosearch k frommember a bybox 1 -1 km",
                "ERR height or width cannot be negative",
            ),
            (
                "geosearchstore d k frommember a byradius 1 km withhash",
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
        ] {
            assert_eq!(error(line), expected, "{line}");
        }
    }

    #[test]
    fn options_reach_the_command() {
        with("geoadd k CH xx 1 2 a 3 4 b", |command| {
            let GeoCommand::Add {
                positions, options, ..
            } = command
            else {
                panic!("{command:?}");
            };
            let expected = AddOptions {
                if_present: true,
                counts_changes: true,
                ..AddOptions::default()
            };
            assert_eq!(options, expected);
            let read: Vec<_> = geo_positions(positions)
                .map(|(position, member)| (position.longitude, position.latitude, member))
                .collect();
            assert_eq!(read, [(1.0, 2.0, &b"a"[..]), (3.0, 4.0, b"b")]);
        });
        let search = |line: &str| {
            let (mut order, mut limit, mut stores) = (None, None, None);
            with(line, |command| match command {
                GeoCommand::Search { search, .. } => (order, limit) = (search.order, search.limit),
                GeoCommand::Store {
                    search,
                    destination,
                    distances,
                    event,
                    ..
                } => {
                    (order, limit) = (search.order, search.limit);
                    stores = Some((destination.to_vec(), distances, event));
                }
                other => panic!("{other:?}"),
            });
            (order, limit, stores)
        };
        let limit = |count, any| Some(GeoLimit { count, any });
        let stored = |destination: &[u8], distances, event| Some((destination.to_vec(), distances, event));
        assert_eq!(
            search("geosearch k frommember a byradius 1 km"),
            (None, None, None)
        );
        assert_eq!(
            search("geosearch k frommember a byradius 1 km count 3"),
            (Some(GeoOrder::Ascending), limit(3, false), None)
        );
        assert_eq!(
            search("geosearch k frommember a byradius 1 km any count 3"),
            (None, limit(3, true), None)
        );
        assert_eq!(
            search("geosearchstore d k frommember a bybox 1 1 km storedist desc"),
            (
                Some(GeoOrder::Descending),
                None,
                stored(b"d", true, "geosearchstore")
            )
        );
        // Of two destinations the last one counts.
        assert_eq!(
            search("georadius k 1 2 1 km store x storedist y store z"),
            (None, None, stored(b"z", false, "georadiusstore"))
        );
    }

    #[test]
    fn every_key_that_is_stored_to_is_found() {
        for (line, expected) in [
            ("georadius k 1 2 1 km", &[1][..]),
            ("georadius k 1 2 1 km store d", &[1, 7]),
            ("georadiusbymember k a 1 km storedist d asc", &[1, 6]),
            ("geosearchstore d k frommember a byradius 1 km", &[1, 2]),
            // Keywords are keys too; that one key more is found does no harm.
            ("georadius k 1 2 1 km store store asc", &[1, 7, 8]),
            ("georadius k 1 2 1 km storedist store store d", &[1, 8, 9, 7]),
        ] {
            let args = words(line);
            let spec = resolve(args.as_args()).expect(line);
            let mut found = Vec::new();
            keys(spec, args.as_args(), &mut |position, key_use| {
                let reads = args.as_args().arg(position) == b"k";
                assert_eq!(key_use == KeyUse::Read, reads, "{line}");
                found.push(position);
            });
            assert_eq!(found, expected, "{line}");
            with(line, |command| {
                if let GeoCommand::Store { destination, .. } = command {
                    assert!(
                        found.iter().any(|&at| args.as_args().arg(at) == destination),
                        "{line}"
                    );
                }
            });
        }
    }
}
