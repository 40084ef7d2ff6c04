//! `MULTI`, `EXEC` and `WATCH`.

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::dispatch::{Dispatch, refuse};
use crate::gather::Gather;
use crate::idempotency::name_block;
use crate::program::{Item, Program, group_of_key};
use crate::session::{Block, Queued, Session, Watched};
use crate::whole_keyspace;
use command::{CommandId, CommandRoute, Flags, ReplyError};
use ids::{GroupId, SemanticsVersion};
use keyspace::KeyVersion;
use replica::{Condition, IndexedKey, Operation, ReplyTo, Request};
use resp::{Args, Protocol, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use txn::{Locks, Mode};

impl Dispatch<'_> {
    /// Queues a command in the open block; `false` if it is one of those that act at once.
    pub(crate) fn queue(&mut self) -> bool {
        let (spec, args) = (self.spec, self.args);
        match spec.id {
            CommandId::Exec
            | CommandId::Discard
            | CommandId::Multi
            | CommandId::Watch
            | CommandId::Quit
            | CommandId::Reset => return false,
            _ if spec.flags.contains(Flags::NO_MULTI) => {
                self.refuse(&ReplyError::NotInTransaction);
                return true;
            }
            _ => {}
        }
        if spec.flags.contains(Flags::DENYOOM) && !self.gateway.make_room() {
            self.reject(&ReplyError::OutOfMemory);
            return true;
        }
        let (cx, connection) = (&self.gateway.cx, &mut *self.connection);
        let limit = cx.settings.client_query_buffer_limit;
        let block = connection.session.block.as_mut().expect("the caller saw it");
        block.bytes += args.byte_len() + size_of::<Queued>();
        if block.bytes as u64 > limit {
            // As Redis does with a query buffer that outgrows its limit: nothing else would bound it.
            cx.stats.input_limit_closes.add(1);
            connection.session.is_closing = true;
            connection.session.block = None;
            return true;
        }
        block.has_place |= matches!(spec.route, CommandRoute::Keys | CommandRoute::Script);
        block.commands.push(Queued {
            spec,
            args: args.to_buf(),
        });
        let queued = i32::try_from(block.commands.len()).unwrap_or(i32::MAX);
        connection.session.info.queued.store(queued, Ordering::Relaxed);
        connection.writer().simple("QUEUED");
        true
    }

    /// `EXEC`.
    pub(crate) fn on_exec(&mut self) {
        let (gateway, connection) = (&mut *self.gateway, &mut *self.connection);
        let Some(block) = end_block(&mut connection.session) else {
            return ReplyError::ExecWithoutMulti.write(&mut connection.writer());
        };
        let watched = std::mem::take(&mut connection.session.watched);
        note_watched(&connection.session);
        if block.is_broken {
            return ReplyError::ExecAbort.write(&mut connection.writer());
        }
        let denied = block
            .commands
            .iter()
            .any(|queued| queued.spec.flags.contains(Flags::DENYOOM));
        if denied && !gateway.make_room() {
            let reason = ReplyError::OutOfMemory.bytes();
            let error = ReplyError::quoting("EXECABORT Transaction discarded because of: ", &reason, "");
            return error.write(&mut connection.writer());
        }
        let conditions = watched
            .into_iter()
            .map(|Watched { db, key, version }| Condition::Unchanged { db, key, version });
        let scope = gateway.cx.scope(&connection.session);
        let mut program = Program {
            items: Arc::default(),
            conditions: conditions.collect(),
            request: None,
            is_exec: true,
            scope,
            scripted: None,
        };
        let mut items = Vec::new();
        let (mut db, mut protocol) = (connection.session.db, connection.session.protocol);
        for Queued { spec, args } in block.commands {
            if spec.route != CommandRoute::Connection {
                let is_scan = spec.route == CommandRoute::Scan;
                let scan = is_scan.then(|| gateway.cx.scan_on(&connection.session, args.as_args()));
                let args = scan.flatten().unwrap_or(args);
                items.push(Item::Operation(Operation {
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
                    protocol = crate::commands::connection::protocol_of_hello(&gateway.cx, args.as_args())
                        .unwrap_or(protocol);
                }
                _ => {}
            }
            items.push(Item::Connection(Queued { spec, args }));
        }
        program.items = Arc::new(items);
        if let Some(id) = block.request
            && let Err(error) = name_block(&connection.session, &mut program, id)
        {
            return connection.writer().error(error);
        }
        let is_script = |operation: &Operation| operation.spec.route == CommandRoute::Script;
        if program.operations().any(is_script) {
            let is_refused = |operation: &Operation| {
                matches!(
                    operation.spec.route,
                    CommandRoute::Everywhere | CommandRoute::Scan
                ) && !whole_keyspace::may_be_called(operation.spec.id)
            };
            if program.operations().any(is_refused) {
                return connection.writer().error(NOT_BESIDE_SCRIPTS);
            }
            let sees_whole = |operation: &Operation| {
                matches!(
                    operation.spec.route,
                    CommandRoute::Everywhere | CommandRoute::Scan
                )
            };
            let knows_how = gateway.cx.turn.semantics >= SemanticsVersion::HOLDER_READS;
            if !knows_how && program.operations().any(sees_whole) {
                return connection.writer().error(NOT_YET_BESIDE_SCRIPTS);
            }
            let is_out_of_memory = !gateway.make_room();
            program.look_at_scripts(&mut gateway.cx, is_out_of_memory);
        }
        gateway.begin(connection, program);
    }
}

const NOT_YET_BESIDE_SCRIPTS: &str = "EXECABORT Transaction discarded because of: commands on the whole keyspace do not go together with scripts \
                                      while a node of the cluster may be of a build that does not know how: start all nodes with this build first";

const NOT_BESIDE_SCRIPTS: &str = "EXECABORT Transaction discarded because of: a command on the whole keyspace that scripts cannot call, such \
                                  as SWAPDB, does not go together with scripts";

/// Connections whose `WATCH` waits for the versions of keys that groups were asked for. Bounded by the connections.
#[derive(Default)]
pub(crate) struct Watching(Gather<Vec<Watched>>);

impl Watching {
    /// `WATCH`: versions of keys, from wherever they live.
    pub(crate) fn on_watch(&mut self, cx: &mut Context, connection: &mut Connection, keys: Args<'_>) {
        if connection.session.watched.len() + keys.len() > Session::WATCHED_MAX {
            let error = ReplyError::quoting("ERR too many watched keys", b"", "");
            return error.write(&mut connection.writer());
        }
        let db = connection.session.db;
        let mut asked: BTreeMap<GroupId, Vec<IndexedKey>> = BTreeMap::new();
        let watched = connection.session.watched.iter();
        let known = watched.filter(|watched| watched.db == db);
        let mut known: BTreeSet<Box<[u8]>> = known.map(|watched| watched.key.clone()).collect();
        let mut watched: Vec<Watched> = Vec::new();
        for key in keys.iter() {
            if !known.insert(key.into()) {
                continue;
            }
            let group = group_of_key(cx.groups, key);
            let locks = || Locks::Keys(vec![(key.into(), Mode::Shared)]);
            let free = cx
                .local
                .index(group)
                .filter(|index| cx.local.replicas[*index].is_free(locks));
            let version = match free {
                Some(index) => cx.local.replicas[index].state_mut().version(&cx.turn, db, key),
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
            connection.session.watched.append(&mut watched);
            note_watched(&connection.session);
            return connection.writer().ok();
        }
        let reply_to = cx.reserve(connection);
        connection.session.in_flight.is_waiting = true;
        self.0.begin(reply_to, watched, asked.len());
        for (group, keys) in asked {
            cx.request(group, Request::Watch { reply_to, keys });
        }
    }

    /// A group has told the versions of its watched keys.
    pub(crate) fn on_versions(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        versions: Vec<(usize, KeyVersion)>,
    ) {
        let watched = self.0.on_answer(reply_to, |watched| {
            for (at, version) in versions {
                watched[at].version = version;
            }
        });
        cx.outbox
            .deliveries
            .extend(watched.map(|watched| Delivery::Watched { reply_to, watched }));
    }

    /// Says whether a `WATCH` waits for nobody.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.0.check()
    }

    /// A group could not be asked for the versions of keys. The client is told of the first one.
    pub(crate) fn on_failed(&mut self, cx: &mut Context, reply_to: ReplyTo, error: &'static str) {
        if self.0.forget(reply_to) {
            let mut bytes = Vec::new();
            ReplyWriter::new(&mut bytes, Protocol::Resp2).error(error);
            cx.deliver(Delivery::Awaited { reply_to, bytes });
        }
    }
}

/// `EXEC` with too many words: as in Redis, the transaction is over all the same.
pub(crate) fn abort_exec(cx: &mut Context, connection: &mut Connection, error: &ReplyError) {
    end_block(&mut connection.session);
    connection.session.watched.clear();
    note_watched(&connection.session);
    let text = error.bytes();
    let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
    let error = ReplyError::quoting("EXECABORT Transaction discarded because of: ", reason, "");
    refuse(cx, connection, &error);
}

/// Ends the open block, whatever for.
pub(crate) fn end_block(session: &mut Session) -> Option<Block> {
    session.info.queued.store(-1, Ordering::Relaxed);
    session.block.take()
}

/// Shows `CLIENT LIST` how many keys are watched.
pub(crate) fn note_watched(session: &Session) {
    let watched = session.watched.len() as u64;
    session.info.watched.store(watched, Ordering::Relaxed);
}
