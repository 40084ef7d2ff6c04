//! What replicas of one group say to each other.
//!
//! ```text
//!  raft      group u16 | from u64 | to u64 | term u64 | tag u8 | fields
//!    1 append            log term u64 | index u64 | commit u64 | count u32 | entry*
//!    2 append answer     index u64 | commit u64 | rejected u8 | [hint u64 | term there u64]
//!    3 heartbeat         commit u64 | read u64
//!    4 heartbeat answer  commit u64 | read u64
//!    5 vote              pre u8 | index u64 | log term u64 | commit u64 | term there u64 | priority i64 | transfer u8
//!    6 vote answer       pre u8 | rejected u8 | commit u64 | term there u64
//!    7 snapshot          index u64 | term u64 | members
//!    8 time-out now
//!  entry     term u64 | tag u8: 0 data, 1 members, 2 a piece | [bytes of the whole u64] | length u32 | bytes
//!  members   voters | learners | outgoing | learners next | ends itself u8
//!  voters .. count u32 | incarnation u64*
//! ```
//!
//! Entries carry no index: they follow each other from the message's on, so that no message can say anything else.

use crate::cursor::{DecodeError, Reader, Writer};

use consensus::{Body, Entry, Index, Members, Message, Payload, SnapshotPoint, Term};
use ids::{GroupId, Incarnation};

/// One message of the Raft protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raft {
    /// The group. Whether there is one of that number is for the receiver to say.
    pub group: GroupId,
    /// What one replica says to another.
    pub message: Message,
}

/// Bytes of an entry before its payload.
const ENTRY_BYTES: usize = 8 + 1 + 4;

/// Bytes that a piece of a longer entry has before that.
const WHOLE_BYTES: usize = 8;

impl Raft {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        128 + match &self.message.body {
            Body::Append { entries, .. } => entries
                .iter()
                .map(|entry| ENTRY_BYTES + WHOLE_BYTES + payload(entry).len())
                .sum(),
            Body::Snapshot(point) => members_weight(&point.members),
            Body::AppendAnswer { .. }
            | Body::Heartbeat { .. }
            | Body::HeartbeatAnswer { .. }
            | Body::Vote { .. }
            | Body::VoteAnswer { .. }
            | Body::TimeoutNow => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        let Message { from, to, term, body } = &self.message;
        out.u16(self.group.number());
        out.u64(from.0);
        out.u64(to.0);
        out.u64(term.0);
        match body {
            Body::Append {
                log_term,
                index,
                commit,
                entries,
            } => {
                out.u8(1);
                out.u64s(&[log_term.0, index.0, commit.0]);
                out.count(entries.len());
                let mut expected = index.0;
                for entry in entries {
                    expected += 1;
                    assert_eq!(entry.index.0, expected, "entries of a message follow each other");
                    out.u64(entry.term.0);
                    out.u8(match &entry.payload {
                        Payload::Data(_) => 0,
                        Payload::Members(_) => 1,
                    });
                    out.bytes(payload(entry));
                }
            }
            Body::AppendAnswer {
                index,
                commit,
                reject,
            } => {
                out.u8(2);
                out.u64(index.0);
                out.u64(commit.0);
                out.bool(reject.is_some());
                if let Some((hint, term)) = reject {
                    out.u64(hint.0);
                    out.u64(term.0);
                }
            }
            Body::Heartbeat { commit, read } => {
                out.u8(3);
                out.u64(commit.0);
                out.u64(*read);
            }
            Body::HeartbeatAnswer { commit, read } => {
                out.u8(4);
                out.u64(commit.0);
                out.u64(*read);
            }
            Body::Vote {
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
            Body::VoteAnswer {
                is_pre,
                reject,
                commit,
            } => {
                out.u8(6);
                out.bool(*is_pre);
                out.bool(*reject);
                out.u64(commit.0.0);
                out.u64(commit.1.0);
            }
            Body::Snapshot(SnapshotPoint { index, term, members }) => {
                out.u8(7);
                out.u64(index.0);
                out.u64(term.0);
                out.incarnations(&members.voters);
                out.incarnations(&members.learners);
                out.incarnations(&members.outgoing);
                out.incarnations(&members.learners_next);
                out.bool(members.ends_itself);
            }
            Body::TimeoutNow => out.u8(8),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Raft, DecodeError> {
        let group = GroupId::new(reader.u16()?);
        let from = Incarnation(reader.u64()?);
        let to = Incarnation(reader.u64()?);
        let term = Term(reader.u64()?);
        let unknown = reader.error("an unknown Raft message");
        let body = match reader.u8()? {
            1 => append(reader)?,
            2 => Body::AppendAnswer {
                index: Index(reader.u64()?),
                commit: Index(reader.u64()?),
                reject: match reader.bool()? {
                    true => Some(place(reader)?),
                    false => None,
                },
            },
            3 => Body::Heartbeat {
                commit: Index(reader.u64()?),
                read: reader.u64()?,
            },
            4 => Body::HeartbeatAnswer {
                commit: Index(reader.u64()?),
                read: reader.u64()?,
            },
            5 => Body::Vote {
                is_pre: reader.bool()?,
                index: Index(reader.u64()?),
                log_term: Term(reader.u64()?),
                commit: place(reader)?,
                priority: reader.i64()?,
                is_transfer: reader.bool()?,
            },
            6 => Body::VoteAnswer {
                is_pre: reader.bool()?,
                reject: reader.bool()?,
                commit: place(reader)?,
            },
            7 => Body::Snapshot(SnapshotPoint {
                index: Index(reader.u64()?),
                term: Term(reader.u64()?),
                members: Members {
                    voters: reader.incarnations()?,
                    learners: reader.incarnations()?,
                    outgoing: reader.incarnations()?,
                    learners_next: reader.incarnations()?,
                    ends_itself: reader.bool()?,
                },
            }),
            8 => Body::TimeoutNow,
            _ => return Err(unknown),
        };
        let message = Message { from, to, term, body };
        Ok(Raft { group, message })
    }
}

fn append(reader: &mut Reader<'_>) -> Result<Body, DecodeError> {
    let log_term = Term(reader.u64()?);
    let too_far = reader.error("entries beyond the last place of a log");
    let index = Index(reader.u64()?);
    let commit = Index(reader.u64()?);
    let count = reader.count(ENTRY_BYTES)?;
    index.0.checked_add(count as u64).ok_or(too_far)?;
    let entry = |place| {
        let term = Term(reader.u64()?);
        let unknown = reader.error("an unknown kind of entry");
        let payload = match reader.u8()? {
            0 => Payload::Data(reader.bytes()?),
            1 => Payload::Members(reader.bytes()?.into()),
            _ => return Err(unknown),
        };
        Ok(Entry {
            term,
            index: Index(index.0 + place),
            payload,
        })
    };
    let entries = (1..=count as u64).map(entry).collect::<Result<_, _>>()?;
    Ok(Body::Append {
        log_term,
        index,
        commit,
        entries,
    })
}

fn place(reader: &mut Reader<'_>) -> Result<(Index, Term), DecodeError> {
    Ok((Index(reader.u64()?), Term(reader.u64()?)))
}

fn payload(entry: &Entry) -> &[u8] {
    match &entry.payload {
        Payload::Data(bytes) => bytes,
        Payload::Members(bytes) => bytes,
    }
}

fn members_weight(members: &Members) -> usize {
    let lists = [
        &members.voters,
        &members.learners,
        &members.outgoing,
        &members.learners_next,
    ];
    lists.iter().map(|list| 4 + list.len() * 8).sum()
}
