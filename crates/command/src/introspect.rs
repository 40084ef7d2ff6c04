//! `COMMAND` and its subcommands, answered from the table.

use crate::docs::{Argument, Docs, docs_of};
use crate::glob::Glob;
use crate::key_spec::{KeyFlags, KeySpec, Search, key_flags, legacy_range, misses_keys};
use crate::table::{lookup_full, resolve_any};
use crate::{CommandId, Flags, ReplyError, Spec, TABLE, check_arity, resolve};
use resp::{Args, ReplyWriter};

/// Answers `COMMAND ..`; errors too are written.
pub fn command(args: Args<'_>, w: &mut ReplyWriter<'_>) {
    if let Err(error) = answer(args, w) {
        error.write(w);
    }
}

/// Nothing is written before an error is known.
fn answer(args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    match resolve(args)?.id {
        CommandId::Command => infos(args.from(1), w),
        CommandId::CommandInfo => infos(args.from(2), w),
        CommandId::CommandCount => w.integer(i64::try_from(TABLE.len()).expect("the table is small")),
        CommandId::CommandDocs => docs(args.from(2), w),
        CommandId::CommandList => list(args.from(2), w)?,
        CommandId::CommandGetKeys => get_keys(args.from(2), w)?,
        CommandId::CommandGetKeysAndFlags => get_keys_and_flags(args.from(2), w)?,
        CommandId::CommandHelp => help(resolve(args)?, w),
        _ => return Err(ReplyError::unknown_command(args)),
    }
    Ok(())
}

/// Answers a `HELP` subcommand: how each subcommand of its container is written, and what it does.
pub fn help(spec: &Spec, w: &mut ReplyWriter<'_>) {
    let name = spec.name.split('|').next().unwrap_or_default();
    let container = TABLE.iter().find(|container| container.name == name);
    let subcommands = container.map_or(&[][..], |container| container.visible_subcommands());
    let lines = subcommands
        .iter()
        .filter(|other| other.name != spec.name)
        .flat_map(|other| {
            let docs = docs_of(other);
            let words = docs.arguments.iter().map(|argument| format!(" {argument}"));
            let own = other
                .name
                .split('|')
                .next_back()
                .unwrap_or_default()
                .to_ascii_uppercase();
            [own + &words.collect::<String>(), format!("    {}", docs.summary)]
        });
    help_of(&name.to_ascii_uppercase(), lines.collect(), w);
}

/// The same for a container whose subcommands the table does not know: a line that names it, `lines`, and what every one has.
pub fn help_of(container: &str, mut lines: Vec<String>, w: &mut ReplyWriter<'_>) {
    lines.insert(
        0,
        format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"),
    );
    lines.extend(["HELP", "    Prints this help."].map(str::to_owned));
    w.array(lines.len());
    lines.iter().for_each(|line| w.simple(line));
}

/// All commands if none is named.
fn infos(names: Args<'_>, w: &mut ReplyWriter<'_>) {
    if names.is_empty() {
        w.array(TABLE.len());
        TABLE.iter().for_each(|spec| info(spec, w));
        return;
    }
    w.array(names.len());
    for name in names.iter() {
        match lookup_full(name) {
            Some(spec) => info(spec, w),
            None => w.null(),
        }
    }
}

fn info(spec: &Spec, w: &mut ReplyWriter<'_>) {
    let (first, last, step) = legacy_range(spec.keys);
    w.array(10);
    w.bulk(spec.name.as_bytes());
    w.integer(i64::from(spec.arity));
    let shown = spec.flags.without(Flags::MAY_REPLICATE);
    statuses(shown.names(), shown.len(), w);
    w.integer(first);
    w.integer(last);
    w.integer(step);
    let categories = spec.all_categories();
    statuses(categories.names(), categories.len(), w);
    w.set(spec.tips.split_whitespace().count());
    spec.tips
        .split_whitespace()
        .for_each(|tip| w.bulk(tip.as_bytes()));
    w.set(spec.keys.len());
    spec.keys.iter().for_each(|place| key_spec(place, w));
    let subcommands = spec.visible_subcommands();
    // Redis answers no subcommands as a set and some as an array.
    if subcommands.is_empty() {
        w.set(0)
    } else {
        w.array(subcommands.len())
    }
    subcommands.iter().for_each(|subcommand| info(subcommand, w));
}

fn statuses<'a>(names: impl Iterator<Item = &'a str>, count: usize, w: &mut ReplyWriter<'_>) {
    w.set(count);
    names.for_each(|name| w.simple(name));
}

