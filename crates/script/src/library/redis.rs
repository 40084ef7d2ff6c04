//! The functions of `redis`.

use std::sync::Arc;

use sha1::{Digest, Sha1};

use super::{Flow, Result};
use crate::number;
use crate::raise::Raise;
use crate::reply::{hex, with_code};
use crate::session::{Asking, LogLevel, LogLine, Registered};
use crate::value::Value;
use crate::vm::{Args, Event, Vm};

/// What a command replicates to, as scripts name it.
const REPLICATE_ALL: i64 = 3;

/// Lines of the log that one run may write; further ones are dropped.
const LOG_LINES_MAX: usize = 1_000;

/// Bytes of the words of one command. They may be one string many times, and are copied.
const ASKED_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of words that count as one instruction.
const ASKED_BYTES_PER_INSTRUCTION: usize = 32;

/// Bytes of one line.
const LOG_LINE_MAX: usize = 16 * 1024;

fn failed(text: &str) -> Raise {
    Raise::reply(&format!("ERR {text}"))
}

/// The words of a command, or what is wrong with them. Many bytes are put off before anybody copies them.
fn words(vm: &mut Vm, args: Args) -> std::result::Result<Vec<Arc<[u8]>>, Raise> {
    if args.count == 0 {
        return Err(failed(
            "Please specify at least one argument for this redis lib call",
        ));
    }
    let mut words = Vec::with_capacity(args.count);
    let mut bytes = 0_usize;
    for index in 0..args.count {
        let word: Arc<[u8]> = match vm.arg(args, index) {
            Value::Str(string) => Arc::clone(vm.heap.bytes(string)),
            Value::Number(n) => {
                let mut text = Vec::new();
                number::push_exact(&mut text, n);
                Arc::from(text)
            }
            _ => {
                return Err(failed(
                    "Lua redis lib command arguments must be strings or integers",
                ));
            }
        };
        bytes = bytes.saturating_add(word.len());
        words.push(word);
    }
    if bytes > ASKED_BYTES_MAX {
        return Err(failed("the words of a command are too long"));
    }
    vm.may_make(bytes)?;
    vm.charge(bytes / ASKED_BYTES_PER_INSTRUCTION);
    Ok(words)
}

pub(super) fn command(vm: &mut Vm, args: Args, is_protected: bool) -> Result {
    if vm.session.registering.is_some() {
        return Err(Raise::Text(
            "Script attempted to access nonexistent global variable 'call'",
        ));
    }
    match words(vm, args) {
        Ok(words) => {
            vm.session.words = words;
            vm.session.asking = Asking::Command;
            Ok(Flow::Command { is_protected })
        }
        // Neither is an error of the command: nobody catches the one, and the other is called again.
        Err(raise @ (Raise::Memory | Raise::Large)) => Err(raise),
        Err(raise) if is_protected => vm.error_value(raise).map(Flow::One),
        Err(raise) => Err(raise),
    }
}

pub(super) fn acl_check_cmd(vm: &mut Vm, args: Args) -> Result {
    vm.session.words = words(vm, args)?;
    vm.session.asking = Asking::Permission;
    Ok(Flow::Command { is_protected: false })
}

fn one_text(vm: &Vm, args: Args) -> Option<Arc<[u8]>> {
    match vm.arg(args, 0) {
        Value::Str(string) if args.count == 1 => Some(Arc::clone(vm.heap.bytes(string))),
        _ => None,
    }
}

pub(super) fn error_reply(vm: &mut Vm, args: Args) -> Result {
    let text = match one_text(vm, args) {
        Some(text) => match text.strip_prefix(b"-") {
            Some(text) => with_code(text),
            None => with_code(&text),
        },
        None => b"ERR wrong number or type of arguments".to_vec(),
    };
    vm.error_value(Raise::Reply(text)).map(Flow::One)
}

pub(super) fn status_reply(vm: &mut Vm, args: Args) -> Result {
    let Some(text) = one_text(vm, args) else {
        return vm
            .error_value(failed("wrong number or type of arguments"))
            .map(Flow::One);
    };
    let table = vm.heap.add_table(0, 1)?;
    let text = vm.heap.text(&text)?;
    vm.heap.set(table, Value::Str(Event::Ok.name()), text)?;
    Ok(Flow::One(Value::Table(table)))
}

pub(super) fn log(vm: &mut Vm, args: Args) -> Result {
    if args.count < 2 {
        return Err(failed("redis.log() requires two arguments or more."));
    }
    let Some(level) = vm.to_number(vm.arg(args, 0)) else {
        return Err(failed("First argument must be a number (log level)."));
    };
    let level = match number::to_i64(level) {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(failed("Invalid log level.")),
    };
    let mut text = Vec::new();
    for index in 1..args.count {
        if let Some(bytes) = vm.to_bytes(vm.arg(args, index)) {
            if index > 1 {
                text.push(b' ');
            }
            text.extend_from_slice(&bytes[..bytes.len().min(LOG_LINE_MAX)]);
            text.truncate(LOG_LINE_MAX);
        }
    }
    vm.charge(text.len() / 16);
    // Lines are the host's, and still this script makes them: they count as its memory until the run is over.
    if vm.session.log.len() < LOG_LINES_MAX {
        vm.heap.take(text.len())?;
        vm.session.log.push(LogLine { level, text });
    }
    Ok(Flow::None)
}

