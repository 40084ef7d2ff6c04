//! What scripts call that no group takes part in, and what they may not call.

use crate::commands;
use crate::pubsub::SubscriptionKind;
use crate::script_program::Rules;
use crate::script_reply;
use crate::session::Queued;
use crate::shared::Shared;
use crate::whole_keyspace;
use command::{CommandId, CommandRoute, Flags, ReplyError, Spec};
use ids::{Db, UnixMillis};
use resp::{Args, Protocol, ReplyWriter};
use script::Reply;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of messages that one program may publish.
const PUBLISHED_BYTES_MAX: usize = 16 * 1024 * 1024;

const TOO_MUCH_PUBLISHED: &str = "ERR the script publishes more than one may; nothing was done";

const NOT_FROM_SCRIPTS: &str = "ERR This Redis command is not allowed from script";

/// What a script publishes: it leaves when all is done.
#[derive(Default)]
pub(crate) struct Publishing {
    pub(crate) messages: Vec<Queued>,
    bytes: usize,
}

/// What a script is, as far as it decides what it may call.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) rules: Rules,
    pub(crate) has_written: bool,
}

pub(crate) fn error(text: &str) -> Reply {
    Reply::Error(text.as_bytes().to_vec())
}

/// Which command a script calls: on keys, on the whole keyspace, or one that no group takes part in.
///
/// # Errors
/// What it is answered instead.
pub(crate) fn admit(
    caller: Caller,
    args: Args<'_>,
    protocol: Protocol,
    shared: &Shared,
) -> Result<&'static Spec, Reply> {
    let spec = match command::resolve(args) {
        Ok(spec) => spec,
        Err(ReplyError::WrongArity(_)) => {
            return Err(error(
                "ERR Wrong number of args calling Redis command from script",
            ));
        }
        Err(_) => return Err(error("ERR Unknown Redis command called from script")),
    };
    if spec.id == CommandId::Debug && shared.scripts.may_debug.load(Ordering::Relaxed) {
        return Err(debug(args, protocol, shared.hooks.sleep));
    }
    if let Some(refusal) = refusal_of(spec, caller) {
        return Err(error(refusal));
    }
    match spec.route {
        CommandRoute::Keys | CommandRoute::Connection => Ok(spec),
        CommandRoute::Everywhere | CommandRoute::Scan if whole_keyspace::may_be_called(spec.id) => Ok(spec),
        CommandRoute::Everywhere | CommandRoute::Scan | CommandRoute::Script => Err(error(NOT_FROM_SCRIPTS)),
    }
}

/// Why a script may not carry out a command, if it may not.
fn refusal_of(spec: &Spec, caller: Caller) -> Option<&'static str> {
    let flags = spec.flags;
    if flags.contains(Flags::NOSCRIPT)
        && !(flags.contains(Flags::BLOCKING) && spec.route == CommandRoute::Keys)
    {
        return Some(NOT_FROM_SCRIPTS);
    }
    let changes = flags.contains(Flags::WRITE) || flags.contains(Flags::MAY_REPLICATE);
    if caller.rules.is_read_only && changes {
        return Some("ERR Write commands are not allowed from read-only scripts.");
    }
    if caller.rules.denies_oom && !caller.has_written && flags.contains(Flags::DENYOOM) {
        return Some("OOM command not allowed when used memory > 'maxmemory'.");
    }
    None
}

/// `DEBUG PROTOCOL` and `DEBUG SLEEP`, for tests of what scripts make of replies, and that their time stands still.
fn debug(args: Args<'_>, protocol: Protocol, sleep: fn(Duration)) -> Reply {
    let mut bytes = Vec::new();
    if args.len() == 3 && args.arg(1).eq_ignore_ascii_case(b"sleep") {
        sleep(commands::debug::span(args.arg(2)));
        return Reply::Status(b"OK".to_vec());
    }
    let is_protocol = args.len() == 3 && args.arg(1).eq_ignore_ascii_case(b"protocol");
    let out = &mut ReplyWriter::new(&mut bytes, protocol);
    match is_protocol.then(|| commands::debug::protocol(args.arg(2), out)) {
        Some(Ok(())) => script_reply::read(&bytes),
        Some(Err(refusal)) => Reply::Error(refusal.bytes().into_owned()),
        None => error(NOT_FROM_SCRIPTS),
    }
}

/// A command that no group takes part in, of a script whose database is this.
///
/// # Errors
/// Why its program is given up.
pub(crate) fn answer_own(
    spec: &'static Spec,
    args: Args<'_>,
    db: &mut Db,
    publishing: &mut Publishing,
    began: UnixMillis,
    shared: &Shared,
) -> Result<Reply, &'static str> {
    let status = |text: &str| Reply::Status(text.as_bytes().to_vec());
    Ok(match spec.id {
        CommandId::Ping => match args.get(1) {
            None => status("PONG"),
            Some(word) => script_reply::bulk(word),
        },
        CommandId::Echo => script_reply::bulk(args.arg(1)),
        CommandId::Select => match command::number::parse_db(args.arg(1)) {
            Ok(selected) => {
                *db = selected;
                status("OK")
            }
            Err(refusal) => Reply::Error(refusal.bytes().into_owned()),
        },
        CommandId::Time => {
            let millis = began.0;
            let parts = [millis.div_euclid(1_000), millis.rem_euclid(1_000) * 1_000];
            let parts = parts.map(|part| script_reply::bulk(part.to_string().as_bytes()));
            Reply::Array(parts.into())
        }
        CommandId::Publish | CommandId::SPublish => {
            let kind = match spec.id {
                CommandId::SPublish => SubscriptionKind::ShardChannel,
                _ => SubscriptionKind::Channel,
            };
            publishing.bytes += args.byte_len() + size_of::<Queued>();
            if publishing.bytes > PUBLISHED_BYTES_MAX {
                return Err(TOO_MUCH_PUBLISHED);
            }
            // Those that listen at this node now: the message leaves when all is committed.
            let receivers = shared.subscriptions.receivers(kind, args.arg(1));
            publishing.messages.push(Queued {
                spec,
                args: args.to_buf(),
            });
            Reply::Integer(receivers as i64)
        }
        _ => error(NOT_FROM_SCRIPTS),
    })
}
