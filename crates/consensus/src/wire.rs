//! Messages between replicas, and heartbeats between nodes, as bytes.
//!
//! ```text
//!  message   from u64 | to u64 | term u64 | tag u8 | fields
//!    1 append            log term u64 | index u64 | commit u64 | count u32 | entry*
//!    2 append answer     index u64 | commit u64 | rejected u8 | [hint u64 | term there u64] | start u64
//!    3 heartbeat         commit u64 | read u64
//!    4 heartbeat answer  commit u64 | read u64 | start u64
//!    5 vote              pre u8 | index u64 | log term u64 | commit u64 | term there u64 | priority i64 | transfer u8
//!    6 vote answer       pre u8 | rejected u8 | commit u64 | term there u64
//!    7 snapshot          point
//!    8 time-out now
//!  entry     term u64 | tag u8: 0 data, 1 members | length u32 | bytes
//!  point     index u64 | term u64 | voters | learners | outgoing | learners next | ends itself u8
//!  voters .. count u32 | incarnation u64*
//!  beat      boot u64 | number u64 | digest u128 | listed u8 | [count u32 | claim*]
//!  claim     group u16 | term u64 | leader u64 | to u64
//!  answer    boot u64 | number u64 | digest u128 | known u8 | [count u32 | refused place u16*] | start u64
//! ```
//!
//! Entries carry no index: they follow each other from the message's on, so that no message can say anything else.

use crate::heartbeat::{Beat, BeatAnswer, CLAIMS_MAX, Claim};
use crate::members::MEMBERS_MAX;
use crate::message::{Index, LogEntry, Members, MessageBody, Payload, RaftMessage, SnapshotPoint, Term};
use codec::{DecodeError, Reader, Writer};
use ids::{Boot, GroupId, Incarnation};

/// Bytes of an entry before its payload.
const ENTRY_BYTES: usize = 8 + 1 + 4;

/// Bytes of a message that are not of lists: at most so many.
const MESSAGE_BYTES: usize = 126;

const CLAIM_BYTES: usize = 2 + 8 + 8 + 8;

const BEAT_BYTES: usize = 8 + 8 + 16 + 1 + 4;

/// Bytes in which an answer says of which start it is.
const START_BYTES: usize = 8;

impl RaftMessage {
    /// At least as many bytes as it is written in.
    pub fn weight(&self) -> usize {
        let of_lists = match &self.body {
            MessageBody::Append { entries, .. } => entries
                .iter()
                .map(|entry| ENTRY_BYTES + payload(entry).len())
                .sum(),
            MessageBody::Snapshot(point) => lists(&point.members).iter().map(|list| list.len() * 8).sum(),
            MessageBody::AppendAnswer { .. }
            | MessageBody::Heartbeat { .. }
            | MessageBody::HeartbeatAnswer { .. }
            | MessageBody::Vote { .. }
            | MessageBody::VoteAnswer { .. }
            | MessageBody::TimeoutNow => 0,
        };
        MESSAGE_BYTES + of_lists
    }

    /// Writes it.
    ///
    /// # Panics
    /// If its entries do not follow each other.
    pub fn encode(&self, out: &mut impl Writer) {
        let RaftMessage { from, to, term, body } = self;
        out.u64s(&[from.0, to.0, term.0]);
        match body {
            MessageBody::Append {
                log_term,
                index,
                commit,
                entries,
            } => {
                out.u8(1);
                out.u64s(&[log_term.0, index.0, commit.0]);
                let mut expected = index.0;
                out.list(entries, |out, entry| {
                    expected += 1;
                    assert_eq!(entry.index.0, expected, "entries of a message follow each other");
                    out.u64(entry.term.0);
                    out.u8(match &entry.payload {
                        Payload::Data(_) => 0,
                        Payload::Members(_) => 1,
                    });
                    out.bytes(payload(entry));
                });
            }
            MessageBody::AppendAnswer {
                index,
                commit,
                reject,
                start,
            } => {
                out.u8(2);
                out.u64s(&[index.0, commit.0]);
                out.option(reject, |out, (hint, term)| out.u64s(&[hint.0, term.0]));
                out.u64(start.0);
            }
            MessageBody::Heartbeat { commit, read } => {
                out.u8(3);
                out.u64s(&[commit.0, *read]);
            }
            MessageBody::HeartbeatAnswer { commit, read, start } => {
                out.u8(4);
                out.u64s(&[commit.0, *read, start.0]);
            }
            MessageBody::Vote {
                is_pre,
                index,
                log_term,
                commit,
                priority,
                is_transfer,
            } => {
                out.u8(5);
                out.bool(*is_pre);
                out.u64s(&[index.0, log_term.0, commit.0.0, commit.1.0]);
                out.i64(*priority);
                out.bool(*is_transfer);
            }
            MessageBody::VoteAnswer {
                is_pre,
                reject,
                commit,
            } => {
                out.u8(6);
                out.bool(*is_pre);
                out.bool(*reject);
                out.u64s(&[commit.0.0, commit.1.0]);
            }
            MessageBody::Snapshot(point) => {
                out.u8(7);
                point.encode(out);
            }
            MessageBody::TimeoutNow => out.u8(8),
        }
    }

