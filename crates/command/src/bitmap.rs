//! Bitmaps: strings seen as bits.

use crate::bitfield;
use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread};
use crate::{BitOperation, BitRange, BitUnit, Command, CommandId, ReplyError, VALUE_BYTES_MAX};
use resp::Args;

/// The last bit that a value can have.
pub(crate) const BIT_OFFSET_MAX: u64 = VALUE_BYTES_MAX * 8 - 1;

/// `SETBIT`.
pub(crate) static SETBIT: Spec = Spec {
    name: "setbit",
    id: CommandId::SetBit,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::BITMAP,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Changes one bit of a string and returns the bit before.",
        since: "2.2.0",
        group: Group::Bitmap,
        arguments: &[
            Argument::KEY,
            Argument::integer("offset"),
            Argument::integer("value"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_setbit),
    ..Spec::BASE
};

fn parse_setbit(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let offset = bit_offset(args.arg(2))?;
    let bit = match number::parse_i64(args.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(ReplyError::Bit),
    };
    Ok(Command::SetBit {
        key: args.arg(1),
        offset,
        bit,
    })
}

fn bit_offset(word: &[u8]) -> Result<u64, ReplyError> {
    number::parse_i64(word)
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| *offset <= BIT_OFFSET_MAX)
        .ok_or(ReplyError::BitOffset)
}

