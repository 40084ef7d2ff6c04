//! What a program with scripts sees of the whole keyspace, and does to it, while all groups are locked for it.
//!
//! ```text
//!   KEYS, DBSIZE, RANDOMKEY, SCAN   asked of the groups --answers--> without what is on the scratch --> with what is there now
//!   FLUSHDB, FLUSHALL               on the scratch, and a step of each group's part; what is not on the scratch is absent from here on
//! ```
//!
//! Groups answer as they are, and carry steps out only when all is decided. So what the program has done so far is laid over their answers:
//! keys on the scratch count as they are there, and groups that it has emptied as empty.
//!
//! Mostly a program goes through what `KEYS` or `SCAN` named, key by key. A key that was named need not be asked for to be deleted; and of
//! one that is read, those that were named behind it are asked for as well, more and more of them as it goes on so.
//!
//! Invariant: every group is locked for the program alone from before its first command here until its end, or nothing of it is done.

use crate::endpoint::Scope;
use crate::plan::Plan;
use crate::program::{group_of_key, integer, merge_parts, parts_of, scan_from};
use crate::scan::scan_words;
use command::{Command, CommandId, CommandRoute, Flags, Merge, ReplyError};
use ids::{Db, GroupId, Groups, PartitionId, Prng};
use keyspace::{Cursor, Effect, Kind, SCAN_COUNT_MAX};
use replica::{FullKey, Operation, Replies, Scratch};
use resp::{ArgsBuf, ReplyWriter, parse_array_header, skip_value};
use std::collections::{BTreeMap, BTreeSet};

/// Names of keys that are remembered: a program may come to name no more keys.
const NAMED_MAX: usize = 65_536;

/// Keys that are asked for at once, of those that were named.
const AHEAD_MAX: usize = 256;

/// Keys that all groups together are to look at for a walk before others have their turn: one or two milliseconds.
const WALKED_A_TURN: u64 = 16_384;

/// What groups have answered, in order: an error or a reply each.
pub(crate) type Parts = Vec<(GroupId, Vec<u8>)>;

/// See the file's header.
#[derive(Default)]
pub(crate) struct WholeKeyspace {
    /// Keys on the scratch that their groups hold, and what they hold there, if that is known.
    held: BTreeMap<FullKey, Option<Kind>>,
    /// What it has emptied: databases of groups, or all of one.
    emptied: BTreeSet<(GroupId, Option<Db>)>,
    plan: Plan,
    named: Named,
    /// What groups have answered to the command that asks.
    answered: Option<Parts>,
    /// All keys of groups are gone through for it, which is not over.
    walk: Option<Walk>,
    /// Whether they were asked for all keys, to draw one of them.
    asks_for_all: bool,
    /// Whether all groups have answered since all were locked, so that all were locked until then.
    has_heard_all: bool,
    /// Whether all take part in the walk.
    is_of_all: bool,
    /// Keys on the scratch that commands have looked at, since this was last asked: what they do is to be charged.
    looked_at: u64,
}

/// Keys that groups have said are there, in the order in which the program was told.
#[derive(Default)]
struct Named {
    order: Vec<FullKey>,
    places: BTreeMap<FullKey, usize>,
    /// The place behind those that were asked for last, and how many that were.
    next: usize,
    window: usize,
}

impl Named {
    fn note(&mut self, db: Db, key: &[u8]) {
        if self.order.len() < NAMED_MAX {
            let key = (db, Box::from(key));
            self.places.insert(key.clone(), self.order.len());
            self.order.push(key);
        }
    }

    /// What is to be asked for with a key that the program has come to.
    fn behind(&mut self, key: &FullKey) -> &[FullKey] {
        let Some(&place) = self.places.get(key) else {
            return &[];
        };
        self.window = match place == self.next {
            true => (self.window * 2).clamp(2, AHEAD_MAX),
            false => 1,
        };
        self.next = self.order.len().min(place + self.window);
        &self.order[place + 1..self.next.max(place + 1)]
    }
}

/// `KEYS` of groups, as steps of a `SCAN` through each: no worker goes through all that it has in one turn. All of them are locked, so nothing
/// changes from one step to the next.
struct Walk {
    /// The `SCAN`, from anywhere.
    operation: Operation,
    /// Where each group goes on that has more.
    from: BTreeMap<GroupId, Cursor>,
    /// What groups have answered so far, and how much that is.
    parts: Parts,
    bytes: usize,
}

