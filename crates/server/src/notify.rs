//! Keyspace notifications: what happened to keys, as messages to channels.
//!
//! A group notes its events beside its state while somebody may want to hear of them; whoever called the group takes
//! them at once and sends them. Those of a transaction become known only when it is committed.

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
        if !self.replicas[index].local().events.is_empty() {
            let events = self.replicas[index].take_events();
            self.tell_events(events);
        }
    }

    /// [`Gateway::tell`] for every group of this worker.
    pub(crate) fn tell_all(&mut self) {
        (0..self.replicas.len()).for_each(|index| self.tell(index));
    }

    /// Sends events.
    #[cold]
    pub(crate) fn tell_events(&mut self, events: Vec<Event>) {
        let mut channel = Vec::new();
        for Event { name, db, key, .. } in events {
            if self.notify.by_key {
                channel.clear();
                channel.extend_from_slice(format!("__keyspace@{}__:", db.number()).as_bytes());
                channel.extend_from_slice(&key);
                self.broadcast(Kind::Channel, &channel, name.as_bytes());
            }
            if self.notify.by_event {
                let channel = format!("__keyevent@{}__:{name}", db.number());
                self.broadcast(Kind::Channel, channel.as_bytes(), &key);
            }
        }
    }
}
