//! Sets.
//!
//! A set begins as a listpack or, if its first member is an integer, as a sorted array of integers. Beyond the
//! limits of both it is a directory, and never becomes small again while it lives.

use crate::apply::Apply;
use crate::directory::{Directory, Position};
use crate::events::EventClasses;
use crate::integers;
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Element, Index, Listpack};
use crate::object::{Kind, Object, Value, canonical_integer};
use crate::read::{Reader, write_scan};
use crate::sample::{PICKED_BYTES_MAX, sample};
use crate::slot_word::ObjectRef;
use crate::value::Digits;
use codec::Writer as _;
use command::{ReplyError, ScanOptions, SetCommand, SetOperation};
use ids::{HashSeed, Prng, Version};
use resp::{Args, ReplyWriter};

/// How many members `SRANDMEMBER` answers if they may repeat: as many as a command may have words. More are refused.
const REPEATS_MAX: u64 = 1 << 20;

/// Members of a large set that are looked at before asking whether more are wanted.
const WALK_BUDGET: u64 = 128;

/// A set, to read.
#[derive(Clone, Copy)]
pub(crate) enum Members<'a> {
    Integers(&'a [u8]),
    Listpack(Listpack<'a>),
    Large(&'a Directory),
}

impl<'a> Members<'a> {
    /// The members of a set.
    ///
    /// # Panics
    /// If the object is none.
    pub(crate) fn of(object: &'a Object) -> Members<'a> {
        match object.value() {
            Value::Integers(bytes) => Members::Integers(bytes),
            Value::Listpack(Kind::Set, listpack) => Members::Listpack(listpack),
            Value::Large(Large::Set(directory)) => Members::Large(directory),
            Value::Bytes(_) | Value::Coded(_) | Value::Integer(_) | Value::Listpack(..) | Value::Large(_) => {
                unreachable!("the kind was checked: only sets have members")
            }
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Members::Integers(bytes) => integers::len(bytes),
            Members::Listpack(listpack) => listpack.len(),
            Members::Large(directory) => directory.len(),
        }
    }

    pub(crate) fn contains(self, member: &[u8]) -> bool {
        match self {
            Members::Integers(bytes) => {
                canonical_integer(member).is_some_and(|member| integers::find(bytes, member).is_ok())
            }
            Members::Listpack(listpack) => listpack.find(member, 1).is_some(),
            Members::Large(directory) => directory.find(directory.hash(member), member).is_some(),
        }
    }

    /// Calls `visit` for all members, in an order that follows from the state.
    pub(crate) fn for_each(self, mut visit: impl FnMut(&[u8])) {
        self.any(|member| {
            visit(member);
            false
        });
    }

    /// Calls `visit` for members until it returns true; whether it did.
    pub(crate) fn any(self, mut visit: impl FnMut(&[u8]) -> bool) -> bool {
        let mut digits = Digits::default();
        match self {
            Members::Integers(bytes) => integers::iter(bytes).any(|member| visit(digits.format(member))),
            Members::Listpack(listpack) => listpack.iter().any(|member| visit(member.text(&mut digits))),
            Members::Large(directory) => {
                let (mut from, mut found) = (Some(Position::START), false);
                while let (Some(position), false) = (from, found) {
                    from = directory.walk(position, WALK_BUDGET, |object| {
                        found = found || visit(object.key());
                    });
                }
                found
            }
        }
    }

    /// Calls `visit` for the members of these ranks, which ascend and may repeat.
    fn select(self, ranks: &[usize], mut visit: impl FnMut(&[u8])) {
        let mut digits = Digits::default();
        match self {
            Members::Integers(bytes) => ranks
                .iter()
                .for_each(|&rank| visit(digits.format(integers::at(bytes, rank)))),
            Members::Listpack(listpack) => {
                let mut ranks = ranks.iter().peekable();
                for (rank, member) in listpack.iter().enumerate() {
                    while ranks.next_if_eq(&&rank).is_some() {
                        visit(member.text(&mut digits));
                    }
                }
            }
            Members::Large(directory) => {
                directory.select(ranks.iter().copied(), |object| visit(object.key()));
            }
        }
    }

    /// Calls `visit` with a member picked so that every one is as likely as any other. There is at least one.
    fn pick(self, prng: &mut Prng, visit: impl FnOnce(&[u8])) {
        if let Members::Large(directory) = self {
            return visit(directory.pick(prng).expect("a set has members").key());
        }
        let mut visit = Some(visit);
        let rank = prng.below(self.len() as u64) as usize;
        self.select(&[rank], |member| {
            let visit = visit.take().expect("one rank is one member");
            visit(member);
        });
    }

    fn write(self, out: &mut ReplyWriter<'_>) {
        self.for_each(|member| out.bulk(member));
    }
}

/// A set in which many members are looked for.
enum Searched<'a> {
    AsIs(Members<'a>),
    Indexed(Index<'a>),
}

impl<'a> Searched<'a> {
    /// The set, for as many searches as `searches` has members.
    fn of(members: Members<'a>, searches: Members<'_>) -> Searched<'a> {
        /// Members of either set from which on an index costs less than it saves.
        const INDEXED_MIN: usize = 8;
        match members {
            Members::Listpack(listpack) if listpack.len().min(searches.len()) >= INDEXED_MIN => {
                Searched::Indexed(Index::new(listpack))
            }
            members => Searched::AsIs(members),
        }
    }

    fn contains(&self, member: &[u8]) -> bool {
        match self {
            Searched::AsIs(members) => members.contains(member),
            Searched::Indexed(index) => index.contains(member),
        }
    }
}

/// Sets as commands name them; an absent one is empty.
struct Sets<'a>(Vec<Option<Members<'a>>>);

impl<'a> Sets<'a> {
    fn of(objects: &'a [Option<ObjectRef<'_>>]) -> Sets<'a> {
        let members = |object: &'a Option<ObjectRef<'_>>| object.as_ref().map(|object| Members::of(object));
        Sets(objects.iter().map(members).collect())
    }

    /// Calls `visit` for what is in all sets, until it returns true.
    fn intersection(&self, mut visit: impl FnMut(&[u8]) -> bool) {
        let Some(mut sets) = self.0.iter().copied().collect::<Option<Vec<_>>>() else {
            return;
        };
        // Whatever is left out, the smallest sets leave it out soonest. The sort is stable: the order is the state's.
        sets.sort_by_key(|members| members.len());
        let Some((smallest, others)) = sets.split_first() else {
            return;
        };
        let others: Vec<Searched<'_>> = others
            .iter()
            .map(|other| Searched::of(*other, *smallest))
            .collect();
        smallest.any(|member| others.iter().all(|other| other.contains(member)) && visit(member));
    }

    /// Calls `visit` for what is in the first set and in no other.
    fn difference(&self, mut visit: impl FnMut(&[u8])) {
        let Some((Some(first), others)) = self.0.split_first() else {
            return;
        };
        let others = others.iter().flatten();
        let others: Vec<Searched<'_>> = others.map(|other| Searched::of(*other, *first)).collect();
        first.for_each(|member| {
            if !others.iter().any(|other| other.contains(member)) {
                visit(member);
            }
        });
    }

    /// Calls `visit` for what is in any set, once for each set that it is in.
    fn union(&self, visit: impl FnMut(&[u8])) {
        let mut visit = visit;
        self.0
            .iter()
            .flatten()
            .for_each(|members| members.for_each(&mut visit));
    }

    fn combined(&self, operation: SetOperation, mut visit: impl FnMut(&[u8])) {
        match operation {
            SetOperation::Intersection => self.intersection(|member| {
                visit(member);
                false
            }),
            SetOperation::Union => self.union(visit),
            SetOperation::Difference => self.difference(visit),
        }
    }

    /// Makes a set, empty so far, what comes of an operation.
    fn combine_into(
        &self,
        operation: SetOperation,
        result: &mut Object,
        limits: &EncodingLimits,
        seed: HashSeed,
    ) {
        // The members of a large set come in hash order, for which there must be room beforehand.
        let make_room = |result: &mut Object, count: usize| {
            if count > limits.set_entries.max(limits.set_integers) as usize {
                result.set_large(Large::Set(Directory::with_room(seed, count)));
            }
        };
        if operation == SetOperation::Union {
            let sizes = self.0.iter().flatten().map(|members| members.len());
            make_room(result, sizes.max().unwrap_or(0));
            return self.union(|member| _ = add(result, limits, seed, member));
        }
        // How many they are is not known before.
        let (mut found, mut count) = (Vec::new(), 0);
        self.combined(operation, |member| {
            found.bytes(member);
            count += 1;
        });
        make_room(result, count);
        let mut rest = codec::Reader::new(&found);
        while let Ok(member) = rest.bytes() {
            add_new(result, limits, seed, member);
        }
    }
}

