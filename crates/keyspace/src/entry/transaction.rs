//! Operations of transactions over several groups, and their encoding.
//!
//! ```text
//!   8 prepare   head | conditions | conditions (what was read) | work
//!     work      1 evaluate  strict u8 | commands
//!               2 install   after a lock u8 | effects | result
//!               3 in place  after a lock u8 | count u32 | (1 command | 2 effects)*
//!               4 put       db u8 | length u32 | pairs
//!     pairs     (key length u32 | key | value length u32 | value)*
//!   9 lock      head | whole group u8 | keys (count u32 | (db u8 | alone u8 | key)*)
//!     head      txn | began i64 | participants
//!  10 resolve   count u32 | (txn | committed u8)*
//!  11 query     txn | participants
//!  12 withdraw  txn
//!  13 forget    boot u64 | worker u16 | low u64 | count u32 | (seq u64 | attempt u32)*
//!  14 received  count u32 | (number u64 | index u32)*
//!  result       0 u8, or 1 u8 | request | count u32 | (length u32 | bytes)*
//!  txn          boot u64 | worker u16 | seq u64 | attempt u32
//!  participants count u32 | (group u16 | generation u64)*
//! ```

use super::{BlockCommand, CommandView, Condition, Cursor, EffectView, EntryError, Operations, Source};
use crate::effects::Effect;
use crate::form::{self, Rest};
use crate::requests::KeptResult;
use ids::{Boot, Db, GatewayId, GroupId, UnixMillis};
use resp::{Args, Span};
use std::borrow::Cow;
use txn::{Participant, Participants, TxnId};

/// One group's part of a transaction.
pub struct Prepare<'a> {
    /// Which one.
    pub txn: TxnId,
    /// When its first attempt began: its age.
    pub began: UnixMillis,
    /// All groups that take part.
    pub participants: Participants,
    /// What must hold, or the client is told that it did not.
    pub conditions: Vec<Condition<'a>>,
    /// What the coordinator has seen and relies on. If it has changed, the coordinator looks again.
    pub expects: Vec<Condition<'a>>,
    /// What is to be done.
    pub work: Work<'a>,
}

/// What a participant has to do.
pub enum Work<'a> {
    /// Commands whose values stay in this group: their effects are computed now, and installed when it is committed.
    Evaluate {
        /// The commands in order.
        commands: Vec<BlockCommand<'a>>,
        /// Whether an error that one of them answers is a refusal.
        is_strict: bool,
    },
    /// The coordinator has computed the effects.
    Install {
        /// What changes.
        effects: Vec<Effect>,
        /// Whether the locks were taken before by [`Lock`], and must be held still.
        after_lock: bool,
        /// What is to be kept here, if the client has named the request: it is refused if that is known already.
        result: Option<KeptResult>,
    },
    /// Commands on the whole group: it is locked now, and they are carried out when it is committed.
    InPlace {
        /// What is done, in order.
        steps: Vec<Step<'a>>,
        /// Whether the group was locked before by [`Lock`], and must be held still.
        after_lock: bool,
    },
    /// `MSET`: it sees nothing and cannot fail, so that nothing need be computed before it is committed.
    Put {
        /// Where.
        db: Db,
        /// What is put.
        pairs: Pairs<'a>,
    },
}

/// Keys and values, in the format of entries.
#[derive(Clone, Debug)]
pub struct Pairs<'a>(Cow<'a, [u8]>);

impl<'a> Pairs<'a> {
    /// Of words that are keys and values in turn.
    pub fn of(words: Args<'_>) -> Pairs<'static> {
        let mut bytes = Vec::with_capacity(words.byte_len() + words.len() * size_of::<u32>());
        words.iter().for_each(|word| form::text(&mut bytes, word));
        Pairs(bytes.into())
    }

    /// Of bytes that hold them and nothing else.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Pairs<'a>> {
        let mut rest = Rest(bytes);
        while !rest.0.is_empty() {
            rest.text()?;
            rest.text()?;
        }
        Some(Pairs(bytes.into()))
    }

