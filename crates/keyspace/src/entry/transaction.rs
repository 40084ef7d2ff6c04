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

use super::{
    BlockCommand, CommandView, ConditionView, EffectView, Operations, Source, read_command, read_commands,
    read_conditions, read_effects,
};
use crate::effects::Effect;
use crate::fields::{
    read_db, read_gateway, read_participants, read_txn, write_gateway, write_participants, write_txn,
};
use crate::partition_step::PartitionStep;
use crate::requests::KeptResult;
use codec::{COUNT_BYTES, DecodeError, Reader, Writer};
use ids::{Db, GatewayId, UnixMillis};
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
    pub conditions: Vec<ConditionView<'a>>,
    /// What the coordinator has seen and relies on. If it has changed, the coordinator looks again.
    pub expects: Vec<ConditionView<'a>>,
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
        steps: Vec<InPlaceStep<'a>>,
        /// Whether the group was locked before by [`Lock`], and must be held still.
        after_lock: bool,
    },
    /// A partition leaves, or enters: the group is locked now, or a name that all whole groups conflict with, until it is decided.
    Move(PartitionStep),
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
    pub fn of(argv: Args<'_>) -> Pairs<'static> {
        let mut bytes = Vec::with_capacity(argv.byte_len() + argv.len() * size_of::<u32>());
        argv.iter().for_each(|word| bytes.bytes(word));
        Pairs(bytes.into())
    }

    /// Of bytes that hold them and nothing else.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Pairs<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            reader.bytes()?;
            reader.bytes()?;
        }
        Ok(Pairs(bytes.into()))
    }

    /// Each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut reader = Reader::new(&self.0);
        std::iter::from_fn(move || Some((reader.bytes().ok()?, reader.bytes().ok()?)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One step of what is carried out in place.
pub enum InPlaceStep<'a> {
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

/// [`Prepare`] with its arguments' positions found.
pub(super) struct PrepareView<'a> {
    txn: TxnId,
    began: UnixMillis,
    participants: Participants,
    conditions: Vec<ConditionView<'a>>,
    expects: Vec<ConditionView<'a>>,
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
    Move(PartitionStep),
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
    fn step<'s>(&'s self, spans: &'s [Span], source: Option<&Source<'_>>) -> InPlaceStep<'s> {
        match self {
            StepView::Run(command) => InPlaceStep::Run(command.command(spans)),
            StepView::Install(effects) => {
                InPlaceStep::Install(effects.iter().map(|effect| effect.effect(source)).collect())
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
                WorkView::Move(step) => Work::Move(step.clone()),
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
                self.out.raw(&[1, u8::from(*is_strict)]);
                self.commands(commands);
            }
            Work::Install {
                effects,
                after_lock,
                result,
            } => {
                self.out.raw(&[2, u8::from(*after_lock)]);
                self.effects(effects);
                self.out.option(result, |out, result| result.encode(out));
            }
            Work::InPlace { steps, after_lock } => {
                self.out.raw(&[3, u8::from(*after_lock)]);
                self.out.count(steps.len());
                steps.iter().for_each(|step| self.step(step));
            }
            Work::Move(step) => {
                self.out.u8(5);
                step.encode(&mut self.out);
            }
            Work::Put { db, pairs } => {
                self.out.raw(&[4, db.number()]);
                self.out.bytes(pairs.bytes());
            }
        }
    }

    fn step(&mut self, step: &InPlaceStep<'_>) {
        match step {
            InPlaceStep::Run(BlockCommand { db, protocol, args }) => {
                self.out.u8(1);
                self.command(*db, *protocol, *args);
            }
            InPlaceStep::Install(effects) => {
                self.out.u8(2);
                self.effects(effects);
            }
        }
    }

    pub(super) fn lock(&mut self, lock: &Lock<'_>) {
        self.head(lock.txn, lock.began, &lock.participants);
        self.out.bool(lock.is_whole);
        self.out.count(lock.keys.len());
        for (db, key, alone) in &lock.keys {
            self.out.raw(&[db.number(), u8::from(*alone)]);
            self.out.bytes(key);
        }
    }

    pub(super) fn resolve(&mut self, resolve: &Resolve) {
        self.out.list(&resolve.decisions, |out, &(txn, is_committed)| {
            write_txn(out, txn);
            out.bool(is_committed);
        });
    }

    pub(super) fn forget(&mut self, forget: &Forget) {
        write_gateway(&mut self.out, forget.coordinator);
        self.out.u64(forget.low);
        self.out.list(&forget.over, |out, &(seq, attempt)| {
            out.u64(seq);
            out.u32(attempt);
        });
    }

    fn head(&mut self, txn: TxnId, began: UnixMillis, participants: &[Participant]) {
        write_txn(&mut self.out, txn);
        self.out.i64(began.0);
        write_participants(&mut self.out, participants);
    }
}