impl Walk {
    /// One through all these groups, for the keys that `KEYS` names with this pattern.
    fn begin(operation: &Operation, pattern: &[u8], of: impl Iterator<Item = GroupId>) -> Walk {
        // It goes on where a group's first partition is, and ends at once in a group that hosts none.
        let first = |group| (group, Cursor::before(PartitionId::new(0)));
        Walk {
            operation: Operation {
                spec: CommandId::Scan.spec(),
                args: ArgsBuf::from_slices([&b"SCAN"[..], b"0", b"MATCH", pattern]),
                ..operation.clone()
            },
            from: of.map(first).collect(),
            parts: Parts::new(),
            bytes: 0,
        }
    }

    /// The next step of each group that has more: together not more than others are to wait for.
    fn asks(&self) -> Vec<(GroupId, Operation)> {
        let each = WALKED_A_TURN.div_ceil(self.from.len().max(1) as u64);
        let step = |(group, from): (&GroupId, &Cursor)| {
            (*group, from_cursor(&self.operation, from.number(), Some(each)))
        };
        self.from.iter().map(step).collect()
    }

    /// Groups have answered a step. Whether there is more. All together may be so long.
    fn on_answered(&mut self, parts: Parts, bytes_max: usize) -> bool {
        self.bytes += parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        for (group, part) in &parts {
            // An error ends it: that is the answer to the command.
            let cursor = elements(part)
                .next()
                .map(text)
                .and_then(|text| command::cursor(text).ok());
            // It goes over what lies between its partitions, and may have more of them than is known here: it says when it is at its end. Of
            // an older build, it stays there.
            let next = cursor.filter(|cursor| *cursor > 0).and_then(Cursor::of_number);
            match next.filter(|next| self.from.get(group) != Some(next)) {
                Some(cursor) => drop(self.from.insert(*group, cursor)),
                None => drop(self.from.remove(group)),
            }
        }
        self.parts.extend(parts);
        if self.bytes > bytes_max
            && let Some((_, last)) = self.parts.last_mut()
        {
            last.clear();
            ReplyError::RepliesTooLong.write(&mut ReplyWriter::new(last, self.operation.protocol));
            self.from.clear();
        }
        !self.from.is_empty()
    }
}

/// What became of a command.
pub(crate) enum WholeOutcome {
    /// This is its reply.
    Reply(Vec<u8>),
    /// These are to be asked first.
    Asks(Vec<(GroupId, Operation)>),
}

/// Whether scripts may call a command on the whole keyspace. `SWAPDB` would give other names to what is on the scratch.
pub(crate) fn may_be_called(id: CommandId) -> bool {
    matches!(
        id,
        CommandId::Keys
            | CommandId::DbSize
            | CommandId::RandomKey
            | CommandId::Scan
            | CommandId::FlushDb
            | CommandId::FlushAll
    )
}

impl WholeKeyspace {
    /// A group holds this key, which is on the scratch now.
    pub(crate) fn note_held(&mut self, db: Db, key: &[u8], kind: Option<Kind>) {
        self.held.insert((db, key.into()), kind);
    }

    /// Whether it has emptied the database that a key is in.
    pub(crate) fn is_emptied(&self, groups: Groups, (db, key): (Db, &[u8])) -> bool {
        !self.emptied.is_empty() && self.has_emptied(group_of_key(groups, key), db)
    }

    fn has_emptied(&self, group: GroupId, db: Db) -> bool {
        let of_all = || self.emptied.contains(&(group, None)) && db != Db::LIBRARIES;
        self.emptied.contains(&(group, Some(db))) || of_all()
    }

    /// Whether a group has said that a key is there, that nobody can have changed since but the program itself.
    pub(crate) fn is_named(&self, key: &FullKey) -> bool {
        self.named.places.contains_key(key)
    }

    /// Keys that the program will want next, if it goes on as it does, with these that it wants.
    pub(crate) fn ahead_of(&mut self, wanted: &[FullKey], groups: Groups, scratch: &Scratch) -> Vec<FullKey> {
        let [key] = wanted else {
            return Vec::new();
        };
        let mut ahead = self.named.behind(key).to_vec();
        ahead.retain(|(db, key)| !scratch.holds(*db, key) && !self.is_emptied(groups, (*db, key)));
        ahead
    }

