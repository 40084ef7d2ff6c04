//! `HELLO`, `AUTH`, `PING`, `QUIT`, `RESET`, `SELECT`.

use super::client;
use crate::context::Context;
use crate::gateway::Gateway;
use crate::idempotency::Naming;
use crate::multi::{end_block, note_watched};
use crate::pubsub::PubSub;
use crate::secret::is_same_secret;
use crate::session::{ReplyMode, Session};
use command::{ReplyError, number};
use ids::Db;
use resp::{Args, Protocol, ReplyWriter};
use std::sync::atomic::Ordering;

/// The only user: access lists come with their own commands.
pub(super) const USER: &[u8] = b"default";

/// What `HELLO` asks for. All of it is read before any of it is done.
#[derive(Default)]
struct Greeting<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn greeting(args: Args<'_>) -> Result<Greeting<'_>, ReplyError> {
    let mut greeting = Greeting::default();
    let Some(version) = args.get(1) else {
        return Ok(greeting);
    };
    greeting.protocol = match number::parse_i64(version).ok_or(ReplyError::ProtocolNotAnInteger)? {
        2 => Some(Protocol::Resp2),
        3 => Some(Protocol::Resp3),
        _ => return Err(ReplyError::NoProto),
    };
    let mut at = 2;
    while let Some(option) = args.get(at) {
        match (args.get(at + 1), args.get(at + 2)) {
            (Some(user), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                greeting.credentials = Some((user, password));
                at += 3;
            }
            (Some(name), _) if option.eq_ignore_ascii_case(b"setname") => {
                if !client::is_label(name) {
                    return Err(ReplyError::ClientName);
                }
                greeting.name = Some(name);
                at += 2;
            }
            _ => {
                return Err(ReplyError::quoting(
                    "ERR Syntax error in HELLO option '",
                    option,
                    "'",
                ));
            }
        }
    }
    Ok(greeting)
}

pub(super) fn hello(
    cx: &Context,
    session: &mut Session,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ReplyError> {
    let greeting = greeting(args)?;
    if let Some((user, password)) = greeting.credentials {
        authenticate(cx, session, user, password)?;
    }
    if !session.is_authenticated {
        return Err(ReplyError::HelloNoAuth);
    }
    if let Some(name) = greeting.name {
        session.info.labels().name = name.to_vec();
    }
    if let Some(protocol) = greeting.protocol {
        set_protocol(session, protocol);
    }
    let mut w = ReplyWriter::new(out, session.protocol);
    w.map(7);
    w.bulk(b"server");
    w.bulk(b"redis");
    w.bulk(b"version");
    w.bulk(Gateway::REDIS_VERSION.as_bytes());
    w.bulk(b"proto");
    w.integer(protocol_number(session.protocol).into());
    w.bulk(b"id");
    w.integer(session.info.id as i64);
    w.bulk(b"mode");
    w.bulk(session.endpoint.mode().as_bytes());
    w.bulk(b"role");
    w.bulk(b"master");
    w.bulk(b"modules");
    w.array(0);
    Ok(())
}

pub(super) fn auth(
    cx: &Context,
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    match args.len() {
        2 if cx.settings.requirepass.is_none() => return Err(ReplyError::AuthWithoutPassword),
        2 => authenticate(cx, session, USER, args.arg(1))?,
        3 => authenticate(cx, session, args.arg(1), args.arg(2))?,
        _ => return Err(ReplyError::Syntax),
    }
    w.ok();
    Ok(())
}

fn authenticate(cx: &Context, session: &mut Session, user: &[u8], password: &[u8]) -> Result<(), ReplyError> {
    if !accepts(cx, user, password) {
        return Err(ReplyError::WrongPass);
    }
    session.is_authenticated = true;
    Ok(())
}

fn accepts(cx: &Context, user: &[u8], password: &[u8]) -> bool {
    let expected = cx.settings.requirepass.as_ref();
    user == USER && expected.is_none_or(|expected| is_same_secret(password, expected.as_bytes()))
}

/// The protocol to which an authenticated client changes with this `HELLO`, if it does: with a mistake in its words or
/// a wrong password nothing changes.
pub(crate) fn protocol_of_hello(cx: &Context, args: Args<'_>) -> Option<Protocol> {
    let greeting = greeting(args).ok()?;
    let is_accepted = greeting
        .credentials
        .is_none_or(|(user, password)| accepts(cx, user, password));
    greeting.protocol.filter(|_| is_accepted)
}

/// `RESET`: as a new connection, except for its number and what it said about its library.
pub(super) fn reset(cx: &mut Context, pubsub: &mut PubSub, session: &mut Session, out: &mut Vec<u8>) {
    end_block(session);
    session.watched.clear();
    note_watched(session);
    pubsub.stop_listening(cx, session);
    session.modes.reply_mode = ReplyMode::On;
    session.is_authenticated = cx.settings.requirepass.is_none();
    session.info.labels().name.clear();
    session.info.no_evict.store(false, Ordering::Relaxed);
    session.info.no_touch.store(false, Ordering::Relaxed);
    session.modes.no_touch = false;
    session.modes.naming = Naming::Nothing;
    session.modes.reads_at_replicas = false;
    session.info.reads_at_replicas.store(false, Ordering::Relaxed);
    set_db(session, Db::default());
    set_protocol(session, Protocol::Resp2);
    ReplyWriter::new(out, session.protocol).simple("RESET");
}

pub(super) fn ping(session: &Session, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    match args.len() {
        // Between messages, an array is what clients of RESP2 expect.
        1 | 2 if session.protocol == Protocol::Resp2 && session.is_subscribed() => {
            w.array(2);
            w.bulk(b"pong");
            w.bulk(args.get(1).unwrap_or_default());
        }
        1 => w.simple("PONG"),
        2 => w.bulk(args.arg(1)),
        _ => return Err(ReplyError::WrongArity("ping")),
    }
    Ok(())
}

pub(super) fn quit(session: &mut Session, w: &mut ReplyWriter<'_>) {
    w.ok();
    session.is_closing = true;
}

pub(super) fn select(
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    set_db(session, number::parse_db(args.arg(1))?);
    w.ok();
    Ok(())
}

fn set_db(session: &mut Session, db: Db) {
    session.db = db;
    session.info.db.store(db.number(), Ordering::Relaxed);
}

fn set_protocol(session: &mut Session, protocol: Protocol) {
    session.protocol = protocol;
    session
        .info
        .protocol
        .store(protocol_number(protocol), Ordering::Relaxed);
}

fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn error_of(words: &str) -> Option<String> {
        let words = ArgsBuf::from_slices(words.split(' '));
        greeting(words.as_args()).err().map(|error| error.to_string())
    }

    #[test]
    fn hello_reads_all_options_before_it_does_anything() {
        let words = ArgsBuf::from_slices(["HELLO", "3", "setname", "me", "Auth", "default", "secret"]);
        let greeting = greeting(words.as_args()).unwrap();
        assert_eq!(greeting.protocol, Some(Protocol::Resp3));
        assert_eq!(greeting.name, Some(&b"me"[..]));
        assert_eq!(greeting.credentials, Some((&b"default"[..], &b"secret"[..])));

        assert_eq!(error_of("HELLO"), None);
        assert_eq!(
            error_of("HELLO 4").as_deref(),
            Some("NOPROTO unsupported protocol version")
        );
        assert_eq!(
            error_of("HELLO x").as_deref(),
            Some("ERR Protocol version is not an integer or out of range")
        );
        for missing in ["SETNAME", "AUTH", "AUTH default", "FOO bar"] {
            let option = missing.split(' ').next().unwrap();
            assert_eq!(
                error_of(&format!("HELLO 3 {missing}")),
                Some(format!("ERR Syntax error in HELLO option '{option}'"))
            );
        }
    }
}
