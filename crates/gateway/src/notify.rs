//! Keyspace notifications: what happened to keys, as messages to channels.
//!
//! A group notes its events beside its state while somebody may want to hear of them; whoever called the group takes
//! them at once and sends them. Those of a transaction become known only when it is committed.
//!
//! Where a group has several replicas, each tells the clients of its own node, as that node's setting says, when it applies
//! the entry. To nodes that have none, or one that is still being given the state, the leader sends messages, as its own node's
//! setting says.

use crate::gateway::Gateway;
use crate::pubsub::Kind;
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

impl Gateway {
    /// Sends what happened in a group of this worker during the call that was just made.
    #[inline]
    pub(crate) fn tell(&mut self, index: usize) {
        if !self.cx.local.replicas[index].local().events.is_empty() {
            self.cx.local.note_events(index);
            self.tell_noted();
        }
    }

    /// [`Gateway::tell`] for every group of this worker.
    pub(crate) fn tell_all(&mut self) {
        (0..self.cx.local.replicas.len()).for_each(|index| self.cx.local.note_events(index));
        self.tell_noted();
    }

    /// Sends what was noted to be told.
    #[inline]
    pub(crate) fn tell_noted(&mut self) {
        if !self.cx.local.events.is_empty() {
            for (index, events) in std::mem::take(&mut self.cx.local.events) {
                if !self.cx.local.replicas[index].has_log() {
                    self.tell_events(events);
                    continue;
                }
                let others = self.nodes_without_replica(index);
                self.send_events(events, |gateway, channel, message| {
                    gateway.on_node_message(Kind::Channel, channel, message);
                    gateway.send_to_nodes(&others, Kind::Channel, channel, message);
                });
            }
        }
    }

    /// Sends events that no other node knows of.
    #[cold]
    pub(crate) fn tell_events(&mut self, events: Vec<Event>) {
        self.send_events(events, |gateway, channel, message| {
            gateway.broadcast(Kind::Channel, channel, message)
        });
    }

    #[cold]
    fn send_events(&mut self, events: Vec<Event>, send: impl Fn(&mut Gateway, &[u8], &[u8])) {
        let mut channel = Vec::new();
        for Event { name, db, key, .. } in events {
            if self.pubsub.notify.by_key {
                channel.clear();
                channel.extend_from_slice(format!("__keyspace@{}__:", db.number()).as_bytes());
                channel.extend_from_slice(&key);
                send(self, &channel, name.as_bytes());
            }
            if self.pubsub.notify.by_event {
                let channel = format!("__keyevent@{}__:{name}", db.number());
                send(self, channel.as_bytes(), &key);
            }
        }
    }
}
