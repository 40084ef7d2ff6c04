//! How much work a command would be, before anybody carries it out.
//!
//! A command that walks over a million elements holds its worker up, and the gateway carries it out elsewhere. Whether it
//! does is asked here: of the words and the state, in logarithmic time. `ZRANGEBYSCORE key 0 10 LIMIT 0 1` on a million
//! members is little, and `SINTER` of a small set and a huge one is as little as the small one.
//!
//! The answers are estimates: in *steps*, each about what it takes to find one element and to write it into a reply, some
//! fifty to a hundred nanoseconds. They are for the leader alone, and nothing that replicas must agree on follows from
//! them.

use crate::Keyspace;
use crate::geo;
use crate::list::resolve_range;
use crate::object::{Kind, Object};
use crate::segment::OBJECTS_MAX;
use crate::slot_word::ObjectRef;
use crate::sorted_set::View;
use crate::stream::stream_of;
use command::{
    BitUnit, BlockingPop, Combination, Command, GeoCommand, HashCommand, ListCommand, RangeQuery, SetCommand,
    SetOperation, SetReply, SortedSetCommand, StreamCommand, StreamRead, bitfield_operations,
};
use ids::Db;
use resp::Args;

/// Bytes that are copied in the time of one step.
const STEP_BYTES: usize = 256;
/// Bytes of an element of a payload, as a guess that is no large one.
const RESTORED_BYTES: usize = 8;
/// Bytes that are unpacked in the time of one step.
const UNPACKED_BYTES: usize = 32;
/// Steps to look a member up where it need not be next to the last one.
const LOOKUP: usize = 2;
/// Steps to add an element to a table or tree, or to remove it.
const CHANGE: usize = 8;
/// Steps of one element of a sort.
const SORT: usize = 8;
/// Steps of copying one element with everything around it.
const COPY: usize = 4;
/// Pairs of bytes that are compared in the time of one step.
const COMPARED: usize = 32;
/// Elements that are passed over in the time of one step.
const PASSED: usize = 64;
/// Elements of a list that leave in whole nodes in the time of one step.
const CUT: usize = 16;

impl Keyspace {
    /// Steps of a walk over all that the collection under `key` holds; 0 if there is none.
    pub fn size(&self, db: Db, key: &[u8]) -> usize {
        self.living(db, key).map_or(0, |object| size(&object))
    }

    fn living(&self, db: Db, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.database(db).find(self.locate(key), key)
    }
}

/// Steps of a command whose spec says [`command::Cost::Part`]. `keyspace_of` finds the keyspace in which a key lies.
pub fn cost<'k>(command: &Command<'_>, db: Db, keyspace_of: &dyn Fn(&[u8]) -> Option<&'k Keyspace>) -> usize {
    let values = Values { db, keyspace_of };
    match command {
        Command::List(command) => values.list(command),
        Command::Members(command) => values.members(command),
        Command::Hash(command) => values.hash(command),
        Command::SortedSet(command) => values.sorted_set(command),
        Command::Stream(command) => values.stream(command),
        Command::Geo(GeoCommand::Search { key, search, .. }) => {
            values.scored(key, |view| geo::cost(view, search)) * LOOKUP
        }
        Command::Geo(GeoCommand::Store { source, search, .. }) => {
            values.scored(source, |view| geo::cost(view, search)) * CHANGE
        }
        Command::Sort(command) => values.size(command.key) * SORT,
        Command::Copy { from, .. } => values.size(from) * COPY,
        Command::Dump { key } => values.size(key) * COPY,
        // How many elements it has nobody knows before they are read; a string has one.
        Command::Restore { payload, .. } => match (rdb::unpacked_bytes(payload), payload.first()) {
            (bytes, Some(0)) => bytes / UNPACKED_BYTES,
            (bytes, _) => bytes / RESTORED_BYTES * CHANGE,
        },
        Command::Lcs { left, right, .. } => values.text(left).saturating_mul(values.text(right)) / COMPARED,
        Command::Blocking(command) => match command.pop {
            BlockingPop::Many { keys, count, .. } => values.first_of(keys, count, 1),
            BlockingPop::ManyScored { keys, count, .. } => values.first_of(keys, count, CHANGE),
            BlockingPop::Streams(ref read) => values.streams_read(read),
            BlockingPop::One { .. } | BlockingPop::Move { .. } | BlockingPop::OneScored { .. } => 0,
        },
        _ => 0,
    }
}

