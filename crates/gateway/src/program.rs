//! What one request asks of groups: a command over several groups, or an `EXEC`.

use crate::context::Context;
use crate::endpoint::Scope;
use crate::library_keys;
use crate::script_cache::Sha1;
use crate::script_program::Scripted;
use crate::session::Queued;
use command::{CommandId, CommandRoute, Merge, Spec, Spread};
use ids::{GroupId, Groups, PartitionId, Prng, Slot};
use keyspace::{ClientRequest, Cursor};
use replica::{Condition, FullKey, Operation, Replies};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter, parse_array_header, skip_value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The commands of one request in order, and what must hold for them.
pub(crate) struct Program {
    /// Shared with whoever carries it out elsewhere.
    pub(crate) items: Arc<Vec<Item>>,
    pub(crate) conditions: Vec<Condition>,
    /// What its client called it.
    pub(crate) request: Option<ClientRequest>,
    /// Whether the replies stand in the array of an `EXEC`.
    pub(crate) is_exec: bool,
    /// What its commands on the whole keyspace concern.
    pub(crate) scope: Scope,
    /// What is known of its scripts, if it has any.
    pub(crate) scripted: Option<Box<Scripted>>,
}

/// One command of a program.
pub(crate) enum Item {
    /// For groups.
    Operation(Operation),
    /// For the gateway itself: `PING`, `SELECT`, ...
    Connection(Queued),
}

/// What each group has to do for a program: its parts of commands, each with the index of its item.
pub(crate) type Parts = BTreeMap<GroupId, Vec<(usize, Operation)>>;

/// What a program needs.
#[derive(Default)]
pub(crate) struct Extent {
    /// The groups it concerns, in order.
    pub(crate) groups: Vec<GroupId>,
    /// Whether it concerns groups as a whole.
    pub(crate) is_whole: bool,
    /// Whether it goes through a group, a part at a time.
    pub(crate) scans: bool,
    /// Whether anything in it may write.
    pub(crate) writes: bool,
    /// Whether values cross groups.
    pub(crate) flows: bool,
    /// Whether it reads keys that only the data name.
    pub(crate) wants: bool,
    /// Whether it runs scripts, which may come to name any key.
    pub(crate) is_scripted: bool,
}

impl Extent {
    /// Whether it looks at groups as a whole, though perhaps at one only.
    pub(crate) fn sees_whole(&self) -> bool {
        self.is_whole || self.scans
    }
}

impl Program {
    /// One command on keys.
    pub(crate) fn single(operation: Operation) -> Program {
        Program::of(vec![Item::Operation(operation)])
    }

