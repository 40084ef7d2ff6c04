//! The arithmetic of positions: geohashes, distances, and which cells of the grid an area touches.
//!
//! The map is halved again and again, by longitude and by latitude in turn; a *cell* is what is left after `step`
//! halvings of each, and its number has the bits of both coordinates interleaved (G. M. Morton, 1966; G. Niemeyer's
//! geohash). After 26 steps the number has 52 bits, which a score holds exactly: that is what a sorted set keeps for a
//! position. All cells inside a larger one have scores that follow each other, so that an area is searched as the score
//! ranges of nine cells, the one of its middle and its neighbours.
//!
//! The formulas and their constants are Redis's, down to the order of operations, because clients see the digits. Sines
//! and cosines come from `libm`, not from the system: what `GEOSEARCHSTORE` keeps must be equal on all replicas, and
//! the systems' own libraries differ in the last bit.

use command::{GeoPosition, GeoShape, LATITUDE_MAX, LONGITUDE_MAX};

/// The halvings of each coordinate in a score.
pub(crate) const STEP_MAX: u32 = 26;

/// In metres: of the sphere whose great circles distances follow.
const EARTH_RADIUS: f64 = 6_372_797.560_856;

/// In metres: half of the equator on the map, the farthest that a cell of one halving reaches.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// One degree in radians.
const DEGREE: f64 = std::f64::consts::PI / 180.0;

/// The letters of geohash texts.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// The part of the earth that the grid covers: from minus to plus these degrees.
#[derive(Clone, Copy)]
struct Grid {
    longitude: f64,
    latitude: f64,
}

/// The grid of scores, which ends where a square map does.
const SCORES: Grid = Grid {
    longitude: LONGITUDE_MAX,
    latitude: LATITUDE_MAX,
};

/// The grid of geohash texts, which reaches to the poles.
const TEXTS: Grid = Grid {
    longitude: 180.0,
    latitude: 90.0,
};

/// A cell of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    /// Column from the west. It is one too far, `2^step`, for the grid's very end; so is the row.
    column: u32,
    /// Row from the south.
    row: u32,
    /// Halvings of each coordinate.
    step: u32,
}

/// What a cell covers, in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

/// The square of a value that is used twice.
fn square(value: f64) -> f64 {
    value * value
}

/// Puts a zero before each bit.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// Takes every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) as u32
}

impl Cell {
    /// The cell that `position` lies in.
    fn of(grid: Grid, position: GeoPosition, step: u32) -> Cell {
        let cells = f64::from(1u32 << step);
        let offset = |value: f64, max: f64| ((value + max) / (2.0 * max) * cells) as u32;
        Cell {
            column: offset(position.longitude, grid.longitude),
            row: offset(position.latitude, grid.latitude),
            step,
        }
    }

    /// The bits of both coordinates, the column's before the row's.
    fn bits(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    /// The scores of everything in the cell: from the first one to the one before the second.
    pub(crate) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }

    fn area(self, grid: Grid) -> Area {
        let cells = f64::from(1u32 << self.step);
        let edge = |index: u32, max: f64| -max + f64::from(index) / cells * (2.0 * max);
        Area {
            west: edge(self.column, grid.longitude),
            east: edge(self.column.wrapping_add(1), grid.longitude),
            south: edge(self.row, grid.latitude),
            north: edge(self.row.wrapping_add(1), grid.latitude),
        }
    }

    /// The cell so many columns to the east and rows to the north, around the grid's ends if need be.
    fn moved(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        let shifted = |index: u32, by: i32| match by {
            0 => index,
            _ => index.wrapping_add_signed(by) & mask,
        };
        Cell {
            column: shifted(self.column, east),
            row: shifted(self.row, north),
            step: self.step,
        }
    }
}

/// The score of a member at `position`.
pub(crate) fn score(position: GeoPosition) -> f64 {
    Cell::of(SCORES, position, STEP_MAX).bits() as f64
}