/// Bytes of strings that a command copies, or fills with zeros in front of what it writes: what [`cost`] leaves out. Clients wait for
/// these where they asked for them; a script may ask for many. Bits are counted so fast that sixteen bytes are one.
pub fn string_bytes<'k>(
    command: &Command<'_>,
    db: Db,
    keyspace_of: &dyn Fn(&[u8]) -> Option<&'k Keyspace>,
) -> usize {
    /// Bytes whose bits are counted in the time in which one is copied.
    const COUNTED: usize = 16;
    let values = Values { db, keyspace_of };
    match *command {
        Command::Get { key }
        | Command::GetEx { key, .. }
        | Command::GetDel { key }
        | Command::Set {
            key,
            reply: SetReply::Old,
            ..
        }
        | Command::Copy { from: key, .. } => values.text(key),
        Command::GetRange { key, start, end } => {
            let (_, len) = resolve_range(start, end, values.text(key));
            len
        }
        Command::MGet { keys } => keys.iter().map(|key| values.text(key)).sum(),
        Command::BitCount { key, range } => {
            let range = range.map_or((0, -1, BitUnit::Byte), |range| {
                (range.start, range.end, range.unit)
            });
            counted(values.text(key), range) / COUNTED
        }
        Command::BitPos {
            key,
            start,
            end,
            unit,
            ..
        } => counted(values.text(key), (start.unwrap_or(0), end.unwrap_or(-1), unit)) / COUNTED,
        Command::BitOp { sources, .. } => sources.iter().map(|key| values.text(key)).sum(),
        Command::SetRange { key, .. } | Command::SetBit { key, .. } | Command::BitField { key, .. } => {
            zero_bytes(command).saturating_sub(values.text(key))
        }
        _ => 0,
    }
}

/// Bytes of a string of `len` that a range lies in.
fn counted(len: usize, (start, end, unit): (i64, i64, BitUnit)) -> usize {
    match unit {
        BitUnit::Byte => resolve_range(start, end, len).1,
        BitUnit::Bit => resolve_range(start, end, len.saturating_mul(8)).1.div_ceil(8),
    }
}

/// Bytes that a command may fill with zeros in front of what it writes, if there are none yet.
pub fn zero_bytes(command: &Command<'_>) -> usize {
    let bytes = match *command {
        Command::SetRange { offset, value, .. } if !value.is_empty() => offset,
        Command::SetBit { offset, .. } => offset / 8,
        Command::BitField {
            operations,
            writes: true,
            ..
        } => {
            let offsets = bitfield_operations(operations).map(|field| field.offset / 8);
            offsets.max().unwrap_or(0)
        }
        _ => 0,
    };
    to_count(bytes)
}

/// Steps of a walk over an object's elements, or, if they are large, over their bytes.
fn size(object: &Object) -> usize {
    match object.kind() {
        Kind::String => 0,
        _ => object.value().len().max(object.memory() / STEP_BYTES),
    }
}

/// Steps of a walk over so many of an object's elements.
fn share(object: &Object, count: usize) -> usize {
    match object.kind() {
        Kind::String => 0,
        _ => {
            let len = object.value().len();
            count.min(len).saturating_mul(size(object) / len.max(1))
        }
    }
}

/// Steps of picking so many of an object's elements at random.
fn picked(object: &Object, count: usize) -> usize {
    let len = match object.kind() {
        Kind::String => return 0,
        _ => object.value().len(),
    };
    if count >= len {
        return size(object);
    }
    // Each pick looks through half a segment, on average.
    let passed = count.saturating_mul(OBJECTS_MAX / 2).min(len) / PASSED;
    share(object, count).saturating_mul(LOOKUP).saturating_add(passed)
}

