//! A consumer group: how far it has read, and what its consumers have not acknowledged.
//!
//! Invariants:
//! 1. Every pending entry is in the set of its consumer, and nothing else is in one.
//! 2. `names` are the names of `consumers`.

use ids::{StreamId, UnixMillis};
use std::collections::{BTreeMap, BTreeSet};

/// About how many bytes a pending entry takes: its places in two trees, whose nodes are half to fully used.
const PENDING_BYTES: usize = 96;

/// About how many bytes a consumer takes beside its name, which is there twice.
const CONSUMER_BYTES: usize = 192;

/// About how many bytes a group takes beside its name.
const GROUP_BYTES: usize = 192;

/// See the file's header.
#[derive(Clone)]
pub(crate) struct Group {
    /// The highest id that was delivered.
    pub(crate) last_id: StreamId,
    /// How many entries the stream ever had up to that one; `None` if it is not known.
    pub(crate) entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<ConsumerNumber, Consumer>,
    names: BTreeMap<Box<[u8]>, ConsumerNumber>,
}

/// What a group calls a consumer: it says nothing, and need not be the same on other replicas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ConsumerNumber(u32);

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    /// For whom.
    pub(crate) consumer: ConsumerNumber,
    /// When it was delivered, for the last time.
    pub(crate) delivered_at: UnixMillis,
    /// How often.
    pub(crate) deliveries: u64,
}

/// One consumer.
#[derive(Clone)]
pub(crate) struct Consumer {
    /// Its name.
    pub(crate) name: Box<[u8]>,
    /// When it asked for something.
    pub(crate) seen_at: UnixMillis,
    /// When it got something, if it ever did.
    pub(crate) active_at: Option<UnixMillis>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// How many entries are pending for it.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The entries that are pending for it, from this id on.
    pub(crate) fn pending_from(&self, id: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(id..).copied()
    }
}

impl Group {
    pub(crate) fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group {
            last_id,
            entries_read,
            pending: BTreeMap::new(),
            consumers: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Says which invariant does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        let of_consumers = self
            .consumers
            .iter()
            .flat_map(|(number, consumer)| consumer.pending.iter().map(move |id| (*id, *number)));
        let of_consumers: BTreeMap<_, _> = of_consumers.collect();
        let here = self.pending.iter().map(|(id, pending)| (*id, pending.consumer));
        let counted: usize = self.consumers.values().map(Consumer::pending_len).sum();
        if counted != self.pending.len() || of_consumers != here.collect() {
            return Err("invariant 1: what is pending for consumers is not what is pending".to_owned());
        }
        let named = self
            .consumers
            .iter()
            .map(|(number, consumer)| (&consumer.name, number));
        match named.collect::<BTreeMap<_, _>>() == self.names.iter().collect() {
            true => Ok(()),
            false => Err("invariant 2: consumers and names differ".to_owned()),
        }
    }

    /// Bytes of memory of the group, which has this name.
    pub(crate) fn memory(&self, name: &[u8]) -> usize {
        GROUP_BYTES + name.len() + self.pending.len() * PENDING_BYTES + self.consumers.len() * CONSUMER_BYTES
    }

    /// How many entries are pending.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// What is pending, from this id on.
    pub(crate) fn pending_from(&self, id: StreamId) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        self.pending.range(id..).map(|(id, pending)| (*id, pending))
    }

    /// What is known of this entry, if it is pending.
    pub(crate) fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id).copied()
    }

    /// The consumers, by name.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = (ConsumerNumber, &Consumer)> {
        self.names
            .values()
            .map(|number| (*number, self.consumer(*number)))
    }

    /// How many there are.
    pub(crate) fn consumers_len(&self) -> usize {
        self.names.len()
    }

    /// The consumer of this number.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn consumer(&self, number: ConsumerNumber) -> &Consumer {
        self.consumers
            .get(&number)
            .expect("numbers are those of consumers that are there")
    }

    /// The number of the consumer of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.names.get(name).copied()
    }

    /// Adds a consumer, whose name is new.
    pub(crate) fn add_consumer(&mut self, name: &[u8], now: UnixMillis) -> ConsumerNumber {
        let highest = self.consumers.last_key_value().map(|(number, _)| number.0);
        let next = highest.map_or(Some(0), |highest| highest.checked_add(1));
        // After four billion that came and went while one stayed.
        let free = || (0..=u32::MAX).find(|number| !self.consumers.contains_key(&ConsumerNumber(*number)));
        let number = ConsumerNumber(next.or_else(free).expect("there is no room for so many"));
        let consumer = Consumer {
            name: name.into(),
            seen_at: now,
            active_at: None,
            pending: BTreeSet::new(),
        };
        self.names.insert(name.into(), number);
        self.consumers.insert(number, consumer);
        number
    }

    /// Removes a consumer with what is pending for it. How many entries that was; `None` if there is none of this name.
    pub(crate) fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers.remove(&number).expect("invariant 2");
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// A consumer asks for something.
    pub(crate) fn see(&mut self, number: ConsumerNumber, now: UnixMillis) {
        self.consumer_mut(number).seen_at = now;
    }

    /// A consumer gets something.
    pub(crate) fn activate(&mut self, number: ConsumerNumber, now: UnixMillis) {
        self.consumer_mut(number).active_at = Some(now);
    }

    fn consumer_mut(&mut self, number: ConsumerNumber) -> &mut Consumer {
        self.consumers
            .get_mut(&number)
            .expect("numbers are those of consumers that are there")
    }

    /// Sets when a consumer asked for something, and when it got something: as another replica has it.
    pub(crate) fn set_times(
        &mut self,
        number: ConsumerNumber,
        seen_at: UnixMillis,
        active_at: Option<UnixMillis>,
    ) {
        let consumer = self.consumer_mut(number);
        (consumer.seen_at, consumer.active_at) = (seen_at, active_at);
    }

    /// Makes an entry pending like this, for whomever it was before.
    pub(crate) fn set_pending(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        match before {
            Some(before) if before.consumer == pending.consumer => {}
            Some(before) => {
                self.consumer_mut(before.consumer).pending.remove(&id);
                self.consumer_mut(pending.consumer).pending.insert(id);
            }
            None => _ = self.consumer_mut(pending.consumer).pending.insert(id),
        }
    }

    /// An entry is not pending any more; whether it was.
    pub(crate) fn remove_pending(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        self.consumer_mut(pending.consumer).pending.remove(&id);
        true
    }

    /// An entry was delivered once more; whether it is pending.
    pub(crate) fn deliver_again(&mut self, id: StreamId, now: UnixMillis) -> bool {
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        pending.delivered_at = now;
        pending.deliveries = pending.deliveries.saturating_add(1);
        true
    }

    /// Drops about `budget` pending entries, and counts it down; `true` once none is left. Nobody sees the group any more.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 && self.pending.pop_first().is_some() {
            *budget -= 1;
        }
        while *budget > 0
            && let Some(mut last) = self.consumers.last_entry()
        {
            match last.get_mut().pending.pop_first() {
                Some(_) => {}
                None => _ = last.remove(),
            }
            *budget -= 1;
        }
        self.pending.is_empty() && self.consumers.is_empty()
    }
}
