//! Heartbeats between nodes, for all groups that they share.
//!
//! ```text
//!  beat    boot u64 | number u64 | digest u128 | listed u8 | [count u32 | claim*]
//!  claim   group u16 | term u64 | leader u64 | to u64
//!  answer  boot u64 | number u64 | digest u128 | known u8 | [count u32 | refused place u16*]
//! ```

use crate::cursor::{DecodeError, Reader, Writer};
use consensus::{Beat, BeatAnswer, CLAIMS_MAX, Claim, Term};
use ids::{Boot, GroupId, Incarnation};

const CLAIM_BYTES: usize = 2 + 8 + 8 + 8;
const HEAD_BYTES: usize = 8 + 8 + 16 + 1 + 4;

// Heartbeats go by the small lane whatever their length: then they must fit into one frame.
const _: () = assert!(HEAD_BYTES + CLAIMS_MAX * CLAIM_BYTES <= crate::frame::BODY_BYTES_MAX);

/// At least as many bytes as the beat's body has.
pub(crate) fn beat_weight(beat: &Beat) -> usize {
    HEAD_BYTES + beat.claims.as_ref().map_or(0, Vec::len) * CLAIM_BYTES
}

/// At least as many bytes as the answer's body has.
pub(crate) fn answer_weight(answer: &BeatAnswer) -> usize {
    HEAD_BYTES + answer.refused.as_ref().map_or(0, Vec::len) * 2
}

pub(crate) fn encode_beat(beat: &Beat, out: &mut Writer<'_>) {
    out.u64s(&[beat.boot.0, beat.number]);
    out.remainder(&beat.digest.to_le_bytes());
    out.bool(beat.claims.is_some());
    if let Some(claims) = &beat.claims {
        assert!(claims.len() <= CLAIMS_MAX, "a node claims each group once");
        out.count(claims.len());
        for claim in claims {
            out.u16(claim.group.number());
            out.u64s(&[claim.term.0, claim.leader.0, claim.to.0]);
        }
    }
}

pub(crate) fn decode_beat(reader: &mut Reader<'_>) -> Result<Beat, DecodeError> {
    Ok(Beat {
        boot: Boot(reader.u64()?),
        number: reader.u64()?,
        digest: u128::from_le_bytes(reader.array()?),
        claims: match reader.bool()? {
            true => Some(claims(reader)?),
            false => None,
        },
    })
}

fn claims(reader: &mut Reader<'_>) -> Result<Vec<Claim>, DecodeError> {
    let count = bounded(reader, CLAIM_BYTES)?;
    let claim = |_| {
        Ok(Claim {
            group: GroupId::new(reader.u16()?),
            term: Term(reader.u64()?),
            leader: Incarnation(reader.u64()?),
            to: Incarnation(reader.u64()?),
        })
    };
    (0..count).map(claim).collect()
}

pub(crate) fn encode_answer(answer: &BeatAnswer, out: &mut Writer<'_>) {
    out.u64s(&[answer.boot.0, answer.number]);
    out.remainder(&answer.digest.to_le_bytes());
    out.bool(answer.refused.is_some());
    if let Some(refused) = &answer.refused {
        assert!(is_rising(refused), "refused places stand in order");
        out.count(refused.len());
        refused.iter().for_each(|&place| out.u16(place));
    }
}

pub(crate) fn decode_answer(reader: &mut Reader<'_>) -> Result<BeatAnswer, DecodeError> {
    Ok(BeatAnswer {
        boot: Boot(reader.u64()?),
        number: reader.u64()?,
        digest: u128::from_le_bytes(reader.array()?),
        refused: match reader.bool()? {
            true => Some(refused(reader)?),
            false => None,
        },
    })
}

fn refused(reader: &mut Reader<'_>) -> Result<Vec<u16>, DecodeError> {
    let disorder = reader.error("refused places that are not in order");
    let count = bounded(reader, 2)?;
    let refused: Vec<u16> = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
    // Out of order, one could be passed over: a claim would be held for confirmed that was refused.
    if is_rising(&refused) {
        Ok(refused)
    } else {
        Err(disorder)
    }
}

fn is_rising(places: &[u16]) -> bool {
    places.is_sorted_by(|one, next| one < next)
}

fn bounded(reader: &mut Reader<'_>, item_bytes: usize) -> Result<usize, DecodeError> {
    let error = reader.error("more claims than there can be groups");
    let count = reader.count(item_bytes)?;
    if count > CLAIMS_MAX { Err(error) } else { Ok(count) }
}