    /// Each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = Rest(&self.0);
        std::iter::from_fn(move || rest.text().zip(rest.text()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One step of what is carried out in place.
pub enum Step<'a> {
    /// A command.
    Run(BlockCommand<'a>),
    /// What commands between those on the whole keyspace change here: their coordinator has computed it.
    Install(Vec<Effect>),
}

/// Locks of a transaction that does not know yet what to do.
#[derive(Clone)]
pub struct Lock<'a> {
    /// Which one.
    pub txn: TxnId,
    /// When its first attempt began.
    pub began: UnixMillis,
    /// All groups that take part.
    pub participants: Participants,
    /// Whether all of the group is locked, alone.
    pub is_whole: bool,
    /// The keys whose objects are wanted, and whether they may change.
    pub keys: Vec<(Db, &'a [u8], bool)>,
}

/// Decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolve {
    /// Of each transaction, whether it is committed.
    pub decisions: Vec<(TxnId, bool)>,
}

/// A question that is a refusal if nothing has happened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryTxn {
    /// Which transaction.
    pub txn: TxnId,
    /// All groups that take part.
    pub participants: Participants,
}

/// Transactions of one coordinator that every participant has recorded the end of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forget {
    /// The coordinator.
    pub coordinator: GatewayId,
    /// All of its sequences below this one are over.
    pub low: u64,
    /// Sequence and attempt of others that are over.
    pub over: Vec<(u64, u32)>,
}

/// A group, and its generation.
const PARTICIPANT_BYTES: usize = 2 + 8;

/// [`Prepare`] with its arguments' positions found.
pub(super) struct PrepareView<'a> {
    txn: TxnId,
    began: UnixMillis,
    participants: Participants,
    conditions: Vec<Condition<'a>>,
    expects: Vec<Condition<'a>>,
    work: WorkView<'a>,
}

enum WorkView<'a> {
    Evaluate {
        commands: Vec<CommandView<'a>>,
        is_strict: bool,
    },
    Install {
        effects: Vec<EffectView<'a>>,
        after_lock: bool,
        result: Option<KeptResult>,
    },
    InPlace {
        steps: Vec<StepView<'a>>,
        after_lock: bool,
    },
    Put {
        db: Db,
        pairs: &'a [u8],
    },
}

enum StepView<'a> {
    Run(CommandView<'a>),
    Install(Vec<EffectView<'a>>),
}

impl StepView<'_> {
    fn step<'s>(&'s self, spans: &'s [Span], source: Option<&Source<'_>>) -> Step<'s> {
        match self {
            StepView::Run(command) => Step::Run(command.command(spans)),
            StepView::Install(effects) => {
                Step::Install(effects.iter().map(|effect| effect.effect(source)).collect())
            }
        }
    }
}

impl PrepareView<'_> {
    pub(super) fn prepare<'s>(&'s self, spans: &'s [Span], source: Option<&Source<'_>>) -> Prepare<'s> {
        let all = |commands: &'s [CommandView<'_>]| -> Vec<BlockCommand<'s>> {
            commands.iter().map(|command| command.command(spans)).collect()
        };
        Prepare {
            txn: self.txn,
            began: self.began,
            participants: self.participants.clone(),
            conditions: self.conditions.clone(),
            expects: self.expects.clone(),
            work: match &self.work {
                WorkView::Evaluate { commands, is_strict } => Work::Evaluate {
                    commands: all(commands),
                    is_strict: *is_strict,
                },
                WorkView::Install {
                    effects,
                    after_lock,
                    result,
                } => Work::Install {
                    effects: effects.iter().map(|effect| effect.effect(source)).collect(),
                    after_lock: *after_lock,
                    result: result.clone(),
                },
                WorkView::InPlace { steps, after_lock } => Work::InPlace {
                    steps: steps.iter().map(|step| step.step(spans, source)).collect(),
                    after_lock: *after_lock,
                },
                WorkView::Put { db, pairs } => Work::Put {
                    db: *db,
                    pairs: Pairs((*pairs).into()),
                },
            },
        }
    }
}