pub(super) fn read_prepare<'a>(
    reader: &mut Reader<'a>,
    spans: &mut Vec<Span>,
) -> Result<PrepareView<'a>, DecodeError> {
    let (txn, began, participants) = read_head(reader)?;
    let (conditions, expects) = (read_conditions(reader)?, read_conditions(reader)?);
    let work = match reader.u8()? {
        1 => WorkView::Evaluate {
            is_strict: reader.bool()?,
            commands: read_commands(reader, spans)?,
        },
        2 => {
            let after_lock = reader.bool()?;
            let effects = read_effects(reader)?;
            let result = reader.option(KeptResult::decode)?;
            WorkView::Install {
                effects,
                after_lock,
                result,
            }
        }
        3 => {
            let after_lock = reader.bool()?;
            let steps = reader.list(1 + COUNT_BYTES, |reader| match reader.u8()? {
                1 => Ok(StepView::Run(read_command(reader, spans)?)),
                2 => Ok(StepView::Install(read_effects(reader)?)),
                _ => Err(reader.unknown("a step")),
            })?;
            WorkView::InPlace { steps, after_lock }
        }
        4 => {
            let (db, pairs) = (read_db(reader)?, reader.bytes()?);
            Pairs::read(pairs)?;
            WorkView::Put { db, pairs }
        }
        5 => WorkView::Move(PartitionStep::decode(reader)?),
        _ => return Err(reader.unknown("work")),
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
pub(super) fn read_effects_of_prepare(reader: &mut Reader<'_>) -> Result<Option<usize>, DecodeError> {
    if reader.u8()? != super::PREPARE_TAG {
        return Ok(None);
    }
    read_head(reader)?;
    read_conditions(reader)?;
    read_conditions(reader)?;
    if reader.u8()? != 2 {
        return Ok(None);
    }
    reader.bool()?;
    Ok(Some(reader.u32()? as usize))
}

pub(super) fn read_lock<'a>(reader: &mut Reader<'a>) -> Result<Lock<'a>, DecodeError> {
    let (txn, began, participants) = read_head(reader)?;
    let is_whole = reader.bool()?;
    let keys = reader.list(2 + COUNT_BYTES, |reader| {
        let (db, alone) = (read_db(reader)?, reader.bool()?);
        Ok((db, reader.bytes()?, alone))
    })?;
    Ok(Lock {
        txn,
        began,
        participants,
        is_whole,
        keys,
    })
}

pub(super) fn read_resolve(reader: &mut Reader<'_>) -> Result<Resolve, DecodeError> {
    let decisions = reader.list(8 + 2 + 8 + 4 + 1, |reader| {
        Ok((read_txn(reader)?, reader.bool()?))
    })?;
    Ok(Resolve { decisions })
}

pub(super) fn read_forget(reader: &mut Reader<'_>) -> Result<Forget, DecodeError> {
    Ok(Forget {
        coordinator: read_gateway(reader)?,
        low: reader.u64()?,
        over: reader.list(8 + 4, |reader| Ok((reader.u64()?, reader.u32()?)))?,
    })
}

fn read_head(reader: &mut Reader<'_>) -> Result<(TxnId, UnixMillis, Participants), DecodeError> {
    let txn = read_txn(reader)?;
    let began = UnixMillis(reader.i64()?);
    Ok((txn, began, read_participants(reader)?))
}
