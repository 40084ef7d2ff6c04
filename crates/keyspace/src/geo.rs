//! Positions on the earth: members of sorted sets whose scores are geohashes.

pub(crate) mod hash;
mod points;

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::object::{Kind, Object};
use crate::read::Reader;
use command::{
    GeoCenter, GeoCommand, GeoCondition, GeoOrder, GeoPosition, GeoReply, GeoSearch, GeoShape, GeoUnit,
    ReplyError, geo_positions,
};
use hash::Region;
use resp::{Args, Writer};
use std::ops::Range;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn geo(&mut self, command: &GeoCommand<'_>) {
        match *command {
            GeoCommand::Add {
                key,
                positions,
                condition,
                counts_changes,
            } => self.geo_add(key, positions, condition, counts_changes),
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
        }
    }

    fn geo_add(&mut self, key: &[u8], positions: Args<'_>, condition: GeoCondition, counts_changes: bool) {
        let creates = condition != GeoCondition::IfPresent;
        let edited = self.edit(Kind::SortedSet, key, creates, |edit| {
            let (mut added, mut moved) = (0, 0);
            for (position, member) in geo_positions(positions) {
                let score = hash::score(position);
                match points::score_of(edit.object, member) {
                    None if condition != GeoCondition::IfPresent => added += 1,
                    Some(before) if condition != GeoCondition::IfAbsent && before != score => moved += 1,
                    _ => continue,
                }
                points::insert(edit, member, score);
            }
            if added + moved > 0 {
                edit.mark();
            }
            (added, moved)
        });
        match edited {
            Ok(counts) => {
                let (added, moved) = counts.unwrap_or_default();
                if added + moved > 0 {
                    self.event(EventClasses::SORTED_SET, "zadd", key);
                }
                self.out
                    .integer(if counts_changes { added + moved } else { added });
            }
            Err(error) => error.write(self.out),
        }
    }

    fn geo_store(
        &mut self,
        destination: &[u8],
        source: &[u8],
        search: &GeoSearch<'_>,
        distances: bool,
        event: &'static str,
    ) {
        let found = match self.peek(Kind::SortedSet, source) {
            Ok(Some(object)) => Found::of(&object, search),
            Ok(None) => Ok(Found::default()),
            Err(error) => Err(error),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        if found.places.is_empty() {
            let hash = self.hash(destination);
            if self.delete(hash, destination) {
                self.event(EventClasses::GENERIC, "del", destination);
            }
        } else {
            let members = found.places.iter().map(|place| {
                let score = if distances { place.distance } else { place.score };
                (found.member(place), score)
            });
            let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
            self.store(points::collection(
                destination,
                self.version(),
                limits,
                seed,
                members,
            ));
            self.event(EventClasses::SORTED_SET, event, destination);
        }
        self.out.integer(found.places.len() as i64);
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
        absent: impl Fn(&mut Writer<'_>),
        present: impl Fn(&mut Writer<'_>, f64),
    ) {
        let found = match self.lookup_kind(key, Kind::SortedSet) {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        self.out.array(members.len());
        for member in members.iter() {
            match found.as_ref().and_then(|object| points::score_of(object, member)) {
                Some(score) => present(self.out, score),
                None => absent(self.out),
            }
        }
    }

    fn geo_distance(&mut self, key: &[u8], from: &[u8], to: &[u8], unit: GeoUnit) {
        let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.null()) else {
            return;
        };
        match (points::score_of(&object, from), points::score_of(&object, to)) {
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
        let found = match Found::of(&object, search) {
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

impl Found {
    /// Searches a sorted set; an error if the middle is to be a member that is not there.
    fn of(object: &Object, search: &GeoSearch<'_>) -> Result<Found, ReplyError> {
        let center = match search.center {
            GeoCenter::Position(position) => position,
            GeoCenter::Member(member) => {
                hash::position(points::score_of(object, member).ok_or(ReplyError::GeoNoSuchMember)?)
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
        let region = Region { center, shape };
        let mut found = Found::default();
        let limit = search.limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit.count).unwrap_or(usize::MAX)
        });
        let enough = match search.limit {
            Some(limit_any) if limit_any.any => limit,
            _ => usize::MAX,
        };
        for cell in region.cells() {
            let (from, to) = cell.scores();
            points::in_range(object, from, to, |member, score| {
                if found.places.len() < enough
                    && let Some(distance) = region.distance_inside(hash::position(score))
                {
                    found.add(member, score, distance / metres);
                }
                found.places.len() < enough
            });
        }
        match search.order {
            Some(GeoOrder::Ascending) => found.places.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
            Some(GeoOrder::Descending) => found.places.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
            None => {}
        }
        found.places.truncate(limit);
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

/// Four decimals, whatever the unit.
fn write_distance(out: &mut Writer<'_>, distance: f64) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

fn write_position(out: &mut Writer<'_>, position: GeoPosition) {
    out.array(2);
    write_degrees(out, position.longitude);
    write_degrees(out, position.latitude);
}

/// Seventeen decimals without the zeros at their end.
fn write_degrees(out: &mut Writer<'_>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    out.double_text(if text == "-0" { "0" } else { text }.as_bytes());
}
