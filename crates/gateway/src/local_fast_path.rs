//! Commands and programs over groups that all live on this worker and are free: one step, and nothing can come between
//! its parts.

use crate::connection::Connection;
use crate::delivery::refused;
use crate::endpoint::Scope;
use crate::gateway::Gateway;
use crate::program::{Extent, Item, Program, group_of_key, integer, key_step, names_more};
use crate::timing::Caller;
use command::{Command, KeyUse, Merge, ReplyError, Route, Spec, Spread};
use ids::{Db, GroupId};
use keyspace::KeyVersion;
use replica::{Operation, Replica, Returned, Scratch, locks_of, with_conditions};
use resp::{Args, Protocol, Writer, parse_array_header, skip_value};
use txn::{Locks, Mode};

impl Gateway {
    /// Whether all groups of a command live here and are free: then it is one step, and nothing can come
    /// between its parts.
    pub(crate) fn is_one_step(&self, spec: &'static Spec, args: Args<'_>, scope: &Scope) -> bool {
        if spec.route == Route::Everywhere {
            let mut concerned = self
                .groups
                .iter()
                .filter(|group| scope.holds(self.groups, spec, args, *group));
            return concerned.all(|group| self.is_free_here(group, spec, args));
        }
        if names_more(spec, args) && !self.is_idle_and_whole() {
            return false;
        }
        let mut free = true;
        command::keys(spec, args, &mut |position, key_use| {
            let key = args.arg(position);
            let mode = if key_use == KeyUse::Read {
                Mode::Shared
            } else {
                Mode::Exclusive
            };
            let locks = || Locks::Keys(vec![(key.into(), mode)]);
            let index = self.local_of(key);
            free = free && index.is_some_and(|index| self.replicas[index].is_free(locks));
        });
        free
    }

    /// Whether a command whose keys all live here has them for itself.
    pub(crate) fn has_alone(&self, spec: &'static Spec, args: Args<'_>) -> bool {
        let mut is_alone = true;
        command::keys(spec, args, &mut |position, _| {
            let key = args.arg(position);
            let index = self.local_of(key);
            let locks = || txn::Locks::Keys(vec![(key.into(), Mode::Exclusive)]);
            is_alone = is_alone && index.is_some_and(|index| self.replicas[index].is_free(locks));
        });
        is_alone
    }

    /// Whether all groups live here and no transaction is under way: then any key can be read at once.
    pub(crate) fn is_idle_and_whole(&self) -> bool {
        let is_free = |replica: &Replica| replica.is_idle() && !replica.has_log();
        self.replicas.len() == usize::from(self.groups.get()) && self.replicas.iter().all(is_free)
    }

    /// Whether all groups of a program live here and are free.
    pub(crate) fn can_run_here(&self, program: &Program, extent: &Extent) -> bool {
        let groups = self.groups;
        if extent.wants && !self.is_idle_and_whole() {
            return false;
        }
        extent.groups.iter().all(|group| {
            self.local(*group).is_some_and(|index| {
                self.replicas[index].is_free(|| {
                    let commands = program.operations().map(Operation::words);
                    let is_ours = |key: &[u8]| group_of_key(groups, key) == *group;
                    let conditions = program.conditions.iter();
                    let conditions = conditions.filter(|condition| is_ours(condition.key())).cloned();
                    // What is watched may be about to change, though no command here names it.
                    with_conditions(locks_of(commands, is_ours), &conditions.collect::<Vec<_>>())
                })
            })
        })
    }

    /// Carries out a program whose groups all live here and are free ([`Gateway::can_run_here`]).
    pub(crate) fn run_program_here(&mut self, connection: &mut Connection, program: &Program) {
        let Connection {
            session, pipeline, ..
        } = connection;
        let out = pipeline.target();
        for condition in &program.conditions {
            let group = group_of_key(self.groups, condition.key());
            let index = self.local(group).expect("the caller looked");
            if !self.replicas[index]
                .state_mut()
                .holds(&self.turn, std::slice::from_ref(condition))
            {
                return refused(program, session.protocol, out);
            }
        }
        if program.is_exec {
            Writer::new(out, session.protocol).array(program.items.len());
        }
        let mut began = self.timing.now();
        for item in &program.items {
            let start = out.len();
            let (spec, args) = match item {
                Item::Connection(queued) => {
                    self.count(queued.spec);
                    self.run_own(session, queued.spec, queued.args.as_args(), out);
                    self.show(session, session.db, queued.spec, queued.args.as_args());
                    (queued.spec, queued.args.as_args())
                }
                Item::Operation(operation) => {
                    self.count(operation.spec);
                    // `SELECT` and `HELLO` before it in the block have been carried out.
                    let mut writer = Writer::new(out, session.protocol);
                    let (spec, args) = operation.words();
                    match operation.parse() {
                        Ok(Command::Scan { .. }) => self.scan_here(session.db, spec, args, &mut writer),
                        Ok(command) => {
                            self.run_here(session.db, spec, args, &command, &program.scope, &mut writer)
                        }
                        Err(error) => error.write(&mut writer),
                    }
                    if program.is_exec {
                        self.show(session, session.db, spec, args);
                    }
                    (spec, args)
                }
            };
            self.look_at_reply(Some(spec), &out[start..]);
            let ended = self.timing.now();
            self.note_time(
                spec,
                ended.saturating_sub(began),
                args,
                Caller::Here(&session.info),
            );
            began = ended;
        }
    }

