//! Positions: the words of their commands, read.

use super::{
    GeoCenter, GeoCommand, GeoLimit, GeoOrder, GeoReply, GeoSearch, GeoShape, GeoUnit, position, positions,
};
use crate::{AddOptions, Command, ReplyError, number};
use resp::Args;

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
pub(super) enum Form {
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
    fn read(&mut self, argv: Args<'a>, form: Form) -> Result<(), ReplyError> {
        let is_search = matches!(form, Form::Search | Form::SearchStoring);
        let mut at = 0;
        while at < argv.len() {
            let word = argv.arg(at);
            let left = argv.len() - at - 1;
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
                let count = number::integer(argv.arg(at))?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0);
                self.count = Some(count.ok_or(ReplyError::GeoCount)?);
                at += 1;
            } else if form == Form::RadiusStoring && (is("store", 1) || is("storedist", 1)) {
                self.destination = Some(argv.arg(at));
                self.distances = is("storedist", 1);
                at += 1;
            } else if form == Form::SearchStoring && is("storedist", 0) {
                self.distances = true;
            } else if is_search && is("frommember", 1) && !matches!(self.center, Some(GeoCenter::Position(_)))
            {
                self.center = Some(GeoCenter::Member(argv.arg(at)));
                at += 1;
            } else if is_search && is("fromlonlat", 2) && !matches!(self.center, Some(GeoCenter::Member(_))) {
                self.center = Some(GeoCenter::Position(position(argv.arg(at), argv.arg(at + 1))?));
                at += 2;
            } else if is_search && is("byradius", 2) && !matches!(self.shape, Some((GeoShape::Box { .. }, _)))
            {
                self.shape = Some(circle(argv.arg(at), argv.arg(at + 1))?);
                at += 2;
            } else if is_search && is("bybox", 3) && !matches!(self.shape, Some((GeoShape::Circle { .. }, _)))
            {
                self.shape = Some(rectangle(argv.arg(at), argv.arg(at + 1), argv.arg(at + 2))?);
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

/// `GEOSEARCH key ..`.
pub(super) fn search(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut options = Options::default();
    options.read(args.from(2), Form::Search)?;
    options.command(args.arg(0), args.arg(1), Form::Search)
}

/// `GEOSEARCHSTORE destination source ..`.
pub(super) fn search_store(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut options = Options {
        destination: Some(args.arg(1)),
        ..Options::default()
    };
    options.read(args.from(3), Form::SearchStoring)?;
    options.command(args.arg(0), args.arg(2), Form::SearchStoring)
}

/// `GEORADIUS key longitude latitude radius unit ..`.
pub(super) fn radius(args: Args<'_>, form: Form) -> Result<Command<'_>, ReplyError> {
    let mut options = Options {
        center: Some(GeoCenter::Position(position(args.arg(2), args.arg(3))?)),
        shape: Some(circle(args.arg(4), args.arg(5))?),
        ..Options::default()
    };
    options.read(args.from(6), form)?;
    options.command(args.arg(0), args.arg(1), form)
}

/// `GEORADIUSBYMEMBER key member radius unit ..`.
pub(super) fn radius_by_member(args: Args<'_>, form: Form) -> Result<Command<'_>, ReplyError> {
    let mut options = Options {
        center: Some(GeoCenter::Member(args.arg(2))),
        shape: Some(circle(args.arg(3), args.arg(4))?),
        ..Options::default()
    };
    options.read(args.from(5), form)?;
    options.command(args.arg(0), args.arg(1), form)
}

/// `GEOADD key ..`.
pub(super) fn add(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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
pub(super) fn distance(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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
