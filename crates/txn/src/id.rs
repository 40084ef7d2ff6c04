//! Names and ages of transactions.

use ids::{Boot, GatewayId, UnixMillis};

/// One attempt of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TxnId {
    /// The boot of the gateway that coordinates it.
    pub boot: Boot,
    /// The worker of that boot whose gateway it is.
    pub worker: u16,
    /// Counted by that gateway, never reused within the boot and different from the other workers'.
    pub seq: u64,
    /// From 1; a wounded transaction tries again under the next.
    pub attempt: u32,
}

impl TxnId {
    /// The gateway that coordinates it.
    pub fn coordinator(self) -> GatewayId {
        GatewayId {
            boot: self.boot,
            worker: self.worker,
        }
    }
}

/// Boot and worker of its coordinator, count, attempt.
impl std::fmt::Display for TxnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}.{}", self.boot.0, self.worker, self.seq, self.attempt)
    }
}

/// Age: smaller is older, and older wins. It orders waiting and is never needed for correctness. Kept across
/// attempts, so that a transaction that was wounded often becomes the oldest in the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    /// When the first attempt began.
    pub began: UnixMillis,
    /// The gateway's boot and count break ties: no two transactions have one age, or neither would wound the other.
    pub boot: Boot,
    /// See [`TxnId::seq`].
    pub seq: u64,
}
