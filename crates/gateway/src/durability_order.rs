//! `CONFIG SET durability`, and what Redis calls it: an order to the whole cluster, answered when all nodes have followed it.
//!
//! ```text
//!   client --> worker --Wish--> the meta group: the map says it from here on
//!                     --Fanout--> a worker of each other node --Chore--> its workers, and those here:
//!              all answers <----  what the node says of itself is what was ordered
//! ```
//!
//! The driver carries it out, worker by worker, and says so of the node ([`Shared::take_durability`]) when whatever the node acknowledges,
//! and has acknowledged, is kept as the mode demands. Until all have said so nobody may rely on a stronger mode.
//!
//! [`Shared::take_durability`]: crate::Shared::take_durability

use crate::chores::{self, Chore, ChoreFailure};
use crate::commands::config::{not_set, pairs_of};
use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::fanout::{Fanout, Purpose, Whom, Wish};
use command::ReplyError;
use ids::{DurabilityMode, Epoch, Monotonic};
use options::{DurabilityChoice, Settings};
use replica::{Replica, ReplyTo};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};
use std::collections::BTreeMap;

/// The option, as the meta group and the nodes are told it.
const NAME: &str = "durability";

const NO_CLUSTER: ReplyError = ReplyError::Fixed(
    "ERR CONFIG SET failed (possibly related to argument 'durability') - a node without a peer port has no durability but memory: \
     start it with --peer-port",
);

const NOT_HEARD: &str =
    "UNKNOWN the meta group has not answered: whether the durability will be another one is not known";

/// Orders that the meta group has been told of, and their clients.
#[derive(Default)]
pub(crate) struct DurabilityOrders {
    open: BTreeMap<(u64, u64), (DurabilityMode, Protocol)>,
}

/// The mode of a setting.
pub(crate) fn mode_of(choice: DurabilityChoice) -> DurabilityMode {
    match choice {
        DurabilityChoice::Memory => DurabilityMode::Memory,
        DurabilityChoice::Relaxed => DurabilityMode::Relaxed,
        DurabilityChoice::Strict => DurabilityMode::Strict,
    }
}

fn choice_of(mode: DurabilityMode) -> DurabilityChoice {
    match mode {
        DurabilityMode::Memory => DurabilityChoice::Memory,
        DurabilityMode::Relaxed => DurabilityChoice::Relaxed,
        DurabilityMode::Strict => DurabilityChoice::Strict,
    }
}

/// A `CONFIG SET`, outside of `MULTI`. `false` if it orders no other durability than there is: then nothing was done.
pub(crate) fn order(
    fanout: &mut Fanout,
    cx: &mut Context,
    connection: &mut Connection,
    args: Args<'_>,
) -> bool {
    let Ok(pairs) = pairs_of(args) else {
        return false;
    };
    // Beside what the map says; and what it says may be something that this node has not followed yet.
    let mut as_ordered = Settings::clone(&cx.settings);
    if let Some(layout) = cx.view.layout() {
        as_ordered.take_durability(choice_of(layout.ordered));
    }
    let wanted = match as_ordered.ordered_durability(&pairs) {
        Ok(None) => cx.settings.ordered_durability(&pairs),
        other => other,
    };
    let mode = match wanted {
        Ok(None) => return false,
        Ok(Some(_)) if cx.view.layout().is_none() => {
            NO_CLUSTER.write(&mut connection.writer());
            return true;
        }
        Ok(Some(wanted)) => mode_of(wanted),
        Err(error) => {
            not_set(error).write(&mut connection.writer());
            return true;
        }
    };
    let reply_to = cx.reserve(connection);
    connection.session.in_flight.is_waiting = true;
    let protocol = connection.session.protocol;
    fanout
        .durability_orders
        .open
        .insert(reply_to.place(), (mode, protocol));
    let id = fanout.note_question(cx, Whom::Meta, reply_to, Purpose::Durability);
    let settings = vec![(NAME.to_owned(), mode.name().to_owned())];
    fanout.wishes.push(Wish { id, settings });
    true
}

/// The meta group has spoken, or has not in time.
pub(crate) fn on_wish(fanout: &mut Fanout, cx: &mut Context, reply_to: ReplyTo, epoch: Option<u64>) {
    let open = fanout.durability_orders.open.remove(&reply_to.place());
    let (mode, protocol) = open.expect("an order is open as long as its question");
    let Some(epoch) = epoch else {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, protocol).error(NOT_HEARD);
        return cx.deliver(Delivery::Awaited { reply_to, bytes });
    };
    let words = ["CONFIG", "SET", NAME, mode.name(), &epoch.to_string()];
    let words = ArgsBuf::from_slices(words);
    let (asked, mut silent) = fanout.ask_nodes(cx, reply_to, Purpose::Durability, words.as_args());
    silent.extend(cx.view.nodes_down());
    chores::follow(
        fanout,
        cx,
        reply_to,
        (Chore::Follow(mode, Epoch(epoch)), protocol),
        asked,
        silent,
    );
}

/// The mode that another node asks to be told of, and the map's version that said it, if it asks that.
pub(crate) fn asked_by_node(args: Args<'_>) -> Option<(DurabilityMode, Epoch)> {
    let text = |at| std::str::from_utf8(args.get(at)?).ok();
    let name = text(2).filter(|_| args.len() == 5)?;
    let mode = DurabilityMode::of_name(text(3)?)?;
    let epoch = text(4)?.parse().ok()?;
    (name == NAME).then_some((mode, Epoch(epoch)))
}

/// A worker that waits until its node has followed.
pub(crate) struct Follower {
    pub(crate) reply_to: ReplyTo,
    mode: DurabilityMode,
    /// The version of the map that has said it first.
    epoch: Epoch,
    until: Monotonic,
    /// When that is over if a replica here has stopped.
    unless_stopped: Monotonic,
}

impl Follower {
    pub(crate) fn new(
        reply_to: ReplyTo,
        (mode, epoch): (DurabilityMode, Epoch),
        until: Monotonic,
        unless_stopped: Monotonic,
    ) -> Follower {
        Follower {
            reply_to,
            mode,
            epoch,
            until,
            unless_stopped,
        }
    }

    /// Whether its waiting is over, and how. What an earlier version of the map says is not about this order.
    pub(crate) fn outcome(&self, cx: &Context) -> Option<Result<(), ChoreFailure>> {
        let layout = cx.view.layout().filter(|layout| layout.epoch >= self.epoch);
        let mode = self.mode.name();
        if let Some(layout) = layout {
            if layout.ordered != self.mode {
                let why = format!("durability {mode} was followed by another order");
                return Some(Err(ChoreFailure::Told(why)));
            }
            if layout.durability == self.mode && mode_of(cx.settings.durability) == self.mode {
                return Some(Ok(()));
            }
        }
        // Only a log that begins needs the state of its replica.
        let begins_logs = self.mode.writes() && cx.settings.durability == DurabilityChoice::Memory;
        if begins_logs && cx.now >= self.unless_stopped {
            let mut members = cx.local.replicas.iter().filter_map(Replica::member);
            if let Some(stopped) = members.find(|member| member.is_stopped()) {
                return Some(Err(ChoreFailure::Stopped(stopped.group())));
            }
        }
        (cx.now >= self.until).then(|| {
            let why = "and not all nodes have followed in time: INFO persistence and the logs of the nodes say more";
            Err(ChoreFailure::Told(format!("durability is to be {mode}, {why}")))
        })
    }
}
