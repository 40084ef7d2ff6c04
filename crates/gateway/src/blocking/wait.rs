//! `WAIT`: clients that wait until replicas hold what was acknowledged.
//!
//! Every acknowledged write is held by a majority of its group's voters, so the layout answers at once how many replicas
//! that are beside the leader's. While they are fewer than the client asks for, it is *blocked* as in Redis: until a later
//! layout has more voters, its time is over, `CLIENT UNBLOCK` names it, or its connection ends. Inside `MULTI` nobody is
//! blocked.

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use command::{ReplyError, Spec, number};
use replica::{Operation, ReplyTo};
use resp::{Args, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};

const NANOS_OF_MILLI: u64 = 1_000_000;

/// The clients of this worker that wait for replicas. Bounded by its clients: each is blocked at most once.
#[derive(Default)]
pub(crate) struct ReplicaWaits {
    /// By the token of their connection.
    waits: BTreeMap<u64, ReplicaWait>,
    /// When they have waited long enough, in nanoseconds of the clock that commands are timed by, with their tokens.
    deadlines: BTreeSet<(u64, u64)>,
}

struct ReplicaWait {
    reply_to: ReplyTo,
    /// Its number, as `CLIENT ID` tells it.
    client: u64,
    /// How many replicas it waits for.
    replicas: i64,
    deadline: Option<u64>,
    operation: Operation,
    /// Nanoseconds of work for its command: the wait is none.
    spent: u64,
}

impl ReplicaWaits {
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }

    /// When the first wait ends.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    fn remove(&mut self, token: u64) -> Option<ReplicaWait> {
        let wait = self.waits.remove(&token)?;
        if let Some(deadline) = wait.deadline {
            self.deadlines.remove(&(deadline, token));
        }
        Some(wait)
    }
}

/// How many replicas are waited for, and for how many milliseconds; 0 is for ever.
fn parse(args: Args<'_>) -> Result<(i64, u64), ReplyError> {
    let replicas = number::parse_i64(args.arg(1)).ok_or(ReplyError::NotAnInteger)?;
    let timeout = number::parse_i64(args.arg(2)).ok_or(ReplyError::TimeoutNotAnInteger)?;
    let timeout = u64::try_from(timeout).map_err(|_| ReplyError::TimeoutNegative)?;
    Ok((replicas, timeout))
}

impl ReplicaWaits {
    /// `WAIT` outside of `MULTI`.
    pub(crate) fn on_wait(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        let beside = cx.view.replicas_beside();
        let (replicas, timeout) = match parse(args) {
            Ok((replicas, timeout)) if replicas > i64::from(beside) => (replicas, timeout),
            Ok(_) => return connection.writer().integer(beside.into()),
            Err(error) => return error.write(&mut connection.writer()),
        };
        let reply_to = cx.reserve(connection);
        connection.session.in_flight.is_waiting = true;
        connection.session.info.set_blocked(true);
        let spent = cx.postpone_time();
        let nanos = timeout.saturating_mul(NANOS_OF_MILLI);
        let deadline = (timeout > 0).then(|| cx.timing.now().saturating_add(nanos));
        let token = reply_to.connection;
        self.deadlines.extend(deadline.map(|deadline| (deadline, token)));
        let wait = ReplicaWait {
            reply_to,
            client: connection.session.info.id,
            replicas,
            deadline,
            operation: connection.session.operation(spec, args),
            spent,
        };
        self.waits.insert(token, wait);
    }

    /// `WAIT` inside `MULTI`: nobody waits.
    pub(crate) fn at_once(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
        parse(args)?;
        w.integer(cx.view.replicas_beside().into());
        Ok(())
    }

    /// Lets those go on for whom there are replicas enough now: the layout is a new one.
    pub(crate) fn on_layout(&mut self, cx: &mut Context) {
        let beside = cx.view.replicas_beside().into();
        let waits = self.waits.iter();
        let ended: Vec<u64> = waits
            .filter(|(_, wait)| wait.replicas <= beside)
            .map(|(&token, _)| token)
            .collect();
        for token in ended {
            self.end(cx, token, None);
        }
    }

    /// Lets those go on whose time is over.
    pub(crate) fn end_late(&mut self, cx: &mut Context) {
        let now = cx.timing.now();
        while let Some(&(deadline, token)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.end(cx, token, None);
        }
    }

    /// `CLIENT UNBLOCK`, for a client of this worker, if it waits for replicas.
    pub(crate) fn unblock(&mut self, cx: &mut Context, client: u64, ending: Option<Vec<u8>>) {
        let mut waits = self.waits.iter();
        if let Some((&token, _)) = waits.find(|(_, wait)| wait.client == client) {
            self.end(cx, token, ending);
        }
    }

    /// The connection ends, or its client sends no more. Whether it waited for replicas.
    pub(crate) fn forget(&mut self, connection: u64) -> bool {
        self.remove(connection).is_some()
    }

    /// Answers with how many replicas there are, or with `ending`.
    fn end(&mut self, cx: &mut Context, token: u64, ending: Option<Vec<u8>>) {
        let Some(wait) = self.remove(token) else {
            return;
        };
        let beside = cx.view.replicas_beside();
        let bytes = ending.unwrap_or_else(|| {
            let mut reply = Vec::new();
            ReplyWriter::new(&mut reply, wait.operation.protocol).integer(beside.into());
            reply
        });
        cx.deliver(Delivery::Unblocked {
            reply_to: wait.reply_to,
            operation: wait.operation,
            nanos: wait.spent,
            bytes,
        });
    }
}
