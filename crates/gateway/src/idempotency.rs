//! Requests that their clients have named (`CLIENT REQUEST`): carried out once, however often they come.
//!
//! ```text
//!  keys of one group       Once: looked up, carried out and kept by one entry
//!  of several              values are read and worked on here; the part of the group of the first key holds the result too,
//!                          and is refused if there is one already
//! ```
//!
//! The result lies in the group of the first key, and is found from any node. What a client has watched it cannot have watched
//! again before it sends the same request on another connection: the two do not go together.

use crate::program::{Item, Program, group_of_key};
use crate::session::Session;
use command::{CommandRoute, Flags, ReplyError, Spec};
use ids::{GroupId, Groups, HashSeed, RequestUuid};
use keyspace::{ClientRequest, KeptResult, RequestStanding};
use replica::{FullKey, Replies};
use resp::{Args, Protocol, ReplyWriter};

/// Which command of a connection has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Naming {
    /// None.
    #[default]
    Nothing,
    /// The one behind `CLIENT REQUEST`, which is being read.
    Following(RequestUuid),
    /// The one that is being read, or is read next.
    This(RequestUuid),
}

impl Naming {
    /// Moves on by one command.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        *self = match *self {
            Naming::Nothing | Naming::This(_) => Naming::Nothing,
            Naming::Following(id) => Naming::This(id),
        };
    }

    /// The name of the command that is being read, for whoever carries it out.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<RequestUuid> {
        let Naming::This(id) = *self else { return None };
        *self = Naming::Nothing;
        Some(id)
    }
}

/// `CLIENT REQUEST`.
pub(crate) fn name_request(
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let Some(id) = RequestUuid::parse(args.arg(2)) else {
        return Err(ReplyError::quoting(
            "ERR a request id is a UUID of version 7, such as 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            b"",
            "",
        ));
    };
    session.modes.naming = Naming::Following(id);
    w.ok();
    Ok(())
}

/// Why a command or a block cannot have a name.
fn refusal(specs: impl IntoIterator<Item = &'static Spec>) -> Option<&'static str> {
    let sees_whole = |spec: &Spec| matches!(spec.route, CommandRoute::Everywhere | CommandRoute::Scan);
    let specs: Vec<&Spec> = specs.into_iter().collect();
    let is_script = |spec: &&Spec| spec.route == CommandRoute::Script;
    if specs.iter().any(is_script) {
        return Some(SCRIPT);
    }
    specs.into_iter().any(sees_whole).then_some(WHOLE)
}

const SCRIPT: &str = "ERR a request id is not for scripts; nothing was done";

const WHOLE: &str = "ERR a request id is for commands on keys, not on the whole keyspace; nothing was done";
const BLOCKING: &str = "ERR a request id is for commands that do not wait; nothing was done";
const WATCHING: &str = "EXECABORT Transaction discarded because of: a request id and WATCH do not go together, as a retry \
                        watches other versions; CAS compares by itself";

/// Why a command that writes cannot have a name, if it cannot.
pub(crate) fn refusal_of(spec: &'static Spec) -> Option<&'static str> {
    let waits = spec.flags.contains(Flags::BLOCKING).then_some(BLOCKING);
    waits.or_else(|| refusal([spec]))
}

/// Gives an `EXEC` its name.
///
/// # Errors
/// It cannot have one.
pub(crate) fn name_block(
    session: &Session,
    program: &mut Program,
    id: RequestUuid,
) -> Result<(), &'static str> {
    let writes = |spec: &Spec| spec.flags.contains(Flags::WRITE) || spec.route == CommandRoute::Script;
    let specs = || program.operations().map(|operation| operation.spec);
    if !specs().any(writes) {
        return Ok(());
    }
    if !program.conditions.is_empty() {
        return Err(WATCHING);
    }
    if let Some(error) = refusal(specs()) {
        return Err(error);
    }
    program.request = Some(request_of(program, id, session.protocol));
    Ok(())
}

impl Program {
    /// Where the result of a named one is kept: the group of its first key.
    pub(crate) fn home(&self, groups: Groups) -> GroupId {
        let mut home = None;
        for operation in self.operations() {
            operation.keys(|key, _| home = home.or(Some(group_of_key(groups, key))));
        }
        // Named commands are on keys; one that names none is as good anywhere.
        home.unwrap_or(GroupId::new(0))
    }

    /// What a named one locks at home, while it is carried out over several groups.
    pub(crate) fn name_lock(&self, groups: Groups, group: GroupId) -> Option<FullKey> {
        let request = self.request.filter(|_| self.home(groups) == group)?;
        Some((ids::Db::default(), request.lock_key()))
    }

    /// What is kept in a group of a named one.
    pub(crate) fn result_in(&self, groups: Groups, group: GroupId, replies: &Replies) -> Option<KeptResult> {
        let request = self.request.filter(|_| self.home(groups) == group)?;
        Some(KeptResult {
            request,
            replies: replies.to_kept(),
        })
    }
}

pub(crate) fn request_of(program: &Program, id: RequestUuid, protocol: Protocol) -> ClientRequest {
    ClientRequest {
        id,
        digest: digest(program),
        protocol,
    }
}

/// A hash of all commands with their databases: the same on every node.
fn digest(program: &Program) -> u64 {
    let mut bytes = vec![u8::from(program.is_exec)];
    for item in program.items.iter() {
        let (db, args) = match item {
            Item::Operation(operation) => (operation.db.number(), &operation.args),
            Item::Connection(queued) => (u8::MAX, &queued.args),
        };
        bytes.push(db);
        for word in args.as_args().iter() {
            bytes.extend_from_slice(&(word.len() as u64).to_le_bytes());
            bytes.extend_from_slice(word);
        }
    }
    HashSeed([0, 0]).hash(&bytes).0
}

/// Why there is no result, in the client's words.
pub(crate) fn error_of(standing: RequestStanding) -> &'static str {
    match standing {
        RequestStanding::CarriedOut | RequestStanding::Forgotten => {
            "UNKNOWN this request id is older than the results that are kept: whether the request was carried out is not known"
        }
        RequestStanding::TooLarge => {
            "DONE the request was carried out before; its result is larger than 64 KiB, and was not kept"
        }
        RequestStanding::Ahead => {
            "ERR the time in this request id is more than 60 s ahead of the cluster's clock; nothing was done"
        }
        RequestStanding::Another => "ERR this request id was used for another request; nothing was done",
        RequestStanding::NewerProtocol => {
            "DONE the request was carried out before; its result is kept as RESP3: say HELLO 3, and send it again"
        }
    }
}