    /// Reads what [`RaftMessage::encode`] wrote. Long payloads are shared, if the reader shares.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(reader: &mut Reader<'_>) -> Result<RaftMessage, DecodeError> {
        let (from, to) = (Incarnation(reader.u64()?), Incarnation(reader.u64()?));
        let term = Term(reader.u64()?);
        let body = match reader.u8()? {
            1 => append(reader)?,
            2 => MessageBody::AppendAnswer {
                index: Index(reader.u64()?),
                commit: Index(reader.u64()?),
                reject: reader.option(place)?,
                start: Boot(reader.u64()?),
            },
            3 => MessageBody::Heartbeat {
                commit: Index(reader.u64()?),
                read: reader.u64()?,
            },
            4 => MessageBody::HeartbeatAnswer {
                commit: Index(reader.u64()?),
                read: reader.u64()?,
                start: Boot(reader.u64()?),
            },
            5 => MessageBody::Vote {
                is_pre: reader.bool()?,
                index: Index(reader.u64()?),
                log_term: Term(reader.u64()?),
                commit: place(reader)?,
                priority: reader.i64()?,
                is_transfer: reader.bool()?,
            },
            6 => MessageBody::VoteAnswer {
                is_pre: reader.bool()?,
                reject: reader.bool()?,
                commit: place(reader)?,
            },
            7 => MessageBody::Snapshot(SnapshotPoint::decode(reader)?),
            8 => MessageBody::TimeoutNow,
            _ => return Err(reader.unknown("a Raft message that this version knows")),
        };
        Ok(RaftMessage { from, to, term, body })
    }
}

fn append(reader: &mut Reader<'_>) -> Result<MessageBody, DecodeError> {
    let log_term = Term(reader.u64()?);
    let too_far = reader.error("entries up to the last place of a log");
    let (index, commit) = (Index(reader.u64()?), Index(reader.u64()?));
    let mut last = index;
    let entries = reader.list(ENTRY_BYTES, |reader| {
        last = Index(last.0.checked_add(1).ok_or(too_far)?);
        let term = Term(reader.u64()?);
        let payload = match reader.u8()? {
            0 => Payload::Data(reader.shared_bytes()?),
            1 => Payload::Members(reader.bytes()?.into()),
            _ => return Err(reader.unknown("a kind of entry that this version knows")),
        };
        Ok(LogEntry {
            term,
            index: last,
            payload,
        })
    })?;
    Ok(MessageBody::Append {
        log_term,
        index,
        commit,
        entries,
    })
}

fn place(reader: &mut Reader<'_>) -> Result<(Index, Term), DecodeError> {
    Ok((Index(reader.u64()?), Term(reader.u64()?)))
}

fn payload(entry: &LogEntry) -> &[u8] {
    match &entry.payload {
        Payload::Data(bytes) => bytes,
        Payload::Members(bytes) => bytes,
    }
}

fn lists(members: &Members) -> [&Vec<Incarnation>; 4] {
    let Members {
        voters,
        learners,
        outgoing,
        learners_next,
        ends_itself: _,
    } = members;
    [voters, learners, outgoing, learners_next]
}

