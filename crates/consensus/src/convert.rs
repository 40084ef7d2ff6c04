//! The library's messages from ours and back, and the checks that a peer's message passes before.
//!
//! The library trusts what it is given: a wrong index makes it panic, a message without a term is taken for the owner's
//! own. What [`check`] lets through cannot do either, whoever sent it; what it turns away no replica of the right
//! incarnation sends.

use raft::eraftpb::{self, EntryType, MessageType};

use crate::change;
use crate::log::is_change;
use crate::message::{Index, LogEntry, Members, MessageBody, Payload, RaftMessage, SnapshotPoint, Term};
use ids::{Boot, Incarnation};

/// The library's mark of a vote that a leader asked for (`CAMPAIGN_TRANSFER`).
const TRANSFER: &[u8] = raft::CAMPAIGN_TRANSFER;

/// Most entries of one message that are looked at; a message with more is turned away.
pub(crate) const ENTRIES_MAX: usize = 1 << 16;

/// Whether the library may see `message`, whose receiver's log ends at `last`, and which leads in the term of `leadership`.
pub(crate) fn check(message: &RaftMessage, last: u64, leadership: Option<Term>) -> bool {
    if message.from.0 == 0 || message.term.0 == 0 || message.from == message.to {
        return false;
    }
    match &message.body {
        MessageBody::Append {
            log_term,
            index,
            entries,
            ..
        } => {
            // The library takes any place beyond its log for one of term 0.
            if (log_term.0 == 0) != (index.0 == 0) || *log_term > message.term || entries.len() > ENTRIES_MAX
            {
                return false;
            }
            let (mut place, mut term) = (index.0, *log_term);
            for entry in entries {
                let Some(next) = place.checked_add(1) else {
                    return false;
                };
                if entry.index.0 != next
                    || entry.term < term
                    || entry.term.0 == 0
                    || entry.term > message.term
                {
                    return false;
                }
                let is_sound = match &entry.payload {
                    Payload::Members(bytes) => change::decode(bytes).is_some(),
                    Payload::Data(_) => true,
                };
                if !is_sound {
                    return false;
                }
                (place, term) = (next, entry.term);
            }
            true
        }
        // Who acknowledges more than there is takes this replica for another one. In an earlier term it may have been.
        MessageBody::AppendAnswer { index, reject, .. } => {
            reject.is_some() || leadership != Some(message.term) || index.0 <= last
        }
        // A leader never says that more is committed than it knows to be here.
        MessageBody::Heartbeat { commit, .. } => commit.0 <= last,
        MessageBody::Snapshot(point) => {
            point.index.0 > 0
                && point.term.0 > 0
                && point.term <= message.term
                && point.members.validate().is_ok()
        }
        MessageBody::HeartbeatAnswer { .. }
        | MessageBody::Vote { .. }
        | MessageBody::VoteAnswer { .. }
        | MessageBody::TimeoutNow => true,
    }
}

/// The library's form of a message that passed [`check`].
pub(crate) fn to_library(message: RaftMessage) -> eraftpb::Message {
    let mut out = eraftpb::Message {
        from: message.from.0,
        to: message.to.0,
        term: message.term.0,
        ..eraftpb::Message::default()
    };
    match message.body {
        MessageBody::Append {
            log_term,
            index,
            commit,
            entries,
        } => {
            out.set_msg_type(MessageType::MsgAppend);
            out.log_term = log_term.0;
            out.index = index.0;
            out.commit = commit.0;
            let entries: Vec<eraftpb::Entry> = entries.into_iter().map(entry_to_library).collect();
            out.set_entries(entries.into());
        }
        MessageBody::AppendAnswer {
            index,
            commit,
            reject,
            start: _,
        } => {
            out.set_msg_type(MessageType::MsgAppendResponse);
            out.index = index.0;
            out.commit = commit.0;
            if let Some((hint, term)) = reject {
                out.reject = true;
                out.reject_hint = hint.0;
                out.log_term = term.0;
            }
        }
        MessageBody::Heartbeat { commit, read } => {
            out.set_msg_type(MessageType::MsgHeartbeat);
            out.commit = commit.0;
            out.context = read_to_library(read).into();
        }
        MessageBody::HeartbeatAnswer {
            commit,
            read,
            start: _,
        } => {
            out.set_msg_type(MessageType::MsgHeartbeatResponse);
            out.commit = commit.0;
            out.context = read_to_library(read).into();
        }
        MessageBody::Vote {
            is_pre,
            index,
            log_term,
            commit,
            priority,
            is_transfer,
        } => {
            out.set_msg_type(if is_pre {
                MessageType::MsgRequestPreVote
            } else {
                MessageType::MsgRequestVote
            });
            out.index = index.0;
            out.log_term = log_term.0;
            out.commit = commit.0.0;
            out.commit_term = commit.1.0;
            out.priority = priority;
            if is_transfer {
                out.context = TRANSFER.into();
            }
        }
        MessageBody::VoteAnswer {
            is_pre,
            reject,
            commit,
        } => {
            out.set_msg_type(if is_pre {
                MessageType::MsgRequestPreVoteResponse
            } else {
                MessageType::MsgRequestVoteResponse
            });
            out.reject = reject;
            out.commit = commit.0.0;
            out.commit_term = commit.1.0;
        }
        MessageBody::Snapshot(point) => {
            out.set_msg_type(MessageType::MsgSnapshot);
            out.set_snapshot(crate::log::snapshot_of(&point));
        }
        MessageBody::TimeoutNow => out.set_msg_type(MessageType::MsgTimeoutNow),
    }
    out
}

