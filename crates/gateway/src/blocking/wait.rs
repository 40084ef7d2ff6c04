//! `WAIT` and `WAITAOF`: clients that wait until replicas hold what was acknowledged, in memory or on disk.
//!
//! Every acknowledged write is held by a majority of its group's voters, so the layout answers at once how many replicas
//! that are beside the leader's. While they are fewer than the client asks for, it is *blocked* as in Redis: until a later
//! layout has more voters, its time is over, `CLIENT UNBLOCK` names it, or its connection ends. Inside `MULTI` nobody is
//! blocked.
//!
//! What is on disk is asked of every node, which has its logs synced for it (`synced.rs`); again after [`SYNC_AGAIN`] while somebody wants
//! more. One sync serves all who had come before it was asked for.

use crate::chores::nothing_to_save_to;
use crate::commands::server::writes;
use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::synced::SyncedCounts;
use command::{ReplyError, Spec, number};
use ids::Monotonic;
use replica::{Operation, ReplyTo};
use resp::{Args, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NANOS_OF_MILLI: u64 = 1_000_000;

/// How long after a sync that was not enough for somebody there is another one.
const SYNC_AGAIN: Duration = Duration::from_millis(20);

/// The clients of this worker that wait for replicas. Bounded by its clients: each is blocked at most once.
#[derive(Default)]
pub(crate) struct ReplicaWaits {
    /// By the token of their connection.
    waits: BTreeMap<u64, ReplicaWait>,
    /// When they have waited long enough, in nanoseconds of the clock that commands are timed by, with their tokens.
    deadlines: BTreeSet<(u64, u64)>,
    /// Those of the clients that wait for syncs: none of them is served by one that was asked for before it came.
    syncs: Syncs,
}

/// Syncs of all nodes, one after the other.
#[derive(Default)]
struct Syncs {
    /// How many were asked for.
    asked: u64,
    is_under_way: bool,
    /// When the next one may be asked for.
    again_at: Monotonic,
}

/// What a client waits for.
#[derive(Clone, Copy)]
enum Wanted {
    /// So many replicas beside the leader's.
    Replicas(i64),
    /// So many that have it on disk; and how many are known to have, by syncs behind this one.
    Synced {
        wanted: SyncedCounts,
        known: SyncedCounts,
        behind: u64,
    },
}

impl Wanted {
    /// Whether it waits for syncs.
    fn is_synced(&self) -> bool {
        matches!(self, Wanted::Synced { .. })
    }
}

struct ReplicaWait {
    reply_to: ReplyTo,
    /// Its number, as `CLIENT ID` tells it.
    client: u64,
    wanted: Wanted,
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

/// What is to be on disk, and for how many milliseconds that is waited for; 0 is for ever.
fn parse_aof(cx: &Context, args: Args<'_>) -> Result<(SyncedCounts, u64), ReplyError> {
    let here = number::parse_i64(args.arg(1)).ok_or(ReplyError::NotAnInteger)?;
    if !(0..=1).contains(&here) {
        return Err(ReplyError::Fixed(
            "ERR value is out of range, value must between 0 and 1",
        ));
    }
    let elsewhere = number::parse_i64(args.arg(2)).ok_or(ReplyError::NotAnInteger)?;
    if elsewhere < 0 {
        return Err(ReplyError::Fixed("ERR value is out of range, must be positive"));
    }
    let timeout = number::parse_i64(args.arg(3)).ok_or(ReplyError::TimeoutNotAnInteger)?;
    let timeout = u64::try_from(timeout).map_err(|_| ReplyError::TimeoutNegative)?;
    match here + elsewhere > 0 && !writes(cx) {
        true => Err(nothing_to_save_to(cx)),
        false => Ok((SyncedCounts { here, elsewhere }, timeout)),
    }
}

fn write_synced(counts: SyncedCounts, w: &mut ReplyWriter<'_>) {
    w.array(2);
    w.integer(counts.here);
    w.integer(counts.elsewhere);
}

impl ReplicaWaits {
    /// `WAITAOF` outside of `MULTI`.
    pub(crate) fn on_wait_aof(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        let (wanted, timeout) = match parse_aof(cx, args) {
            Ok(parsed) => parsed,
            Err(error) => return error.write(&mut connection.writer()),
        };
        if !writes(cx) {
            return write_synced(SyncedCounts::default(), &mut connection.writer());
        }
        // Also who wants nothing is told what there is.
        let wanted = Wanted::Synced {
            wanted,
            known: SyncedCounts::default(),
            behind: self.syncs.asked,
        };
        self.block(cx, connection, (spec, args), wanted, timeout);
    }

    /// `WAITAOF` inside `MULTI`: nobody waits, and nothing is known.
    pub(crate) fn aof_at_once(
        cx: &Context,
        args: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) -> Result<(), ReplyError> {
        parse_aof(cx, args)?;
        write_synced(SyncedCounts::default(), w);
        Ok(())
    }

    /// Whether a sync is to be asked for: it is under way from then on.
    pub(crate) fn wants_sync(&mut self, now: Monotonic) -> bool {
        if self.waits.is_empty() || self.syncs.is_under_way || now < self.syncs.again_at {
            return false;
        }
        let is_wanted = self.waits.values().any(|wait| wait.wanted.is_synced());
        if is_wanted {
            self.syncs.asked += 1;
            self.syncs.is_under_way = true;
        }
        is_wanted
    }

    /// The sync that was asked for has ended.
    pub(crate) fn on_synced(&mut self, cx: &mut Context, counts: SyncedCounts) {
        self.syncs.is_under_way = false;
        let mut ended = Vec::new();
        let mut has_new = false;
        for (token, wait) in &mut self.waits {
            let Wanted::Synced {
                wanted,
                known,
                behind,
            } = &mut wait.wanted
            else {
                continue;
            };
            if *behind >= self.syncs.asked {
                has_new = true;
                continue;
            }
            // What is on disk stays there.
            known.here = known.here.max(counts.here);
            known.elsewhere = known.elsewhere.max(counts.elsewhere);
            if known.here >= wanted.here && known.elsewhere >= wanted.elsewhere {
                ended.push(*token);
            }
        }
        self.syncs.again_at = match has_new {
            true => cx.now,
            false => cx.now.after(SYNC_AGAIN),
        };
        for token in ended {
            self.end(cx, token, None);
        }
    }

    fn block(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        (spec, args): (&'static Spec, Args<'_>),
        wanted: Wanted,
        timeout: u64,
    ) {
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
            wanted,
            deadline,
            operation: connection.session.operation(spec, args),
            spent,
        };
        self.waits.insert(token, wait);
    }

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
        self.block(cx, connection, (spec, args), Wanted::Replicas(replicas), timeout);
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
            .filter(|(_, wait)| matches!(wait.wanted, Wanted::Replicas(wanted) if wanted <= beside))
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
            let mut w = ReplyWriter::new(&mut reply, wait.operation.protocol);
            match wait.wanted {
                Wanted::Replicas(_) => w.integer(beside.into()),
                Wanted::Synced { known, .. } => write_synced(known, &mut w),
            }
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
