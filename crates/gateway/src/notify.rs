//! Keyspace notifications: what happened to keys, as messages to channels.
//!
//! A group notes its events beside its state while somebody may want to hear of them; whoever called the group takes
//! them at once and sends them. Those of a transaction become known only when it is committed.
//!
//! Where a group has several replicas, each tells the clients of its own node, as that node's setting says, when it applies
//! the entry. To nodes that have none, or one that is still being given the state, the leader sends messages, as its own node's
//! setting says.

use crate::context::Context;
use crate::pubsub::{PubSub, Published, SubscriptionKind, nodes_without_replica};
use keyspace::{Event, EventClasses};
use options::Settings;

/// What `notify-keyspace-events` asks for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notify {
    /// `K`: a channel for each key.
    by_key: bool,
    /// `E`: a channel for each event.
    by_event: bool,
    /// Which events; none if nobody could hear of them.
    pub(crate) classes: EventClasses,
}

impl Notify {
    pub(crate) fn new(settings: &Settings) -> Notify {
        let letters = &settings.notify_keyspace_events;
        let (by_key, by_event) = (letters.contains('K'), letters.contains('E'));
        let classes = if by_key || by_event {
            EventClasses::of_letters(letters)
        } else {
            EventClasses::default()
        };
        Notify {
            by_key,
            by_event,
            classes,
        }
    }
}

/// Sends what was noted to be told.
#[inline]
pub(crate) fn tell_noted(cx: &mut Context, pubsub: &mut PubSub) {
    if !cx.local.events.is_empty() {
        tell(cx, pubsub);
    }
}

#[cold]
fn tell(cx: &mut Context, pubsub: &mut PubSub) {
    let notify = pubsub.notify();
    let mut noted = std::mem::take(&mut cx.local.events);
    for (index, events) in noted.drain(..) {
        // Of what happens in a group that is alone here, no other node knows.
        let is_alone = !cx.local.replicas[index].has_log();
        let others = match is_alone {
            true => cx.view.nodes_up().collect(),
            false => nodes_without_replica(cx, index),
        };
        let mut send = |channel: &[u8], payload: &[u8]| {
            let kind = SubscriptionKind::Channel;
            let published = Published {
                kind,
                channel,
                payload,
            };
            pubsub.on_node_message(cx, published);
            published.send_to(cx, &others);
        };
        for Event { name, db, key, .. } in events {
            if notify.by_key {
                let channel = format!("__keyspace@{}__:", db.number());
                send(&[channel.as_bytes(), &key].concat(), name.as_bytes());
            }
            if notify.by_event {
                let channel = format!("__keyevent@{}__:{name}", db.number());
                send(channel.as_bytes(), &key);
            }
        }
    }
    cx.local.events = noted;
}
