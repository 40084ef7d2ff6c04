//! Sorted sets.
//!
//! A small one is a listpack of members, each followed by its score, in the order of the scores
//! ([`check_listpack`] says what it promises); a large one is a [`SortedSet`]. Reads see both as a [`View`].

mod combine;
mod compact;
mod tree;
mod view;

pub(crate) use compact::check_listpack;
pub(crate) use tree::SortedSet;
pub(crate) use view::View;

use crate::apply::{Apply, Edit};
use crate::directory::Position;
use crate::events::EventClasses;
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Element, Listpack};
use crate::object::{Kind, Object};
use crate::read::{Reader, write_scan};
use crate::sample::{are_too_many_picks, sample};
use crate::value::Digits;
use command::{
    AddOptions, RangeQuery, ReplyError, ScanOptions, SortedRange, SortedSetCommand, SortedSetEnd, score,
};
use compact::{fits_listpack, insert_listpack, place};
use ids::{HashSeed, Version};
use resp::{Args, Protocol, ReplyWriter};
use std::ops::Range;

/// A member with its score.
type Scored = (Vec<u8>, f64);

// Both forms, to change.

fn large_mut(object: &mut Object) -> Option<&mut SortedSet> {
    match object.large_mut()? {
        Large::SortedSet(large) => Some(large),
        other => unreachable!("the kind was checked: {other:?} is no sorted set"),
    }
}

/// Adds a member that is not there, or gives one that is there (`is_there`) another score.
fn put(edit: &mut Edit<'_>, member: &[u8], score: f64, is_there: bool) {
    if let View::Listpack(listpack) = View::of(edit.object) {
        let stays = is_there
            || (fits_listpack(&edit.limits, listpack.len() / 2 + 1)
                && member.len() <= edit.limits.sorted_set_value_bytes as usize);
        if !stays {
            let large = grown(View::Listpack(listpack), edit.seed);
            edit.object.set_large(Large::SortedSet(large));
        }
    }
    match large_mut(edit.object) {
        Some(large) if is_there => large.set_score(member, score),
        Some(large) => {
            large.insert(member, score);
        }
        None => {
            if is_there {
                take(edit, member);
            }
            let at = place(Listpack::new(listpack::Buffer::bytes(edit.object)), score, member);
            insert_listpack(edit.object, at, member, score);
        }
    }
}

/// The large form of a sorted set.
fn grown(view: View<'_>, seed: HashSeed) -> SortedSet {
    let mut large = SortedSet::new(seed);
    let mut digits = Digits::default();
    for (member, score) in view.members(0..view.len()) {
        large.insert(member.text(&mut digits), score);
    }
    large
}

/// Removes a member; whether it was there.
fn take(edit: &mut Edit<'_>, member: &[u8]) -> bool {
    if let Some(large) = large_mut(edit.object) {
        return large.remove(member).is_some();
    }
    let found = Listpack::new(listpack::Buffer::bytes(edit.object)).find(member, 2);
    if let Some(at) = found {
        listpack::remove(edit.object, at, 2);
    }
    found.is_some()
}

/// Removes the members of these ranks, which there are.
fn take_ranks(edit: &mut Edit<'_>, ranks: Range<usize>) {
    if let Some(large) = large_mut(edit.object) {
        for _ in ranks.clone() {
            large.remove_at(ranks.start);
        }
        return;
    }
    let listpack = Listpack::new(listpack::Buffer::bytes(edit.object));
    let at = listpack.offset_of(2 * ranks.start);
    let at = at.expect("no rank is beyond the length");
    listpack::remove(edit.object, at, 2 * ranks.len());
}

/// Puts members in the order of a sorted set.
pub(crate) fn sort(members: &mut [Scored]) {
    members.sort_unstable_by(|left, right| tree::compare((left.1, &left.0), (right.1, &right.0)));
}