/// The position that a score stands for: the middle of its cell. Any sorted set can be asked, so any score has one.
pub(crate) fn position(score: f64) -> GeoPosition {
    let bits = bits_of(score);
    let cell = Cell {
        column: gather(bits >> 1),
        row: gather(bits),
        step: STEP_MAX,
    };
    let area = cell.area(SCORES);
    GeoPosition {
        longitude: ((area.west + area.east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
        latitude: ((area.south + area.north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
    }
}

/// A score as 64 bits, also one that no position has: those are taken as a processor converts them that stands under most
/// Redis servers. Negative ones wrap around, and what is too large is zero.
fn bits_of(score: f64) -> u64 {
    const HALF: f64 = (1u64 << 63) as f64;
    if score < HALF {
        score as i64 as u64
    } else if score < 2.0 * HALF {
        score as u64
    } else {
        0
    }
}

/// The geohash text of what a score stands for.
pub(crate) fn text(score: f64) -> [u8; 11] {
    let bits = Cell::of(TEXTS, position(score), STEP_MAX).bits();
    std::array::from_fn(|index| {
        // Ten letters take 50 bits of the 52; two are no letter, and the last one is always the first of the alphabet.
        let letter = match index {
            10 => 0,
            _ => bits >> (47 - 5 * index) & 31,
        };
        ALPHABET[letter as usize]
    })
}

/// The distance of two positions in metres, along a great circle.
pub(crate) fn distance(from: GeoPosition, to: GeoPosition) -> f64 {
    let half_sine = |a: f64, b: f64| libm::sin((b - a) / 2.0);
    let (south, north) = (from.latitude * DEGREE, to.latitude * DEGREE);
    let rows = half_sine(south, north);
    let columns = half_sine(from.longitude * DEGREE, to.longitude * DEGREE);
    let haversine = square(rows) + libm::cos(south) * libm::cos(north) * columns * columns;
    // Of two ends of the earth, rounding can make it more than 1, which no angle has. A distance is never NaN.
    2.0 * EARTH_RADIUS * libm::asin(haversine.sqrt().min(1.0))
}

/// An area of the earth: a middle and a shape in metres.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// The middle.
    pub(crate) center: GeoPosition,
    /// The shape, in metres.
    pub(crate) shape: GeoShape,
}

impl Region {
    /// How far `position` is from the middle, if it is inside.
    pub(crate) fn distance_inside(&self, position: GeoPosition) -> Option<f64> {
        match self.shape {
            GeoShape::Circle { radius } => {
                let found = distance(self.center, position);
                (found <= radius).then_some(found)
            }
            GeoShape::Box { width, height } => {
                let across = distance(
                    position,
                    GeoPosition {
                        longitude: self.center.longitude,
                        ..position
                    },
                );
                let along = distance(
                    position,
                    GeoPosition {
                        latitude: self.center.latitude,
                        ..position
                    },
                );
                (across <= width / 2.0 && along <= height / 2.0).then(|| distance(self.center, position))
            }
        }
    }

    /// The cells that hold everything inside, in the order in which they are searched.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell> {
        let reach = match self.shape {
            GeoShape::Circle { radius } => radius,
            GeoShape::Box { width, height } => (square(width / 2.0) + square(height / 2.0)).sqrt(),
        };
        let bounds = self.bounds();
        let mut middle = Cell::of(SCORES, self.center, step_for(reach, self.center.latitude));
        if middle.step > 1 && !bounds.are_within_neighbours_of(middle) {
            middle = Cell::of(SCORES, self.center, middle.step - 1);
        }
        // Large cells are so few that all are looked at. Of the others, those that lie behind a border of the middle one
        // that the area does not reach hold nothing.
        let area = middle.area(SCORES);
        let is_small = middle.step >= 2;
        let (skips_south, skips_north) = (
            is_small && area.south < bounds.south,
            is_small && area.north > bounds.north,
        );
        let (skips_west, skips_east) = (
            is_small && area.west < bounds.west,
            is_small && area.east > bounds.east,
        );
        const NEIGHBOURS: [(i32, i32); 9] = [
            (0, 0),
            (0, 1),
            (0, -1),
            (1, 0),
            (-1, 0),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ];
        let mut last = None;
        NEIGHBOURS.into_iter().filter_map(move |(east, north)| {
            let is_skipped = (north < 0 && skips_south)
                || (north > 0 && skips_north)
                || (east < 0 && skips_west)
                || (east > 0 && skips_east);
            let cell = middle.moved(east, north);
            // Where the grid has two columns, the neighbours to the east and to the west are one cell.
            if is_skipped || last == Some(cell) {
                return None;
            }
            last = Some(cell);
            Some(cell)
        })
    }

    /// A box of degrees around the area. It is wider than need be: as wide as on the side that is nearer to a pole.
    fn bounds(&self) -> Area {
        let (half_width, half_height) = match self.shape {
            GeoShape::Circle { radius } => (radius, radius),
            GeoShape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let GeoPosition { longitude, latitude } = self.center;
        let rows = half_height / EARTH_RADIUS / DEGREE;
        let edge = if latitude < 0.0 {
            latitude - rows
        } else {
            latitude + rows
        };
        let columns = half_width / EARTH_RADIUS / libm::cos(edge * DEGREE) / DEGREE;
        Area {
            west: longitude - columns,
            east: longitude + columns,
            south: latitude - rows,
            north: latitude + rows,
        }
    }
}

impl Area {
    /// Whether the neighbours of `cell` reach as far as this area.
    fn are_within_neighbours_of(&self, cell: Cell) -> bool {
        cell.moved(0, 1).area(SCORES).north >= self.north
            && cell.moved(0, -1).area(SCORES).south <= self.south
            && cell.moved(1, 0).area(SCORES).east >= self.east
            && cell.moved(-1, 0).area(SCORES).west <= self.west
    }
}

/// The halvings that leave a cell and its neighbours about as large as what is within `reach` metres.
fn step_for(reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEP_MAX;
    }
    let (mut reach, mut step) = (reach, 1i32);
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        step += 1;
    }
    // Two fewer, so that the area is inside even where the map stretches it; and towards the poles it does so more.
    step -= 2;
    if latitude.abs() > 66.0 {
        step -= 1;
    }
    if latitude.abs() > 80.0 {
        step -= 1;
    }
    step.clamp(1, STEP_MAX as i32).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    fn at(longitude: f64, latitude: f64) -> GeoPosition {
        GeoPosition { longitude, latitude }
    }

    fn between(prng: &mut Prng, min: f64, max: f64) -> f64 {
        min + (max - min) * (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn anywhere(prng: &mut Prng) -> GeoPosition {
        at(
            between(prng, -LONGITUDE_MAX, LONGITUDE_MAX),
            between(prng, -LATITUDE_MAX, LATITUDE_MAX),
        )
    }

    #[test]
    fn palermo_and_catania_are_where_redis_says() {
        let (palermo, catania) = (
            score(at(13.361_389, 38.115_556)),
            score(at(15.087_269, 37.502_669)),
        );
        assert_eq!(palermo, 3_479_099_956_230_698.0);
        assert_eq!(catania, 3_479_447_370_796_909.0);
        assert_eq!(&text(palermo), b"sqc8b49rny0");
        assert_eq!(&text(catania), b"sqdtr74hyu0");
        assert_eq!(
            format!("{:.17}", position(palermo).longitude),
            "13.36138933897018433"
        );
        assert_eq!(
            format!("{:.17}", position(palermo).latitude),
            "38.11555639549629859"
        );
        assert_eq!(
            format!("{:.4}", distance(position(palermo), position(catania))),
            "166274.1516"
        );
    }

    #[test]
    fn bits_that_are_spread_are_gathered_again() {
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            let (row, column) = (prng.next_u64() as u32, prng.next_u64() as u32);
            let bits = spread(row) | spread(column) << 1;
            assert_eq!((gather(bits), gather(bits >> 1)), (row, column));
        }
    }

    #[test]
    fn a_score_is_less_than_a_metre_off() {
        let mut prng = Prng::new(2);
        for _ in 0..10_000 {
            let exact = anywhere(&mut prng);
            let kept = position(score(exact));
            assert!(distance(exact, kept) < 0.6, "{exact:?} became {kept:?}");
            assert_eq!(score(kept), score(exact), "{exact:?}");
        }
    }

    #[test]
    fn any_score_is_some_position_on_the_map() {
        let scores = [
            0.0,
            -0.0,
            -1.0,
            0.5,
            1e15,
            1e16,
            1e19,
            1e300,
            -1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        for score in scores {
            let found = position(score);
            assert!(found.longitude.abs() <= LONGITUDE_MAX, "{score}");
            assert!(found.latitude.abs() <= LATITUDE_MAX, "{score}");
            assert!(
                text(score).iter().all(|letter| ALPHABET.contains(letter)),
                "{score}"
            );
        }
    }

    #[test]
    fn the_cells_around_an_area_hold_all_of_it() {
        let mut prng = Prng::new(3);
        let mut inside = 0;
        for _ in 0..4_000 {
            let center = anywhere(&mut prng);
            let length = |prng: &mut Prng| 10f64.powf(between(prng, -1.0, 6.5));
            let shape = if prng.below(2) == 0 {
                GeoShape::Circle {
                    radius: length(&mut prng),
                }
            } else {
                GeoShape::Box {
                    width: length(&mut prng),
                    height: length(&mut prng),
                }
            };
            let region = Region { center, shape };
            let cells: Vec<_> = region.cells().map(Cell::scores).collect();
            for _ in 0..50 {
                let reach = 10f64.powf(between(&mut prng, -6.0, 1.5));
                let near = at(
                    (center.longitude + between(&mut prng, -reach, reach)).clamp(-180.0, 179.999_999),
                    (center.latitude + between(&mut prng, -reach, reach)).clamp(-85.05, 85.05),
                );
                let kept = score(near);
                if region.distance_inside(position(kept)).is_some() {
                    inside += 1;
                    let holding = cells.iter().filter(|(from, to)| (*from..*to).contains(&kept));
                    assert_eq!(holding.count(), 1, "{near:?} of {region:?}");
                }
            }
        }
        assert!(inside > 20_000, "only {inside} positions were inside");
    }

    #[test]
    fn lengths_without_end_reach_everywhere() {
        let everywhere = [
            GeoShape::Circle {
                radius: f64::INFINITY,
            },
            GeoShape::Circle { radius: f64::MAX },
            GeoShape::Box {
                width: f64::INFINITY,
                height: f64::INFINITY,
            },
        ];
        for shape in everywhere {
            let region = Region {
                center: at(13.4, 52.5),
                shape,
            };
            let scores: f64 = region
                .cells()
                .map(|cell| cell.scores())
                .map(|(from, to)| to - from)
                .sum();
            assert_eq!(scores, (1u64 << 52) as f64);
            assert!(region.distance_inside(at(-166.6, -52.5)).is_some());
        }
    }

    #[test]
    fn an_area_of_a_point_is_one_small_neighbourhood() {
        let region = Region {
            center: at(13.4, 52.5),
            shape: GeoShape::Circle { radius: 0.0 },
        };
        let own = position(score(region.center));
        assert!(
            region
                .cells()
                .all(|cell| cell.step == STEP_MAX || cell.step == STEP_MAX - 1)
        );
        assert_eq!(
            Region {
                center: own,
                ..region
            }
            .distance_inside(own),
            Some(0.0)
        );
    }
}
