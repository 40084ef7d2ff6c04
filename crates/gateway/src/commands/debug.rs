//! `DEBUG`, for tests of clients and of the server.

use crate::context::Context;
use crate::session::Session;
use command::{ReplyError, introspect};
use options::DebugCommand;
use resp::{Args, Protocol, ReplyWriter};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What `HELP` says.
const HELP: &[&str] = &[
    "CHANGE-REPL-ID",
    "    Accepted; there is no replication history to name anew.",
    "CODING <key>",
    "    Tell whether a string is kept as fragments where its group is led, and which",
    "    replicas have which row.",
    "ERROR <text>",
    "    Answer this error.",
    "LOADAOF",
    "    As RELOAD.",
    "LOG <text>",
    "    Write a line to the log.",
    "OBJECT <key>",
    "    Tell how a value is stored.",
    "PANIC",
    "    Crash the server.",
    "PAUSE-CRON <0|1>",
    "    Accepted; background work goes on.",
    "PROTOCOL <type>",
    "    Answer a value of this type: string, integer, double, bignum, null, array,",
    "    set, map, attrib, push, verbatim, true or false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted; lists have no such threshold.",
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Encode the state of every replica of this node, decode it, compare, and go on",
    "    with what was decoded. The options are accepted, and change nothing.",
    "SDSLEN <key>",
    "    Return the lengths of a key and its value.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Turn the search for expired keys off or on.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Let scripts call DEBUG PROTOCOL.",
    "SET-STEPS-MAX <steps>",
    "    Offload commands that take more steps than this: for tests.",
    "SLEEP <seconds>",
    "    Stop the worker of this connection for a while.",
];

/// Outside of `EXEC` they are looked for before anything else.
const RELOADS_ALONE: ReplyError =
    ReplyError::Fixed("ERR DEBUG RELOAD and LOADAOF are not allowed inside a transaction");

const NOT_ALLOWED: ReplyError = ReplyError::Fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// `Ok` if this client may use `DEBUG`.
pub(crate) fn check(cx: &Context, session: &Session) -> Result<(), ReplyError> {
    let is_allowed = match cx.settings.enable_debug_command {
        DebugCommand::No => false,
        DebugCommand::Yes => true,
        DebugCommand::Local => session.info.address.ip().to_canonical().is_loopback(),
    };
    if is_allowed { Ok(()) } else { Err(NOT_ALLOWED) }
}

