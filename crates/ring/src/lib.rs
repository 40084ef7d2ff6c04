//! The consistent-hash ring: from members to placement.
//!
//! ```text
//!  members, zones, ----> circle ------> place(rf, previous) -----> placement -----> leaders(current)
//!  weights               positions      which nodes hold           nodes of         one of them
//!                        of nodes       which group                each group       for each group
//! ```
//!
//! Everything here is a function of its arguments: no node asks another, and every node that computes a placement from
//! the same arguments computes the same one.
//!
//! A plain ring is uneven, and one with caps moves much more than it has to when a node joins, so a placement is also a
//! function of the placement before it: docs/decisions/0021.
//!
//! Absent: who decides that a node is a member, how replicas get to where they are placed.

mod circle;
mod exchange;
mod labels;
mod leaders;
mod place;
mod placement;
mod share;
mod table;

pub use circle::{Circle, POSITIONS, RingNode};
pub use leaders::leaders;
pub use place::{bears_loss_of_zone, load_max, place};
pub use placement::Placement;