    /// Whether all that was read was there in one moment: when the last group was locked.
    pub(crate) fn has_heard_all(&self) -> bool {
        self.has_heard_all
    }

    /// Keys on the scratch that commands have looked at, since this was last asked.
    pub(crate) fn take_looked_at(&mut self) -> u64 {
        std::mem::take(&mut self.looked_at)
    }

    /// How much groups have answered to the command that asks.
    pub(crate) fn answered_bytes(&self) -> usize {
        let parts = self.answered.iter().flatten();
        parts.map(|(_, part)| part.len()).sum()
    }

    /// What groups have answered to the command that asked last.
    pub(crate) fn on_answered(&mut self, parts: Parts, groups: Groups, bytes_max: usize) {
        let Some(walk) = &mut self.walk else {
            self.answered = Some(parts);
            return;
        };
        let concerned = parts.len();
        self.is_of_all |= concerned == groups.hosting().len();
        if !walk.on_answered(parts, bytes_max)
            && let Some(walk) = self.walk.take()
        {
            self.has_heard_all |= std::mem::take(&mut self.is_of_all);
            self.answered = Some(walk.parts);
        }
    }

    /// Whether groups are to be asked for more of what the command asks, before it goes on: when others have had their turn.
    pub(crate) fn walks(&self) -> bool {
        self.walk.is_some()
    }

    /// What they are asked then.
    pub(crate) fn next_of_walk(&self) -> Option<Vec<(GroupId, Operation)>> {
        self.walk.as_ref().map(Walk::asks)
    }

    /// Carries out a command, whose words are a command's.
    pub(crate) fn carry_out(
        &mut self,
        operation: &Operation,
        groups: Groups,
        scope: &Scope,
        scratch: &mut Scratch,
        prng: &mut Prng,
    ) -> WholeOutcome {
        let mut reply = Vec::new();
        let out = &mut ReplyWriter::new(&mut reply, operation.protocol);
        if operation.spec.flags.contains(Flags::WRITE) {
            self.empty(operation, groups, scope, scratch);
            out.ok();
            return WholeOutcome::Reply(reply);
        }
        let is_walked = operation.spec.id == CommandId::Keys || self.asks_for_all;
        let parts = match self.answered.take() {
            Some(parts) => parts,
            None => {
                let asks = self.asks(operation, groups, scope);
                if !asks.is_empty() {
                    return WholeOutcome::Asks(asks);
                }
                Parts::new()
            }
        };
        self.has_heard_all |= !is_walked && parts.len() == groups.hosting().len();
        if let Some((_, error)) = parts.iter().find(|(_, part)| part.first() == Some(&b'-')) {
            return WholeOutcome::Reply(error.clone());
        }
        let is_there = |key: &[u8]| scope.concerns(groups, operation, group_of_key(groups, key));
        match operation.spec.id {
            CommandId::Keys => self.keys(operation, &parts, scratch, is_there, out),
            CommandId::DbSize => out.integer(self.count(operation, &parts, scratch, is_there)),
            CommandId::Scan => self.scan(operation, &parts, scratch, is_there, out),
            _ if std::mem::take(&mut self.asks_for_all) => {
                let all: Vec<&[u8]> = walked(&parts)
                    .filter(|key| !scratch.holds(operation.db, text(key)))
                    .collect();
                match all.len() as u64 {
                    0 => out.null(),
                    count => out.raw(all[prng.below(count) as usize]),
                }
            }
            _ => {
                if self
                    .random_key(operation, parts, scratch, is_there, prng, out)
                    .is_none()
                {
                    self.asks_for_all = true;
                    return self.carry_out(operation, groups, scope, scratch, prng);
                }
            }
        }
        WholeOutcome::Reply(reply)
    }

    /// The groups that a command asks, each for its part.
    fn asks(&mut self, operation: &Operation, groups: Groups, scope: &Scope) -> Vec<(GroupId, Operation)> {
        if operation.spec.route != CommandRoute::Scan {
            let mut parts = parts_of(operation, groups, scope);
            parts.retain(|(group, _)| !self.has_emptied(*group, operation.db));
            let pattern = match operation.parse() {
                Ok(Command::Keys { pattern }) => pattern,
                _ if self.asks_for_all => b"*",
                _ => return parts,
            };
            if parts.is_empty() {
                return parts;
            }
            let of = parts.iter().map(|(group, _)| *group);
            let walk = self.walk.insert(Walk::begin(operation, pattern, of));
            return walk.asks();
        }
        // One that is empty by now is asked too: it knows where the scan goes on.
        let from = scan_from(groups, scope, cursor_of(operation));
        let part = from.map(|(group, cursor)| (group, from_cursor(operation, cursor.number(), None)));
        part.into_iter().collect()
    }