    /// Commands that nothing else has to hold for.
    pub(crate) fn of(items: Vec<Item>) -> Program {
        Program {
            items: Arc::new(items),
            conditions: Vec::new(),
            request: None,
            is_exec: false,
            scope: Scope::Cluster,
            scripted: None,
        }
    }

    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.items.iter().filter_map(|item| match item {
            Item::Operation(operation) => Some(operation),
            Item::Connection(_) => None,
        })
    }

    /// The indices of its operations among its items.
    pub(crate) fn operation_items(&self) -> impl Iterator<Item = usize> {
        let is_operation = |(_, item): &(usize, &Item)| matches!(item, Item::Operation(_));
        let found = self.items.iter().enumerate().filter(is_operation);
        found.map(|(index, _)| index)
    }

    /// The slots of its keys.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let mut slots = Vec::new();
        self.operations()
            .for_each(|operation| operation.keys(|key, _| slots.push(Slot::of_key(key))));
        slots.into_iter()
    }

    pub(crate) fn extent(&self, groups: Groups) -> Extent {
        let mut extent = Extent::default();
        for operation in self.operations() {
            let spec = operation.spec;
            extent.writes |= spec.flags.contains(command::Flags::WRITE);
            match spec.route {
                CommandRoute::Everywhere => {
                    extent.is_whole = true;
                    extent.groups.extend(self.scope.groups_of(groups, operation));
                }
                CommandRoute::Scan => {
                    extent.scans = true;
                    extent.groups.extend(scan_start(groups, operation.args.as_args()));
                }
                CommandRoute::Script => {
                    (extent.is_scripted, extent.flows, extent.wants) = (true, true, true);
                    extent.writes |= may_write_anything(spec.id);
                    extent
                        .groups
                        .extend(groups_of(spec, operation.args.as_args(), groups));
                    let libraries = library_keys::keys_of(operation);
                    let its_groups = libraries.iter().map(|(_, key)| group_of_key(groups, key));
                    extent.groups.extend(its_groups);
                }
                CommandRoute::Keys | CommandRoute::Connection => {
                    let concerned = groups_of(spec, operation.args.as_args(), groups);
                    // In an `EXEC` their refusal would be everybody's.
                    let may_refuse = matches!(spec.spread, Spread::IfAllAbsent | Spread::AllOrNothing);
                    let is_flow = spec.spread == Spread::ValueFlow || self.is_exec && may_refuse;
                    let wants = names_more(spec, operation.args.as_args());
                    extent.wants |= wants;
                    extent.flows |= wants || is_flow && concerned.len() > 1;
                    extent.groups.extend(concerned);
                }
            }
        }
        for condition in &self.conditions {
            extent.groups.push(group_of_key(groups, condition.key()));
        }
        extent.groups.sort_unstable();
        extent.groups.dedup();
        extent
    }

    /// Whether it can be carried out on values that are checked out: it concerns keys that are known.
    pub(crate) fn can_be_offloaded(&self) -> bool {
        let is_on_keys = |operation: &Operation| {
            let (spec, args) = operation.argv();
            spec.route == CommandRoute::Keys && !names_more(spec, args)
        };
        self.operations().all(is_on_keys)
    }

    /// Whether an error in one group is a refusal for all: it is one command of that kind. In an `EXEC` it is a result.
    pub(crate) fn is_strict(&self) -> bool {
        let is_one = |operation: &Operation| operation.spec.spread == Spread::AllOrNothing;
        !self.is_exec && self.operations().any(is_one)
    }

    /// The conditions on keys of `group`.
    pub(crate) fn conditions_in(&self, groups: Groups, group: GroupId) -> Vec<Condition> {
        let is_there = |condition: &&Condition| group_of_key(groups, condition.key()) == group;
        self.conditions.iter().filter(is_there).cloned().collect()
    }

    /// The objects that it needs of a group, in a fixed order: of the keys there that it names, and of those that it wants
    /// besides.
    pub(crate) fn objects_in(
        &self,
        groups: Groups,
        group: GroupId,
        wanted: &BTreeMap<GroupId, BTreeSet<FullKey>>,
    ) -> Vec<FullKey> {
        let databases = replica::databases(self.operations());
        let mut objects: BTreeSet<FullKey> = BTreeSet::new();
        for operation in self.operations() {
            operation.keys(|key, _| {
                if group_of_key(groups, key) == group {
                    objects.extend(databases.iter().map(|db| (*db, Box::from(key))));
                }
            });
        }
        for operation in self.operations().filter(|_| self.scripted.is_some()) {
            let libraries = library_keys::keys_of(operation).into_iter();
            objects.extend(libraries.filter(|(_, key)| group_of_key(groups, key) == group));
        }
        objects.extend(wanted.get(&group).into_iter().flatten().cloned());
        objects.into_iter().collect()
    }

    /// Looks at its scripts, if it has any.
    pub(crate) fn look_at_scripts(&mut self, cx: &mut Context, is_out_of_memory: bool) {
        self.scripted = Scripted::of(cx, self, is_out_of_memory);
    }

    /// The same program, for whoever carries its scripts out. What was published, and what is asked of groups, stays behind.
    pub(crate) fn to_carry_out(&self) -> Program {
        Program {
            items: self.items.clone(),
            conditions: Vec::new(),
            request: self.request,
            is_exec: self.is_exec,
            scope: self.scope.clone(),
            scripted: self
                .scripted
                .as_ref()
                .map(|scripted| Box::new(scripted.to_carry_out())),
        }
    }

    /// The same, now that others have sent scripts.
    pub(crate) fn look_at_scripts_again(&mut self, cx: &mut Context) {
        let is_out_of_memory = self
            .scripted
            .as_ref()
            .is_some_and(|scripted| scripted.is_out_of_memory);
        self.look_at_scripts(cx, is_out_of_memory);
    }

    /// Its scripts of which only the digits are known.
    pub(crate) fn unknown_scripts(&self) -> Vec<Sha1> {
        self.scripted
            .as_ref()
            .map_or_else(Vec::new, |scripted| scripted.unknown())
    }

    /// Whether any of its scripts is to be found first: at other nodes, of which some are up, or compiled.
    pub(crate) fn seeks_scripts(&self, cx: &Context) -> bool {
        let is_there = || cx.view.nodes_up().next().is_some();
        let scripted = self.scripted.as_ref();
        !self.unknown_scripts().is_empty() && is_there()
            || scripted.is_some_and(|scripted| scripted.long().next().is_some())
    }

    /// Its scripts whose sources are to be compiled.
    pub(crate) fn long_sources(&self) -> impl Iterator<Item = &[u8]> {
        let long = self.scripted.iter().flat_map(|scripted| scripted.long());
        long.filter_map(|index| match self.items.get(index) {
            Some(Item::Operation(operation)) => Some(operation.args.as_args().arg(1)),
            Some(Item::Connection(_)) | None => None,
        })
    }

    /// Whether keys may be changed that it does not name.
    pub(crate) fn may_write_anywhere(&self) -> bool {
        self.scripted.is_some()
            && self
                .operations()
                .any(|operation| may_write_anything(operation.spec.id))
    }

    /// Whether libraries of functions may be changed.
    pub(crate) fn changes_libraries(&self) -> bool {
        let mut operations = self.operations();
        operations.any(|operation| library_keys::changes_libraries(operation.spec.id))
    }

    /// Whether it is known to come to name keys that it does not declare.
    pub(crate) fn may_roam(&self, cx: &Context) -> bool {
        self.scripted
            .as_ref()
            .is_some_and(|scripted| scripted.roams(&cx.scripts, self))
    }

    /// The answer to a single script that cannot be run.
    pub(crate) fn script_refusal(&self) -> Option<Replies> {
        let scripted = self.scripted.as_ref().filter(|_| !self.is_exec)?;
        let error = scripted.refusal()?;
        let mut replies = Replies::default();
        replies.push(Protocol::Resp2, |out| out.error_bytes(error));
        Some(replies)
    }

    /// Each group's parts of the commands, with the index of their item.
    pub(crate) fn partition(&self, groups: Groups) -> Parts {
        let mut parts = Parts::new();
        for (index, item) in self.items.iter().enumerate() {
            // What does not parse has no parts: it must not be half done, only answered.
            if let Item::Operation(operation) = item
                && operation.parse().is_ok()
            {
                for (group, part) in parts_of(operation, groups, &self.scope) {
                    parts.entry(group).or_default().push((index, part));
                }
            }
        }
        parts
    }
}

