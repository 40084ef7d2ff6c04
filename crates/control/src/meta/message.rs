//! What nodes say to each other about the cluster's own state, and its bytes.
//!
//! ```text
//!   any node --Request--> who leads the meta group: a proposal     --Answer--> what became of it, or who leads
//!   any node --NodeHeartbeat--> who leads: I live, I know this much, my groups look so
//!                                                    --NodeHeartbeatReply--> so do I, or who leads
//!   who leads --Map or Difference, Settings--> every node
//!           who leads --Order--> the node that leads a group
//!   members   --Raft, Beat, BeatAnswer--> members    who leads --State--> a new member --StateHeld--> who leads
//! ```
//!
//! Any of them may be lost, come twice, or late. Decoding is total. What members say to each other stands in it as replicas of any
//! group say it (`consensus/wire.rs`).

use crate::command::{AssignedReplica, Beginning, MetaOutcome, MetaRefusal};
use crate::given_up::GivenUp;
use crate::group::GroupRef;
use crate::lack::Lack;
use crate::map::RoutingMap;
use crate::map_difference::MapDifference;
use crate::mending::Mend;
use crate::node_memory::NodeMemory;
use crate::observations::GroupReport;
use crate::outage::Outage;
use crate::partition_notes::PartitionNotes;
use crate::recovery_source::RecoverySource;
use crate::settings::Setting;
use crate::step::Order;
use crate::wire::{self, Wire, wire_enum, wire_newtype, wire_struct};
use codec::{DecodeError, Reader, Writer};
use consensus::{Beat, BeatAnswer, Index, RaftMessage, SnapshotPoint, Term};
use ids::{Boot, Epoch, Incarnation, NodeId, PartitionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of messages.
const FORMAT: u8 = 4;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaMessage {
    /// Between two members of the meta group.
    Raft(RaftMessage),
    /// From the member that leads.
    Beat(Beat),
    /// Its answer.
    BeatAnswer(BeatAnswer),
    /// Something is to be changed.
    Request {
        /// The sender's number for it.
        id: u64,
        /// What, as bytes of the format that stands in the log.
        proposal: Vec<u8>,
    },
    /// What became of a request.
    Answer {
        /// As it was asked.
        id: u64,
        /// What.
        answer: RequestAnswer,
    },
    /// A node lives. Every second, and when its groups changed.
    NodeHeartbeat(NodeHeartbeat),
    /// The answer to a node heartbeat.
    NodeHeartbeatReply {
        /// Who leads the meta group, as far as the sender knows; itself, if it leads.
        leader: Option<NodeId>,
        /// Whether the sender leads.
        leads: bool,
        /// What is left of groups that nobody leads, of whoever leads the meta group.
        recovery_sources: Vec<RecoverySource>,
    },
    /// Before the answer to a node heartbeat, of whoever leads: as long as this lasts no node is replaced by itself. A build that does not
    /// know it passes it over.
    Outage(Outage),
    /// Before the answer to a node heartbeat, of whoever leads and has heard of all for some time: what the one that is answered lacks. A
    /// build that does not know it passes it over.
    Lack(Lack),
    /// The table, of whoever has a newer one.
    Map(Arc<RoutingMap>),
    /// What leads from one table to the next, to nodes that follow [`ids::SemanticsVersion::MAP_DIFFERENCES`].
    Difference(Arc<MapDifference>),
    /// What is set for the whole cluster.
    Settings {
        /// How often anything was set.
        version: u64,
        /// All of it.
        settings: Arc<BTreeMap<String, Setting>>,
    },
    /// To the node that leads a group.
    Order(LeaderOrder),
    /// The whole state, to a member that the log cannot help. It is small.
    State {
        /// Who sends it.
        from: Incarnation,
        /// To whom.
        to: Incarnation,
        /// The place in the log that it reflects.
        point: SnapshotPoint,
        /// The state.
        state: Vec<u8>,
    },
    /// Its answer: the state is held, and is installed when the log says so.
    StateHeld {
        /// Who holds it.
        from: Incarnation,
        /// Who sent it.
        to: Incarnation,
        /// The place.
        index: Index,
        /// Its term.
        term: Term,
    },
}

/// What is said to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestAnswer {
    /// It was carried out.
    Done {
        /// With this outcome.
        outcome: MetaOutcome,
    },
    /// It was refused, and changed nothing.
    Refused {
        /// Why.
        refusal: MetaRefusal,
    },
    /// Another node leads the meta group, or nobody is known to.
    Elsewhere {
        /// Who may.
        leader: Option<NodeId>,
    },
}

/// What a node says of itself every second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeHeartbeat {
    /// Its start; none before it has been given one.
    pub boot: Option<Boot>,
    /// Of the map that it has; 0 if it has none.
    pub epoch: Epoch,
    /// How often anything was set, as far as it knows.
    pub settings_version: u64,
    /// The groups that are led there.
    pub group_reports: Vec<GroupReport>,
    /// Its replicas of groups that it knows no leader of.
    pub recovery_sources: Vec<RecoverySource>,
    /// Replicas that it has given up, or of which the leaders there have found that they are to be.
    pub given_up: Vec<GivenUp>,
    /// How much it holds, once its workers have counted that.
    pub memory: Option<NodeMemory>,
    /// What else it knows of partitions. Nothing before all nodes follow [`ids::SemanticsVersion::PARTITIONS_MENDED`].
    pub partition_notes: PartitionNotes,
}