    /// Carries out a command whose groups all live here and are free.
    pub(crate) fn run_here(
        &mut self,
        db: Db,
        spec: &'static Spec,
        args: Args<'_>,
        command: &Command<'_>,
        scope: &Scope,
        out: &mut Writer<'_>,
    ) {
        match (spec.route, spec.spread) {
            (Route::Everywhere, Spread::Split(merge)) => {
                let groups = self.groups;
                let is_concerned = |group| scope.holds(groups, spec, args, group);
                self.run_everywhere(db, merge, command, is_concerned, out);
            }
            (_, Spread::Split(merge)) => self.run_split(db, spec, args, merge, command, &[], out),
            (_, Spread::IfAllAbsent) => self.run_if_all_absent(db, command, out),
            (_, Spread::AllOrNothing | Spread::ValueFlow) => self.run_flow(db, spec, args, out),
            (_, Spread::Single) => {
                let mut group = GroupId::new(0);
                command::keys(spec, args, &mut |position, _| {
                    group = group_of_key(self.groups, args.arg(position));
                });
                let index = self.local(group).expect("the caller looked");
                self.replicas[index].execute(&self.turn, db, command, out);
                self.tell(index);
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
        &mut self,
        db: Db,
        spec: &'static Spec,
        args: Args<'_>,
        merge: Merge,
        command: &Command<'_>,
        elsewhere: &[u8],
        out: &mut Writer<'_>,
    ) {
        if elsewhere.starts_with(b"-") {
            // It was too long there already.
            return out.raw(elsewhere);
        }
        let step = key_step(spec);
        let mut sum = 0;
        let mut elements = &elsewhere[parse_array_header(elsewhere).map_or(0, |(_, header)| header)..];
        let mut part = std::mem::take(&mut self.spare);
        let bound = out.bound(self.turn.answers_bytes_max);
        if merge == Merge::ByPosition {
            out.array((args.len() - 1) / step);
        }
        for at in (1..args.len()).step_by(step) {
            let group = group_of_key(self.groups, args.arg(at));
            let Some(index) = self.local(group) else {
                if merge == Merge::ByPosition {
                    let length = skip_value(elements).expect("one element for each key that is elsewhere");
                    out.raw(&elements[..length]);
                    elements = &elements[length..];
                }
                continue;
            };
            part.clear();
            let mut writer = Writer::new(&mut part, out.protocol());
            let one = with_keys(command, args.slice(at..at + step));
            self.replicas[index].execute(&self.turn, db, &one, &mut writer);
            self.tell(index);
            match merge {
                Merge::Ok | Merge::Concatenate | Merge::RandomKey => {}
                Merge::Sum => sum += i64::from(part == b":1\r\n"),
                // An array of one element: what follows its header is the element. It may be too long by itself.
                Merge::ByPosition => match part.strip_prefix(b"*1\r\n") {
                    Some(element) => out.raw(element),
                    None => out.pass_bound(),
                },
            }
        }
        self.spare = part;
        if !out.end_bound(bound) {
            return ReplyError::RepliesTooLong.write(out);
        }
        match merge {
            Merge::Ok => out.ok(),
            Merge::Sum if elsewhere.is_empty() => out.integer(sum),
            Merge::Sum => out.integer(sum + integer(elsewhere)),
            Merge::ByPosition | Merge::Concatenate | Merge::RandomKey => {}
        }
    }

    pub(crate) fn run_everywhere(
        &mut self,
        db: Db,
        merge: Merge,
        command: &Command<'_>,
        is_concerned: impl Fn(GroupId) -> bool,
        out: &mut Writer<'_>,
    ) {
        let protocol = out.protocol();
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        let mut ends = Vec::with_capacity(self.replicas.len());
        for replica in &mut self.replicas {
            if is_concerned(replica.group()) {
                replica.execute(&self.turn, db, command, &mut Writer::new(&mut bytes, protocol));
                ends.push((replica.group(), bytes.len()));
            }
        }
        let mut start = 0;
        let mut parts = Vec::with_capacity(ends.len());
        for (group, end) in ends {
            parts.push((group, &bytes[start..end]));
            start = end;
        }
        let bound = out.bound(self.turn.answers_bytes_max);
        match parts.iter().find(|(_, part)| part.starts_with(b"-")) {
            Some((_, error)) => out.raw(error),
            None => crate::program::merge_parts(merge, &parts, &mut self.prng, out),
        }
        if !out.end_bound(bound) {
            ReplyError::RepliesTooLong.write(out);
        }
        self.spare = bytes;
        self.tell_all();
    }

    pub(crate) fn run_if_all_absent(&mut self, db: Db, command: &Command<'_>, out: &mut Writer<'_>) {
        let &Command::MSetNx { pairs } = command else {
            unreachable!("only MSETNX asks for absent keys in several groups");
        };
        let is_absent = pairs.iter().step_by(2).all(|key| {
            let index = self.local_of(key).expect("the caller looked");
            matches!(
                self.replicas[index].state_mut().version(&self.turn, db, key),
                KeyVersion::Absent(_)
            )
        });
        if is_absent {
            let mut ignored = Vec::new();
            for at in (0..pairs.len()).step_by(2) {
                let index = self.local_of(pairs.arg(at)).expect("the caller looked");
                let pair = Command::MSet {
                    pairs: pairs.slice(at..at + 2),
                };
                let mut writer = Writer::new(&mut ignored, Protocol::Resp2);
                self.replicas[index].execute(&self.turn, db, &pair, &mut writer);
                self.tell(index);
            }
        }
        out.integer(i64::from(is_absent));
    }

    /// A command that carries values between groups that all live here.
    pub(crate) fn run_flow(&mut self, db: Db, spec: &'static Spec, args: Args<'_>, out: &mut Writer<'_>) {
        let operation = Operation {
            spec,
            db,
            protocol: out.protocol(),
            args: args.to_buf(),
        };
        let mut scratch = self.turn.scratch_in(self.scratch.take(), self.turn.now);
        scratch.set_limits(self.compactness);
        scratch.bound_answers(self.turn.answers_bytes_max.saturating_sub(out.byte_len()));
        let databases = replica::databases([&operation]);
        operation.keys(|key, _| {
            let index = self.local_of(key).expect("the caller looked");
            for &db in &databases {
                // Lent, not copied: nothing can come between, and values may be large.
                scratch.place_once(db, key, || {
                    self.replicas[index].state_mut().lend_object(&self.turn, db, key)
                });
            }
        });
        loop {
            let wanted = scratch.wanted(&operation.as_state());
            for (db, key) in &wanted {
                let index = self.local_of(key).expect("the caller looked");
                scratch.place(
                    *db,
                    key,
                    self.replicas[index].state_mut().lend_object(&self.turn, *db, key),
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
        let groups = self.groups;
        scratch.take_back(|returned| {
            let index = group_of_key(groups, returned.key()).index() - self.first_group;
            let replica = &mut self.replicas[index];
            match returned {
                Returned::Unchanged(db, object) => replica.state_mut().take_back_object(db, object),
                Returned::Changed(effect) => replica.state_mut().install(&self.turn, vec![effect]),
            }
        });
        self.replicas[0].state_mut().adopt_garbage(scratch.take_garbage());
        self.scratch = Some(scratch).filter(Scratch::is_small);
        if !events.is_empty() {
            self.tell_events(events);
        }
    }
}

/// The same command on other keys.
fn with_keys<'a>(command: &Command<'a>, keys: Args<'a>) -> Command<'a> {
    match command {
        Command::MGet { .. } => Command::MGet { keys },
        Command::MSet { .. } => Command::MSet { pairs: keys },
        Command::Del { .. } => Command::Del { keys },
        Command::Exists { .. } => Command::Exists { keys },
        Command::Touch { .. } => Command::Touch { keys },
        _ => unreachable!("{command:?} is not split by keys"),
    }
}