fn key_spec(spec: &KeySpec, w: &mut ReplyWriter<'_>) {
    w.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        field("notes", notes, w);
    }
    w.bulk(b"flags");
    statuses(spec.flags.names(), spec.flags.len(), w);
    w.bulk(b"begin_search");
    w.map(2);
    let index = i64::from(spec.first);
    match spec.search {
        Search::Range | Search::Counted => {
            field("type", "index", w);
            w.bulk(b"spec");
            numbers(&[("index", index)], w);
        }
        Search::After { keyword } => begins_with(keyword, index, w),
        Search::Streams => begins_with("STREAMS", index, w),
        Search::Hidden { .. } | Search::Incomplete => unknown(w),
    }
    w.bulk(b"find_keys");
    w.map(2);
    match spec.search {
        Search::Range | Search::After { .. } | Search::Streams => {
            field("type", "range", w);
            w.bulk(b"spec");
            let (last, step) = (i64::from(spec.last), i64::from(spec.step));
            // One half of what follows are keys.
            let limit = if spec.search == Search::Streams { 2 } else { 0 };
            numbers(&[("lastkey", last), ("keystep", step), ("limit", limit)], w);
        }
        Search::Counted => {
            field("type", "keynum", w);
            w.bulk(b"spec");
            let step = i64::from(spec.step);
            numbers(&[("keynumidx", 0), ("firstkey", 1), ("keystep", step)], w);
        }
        Search::Hidden { .. } | Search::Incomplete => unknown(w),
    }
}

fn begins_with(keyword: &str, from: i64, w: &mut ReplyWriter<'_>) {
    field("type", "keyword", w);
    w.bulk(b"spec");
    w.map(2);
    field("keyword", keyword, w);
    w.bulk(b"startfrom");
    w.integer(from);
}

fn numbers(fields: &[(&str, i64)], w: &mut ReplyWriter<'_>) {
    w.map(fields.len());
    for (name, value) in fields {
        w.bulk(name.as_bytes());
        w.integer(*value);
    }
}

fn unknown(w: &mut ReplyWriter<'_>) {
    field("type", "unknown", w);
    w.bulk(b"spec");
    w.map(0);
}

fn field(name: &str, value: &str, w: &mut ReplyWriter<'_>) {
    w.bulk(name.as_bytes());
    w.bulk(value.as_bytes());
}

fn docs(names: Args<'_>, w: &mut ReplyWriter<'_>) {
    if names.is_empty() {
        return documented(TABLE.iter().copied(), w);
    }
    let found: Vec<&Spec> = names.iter().filter_map(lookup_full).collect();
    documented(found.into_iter(), w);
}

fn documented<'a>(specs: impl ExactSizeIterator<Item = &'a Spec>, w: &mut ReplyWriter<'_>) {
    w.map(specs.len());
    for spec in specs {
        w.bulk(spec.name.as_bytes());
        documentation(docs_of(spec), spec.visible_subcommands(), w);
    }
}

fn documentation(docs: &Docs, subcommands: &[Spec], w: &mut ReplyWriter<'_>) {
    let flags: Vec<&str> = [
        (docs.deprecated.is_some(), "deprecated"),
        (docs.internal, "syscmd"),
    ]
    .into_iter()
    .filter_map(|(is, name)| is.then_some(name))
    .collect();
    let optional = [
        !docs.complexity.is_empty(),
        !flags.is_empty(),
        !docs.history.is_empty(),
        !docs.arguments.is_empty(),
        !subcommands.is_empty(),
    ];
    let optional = optional.into_iter().filter(|present| *present).count();
    w.map(3 + optional + if docs.deprecated.is_some() { 2 } else { 0 });
    field("summary", docs.summary, w);
    field("since", docs.since, w);
    field("group", docs.group, w);
    if !docs.complexity.is_empty() {
        field("complexity", docs.complexity, w);
    }
    if !flags.is_empty() {
        w.bulk(b"doc_flags");
        statuses(flags.iter().copied(), flags.len(), w);
    }
    if let Some((since, replaced_by)) = docs.deprecated {
        field("deprecated_since", since, w);
        field("replaced_by", replaced_by, w);
    }
    if !docs.history.is_empty() {
        w.bulk(b"history");
        w.set(docs.history.len());
        for (version, change) in &docs.history {
            w.array(2);
            w.bulk(version.as_bytes());
            w.bulk(change.as_bytes());
        }
    }
    if !docs.arguments.is_empty() {
        w.bulk(b"arguments");
        arguments(&docs.arguments, w);
    }
    if !subcommands.is_empty() {
        w.bulk(b"subcommands");
        documented(subcommands.iter(), w);
    }
}

