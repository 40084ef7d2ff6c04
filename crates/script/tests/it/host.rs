//! Runs scripts to their end.

use script::{Interpreter, Lua, Reply, Run, RunLimits, ScriptInput, ScriptStop};

pub(crate) const LIMITS: RunLimits = RunLimits {
    memory_bytes: 64 << 20,
};

/// Instructions that a test's script may have.
const INSTRUCTIONS_MAX: u64 = 50_000_000;

/// Budgets are small and uneven, so that runs stop at all sorts of places.
const BUDGETS: [u64; 4] = [1, 7, 1_000, 13];

/// Runs a script, whose commands `carry` carries out.
pub(crate) fn evaluate_with(
    source: &str,
    keys: &[&str],
    argv: &[&str],
    carry: &mut dyn FnMut(&[&[u8]], bool) -> Reply,
) -> Reply {
    let mut lua = Lua::new();
    let chunk = match lua.compile(source.as_bytes()) {
        Ok(chunk) => chunk,
        Err(message) => return Reply::Error(message),
    };
    let input = ScriptInput {
        keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
        argv: argv.iter().map(|arg| arg.as_bytes().into()).collect(),
        ..ScriptInput::default()
    };
    let mut run = lua.start(&chunk, input, LIMITS);
    let mut turn = 0;
    loop {
        let budget = if turn < 4_000 {
            BUDGETS[turn % BUDGETS.len()]
        } else {
            1_000_000
        };
        turn += 1;
        match run.resume(budget) {
            ScriptStop::Yielded => assert!(
                run.instructions() < INSTRUCTIONS_MAX,
                "the script does not end: {source}"
            ),
            ScriptStop::Call { words, is_resp3 } => {
                let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
                let reply = carry(&words, is_resp3);
                run.resume_with(&reply);
            }
            ScriptStop::Permission { .. } => run.resume_with(&Reply::Integer(1)),
            ScriptStop::Large => unreachable!("nothing is put off"),
            ScriptStop::Finished(reply) => return reply,
            ScriptStop::Failed(failure) => return Reply::Error(failure.message),
        }
    }
}

/// Runs a script that needs no store; a command is answered with its own words.
pub(crate) fn evaluate(source: &str) -> Reply {
    evaluate_with(source, &[], &[], &mut |words, _| {
        Reply::Array(words.iter().map(|word| Reply::Bulk((*word).into())).collect())
    })
}

/// What a script returns, as text.
pub(crate) fn text(source: &str) -> String {
    match evaluate(source) {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Reply::Error(message) => format!("error: {}", String::from_utf8_lossy(&message)),
        other => format!("{other:?}"),
    }
}

/// A reply as a client of RESP2 is told.
pub(crate) fn as_resp2(reply: Reply) -> Reply {
    match reply {
        Reply::Bool(bit) => Reply::Integer(i64::from(bit)),
        Reply::Double(n) => Reply::Bulk(double(n).as_bytes().into()),
        Reply::BigNumber(digits) => Reply::Bulk(digits.into()),
        Reply::Verbatim { text, .. } => Reply::Bulk(text),
        Reply::Array(items) | Reply::Set(items) => Reply::Array(items.into_iter().map(as_resp2).collect()),
        Reply::Map(pairs) => Reply::Array(
            pairs
                .into_iter()
                .flat_map(|(key, value)| [as_resp2(key), as_resp2(value)])
                .collect(),
        ),
        other => other,
    }
}

fn double(n: f64) -> String {
    if n.is_infinite() {
        if n > 0.0 {
            "inf".to_owned()
        } else {
            "-inf".to_owned()
        }
    } else {
        n.to_string()
    }
}