pub(super) fn set_repl(vm: &mut Vm, args: Args) -> Result {
    if args.count != 1 {
        return Err(failed("redis.set_repl() requires two arguments."));
    }
    let flags = number::to_i64(vm.to_number(vm.arg(args, 0)).unwrap_or(0.0));
    if flags & !REPLICATE_ALL != 0 {
        return Err(failed(
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(Flow::None)
}

pub(super) fn setresp(vm: &mut Vm, args: Args) -> Result {
    if args.count != 1 {
        return Err(failed("redis.setresp() requires one argument."));
    }
    match number::to_i64(vm.to_number(vm.arg(args, 0)).unwrap_or(0.0)) {
        2 => vm.session.is_resp3 = false,
        3 => vm.session.is_resp3 = true,
        _ => return Err(failed("RESP version must be 2 or 3.")),
    }
    Ok(Flow::None)
}

pub(super) fn sha1hex(vm: &mut Vm, args: Args) -> Result {
    if args.count != 1 {
        return Err(failed("wrong number of arguments"));
    }
    let text = vm
        .to_bytes(vm.arg(args, 0))
        .unwrap_or_else(|| Arc::from(&b""[..]));
    vm.charge(text.len() / 8);
    vm.heap.text(&hex(&Sha1::digest(&text))).map(Flow::One)
}

pub(super) fn absent_global(vm: &mut Vm, args: Args) -> Result {
    let name = vm
        .to_bytes(vm.arg(args, 1))
        .unwrap_or_else(|| Arc::from(&b"?"[..]));
    let mut text = b"Script attempted to access nonexistent global variable '".to_vec();
    text.extend_from_slice(&name);
    text.push(b'\'');
    Err(Raise::Message(text))
}

// ---- functions

/// Functions of one library.
const FUNCTIONS_MAX: usize = 1_000;

pub(super) fn register_function(vm: &mut Vm, args: Args) -> Result {
    if vm.session.registering.is_none() {
        return Err(failed(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    if args.count == 0 || args.count > 2 {
        return Err(failed("wrong number of arguments to redis.register_function"));
    }
    let registered = if args.count == 1 {
        named_arguments(vm, args)?
    } else {
        let name = match vm.arg(args, 0) {
            Value::Str(name) => Arc::clone(vm.heap.bytes(name)),
            _ => {
                return Err(failed(
                    "first argument to redis.register_function must be a string",
                ));
            }
        };
        let callback @ Value::Closure(_) = vm.arg(args, 1) else {
            return Err(failed(
                "second argument to redis.register_function must be a function",
            ));
        };
        (name, callback, Vec::new(), None)
    };
    let (name, callback, flags, description) = registered;
    let is_name = !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if !is_name {
        return Err(failed(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ));
    }
    let registering = vm.session.registering.as_mut().expect("it was looked at above");
    if registering.iter().any(|other| other.name == name) {
        return Err(failed("Function already exists in the library"));
    }
    if registering.len() >= FUNCTIONS_MAX {
        return Err(failed("too many functions in the library"));
    }
    registering.push(Registered {
        name,
        flags,
        description,
    });
    vm.pinned.push(callback);
    Ok(Flow::None)
}

type Arguments = (Arc<[u8]>, Value, Vec<Arc<[u8]>>, Option<Arc<[u8]>>);

fn named_arguments(vm: &Vm, args: Args) -> std::result::Result<Arguments, Raise> {
    let Value::Table(table) = vm.arg(args, 0) else {
        return Err(failed(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ));
    };
    let (mut name, mut callback, mut flags, mut description) = (None, None, Vec::new(), None);
    for (key, value) in vm.heap.table(table).entries() {
        let Value::Str(key) = key else {
            return Err(failed(
                "named argument key given to redis.register_function is not a string",
            ));
        };
        match (&vm.heap.bytes(key)[..], value) {
            (b"function_name", Value::Str(text)) => name = Some(Arc::clone(vm.heap.bytes(text))),
            (b"function_name", _) => {
                return Err(failed(
                    "function_name argument given to redis.register_function must be a string",
                ));
            }
            (b"description", Value::Str(text)) => description = Some(Arc::clone(vm.heap.bytes(text))),
            (b"description", _) => {
                return Err(failed(
                    "description argument given to redis.register_function must be a string",
                ));
            }
            (b"callback", function @ Value::Closure(_)) => callback = Some(function),
            (b"callback", _) => {
                return Err(failed(
                    "callback argument given to redis.register_function must be a function",
                ));
            }
            (b"flags", Value::Table(list)) => {
                let mut index = 1;
                loop {
                    match vm.heap.get_index(list, index) {
                        Value::Nil => break,
                        Value::Str(flag) if crate::shebang::is_flag(vm.heap.bytes(flag)) => {
                            flags.push(Arc::clone(vm.heap.bytes(flag)));
                        }
                        _ => return Err(failed("unknown flag given")),
                    }
                    index += 1;
                }
            }
            (b"flags", _) => {
                return Err(failed(
                    "flags argument to redis.register_function must be a table representing function flags",
                ));
            }
            _ => return Err(failed("unknown argument given to redis.register_function")),
        }
    }
    let Some(name) = name else {
        return Err(failed(
            "redis.register_function must get a function name argument",
        ));
    };
    let Some(callback) = callback else {
        return Err(failed("redis.register_function must get a callback argument"));
    };
    Ok((name, callback, flags, description))
}
