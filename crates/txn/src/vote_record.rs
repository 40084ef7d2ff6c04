//! What a participant has written down of a transaction.

/// The vote record of one transaction in one group: written once, then changed once, by the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VoteRecord {
    /// Nothing.
    Empty,
    /// The vote is for it: locks are held, effects are computed.
    Prepared,
    /// The vote is against it.
    Refused,
    /// It was prepared, and has been carried out.
    Committed,
    /// It was prepared, and has been dropped.
    Aborted,
    /// Every participant had one of the last three, and it has been forgotten.
    Over,
    /// The group has begun anew since it had a part in it, and nothing is left of that part: it may have had any of these.
    Lost,
}

impl VoteRecord {
    const ALL: [VoteRecord; 7] = [
        VoteRecord::Empty,
        VoteRecord::Prepared,
        VoteRecord::Refused,
        VoteRecord::Committed,
        VoteRecord::Aborted,
        VoteRecord::Over,
        VoteRecord::Lost,
    ];

    /// A number for messages and logs.
    pub fn code(self) -> u8 {
        let at = VoteRecord::ALL.iter().position(|other| *other == self);
        at.map_or(0, |at| at as u8)
    }

    /// The vote record of this number.
    pub fn of_code(code: u8) -> Option<VoteRecord> {
        VoteRecord::ALL.get(usize::from(code)).copied()
    }
}