    fn empty(&mut self, operation: &Operation, groups: Groups, scope: &Scope, scratch: &mut Scratch) {
        let db = match operation.parse() {
            Ok(Command::Flush { all: true }) => None,
            _ => Some(operation.db),
        };
        self.plan.install_changes(groups, scratch);
        // What it answers is known, so the replies of the groups belong to no item.
        let concerned = self
            .plan
            .run_everywhere(usize::MAX, operation, scope, groups, scratch);
        self.emptied
            .extend(concerned.into_iter().map(|group| (group, db)));
        let mut held = std::mem::take(&mut self.held);
        held.retain(|(db, key), _| !self.is_emptied(groups, (*db, key)));
        self.held = held;
    }

    fn keys(
        &mut self,
        operation: &Operation,
        parts: &Parts,
        scratch: &mut Scratch,
        is_there: impl Fn(&[u8]) -> bool,
        out: &mut ReplyWriter<'_>,
    ) {
        let own = self.run_on(scratch, operation);
        let others = walked(parts).filter(|element| !scratch.holds(operation.db, text(element)));
        let others: Vec<&[u8]> = others.collect();
        others
            .iter()
            .for_each(|element| self.named.note(operation.db, text(element)));
        let own = elements(&own).filter(|element| is_there(text(element)));
        let all: Vec<&[u8]> = others.into_iter().chain(own).collect();
        write_all(&all, out);
    }

    fn count(
        &mut self,
        operation: &Operation,
        parts: &Parts,
        scratch: &mut Scratch,
        is_there: impl Fn(&[u8]) -> bool,
    ) -> i64 {
        let others: i64 = parts.iter().map(|(_, part)| integer(part)).sum();
        let is_held = |(db, key): &&FullKey| *db == operation.db && is_there(key);
        let held = self.held.keys().filter(is_held).count();
        let own = self.run_on(scratch, &all_keys(operation));
        let own = elements(&own).filter(|element| is_there(text(element)));
        others - held as i64 + own.count() as i64
    }

    /// `None`: groups are to be asked for all keys, since what they have drawn is there no more.
    fn random_key(
        &mut self,
        operation: &Operation,
        mut parts: Parts,
        scratch: &mut Scratch,
        is_there: impl Fn(&[u8]) -> bool,
        prng: &mut Prng,
        out: &mut ReplyWriter<'_>,
    ) -> Option<()> {
        let drawn = parts.len();
        // Those that are on the scratch are drawn from there.
        parts.retain(|(_, part)| {
            let key = elements(part).nth(1).filter(|key| is_text(key));
            key.is_none_or(|key| !scratch.holds(operation.db, text(key)))
        });
        let has_key = |part: &[u8]| elements(part).nth(1).is_some_and(is_text);
        let own = self.run_on(scratch, operation);
        let own_key = elements(&own).nth(1).filter(|key| is_text(key));
        let has_own = own_key.is_some_and(|key| is_there(text(key)));
        if parts.len() < drawn && !has_own && !parts.iter().any(|(_, part)| has_key(part)) {
            return None;
        }
        let own = has_own.then_some((GroupId::new(0), &own[..]));
        let parts = parts.iter().map(|(group, part)| (*group, &part[..]));
        let all: Vec<(GroupId, &[u8])> = parts.chain(own).collect();
        merge_parts(Merge::RandomKey, &all, prng, out);
        Some(())
    }