/// Adds `member` to a set; `false` if it is there.
fn add(object: &mut Object, limits: &EncodingLimits, seed: HashSeed, member: &[u8]) -> bool {
    if let Some(Large::Set(directory)) = object.large_mut() {
        return add_to_directory(directory, member);
    }
    if Members::of(object).contains(member) {
        return false;
    }
    add_new(object, limits, seed, member);
    true
}

/// Adds `member`, which is not there, to a set.
pub(crate) fn add_new(object: &mut Object, limits: &EncodingLimits, seed: HashSeed, member: &[u8]) {
    if let Some(Large::Set(directory)) = object.large_mut() {
        let hash = directory.hash(member);
        return directory.insert(hash, Object::string(member, b"", None, Version(0)));
    }
    let number = canonical_integer(member);
    let integers_max = (limits.set_integers as usize).min(integers::MEMBERS_MAX);
    let entries_max = (limits.set_entries as usize).min(listpack::ENTRIES_MAX);
    let is_short = |length: usize| length <= limits.set_value_bytes as usize;
    let count = object.value().len();
    if let (Value::Listpack(_, listpack), Some(_)) = (object.value(), number)
        && listpack.is_empty()
        && integers_max > 0
    {
        object.set_integers(&integers::EMPTY);
    }
    match (object.value(), number) {
        (Value::Integers(_), Some(number)) if count < integers_max => {
            integers::insert(object, number);
            return;
        }
        (Value::Integers(bytes), None) if count < entries_max && is_short(member.len()) => {
            // The longest integer is the least or the greatest.
            let longest = [0, count.saturating_sub(1)].map(|index| digits_of(bytes, index));
            if longest.into_iter().all(is_short) {
                let mut sequence = listpack::EMPTY.to_vec();
                let mut end = sequence.len();
                for number in integers::iter(bytes) {
                    end = listpack::insert_element(&mut sequence, end, Element::Integer(number));
                }
                listpack::push_back(&mut sequence, member);
                return object.set_listpack(Kind::Set, &sequence);
            }
        }
        (Value::Listpack(..), _) if count < entries_max && is_short(member.len()) => {
            return listpack::push_back(object, member);
        }
        _ => {}
    }
    let mut directory = Directory::new(seed);
    Members::of(object).for_each(|member| {
        add_to_directory(&mut directory, member);
    });
    add_to_directory(&mut directory, member);
    object.set_large(Large::Set(directory));
}

