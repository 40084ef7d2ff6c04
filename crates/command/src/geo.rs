//! Positions on the earth, kept in sorted sets.
//!
//! Ten commands are four effects: adding positions, three ways to ask for those of named members, and the search, whose
//! result is answered or stored. `GEORADIUS` and its kin are the search with a fixed order of their first words.

mod parse;
mod specs;

pub(crate) use specs::*;

use crate::spec::ValueAccess;
use crate::{AddOptions, ReplyError, number};
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
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            GeoCommand::Add { .. } | GeoCommand::Store { .. } => true,
            GeoCommand::Positions { .. }
            | GeoCommand::Hashes { .. }
            | GeoCommand::Distance { .. }
            | GeoCommand::Search { .. } => false,
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            GeoCommand::Add { .. } | GeoCommand::Store { .. } => ValueAccess::Modifies,
            GeoCommand::Positions { .. }
            | GeoCommand::Hashes { .. }
            | GeoCommand::Distance { .. }
            | GeoCommand::Search { .. } => ValueAccess::Reads,
        }
    }
}

/// The positions and members in the words of [`GeoCommand::Add`].
///
/// # Panics
/// If the words were not checked by the parser.
pub fn geo_positions<'a>(argv: Args<'a>) -> impl Iterator<Item = (GeoPosition, &'a [u8])> {
    positions(argv).map(|read| read.expect("the parser has read the same words before"))
}

/// Reads triples of longitude, latitude and member.
fn positions<'a>(argv: Args<'a>) -> impl Iterator<Item = Result<(GeoPosition, &'a [u8]), ReplyError>> {
    (0..argv.len() / 3).map(move |triple| {
        let at = 3 * triple;
        Ok((position(argv.arg(at), argv.arg(at + 1))?, argv.arg(at + 2)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, KeyUse, keys, parse, resolve};
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