    fn scan(
        &mut self,
        operation: &Operation,
        parts: &Parts,
        scratch: &mut Scratch,
        is_there: impl Fn(&[u8]) -> bool,
        out: &mut ReplyWriter<'_>,
    ) {
        let (db, kind) = (operation.db, kind_of(operation));
        let is_wanted = |held: Kind| kind.is_none_or(|kind| is_of_kind(held, kind));
        let own = match cursor_of(operation) {
            0 => self.scan_scratch(scratch, operation),
            _ => BTreeSet::new(),
        };
        let (mut cursor, mut found): (&[u8], Vec<&[u8]>) = (b"$1\r\n0\r\n", Vec::new());
        if let Some((group, part)) = parts.first() {
            let mut both = elements(part);
            cursor = both.next().unwrap_or(cursor);
            let is_empty = self.has_emptied(*group, db);
            let theirs = both.next().into_iter().flat_map(elements);
            let (on_scratch, others): (Vec<&[u8]>, Vec<&[u8]>) =
                theirs.partition(|element| scratch.holds(db, text(element)));
            let kind_there = |element: &&[u8]| scratch.keyspace().kind(db, text(element));
            // Those that the program has made anew where it had emptied all stand with what it has made.
            let on_scratch = on_scratch.into_iter().filter(|_| !is_empty);
            found.extend(on_scratch.filter(|element| kind_there(element).is_some_and(is_wanted)));
            if !is_empty {
                others
                    .iter()
                    .for_each(|element| self.named.note(db, text(element)));
                found.extend(others);
            }
        }
        // What no group will name stands where every scan passes: what the program has made, also of something else.
        let is_new = |element: &&Vec<u8>| {
            let key = (db, Box::from(text(element)));
            let held = self.held.get(&key);
            let is_theirs = held.is_some_and(|held| kind.is_none() || held.is_some_and(is_wanted));
            !is_theirs && is_there(text(element))
        };
        found.extend(own.iter().filter(is_new).map(|element| &element[..]));
        out.array(2);
        out.raw(cursor);
        write_all(&found, out);
    }

    /// What a command answers of the keys on the scratch.
    fn run_on(&mut self, scratch: &mut Scratch, operation: &Operation) -> Vec<u8> {
        self.looked_at += scratch.keyspace().counts(operation.db).0 as u64;
        let mut answer = Vec::new();
        let out = &mut ReplyWriter::new(&mut answer, operation.protocol);
        scratch.run(&operation.as_state(), out);
        answer
    }

    /// The keys on the scratch that a `SCAN` would name, each as an element of its reply.
    fn scan_scratch(&mut self, scratch: &mut Scratch, operation: &Operation) -> BTreeSet<Vec<u8>> {
        let (mut found, mut cursor) = (BTreeSet::new(), 0);
        loop {
            let answer = self.run_on(scratch, &from_cursor(operation, cursor, Some(SCAN_COUNT_MAX)));
            let mut both = elements(&answer);
            let next = both.next().and_then(|next| command::cursor(text(next)).ok());
            found.extend(both.next().into_iter().flat_map(elements).map(<[u8]>::to_vec));
            match next {
                Some(0) | None => return found,
                Some(next) => cursor = next,
            }
        }
    }

    /// What the groups are to do, with what has changed since they were last told; the replies to all items are known.
    pub(crate) fn into_plan(
        mut self,
        effects: BTreeMap<GroupId, Vec<Effect>>,
        evaluated: (Vec<usize>, Replies),
    ) -> Plan {
        for (group, effects) in effects {
            self.plan.install(group, effects);
        }
        self.plan.evaluated = evaluated;
        self.plan
    }
}

/// `KEYS *`, of the same database.
fn all_keys(operation: &Operation) -> Operation {
    Operation {
        spec: CommandId::Keys.spec(),
        args: ArgsBuf::from_slices([&b"KEYS"[..], b"*"]),
        ..operation.clone()
    }
}

/// What a `SCAN` is to name alone.
fn kind_of(operation: &Operation) -> Option<&[u8]> {
    match operation.parse() {
        Ok(Command::Scan { options, .. }) => options.kind,
        _ => None,
    }
}

fn is_of_kind(kind: Kind, name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(kind.name().as_bytes())
}

fn cursor_of(operation: &Operation) -> u64 {
    command::cursor(operation.args.as_args().arg(1)).unwrap_or_default()
}

/// The same `SCAN` from a cursor on, as [`scan_words`] has it.
fn from_cursor(operation: &Operation, cursor: u64, count: Option<u64>) -> Operation {
    Operation {
        args: scan_words(operation.args.as_args(), cursor, count),
        ..operation.clone()
    }
}

/// The keys that the steps of a walk have named.
fn walked(parts: &Parts) -> impl Iterator<Item = &[u8]> {
    parts
        .iter()
        .flat_map(|(_, part)| elements(part).nth(1).into_iter().flat_map(elements))
}