/// How many bytes the decimal form of an integer has; 0 if there is none of this index.
fn digits_of(bytes: &[u8], index: usize) -> usize {
    if index < integers::len(bytes) {
        Digits::default().format(integers::at(bytes, index)).len()
    } else {
        0
    }
}

fn add_to_directory(directory: &mut Directory, member: &[u8]) -> bool {
    let hash = directory.hash(member);
    let is_new = directory.find(hash, member).is_none();
    if is_new {
        directory.insert(hash, Object::string(member, b"", None, Version(0)));
    }
    is_new
}

/// Removes `member` from a set; `false` if it is not there.
fn remove(object: &mut Object, member: &[u8]) -> bool {
    if let Some(Large::Set(directory)) = object.large_mut() {
        let hash = directory.hash(member);
        return directory.remove(hash, member).is_some();
    }
    match object.value() {
        Value::Integers(_) => {
            canonical_integer(member).is_some_and(|number| integers::remove(object, number))
        }
        Value::Listpack(_, listpack) => match listpack.find(member, 1) {
            Some(at) => {
                listpack::remove(object, at, 1);
                true
            }
            None => false,
        },
        Value::Bytes(_) | Value::Coded(_) | Value::Integer(_) | Value::Large(_) => false,
    }
}

/// Takes the members of these ranks out of a set; they ascend, and there are fewer than members.
fn take(object: &mut Object, limits: &EncodingLimits, seed: HashSeed, ranks: &[usize]) -> Vec<Box<[u8]>> {
    let mut taken: Vec<Box<[u8]>> = Vec::with_capacity(ranks.len());
    let members = Members::of(object);
    members.select(ranks, |member| taken.push(member.into()));
    // A large set of which most is taken is made anew: what stays may be small, and no empty segments are left.
    if matches!(members, Members::Large(_)) && ranks.len() > members.len() / 2 {
        let mut rest = Object::collection(Kind::Set, b"", Version(0));
        let mut ranks = ranks.iter().copied().peekable();
        let mut rank = 0;
        members.for_each(|member| {
            if ranks.next_if_eq(&rank).is_none() {
                add(&mut rest, limits, seed, member);
            }
            rank += 1;
        });
        match rest.value() {
            Value::Integers(bytes) => object.set_integers(bytes),
            Value::Listpack(_, listpack) => object.set_listpack(Kind::Set, listpack.bytes()),
            _ => {
                let large = rest.take_large().expect("a set that is not small is large");
                object.set_large(*large);
            }
        }
    } else {
        for member in &taken {
            remove(object, member);
        }
    }
    taken
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn members(&mut self, command: &SetCommand<'_>) {
        let done = match *command {
            SetCommand::Add { key, members } => self.set_add(key, members),
            SetCommand::Remove { key, members } => self.set_remove(key, members),
            SetCommand::Pop { key, count } => self.set_pop(key, count),
            SetCommand::Move {
                source,
                destination,
                member,
            } => self.set_move(source, destination, member),
            SetCommand::CombineStore {
                operation,
                destination,
                keys,
            } => self.set_combine_store(operation, destination, keys),
            SetCommand::IsMember { .. }
            | SetCommand::AreMembers { .. }
            | SetCommand::Card { .. }
            | SetCommand::Members { .. }
            | SetCommand::RandomMember { .. }
            | SetCommand::Combine { .. }
            | SetCommand::InterCard { .. }
            | SetCommand::Scan { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = done {
            error.write(self.out);
        }
    }

    fn set_add(&mut self, key: &[u8], members: Args<'_>) -> Result<(), ReplyError> {
        let added = self.edit(Kind::Set, key, true, |edit| {
            let added = members
                .iter()
                .filter(|member| add(edit.object, &edit.limits, edit.seed, member))
                .count();
            if added > 0 {
                edit.mark();
            }
            added
        })?;
        let added = added.unwrap_or(0);
        if added > 0 {
            self.event(EventClasses::SET, "sadd", key);
        }
        self.out.integer(added as i64);
        Ok(())
    }

    fn set_remove(&mut self, key: &[u8], members: Args<'_>) -> Result<(), ReplyError> {
        let removed = self.remove_elements(Kind::Set, key, (EventClasses::SET, "srem"), |edit| {
            members
                .iter()
                .filter(|member| remove(edit.object, member))
                .count()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    fn set_pop(&mut self, key: &[u8], count: Option<u64>) -> Result<(), ReplyError> {
        let popped = self.edit(Kind::Set, key, false, |edit| {
            let len = edit.object.value().len();
            let wanted = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
            if wanted == 0 {
                return (Vec::new(), false);
            }
            edit.mark();
            if wanted == 1 && len > 1 {
                let mut popped = Box::default();
                Members::of(edit.object).pick(edit.prng, |member| popped = Box::from(member));
                remove(edit.object, &popped);
                return (vec![popped], false);
            }
            if wanted < len {
                let ranks = sample(edit.prng, len, wanted);
                return (take(edit.object, &edit.limits, edit.seed, &ranks), false);
            }
            let mut all = Vec::with_capacity(len);
            Members::of(edit.object).for_each(|member| all.push(Box::from(member)));
            edit.object.set_listpack(Kind::Set, &listpack::EMPTY);
            (all, true)
        })?;
        let (popped, is_empty) = popped.unwrap_or_default();
        match (count, popped.first()) {
            (Some(_), _) => {
                self.out.set(popped.len());
                popped.iter().for_each(|member| self.out.bulk(member));
            }
            (None, Some(member)) => self.out.bulk(member),
            (None, None) => self.out.null(),
        }
        if !popped.is_empty() {
            self.event(EventClasses::SET, "spop", key);
        }
        if is_empty {
            self.event(EventClasses::GENERIC, "del", key);
        }
        Ok(())
    }

    fn set_move(&mut self, source: &[u8], destination: &[u8], member: &[u8]) -> Result<(), ReplyError> {
        // What the destination is does not matter if there is no source.
        let is_there = match self.peek(Kind::Set, source)? {
            Some(object) => Members::of(&object).contains(member),
            None => {
                self.out.integer(0);
                return Ok(());
            }
        };
        self.peek(Kind::Set, destination)?;
        if is_there && source != destination {
            let is_empty = self.edit(Kind::Set, source, false, |edit| {
                remove(edit.object, member);
                edit.mark();
                edit.object.value().len() == 0
            })?;
            self.event(EventClasses::SET, "srem", source);
            if is_empty == Some(true) {
                self.event(EventClasses::GENERIC, "del", source);
            }
            let added = self.edit(Kind::Set, destination, true, |edit| {
                let added = add(edit.object, &edit.limits, edit.seed, member);
                if added {
                    edit.mark();
                }
                added
            })?;
            if added == Some(true) {
                self.event(EventClasses::SET, "sadd", destination);
            }
        }
        self.out.integer(i64::from(is_there));
        Ok(())
    }

    fn set_combine_store(
        &mut self,
        operation: SetOperation,
        destination: &[u8],
        keys: Args<'_>,
    ) -> Result<(), ReplyError> {
        let found = keys.iter().map(|key| self.peek(Kind::Set, key));
        let found = found.collect::<Result<Vec<_>, ReplyError>>()?;
        let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
        let mut result = Object::collection(Kind::Set, destination, self.version());
        Sets::of(&found).combine_into(operation, &mut result, &limits, seed);
        drop(found);
        let count = result.value().len();
        let name = match operation {
            SetOperation::Intersection => "sinterstore",
            SetOperation::Union => "sunionstore",
            SetOperation::Difference => "sdiffstore",
        };
        let result = Some(result).filter(|_| count > 0);
        self.store_result(destination, result, (EventClasses::SET, name));
        self.out.integer(count as i64);
        Ok(())
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn members(&mut self, command: &SetCommand<'_>) {
        let done = match *command {
            SetCommand::IsMember { key, member } => self.set_is_member(key, member),
            SetCommand::AreMembers { key, members } => self.set_are_members(key, members),
            SetCommand::Card { key } => self.set_card(key),
            SetCommand::Members { key } => self.set_members(key),
            SetCommand::RandomMember { key, count: None } => self.set_random_member(key),
            SetCommand::RandomMember {
                key,
                count: Some(count),
            } => self.set_random_members(key, count),
            SetCommand::Combine { operation, keys } => self.set_combine(operation, keys),
            SetCommand::InterCard { keys, limit } => self.set_inter_card(keys, limit),
            SetCommand::Scan { key, cursor, options } => self.set_scan(key, cursor, options),
            SetCommand::Add { .. }
            | SetCommand::Remove { .. }
            | SetCommand::Pop { .. }
            | SetCommand::Move { .. }
            | SetCommand::CombineStore { .. } => unreachable!("{command:?} is not a read"),
        };
        if let Err(error) = done {
            error.write(self.out);
        }
    }

    fn set_is_member(&mut self, key: &[u8], member: &[u8]) -> Result<(), ReplyError> {
        let found = self.lookup_kind(key, Kind::Set)?;
        let is_member = found.is_some_and(|object| Members::of(&object).contains(member));
        self.out.integer(i64::from(is_member));
        Ok(())
    }

    fn set_are_members(&mut self, key: &[u8], members: Args<'_>) -> Result<(), ReplyError> {
        let found = self.lookup_kind(key, Kind::Set)?;
        let set = found.as_ref().map(|object| Members::of(object));
        self.out.array(members.len());
        for member in members.iter() {
            let is_member = set.is_some_and(|set| set.contains(member));
            self.out.integer(i64::from(is_member));
        }
        Ok(())
    }

    fn set_card(&mut self, key: &[u8]) -> Result<(), ReplyError> {
        let found = self.lookup_kind(key, Kind::Set)?;
        let count = found.map_or(0, |object| object.value().len());
        self.out.integer(count as i64);
        Ok(())
    }

    fn set_members(&mut self, key: &[u8]) -> Result<(), ReplyError> {
        match self.lookup_kind(key, Kind::Set)? {
            Some(object) => {
                let members = Members::of(&object);
                self.out.set(members.len());
                members.write(self.out);
            }
            None => self.out.set(0),
        }
        Ok(())
    }

    fn set_random_member(&mut self, key: &[u8]) -> Result<(), ReplyError> {
        match self.lookup_kind(key, Kind::Set)? {
            Some(object) => {
                let out = &mut *self.out;
                Members::of(&object).pick(&mut self.local.prng, |member| out.bulk(member));
            }
            None => self.out.null(),
        }
        Ok(())
    }

    fn set_random_members(&mut self, key: &[u8], count: i64) -> Result<(), ReplyError> {
        let Some(object) = self.lookup_kind(key, Kind::Set)?.filter(|_| count != 0) else {
            self.out.array(0);
            return Ok(());
        };
        let members = Members::of(&object);
        let len = members.len();
        if count < 0 {
            return self.repeated(members, count.unsigned_abs());
        }
        match usize::try_from(count) {
            Ok(count) if count < len => {
                let ranks = sample(&mut self.local.prng, len, count);
                self.out.array(count);
                members.select(&ranks, |member| self.out.bulk(member));
            }
            _ => {
                self.out.array(len);
                members.write(self.out);
            }
        }
        Ok(())
    }

    /// Answers members each of which is picked from all.
    fn repeated(&mut self, members: Members<'_>, count: u64) -> Result<(), ReplyError> {
        if count > REPEATS_MAX {
            return Err(ReplyError::ValueOutOfRange);
        }
        let len = members.len() as u64;
        let mut picks: Vec<(usize, usize)> = (0..count as usize)
            .map(|place| (self.local.prng.below(len) as usize, place))
            .collect();
        // They are found in order and answered in the order in which they were picked.
        picks.sort_unstable();
        let ranks: Vec<usize> = picks.iter().map(|(rank, _)| *rank).collect();
        let mut texts: Vec<Box<[u8]>> = vec![Box::default(); picks.len()];
        let (mut places, mut bytes) = (picks.iter(), 0);
        members.select(&ranks, |member| {
            bytes += member.len() as u64;
            if let (Some((_, place)), true) = (places.next(), bytes <= PICKED_BYTES_MAX) {
                texts[*place] = member.into();
            }
        });
        if bytes > PICKED_BYTES_MAX {
            return Err(ReplyError::ValueOutOfRange);
        }
        self.out.array(texts.len());
        texts.iter().for_each(|member| self.out.bulk(member));
        Ok(())
    }

    fn set_combine(&mut self, operation: SetOperation, keys: Args<'_>) -> Result<(), ReplyError> {
        let found = keys.iter().map(|key| self.lookup_kind(key, Kind::Set));
        let found = found.collect::<Result<Vec<_>, ReplyError>>()?;
        let sets = Sets::of(&found);
        if operation == SetOperation::Union {
            // What was seen before must be known: a set is what knows it best.
            let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
            let mut result = Object::collection(Kind::Set, b"", Version(0));
            sets.combine_into(operation, &mut result, &limits, seed);
            let members = Members::of(&result);
            self.out.set(members.len());
            members.write(self.out);
            return Ok(());
        }
        let (mut count, mut reply) = (0, Vec::new());
        let mut writer = ReplyWriter::new(&mut reply, self.out.protocol());
        sets.combined(operation, |member| {
            count += 1;
            writer.bulk(member);
        });
        self.out.set(count);
        self.out.raw(&reply);
        Ok(())
    }

    fn set_inter_card(&mut self, keys: Args<'_>, limit: u64) -> Result<(), ReplyError> {
        let found = keys.iter().map(|key| self.lookup_kind(key, Kind::Set));
        let found = found.collect::<Result<Vec<_>, ReplyError>>()?;
        let mut count = 0;
        Sets::of(&found).intersection(|_| {
            count += 1;
            count == limit
        });
        self.out.integer(count as i64);
        Ok(())
    }

    fn set_scan(&mut self, key: &[u8], cursor: u64, options: ScanOptions<'_>) -> Result<(), ReplyError> {
        let set = self.lookup_kind(key, Kind::Set)?;
        let filter = options.filter();
        let (mut count, mut found) = (0, Vec::new());
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        let mut visit = |member: &[u8]| {
            if filter.matches(member) {
                writer.bulk(member);
                count += 1;
            }
        };
        let next = match set.as_ref().map(|object| Members::of(object)) {
            Some(Members::Large(directory)) => {
                let from = Position::new(cursor).ok_or(ReplyError::InvalidCursor)?;
                directory.walk(from, options.count, |object| visit(object.key()))
            }
            // Small sets are answered whole.
            Some(members) => {
                members.for_each(visit);
                None
            }
            None => None,
        };
        write_scan(self.out, next, count, &found);
        Ok(())
    }
}
