//! What a replica's part in its replicated group has done, for operators.

use std::ops::AddAssign;

/// Counted since the replica began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemberCounts {
    /// Terms that it saw begin.
    pub terms: u64,
    /// Times it asked for votes.
    pub campaigns: u64,
    /// Times it came to lead.
    pub elections_won: u64,
    /// Entries that it proposed.
    pub entries_proposed: u64,
    /// Batches of gateways in them.
    pub batches_proposed: u64,
    /// Bytes of them.
    pub bytes_proposed: u64,
    /// Entries that it applied.
    pub entries_applied: u64,
    /// Batches in them.
    pub batches_applied: u64,
    /// Batches of reads that it answered under the lease.
    pub reads_leased: u64,
    /// Batches of reads that it answered when a round had confirmed it.
    pub reads_confirmed: u64,
    /// Transfers of its state that it began.
    pub transfers: u64,
    /// States of others that became its own.
    pub installs: u64,
    /// Rounds of a scrub in which it was found to be as most voters are.
    pub scrubs: u64,
    /// Times that it found a member, itself or another, to differ from most voters.
    pub differing: u64,
    /// Rounds in which no state had a majority.
    pub undecided: u64,
}

impl AddAssign for MemberCounts {
    fn add_assign(&mut self, other: MemberCounts) {
        let MemberCounts {
            terms,
            campaigns,
            elections_won,
            entries_proposed,
            batches_proposed,
            bytes_proposed,
            entries_applied,
            batches_applied,
            reads_leased,
            reads_confirmed,
            transfers,
            installs,
            scrubs,
            differing,
            undecided,
        } = other;
        self.terms += terms;
        self.campaigns += campaigns;
        self.elections_won += elections_won;
        self.entries_proposed += entries_proposed;
        self.batches_proposed += batches_proposed;
        self.bytes_proposed += bytes_proposed;
        self.entries_applied += entries_applied;
        self.batches_applied += batches_applied;
        self.reads_leased += reads_leased;
        self.reads_confirmed += reads_confirmed;
        self.transfers += transfers;
        self.installs += installs;
        self.scrubs += scrubs;
        self.differing += differing;
        self.undecided += undecided;
    }
}