fn write_all(elements: &[&[u8]], out: &mut ReplyWriter<'_>) {
    out.array(elements.len());
    elements.iter().for_each(|element| out.raw(element));
}

/// The elements of an array, as bytes.
fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (count, start) = parse_array_header(array).unwrap_or_default();
    let mut rest = array.get(start..).unwrap_or_default();
    (0..count).map_while(move |_| {
        let (element, others) = rest.split_at(skip_value(rest)?);
        rest = others;
        Some(element)
    })
}

/// Whether an element is a bulk string, and no nil.
fn is_text(element: &[u8]) -> bool {
    element.starts_with(b"$") && !element.starts_with(b"$-")
}

/// The text of a bulk string.
fn text(element: &[u8]) -> &[u8] {
    let start = element
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(element.len(), |at| at + 1);
    let end = element.len().saturating_sub(2).max(start);
    &element[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::GroupCount;
    use resp::Protocol;

    /// What a group answers to a step that names so many keys and goes on at `next`.
    fn answer(group: GroupId, keys: usize, next: u64) -> (GroupId, Vec<u8>) {
        let mut bytes = Vec::new();
        let out = &mut ReplyWriter::new(&mut bytes, Protocol::Resp2);
        out.array(2);
        out.bulk_integer(next as i64);
        out.array(keys);
        (0..keys).for_each(|key| out.bulk(format!("{key}").as_bytes()));
        (group, bytes)
    }

    fn first_of(groups: Groups, group: GroupId) -> Cursor {
        Cursor::before(groups.founded_range(group).first())
    }

    fn walk(groups: Groups) -> Walk {
        let operation = Operation {
            spec: CommandId::Keys.spec(),
            db: Db::default(),
            protocol: Protocol::Resp2,
            args: ArgsBuf::from_slices([&b"KEYS"[..], b"*"]),
        };
        Walk::begin(&operation, b"*", groups.iter())
    }

    fn counts(walk: &Walk) -> Vec<u64> {
        let asks = walk.asks().into_iter();
        let count = |(_, operation): (GroupId, Operation)| match operation.parse() {
            Ok(Command::Scan { options, .. }) => options.count,
            _ => panic!("it is a scan"),
        };
        asks.map(count).collect()
    }

    #[test]
    fn groups_look_at_so_many_keys_in_one_step_of_a_walk_together_and_those_that_have_more_go_on() {
        let groups = Groups::with_default_partitions(GroupCount::new(4).expect("a valid count"));
        let mut walk = walk(groups);
        assert_eq!(counts(&walk), [WALKED_A_TURN / 4; 4]);
        let all: Vec<GroupId> = groups.iter().collect();
        let on = |group: GroupId| first_of(groups, group).number() + 1;
        // One has no more, three go on: one of them where the next begins, as far as is known, and may host something behind that.
        let parts = vec![
            answer(all[0], 2, 0),
            answer(all[1], 2, on(all[2]) - 1),
            answer(all[2], 2, on(all[2])),
            answer(all[3], 2, on(all[3])),
        ];
        assert!(walk.on_answered(parts, usize::MAX));
        assert_eq!(counts(&walk), [WALKED_A_TURN.div_ceil(3); 3]);
        let parts = vec![
            answer(all[1], 0, 0),
            answer(all[2], 1, 0),
            answer(all[3], 0, on(all[3]) + 1),
        ];
        assert!(walk.on_answered(parts, usize::MAX));
        assert_eq!(counts(&walk), [WALKED_A_TURN]);
        assert!(!walk.on_answered(vec![answer(all[3], 1, 0)], usize::MAX));
        assert_eq!(walked(&walk.parts).count(), 10);
    }

    #[test]
    fn a_walk_ends_with_an_error_where_its_answers_are_too_long() {
        let groups = Groups::with_default_partitions(GroupCount::new(1).expect("a valid count"));
        let mut walk = walk(groups);
        let group = groups.iter().next().expect("there is one");
        let on = first_of(groups, group).number() + 1;
        assert!(walk.on_answered(vec![answer(group, 10, on)], 150));
        assert!(!walk.on_answered(vec![answer(group, 10, on + 1)], 150));
        let is_error = |(_, part): &(GroupId, Vec<u8>)| part.first() == Some(&b'-');
        assert!(walk.parts.iter().any(is_error));
    }
}
