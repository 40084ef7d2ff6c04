//! Commands and programs over groups that all live on this worker and are free: one step, and nothing can come between
//! its parts.

use crate::commands;
use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::refused;
use crate::endpoint::Scope;
use crate::gateway::Gateway;
use crate::program::{Item, Program, group_of_key, integer, key_step};
use crate::timing::Caller;
use command::{Command, CommandRoute, Merge, ReplyError, Spec, Spread, StreamCommand};
use ids::{Db, GroupId};
use keyspace::KeyVersion;
use replica::{Operation, Returned, Scratch};
use resp::{Args, Protocol, ReplyWriter, parse_array_header, skip_value};

/// Carries out a command whose groups all live here and are free.
pub(crate) fn run_here(
    cx: &mut Context,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    command: &Command<'_>,
    scope: &Scope,
    out: &mut ReplyWriter<'_>,
) {
    match (spec.route, spec.spread) {
        (CommandRoute::Everywhere, Spread::Split(merge)) => {
            let groups = cx.groups;
            let is_concerned = |group| scope.holds(groups, spec, args, group);
            run_everywhere(cx, db, merge, command, is_concerned, out);
        }
        (_, Spread::Split(Merge::Streams)) => run_streams(cx, db, spec, args, out),
        (_, Spread::Split(merge)) => run_split(cx, db, spec, args, merge, command, &[], out),
        (_, Spread::IfAllAbsent) => run_if_all_absent(cx, db, command, out),
        (_, Spread::AllOrNothing | Spread::ValueFlow) => run_flow(cx, db, spec, args, out),
        (_, Spread::Single) => {
            let mut group = GroupId::new(0);
            command::keys(spec, args, &mut |position, _| {
                group = group_of_key(cx.groups, args.arg(position));
            });
            let index = cx.local.index(group).expect("the caller looked");
            cx.local.replicas[index].execute(&cx.turn, db, command, out);
            cx.local.note_events(index);
        }
    }
}

/// Each group's part of a command, key by key: a group's own share of keys may be scattered among others',
/// and nothing can come between. For keys that live elsewhere stands what was answered there to all of them together.
#[expect(
    clippy::too_many_arguments,
    reason = "a command, what is known of it, and where its parts go"
)]
pub(crate) fn run_split(
    cx: &mut Context,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    merge: Merge,
    command: &Command<'_>,
    elsewhere: &[u8],
    out: &mut ReplyWriter<'_>,
) {
    if elsewhere.starts_with(b"-") {
        // It was too long there already.
        return out.raw(elsewhere);
    }
    let step = key_step(spec);
    let mut sum = 0;
    let mut elements = &elsewhere[parse_array_header(elsewhere).map_or(0, |(_, header)| header)..];
    let mut part = std::mem::take(&mut cx.local.spare);
    let bound = out.bound(cx.turn.answers_bytes_max);
    if merge == Merge::ByPosition {
        out.array((args.len() - 1) / step);
    }
    for at in (1..args.len()).step_by(step) {
        let group = group_of_key(cx.groups, args.arg(at));
        let Some(index) = cx.local.index(group) else {
            if merge == Merge::ByPosition {
                let length = skip_value(elements).expect("one element for each key that is elsewhere");
                out.raw(&elements[..length]);
                elements = &elements[length..];
            }
            continue;
        };
        part.clear();
        let mut writer = ReplyWriter::new(&mut part, out.protocol());
        let one = with_keys(command, args.slice(at..at + step));
        cx.local.replicas[index].execute(&cx.turn, db, &one, &mut writer);
        cx.local.note_events(index);
        match merge {
            Merge::Ok | Merge::Streams | Merge::Concatenate | Merge::RandomKey => {}
            Merge::Sum => sum += i64::from(part == b":1\r\n"),
            // An array of one element: what follows its header is the element. It may be too long by itself.
            Merge::ByPosition => match part.strip_prefix(b"*1\r\n") {
                Some(element) => out.raw(element),
                None => out.pass_bound(),
            },
        }
    }
    cx.local.spare = part;
    if !out.end_bound(bound) {
        return ReplyError::RepliesTooLong.write(out);
    }
    match merge {
        Merge::Ok => out.ok(),
        Merge::Sum if elsewhere.is_empty() => out.integer(sum),
        Merge::Sum => out.integer(sum + integer(elsewhere)),
        Merge::ByPosition | Merge::Streams | Merge::Concatenate | Merge::RandomKey => {}
    }
}

