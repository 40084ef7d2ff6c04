//! What the members of a group say to each other whose values are kept as fragments.
//!
//! ```text
//!  coding   group u16 | generation u64 | from u64 | to u64 | tag u8 | fields
//!    1 holding  kept u64 | epoch: known u8 | [u32]
//!    2 ask      number u64 | count u32 | as often: db u8 | version u64 | length u32 | key
//!    3 answer   number u64 | count u32 | as often: 1 u8 | length u32 | fragment, or 2 u8 newer, or 3 u8 older
//!    4 damaged  db u8 | version u64 | length u32 | key
//! ```
//!
//! A question, or an answer, is one message: its keys, or fragments, are to have less than [`crate::MESSAGE_BYTES_MAX`] together, which any one
//! of them has. Whoever asks sees to both. What is in a fragment is not looked into here.

use codec::{DecodeError, Reader, Writer};
use coding::CodeEpoch;
use ids::{Db, GroupId, Incarnation, Version};
use replica::{ASKED_MAX, AskedKey, CodingMessage, Found, Holding};

/// Bytes of the body before the fields.
const HEAD_BYTES: usize = 2 + 3 * 8 + 1;

/// Bytes of a key that is asked for, beside the key.
const ASKED_BYTES: usize = 1 + 8 + 4;

/// Bytes of what is told of a key, beside a fragment.
const FOUND_BYTES: usize = 1 + 4;

/// One message of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coding {
    /// The group.
    pub group: GroupId,
    /// How many times it had begun anew.
    pub generation: u64,
    /// Who says it.
    pub from: Incarnation,
    /// To whom. One with another incarnation must not take it.
    pub to: Incarnation,
    /// What is said.
    pub message: CodingMessage,
}

impl Coding {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        HEAD_BYTES
            + match &self.message {
                CodingMessage::Holding(_) => 8 + 1 + 4,
                CodingMessage::Ask { keys, .. } => {
                    let keys = keys.iter().map(|asked| ASKED_BYTES + asked.key.len());
                    8 + 4 + keys.sum::<usize>()
                }
                CodingMessage::Answer { found, .. } => {
                    let found = found.iter().map(|found| FOUND_BYTES + fragment_bytes(found));
                    8 + 4 + found.sum::<usize>()
                }
                CodingMessage::Damaged(asked) => ASKED_BYTES + asked.key.len(),
            }
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u16(self.group.number());
        out.u64s(&[self.generation, self.from.0, self.to.0]);
        match &self.message {
            CodingMessage::Holding(Holding { kept, epoch }) => {
                out.u8(1);
                out.u64(kept.0);
                out.option(epoch, |out, epoch| out.u32(epoch.0));
            }
            CodingMessage::Ask { number, keys } => {
                out.u8(2);
                out.u64(*number);
                out.list(keys, encode_asked);
            }
            CodingMessage::Answer { number, found } => {
                out.u8(3);
                out.u64(*number);
                out.list(found, |out, found| match found {
                    Found::Fragment(fragment) => {
                        out.u8(1);
                        out.shared_bytes(fragment);
                    }
                    Found::Newer => out.u8(2),
                    Found::Older => out.u8(3),
                });
            }
            CodingMessage::Damaged(asked) => {
                out.u8(4);
                encode_asked(out, asked);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Coding, DecodeError> {
        Ok(Coding {
            group: GroupId::new(reader.u16()?),
            generation: reader.u64()?,
            from: Incarnation(reader.u64()?),
            to: Incarnation(reader.u64()?),
            message: decode_message(reader)?,
        })
    }
}

fn fragment_bytes(found: &Found) -> usize {
    match found {
        Found::Fragment(fragment) => fragment.len(),
        Found::Newer | Found::Older => 0,
    }
}

fn decode_message(reader: &mut Reader<'_>) -> Result<CodingMessage, DecodeError> {
    let at_most = (ASKED_MAX, "no more keys than one question may have");
    Ok(match reader.u8()? {
        1 => CodingMessage::Holding(Holding {
            kept: Version(reader.u64()?),
            epoch: reader.option(|reader| reader.u32().map(CodeEpoch))?,
        }),
        2 => CodingMessage::Ask {
            number: reader.u64()?,
            keys: reader.list_up_to(at_most, ASKED_BYTES, decode_asked)?,
        },
        3 => CodingMessage::Answer {
            number: reader.u64()?,
            found: reader.list_up_to(at_most, 1, decode_found)?,
        },
        4 => CodingMessage::Damaged(decode_asked(reader)?),
        _ => return Err(reader.unknown("a word of fragments that this version knows")),
    })
}

fn encode_asked(out: &mut impl Writer, asked: &AskedKey) {
    out.u8(asked.db.number());
    out.u64(asked.version.0);
    out.bytes(&asked.key);
}

fn decode_asked(reader: &mut Reader<'_>) -> Result<AskedKey, DecodeError> {
    let unknown = reader.error("a database that a group keeps");
    Ok(AskedKey {
        db: Db::stored(reader.u8()?).ok_or(unknown)?,
        version: Version(reader.u64()?),
        key: reader.bytes()?.into(),
    })
}

fn decode_found(reader: &mut Reader<'_>) -> Result<Found, DecodeError> {
    Ok(match reader.u8()? {
        1 => Found::Fragment(reader.shared_bytes()?),
        2 => Found::Newer,
        3 => Found::Older,
        _ => return Err(reader.unknown("what can be found of a value")),
    })
}
