//! Heartbeats between two nodes, for all groups at once.
//!
//! ```text
//!  heartbeat  boot u64 | number u64 | digest u128 | has_claims u8 | [count u32 | claim*]
//!  claim      group u16 | term u64 | leader u64 | to u64
//!  answer     boot u64 | number u64 | digest u128 | knows u8 | [count u32 | refused u16 *]
//! ```

use crate::cursor::{DecodeError, Reader, Writer};
use consensus::{Beat, BeatAnswer, Claim, Term};
use ids::{Boot, GroupId, Incarnation};

const CLAIM_BYTES: usize = 2 + 3 * 8;

pub(crate) fn weight(beat: &Beat) -> usize {
    64 + beat.claims.as_ref().map_or(0, |claims| claims.len() * CLAIM_BYTES)
}

pub(crate) fn answer_weight(answer: &BeatAnswer) -> usize {
    64 + answer.refused.as_ref().map_or(0, |refused| refused.len() * 2)
}

pub(crate) fn encode(beat: &Beat, out: &mut Writer<'_>) {
    put_head(out, beat.boot, beat.number, beat.digest);
    out.bool(beat.claims.is_some());
    if let Some(claims) = &beat.claims {
        out.count(claims.len());
        for claim in claims {
            out.u16(claim.group.number());
            out.u64s(&[claim.term.0, claim.leader.0, claim.to.0]);
        }
    }
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Beat, DecodeError> {
    let (boot, number, digest) = take_head(reader)?;
    let claims = match reader.bool()? {
        false => None,
        true => {
            let count = reader.count(CLAIM_BYTES)?;
            let mut claims = Vec::with_capacity(count);
            for _ in 0..count {
                claims.push(Claim {
                    group: GroupId::new(reader.u16()?),
                    term: Term(reader.u64()?),
                    leader: Incarnation(reader.u64()?),
                    to: Incarnation(reader.u64()?),
                });
            }
            Some(claims)
        }
    };
    Ok(Beat {
        boot,
        number,
        digest,
        claims,
    })
}

pub(crate) fn encode_answer(answer: &BeatAnswer, out: &mut Writer<'_>) {
    put_head(out, answer.boot, answer.number, answer.digest);
    out.bool(answer.refused.is_some());
    if let Some(refused) = &answer.refused {
        out.count(refused.len());
        refused.iter().for_each(|place| out.u16(*place));
    }
}

pub(crate) fn decode_answer(reader: &mut Reader<'_>) -> Result<BeatAnswer, DecodeError> {
    let (boot, number, digest) = take_head(reader)?;
    let refused = match reader.bool()? {
        false => None,
        true => {
            let count = reader.count(2)?;
            Some((0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?)
        }
    };
    Ok(BeatAnswer {
        boot,
        number,
        digest,
        refused,
    })
}

fn put_head(out: &mut Writer<'_>, boot: Boot, number: u64, digest: u128) {
    out.u64s(&[boot.0, number, digest as u64, (digest >> 64) as u64]);
}

fn take_head(reader: &mut Reader<'_>) -> Result<(Boot, u64, u128), DecodeError> {
    let (boot, number) = (Boot(reader.u64()?), reader.u64()?);
    let digest = u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64;
    Ok((boot, number, digest))
}
