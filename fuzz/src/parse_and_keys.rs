//! Any words at all are a command or an error.

use crate::source::Source;
use command::{CommandId, CommandRoute, Flags, KeyUse};
use resp::ArgsBuf;

/// Resolving, parsing and finding keys never panic; keys lie among the words; what writes is known to write
/// before it is parsed, and locks a key exclusively.
pub fn parse_and_keys(data: &[u8]) {
    let words = ArgsBuf::from_slices(words(&mut Source(data)));
    let args = words.as_args();
    let Ok(spec) = command::resolve(args) else { return };
    let mut writes_key = false;
    command::keys(spec, args, &mut |position, key_use| {
        assert!(
            (1..args.len()).contains(&position),
            "{}: {position} of {args:?}",
            spec.name
        );
        writes_key |= key_use == KeyUse::Write;
    });
    if let Some(Ok(command)) = command::parse(spec, args) {
        let _ = command.access();
        if command.writes() {
            assert!(spec.flags.contains(Flags::WRITE), "{args:?}");
            assert!(writes_key || spec.route != CommandRoute::Keys, "{args:?}");
        }
    }
}

/// Words that begin like a command, mostly.
pub(crate) fn words(source: &mut Source<'_>) -> Vec<Vec<u8>> {
    const OPTIONS: &[&str] = &[
        "GET",
        "SET",
        "INCRBY",
        "OVERFLOW",
        "SAT",
        "FAIL",
        "WRAP",
        "u8",
        "i64",
        "u63",
        "#3",
        "0",
        "1",
        "-1",
        "64",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "1.5",
        "inf",
        "nan",
        "NX",
        "XX",
        "GT",
        "LT",
        "EX",
        "PX",
        "EXAT",
        "PXAT",
        "KEEPTTL",
        "IFEQ",
        "PERSIST",
        "MATCH",
        "COUNT",
        "TYPE",
        "string",
        "DB",
        "REPLACE",
        "LEN",
        "IDX",
        "MINMATCHLEN",
        "WITHMATCHLEN",
        "BYTE",
        "BIT",
        "AND",
        "NOT",
        "LEFT",
        "RIGHT",
        "BEFORE",
        "MIN",
        "MAX",
        "WITHSCORES",
        "WITHVALUES",
        "BYSCORE",
        "BYLEX",
        "REV",
        "LIMIT",
        "WEIGHTS",
        "AGGREGATE",
        "CH",
        "INCR",
        "RANK",
        "MAXLEN",
        "BY",
        "STORE",
        "STOREDIST",
        "ALPHA",
        "FROMMEMBER",
        "FROMLONLAT",
        "BYRADIUS",
        "BYBOX",
        "km",
        "WITHDIST",
        "ANY",
        "(1",
        "[a",
        "-",
        "+",
        "2",
        "key",
        "",
        "*",
    ];
    let mut words: Vec<Vec<u8>> = Vec::new();
    match usize::from(u16::from_le_bytes([source.byte(), source.byte()])) {
        0xFFFF => {}
        number => {
            let id = CommandId::ALL[number % CommandId::ALL.len()];
            words.extend(id.spec().name.split('|').map(|word| word.as_bytes().to_vec()));
        }
    }
    while !source.is_empty() && words.len() < 64 {
        words.push(match source.byte() {
            length @ 0..24 => source.bytes(usize::from(length)).to_vec(),
            option => OPTIONS[usize::from(option) % OPTIONS.len()].into(),
        });
    }
    words
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    (0..CommandId::ALL.len() as u16)
        .flat_map(|number| {
            let [low, high] = number.to_le_bytes();
            [
                vec![low, high],
                vec![low, high, 1, b'k', 37],
                vec![low, high, 1, b'k', 100, 150, 200, 250],
            ]
        })
        .collect()
}