/// Our form of what the library of a replica sends in this start of its node; `None` for what must not leave the replica.
pub(crate) fn from_library(mut message: eraftpb::Message, start: Boot) -> Option<RaftMessage> {
    let body = match message.get_msg_type() {
        MessageType::MsgAppend => MessageBody::Append {
            log_term: Term(message.log_term),
            index: Index(message.index),
            commit: Index(message.commit),
            entries: message
                .take_entries()
                .into_iter()
                .map(entry_from_library)
                .collect(),
        },
        MessageType::MsgAppendResponse => MessageBody::AppendAnswer {
            index: Index(message.index),
            commit: Index(message.commit),
            reject: message
                .reject
                .then_some((Index(message.reject_hint), Term(message.log_term))),
            start,
        },
        MessageType::MsgHeartbeat => MessageBody::Heartbeat {
            commit: Index(message.commit),
            // Without a round of reads it says nothing that the nodes' heartbeats do not say for all groups at once.
            read: read_from_library(&message.context)?,
        },
        MessageType::MsgHeartbeatResponse => MessageBody::HeartbeatAnswer {
            commit: Index(message.commit),
            read: read_from_library(&message.context).unwrap_or(0),
            start,
        },
        kind @ (MessageType::MsgRequestVote | MessageType::MsgRequestPreVote) => MessageBody::Vote {
            is_pre: kind == MessageType::MsgRequestPreVote,
            index: Index(message.index),
            log_term: Term(message.log_term),
            commit: (Index(message.commit), Term(message.commit_term)),
            priority: message.priority,
            is_transfer: &message.context[..] == TRANSFER,
        },
        kind @ (MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse) => {
            MessageBody::VoteAnswer {
                is_pre: kind == MessageType::MsgRequestPreVoteResponse,
                reject: message.reject,
                commit: (Index(message.commit), Term(message.commit_term)),
            }
        }
        MessageType::MsgSnapshot => MessageBody::Snapshot(point_of(message.get_snapshot())),
        MessageType::MsgTimeoutNow => MessageBody::TimeoutNow,
        // Between an owner and its own library, or forwarded by followers, which ours never ask to.
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => return None,
    };
    Some(RaftMessage {
        from: Incarnation(message.from),
        to: Incarnation(message.to),
        term: Term(message.term),
        body,
    })
}

pub(crate) fn entry_to_library(entry: LogEntry) -> eraftpb::Entry {
    let mut out = eraftpb::Entry {
        term: entry.term.0,
        index: entry.index.0,
        ..eraftpb::Entry::default()
    };
    match entry.payload {
        Payload::Data(data) => out.data = data,
        Payload::Members(bytes) => {
            out.set_entry_type(EntryType::EntryConfChangeV2);
            out.context = bytes.into();
        }
    }
    out
}

pub(crate) fn entry_from_library(entry: eraftpb::Entry) -> LogEntry {
    LogEntry {
        term: Term(entry.term),
        index: Index(entry.index),
        payload: if is_change(&entry) {
            Payload::Members(entry.context.to_vec())
        } else {
            Payload::Data(entry.data)
        },
    }
}

pub(crate) fn point_of(snapshot: &eraftpb::Snapshot) -> SnapshotPoint {
    let metadata = snapshot.get_metadata();
    SnapshotPoint {
        index: Index(metadata.index),
        term: Term(metadata.term),
        members: Members::from_library(metadata.get_conf_state()),
    }
}

/// The library's context of a round of reads; empty for none.
pub(crate) fn read_to_library(read: u64) -> Vec<u8> {
    match read {
        0 => Vec::new(),
        number => number.to_be_bytes().to_vec(),
    }
}

pub(crate) fn read_from_library(context: &[u8]) -> Option<u64> {
    context.try_into().ok().map(u64::from_be_bytes)
}