fn arguments(all: &[Argument], w: &mut ReplyWriter<'_>) {
    w.array(all.len());
    for argument in all {
        let flags: Vec<&str> = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
            (argument.multiple_token, "multiple_token"),
        ]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
        let optional = [
            argument.key_spec.is_some(),
            argument.token.is_some(),
            argument.since.is_some(),
            argument.deprecated_since.is_some(),
            !flags.is_empty(),
            !argument.inner.is_empty(),
        ];
        w.map(2 + optional.into_iter().filter(|present| *present).count());
        field("name", &argument.name, w);
        field("type", argument.kind, w);
        if let Some(number) = argument.key_spec {
            w.bulk(b"key_spec_index");
            w.integer(i64::from(number));
        }
        for (name, value) in [
            ("token", argument.token),
            ("since", argument.since),
            ("deprecated_since", argument.deprecated_since),
        ] {
            if let Some(value) = value {
                field(name, value, w);
            }
        }
        if !flags.is_empty() {
            w.bulk(b"flags");
            statuses(flags.iter().copied(), flags.len(), w);
        }
        if !argument.inner.is_empty() {
            w.bulk(b"arguments");
            arguments(&argument.inner, w);
        }
    }
}

fn list(argv: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let names: Vec<&str> = match argv.len() {
        0 => names(|_| true),
        3 if argv.arg(0).eq_ignore_ascii_case(b"filterby") => {
            let (kind, wanted) = (argv.arg(1), argv.arg(2));
            if kind.eq_ignore_ascii_case(b"module") {
                // There are no modules, so no command is from one.
                Vec::new()
            } else if kind.eq_ignore_ascii_case(b"aclcat") {
                names(|spec| {
                    spec.all_categories()
                        .names()
                        .any(|name| name.as_bytes()[1..].eq_ignore_ascii_case(wanted))
                })
            } else if kind.eq_ignore_ascii_case(b"pattern") {
                let wanted = Glob::ignoring_case(wanted);
                names(|spec| wanted.matches(spec.name.as_bytes()))
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        _ => return Err(ReplyError::Syntax),
    };
    w.array(names.len());
    names.iter().for_each(|name| w.bulk(name.as_bytes()));
    Ok(())
}

/// The names of the commands and subcommands that `wanted` holds for.
fn names(wanted: impl Fn(&Spec) -> bool) -> Vec<&'static str> {
    TABLE
        .iter()
        .flat_map(|spec| std::iter::once(*spec).chain(spec.visible_subcommands()))
        .filter(|spec| wanted(spec))
        .map(|spec| spec.name)
        .collect()
}

/// The spec of the command whose keys are asked for.
fn asked(argv: Args<'_>) -> Result<&'static Spec, ReplyError> {
    let spec = resolve_any(argv).ok_or(ReplyError::InvalidCommand)?;
    let is_key = |place: &KeySpec| !place.flags.contains(KeyFlags::NOT_KEY);
    if !spec.keys.iter().any(is_key) {
        return Err(ReplyError::NoKeyArguments);
    }
    check_arity(spec, argv).map_err(|_| ReplyError::InvalidArgumentCount)?;
    Ok(spec)
}

fn get_keys(argv: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let found = keys_of(argv)?;
    w.array(found.len());
    found.iter().for_each(|(position, _)| w.bulk(argv.arg(*position)));
    Ok(())
}

fn get_keys_and_flags(argv: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let found = keys_of(argv)?;
    w.array(found.len());
    for (position, flags) in found {
        w.array(2);
        w.bulk(argv.arg(position));
        statuses(flags.names(), flags.len(), w);
    }
    Ok(())
}

/// Where the keys stand, and their use. As in Redis it is a mistake if a place that must hold keys has none, but of scripts.
fn keys_of(argv: Args<'_>) -> Result<Vec<(usize, KeyFlags)>, ReplyError> {
    let spec = asked(argv)?;
    let mut found = Vec::new();
    key_flags(spec, argv, &mut |position, flags| found.push((position, flags)));
    let must_have = !spec.flags.contains(Flags::NO_MANDATORY_KEYS);
    if must_have && (found.is_empty() || misses_keys(spec, argv)) {
        return Err(ReplyError::InvalidArguments);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::{ArgsBuf, Protocol};

    fn reply(words: &str, protocol: Protocol) -> String {
        let mut out = Vec::new();
        command(
            ArgsBuf::from_slices(words.split(' ')).as_args(),
            &mut ReplyWriter::new(&mut out, protocol),
        );
        String::from_utf8(out)
            .expect("replies about commands are text")
            .replace("\r\n", " ")
    }

    #[test]
    fn info_describes_a_command_in_ten_elements() {
        assert_eq!(
            reply("COMMAND INFO mset nope", Protocol::Resp2),
            "*2 *10 $4 mset :-3 *2 +write +denyoom :1 :-1 :2 *3 +@write +@string +@slow \
             *2 $26 request_policy:multi_shard $29 response_policy:all_succeeded \
             *1 *6 $5 flags *2 +OW +update \
             $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 \
             $9 find_keys *4 $4 type $5 range $4 spec *6 $7 lastkey :-1 $7 keystep :2 $5 limit :0 \
             *0 $-1 "
        );
        assert_eq!(
            reply("COMMAND INFO ttl", Protocol::Resp3),
            "*1 *10 $3 ttl :2 ~2 +readonly +fast :1 :1 :1 ~3 +@keyspace +@read +@fast \
             ~1 $23 nondeterministic_output \
             ~1 %3 $5 flags ~2 +RO +access \
             $12 begin_search %2 $4 type $5 index $4 spec %1 $5 index :1 \
             $9 find_keys %2 $4 type $5 range $4 spec %3 $7 lastkey :0 $7 keystep :1 $5 limit :0 \
             ~0 "
        );
    }

    #[test]
    fn docs_leave_out_what_a_command_has_not() {
        assert_eq!(
            reply("COMMAND DOCS strlen nope", Protocol::Resp2),
            "*2 $6 strlen *10 $7 summary $31 Returns the length of a string. $5 since $5 2.2.0 \
             $5 group $6 string $10 complexity $4 O(1) $9 arguments *1 *6 $4 name $3 key $4 type $3 key \
             $14 key_spec_index :0 "
        );
        let substr = reply("COMMAND DOCS substr", Protocol::Resp3);
        assert!(substr.contains("%8 $7 summary"), "{substr}");
        assert!(
            substr.contains("$9 doc_flags ~1 +deprecated $16 deprecated_since $5 2.0.0 $11 replaced_by"),
            "{substr}"
        );
        assert!(
            reply("COMMAND DOCS config", Protocol::Resp3).contains("$11 subcommands %5 $10 config|get %")
        );
    }

    #[test]
    fn replies_are_complete_values_in_both_protocols() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            for words in [
                "COMMAND",
                "COMMAND DOCS",
                "COMMAND LIST",
                "COMMAND INFO",
                "COMMAND COUNT",
                "COMMAND HELP",
            ] {
                let mut out = Vec::new();
                command(
                    ArgsBuf::from_slices(words.split(' ')).as_args(),
                    &mut ReplyWriter::new(&mut out, protocol),
                );
                assert_eq!(resp::skip_value(&out), Some(out.len()), "{words}");
            }
        }
    }

    #[test]
    fn lists_are_filtered() {
        assert_eq!(
            reply("COMMAND LIST FILTERBY pattern *SETN?", Protocol::Resp2),
            "*3 $5 setnx $6 msetnx $6 hsetnx "
        );
        assert_eq!(
            reply("COMMAND LIST FILTERBY aclcat Transaction", Protocol::Resp2),
            "*5 $5 multi $4 exec $7 discard $5 watch $7 unwatch "
        );
        assert_eq!(reply("COMMAND LIST FILTERBY aclcat nope", Protocol::Resp2), "*0 ");
        assert_eq!(reply("COMMAND LIST FILTERBY module x", Protocol::Resp2), "*0 ");
        assert_eq!(
            reply("COMMAND LIST FILTERBY x y", Protocol::Resp2),
            "-ERR syntax error "
        );
        assert_eq!(reply("COMMAND LIST x", Protocol::Resp2), "-ERR syntax error ");
        assert!(!reply("COMMAND LIST", Protocol::Resp2).contains("debug|"));
    }

    #[test]
    fn keys_of_a_command_are_told_or_the_reason_why_not() {
        for (words, expected) in [
            ("GETKEYS mset a b c d", "*2 $1 a $1 c "),
            ("GETKEYS object freq a", "*1 $1 a "),
            ("GETKEYS bitop and d a b", "*3 $1 d $1 a $1 b "),
            ("GETKEYS ping x", "-ERR The command has no key arguments "),
            ("GETKEYS nope x", "-ERR Invalid command specified "),
            ("GETKEYS object nope a", "-ERR Invalid command specified "),
            (
                "GETKEYS object freq",
                "-ERR Invalid number of arguments specified for command ",
            ),
            (
                "GETKEYS get",
                "-ERR wrong number of arguments for 'command|getkeys' command ",
            ),
            ("GETKEYSANDFLAGS set a b", "*1 *2 $1 a *2 +OW +update "),
            (
                "GETKEYSANDFLAGS set a b get",
                "*1 *2 $1 a *3 +RW +access +update ",
            ),
            (
                "GETKEYSANDFLAGS rename a b",
                "*2 *2 $1 a *3 +RW +access +delete *2 $1 b *2 +OW +update ",
            ),
            (
                "GETKEYSANDFLAGS bitfield a get u8 0",
                "*1 *2 $1 a *2 +RO +access ",
            ),
            ("nope", "-ERR unknown subcommand 'nope'. Try COMMAND HELP. "),
        ] {
            assert_eq!(
                reply(&format!("COMMAND {words}"), Protocol::Resp2),
                expected,
                "{words}"
            );
        }
    }
}
