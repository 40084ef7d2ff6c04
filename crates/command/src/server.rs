//! The server: configuration, commands, memory and time. Only what names a key reaches a group.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Categories, Flags, Spec};
use crate::{Command, ReplyError};
use resp::Args;

pub(crate) const INFO: Spec = Spec::new("info", -1)
    .flags(Flags::ANYTIME)
    .of(Categories::DANGEROUS)
    .tips("nondeterministic_output request_policy:all_shards response_policy:special");

pub(crate) const CONFIG: Spec = Spec::container("config");

pub(crate) const CONFIG_GET: Spec = Spec::admin("config|get", -3);

pub(crate) const CONFIG_SET: Spec =
    Spec::admin("config|set", -4).tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const CONFIG_RESETSTAT: Spec = Spec::admin("config|resetstat", 2);

pub(crate) const CONFIG_HELP: Spec = Spec::help("config|help");

pub(crate) const COMMAND: Spec = Spec::new("command", -1)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION)
    .tips("nondeterministic_output_order");

pub(crate) const COMMAND_COUNT: Spec = Spec::new("command|count", 2)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION);

pub(crate) const COMMAND_DOCS: Spec = Spec::new("command|docs", -2)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION)
    .tips("nondeterministic_output_order");

pub(crate) const COMMAND_GETKEYS: Spec = Spec::new("command|getkeys", -4)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION);

pub(crate) const COMMAND_GETKEYSANDFLAGS: Spec = Spec::new("command|getkeysandflags", -4)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION);

pub(crate) const COMMAND_INFO: Spec = Spec::new("command|info", -2)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION)
    .tips("nondeterministic_output_order");

pub(crate) const COMMAND_LIST: Spec = Spec::new("command|list", -2)
    .flags(Flags::ANYTIME)
    .of(Categories::CONNECTION)
    .tips("nondeterministic_output_order");

pub(crate) const COMMAND_HELP: Spec = Spec::help("command|help").of(Categories::CONNECTION);

pub(crate) const TIME: Spec = Spec::new("time", 1)
    .flags(Flags::ANYTIME.and(Flags::FAST))
    .tips("nondeterministic_output");

pub(crate) const WAIT: Spec = Spec::new("wait", 3)
    .flags(Flags::NOSCRIPT)
    .of(Categories::CONNECTION)
    .tips("request_policy:all_shards response_policy:agg_min");

pub(crate) const WAITAOF: Spec = Spec::new("waitaof", 4)
    .flags(Flags::NOSCRIPT)
    .of(Categories::CONNECTION)
    .tips("request_policy:all_shards response_policy:agg_min");

pub(crate) const MEMORY: Spec = Spec::container("memory");

pub(crate) const MEMORY_USAGE: Spec = Spec::look("memory|usage", -3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .parse(parse_memory_usage);

fn parse_memory_usage(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match args.get(at + 1) {
            // The number only has to be one: nothing here is estimated from samples.
            Some(number) if word.eq_ignore_ascii_case(b"samples") => {
                if number::integer(number)? < 0 {
                    return Err(ReplyError::Syntax);
                }
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    Ok(Command::MemoryUsage { key: args.arg(2) })
}

pub(crate) const MEMORY_HELP: Spec = Spec::help("memory|help");

pub(crate) const DEBUG: Spec = Spec::admin("debug", -2).open();

pub(crate) const DEBUG_OBJECT: Spec = Spec::look("debug|object", -3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .flags(Flags::ADMIN.and(Flags::NOSCRIPT))
    .parse(|args| Ok(Command::DebugObject { key: args.arg(2) }));

pub(crate) const DEBUG_CODING: Spec = Spec::look("debug|coding", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .flags(Flags::ADMIN.and(Flags::NOSCRIPT))
    .parse(|args| Ok(Command::DebugCoding { key: args.arg(2) }));

pub(crate) const DEBUG_SDSLEN: Spec = Spec::look("debug|sdslen", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .flags(Flags::ADMIN.and(Flags::NOSCRIPT))
    .parse(|args| Ok(Command::DebugSdsLen { key: args.arg(2) }));

pub(crate) const MODULE: Spec = Spec::container("module");

pub(crate) const MODULE_LIST: Spec = Spec::new("module|list", 2)
    .flags(Flags::ADMIN.and(Flags::NOSCRIPT))
    .tips("nondeterministic_output_order");

pub(crate) const MODULE_HELP: Spec = Spec::help("module|help");

pub(crate) const ROLE: Spec = Spec::new("role", 1)
    .flags(Flags::NOSCRIPT.and(Flags::ANYTIME).and(Flags::FAST))
    .of(Categories::ADMIN.and(Categories::DANGEROUS));

pub(crate) const LASTSAVE: Spec = Spec::new("lastsave", 1)
    .flags(Flags::ANYTIME.and(Flags::FAST))
    .of(Categories::ADMIN.and(Categories::DANGEROUS))
    .tips("nondeterministic_output");

pub(crate) const SAVE: Spec = Spec::new("save", 1).flags(
    Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::NO_ASYNC_LOADING)
        .and(Flags::NO_MULTI),
);

pub(crate) const BGSAVE: Spec =
    Spec::new("bgsave", -1).flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING));

pub(crate) const BGREWRITEAOF: Spec =
    Spec::new("bgrewriteaof", 1).flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING));

pub(crate) const SHUTDOWN: Spec = Spec::admin("shutdown", -1).flags(Flags::NO_MULTI.and(Flags::ALLOW_BUSY));

pub(crate) const CONFIG_REWRITE: Spec = Spec::admin("config|rewrite", 2);

pub(crate) const MEMORY_STATS: Spec = Spec::new("memory|stats", 2)
    .tips("nondeterministic_output request_policy:all_shards response_policy:special");

pub(crate) const MEMORY_DOCTOR: Spec = Spec::new("memory|doctor", 2)
    .tips("nondeterministic_output request_policy:all_shards response_policy:special");

pub(crate) const MEMORY_MALLOC_STATS: Spec = Spec::new("memory|malloc-stats", 2)
    .tips("nondeterministic_output request_policy:all_shards response_policy:special");

pub(crate) const MEMORY_PURGE: Spec =
    Spec::new("memory|purge", 2).tips("request_policy:all_shards response_policy:all_succeeded");

pub(crate) const LOLWUT: Spec = Spec::new("lolwut", -1).flags(Flags::READONLY.and(Flags::FAST));