impl SnapshotPoint {
    /// Writes it.
    pub fn encode(&self, out: &mut impl Writer) {
        let SnapshotPoint { index, term, members } = self;
        out.u64s(&[index.0, term.0]);
        for list in lists(members) {
            out.list(list, |out, member| out.u64(member.0));
        }
        out.bool(members.ends_itself);
    }

    /// Reads what [`SnapshotPoint::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(reader: &mut Reader<'_>) -> Result<SnapshotPoint, DecodeError> {
        let list = |reader: &mut Reader<'_>| {
            reader.list_up_to(
                (MEMBERS_MAX, "no more members than a group can have"),
                8,
                |reader| reader.u64().map(Incarnation),
            )
        };
        let (index, term) = place(reader)?;
        let members = Members {
            voters: list(reader)?,
            learners: list(reader)?,
            outgoing: list(reader)?,
            learners_next: list(reader)?,
            ends_itself: reader.bool()?,
        };
        Ok(SnapshotPoint { index, term, members })
    }
}

impl Beat {
    /// Bytes of the longest.
    pub const BYTES_MAX: usize = BEAT_BYTES + CLAIMS_MAX * CLAIM_BYTES;

    /// At least as many bytes as it is written in.
    pub fn weight(&self) -> usize {
        BEAT_BYTES + self.claims.as_ref().map_or(0, Vec::len) * CLAIM_BYTES
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it claims more groups than there can be.
    pub fn encode(&self, out: &mut impl Writer) {
        out.u64s(&[self.boot.0, self.number]);
        out.u128(self.digest);
        out.option(&self.claims, |out, claims| {
            assert!(claims.len() <= CLAIMS_MAX, "a node claims each group once");
            out.list(claims, |out, claim| {
                out.u16(claim.group.number());
                out.u64s(&[claim.term.0, claim.leader.0, claim.to.0]);
            });
        });
    }

    /// Reads what [`Beat::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Beat, DecodeError> {
        Ok(Beat {
            boot: Boot(reader.u64()?),
            number: reader.u64()?,
            digest: reader.u128()?,
            claims: reader.option(|reader| {
                reader.list_up_to(
                    (CLAIMS_MAX, "no more claims than there can be groups"),
                    CLAIM_BYTES,
                    |reader| {
                        Ok(Claim {
                            group: GroupId::new(reader.u16()?),
                            term: Term(reader.u64()?),
                            leader: Incarnation(reader.u64()?),
                            to: Incarnation(reader.u64()?),
                        })
                    },
                )
            })?,
        })
    }
}

impl BeatAnswer {
    /// At least as many bytes as it is written in.
    pub fn weight(&self) -> usize {
        BEAT_BYTES + START_BYTES + self.refused.as_ref().map_or(0, Vec::len) * 2
    }

    /// Writes it.
    ///
    /// # Panics
    /// If refused places do not stand in order.
    pub fn encode(&self, out: &mut impl Writer) {
        out.u64s(&[self.boot.0, self.number]);
        out.u128(self.digest);
        out.option(&self.refused, |out, refused| {
            assert!(is_rising(refused), "refused places stand in order");
            out.list(refused, |out, &place| out.u16(place));
        });
        out.u64(self.start.0);
    }

    /// Reads what [`BeatAnswer::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(reader: &mut Reader<'_>) -> Result<BeatAnswer, DecodeError> {
        Ok(BeatAnswer {
            boot: Boot(reader.u64()?),
            number: reader.u64()?,
            digest: reader.u128()?,
            refused: reader.option(|reader| {
                let disorder = reader.error("refused places in order");
                let refused = reader.list_up_to(
                    (CLAIMS_MAX, "no more claims than there can be groups"),
                    2,
                    Reader::u16,
                )?;
                // Out of order, one could be passed over: a claim would be held for confirmed that was refused.
                if is_rising(&refused) {
                    Ok(refused)
                } else {
                    Err(disorder)
                }
            })?,
            start: Boot(reader.u64()?),
        })
    }
}

fn is_rising(places: &[u16]) -> bool {
    places.is_sorted_by(|one, next| one < next)
}
