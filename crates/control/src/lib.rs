//! The meta group's state machine, and the reconciler.
//!
//! ```text
//!  Command --> meta group's log --> State::apply --> Outcome
//!     ^                               |     |
//!     |                               |     `--> RoutingMap, to every node
//!     |                               v
//!     `--- Step::Propose --- steps(state, observations, pace) ---------- Step::Order ---> a group's leader
//!                                     ^                                                          |
//!                                     `------------- Observations: what was seen <---------------'
//! ```
//!
//! The state says what ought to be, and what was last reported to be. The reconciler compares both and says the next step;
//! it remembers nothing, so that it can go on anywhere, at any time, after any failure.
//!
//! Absent: the consensus of the meta group (crate `consensus`), who runs the reconciler (the meta group's leader), messages,
//! clocks. Which options can be set, and users.

mod apply;
mod command;
mod founding;
mod given_up;
mod goal;
mod group;
mod growth;
mod growth_state;
mod lack;
mod map;
mod map_difference;
mod mending;
mod meta;
mod node;
mod node_memory;
mod observations;
mod outage;
mod partition_notes;
mod permit;
mod placing;
mod reconciler;
mod recovery_source;
mod settings;
mod state;
mod step;
mod wire;

pub use codec::DecodeError;
pub use command::{
    AssignedReplica, Beginning, Factor, MetaCommand, MetaOutcome, MetaRefusal, Report, Target,
};
pub use founding::{FOUNDING_LINKS_MAX, Founding, FoundingEnd, FoundingMessage, FoundingNode};
pub use given_up::GivenUp;
pub use goal::{MovePause, NodeGoal, Rebalance, Resize};
pub use group::{Expected, Group, GroupMember, GroupRef, MEMBERS_MAX, MemberRole, majority};
pub use growth_state::GrowthState;
pub use lack::{Lack, Missing};
pub use map::{Moving, Resizing, Route, RoutingMap, Site, Standing, Stop};
pub use map_difference::MapDifference;
pub use mending::Mend;
pub use meta::{
    Contact, Failure, HeldAlone, Instruction, LeaderOrder, Meta, MetaConfig, MetaEffects, MetaMessage,
    MetaWrite, NodeHeartbeat, Notice, Record, RecoveredMeta, RequestAnswer, Restored, Started,
};
pub use node::{ADDRESS_BYTES_MAX, Announcement, NODES_MAX, Node, Placed, WEIGHT_PERCENT};
pub use node_memory::NodeMemory;
pub use observations::{GroupReport, Observations};
pub use outage::Outage;
pub use partition_notes::PartitionNotes;
pub use permit::{PERMIT_SECONDS_MAX, StopPermit, is_at_risk};
pub use placing::RebalancePlan;
pub use reconciler::{Pace, steps};
pub use recovery_source::{Configuration, RecoverySource};
pub use settings::{DURABILITY, NAME_BYTES_MAX, SETTINGS_MAX, Setting, VALUE_BYTES_MAX};
pub use state::{BOOTSTRAP_REPLICA, State, TARGETS_MAX};
pub use step::{Order, ReconcileStep};