pub(crate) fn run_everywhere(
    cx: &mut Context,
    db: Db,
    merge: Merge,
    command: &Command<'_>,
    is_concerned: impl Fn(GroupId) -> bool,
    out: &mut ReplyWriter<'_>,
) {
    let protocol = out.protocol();
    let mut bytes = std::mem::take(&mut cx.local.spare);
    bytes.clear();
    let mut ends = Vec::with_capacity(cx.local.replicas.len());
    for replica in &mut cx.local.replicas {
        if is_concerned(replica.group()) {
            replica.execute(&cx.turn, db, command, &mut ReplyWriter::new(&mut bytes, protocol));
            ends.push((replica.group(), bytes.len()));
        }
    }
    let mut start = 0;
    let mut parts = Vec::with_capacity(ends.len());
    for (group, end) in ends {
        parts.push((group, &bytes[start..end]));
        start = end;
    }
    let bound = out.bound(cx.turn.answers_bytes_max);
    match parts.iter().find(|(_, part)| part.starts_with(b"-")) {
        Some((_, error)) => out.raw(error),
        None => crate::program::merge_parts(merge, &parts, &mut cx.prng, out),
    }
    if !out.end_bound(bound) {
        ReplyError::RepliesTooLong.write(out);
    }
    cx.local.spare = bytes;
    (0..cx.local.replicas.len()).for_each(|index| cx.local.note_events(index));
}

pub(crate) fn run_if_all_absent(cx: &mut Context, db: Db, command: &Command<'_>, out: &mut ReplyWriter<'_>) {
    let &Command::MSetNx { pairs } = command else {
        unreachable!("only MSETNX asks for absent keys in several groups");
    };
    let is_absent = pairs.iter().step_by(2).all(|key| {
        let index = cx.local.index_of_key(key).expect("the caller looked");
        matches!(
            cx.local.replicas[index].state_mut().version(&cx.turn, db, key),
            KeyVersion::Absent(_)
        )
    });
    if is_absent {
        let mut ignored = Vec::new();
        for at in (0..pairs.len()).step_by(2) {
            let index = cx.local.index_of_key(pairs.arg(at)).expect("the caller looked");
            let pair = Command::MSet {
                pairs: pairs.slice(at..at + 2),
            };
            let mut writer = ReplyWriter::new(&mut ignored, Protocol::Resp2);
            cx.local.replicas[index].execute(&cx.turn, db, &pair, &mut writer);
            cx.local.note_events(index);
        }
    }
    out.integer(i64::from(is_absent));
}

/// `XREAD`: each group's streams, and nothing can come between.
fn run_streams(cx: &mut Context, db: Db, spec: &'static Spec, args: Args<'_>, out: &mut ReplyWriter<'_>) {
    let operation = Operation {
        spec,
        db,
        protocol: out.protocol(),
        args: args.to_buf(),
    };
    let parts = crate::program::parts_of(&operation, cx.groups, &Scope::Cluster);
    let mut replies = Vec::with_capacity(parts.len());
    for (group, part) in parts {
        let index = cx.local.index(group).expect("the caller looked");
        let mut reply = Vec::new();
        let mut writer = ReplyWriter::new(&mut reply, part.protocol);
        let command = part.parse().expect("it was parsed as a whole");
        cx.local.replicas[index].execute(&cx.turn, db, &command, &mut writer);
        cx.local.note_events(index);
        replies.push((group, reply));
    }
    let replies: Vec<(GroupId, &[u8])> = replies.iter().map(|(group, reply)| (*group, &**reply)).collect();
    let bound = out.bound(cx.turn.answers_bytes_max);
    crate::program::merge(&operation, cx.groups, &replies, &mut cx.prng, out);
    if !out.end_bound(bound) {
        ReplyError::RepliesTooLong.write(out);
    }
}

