//! `MULTI`, `EXEC` and `WATCH`.

use crate::delivery::Delivery;
use crate::gateway::Gateway;
use crate::pipeline::Pipeline;
use crate::program::{Item, Program, group_of_key};
use crate::session::{Block, Queued, Session, Watched};
use command::{CommandId, Flags, ReplyError, Route, Spec};
use ids::GroupId;
use keyspace::KeyVersion;
use replica::{Condition, IndexedKey, Operation, Request, Ticket};
use resp::Args;
use std::collections::{BTreeMap, BTreeSet};
use txn::{Locks, Mode};

impl Gateway {
    /// Queues a command in the open block; `false` if it is one of those that act at once.
    pub(crate) fn queue(
        &mut self,
        session: &mut Session,
        pipeline: &mut Pipeline,
        spec: &'static Spec,
        args: Args<'_>,
    ) -> bool {
        match spec.id {
            CommandId::Exec
            | CommandId::Discard
            | CommandId::Multi
            | CommandId::Watch
            | CommandId::Quit
            | CommandId::Reset => return false,
            _ if spec.flags.contains(Flags::NO_MULTI) => {
                self.refuse(session, pipeline, &ReplyError::NotInTransaction);
                return true;
            }
            _ => {}
        }
        if spec.flags.contains(Flags::DENYOOM) && !self.make_room() {
            self.stats.by_command[spec.id].rejected.add(1);
            self.refuse(session, pipeline, &ReplyError::OutOfMemory);
            return true;
        }
        let limit = self.settings.client_query_buffer_limit;
        let block = session.block.as_mut().expect("the caller saw it");
        block.bytes += args.byte_len() + size_of::<Queued>();
        if block.bytes as u64 > limit {
            // As Redis does with a query buffer that outgrows its limit: nothing else would bound it.
            self.stats.input_limit_closes.add(1);
            session.is_closing = true;
            session.block = None;
            return true;
        }
        block.has_place |= spec.route == Route::Keys;
        block.commands.push(Queued {
            spec,
            args: args.to_buf(),
        });
        let queued = i32::try_from(block.commands.len()).unwrap_or(i32::MAX);
        session
            .card
            .queued
            .store(queued, std::sync::atomic::Ordering::Relaxed);
        pipeline.writer(session.protocol).simple("QUEUED");
        true
    }

    /// `EXEC`.
    pub(crate) fn on_exec(&mut self, session: &mut Session, pipeline: &mut Pipeline) {
        let Some(block) = end_block(session) else {
            return ReplyError::ExecWithoutMulti.write(&mut pipeline.writer(session.protocol));
        };
        let watched = std::mem::take(&mut session.watched);
        session
            .card
            .watched
            .store(0, std::sync::atomic::Ordering::Relaxed);
        if block.is_broken {
            return ReplyError::ExecAbort.write(&mut pipeline.writer(session.protocol));
        }
        let denied = block
            .commands
            .iter()
            .any(|queued| queued.spec.flags.contains(Flags::DENYOOM));
        if denied && !self.make_room() {
            let reason = ReplyError::OutOfMemory.bytes();
            let error = ReplyError::quoting("EXECABORT Transaction discarded because of: ", &reason, "");
            return error.write(&mut pipeline.writer(session.protocol));
        }
        let conditions = watched
            .into_iter()
            .map(|Watched { db, key, version }| Condition::Unchanged { db, key, version });
        let scope = self.scope(session);
        let mut program = Program {
            items: Vec::new(),
            conditions: conditions.collect(),
            request: None,
            is_exec: true,
            scope,
        };
        let (mut db, mut protocol) = (session.db, session.protocol);
        for Queued { spec, args } in block.commands {
            if spec.route != Route::Connection {
                let scan = (spec.route == Route::Scan).then(|| self.scan_on(session, args.as_args()));
                let args = scan.flatten().unwrap_or(args);
                program.items.push(Item::Operation(Operation {
                    spec,
                    db,
                    protocol,
                    args,
                }));
                continue;
            }
            // Those that change how the following ones are understood are looked at now.
            match spec.id {
                CommandId::Select => {
                    let number = command::number::parse_db(args.as_args().arg(1));
                    db = number.unwrap_or(db);
                }
                CommandId::Hello => {
                    protocol = self.protocol_of_hello(args.as_args()).unwrap_or(protocol);
                }
                _ => {}
            }
            program.items.push(Item::Connection(Queued { spec, args }));
        }
        if let Some(id) = block.request
            && let Err(error) = self.name_block(session, &mut program, id)
        {
            return pipeline.writer(session.protocol).error(error);
        }
        self.begin(session, pipeline, program);
    }