/// The object of a result: these members, in order and none twice.
pub(crate) fn object_of(
    key: &[u8],
    members: &[Scored],
    limits: &EncodingLimits,
    seed: HashSeed,
    version: Version,
) -> Object {
    let longest = members.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    if fits_listpack(limits, members.len()) && longest <= limits.sorted_set_value_bytes as usize {
        let mut bytes = listpack::EMPTY.to_vec();
        for (member, score) in members {
            let end = bytes.len();
            insert_listpack(&mut bytes, end, member, *score);
        }
        return Object::with_listpack(Kind::SortedSet, key, &bytes, None, version);
    }
    let mut large = SortedSet::with_room(seed, members.len());
    for (member, score) in members {
        large.insert(member, *score);
    }
    Object::large(key, Large::SortedSet(large), None, version)
}

// Adding.

/// What adding did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Added {
    /// Members that were not there.
    pub(crate) new: usize,
    /// Members that got another score.
    pub(crate) changed: usize,
    /// The score of the last member, unless the options kept it from being looked at.
    pub(crate) score: Option<f64>,
}

/// Adds one pair, as far as the options let it.
fn add_pair(
    edit: &mut Edit<'_>,
    options: AddOptions,
    member: &[u8],
    score: f64,
    added: &mut Added,
) -> Result<(), ReplyError> {
    let Some(before) = View::of(edit.object).score_of(member) else {
        if !options.if_present {
            put(edit, member, score, false);
            added.new += 1;
            added.score = Some(score);
        }
        return Ok(());
    };
    if options.if_absent {
        return Ok(());
    }
    let after = if options.adds_up { before + score } else { score };
    if after.is_nan() {
        return Err(ReplyError::ScoreNotANumber);
    }
    if (options.if_greater && after <= before) || (options.if_less && after >= before) {
        return Ok(());
    }
    added.score = Some(after);
    if after != before {
        put(edit, member, after, true);
        added.changed += 1;
    }
    Ok(())
}

// Replies.

/// The start of a reply of members, or of members with their scores: in RESP2 all in one array, in RESP3 an array of
/// pairs.
fn write_count(out: &mut ReplyWriter<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && out.protocol() == Protocol::Resp2;
    out.array(if flat { 2 * count } else { count });
}