/// Whether it is `DEBUG RELOAD` or `LOADAOF`, which all workers have a part in; an error if its words are wrong.
pub(crate) fn is_reload(args: Args<'_>) -> Result<bool, ReplyError> {
    let subcommand = args.arg(1);
    if subcommand.eq_ignore_ascii_case(b"loadaof") {
        return Ok(args.len() == 2);
    }
    if !subcommand.eq_ignore_ascii_case(b"reload") {
        return Ok(false);
    }
    let is_option = |word: &[u8]| {
        let mut options = [&b"nosave"[..], b"noflush", b"merge"].into_iter();
        options.any(|option| word.eq_ignore_ascii_case(option))
    };
    match args.from(2).iter().all(is_option) {
        true => Ok(true),
        false => Err(ReplyError::Fixed(
            "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        )),
    }
}

pub(super) fn debug(
    cx: &Context,
    session: &Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    check(cx, session)?;
    let subcommand = args.arg(1);
    match (
        subcommand.to_ascii_lowercase().as_slice(),
        args.get(2),
        args.len(),
    ) {
        (b"help", _, 2) => {
            let lines = HELP.iter().map(|line| (*line).to_owned());
            introspect::help_of("DEBUG", lines.collect(), w);
        }
        (b"sleep", Some(seconds), 3) => {
            // Stops the whole worker, as it stops the whole of Redis. That is what it is for.
            (cx.shared.hooks.sleep)(span(seconds));
            w.ok();
        }
        (b"set-active-expire", Some(number), 3) => {
            cx.shared
                .active_expiry
                .store(leading_number(number) != 0.0, Ordering::Relaxed);
            w.ok();
        }
        (b"set-disable-deny-scripts", Some(number), 3) => {
            let may_debug = &cx.shared.scripts.may_debug;
            may_debug.store(leading_number(number) != 0.0, Ordering::Relaxed);
            w.ok();
        }
        (b"set-steps-max", Some(number), 3) => {
            let steps = command::number::parse_i64(number).and_then(|steps| usize::try_from(steps).ok());
            let steps = steps.ok_or(ReplyError::OutOfRange)?;
            cx.shared.steps_max.store(steps, Ordering::Relaxed);
            w.ok();
        }
        (b"error", Some(text), 3) => w.error_bytes(text),
        (b"panic", _, 2) => panic!("a client sent DEBUG PANIC"),
        (b"log", Some(text), 3) => {
            tracing::warn!("DEBUG LOG: {}", text.escape_ascii());
            w.ok();
        }
        (b"protocol", Some(kind), 3) => protocol(kind, w)?,
        // What they set does not exist here; tests that set it on their way to something else go on.
        (b"change-repl-id", _, 2) | (b"pause-cron", _, 3) => w.ok(),
        (b"quicklist-packed-threshold", Some(size), 3) => {
            let size = std::str::from_utf8(size).ok().and_then(options::parse_memory);
            if size.is_none_or(|size| size > 1 << 32) {
                return Err(ReplyError::Fixed(
                    "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
                ));
            }
            w.ok();
        }
        (b"reload", ..) | (b"loadaof", _, 2) => return Err(RELOADS_ALONE),
        _ => return Err(ReplyError::unknown_subcommand_or_arity("debug", subcommand)),
    }
    Ok(())
}

/// How long `DEBUG SLEEP` sleeps. What is no span of time is too long for one, too.
pub(crate) fn span(seconds: &[u8]) -> Duration {
    let seconds = leading_number(seconds).max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The number that a text begins with, 0 if it begins with none: Redis's DEBUG reads numbers so.
fn leading_number(text: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

/// `DEBUG PROTOCOL`: a value of each kind that a client must be able to read.
pub(crate) fn protocol(kind: &[u8], w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let is_resp3 = w.protocol() == Protocol::Resp3;
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => w.bulk(b"Hello World"),
        b"integer" => w.integer(12_345),
        // As Redis shows it: the shortest digits, while those of `ReplyWriter::double` would be 3.141 with 17.
        b"double" if is_resp3 => w.raw(b",3.141\r\n"),
        b"double" => w.bulk(b"3.141"),
        b"bignum" => w.big_number("1234567999999999999999999999999999999"),
        b"null" => w.null(),
        b"array" => {
            w.array(3);
            (0..3).for_each(|n| w.integer(n));
        }
        b"set" => {
            w.set(3);
            (0..3).for_each(|n| w.integer(n));
        }
        b"map" => {
            w.map(3);
            for n in 0..3 {
                w.integer(n);
                w.boolean(n == 1);
            }
        }
        b"attrib" => {
            if is_resp3 {
                w.raw(b"|1\r\n");
                w.bulk(b"key-popularity");
                w.array(2);
                w.bulk(b"key:123");
                w.integer(90);
            }
            w.bulk(b"Some real reply following the attribute");
        }
        b"push" if !is_resp3 => {
            return Err(ReplyError::Fixed("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            w.push(2);
            w.bulk(b"server-cpu-usage");
            w.integer(42);
            w.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => w.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => w.boolean(true),
        b"false" => w.boolean(false),
        _ => {
            return Err(ReplyError::Fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        for (text, number) in [
            ("1", 1.0),
            ("0.25", 0.25),
            ("0", 0.0),
            ("x", 0.0),
            ("3x", 3.0),
            ("-1", -1.0),
            ("", 0.0),
        ] {
            assert_eq!(leading_number(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn a_value_of_every_kind_is_a_whole_reply() {
        for kind in [
            "string", "integer", "double", "bignum", "null", "array", "set", "map", "verbatim", "true",
            "false",
        ] {
            for version in [Protocol::Resp2, Protocol::Resp3] {
                let mut out = Vec::new();
                protocol(kind.as_bytes(), &mut ReplyWriter::new(&mut out, version)).unwrap();
                assert_eq!(resp::skip_value(&out), Some(out.len()), "{kind}");
            }
        }
    }
}