/// `GETBIT`.
pub(crate) static GETBIT: Spec = Spec {
    name: "getbit",
    id: CommandId::GetBit,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::BITMAP,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns one bit of a string.",
        since: "2.2.0",
        group: Group::Bitmap,
        arguments: &[Argument::KEY, Argument::integer("offset")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::GetBit {
            key: args.arg(1),
            offset: bit_offset(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// `BITCOUNT`.
pub(crate) static BITCOUNT: Spec = Spec {
    name: "bitcount",
    id: CommandId::BitCount,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Counts the bits that are set in a string.",
        since: "2.6.0",
        group: Group::Bitmap,
        complexity: "O(N)",
        history: &[("7.0.0", "`BYTE` and `BIT`.")],
        arguments: &[
            Argument::KEY,
            Argument::block(
                "index",
                &[
                    Argument::integer("start"),
                    Argument::integer("end"),
                    Argument::one_of(
                        "index_unit",
                        &[Argument::word("byte", "BYTE"), Argument::word("bit", "BIT")],
                    )
                    .since("7.0.0")
                    .optional(),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_bitcount),
    ..Spec::BASE
};

fn parse_bitcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let range = match args.len() {
        2 => None,
        4 | 5 => {
            let start = number::integer(args.arg(2))?;
            let end = number::integer(args.arg(3))?;
            Some(BitRange {
                start,
                end,
                unit: unit(args.get(4))?,
            })
        }
        _ => return Err(ReplyError::Syntax),
    };
    Ok(Command::BitCount {
        key: args.arg(1),
        range,
    })
}

fn unit(word: Option<&[u8]>) -> Result<BitUnit, ReplyError> {
    match word {
        None => Ok(BitUnit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(BitUnit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(BitUnit::Bit),
        Some(_) => Err(ReplyError::Syntax),
    }
}

/// `BITPOS`.
pub(crate) static BITPOS: Spec = Spec {
    name: "bitpos",
    id: CommandId::BitPos,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Finds the first bit of a string that is set, or clear.",
        since: "2.8.7",
        group: Group::Bitmap,
        complexity: "O(N)",
        history: &[("7.0.0", "`BYTE` and `BIT`.")],
        arguments: &[
            Argument::KEY,
            Argument::integer("bit"),
            Argument::block(
                "index",
                &[
                    Argument::integer("start"),
                    Argument::block(
                        "end_index",
                        &[
                            Argument::integer("end"),
                            Argument::one_of(
                                "index_unit",
                                &[Argument::word("byte", "BYTE"), Argument::word("bit", "BIT")],
                            )
                            .since("7.0.0")
                            .optional(),
                        ],
                    )
                    .optional(),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_bitpos),
    ..Spec::BASE
};

fn parse_bitpos(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let bit = match number::integer(args.arg(2))? {
        0 => false,
        1 => true,
        _ => return Err(ReplyError::BitArgument),
    };
    if args.len() > 6 {
        return Err(ReplyError::Syntax);
    }
    let start = args.get(3).map(number::integer).transpose()?;
    let unit = unit(args.get(5))?;
    let end = args.get(4).map(number::integer).transpose()?;
    Ok(Command::BitPos {
        key: args.arg(1),
        bit,
        start,
        end,
        unit,
    })
}

/// `BITOP`.
pub(crate) static BITOP: Spec = Spec {
    name: "bitop",
    id: CommandId::BitOp,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::BITMAP,
    keys: &[
        KeySpec::at(2, KeyFlags::OVERWRITE),
        KeySpec::from(3, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    docs: Docs {
        summary: "Combines the bits of strings and stores the result.",
        since: "2.6.0",
        group: Group::Bitmap,
        complexity: "O(N)",
        arguments: &[
            Argument::string("operation"),
            Argument::key("destkey", 0),
            Argument::key("key", 1).multiple(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_bitop),
    ..Spec::BASE
};

fn parse_bitop(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let word = args.arg(1);
    let operation = if word.eq_ignore_ascii_case(b"and") {
        BitOperation::And
    } else if word.eq_ignore_ascii_case(b"or") {
        BitOperation::Or
    } else if word.eq_ignore_ascii_case(b"xor") {
        BitOperation::Xor
    } else if word.eq_ignore_ascii_case(b"not") {
        BitOperation::Not
    } else {
        return Err(ReplyError::Syntax);
    };
    if operation == BitOperation::Not && args.len() != 4 {
        return Err(ReplyError::BitOpNotSources);
    }
    Ok(Command::BitOp {
        operation,
        destination: args.arg(2),
        sources: args.from(3),
    })
}

/// `BITFIELD`.
pub(crate) static BITFIELD: Spec = Spec {
    name: "bitfield",
    id: CommandId::BitField,
    arity: -2,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::BITMAP,
    keys: &[KeySpec {
        notes: Some("Only reads if all operations are `GET`."),
        ..KeySpec::at(1, KeyFlags::CHANGE.and(KeyFlags::VARIABLE_FLAGS))
    }],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Reads and changes integers of any width inside a string.",
        since: "3.2.0",
        group: Group::Bitmap,
        complexity: "O(1) for each operation.",
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "operation",
                &[
                    Argument::block(
                        "encoding_offset",
                        &[Argument::string("encoding"), Argument::integer("offset")],
                    )
                    .token("GET"),
                    Argument::block(
                        "write",
                        &[
                            Argument::one_of(
                                "wrap_sat_fail",
                                &[
                                    Argument::word("wrap", "WRAP"),
                                    Argument::word("sat", "SAT"),
                                    Argument::word("fail", "FAIL"),
                                ],
                            )
                            .token("OVERFLOW")
                            .optional(),
                            Argument::one_of(
                                "write_operation",
                                &[
                                    Argument::block(
                                        "encoding_offset_value",
                                        &[
                                            Argument::string("encoding"),
                                            Argument::integer("offset"),
                                            Argument::integer("value"),
                                        ],
                                    )
                                    .token("SET"),
                                    Argument::block(
                                        "encoding_offset_increment",
                                        &[
                                            Argument::string("encoding"),
                                            Argument::integer("offset"),
                                            Argument::integer("increment"),
                                        ],
                                    )
                                    .token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_bitfield),
    ..Spec::BASE
};

fn parse_bitfield(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let operations = args.from(2);
    let writes = bitfield::check(operations)?;
    Ok(Command::BitField {
        key: args.arg(1),
        operations,
        writes,
    })
}

/// `BITFIELD_RO`.
pub(crate) static BITFIELD_RO: Spec = Spec {
    name: "bitfield_ro",
    id: CommandId::BitFieldRo,
    arity: -2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::BITMAP,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Reads integers of any width inside a string.",
        since: "6.0.0",
        group: Group::Bitmap,
        complexity: "O(1) for each operation.",
        arguments: &[
            Argument::KEY,
            Argument::block(
                "encoding_offset",
                &[Argument::string("encoding"), Argument::integer("offset")],
            )
            .token("GET")
            .optional()
            .multiple()
            .multiple_token(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_bitfield_ro),
    ..Spec::BASE
};

fn parse_bitfield_ro(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let operations = args.from(2);
    if bitfield::check(operations)? {
        return Err(ReplyError::BitFieldReadOnly);
    }
    Ok(Command::BitField {
        key: args.arg(1),
        operations,
        writes: false,
    })
}