fn write_member(out: &mut ReplyWriter<'_>, member: Element<'_>, score: f64, with_score: bool) {
    if with_score && out.protocol() == Protocol::Resp3 {
        out.array(2);
    }
    member.write(out);
    if with_score {
        out.double(score);
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        let result = match *command {
            SortedSetCommand::Add { key, options, pairs } => self.z_add(key, options, pairs),
            SortedSetCommand::Remove { key, members } => self.z_remove(key, members),
            SortedSetCommand::RangeStore {
                destination,
                source,
                query,
            } => self.z_range_store(destination, source, &query),
            SortedSetCommand::RemoveRange { key, section } => self.z_remove_range(key, section),
            SortedSetCommand::Pop { key, end, count } => self.z_pop(key, end, count),
            SortedSetCommand::PopFirst { keys, end, count } => self.z_pop_first(keys, end, count),
            SortedSetCommand::CombineStore {
                destination,
                combination,
            } => self.z_combine_store(destination, &combination),
            SortedSetCommand::Card { .. }
            | SortedSetCommand::Score { .. }
            | SortedSetCommand::Scores { .. }
            | SortedSetCommand::Rank { .. }
            | SortedSetCommand::Count { .. }
            | SortedSetCommand::Range { .. }
            | SortedSetCommand::Combine { .. }
            | SortedSetCommand::IntersectionCard { .. }
            | SortedSetCommand::RandomMember { .. }
            | SortedSetCommand::Scan { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn z_add(&mut self, key: &[u8], options: AddOptions, pairs: Args<'_>) -> Result<(), ReplyError> {
        let scores = pairs.iter().step_by(2).map(score);
        let members = pairs.iter().skip(1).step_by(2);
        let pairs = scores
            .zip(members)
            .map(|(score, member)| (member, score.expect("the parser read every score")));
        let added = self.add_scores(key, options, pairs)?;
        match added.score {
            Some(score) if options.adds_up => self.out.double(score),
            None if options.adds_up => self.out.null(),
            _ if options.counts_changes => self.out.integer((added.new + added.changed) as i64),
            _ => self.out.integer(added.new as i64),
        }
        Ok(())
    }

    /// Adds members with their scores to the sorted set of `key`. No score is NaN.
    pub(crate) fn add_scores<'a>(
        &mut self,
        key: &[u8],
        options: AddOptions,
        pairs: impl Iterator<Item = (&'a [u8], f64)>,
    ) -> Result<Added, ReplyError> {
        let result = self.edit(Kind::SortedSet, key, !options.if_present, |edit| {
            let mut added = Added::default();
            for (member, score) in pairs {
                add_pair(edit, options, member, score, &mut added)?;
            }
            if added.new + added.changed > 0 {
                edit.mark();
            }
            Ok::<_, ReplyError>(added)
        })?;
        let added = result.transpose()?.unwrap_or_default();
        if added.new + added.changed > 0 {
            let name = if options.adds_up { "zincr" } else { "zadd" };
            self.event(EventClasses::SORTED_SET, name, key);
        }
        Ok(added)
    }

    fn z_remove(&mut self, key: &[u8], members: Args<'_>) -> Result<(), ReplyError> {
        let removed = self.take_members(key, "zrem", |edit| {
            members.iter().filter(|member| take(edit, member)).count()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    fn z_remove_range(&mut self, key: &[u8], section: SortedRange<'_>) -> Result<(), ReplyError> {
        let name = match section {
            SortedRange::Ranks { .. } => "zremrangebyrank",
            SortedRange::Scores { .. } => "zremrangebyscore",
            SortedRange::Members { .. } => "zremrangebylex",
        };
        let removed = self.take_members(key, name, |edit| {
            let ranks = View::of(edit.object).section(section, false);
            take_ranks(edit, ranks.clone());
            ranks.len()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    /// Lets `take` remove members of `key`, which says how many it did, and notes it under this name.
    fn take_members(
        &mut self,
        key: &[u8],
        name: &'static str,
        take: impl FnOnce(&mut Edit<'_>) -> usize,
    ) -> Result<usize, ReplyError> {
        self.remove_elements(Kind::SortedSet, key, (EventClasses::SORTED_SET, name), take)
    }

    fn z_pop(&mut self, key: &[u8], end: SortedSetEnd, count: Option<u64>) -> Result<(), ReplyError> {
        let popped = self.pop_scores(key, end, count.unwrap_or(1))?.unwrap_or_default();
        if count.is_some() {
            write_count(self.out, popped.len(), true);
        } else {
            self.out.array(2 * popped.len());
        }
        for (member, score) in &popped {
            if count.is_some() && self.out.protocol() == Protocol::Resp3 {
                self.out.array(2);
            }
            self.out.bulk(member);
            self.out.double(*score);
        }
        Ok(())
    }

    fn z_pop_first(&mut self, keys: Args<'_>, end: SortedSetEnd, count: u64) -> Result<(), ReplyError> {
        for key in keys.iter() {
            if let Some(popped) = self.pop_scores(key, end, count)? {
                self.write_popped(key, &popped);
                return Ok(());
            }
        }
        self.out.null_array();
        Ok(())
    }

    /// What `ZMPOP` answers if it found something under `key`.
    pub(crate) fn write_popped(&mut self, key: &[u8], popped: &[Scored]) {
        self.out.array(2);
        self.out.bulk(key);
        self.out.array(popped.len());
        for (member, score) in popped {
            self.out.array(2);
            self.out.bulk(member);
            self.out.double(*score);
        }
    }

    /// Removes up to `count` members from one end of the sorted set of `key` and returns them, the outermost first;
    /// `None` if there is no such key.
    pub(crate) fn pop_scores(
        &mut self,
        key: &[u8],
        end: SortedSetEnd,
        count: u64,
    ) -> Result<Option<Vec<Scored>>, ReplyError> {
        let mut popped = None;
        let name = match end {
            SortedSetEnd::Min => "zpopmin",
            SortedSetEnd::Max => "zpopmax",
        };
        self.take_members(key, name, |edit| {
            let view = View::of(edit.object);
            let len = view.len();
            let count = usize::try_from(count).unwrap_or(len).min(len);
            let owned = |(member, score): (Element<'_>, f64)| (member.to_vec(), score);
            let (ranks, members) = match end {
                SortedSetEnd::Min => (0..count, view.members(0..count).map(owned).collect()),
                SortedSetEnd::Max => {
                    let ranks = len - count..len;
                    (ranks.clone(), view.members(ranks).rev().map(owned).collect())
                }
            };
            popped = Some(members);
            take_ranks(edit, ranks);
            count
        })?;
        Ok(popped)
    }

    fn z_range_store(
        &mut self,
        destination: &[u8],
        source: &[u8],
        query: &RangeQuery<'_>,
    ) -> Result<(), ReplyError> {
        let members = match self.peek(Kind::SortedSet, source)? {
            None => Vec::new(),
            Some(object) => {
                let view = View::of(&object);
                view.members(view.query(query))
                    .map(|(member, score)| (member.to_vec(), score))
                    .collect()
            }
        };
        self.store_scores(destination, &members, "zrangestore");
        Ok(())
    }

    /// Stores a result, in order, under `key`, notes it under this name, and answers how many members it has. If it has
    /// none, the key is deleted.
    pub(crate) fn store_scores(&mut self, key: &[u8], members: &[Scored], name: &'static str) {
        let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
        let version = self.version();
        let result = (!members.is_empty()).then(|| object_of(key, members, &limits, seed, version));
        self.store_result(key, result, (EventClasses::SORTED_SET, name));
        self.out.integer(members.len() as i64);
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        match *command {
            SortedSetCommand::Card { key } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.integer(0)) {
                    self.out.integer(object.value().len() as i64);
                }
            }
            SortedSetCommand::Score { key, member } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.null()) {
                    self.write_score(View::of(&object).score_of(member));
                }
            }
            SortedSetCommand::Scores { key, members } => self.z_scores(key, members),
            SortedSetCommand::Rank {
                key,
                member,
                reverse,
                with_score,
            } => self.z_rank(key, member, reverse, with_score),
            SortedSetCommand::Count { key, section } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.integer(0)) {
                    let ranks = View::of(&object).section(section, false);
                    self.out.integer(ranks.len() as i64);
                }
            }
            SortedSetCommand::Range {
                key,
                query,
                with_scores,
            } => self.z_range(key, &query, with_scores),
            SortedSetCommand::Combine {
                combination,
                with_scores,
            } => self.z_combine(&combination, with_scores),
            SortedSetCommand::IntersectionCard { keys, limit } => self.z_intersection_card(keys, limit),
            SortedSetCommand::RandomMember {
                key,
                count,
                with_scores,
            } => self.z_random_member(key, count, with_scores),
            SortedSetCommand::Scan { key, cursor, options } => self.z_scan(key, cursor, options),
            SortedSetCommand::Add { .. }
            | SortedSetCommand::Remove { .. }
            | SortedSetCommand::RangeStore { .. }
            | SortedSetCommand::RemoveRange { .. }
            | SortedSetCommand::Pop { .. }
            | SortedSetCommand::PopFirst { .. }
            | SortedSetCommand::CombineStore { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    fn write_score(&mut self, score: Option<f64>) {
        match score {
            Some(score) => self.out.double(score),
            None => self.out.null(),
        }
    }

    fn z_scores(&mut self, key: &[u8], members: Args<'_>) {
        let found = match self.lookup_kind(key, Kind::SortedSet) {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        self.out.array(members.len());
        for member in members.iter() {
            self.write_score(
                found
                    .as_deref()
                    .and_then(|object| View::of(object).score_of(member)),
            );
        }
    }

    fn z_rank(&mut self, key: &[u8], member: &[u8], reverse: bool, with_score: bool) {
        let absent = |out: &mut ReplyWriter<'_>| {
            if with_score {
                out.null_array();
            } else {
                out.null();
            }
        };
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let view = View::of(&object);
        let Some((rank, score)) = view.rank(member).zip(view.score_of(member)) else {
            return absent(self.out);
        };
        let rank = if reverse { view.len() - 1 - rank } else { rank };
        if with_score {
            self.out.array(2);
        }
        self.out.integer(rank as i64);
        if with_score {
            self.out.double(score);
        }
    }

    fn z_range(&mut self, key: &[u8], query: &RangeQuery<'_>, with_scores: bool) {
        let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.array(0)) else {
            return;
        };
        let view = View::of(&object);
        let ranks = view.query(query);
        write_count(self.out, ranks.len(), with_scores);
        let mut members = view.members(ranks);
        let mut next = || {
            if query.reverse {
                members.next_back()
            } else {
                members.next()
            }
        };
        while let Some((member, score)) = next() {
            write_member(self.out, member, score, with_scores);
        }
    }

    fn z_random_member(&mut self, key: &[u8], count: Option<i64>, with_scores: bool) {
        let absent = |out: &mut ReplyWriter<'_>| match count {
            Some(_) => out.array(0),
            None => out.null(),
        };
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let picker = Picker::new(View::of(&object));
        let prng = &mut self.local.prng;
        match count {
            None => {
                let (member, _) = picker.at(prng.below(picker.len as u64) as usize);
                member.write(self.out);
            }
            Some(count @ 0..) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(picker.len);
                let ranks = sample(prng, picker.len, count);
                write_count(self.out, count, with_scores);
                for rank in ranks {
                    let (member, score) = picker.at(rank);
                    write_member(self.out, member, score, with_scores);
                }
            }
            Some(count) => {
                if are_too_many_picks(&object, count.unsigned_abs()) {
                    return ReplyError::OutOfRange.write(self.out);
                }
                let count = count.unsigned_abs() as usize;
                write_count(self.out, count, with_scores);
                for _ in 0..count {
                    let (member, score) = picker.at(prng.below(picker.len as u64) as usize);
                    write_member(self.out, member, score, with_scores);
                }
            }
        }
    }

    fn z_scan(&mut self, key: &[u8], cursor: u64, options: ScanOptions<'_>) {
        let absent = |out: &mut ReplyWriter<'_>| write_scan(out, None, 0, &[]);
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let filter = options.filter();
        let (mut count, mut found) = (0, Vec::new());
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        let mut visit = |member: &[u8], score| {
            if filter.matches(member) {
                writer.bulk(member);
                writer.bulk_double(score);
                count += 2;
            }
        };
        let next = match View::of(&object) {
            // A small one is answered as a whole, whatever the cursor: that is within any bound.
            view @ View::Listpack(_) => {
                let mut digits = Digits::default();
                view.members(0..view.len())
                    .for_each(|(member, score)| visit(member.text(&mut digits), score));
                None
            }
            View::Large(large) => {
                let Some(from) = Position::new(cursor) else {
                    return ReplyError::InvalidCursor.write(self.out);
                };
                large.walk(from, options.count, visit)
            }
        };
        write_scan(self.out, next, count, &found);
    }
}

/// Members by rank, any number of times.
struct Picker<'a> {
    len: usize,
    /// All members of a small sorted set, which would otherwise be walked through again and again.
    small: Vec<(Element<'a>, f64)>,
    view: View<'a>,
}

impl<'a> Picker<'a> {
    fn new(view: View<'a>) -> Picker<'a> {
        let len = view.len();
        let small = match view {
            View::Listpack(_) => view.members(0..len).collect(),
            View::Large(_) => Vec::new(),
        };
        Picker { len, small, view }
    }

    fn at(&self, rank: usize) -> (Element<'a>, f64) {
        match self.small.get(rank) {
            Some(found) => *found,
            None => {
                let found = self.view.members(rank..rank + 1).next();
                found.expect("the rank is below the length")
            }
        }
    }
}