/// Whether a command runs what may write any key.
fn may_write_anything(id: CommandId) -> bool {
    matches!(id, CommandId::Eval | CommandId::EvalSha | CommandId::FCall)
}

/// Whether the command reads keys that are not among its words: `SORT` with patterns.
pub(crate) fn names_more(spec: &Spec, args: Args<'_>) -> bool {
    matches!(spec.id, CommandId::Sort | CommandId::SortRo)
        && (2..args.len()).any(|position| {
            let is_option = |name: &[u8]| args.arg(position - 1).eq_ignore_ascii_case(name);
            (is_option(b"by") || is_option(b"get")) && args.arg(position).contains(&b'*')
        })
}

#[inline]
pub(crate) fn group_of_key(groups: Groups, key: &[u8]) -> GroupId {
    groups.group_of(Slot::of_key(key))
}

/// Things by the groups of their keys, those of one group in the order in which they came.
pub(crate) fn by_group<T>(
    groups: Groups,
    things: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &[u8],
) -> BTreeMap<GroupId, Vec<T>> {
    let mut found: BTreeMap<GroupId, Vec<T>> = BTreeMap::new();
    for thing in things {
        found
            .entry(group_of_key(groups, key(&thing)))
            .or_default()
            .push(thing);
    }
    found
}

