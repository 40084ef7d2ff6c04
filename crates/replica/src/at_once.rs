//! Commands of a script that are carried out at once, one after the other, on the state of a group that is alone on its node: all of them,
//! or none.
//!
//! ```text
//!   begin_at_once --carry_out--> Done --carry_out--> Done ... end_at_once: they are as commands that a client has sent
//!                     \-> another way is to be found -------> take_back_at_once: nothing has happened
//! ```
//!
//! Nothing comes between, as all is done within one turn; so nothing is locked, and the keys' locks are only to be free. Where the group
//! has a log, the commands that write go into the open entry, as they are applied (`member/open_entry.rs`): a script is whole there,
//! since an entry is.

use crate::replica::Replica;
use crate::state::GroupState;
use crate::turn::Turn;
use command::{Command, Spec};
use ids::Db;
use keyspace::{BlockCommand, OperationsMark, Undo};
use resp::{Args, Protocol, ReplyWriter};
use txn::Locks;

/// See the file's header. Of one group.
pub struct AtOnce {
    pub(crate) undo: Undo,
    /// Where they begin in the open entry, if they have written to one.
    pub(crate) mark: Option<OperationsMark>,
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CarriedOut {
    /// It is answered.
    Done,
    /// A transaction holds what it names.
    Held,
    /// What it would change is too large to be kept.
    TooLarge,
    /// There is no room in the log.
    NoRoom,
}

/// A command all of whose keys are in one group.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Which command.
    pub spec: &'static Spec,
    /// The database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Name and arguments.
    pub args: Args<'a>,
    /// What they say.
    pub command: &'a Command<'a>,
}

impl Call<'_> {
    pub(crate) fn locks(&self) -> Locks {
        keyspace::locks_of([self.args])
    }

    /// As entries hold it.
    pub(crate) fn as_state(&self) -> BlockCommand<'_> {
        BlockCommand {
            db: self.db,
            protocol: self.protocol,
            args: self.args,
        }
    }

    /// Applies it in the entry that is open, if what it may change can be kept.
    pub(crate) fn apply(
        &self,
        state: &mut GroupState,
        run: &mut AtOnce,
        push: impl FnOnce(&BlockCommand<'_>),
        out: &mut ReplyWriter<'_>,
    ) -> CarriedOut {
        let (keyspace, local) = (&mut state.keyspace, &mut state.local);
        if !run
            .undo
            .keep(keyspace, self.db, self.spec, self.args, self.command)
        {
            return CarriedOut::TooLarge;
        }
        push(&self.as_state());
        keyspace.apply_command(self.db, self.command, local, out);
        CarriedOut::Done
    }
}

impl Replica {
    /// Whether commands may be carried out here at once that are to be done together: the group is alone, and where it has a log it is at
    /// rest.
    #[inline]
    pub fn may_run_at_once(&self) -> bool {
        !self.has_log() || self.may_apply_first()
    }

    /// Whether no transaction holds what these locks name, nor waits for it: of a group that runs commands at once.
    pub fn are_unheld(&self, locks: impl FnOnce() -> Locks) -> bool {
        match self.has_log() {
            true => self.state().are_unlocked(locks),
            false => self.is_free(locks),
        }
    }

    /// Begins commands that are to be done together: [`Replica::carry_out`].
    pub fn begin_at_once(&mut self, turn: &Turn) -> AtOnce {
        let state = self.state_mut();
        state.begin(turn);
        AtOnce {
            undo: Undo::begin(&state.local),
            mark: None,
        }
    }
}
