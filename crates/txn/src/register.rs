//! What a participant has written down of a transaction.

/// The register of one transaction in one group: written once, then changed once, by the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Register {
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

impl Register {
    const ALL: [Register; 7] = [
        Register::Empty,
        Register::Prepared,
        Register::Refused,
        Register::Committed,
        Register::Aborted,
        Register::Over,
        Register::Lost,
    ];

    /// A number for messages and logs.
    pub fn code(self) -> u8 {
        let at = Register::ALL.iter().position(|other| *other == self);
        at.map_or(0, |at| at as u8)
    }

    /// The register of this number.
    pub fn of_code(code: u8) -> Option<Register> {
        Register::ALL.get(usize::from(code)).copied()
    }
}
