//! A keyspace with its leader's companion.

use command::Command;
use ids::{Db, HashSeed, PartitionCount, PartitionRange, SemanticsVersion, UnixMillis};
use keyspace::{
    ApplyOutput, Entry, EntryOperation, Header, KeptResult, Keyspace, LeaderLocal, RequestStanding,
};
use resp::{Args, Protocol, ReplyWriter};

pub(crate) struct Node {
    pub(crate) keyspace: Keyspace,
    pub(crate) local: LeaderLocal,
}

/// Strings may not grow beyond this while fuzzing: half a gibibyte is allowed, but slow.
const GROWTH_MAX: u64 = 1 << 20;

impl Node {
    pub(crate) fn new(local_seed: u64) -> Node {
        Node {
            keyspace: Keyspace::new(HashSeed([1, 2]), PartitionRange::all(PartitionCount::DEFAULT)),
            local: LeaderLocal::new(local_seed),
        }
    }

    /// Applies an entry as a replica does; `replies` gets all answers.
    /// Whether its rules are known; if not, nothing was done.
    pub(crate) fn apply(&mut self, entry: &Entry<'_>, replies: &mut Vec<u8>) -> bool {
        let applied = self.keyspace.apply(entry, &mut self.local, |answered| {
            if let ApplyOutput::Operation(answer) = answered {
                let joined: Vec<u8> = answer.replies().flatten().copied().collect();
                assert_eq!(joined, answer.bytes());
                replies.push(u8::from(answer.is_carried_out()));
                replies.extend_from_slice(answer.bytes());
            }
        });
        applied.is_ok()
    }

    /// Applies the operations of the leader's own batches one by one, as a group that commits at once does.
    pub(crate) fn apply_one_by_one(&mut self, entry: &Entry<'_>, replies: &mut Vec<u8>) {
        self.keyspace
            .open(&entry.header())
            .expect("it was made with known rules");
        for operation in entry.batches().iter().flat_map(|batch| batch.operations()) {
            let outcome_at = replies.len();
            replies.push(1);
            match operation {
                EntryOperation::Command { db, protocol, args } => self.command(db, protocol, args, replies),
                EntryOperation::Expire { db, key } => self.keyspace.expire(db, key, &mut self.local),
                EntryOperation::Evict { db, key } => self.keyspace.evict(db, key, &mut self.local),
                EntryOperation::Limits { limits } => self.keyspace.set_limits(limits),
                EntryOperation::Install { effects } => self.keyspace.install(effects, &mut self.local),
                EntryOperation::Fence { fence } => self.keyspace.fence(&fence),
                EntryOperation::Once { request, commands } => {
                    let standing = self.keyspace.standing(&request);
                    replies.push(standing.unwrap_or(RequestStanding::CarriedOut).code());
                    let mark = replies.len();
                    if standing.is_none() {
                        for command in commands {
                            self.command(command.db, command.protocol, command.args, replies);
                        }
                        self.keyspace.keep(KeptResult {
                            request,
                            replies: vec![replies[mark..].into()],
                        });
                    } else if standing == Some(RequestStanding::CarriedOut) {
                        let kept = self.keyspace.kept_replies(request.id);
                        kept.for_each(|reply| replies.extend_from_slice(reply));
                    }
                }
                EntryOperation::Prepare(_)
                | EntryOperation::Lock(_)
                | EntryOperation::Resolve(_)
                | EntryOperation::QueryTxn(_)
                | EntryOperation::OnePhase { .. }
                | EntryOperation::Withdraw { .. }
                | EntryOperation::Forget(_)
                | EntryOperation::Received { .. }
                | EntryOperation::Resume(_)
                | EntryOperation::Wait { .. }
                | EntryOperation::EndWait { .. }
                | EntryOperation::EndWaits { .. }
                | EntryOperation::Stage(_)
                | EntryOperation::Arrive(_)
                | EntryOperation::Coding(_)
                | EntryOperation::Staged { .. } => {
                    unreachable!("programs have neither votes nor waiting clients, and nothing long")
                }
                EntryOperation::Block { conditions, commands } => {
                    if conditions.iter().all(|condition| self.keyspace.holds(condition)) {
                        for command in commands {
                            self.command(command.db, command.protocol, command.args, replies);
                        }
                    } else {
                        replies[outcome_at] = 0;
                    }
                }
            }
        }
    }

    fn command(&mut self, db: Db, protocol: Protocol, args: Args<'_>, out: &mut Vec<u8>) {
        let mut writer = ReplyWriter::new(out, protocol);
        match command::resolve_in_group(args).map(|spec| command::parse(spec, args)) {
            Ok(Some(Ok(command))) => {
                if !command.writes() {
                    // A leader answers reads without an entry. It may say less than this, never panic.
                    let mut aside = Vec::new();
                    let mut writer = ReplyWriter::new(&mut aside, protocol);
                    self.keyspace
                        .read(db, &command, &mut LeaderLocal::new(0), &mut writer);
                }
                self.keyspace
                    .apply_command(db, &command, &mut self.local, &mut writer);
            }
            Ok(Some(Err(error))) | Err(error) => error.write(&mut writer),
            Ok(None) => command::ReplyError::unknown_command(args).write(&mut writer),
        }
    }
}

pub(crate) fn header(now: i64, seed: u64) -> Header {
    Header {
        semantics: SemanticsVersion::CURRENT,
        now: UnixMillis(now),
        seed,
    }
}

/// Whether the words make a string longer than a fuzzer has time for.
pub(crate) fn grows_much(args: Args<'_>) -> bool {
    let Ok(Some(Ok(command))) = command::resolve_in_group(args).map(|spec| command::parse(spec, args)) else {
        return false;
    };
    match command {
        Command::SetBit { offset, .. } => offset / 8 > GROWTH_MAX,
        Command::SetRange { offset, value, .. } => !value.is_empty() && offset > GROWTH_MAX,
        Command::BitField { operations, .. } => {
            command::bitfield_operations(operations).any(|operation| operation.offset / 8 > GROWTH_MAX)
        }
        _ => false,
    }
}
