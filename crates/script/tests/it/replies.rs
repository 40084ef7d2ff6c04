//! Replies between commands, scripts and clients.

use crate::host::{evaluate, evaluate_with, text};
use script::Reply;

fn answered(reply: &Reply, source: &str) -> Reply {
    evaluate_with(source, &[], &[], &mut |_, _| reply.clone())
}

#[test]
fn a_command_s_reply_is_what_a_script_returns() {
    let bulk = |text: &str| Reply::Bulk(text.as_bytes().into());
    for (reply, back) in [
        (Reply::Integer(7), Reply::Integer(7)),
        (bulk("x"), bulk("x")),
        (Reply::Null, Reply::Null),
        (Reply::NullArray, Reply::Null),
        (Reply::Status(b"OK".to_vec()), Reply::Status(b"OK".to_vec())),
        (
            Reply::Array(vec![Reply::Integer(1), bulk("b"), Reply::Null, Reply::Integer(2)]),
            Reply::Array(vec![Reply::Integer(1), bulk("b"), Reply::Null, Reply::Integer(2)]),
        ),
        (Reply::Double(1.5), Reply::Double(1.5)),
        (
            Reply::BigNumber(b"123".to_vec()),
            Reply::BigNumber(b"123".to_vec()),
        ),
        (Reply::Set(vec![bulk("a")]), Reply::Set(vec![bulk("a")])),
        (
            Reply::Map(vec![(bulk("a"), Reply::Integer(1))]),
            Reply::Map(vec![(bulk("a"), Reply::Integer(1))]),
        ),
        (
            Reply::Verbatim {
                format: b"txt".to_vec(),
                text: b"hi"[..].into(),
            },
            Reply::Verbatim {
                format: b"txt".to_vec(),
                text: b"hi"[..].into(),
            },
        ),
    ] {
        assert_eq!(answered(&reply, "return redis.call('x')"), back);
    }
}

#[test]
fn an_error_is_raised_or_returned() {
    let error = Reply::Error(b"WRONGTYPE no".to_vec());
    assert_eq!(answered(&error, "return redis.pcall('x')"), error);
    assert_eq!(
        answered(&error, "local ok, e = pcall(redis.call, 'x') return e"),
        Reply::Bulk(b"WRONGTYPE no"[..].into())
    );
    let Reply::Error(message) = answered(&error, "return redis.call('x')") else {
        panic!("it is raised");
    };
    assert!(message.starts_with(b"WRONGTYPE no script: "));
}

#[test]
fn a_reply_without_an_end_is_an_error() {
    let reply = evaluate("local t = {} t[1] = t return t");
    assert!(format!("{reply:?}").contains("Error"));
}

#[test]
fn log_lines_are_the_host_s() {
    use script::{Interpreter as _, LogLevel, Lua, Run as _, ScriptInput};
    let mut lua = Lua::new();
    let chunk = lua.compile(b"redis.log(redis.LOG_WARNING, 'a', 1, 'b')").unwrap();
    let mut run = lua.start(&chunk, ScriptInput::default(), crate::host::LIMITS);
    run.resume(1_000);
    let log = run.take_log();
    assert_eq!(log.len(), 1);
    assert_eq!(
        (log[0].level, &log[0].text[..]),
        (LogLevel::Warning, &b"a 1 b"[..])
    );
}

#[test]
fn os_has_a_clock_that_counts_instructions() {
    assert_eq!(
        text("local t = os.clock() for i = 1, 1000 do end return tostring(os.clock() > t)"),
        "true"
    );
}
