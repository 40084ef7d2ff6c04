//! What a replica is born with.

use raft::eraftpb;

use crate::change;
use crate::convert;
use crate::members::MembersInvalid;
use crate::message::{Index, LogEntry, Members, Payload, SnapshotPoint, Term};
use crate::ready::HardState;
use crate::times::Times;
use ids::{Boot, GroupId, Incarnation};

/// Whether votes and entries outlive the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// They do not: an entry counts as persisted as soon as it is in the log.
    Memory,
    /// They do: [`Ready::persist`](crate::Ready::persist) says what is to be written, and nothing is acknowledged before it is.
    Durable,
}

/// What an earlier life of the same incarnation left: on disk, or handed over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// The log behind the start.
    pub entries: Vec<LogEntry>,
    /// What was in the log once, if a part of that is gone. Until the log reaches it, the replica does not campaign, and votes only for
    /// whose log does (docs/decisions/0046).
    pub floor: Option<(Term, Index)>,
}

/// What a replica is born with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Its group.
    pub group: GroupId,
    /// Itself.
    pub me: Incarnation,
    /// The point of the state it holds, and the members there. A replica that is to be added, and holds nothing yet, is
    /// born at [`Config::NOWHERE`]; the first members of a group at [`Config::first`].
    pub start: SnapshotPoint,
    /// What it has besides.
    pub saved: Saved,
    /// Whether its log is on disk.
    pub durability: Durability,
    /// Which start of its node this is; later ones are greater. Leaders hear of it with each answer, and ask a later one anew what it
    /// holds. Where nobody comes back with less than he acknowledged it may always be the same.
    pub node_start: Boot,
    /// The group's times.
    pub times: Times,
    /// Of the random part of its election time-outs.
    pub seed: u64,
}

impl Config {
    /// The start of a replica that holds nothing and is no member yet.
    pub const NOWHERE: SnapshotPoint = SnapshotPoint {
        index: Index(0),
        term: Term(0),
        members: Members {
            voters: Vec::new(),
            learners: Vec::new(),
            outgoing: Vec::new(),
            learners_next: Vec::new(),
            ends_itself: false,
        },
    };

    /// The start of a new group's first members. It is not the place 0, so that whoever is added later is given the
    /// state, and not a log that supposes an empty one.
    pub fn first(members: Members) -> SnapshotPoint {
        SnapshotPoint {
            index: Index(1),
            term: Term(1),
            members,
        }
    }
}

/// Why a replica cannot be born like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigInvalid {
    /// Its incarnation is 0.
    Zero,
    /// The times contradict each other.
    Times,
    /// A start that is neither nowhere nor a place with members.
    Start,
    /// The members cannot be.
    Members(MembersInvalid),
    /// The entries do not follow the start, or each other.
    Entries,
    /// The hard state does not fit the log.
    HardState,
}

/// A start, and the library's form of the log and the hard state behind it.
type Valid = (SnapshotPoint, (Vec<eraftpb::Entry>, eraftpb::HardState));

/// Checks a configuration, and makes of it what the library is given.
pub(crate) fn validate(config: &Config) -> Result<Valid, ConfigInvalid> {
    let start = config.start.clone();
    if config.me.0 == 0 {
        return Err(ConfigInvalid::Zero);
    }
    if !config.times.are_valid() {
        return Err(ConfigInvalid::Times);
    }
    if start != Config::NOWHERE {
        if start.index.0 == 0 || start.term.0 == 0 {
            return Err(ConfigInvalid::Start);
        }
        start.members.validate().map_err(ConfigInvalid::Members)?;
    }
    let (mut index, mut term) = (start.index.0, start.term);
    for entry in &config.saved.entries {
        let is_next = entry.index.0.checked_sub(1) == Some(index) && entry.term >= term && entry.term.0 > 0;
        let is_sound = match &entry.payload {
            Payload::Members(bytes) => change::decode(bytes).is_some(),
            Payload::Data(_) => true,
        };
        if !is_next || !is_sound {
            return Err(ConfigInvalid::Entries);
        }
        (index, term) = (entry.index.0, entry.term);
    }
    let saved = &config.saved.hard_state;
    let is_new = *saved == HardState::default();
    if !is_new && (saved.term < term || saved.commit.0 > index) {
        return Err(ConfigInvalid::HardState);
    }
    let hard_state = eraftpb::HardState {
        term: saved.term.0.max(term.0),
        vote: saved.vote.map_or(0, |vote| vote.0),
        commit: saved.commit.0.max(start.index.0),
        ..eraftpb::HardState::default()
    };
    let entries = config
        .saved
        .entries
        .iter()
        .cloned()
        .map(convert::entry_to_library)
        .collect();
    Ok((start, (entries, hard_state)))
}
