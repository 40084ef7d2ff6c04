//! The entries of a group's log, applied.
//!
//! The queue is the product's `LockTable`. It is built anew for each entry from the vote records, which say all that it
//! holds; so every state that can be reached tries it, and its own invariants are checked each time.

use crate::scenario::{ATTEMPTS, Mutant, Scenario, Way};
use crate::world::{Phase, VoteRecord, World};
use txn::{Grant, LockTable, Mode, Requester, TxnId};

/// One entry's turn.
pub(crate) struct Entries<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) world: World,
}

impl Entries<'_> {
    fn set(&mut self, group: usize, op: usize, attempt: usize, vote_record: VoteRecord) {
        self.world.groups[group].vote_records[op][attempt] = vote_record;
    }

    fn id(op: usize, attempt: usize) -> u64 {
        (op * ATTEMPTS + attempt) as u64
    }

    fn requester(&self, group: usize, op: usize, attempt: usize) -> Requester {
        let txn = self.scenario.txn(op, attempt);
        match self.world.vote_record(group, op, attempt) {
            _ if self.scenario.is_plain(op) => Requester::Plain,
            VoteRecord::QueuedLock | VoteRecord::Locked => Requester::Reading(txn),
            _ => Requester::Preparing(txn),
        }
    }

    /// Those in a group whose vote record is such.
    fn those(&self, group: usize, is: impl Fn(VoteRecord) -> bool) -> Vec<(usize, usize)> {
        let all = (0..self.scenario.operations.len()).flat_map(|op| (0..ATTEMPTS).map(move |at| (op, at)));
        all.filter(|&(op, attempt)| is(self.world.vote_record(group, op, attempt)))
            .collect()
    }

    fn enter(&self, table: &mut LockTable, group: usize, op: usize, attempt: usize) -> Grant {
        let requester = self.requester(group, op, attempt);
        let (age, locks) = (self.scenario.age(op), self.scenario.locks(op, group));
        table.request(Self::id(op, attempt), requester, age, locks)
    }

    /// The locks of a group: who holds, and who waits.
    fn table(&self, group: usize) -> LockTable {
        let mut table = LockTable::default();
        for (op, attempt) in self.those(group, VoteRecord::is_holder) {
            let grant = self.enter(&mut table, group, op, attempt);
            assert_eq!(grant, Grant::Granted, "holders do not conflict");
        }
        for (op, attempt) in self.those(group, VoteRecord::is_queued) {
            let grant = self.enter(&mut table, group, op, attempt);
            assert_ne!(grant, Grant::Granted, "who waits, waits for somebody");
        }
        table
    }

    /// The prepared ones for which one waits that is older.
    pub(crate) fn wounds(&self, group: usize, op: usize, attempt: usize) -> Vec<TxnId> {
        let is_mute = self.scenario.is(Mutant::PlainDoesNotWound) && self.scenario.is_plain(op);
        if is_mute || self.scenario.is(Mutant::NoWound) {
            return Vec::new();
        }
        let mut table = LockTable::default();
        for (op, attempt) in self.those(group, VoteRecord::is_holder) {
            self.enter(&mut table, group, op, attempt);
        }
        match self.enter(&mut table, group, op, attempt) {
            Grant::Granted => Vec::new(),
            Grant::Waits { wound } => wound,
        }
    }

    fn request(&mut self, group: usize, op: usize, attempt: usize, queued: VoteRecord) {
        let mut table = self.table(group);
        self.set(group, op, attempt, queued);
        let grant = self.enter(&mut table, group, op, attempt);
        for (other, at) in self.those(group, |vote_record| vote_record == VoteRecord::Locked) {
            if !table.prepare_held(self.scenario.txn(other, at)) {
                self.set(group, other, at, VoteRecord::Empty);
            }
        }
        match grant {
            Grant::Granted => self.granted(&mut table, group, op, attempt),
            Grant::Waits { wound } if self.scenario.is(Mutant::WoundToldOnce) => {
                for txn in wound {
                    let (victim, at) = (txn.boot.0 as usize, txn.attempt as usize - 1);
                    let others = self.scenario.participants(victim) & !(1 << group);
                    self.world.attempts[victim][at].wound_at |= others;
                }
            }
            Grant::Waits { .. } => {}
        }
        self.drain(&mut table, group);
    }

    /// Lets everybody go on who can.
    fn drain(&mut self, table: &mut LockTable, group: usize) {
        while let Some(id) = table.next_granted() {
            let id = usize::try_from(id).expect("ids are few");
            self.granted(table, group, id / ATTEMPTS, id % ATTEMPTS);
        }
        table.check();
    }

    fn granted(&mut self, table: &mut LockTable, group: usize, op: usize, attempt: usize) {
        if self.scenario.is_plain(op) {
            self.run_plain(group, op);
            return;
        }
        if self.world.vote_record(group, op, attempt) == VoteRecord::QueuedLock {
            self.set(group, op, attempt, VoteRecord::Locked);
            self.answer_values(group, op, attempt);
        } else if !self.judge(group, op, attempt) {
            table.release(self.scenario.txn(op, attempt));
        }
    }

    fn see(&mut self, group: usize, op: usize, attempt: usize) {
        for (key, _) in self.scenario.keys_in(op, group) {
            self.world.attempts[op][attempt].saw[key] = self.world.keys[key].version();
        }
    }

    /// Values go to the coordinator, which asks for votes when it has all. One that has died asks nothing.
    pub(crate) fn answer_values(&mut self, group: usize, op: usize, attempt: usize) {
        if self.world.attempts[op][attempt].values & 1 << group == 0 {
            self.see(group, op, attempt);
        }
        let client = self.world.clients[op];
        let is_running = client.phase == Phase::Running && usize::from(client.attempt) == attempt;
        let about = &mut self.world.attempts[op][attempt];
        about.values |= 1 << group;
        let has_all = is_running && about.values == self.scenario.participants(op);
        let mut keys = self.scenario.operations[op].keys.iter();
        let writes = keys.any(|(_, mode)| *mode == Mode::Exclusive);
        if has_all && self.scenario.is(Mutant::NothingToWriteAnswers) && !writes {
            about.has_committed = true;
            self.world.clients[op].phase = Phase::Committed;
        } else {
            about.asked |= has_all;
        }
    }

    fn install(&mut self, group: usize, op: usize, attempt: usize) {
        self.world.attempts[op][attempt].installed |= 1 << group;
        for (key, mode) in self.scenario.keys_in(op, group) {
            if mode == Mode::Exclusive {
                self.world.keys[key].push(op);
            }
        }
    }

    fn run_plain(&mut self, group: usize, op: usize) {
        self.see(group, op, 0);
        self.install(group, op, 0);
        self.set(group, op, 0, VoteRecord::Done);
        let client = &mut self.world.clients[op];
        if client.phase == Phase::Running {
            client.phase = Phase::Committed;
        }
    }

    /// Whether the versions are those that the effects were computed from.
    fn is_unchanged(&self, group: usize, op: usize, attempt: usize) -> bool {
        let saw = self.world.attempts[op][attempt].saw;
        let only_writes = self.scenario.is(Mutant::ValidatesOnlyWrites);
        let mut keys = self.scenario.keys_in(op, group);
        self.scenario.way(op, attempt) != Way::Validated
            || keys.all(|(key, mode)| {
                mode == Mode::Shared && only_writes || saw[key] == self.world.keys[key].version()
            })
    }

    /// The vote of one that has its locks.
    fn judge(&mut self, group: usize, op: usize, attempt: usize) -> bool {
        if !self.scenario.is(Mutant::JudgesOnArrival) && !self.is_unchanged(group, op, attempt) {
            self.say_no(group, op, attempt);
            return false;
        }
        if self.scenario.way(op, attempt) == Way::OneShot {
            self.see(group, op, attempt);
        }
        self.set(group, op, attempt, VoteRecord::Prepared);
        self.world.attempts[op][attempt].yes |= 1 << group;
        true
    }

    fn say_no(&mut self, group: usize, op: usize, attempt: usize) {
        self.world.attempts[op][attempt].no |= 1 << group;
        let vote_record = match self.scenario.mutant {
            Some(Mutant::VolatileNo) => VoteRecord::Empty,
            _ => VoteRecord::Refused,
        };
        self.set(group, op, attempt, vote_record);
    }

    /// *Refused*, if there is no vote yet.
    fn refuse(&mut self, group: usize, op: usize, attempt: usize) {
        let mut table = self.table(group);
        table.withdraw(self.scenario.txn(op, attempt));
        table.release(self.scenario.txn(op, attempt));
        self.say_no(group, op, attempt);
        self.drain(&mut table, group);
    }

    /// Whether the mark says that a transaction is over.
    fn is_over(&self, group: usize, op: usize) -> bool {
        let operation = &self.scenario.operations[op];
        operation.seq < self.world.groups[group].mark[operation.boot]
            && !self.scenario.is(Mutant::MarkIgnored)
    }

    fn is_fenced(&self, group: usize, op: usize) -> bool {
        self.world.groups[group].fenced & 1 << self.scenario.operations[op].boot != 0
            && !self.scenario.is(Mutant::FenceIgnored)
    }

    fn is_buried(&self, group: usize, op: usize) -> bool {
        self.world.groups[group].buried & 1 << self.scenario.operations[op].boot != 0
    }

    pub(crate) fn plain(&mut self, group: usize, op: usize) {
        self.world.attempts[op][0].locked |= 1 << group;
        if self.scenario.is(Mutant::ReadThrough) {
            self.run_plain(group, op);
        } else {
            self.request(group, op, 0, VoteRecord::Queued);
        }
    }

    pub(crate) fn lock(&mut self, group: usize, op: usize, attempt: usize) {
        self.world.attempts[op][attempt].locked |= 1 << group;
        if self.world.vote_record(group, op, attempt) != VoteRecord::Empty || self.is_over(group, op) {
            return;
        }
        if self.is_fenced(group, op) {
            self.world.attempts[op][attempt].no |= 1 << group;
        } else {
            self.request(group, op, attempt, VoteRecord::QueuedLock);
        }
    }

    pub(crate) fn prepare(&mut self, group: usize, op: usize, attempt: usize) {
        if self.scenario.fences {
            self.world.attempts[op][attempt].arrived |= 1 << group;
        }
        if self.is_over(group, op) {
            return;
        }
        let again = self.scenario.is(Mutant::AttemptNotNamed) && self.world.clients[op].attempt > 0;
        match self.world.vote_record(group, op, attempt) {
            VoteRecord::Locked => {
                let mut table = self.table(group);
                assert!(table.prepare_held(self.scenario.txn(op, attempt)));
                self.judge(group, op, attempt);
                self.drain(&mut table, group);
            }
            // The fence is as lasting as the vote record would be.
            VoteRecord::Empty if self.is_fenced(group, op) => {
                self.world.attempts[op][attempt].no |= 1 << group;
            }
            VoteRecord::Empty
                if self.scenario.way(op, attempt) == Way::Locked
                    && !self.scenario.is(Mutant::PrepareWithoutLock) =>
            {
                self.say_no(group, op, attempt);
            }
            VoteRecord::Empty
                if self.scenario.is(Mutant::JudgesOnArrival) && !self.is_unchanged(group, op, attempt) =>
            {
                self.say_no(group, op, attempt);
            }
            VoteRecord::Empty => self.request(group, op, attempt, VoteRecord::Queued),
            VoteRecord::Refused | VoteRecord::Aborted if again => {
                self.request(group, op, attempt, VoteRecord::Queued);
            }
            VoteRecord::Prepared if self.scenario.is(Mutant::TwiceIsRefused) => {
                self.world.attempts[op][attempt].no |= 1 << group;
            }
            // What the vote record holds is answered again: nobody learns anything new.
            _ => {}
        }
    }

    /// An older one waits elsewhere for this one.
    pub(crate) fn wound(&mut self, group: usize, op: usize, attempt: usize) {
        self.world.attempts[op][attempt].wound_at &= !(1 << group);
        let vote_record = self.world.vote_record(group, op, attempt);
        let is_revoked = vote_record == VoteRecord::Prepared && self.scenario.is(Mutant::Revoke);
        if vote_record.is_queued() || is_revoked {
            self.refuse(group, op, attempt);
        }
    }

    pub(crate) fn query_txn(&mut self, group: usize, op: usize, attempt: usize) {
        let vote_record = self.world.vote_record(group, op, attempt);
        let is_gone = self.is_over(group, op) || self.is_buried(group, op);
        match vote_record {
            VoteRecord::Empty if is_gone => {}
            VoteRecord::Queued if self.scenario.is(Mutant::QueryTxnLeavesWaiting) => {
                self.world.attempts[op][attempt].no |= 1 << group;
            }
            VoteRecord::Empty | VoteRecord::Queued | VoteRecord::QueuedLock | VoteRecord::Locked => {
                self.refuse(group, op, attempt);
            }
            VoteRecord::Prepared | VoteRecord::Unguarded => {
                self.world.attempts[op][attempt].yes |= 1 << group
            }
            VoteRecord::Refused => self.world.attempts[op][attempt].no |= 1 << group,
            VoteRecord::Committed => self.world.attempts[op][attempt].commits = true,
            VoteRecord::Aborted => self.world.attempts[op][attempt].aborts = true,
            VoteRecord::Done => unreachable!("nobody asks after a plain command"),
        }
    }

    pub(crate) fn resolve(&mut self, group: usize, op: usize, attempt: usize, commits: bool) {
        let vote_record = self.world.vote_record(group, op, attempt);
        // Without a vote, this is by mistake only.
        let is_locked = vote_record == VoteRecord::Locked && commits;
        if vote_record.is_prepared() || is_locked {
            let mut table = self.table(group);
            if commits {
                self.install(group, op, attempt);
            }
            let outcome = if commits {
                VoteRecord::Committed
            } else {
                VoteRecord::Aborted
            };
            self.set(group, op, attempt, outcome);
            if vote_record.is_holder() {
                table.release(self.scenario.txn(op, attempt));
            }
            self.drain(&mut table, group);
            return;
        }
        let is_gone = self.is_over(group, op) || self.is_buried(group, op);
        let is_open = vote_record.is_queued()
            || vote_record == VoteRecord::Locked
            || vote_record == VoteRecord::Empty && !is_gone;
        if is_open && !commits {
            self.refuse(group, op, attempt);
        }
    }

    /// Everything below `mark` goes.
    pub(crate) fn forget(&mut self, group: usize, boot: usize, mark: u8) {
        self.world.groups[group].mark[boot] = mark;
        for op in 0..self.scenario.operations.len() {
            let operation = &self.scenario.operations[op];
            if operation.boot == boot && operation.seq < mark {
                self.forget_one(group, op);
            }
        }
    }

    /// A boot that cannot prepare any more, and of which nothing is open anywhere.
    pub(crate) fn bury(&mut self, group: usize, boot: usize) {
        self.world.groups[group].buried |= 1 << boot;
        for op in 0..self.scenario.operations.len() {
            if self.scenario.operations[op].boot == boot {
                self.forget_one(group, op);
            }
        }
    }

    pub(crate) fn forget_one(&mut self, group: usize, op: usize) {
        for attempt in 0..ATTEMPTS {
            if self.world.vote_record(group, op, attempt).is_final() {
                self.set(group, op, attempt, VoteRecord::Empty);
            }
        }
    }

    /// The mistake of a lock table that is not part of the state.
    pub(crate) fn lose_locks(&mut self, group: usize) {
        let mut table = self.table(group);
        for (op, attempt) in self.those(group, VoteRecord::is_prepared) {
            self.set(group, op, attempt, VoteRecord::Unguarded);
            table.release(self.scenario.txn(op, attempt));
        }
        self.drain(&mut table, group);
    }
}