impl Operations {
    pub(super) fn prepare(&mut self, prepare: &Prepare<'_>) {
        self.head(prepare.txn, prepare.began, &prepare.participants);
        self.conditions(&prepare.conditions);
        self.conditions(&prepare.expects);
        match &prepare.work {
            Work::Evaluate { commands, is_strict } => {
                self.bytes.extend_from_slice(&[1, u8::from(*is_strict)]);
                self.commands(commands);
            }
            Work::Install {
                effects,
                after_lock,
                result,
            } => {
                self.bytes.extend_from_slice(&[2, u8::from(*after_lock)]);
                self.effects(effects);
                self.bytes.push(u8::from(result.is_some()));
                if let Some(result) = result {
                    result.encode(&mut self.bytes);
                }
            }
            Work::InPlace { steps, after_lock } => {
                self.bytes.extend_from_slice(&[3, u8::from(*after_lock)]);
                self.length(steps.len());
                steps.iter().for_each(|step| self.step(step));
            }
            Work::Put { db, pairs } => {
                self.bytes.extend_from_slice(&[4, db.number()]);
                self.text(pairs.bytes());
            }
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Run(BlockCommand { db, protocol, args }) => {
                self.bytes.push(1);
                self.command(*db, *protocol, *args);
            }
            Step::Install(effects) => {
                self.bytes.push(2);
                self.effects(effects);
            }
        }
    }

    pub(super) fn lock(&mut self, lock: &Lock<'_>) {
        self.head(lock.txn, lock.began, &lock.participants);
        self.bytes.push(u8::from(lock.is_whole));
        self.length(lock.keys.len());
        for (db, key, alone) in &lock.keys {
            self.bytes.extend_from_slice(&[db.number(), u8::from(*alone)]);
            self.text(key);
        }
    }

    pub(super) fn resolve(&mut self, resolve: &Resolve) {
        self.length(resolve.decisions.len());
        for (txn, is_committed) in &resolve.decisions {
            self.txn(*txn);
            self.bytes.push(u8::from(*is_committed));
        }
    }

    pub(super) fn forget(&mut self, forget: &Forget) {
        self.bytes
            .extend_from_slice(&forget.coordinator.boot.0.to_le_bytes());
        self.bytes
            .extend_from_slice(&forget.coordinator.worker.to_le_bytes());
        self.bytes.extend_from_slice(&forget.low.to_le_bytes());
        self.length(forget.over.len());
        for (seq, attempt) in &forget.over {
            self.bytes.extend_from_slice(&seq.to_le_bytes());
            self.bytes.extend_from_slice(&attempt.to_le_bytes());
        }
    }

    fn head(&mut self, txn: TxnId, began: UnixMillis, participants: &[Participant]) {
        self.txn(txn);
        self.bytes.extend_from_slice(&began.0.to_le_bytes());
        self.participants(participants);
    }

    pub(super) fn txn(&mut self, txn: TxnId) {
        write_txn(&mut self.bytes, txn);
    }

    pub(super) fn participants(&mut self, participants: &[Participant]) {
        self.length(participants.len());
        for participant in participants {
            write_participant(&mut self.bytes, *participant);
        }
    }
}

/// Writes a transaction's name.
pub(crate) fn write_txn(to: &mut Vec<u8>, txn: TxnId) {
    to.extend_from_slice(&txn.boot.0.to_le_bytes());
    to.extend_from_slice(&txn.worker.to_le_bytes());
    to.extend_from_slice(&txn.seq.to_le_bytes());
    to.extend_from_slice(&txn.attempt.to_le_bytes());
}

/// Writes a participant.
pub(crate) fn write_participant(to: &mut Vec<u8>, participant: Participant) {
    to.extend_from_slice(&participant.group.number().to_le_bytes());
    to.extend_from_slice(&participant.generation.to_le_bytes());
}