/// What the leader of a group is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Which group.
    pub group: GroupRef,
    /// In which generation.
    pub generation: u64,
    /// With which configuration, as in [`Report`](crate::Report). A leader with another one passes it over.
    pub index: u64,
    /// What.
    pub order: Order,
}

/// What the node that leads a group is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaderOrder {
    /// Its members are to be others, or its leader is.
    Instruction(Instruction),
    /// It is to know something else of a partition.
    Mend(Mend),
}

impl MetaMessage {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// From bytes of a peer. Total.
    ///
    /// # Errors
    /// If they are not what `encode` writes.
    pub fn decode(bytes: &[u8]) -> Result<MetaMessage, DecodeError> {
        wire::decode(FORMAT, bytes)
    }
}

/// Bytes that something else reads.
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl Wire for Blob {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.0, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Blob, DecodeError> {
        let length = usize::try_from(input.varint()?).unwrap_or(usize::MAX);
        Ok(Blob(input.take(length)?.to_vec()))
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.varint(bytes.len() as u64);
    out.raw(bytes);
}

impl Wire for MetaMessage {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            MetaMessage::Raft(message) => {
                out.push(1);
                message.encode(out);
            }
            MetaMessage::Beat(beat) => {
                out.push(2);
                beat.encode(out);
            }
            MetaMessage::BeatAnswer(answer) => {
                out.push(3);
                answer.encode(out);
            }
            MetaMessage::Request { id, proposal } => {
                out.push(4);
                id.put(out);
                put_bytes(proposal, out);
            }
            MetaMessage::Answer { id, answer } => {
                out.push(5);
                id.put(out);
                answer.put(out);
            }
            MetaMessage::NodeHeartbeat(node_heartbeat) => {
                out.push(6);
                node_heartbeat.put(out);
            }
            MetaMessage::NodeHeartbeatReply {
                leader,
                leads,
                recovery_sources,
            } => {
                out.push(7);
                leader.put(out);
                leads.put(out);
                recovery_sources.put(out);
            }
            MetaMessage::Map(map) => {
                out.push(8);
                map.as_ref().put(out);
            }
            MetaMessage::Settings { version, settings } => {
                out.push(9);
                version.put(out);
                settings.as_ref().put(out);
            }
            MetaMessage::Order(LeaderOrder::Instruction(instruction)) => {
                out.push(10);
                instruction.put(out);
            }
            MetaMessage::Order(LeaderOrder::Mend(mend)) => {
                out.push(16);
                mend.put(out);
            }
            MetaMessage::State {
                from,
                to,
                point,
                state,
            } => {
                out.push(11);
                from.put(out);
                to.put(out);
                point.encode(out);
                put_bytes(state, out);
            }
            MetaMessage::StateHeld {
                from,
                to,
                index,
                term,
            } => {
                out.push(12);
                from.put(out);
                to.put(out);
                index.put(out);
                term.put(out);
            }
            MetaMessage::Outage(outage) => {
                out.push(13);
                outage.put(out);
            }
            MetaMessage::Lack(lack) => {
                out.push(14);
                lack.put(out);
            }
            MetaMessage::Difference(difference) => {
                out.push(15);
                difference.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<MetaMessage, DecodeError> {
        Ok(match input.u8()? {
            1 => MetaMessage::Raft(RaftMessage::decode(input)?),
            2 => MetaMessage::Beat(Beat::decode(input)?),
            3 => MetaMessage::BeatAnswer(BeatAnswer::decode(input)?),
            4 => MetaMessage::Request {
                id: Wire::take(input)?,
                proposal: Blob::take(input)?.0,
            },
            5 => MetaMessage::Answer {
                id: Wire::take(input)?,
                answer: Wire::take(input)?,
            },
            6 => MetaMessage::NodeHeartbeat(Wire::take(input)?),
            7 => MetaMessage::NodeHeartbeatReply {
                leader: Wire::take(input)?,
                leads: Wire::take(input)?,
                recovery_sources: Wire::take(input)?,
            },
            8 => MetaMessage::Map(Arc::new(Wire::take(input)?)),
            9 => MetaMessage::Settings {
                version: Wire::take(input)?,
                settings: Arc::new(Wire::take(input)?),
            },
            10 => MetaMessage::Order(LeaderOrder::Instruction(Wire::take(input)?)),
            11 => MetaMessage::State {
                from: Wire::take(input)?,
                to: Wire::take(input)?,
                point: SnapshotPoint::decode(input)?,
                state: Blob::take(input)?.0,
            },
            12 => MetaMessage::StateHeld {
                from: Wire::take(input)?,
                to: Wire::take(input)?,
                index: Wire::take(input)?,
                term: Wire::take(input)?,
            },
            13 => MetaMessage::Outage(Wire::take(input)?),
            14 => MetaMessage::Lack(Wire::take(input)?),
            15 => MetaMessage::Difference(Wire::take(input)?),
            16 => MetaMessage::Order(LeaderOrder::Mend(Wire::take(input)?)),
            _ => return Err(input.error("a tag of a message")),
        })
    }
}

wire_enum!(RequestAnswer {
    1 Done { outcome },
    2 Refused { refusal },
    3 Elsewhere { leader },
});
wire_enum!(MetaRefusal {
    1 NoCluster {},
    2 Exists {},
    3 Unknown {},
    4 Malformed {},
    5 Full {},
    6 Semantics {},
    7 InUse {},
    8 Last {},
    9 NotNeeded {},
    10 Taken {},
    11 Loopback {},
    12 NoSecret {},
    13 TooFew {},
    14 HasLeft {},
    15 NoRoom {},
    16 Zones {},
    17 AtRisk {},
    18 Lent {},
});
wire_enum!(Beginning {
    1 Kept {},
    2 Learner {},
    3 BootstrapReplica {},
    4 Recovered { of },
});
wire_struct!(AssignedReplica {
    group,
    generation,
    incarnation,
    beginning
});

impl Wire for MetaOutcome {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            MetaOutcome::Done => out.push(1),
            MetaOutcome::Started { node, boot, replicas } => {
                out.push(2);
                node.put(out);
                boot.put(out);
                replicas.put(out);
            }
            MetaOutcome::Replica(replica) => {
                out.push(3);
                replica.put(out);
            }
            MetaOutcome::Set { version } => {
                out.push(4);
                version.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<MetaOutcome, DecodeError> {
        Ok(match input.u8()? {
            1 => MetaOutcome::Done,
            2 => MetaOutcome::Started {
                node: Wire::take(input)?,
                boot: Wire::take(input)?,
                replicas: Wire::take(input)?,
            },
            3 => MetaOutcome::Replica(Wire::take(input)?),
            4 => MetaOutcome::Set {
                version: Wire::take(input)?,
            },
            _ => return Err(input.error("a tag of an outcome")),
        })
    }
}

/// What groups host beside what they were founded with stands behind all else, and what else is known of partitions behind that: reports of
/// builds that know of no such thing follow each other without it.
type Hosted = BTreeMap<GroupRef, Vec<(PartitionId, u32)>>;

impl Wire for NodeHeartbeat {
    fn put(&self, out: &mut Vec<u8>) {
        self.boot.put(out);
        self.epoch.put(out);
        self.settings_version.put(out);
        self.group_reports.put(out);
        self.recovery_sources.put(out);
        self.given_up.put(out);
        let hosted = self
            .group_reports
            .iter()
            .filter(|report| !report.hosted.is_empty());
        let hosted: Hosted = hosted
            .map(|report| (report.report.group, report.hosted.clone()))
            .collect();
        if hosted.is_empty() && self.partition_notes.is_empty() {
            if let Some(memory) = &self.memory {
                memory.put(out);
            }
        } else {
            self.memory.unwrap_or_default().put(out);
            hosted.put(out);
            if !self.partition_notes.is_empty() {
                self.partition_notes.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<NodeHeartbeat, DecodeError> {
        let mut node_heartbeat = NodeHeartbeat {
            boot: Wire::take(input)?,
            epoch: Wire::take(input)?,
            settings_version: Wire::take(input)?,
            group_reports: Wire::take(input)?,
            recovery_sources: Wire::take(input)?,
            given_up: Wire::take(input)?,
            memory: None,
            partition_notes: PartitionNotes::default(),
        };
        if !input.rest().is_empty() {
            node_heartbeat.memory = Some(Wire::take(input)?);
        }
        let mut hosted = Hosted::new();
        if !input.rest().is_empty() {
            hosted = Wire::take(input)?;
            // For nothing stands what is nobody's value.
            node_heartbeat.memory = node_heartbeat
                .memory
                .filter(|memory| *memory != NodeMemory::default());
        }
        if !input.rest().is_empty() {
            node_heartbeat.partition_notes = Wire::take(input)?;
        }
        for report in &mut node_heartbeat.group_reports {
            report.hosted = hosted.remove(&report.report.group).unwrap_or_default();
        }
        match hosted.is_empty() {
            true => Ok(node_heartbeat),
            false => Err(input.error("what groups host of which there are reports")),
        }
    }
}

impl Wire for GroupReport {
    fn put(&self, out: &mut Vec<u8>) {
        self.report.put(out);
        self.caught_up.put(out);
        self.unfit.put(out);
        self.is_changing.put(out);
        self.is_light.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<GroupReport, DecodeError> {
        Ok(GroupReport {
            report: Wire::take(input)?,
            caught_up: Wire::take(input)?,
            unfit: Wire::take(input)?,
            is_changing: Wire::take(input)?,
            is_light: Wire::take(input)?,
            hosted: Vec::new(),
        })
    }
}

wire_struct!(Instruction {
    group,
    generation,
    index,
    order
});
wire_enum!(Order {
    1 AddLearner { node, incarnation },
    2 Change { promote, remove },
    3 Transfer { to },
});

wire_newtype!(Index, Term);