/// A command that carries values between groups that all live here.
pub(crate) fn run_flow(
    cx: &mut Context,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    out: &mut ReplyWriter<'_>,
) {
    let operation = Operation {
        spec,
        db,
        protocol: out.protocol(),
        args: args.to_buf(),
    };
    let mut scratch = cx.turn.scratch_in(cx.local.scratch.take(), cx.turn.now);
    scratch.set_limits(cx.limits);
    scratch.bound_answers(cx.turn.answers_bytes_max.saturating_sub(out.byte_len()));
    let databases = replica::databases([&operation]);
    operation.keys(|key, _| {
        let index = cx.local.index_of_key(key).expect("the caller looked");
        for &db in &databases {
            // Lent, not copied: nothing can come between, and values may be large.
            scratch.place_once(db, key, || {
                cx.local.replicas[index]
                    .state_mut()
                    .check_out_object(&cx.turn, db, key)
            });
        }
    });
    loop {
        let wanted = scratch.wanted(&operation.as_state());
        for (db, key) in &wanted {
            let index = cx.local.index_of_key(key).expect("the caller looked");
            scratch.place(
                *db,
                key,
                cx.local.replicas[index]
                    .state_mut()
                    .check_out_object(&cx.turn, *db, key),
            );
        }
        if wanted.is_empty() {
            break;
        }
    }
    let mut replies = replica::Replies::default();
    operation.run_on(&mut scratch, &mut replies);
    out.raw(replies.bytes());
    let events = scratch.take_events();
    let groups = cx.groups;
    scratch.check_in(|returned| {
        let group = group_of_key(groups, returned.key());
        let index = cx.local.index(group).expect("what is given back was lent here");
        let replica = &mut cx.local.replicas[index];
        match returned {
            Returned::Unchanged(db, object) => replica.state_mut().check_in_object(db, object),
            Returned::Changed(effect) => replica.state_mut().install(&cx.turn, vec![effect]),
        }
    });
    cx.local.replicas[0]
        .state_mut()
        .adopt_lazyfree(scratch.take_lazyfree());
    cx.local.scratch = Some(scratch).filter(Scratch::is_small);
    if let Some(first) = events.first() {
        let index = cx.local.index_of_key(&first.key).expect("the caller looked");
        cx.local.events.push((index, events));
    }
}

/// Carries out a program whose groups all live here and are free (`LocalGroups::can_run_here`).
pub(crate) fn run_program_here(gateway: &mut Gateway, connection: &mut Connection, program: &Program) {
    let Connection {
        session, pipeline, ..
    } = connection;
    let out = pipeline.target();
    for condition in &program.conditions {
        let group = group_of_key(gateway.cx.groups, condition.key());
        let index = gateway.cx.local.index(group).expect("the caller looked");
        if !gateway.cx.local.replicas[index]
            .state_mut()
            .holds(&gateway.cx.turn, std::slice::from_ref(condition))
        {
            return refused(program, session.protocol, out);
        }
    }
    if program.is_exec {
        ReplyWriter::new(out, session.protocol).array(program.items.len());
    }
    let mut began = gateway.cx.timing.now();
    for item in program.items.iter() {
        let start = out.len();
        let (spec, args) = match item {
            Item::Connection(queued) => {
                gateway.cx.count(queued.spec);
                commands::run_own(gateway, session, queued.spec, queued.args.as_args(), out);
                gateway.show(session, session.db, queued.spec, queued.args.as_args());
                (queued.spec, queued.args.as_args())
            }
            Item::Operation(operation) => {
                gateway.cx.count(operation.spec);
                // `SELECT` and `HELLO` before it in the block have been carried out.
                let mut writer = ReplyWriter::new(out, session.protocol);
                let (spec, args) = operation.argv();
                match operation.parse() {
                    Ok(Command::Scan { .. }) => {
                        crate::scan::scan_here(&mut gateway.cx, session.db, spec, args, &mut writer)
                    }
                    Ok(command) => run_here(
                        &mut gateway.cx,
                        session.db,
                        spec,
                        args,
                        &command,
                        &program.scope,
                        &mut writer,
                    ),
                    Err(error) => error.write(&mut writer),
                }
                gateway.tell_noted();
                if program.is_exec {
                    gateway.show(session, session.db, spec, args);
                }
                (spec, args)
            }
        };
        gateway.tell_noted();
        gateway.cx.look_at_reply(Some(spec), &out[start..]);
        let ended = gateway.cx.timing.now();
        gateway.cx.note_time(
            spec,
            ended.saturating_sub(began),
            args,
            Caller::Here(&session.info),
        );
        began = ended;
    }
}

/// The same command on other keys.
fn with_keys<'a>(command: &Command<'a>, keys: Args<'a>) -> Command<'a> {
    match command {
        Command::MGet { .. } => Command::MGet { keys },
        Command::MSet { .. } => Command::MSet { pairs: keys },
        Command::MRestore { .. } => Command::MRestore { triples: keys },
        Command::Del { .. } => Command::Del { keys },
        Command::Exists { .. } => Command::Exists { keys },
        Command::Touch { .. } => Command::Touch { keys },
        Command::Stream(StreamCommand::LastIds { .. }) => Command::Stream(StreamCommand::LastIds { keys }),
        _ => unreachable!("{command:?} is not split by keys"),
    }
}