fn to_count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The values that a command names.
struct Values<'a, 'k> {
    db: Db,
    keyspace_of: &'a dyn Fn(&[u8]) -> Option<&'k Keyspace>,
}

impl<'k> Values<'_, 'k> {
    fn find(&self, key: &[u8]) -> Option<ObjectRef<'k>> {
        (self.keyspace_of)(key)?.living(self.db, key)
    }

    fn with(&self, key: &[u8], steps: impl FnOnce(&Object) -> usize) -> usize {
        self.find(key).map_or(0, |object| steps(&object))
    }

    fn size(&self, key: &[u8]) -> usize {
        self.with(key, size)
    }

    /// Bytes of a string.
    fn text(&self, key: &[u8]) -> usize {
        self.with(key, |object| match object.kind() {
            Kind::String => object.value().len(),
            _ => 0,
        })
    }

    fn scored(&self, key: &[u8], steps: impl FnOnce(View<'_>) -> usize) -> usize {
        self.with(key, |object| match object.kind() {
            Kind::SortedSet => steps(View::of(object)),
            _ => 0,
        })
    }

    /// So many of whichever comes first.
    fn first_of(&self, keys: Args<'_>, count: u64, each: usize) -> usize {
        let one = |key| self.with(key, |object| share(object, to_count(count)));
        keys.iter().map(one).max().unwrap_or(0).saturating_mul(each)
    }

    /// So many picks; with a negative count, any number of them from whatever there is.
    fn random(&self, key: &[u8], count: Option<i64>) -> usize {
        let count = count.unwrap_or(0);
        let picks = to_count(count.unsigned_abs());
        self.with(key, |object| {
            if count < 0 {
                let each = size(object) / object.value().len().max(1);
                picks.saturating_mul(each.max(1)).saturating_mul(LOOKUP)
            } else {
                picked(object, picks)
            }
        })
    }

    fn list(&self, command: &ListCommand<'_>) -> usize {
        match *command {
            ListCommand::Pop { key, count, .. } => {
                self.with(key, |object| share(object, to_count(count.unwrap_or(1))))
            }
            ListCommand::PopFirst { keys, count, .. } => self.first_of(keys, count, 1),
            ListCommand::Range { key, start, stop } => self.with(key, |object| {
                share(object, resolve_range(start, stop, object.value().len()).1)
            }),
            ListCommand::Trim { key, start, stop } => self.with(key, |object| {
                let len = object.value().len();
                (len - resolve_range(start, stop, len).1) / CUT
            }),
            ListCommand::Position { key, search, .. } => self.with(key, |object| match search.length_max {
                0 => size(object),
                most => share(object, to_count(most)),
            }),
            _ => 0,
        }
    }

    fn members(&self, command: &SetCommand<'_>) -> usize {
        match *command {
            SetCommand::Pop { key, count } => self.with(key, |object| {
                let count = to_count(count.unwrap_or(1));
                if count >= object.value().len() {
                    size(object)
                } else {
                    picked(object, count).saturating_mul(CHANGE / LOOKUP)
                }
            }),
            SetCommand::RandomMember { key, count } => self.random(key, count),
            SetCommand::Combine { operation, keys } => self.combined(operation, keys, 0),
            SetCommand::CombineStore { operation, keys, .. } => self.combined(operation, keys, CHANGE),
            SetCommand::InterCard { keys, .. } => self.combined(SetOperation::Intersection, keys, 0),
            SetCommand::Scan { key, options, .. } => {
                self.with(key, |object| share(object, to_count(options.count)))
            }
            _ => 0,
        }
    }

    /// Steps of a combination of sets, with so many more for each element of the result.
    fn combined(&self, operation: SetOperation, keys: Args<'_>, more: usize) -> usize {
        let sizes = keys.iter().map(|key| self.size(key));
        match operation {
            SetOperation::Union => sizes.sum::<usize>() * (COPY + more),
            SetOperation::Intersection => sizes.min().unwrap_or(0) * (keys.len() * LOOKUP + more),
            SetOperation::Difference => {
                let mut sizes = sizes;
                sizes.next().unwrap_or(0) * (keys.len() * LOOKUP + more)
            }
        }
    }

    fn hash(&self, command: &HashCommand<'_>) -> usize {
        match *command {
            HashCommand::RandField { key, count, .. } => self.random(key, count),
            HashCommand::Scan { key, options, .. } => {
                self.with(key, |object| share(object, to_count(options.count)))
            }
            _ => 0,
        }
    }

    fn sorted_set(&self, command: &SortedSetCommand<'_>) -> usize {
        let query = |key, query: &RangeQuery<'_>| {
            // A small one is not worth the question.
            self.scored(key, |view| match view {
                View::Listpack(_) => view.len(),
                View::Large(_) => view.query(query).len(),
            })
        };
        match *command {
            SortedSetCommand::Range {
                key,
                query: ref range,
                ..
            } => query(key, range) * LOOKUP,
            SortedSetCommand::RangeStore {
                source,
                query: ref range,
                ..
            } => query(source, range) * (CHANGE + COPY),
            SortedSetCommand::RemoveRange { key, section } => {
                let len = self.scored(key, |view| match view {
                    View::Listpack(_) => view.len(),
                    View::Large(_) => view.section(section, false).len(),
                });
                len * CHANGE
            }
            SortedSetCommand::Pop { key, count, .. } => {
                let count = to_count(count.unwrap_or(1));
                self.with(key, |object| share(object, count)) * CHANGE
            }
            SortedSetCommand::PopFirst { keys, count, .. } => self.first_of(keys, count, CHANGE),
            SortedSetCommand::Combine { combination, .. } => self.scores_combined(&combination, SORT),
            SortedSetCommand::CombineStore { combination, .. } => {
                self.scores_combined(&combination, SORT + CHANGE)
            }
            SortedSetCommand::IntersectionCard { keys, .. } => {
                self.combined(SetOperation::Intersection, keys, 0)
            }
            SortedSetCommand::RandomMember { key, count, .. } => self.random(key, count),
            SortedSetCommand::Scan { key, options, .. } => {
                self.with(key, |object| share(object, to_count(options.count)))
            }
            _ => 0,
        }
    }

    fn stream(&self, command: &StreamCommand<'_>) -> usize {
        let of_all = |key| self.with(key, size);
        let of_some = |key, count: Option<u64>| match count {
            Some(count) => self.with(key, |object| share(object, to_count(count))),
            None => of_all(key),
        };
        match *command {
            StreamCommand::Range { key, count, .. } => of_some(key, count),
            StreamCommand::Read(ref read) => self.streams_read(read),
            // They go in blocks.
            StreamCommand::Trim { key, .. } => of_all(key) / CUT,
            StreamCommand::FullInfo { key, count } => of_some(key, Some(count).filter(|count| *count > 0)),
            StreamCommand::PendingRange { key, group, .. } => self.pending(key, group),
            StreamCommand::AutoClaim { claimant, count, .. } => self
                .pending(claimant.key, claimant.group)
                .min(to_count(count).saturating_mul(CHANGE)),
            StreamCommand::DeleteConsumer { key, group, .. } => self.pending(key, group) * LOOKUP,
            _ => 0,
        }
    }

    /// Steps of a walk over what is pending in a group.
    fn pending(&self, key: &[u8], group: &[u8]) -> usize {
        self.with(key, |object| match object.kind() {
            Kind::Stream => stream_of(object)
                .group(group)
                .map_or(0, |group| group.pending_len()),
            _ => 0,
        })
    }

    /// Steps of reading what stands behind the ids.
    fn streams_read(&self, read: &StreamRead<'_>) -> usize {
        let most = read.count.map_or(usize::MAX, to_count);
        let of = |(key, from)| {
            self.with(key, |object| match object.kind() {
                Kind::Stream => {
                    let count =
                        stream_of(object).count_to_read(from, read.group.map(|group| group.group), most);
                    let each = if read.group.is_some() { CHANGE } else { 1 };
                    share(object, count) * each
                }
                _ => 0,
            })
        };
        read.streams().map(of).sum()
    }

    fn scores_combined(&self, combination: &Combination<'_>, more: usize) -> usize {
        self.combined(combination.operation, combination.keys, more)
    }
}