impl<'a> Cursor<'a> {
    pub(super) fn prepare(&mut self, spans: &mut Vec<Span>) -> Result<PrepareView<'a>, EntryError> {
        let (txn, began, participants) = self.head()?;
        let (conditions, expects) = (self.conditions()?, self.conditions()?);
        let work = match self.byte()? {
            1 => WorkView::Evaluate {
                is_strict: self.flag()?,
                commands: self.commands(spans)?,
            },
            2 => {
                let after_lock = self.flag()?;
                let effects = self.effects()?;
                let result = match self.flag()? {
                    true => Some(self.read(KeptResult::decode)?),
                    false => None,
                };
                WorkView::Install {
                    effects,
                    after_lock,
                    result,
                }
            }
            3 => {
                let (after_lock, count) = (self.flag()?, self.length()?);
                let mut steps = Vec::new();
                for _ in 0..count {
                    steps.push(match self.byte()? {
                        1 => StepView::Run(self.command(spans)?),
                        2 => StepView::Install(self.effects()?),
                        _ => return Err(EntryError::Unknown),
                    });
                }
                WorkView::InPlace { steps, after_lock }
            }
            4 => {
                let (db, pairs) = (self.db()?, self.text()?);
                Pairs::read(pairs).ok_or(EntryError::Short)?;
                WorkView::Put { db, pairs }
            }
            _ => return Err(EntryError::Unknown),
        };
        Ok(PrepareView {
            txn,
            began,
            participants,
            conditions,
            expects,
            work,
        })
    }

    /// How many effects a coordinator has computed, which follow; `None` of another operation.
    pub(super) fn effects_of_prepare(&mut self) -> Result<Option<usize>, EntryError> {
        if self.byte()? != super::PREPARE_TAG {
            return Ok(None);
        }
        self.head()?;
        self.conditions()?;
        self.conditions()?;
        if self.byte()? != 2 {
            return Ok(None);
        }
        self.flag()?;
        self.length().map(Some)
    }

    pub(super) fn lock(&mut self) -> Result<Lock<'a>, EntryError> {
        let (txn, began, participants) = self.head()?;
        let is_whole = self.flag()?;
        let mut keys = Vec::new();
        for _ in 0..self.length()? {
            let (db, alone) = (self.db()?, self.flag()?);
            keys.push((db, self.text()?, alone));
        }
        Ok(Lock {
            txn,
            began,
            participants,
            is_whole,
            keys,
        })
    }

    pub(super) fn resolve(&mut self) -> Result<Resolve, EntryError> {
        let mut decisions = Vec::new();
        for _ in 0..self.length()? {
            decisions.push((self.txn()?, self.flag()?));
        }
        Ok(Resolve { decisions })
    }

    pub(super) fn forget(&mut self) -> Result<Forget, EntryError> {
        let coordinator = GatewayId {
            boot: Boot(self.long()?),
            worker: u16::from_le_bytes(self.array()?),
        };
        let low = self.long()?;
        let mut over = Vec::new();
        for _ in 0..self.length()? {
            let seq = self.long()?;
            over.push((seq, u32::from_le_bytes(self.array()?)));
        }
        Ok(Forget {
            coordinator,
            low,
            over,
        })
    }

    fn head(&mut self) -> Result<(TxnId, UnixMillis, Participants), EntryError> {
        let txn = self.txn()?;
        let began = UnixMillis(i64::from_le_bytes(self.array()?));
        Ok((txn, began, self.participants()?))
    }

    pub(super) fn txn(&mut self) -> Result<TxnId, EntryError> {
        Ok(TxnId {
            boot: Boot(self.long()?),
            worker: u16::from_le_bytes(self.array()?),
            seq: self.long()?,
            attempt: u32::from_le_bytes(self.array()?),
        })
    }

    pub(super) fn participants(&mut self) -> Result<Participants, EntryError> {
        let count = self.length()?;
        let bytes = count.checked_mul(PARTICIPANT_BYTES).ok_or(EntryError::Short)?;
        let (each, _) = self.take(bytes)?.as_chunks::<PARTICIPANT_BYTES>();
        let participant = |&[a, b, generation @ ..]: &[u8; PARTICIPANT_BYTES]| Participant {
            group: GroupId::new(u16::from_le_bytes([a, b])),
            generation: u64::from_le_bytes(generation),
        };
        // In one allocation: how many there are is known.
        Ok(each.iter().map(participant).collect())
    }

    fn long(&mut self) -> Result<u64, EntryError> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, EntryError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(EntryError::Unknown),
        }
    }
}
