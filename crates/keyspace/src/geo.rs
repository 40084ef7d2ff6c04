//! Positions on the earth: members of sorted sets whose scores are geohashes.

mod hash;

use crate::apply::Apply;
use crate::object::Kind;
use crate::read::Reader;
use crate::sorted_set::View;
use crate::value::Digits;
use command::{
    AddOptions, GeoCenter, GeoCommand, GeoOrder, GeoPosition, GeoReply, GeoSearch, GeoShape, GeoUnit,
    ReplyError, ScoreBound, SortedRange, geo_positions,
};
use hash::{Cell, Region};
use resp::{Args, ReplyWriter};
use std::ops::Range;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn geo(&mut self, command: &GeoCommand<'_>) {
        let result = match *command {
            GeoCommand::Add {
                key,
                positions,
                options,
            } => self.geo_add(key, positions, options),
            GeoCommand::Store {
                destination,
                source,
                ref search,
                distances,
                event,
            } => self.geo_store(destination, source, search, distances, event),
            GeoCommand::Positions { .. }
            | GeoCommand::Hashes { .. }
            | GeoCommand::Distance { .. }
            | GeoCommand::Search { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn geo_add(&mut self, key: &[u8], positions: Args<'_>, options: AddOptions) -> Result<(), ReplyError> {
        let pairs = geo_positions(positions).map(|(position, member)| (member, hash::score(position)));
        let added = self.add_scores(key, options, pairs)?;
        let moved = if options.counts_changes { added.changed } else { 0 };
        self.out.integer((added.new + moved) as i64);
        Ok(())
    }

    fn geo_store(
        &mut self,
        destination: &[u8],
        source: &[u8],
        search: &GeoSearch<'_>,
        distances: bool,
        event: &'static str,
    ) -> Result<(), ReplyError> {
        let found = match self.peek(Kind::SortedSet, source)? {
            Some(object) => Found::of(View::of(&object), search)?,
            None => Found::default(),
        };
        let mut members: Vec<(Vec<u8>, f64)> = found
            .places
            .iter()
            .map(|place| {
                let score = if distances { place.distance } else { place.score };
                (found.member(place).to_vec(), score)
            })
            .collect();
        members
            .sort_unstable_by(|(a, a_score), (b, b_score)| a_score.total_cmp(b_score).then_with(|| a.cmp(b)));
        self.store_scores(destination, &members, event);
        Ok(())
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn geo(&mut self, command: &GeoCommand<'_>) {
        match *command {
            GeoCommand::Positions { key, members } => {
                self.geo_each(
                    key,
                    members,
                    |out| out.null_array(),
                    |out, score| {
                        write_position(out, hash::position(score));
                    },
                );
            }
            GeoCommand::Hashes { key, members } => {
                self.geo_each(
                    key,
                    members,
                    |out| out.null(),
                    |out, score| out.bulk(&hash::text(score)),
                );
            }
            GeoCommand::Distance { key, from, to, unit } => self.geo_distance(key, from, to, unit),
            GeoCommand::Search {
                key,
                ref search,
                reply,
            } => self.geo_search(key, search, reply),
            GeoCommand::Add { .. } | GeoCommand::Store { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    /// Answers something for each of `members`.
    fn geo_each(
        &mut self,
        key: &[u8],
        members: Args<'_>,
        absent: impl Fn(&mut ReplyWriter<'_>),
        present: impl Fn(&mut ReplyWriter<'_>, f64),
    ) {
        let found = match self.lookup_kind(key, Kind::SortedSet) {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        self.out.array(members.len());
        for member in members.iter() {
            match found
                .as_ref()
                .and_then(|object| View::of(object).score_of(member))
            {
                Some(score) => present(self.out, score),
                None => absent(self.out),
            }
        }
    }

    fn geo_distance(&mut self, key: &[u8], from: &[u8], to: &[u8], unit: GeoUnit) {
        let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.null()) else {
            return;
        };
        let view = View::of(&object);
        match (view.score_of(from), view.score_of(to)) {
            (Some(from), Some(to)) => {
                let metres = hash::distance(hash::position(from), hash::position(to));
                write_distance(self.out, metres / unit.metres());
            }
            _ => self.out.null(),
        }
    }

    fn geo_search(&mut self, key: &[u8], search: &GeoSearch<'_>, reply: GeoReply) {
        let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.array(0)) else {
            return;
        };
        let found = match Found::of(View::of(&object), search) {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        self.out.array(found.places.len());
        for place in &found.places {
            if reply.extras() > 0 {
                self.out.array(1 + reply.extras());
            }
            self.out.bulk(found.member(place));
            if reply.distance {
                write_distance(self.out, place.distance);
            }
            if reply.score {
                self.out.integer(place.score as i64);
            }
            if reply.position {
                write_position(self.out, hash::position(place.score));
            }
        }
    }
}

/// What a search has found.
#[derive(Default)]
struct Found {
    /// The members' names, one after the other.
    names: Vec<u8>,
    places: Vec<Place>,
}

/// A member that a search has found.
struct Place {
    /// Where its name is.
    name: Range<usize>,
    score: f64,
    /// In the unit of the search.
    distance: f64,
}

/// Where a search looks; an error if the middle is to be a member that is not there.
fn region_of(view: View<'_>, search: &GeoSearch<'_>) -> Result<Region, ReplyError> {
    let center = match search.center {
        GeoCenter::Position(position) => position,
        GeoCenter::Member(member) => {
            hash::position(view.score_of(member).ok_or(ReplyError::GeoNoSuchMember)?)
        }
    };
    let metres = search.unit.metres();
    let shape = match search.shape {
        GeoShape::Circle { radius } => GeoShape::Circle {
            radius: radius * metres,
        },
        GeoShape::Box { width, height } => GeoShape::Box {
            width: width * metres,
            height: height * metres,
        },
    };
    Ok(Region { center, shape })
}

/// How many members a search looks at, at most.
pub(crate) fn cost(view: View<'_>, search: &GeoSearch<'_>) -> usize {
    let View::Large(_) = view else {
        return view.len();
    };
    let members = |cell| view.section(section_of(cell), false).len();
    region_of(view, search).map_or(0, |region| region.cells().map(members).sum())
}

impl Found {
    /// Searches a sorted set; an error if the middle is to be a member that is not there.
    fn of(view: View<'_>, search: &GeoSearch<'_>) -> Result<Found, ReplyError> {
        let region = region_of(view, search)?;
        let metres = search.unit.metres();
        let mut found = Found::default();
        let count = search.limit.map_or(u64::MAX, |limit| limit.count);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // Without `ANY` the nearest are wanted, and only at the end it is known which ones these are.
        let enough = if search.limit.is_some_and(|limit| limit.any) {
            count
        } else {
            usize::MAX
        };
        let mut digits = Digits::default();
        'cells: for cell in region.cells() {
            for (member, score) in view.members(view.section(section_of(cell), false)) {
                if let Some(distance) = region.distance_inside(hash::position(score)) {
                    found.add(member.text(&mut digits), score, distance / metres);
                    if found.places.len() == enough {
                        break 'cells;
                    }
                }
            }
        }
        match search.order {
            Some(GeoOrder::Ascending) => found.places.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
            Some(GeoOrder::Descending) => found.places.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
            None => {}
        }
        found.places.truncate(count);
        Ok(found)
    }

    fn add(&mut self, member: &[u8], score: f64, distance: f64) {
        let start = self.names.len();
        self.names.extend_from_slice(member);
        self.places.push(Place {
            name: start..self.names.len(),
            score,
            distance,
        });
    }

    fn member(&self, place: &Place) -> &[u8] {
        &self.names[place.name.clone()]
    }
}

/// The members of a cell.
fn section_of(cell: Cell) -> SortedRange<'static> {
    let (from, to) = cell.scores();
    SortedRange::Scores {
        min: ScoreBound {
            score: from,
            is_exclusive: false,
        },
        max: ScoreBound {
            score: to,
            is_exclusive: true,
        },
    }
}

/// Four decimals, whatever the unit.
fn write_distance(out: &mut ReplyWriter<'_>, distance: f64) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

fn write_position(out: &mut ReplyWriter<'_>, position: GeoPosition) {
    out.array(2);
    write_degrees(out, position.longitude);
    write_degrees(out, position.latitude);
}

/// Seventeen decimals without the zeros at their end.
fn write_degrees(out: &mut ReplyWriter<'_>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    out.double_text(if text == "-0" { "0" } else { text }.as_bytes());
}
