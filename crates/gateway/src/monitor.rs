//! `MONITOR`: every command as it was carried out, for people who watch.
//!
//! A command costs one branch while nobody watches. Commands for operators are never shown, nor are passwords.

use crate::context::Context;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::pubsub::PubSub;
use crate::session::Session;
use command::{CommandId, CommandRoute, Flags, Spec};
use ids::Db;
use resp::Args;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Shows a command that was carried out to those who watch, if there are any.
#[inline]
pub(crate) fn show(
    cx: &mut Context,
    pubsub: &PubSub,
    session: &Session,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
) {
    if cx.shared.monitors.load(Ordering::Relaxed) > 0 {
        show_to_monitors(cx, pubsub, session, db, spec, args);
    }
}

#[cold]
fn show_to_monitors(
    cx: &mut Context,
    pubsub: &PubSub,
    session: &Session,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
) {
    let hides = |flag: Flags| spec.flags.contains(flag);
    // Redis says of scripts that they are not shown, since it shows them elsewhere.
    if hides(Flags::ADMIN) || hides(Flags::SKIP_MONITOR) && spec.route != CommandRoute::Script {
        return;
    }
    let text: Arc<[u8]> = line(cx.turn.now.0, db, session.info.address, spec, args).into();
    let watching = (0..)
        .zip(&cx.shared.workers)
        .filter(|(_, stats)| stats.monitors.get() > 0)
        .map(|(worker, _)| worker)
        .collect::<Vec<u16>>();
    for worker in watching {
        if worker == cx.worker {
            on_shown(cx, pubsub, text.clone());
        } else {
            cx.send(worker, Message::Shown(text.clone()));
        }
    }
}

/// A line for those who watch at this worker.
pub(crate) fn on_shown(cx: &mut Context, pubsub: &PubSub, line: Arc<[u8]>) {
    cx.deliver(Delivery::Message {
        listeners: pubsub.monitors(),
        message: line,
    });
}

/// The line of one command: `+<seconds>.<microseconds> [<db> <address>] "<word>" ...`.
fn line(now_millis: i64, db: Db, address: SocketAddr, spec: &Spec, args: Args<'_>) -> Vec<u8> {
    let (seconds, micros) = (now_millis / 1_000, now_millis % 1_000 * 1_000);
    let mut line = format!("+{seconds}.{micros:06} [{} {address}]", db.number()).into_bytes();
    let mut secrets = 0;
    for (at, word) in args.iter().enumerate() {
        line.push(b' ');
        if secrets > 0 {
            secrets -= 1;
            line.extend_from_slice(b"\"(redacted)\"");
            continue;
        }
        quote(word, &mut line);
        if (spec.id == CommandId::Auth && at == 0) || is_auth_of_hello(spec, at, word) {
            secrets = 2;
        }
    }
    line.extend_from_slice(b"\r\n");
    line
}

fn is_auth_of_hello(spec: &Spec, at: usize, word: &[u8]) -> bool {
    spec.id == CommandId::Hello && at >= 2 && word.eq_ignore_ascii_case(b"auth")
}

/// A word between quotation marks, whatever bytes it has.
fn quote(word: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn shown(words: &[&[u8]]) -> String {
        let words = ArgsBuf::from_slices(words);
        let spec = command::resolve(words.as_args()).unwrap();
        let address = "127.0.0.1:5".parse().unwrap();
        let line = line(1_700_000_000_042, Db::default(), address, spec, words.as_args());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_is_as_redis_prints_it() {
        assert_eq!(
            shown(&[b"SET", b"a", b"b\xff\n\"\\ \x07"]),
            "+1700000000.042000 [0 127.0.0.1:5] \"SET\" \"a\" \"b\\xff\\n\\\"\\\\ \\a\"\r\n"
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        for (words, expected) in [
            (&[&b"auth"[..], b"secret"][..], "\"auth\" \"(redacted)\""),
            (
                &[b"AUTH", b"me", b"secret"],
                "\"AUTH\" \"(redacted)\" \"(redacted)\"",
            ),
            (
                &[b"HELLO", b"3", b"Auth", b"me", b"secret", b"SETNAME", b"x"],
                "\"HELLO\" \"3\" \"Auth\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"x\"",
            ),
        ] {
            assert!(shown(words).ends_with(&format!("] {expected}\r\n")), "{expected}");
        }
    }
}