/// The groups of a command's keys, in order, each once.
pub(crate) fn groups_of(spec: &Spec, args: Args<'_>, groups: Groups) -> Vec<GroupId> {
    let mut found = Vec::new();
    command::keys(spec, args, &mut |position, _| {
        found.push(group_of_key(groups, args.arg(position)))
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// What each group has to do for a command: all of it, or the part with its keys.
pub(crate) fn parts_of(operation: &Operation, groups: Groups, scope: &Scope) -> Vec<(GroupId, Operation)> {
    let args = operation.args.as_args();
    match operation.spec.route {
        CommandRoute::Everywhere => {
            let concerned = scope.groups_of(groups, operation);
            return concerned.map(|group| (group, operation.clone())).collect();
        }
        CommandRoute::Scan => {
            let group = scan_start(groups, args);
            return group
                .map(|group| (group, operation.clone()))
                .into_iter()
                .collect();
        }
        CommandRoute::Keys | CommandRoute::Connection | CommandRoute::Script => {}
    }
    if matches!(operation.spec.id, CommandId::XRead | CommandId::XReadGroup) {
        return stream_parts(operation, groups);
    }
    let step = key_step(operation.spec);
    let mut words: BTreeMap<GroupId, Vec<&[u8]>> = BTreeMap::new();
    command::keys(operation.spec, args, &mut |position, _| {
        let ours = words
            .entry(group_of_key(groups, args.arg(position)))
            .or_insert_with(|| vec![args.arg(0)]);
        ours.extend((position..position + step).filter_map(|at| args.get(at)));
    });
    if let (1, Some((&group, _))) = (words.len(), words.first_key_value()) {
        return vec![(group, operation.clone())];
    }
    let spec = match operation.spec.spread {
        Spread::AllOrNothing => return transfer_parts(operation, groups),
        // The part of MSETNX is an MSET: that none of its keys exists is a condition of the transaction.
        Spread::IfAllAbsent => command::CommandId::MSet.spec(),
        Spread::Single | Spread::Split(_) | Spread::ValueFlow => operation.spec,
    };
    let part = |words| Operation {
        spec,
        db: operation.db,
        protocol: operation.protocol,
        args: ArgsBuf::from_slices(words),
    };
    words
        .into_iter()
        .map(|(group, words)| (group, part(words)))
        .collect()
}

/// What each group has to do for an `XREAD` or `XREADGROUP`: the same, of its streams.
fn stream_parts(operation: &Operation, groups: Groups) -> Vec<(GroupId, Operation)> {
    let args = operation.args.as_args();
    let keys = command::streams_at(args);
    let mut parts: BTreeMap<GroupId, [Vec<&[u8]>; 2]> = BTreeMap::new();
    for at in keys.clone() {
        let [its_keys, its_starts] = parts.entry(group_of_key(groups, args.arg(at))).or_default();
        its_keys.push(args.arg(at));
        its_starts.push(args.arg(at + keys.len()));
    }
    let before = args.slice(0..keys.start);
    let part = |[keys, starts]: [Vec<&[u8]>; 2]| Operation {
        args: ArgsBuf::from_slices(before.iter().chain(keys).chain(starts).collect::<Vec<_>>()),
        ..operation.clone()
    };
    parts
        .into_iter()
        .map(|(group, words)| (group, part(words)))
        .collect()
}

/// What the two groups of an `XFER` have to do, each for its key.
fn transfer_parts(operation: &Operation, groups: Groups) -> Vec<(GroupId, Operation)> {
    let args = operation.args.as_args();
    let part = |(id, key): (CommandId, &[u8])| {
        let spec = id.spec();
        let words = [spec.name.as_bytes(), key, args.arg(3)];
        let part = Operation {
            spec,
            args: ArgsBuf::from_slices(words),
            ..operation.clone()
        };
        (group_of_key(groups, key), part)
    };
    let parts = [
        (CommandId::XferFrom, args.arg(1)),
        (CommandId::XferTo, args.arg(2)),
    ];
    parts.map(part).into()
}

/// Words from one key to the next in commands that can be split.
pub(crate) fn key_step(spec: &Spec) -> usize {
    spec.keys.first().map_or(1, |place| usize::from(place.step))
}

/// The group that looks at keys from a cursor on, of those in the scope, and from where on; `None` if there is none any more.
pub(crate) fn scan_from(groups: Groups, scope: &Scope, cursor: u64) -> Option<(GroupId, Cursor)> {
    let cursor = Cursor::of_number(cursor)?;
    let is_there = cursor.partition.number() < groups.partitions().get();
    let group = is_there.then(|| groups.host_of(cursor.partition))?;
    let Scope::Node(topology) = scope else {
        return Some((group, cursor));
    };
    if topology.leads(group) {
        return Some((group, cursor));
    }
    // The node's next partition: of all that follow, whoever hosts them.
    let next = (cursor.partition.number() + 1..groups.partitions().get()).map(PartitionId::new);
    let mut hosted = next.map(|partition| (groups.host_of(partition), Cursor::before(partition)));
    hosted.find(|(group, _)| topology.leads(*group))
}

/// The group that a `SCAN` command begins in; `None` if there is none.
pub(crate) fn scan_start(groups: Groups, args: Args<'_>) -> Option<GroupId> {
    let cursor = command::cursor(args.get(1)?).ok()?;
    scan_from(groups, &Scope::Cluster, cursor).map(|(group, _)| group)
}

/// Joins the answers of several groups to the parts of one command.
pub(crate) fn merge(
    operation: &Operation,
    groups: Groups,
    parts: &[(GroupId, &[u8])],
    prng: &mut Prng,
    out: &mut ReplyWriter<'_>,
) {
    if let Some((_, error)) = parts.iter().find(|(_, part)| part.first() == Some(&b'-')) {
        return out.raw(error);
    }
    let merge = match (operation.spec.route, operation.spec.spread, parts) {
        (CommandRoute::Scan, _, [(_, part)]) => return out.raw(part),
        (CommandRoute::Scan, ..) => {
            // The cursor names no group: it is behind the last one.
            out.array(2);
            out.bulk_integer(0);
            return out.array(0);
        }
        (_, Spread::Split(merge), [(_, part)]) if merge != Merge::RandomKey => return out.raw(part),
        (_, Spread::Split(merge), _) => merge,
        (_, Spread::AllOrNothing, [_, _, ..]) if operation.spec.id == CommandId::XReadGroup => Merge::Streams,
        (_, Spread::AllOrNothing, [_, _, ..]) => return merge_by_key(operation, groups, parts, out),
        (_, Spread::Single | Spread::IfAllAbsent | Spread::AllOrNothing | Spread::ValueFlow, _) => {
            return parts.iter().for_each(|(_, part)| out.raw(part));
        }
    };
    match merge {
        Merge::ByPosition => merge_by_position(operation, groups, parts, out),
        Merge::Streams => merge_streams(operation, groups, parts, out),
        Merge::Ok | Merge::Sum | Merge::Concatenate | Merge::RandomKey => {
            merge_parts(merge, parts, prng, out);
        }
    }
}

/// Joins answers that need no look at the command.
pub(crate) fn merge_parts(
    merge: Merge,
    parts: &[(GroupId, &[u8])],
    prng: &mut Prng,
    out: &mut ReplyWriter<'_>,
) {
    match merge {
        Merge::Ok => out.ok(),
        Merge::Sum => out.integer(parts.iter().map(|(_, part)| integer(part)).sum()),
        Merge::ByPosition | Merge::Streams => unreachable!("positions are known from the command"),
        Merge::Concatenate => {
            let headers: Vec<_> = parts
                .iter()
                .map(|(_, part)| parse_array_header(part).unwrap_or((0, part.len())))
                .collect();
            out.array(headers.iter().map(|(count, _)| count).sum());
            for ((_, part), (_, length)) in parts.iter().zip(headers) {
                out.raw(&part[length..]);
            }
        }
        Merge::RandomKey => merge_random_key(parts, prng, out),
    }
}

/// The number of an integer reply.
pub(crate) fn integer(reply: &[u8]) -> i64 {
    let digits = reply
        .strip_prefix(b":")
        .and_then(|rest| rest.strip_suffix(b"\r\n"));
    digits
        .and_then(command::number::parse_i64)
        .expect("a group answers an integer to such a command")
}

fn merge_by_position(
    operation: &Operation,
    groups: Groups,
    parts: &[(GroupId, &[u8])],
    out: &mut ReplyWriter<'_>,
) {
    let mut rest: Vec<(GroupId, &[u8])> = parts
        .iter()
        .map(|(group, part)| {
            (
                *group,
                &part[parse_array_header(part).map_or(part.len(), |(_, at)| at)..],
            )
        })
        .collect();
    let args = operation.args.as_args();
    let mut count = 0;
    command::keys(operation.spec, args, &mut |_, _| count += 1);
    out.array(count);
    command::keys(operation.spec, args, &mut |position, _| {
        let group = group_of_key(groups, args.arg(position));
        let (_, bytes) = rest
            .iter_mut()
            .find(|(other, _)| *other == group)
            .expect("every key's group answered");
        let length = skip_value(bytes).expect("one element for each key");
        out.raw(&bytes[..length]);
        *bytes = &bytes[length..];
    });
}

/// Each group tells those of its streams of which there is something to tell, in the order of the keys.
pub(crate) fn merge_streams(
    operation: &Operation,
    groups: Groups,
    parts: &[(GroupId, &[u8])],
    out: &mut ReplyWriter<'_>,
) {
    let mut rest: BTreeMap<GroupId, &[u8]> = BTreeMap::new();
    for (group, part) in parts {
        // What has no header is nil: there is nothing to tell.
        let behind = parse_array_header(part).map_or(part.len(), |(_, header)| header);
        rest.insert(*group, &part[behind..]);
    }
    let args = operation.args.as_args();
    let (mut count, mut told) = (0, Vec::new());
    let mut begins = Vec::new();
    for at in command::streams_at(args) {
        let key = args.arg(at);
        begins.clear();
        let mut begin = ReplyWriter::new(&mut begins, operation.protocol);
        if operation.protocol == Protocol::Resp2 {
            begin.array(2);
        }
        begin.bulk(key);
        let bytes = rest
            .get_mut(&group_of_key(groups, key))
            .expect("every key's group answered");
        if bytes.starts_with(&begins) {
            let entries = skip_value(&bytes[begins.len()..]).expect("entries follow the key");
            let (stream, others) = bytes.split_at(begins.len() + entries);
            told.extend_from_slice(stream);
            *bytes = others;
            count += 1;
        }
    }
    match (count, operation.protocol) {
        (0, _) => return out.null_array(),
        (_, Protocol::Resp2) => out.array(count),
        (_, Protocol::Resp3) => out.map(count),
    }
    out.raw(&told);
}

/// Each group answers for one key: its answer stands where the key stands.
fn merge_by_key(
    operation: &Operation,
    groups: Groups,
    parts: &[(GroupId, &[u8])],
    out: &mut ReplyWriter<'_>,
) {
    let args = operation.args.as_args();
    out.array(parts.len());
    command::keys(operation.spec, args, &mut |position, _| {
        let group = group_of_key(groups, args.arg(position));
        let part = parts.iter().find(|(other, _)| *other == group);
        let (_, reply) = part.expect("every key's group answered");
        out.raw(reply);
    });
}

/// Each part is `*2 :count key-or-nil`: one is drawn by its count.
fn merge_random_key(parts: &[(GroupId, &[u8])], prng: &mut Prng, out: &mut ReplyWriter<'_>) {
    let split = |part: &[u8]| {
        let (_, at) = parse_array_header(part)?;
        let length = skip_value(&part[at..])?;
        Some((integer(&part[at..at + length]) as u64, at + length))
    };
    let mut candidates: Vec<(u64, &[u8])> = Vec::new();
    for (_, part) in parts {
        let (count, key_at) = split(part).expect("a group answers a count and a key");
        let key = &part[key_at..];
        // A nil is `$-1` or `_`; only keys begin with a length.
        if count > 0 && key.starts_with(b"$") && !key.starts_with(b"$-") {
            candidates.push((count, key));
        }
    }
    let total: u64 = candidates.iter().map(|(count, _)| count).sum();
    if total == 0 {
        return out.null();
    }
    let mut drawn = prng.below(total);
    for (count, key) in candidates {
        if drawn < count {
            return out.raw(key);
        }
        drawn -= count;
    }
}
