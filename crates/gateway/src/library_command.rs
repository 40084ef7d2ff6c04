//! `FUNCTION`: what its subcommands make of libraries, and answer.

use crate::library_set::{Library, LibrarySet};
use command::{CommandId, ReplyError, glob};
use resp::Args;
use script::{Lua, Reply};
use std::sync::Arc;

/// A function that has run for long, as `FUNCTION STATS` tells of it.
#[derive(Clone, Debug)]
pub(crate) struct RunningFunction {
    pub(crate) name: Arc<[u8]>,
    /// The words of the command that called it.
    pub(crate) words: Vec<Arc<[u8]>>,
    pub(crate) millis: i64,
}

/// What a subcommand came to.
pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    /// The libraries from here on, if they are others.
    pub(crate) changed: Option<LibrarySet>,
}

fn text(text: &[u8]) -> Reply {
    Reply::Bulk(text.into())
}

fn ok() -> Reply {
    Reply::Status(b"OK".to_vec())
}

/// Carries out a subcommand.
///
/// # Errors
/// The error for the client, code first.
pub(crate) fn carry_out(
    id: CommandId,
    args: Args<'_>,
    set: &LibrarySet,
    lua: &mut Lua,
    running: Option<RunningFunction>,
) -> Result<Outcome, Vec<u8>> {
    let mut next = set.clone();
    let reply = match id {
        CommandId::FunctionLoad => {
            let (replaces, source) = load_words(args)?;
            let name = next.add(lua, source, replaces)?;
            text(name.as_bytes())
        }
        CommandId::FunctionDelete => {
            if !next.remove(&String::from_utf8_lossy(args.arg(2))) {
                return Err(b"ERR Library not found".to_vec());
            }
            ok()
        }
        CommandId::FunctionFlush => {
            check_flush(args)?;
            next = LibrarySet::default();
            ok()
        }
        CommandId::FunctionRestore => {
            let policy = restore_policy(args)?;
            let sent = LibrarySet::of_payload(lua, args.arg(2), Some(set))?;
            match policy {
                Policy::Flush => next = sent,
                Policy::Append => next.join(&sent, false)?,
                Policy::Replace => next.join(&sent, true)?,
            }
            ok()
        }
        CommandId::FunctionList => return list(args, set).map(unchanged),
        CommandId::FunctionDump => return Ok(unchanged(text(&set.to_payload()))),
        CommandId::FunctionStats => return Ok(unchanged(stats(set, running))),
        _ => unreachable!("{id:?} is no subcommand of FUNCTION that concerns libraries"),
    };
    Ok(Outcome {
        reply,
        changed: Some(next),
    })
}

fn unchanged(reply: Reply) -> Outcome {
    Outcome { reply, changed: None }
}

/// Whether it replaces, and the source.
fn load_words(args: Args<'_>) -> Result<(bool, &[u8]), Vec<u8>> {
    let source = args.len() - 1;
    let mut replaces = false;
    for at in 2..source {
        if !args.arg(at).eq_ignore_ascii_case(b"replace") {
            return Err([b"ERR Unknown option given: ", args.arg(at)].concat());
        }
        replaces = true;
    }
    Ok((replaces, args.arg(source)))
}

fn wrong_words(args: Args<'_>) -> Vec<u8> {
    let error = ReplyError::unknown_subcommand_or_arity("function", args.arg(1));
    error.bytes().into_owned()
}

fn check_flush(args: Args<'_>) -> Result<(), Vec<u8>> {
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async");
    match args.get(2) {
        _ if args.len() > 3 => Err(wrong_words(args)),
        Some(mode) if !is_mode(mode) => Err(b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option".to_vec()),
        Some(_) | None => Ok(()),
    }
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy)]
enum Policy {
    Append,
    Replace,
    Flush,
}

fn restore_policy(args: Args<'_>) -> Result<Policy, Vec<u8>> {
    if args.len() > 4 {
        return Err(wrong_words(args));
    }
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match args.get(3) {
        None => Ok(Policy::Append),
        Some(word) if is(word, "append") => Ok(Policy::Append),
        Some(word) if is(word, "replace") => Ok(Policy::Replace),
        Some(word) if is(word, "flush") => Ok(Policy::Flush),
        Some(_) => {
            Err(b"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.".to_vec())
        }
    }
}

fn list(args: Args<'_>, set: &LibrarySet) -> Result<Reply, Vec<u8>> {
    let (mut with_code, mut pattern) = (false, None);
    let mut at = 2;
    while let Some(word) = args.get(at) {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            at += 1;
            let given = args.get(at);
            pattern = Some(given.ok_or(&b"ERR library name argument was not given"[..])?);
        } else {
            return Err([b"ERR Unknown argument ", word].concat());
        }
        at += 1;
    }
    let is_asked_for = |library: &&Library| {
        pattern.is_none_or(|pattern| glob::matches(pattern, library.read.name.as_bytes()))
    };
    let found = set.libraries().filter(is_asked_for);
    Ok(Reply::Array(
        found.map(|library| in_words(library, with_code)).collect(),
    ))
}

fn in_words(library: &Library, with_code: bool) -> Reply {
    let functions = library.read.functions.iter().map(|function| {
        let description = function.description.as_ref();
        let flags = function.flags.iter().map(|flag| Reply::Status(flag.to_vec()));
        Reply::Map(vec![
            (text(b"name"), text(&function.name)),
            (
                text(b"description"),
                description.map_or(Reply::Null, |description| text(description)),
            ),
            (text(b"flags"), Reply::Set(flags.collect())),
        ])
    });
    let mut fields = vec![
        (text(b"library_name"), text(library.read.name.as_bytes())),
        (text(b"engine"), text(b"LUA")),
        (text(b"functions"), Reply::Array(functions.collect())),
    ];
    if with_code {
        fields.push((text(b"library_code"), text(&library.source)));
    }
    Reply::Map(fields)
}

fn stats(set: &LibrarySet, running: Option<RunningFunction>) -> Reply {
    let running = running.map_or(Reply::Null, |running| {
        let words = running.words.iter().map(|word| text(word)).collect();
        Reply::Map(vec![
            (text(b"name"), text(&running.name)),
            (text(b"command"), Reply::Array(words)),
            (text(b"duration_ms"), Reply::Integer(running.millis)),
        ])
    });
    let (libraries, functions) = set.counts();
    let counts = Reply::Map(vec![
        (text(b"libraries_count"), Reply::Integer(libraries as i64)),
        (text(b"functions_count"), Reply::Integer(functions as i64)),
    ]);
    Reply::Map(vec![
        (text(b"running_script"), running),
        (text(b"engines"), Reply::Map(vec![(text(b"LUA"), counts)])),
    ])
}