    /// `EXEC` with too many words: as in Redis, the transaction is over all the same.
    pub(crate) fn abort_exec(&mut self, session: &mut Session, pipeline: &mut Pipeline, error: &ReplyError) {
        end_block(session);
        session.watched.clear();
        note_watched(session);
        let text = error.bytes();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        let error = ReplyError::quoting("EXECABORT Transaction discarded because of: ", reason, "");
        self.refuse(session, pipeline, &error);
    }

    /// `WATCH`: versions of keys, from wherever they live.
    pub(crate) fn on_watch(&mut self, session: &mut Session, pipeline: &mut Pipeline, keys: Args<'_>) {
        if session.watched.len() + keys.len() > Session::WATCHED_MAX {
            let error = ReplyError::quoting("ERR too many watched keys", b"", "");
            return error.write(&mut pipeline.writer(session.protocol));
        }
        let db = session.db;
        let mut asked: BTreeMap<GroupId, Vec<IndexedKey>> = BTreeMap::new();
        let mut watched: Vec<Watched> = Vec::new();
        let mut known: BTreeSet<Box<[u8]>> = session
            .watched
            .iter()
            .filter(|watched| watched.db == db)
            .map(|watched| watched.key.clone())
            .collect();
        for key in keys.iter() {
            if !known.insert(key.into()) {
                continue;
            }
            let group = group_of_key(self.groups, key);
            let locks = || Locks::Keys(vec![(key.into(), Mode::Shared)]);
            let free = self
                .local(group)
                .filter(|index| self.replicas[*index].is_free(locks));
            let version = match free {
                Some(index) => self.replicas[index].state_mut().version(&self.turn, db, key),
                None => {
                    asked
                        .entry(group)
                        .or_default()
                        .push((watched.len(), db, key.into()));
                    KeyVersion::Absent(ids::Version(0))
                }
            };
            watched.push(Watched {
                db,
                key: key.into(),
                version,
            });
        }
        if asked.is_empty() {
            session.watched.append(&mut watched);
            note_watched(session);
            return pipeline.writer(session.protocol).ok();
        }
        let ticket = self.reserve(session, pipeline);
        session.is_waiting = true;
        self.watches.begin(ticket, watched, asked.len());
        for (group, keys) in asked {
            self.request(group, Request::Watch { ticket, keys });
        }
    }

    /// A group has told the versions of its watched keys.
    pub(crate) fn on_versions(&mut self, ticket: Ticket, versions: Vec<(usize, KeyVersion)>) {
        let watched = self.watches.on_answer(ticket, |watched| {
            for (at, version) in versions {
                watched[at].version = version;
            }
        });
        self.deliveries
            .extend(watched.map(|watched| Delivery::Watched { ticket, watched }));
    }
}

/// Ends the open block, whatever for.
pub(crate) fn end_block(session: &mut Session) -> Option<Block> {
    session
        .card
        .queued
        .store(-1, std::sync::atomic::Ordering::Relaxed);
    session.block.take()
}

/// Shows `CLIENT LIST` how many keys are watched.
pub(crate) fn note_watched(session: &Session) {
    session
        .card
        .watched
        .store(session.watched.len() as u64, std::sync::atomic::Ordering::Relaxed);
}
