//! Exhaustive models of transactions over replicated groups (decision 0023): every state that a small configuration
//! can reach is looked at, and from each a quiet end must be within reach. Each rule has a mutant, the protocol
//! without it, which must be caught. `CHORALE_MODELS=large` adds configurations of up to millions of states.
//!
//! `scenario.rs` says what is to be done and which mistake is made, `world.rs` what is known and under way,
//! `entries.rs` what a log's entry does (with the product's `LockTable`), `protocol.rs` every step and what must never
//! be seen (with the product's `VoteTally`). `snapshot.rs` is a model of its own: reads by age. `explore.rs` walks,
//! `order.rs` judges strict serializability.
//!
//! | file | rule | mutants |
//! | --- | --- | --- |
//! | `commit.rs` | a vote is written once, and decides only when written | `VolatileNo`, `QueryTxnLeavesWaiting`, `TwiceIsRefused` |
//! | | who waits for a younger one wounds it, again and again | `NoWound`, `WoundToldOnce` |
//! | | what is prepared is not taken back; silence is no vote | `Revoke`, `TimeoutAborts` |
//! | | locks last until `Resolve`, for readers and new leaders too | `ReadThrough`, `LeaderForgetsLocks` |
//! | `attempts.rs` | each attempt has vote records of its own | `AttemptNotNamed` |
//! | `locking.rs` | who lost a lock does not prepare; locks of the dead are taken back | `PrepareWithoutLock`, `LocksOfDeadStay` |
//! | | groups that were only read vote too; `Lock` arrives once | `OnlyWritersVote`, `LockTwice` |
//! | `validation.rs` | all that was read is compared, under the locks | `ValidatesOnlyWrites`, `JudgesOnArrival` |
//! | | also where there is nothing to write | `NothingToWriteAnswers` |
//! | `forgetting.rs` | vote records go when all are final, below a mark that is looked at | `ForgetsEarly`, `ForgetsAboveMark`, `MarkIgnored` |
//! | | an acknowledged `Resolve` is durable | `ResolveForgotten` |
//! | `fencing.rs` | a dead boot prepares nothing once its vote records may go | `FenceIgnored` |
//! | `plain.rs` | plain commands queue, wound, and are carried out once | `PlainDoesNotWound`, `PlainTwice` |
//! | | ages of one gateway do not go back | a pipeline that does |
//! | `reads.rs` | ages and locks are looked at; what is read again is all read again | `AgeUnchecked`, `LocksUnseen`, `RereadsOne` |
//! | | ages begin at the apply, and at a new leader's own beginning | `AgeFromCommit`, `AgeFromFollower` |
//! | | all groups are asked at one moment | `OwnSendTimes` |
//! | | waits end when the answer is in hand; slack and margin cover what clocks do not show | `ReceivedAtTurnStart`, too small a slack or margin |
//!
//! What is not here: consensus (a group's log is one sequence; `snapshot.rs` has two replicas that apply it at
//! different times), slots that change groups (they do not), deadlines of keys, and fairness: that an end is within
//! reach does not say that it comes.

mod attempts;
mod commit;
mod entries;
mod explore;
mod fencing;
mod forgetting;
mod locking;
mod order;
mod plain;
mod protocol;
mod reads;
mod scenario;
mod snapshot;
mod validation;
mod world;
