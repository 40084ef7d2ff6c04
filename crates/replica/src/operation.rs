//! Commands that outlive the frame they came in.

use command::{KeyUse, ReplyError, Spec};
use ids::Db;
use keyspace::{Answers, BlockCommand, Effect, KeyVersion, RequestStanding, Scratch, Told};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};
use txn::{Locks, Mode, Vote};

/// A client's command, owned: it waits, travels to another worker, or is part of a transaction.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Which command.
    pub spec: &'static Spec,
    /// The connection's database when it was sent.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Name and arguments.
    pub args: ArgsBuf,
}

impl Operation {
    /// The typed command, or what the client did wrong.
    pub fn parse(&self) -> Result<command::Command<'_>, ReplyError> {
        let parse = self.spec.parse.expect("only commands on keys become operations");
        parse(self.args.as_args())
    }

    /// As entries hold it.
    pub fn as_state(&self) -> BlockCommand<'_> {
        BlockCommand {
            db: self.db,
            protocol: self.protocol,
            args: self.args.as_args(),
        }
    }

    /// Carries it out on a scratch.
    pub fn run_on(&self, scratch: &mut Scratch, replies: &mut Replies) {
        replies.push(self.protocol, |out| scratch.run(&self.as_state(), out));
    }

    /// Which command, and its words.
    pub fn argv(&self) -> (&'static Spec, Args<'_>) {
        (self.spec, self.args.as_args())
    }

    /// Calls `found` for every key of the command.
    pub fn keys(&self, mut found: impl FnMut(&[u8], KeyUse)) {
        let args = self.args.as_args();
        command::keys(self.spec, args, &mut |position, key_use| {
            found(args.arg(position), key_use)
        });
    }
}

/// What must hold for a transaction to be carried out.
#[derive(Clone, Debug)]
pub enum Condition {
    /// A watched key is as it was.
    Unchanged {
        /// Its database.
        db: Db,
        /// The key.
        key: Box<[u8]>,
        /// As `WATCH` saw it.
        version: KeyVersion,
    },
    /// A key of `MSETNX` is absent.
    Absent {
        /// Its database.
        db: Db,
        /// The key.
        key: Box<[u8]>,
    },
}

impl Condition {
    /// As entries hold it.
    pub(crate) fn as_state(&self) -> keyspace::ConditionView<'_> {
        match self {
            Condition::Unchanged { db, key, version } => keyspace::ConditionView::Unchanged {
                db: *db,
                key,
                version: *version,
            },
            Condition::Absent { db, key } => keyspace::ConditionView::Absent { db: *db, key },
        }
    }

    /// The key it is about.
    pub fn key(&self) -> &[u8] {
        match self {
            Condition::Unchanged { key, .. } | Condition::Absent { key, .. } => key,
        }
    }
}

/// A step of a transaction in one group, carried out when it is decided.
#[derive(Debug)]
pub enum Step {
    /// A command.
    Run(Operation),
    /// What others, computed by the coordinator, change between commands on the whole keyspace, and what is told of it.
    Install(Vec<Effect>),
}

/// As entries hold it; its effects are taken.
pub(crate) fn as_state(step: &mut Step) -> keyspace::InPlaceStep<'_> {
    match step {
        Step::Run(operation) => keyspace::InPlaceStep::Run(operation.as_state()),
        Step::Install(effects) => keyspace::InPlaceStep::Install(std::mem::take(effects)),
    }
}

/// As entries hold them.
pub(crate) fn as_conditions(conditions: &[Condition]) -> Vec<keyspace::ConditionView<'_>> {
    conditions.iter().map(Condition::as_state).collect()
}

/// The replies of several operations, one after another.
#[derive(Default, Debug)]
pub struct Replies {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Replies {
    /// Replies that were written elsewhere.
    pub fn of<'a>(replies: impl IntoIterator<Item = &'a [u8]>) -> Replies {
        let mut all = Replies::default();
        all.extend(replies);
        all
    }

    fn extend<'a>(&mut self, replies: impl IntoIterator<Item = &'a [u8]>) {
        for reply in replies {
            self.bytes.extend_from_slice(reply);
            self.ends.push(self.bytes.len());
        }
    }

    /// Adds the reply that `write` writes.
    pub fn push(&mut self, protocol: Protocol, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        write(&mut ReplyWriter::new(&mut self.bytes, protocol));
        self.ends.push(self.bytes.len());
    }

    /// What a group that is alone has answered.
    pub(crate) fn of_told(told: Told) -> Replies {
        if let Some(vote) = told.vote {
            return Replies::of([&[vote][..]]);
        }
        Replies {
            bytes: told.bytes,
            ends: told.ends.into_iter().map(|end| end as usize).collect(),
        }
    }

    /// The same, to a part of a transaction: the first reply is the vote.
    pub(crate) fn of_vote(told: Told) -> (Vote, Replies) {
        let Told {
            mut bytes,
            ends,
            vote,
            ..
        } = told;
        let code = vote.or(bytes.first().copied()).unwrap_or_default();
        let mut rest = Replies::default();
        if ends.len() > 1 {
            bytes.drain(..1);
            rest.bytes = bytes;
            rest.ends = ends[1..].iter().map(|end| *end as usize - 1).collect();
        }
        (Vote::of_code(code), rest)
    }

    /// Takes apart what [`Request::Once`](crate::Request::Once) is answered: the replies, if it was carried out.
    ///
    /// # Errors
    /// Why there are none.
    pub fn into_once(self) -> Result<Replies, RequestStanding> {
        let mut replies = self.iter();
        let code = replies.next().and_then(|first| first.first().copied());
        match code.and_then(RequestStanding::of_code) {
            Some(RequestStanding::CarriedOut) => Ok(Replies::of(replies)),
            Some(standing) => Err(standing),
            // No group answers so: what is not known cannot be told.
            None => Err(RequestStanding::Forgotten),
        }
    }

    /// To be kept.
    pub fn to_kept(&self) -> Vec<Box<[u8]>> {
        self.iter().map(Box::from).collect()
    }

    /// The replies in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }

    /// The first reply that is an error.
    pub fn first_error(&self) -> Option<&[u8]> {
        self.iter().find(|reply| reply.first() == Some(&b'-'))
    }

    /// All replies' bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// All replies' bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answers for Replies {
    fn answer(&mut self, protocol: Protocol, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        self.push(protocol, write);
    }
}

/// The databases in which operations may touch keys: their own, the targets of `COPY` and `MOVE`, and those that `SWAPDB`
/// exchanges.
pub fn databases<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Vec<Db> {
    keyspace::databases(operations.into_iter().map(Operation::as_state))
}

/// Locks that also keep the keys of conditions as they are.
pub fn with_conditions(locks: Locks, conditions: &[Condition]) -> Locks {
    match locks {
        Locks::Keys(mut keys) => {
            keys.extend(
                conditions
                    .iter()
                    .map(|condition| (condition.key().into(), Mode::Shared)),
            );
            Locks::of_keys(keys)
        }
        Locks::WholeGroup(mode) => Locks::WholeGroup(mode),
    }
}
