//! Clients that wait for keys of a group that has no replica on their node.
//!
//! ```text
//!   node without a replica                          node with one, where the leader is thought to be
//!   first client waits for a key  -------Await----> kept
//!   the line of the key is woken  <------Filled---- the key was filled, by an entry that is applied here
//!   nobody waits any more         -------Await----> forgotten
//! ```
//!
//! Whoever applies entries sees what is filled, so that it does not matter if that node leads no more. A node asks again
//! when it takes another one for the leader, or when the link broke: the other side forgets then. Whoever cannot keep a
//! key says so, and is asked again every [`POLL`]: each time the clients try their commands.

use super::Blocking;
use crate::context::Context;
use crate::outbox::Addressee;
use bytes::Bytes;
use ids::{GroupId, Monotonic, NodeId};
use peer_wire::{Await, Filled, PeerMessage};
use replica::FullKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys of one group that are kept for other nodes, each node's counted. At the limit the node that asks polls.
const KEPT_MAX: usize = 8_192;

/// Bytes of a key that is kept for another node. For a longer one the node that asks polls.
const KEPT_KEY_BYTES_MAX: usize = 4_096;

/// How often a key is asked for that nobody keeps.
const POLL: Duration = Duration::from_millis(100);

/// See the file's header.
#[derive(Default)]
pub(crate) struct Watches {
    /// Keys that clients here wait for, and when to ask for one again, if it is not kept. Bounded by the clients.
    wanted: BTreeMap<FullKey, Option<Monotonic>>,
    /// Who was asked for them.
    asked: Option<NodeId>,
    /// Who is to be told when a key is filled here.
    kept: BTreeMap<FullKey, BTreeSet<NodeId>>,
    kept_count: usize,
}

impl Watches {
    /// A link broke: who was behind it asks again, and is to be asked again.
    pub(crate) fn on_link_lost(&mut self, node: NodeId) -> usize {
        if self.asked == Some(node) {
            self.asked = None;
        }
        let before = self.kept_count;
        self.kept.retain(|_, nodes| {
            self.kept_count -= usize::from(nodes.remove(&node));
            !nodes.is_empty()
        });
        before - self.kept_count
    }

    fn keep(&mut self, key: FullKey, node: NodeId) -> bool {
        let is_new = self.kept.entry(key).or_default().insert(node);
        self.kept_count += usize::from(is_new);
        is_new
    }

    fn let_go(&mut self, key: &FullKey, node: NodeId) -> bool {
        let Some(nodes) = self.kept.get_mut(key) else {
            return false;
        };
        let was_there = nodes.remove(&node);
        if nodes.is_empty() {
            self.kept.remove(key);
        }
        self.kept_count -= usize::from(was_there);
        was_there
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.asked.is_none() && self.kept.is_empty()
    }
}

fn ask(group: GroupId, (db, key): &FullKey, is_on: bool) -> PeerMessage {
    PeerMessage::Await(Await {
        group,
        db: *db,
        is_on,
        key: Bytes::copy_from_slice(key),
    })
}

fn tell(group: GroupId, (db, key): &FullKey, is_kept: bool) -> PeerMessage {
    PeerMessage::Filled(Filled {
        group,
        db: *db,
        is_kept,
        key: Bytes::copy_from_slice(key),
    })
}

impl Blocking {
    /// The index of a group, if it is one of this worker's and there is a cluster.
    fn watched(&self, cx: &Context, group: GroupId) -> Option<usize> {
        cx.local.index(group).filter(|index| *index < self.watches.len())
    }

    /// The first client here waits for a key of a group, or the last one does not any more.
    pub(crate) fn watch_key(&mut self, cx: &mut Context, index: usize, key: &FullKey, is_on: bool) {
        let group = cx.local.replicas[index].group();
        let outbox = &mut cx.outbox.peer_messages;
        // Before there is a cluster there is nobody to ask.
        let Some(watches) = self.watches.get_mut(index) else {
            return;
        };
        if is_on {
            watches.wanted.insert(key.clone(), None);
        } else {
            watches.wanted.remove(key);
        }
        if let Some(node) = watches.asked {
            outbox.push((Addressee::Node(node), ask(group, key, is_on)));
        }
    }

    /// Time passes: whoever is to be asked is asked. `target` is where the group is thought to be led.
    pub(crate) fn tick_watches(&mut self, cx: &mut Context, index: usize, target: Option<NodeId>) {
        let now = cx.now;
        let is_replicated = cx.local.replicas[index].has_log();
        let group = cx.local.replicas[index].group();
        let outbox = &mut cx.outbox.peer_messages;
        let has_replica = cx.local.replicas[index].member().is_some();
        let holder = target.filter(|_| is_replicated && !has_replica);
        let watches = &mut self.watches[index];
        if watches.is_idle() {
            return;
        }
        if !has_replica && watches.kept_count > 0 {
            // It was here, and is not any more.
            for _ in 0..std::mem::take(&mut watches.kept_count) {
                cx.local.replicas[index].state_mut().await_keys(false);
                self.watchers -= 1;
            }
            for (key, nodes) in std::mem::take(&mut watches.kept) {
                outbox.extend(
                    nodes
                        .into_iter()
                        .map(|node| (Addressee::Node(node), tell(group, &key, false))),
                );
            }
        }
        let former = std::mem::replace(&mut watches.asked, holder);
        let is_other = former != holder;
        if let Some(former) = former.filter(|_| is_other) {
            outbox.extend(
                watches
                    .wanted
                    .keys()
                    .map(|key| (Addressee::Node(former), ask(group, key, false))),
            );
        }
        let Some(holder) = holder else {
            return;
        };
        for (key, again) in &mut watches.wanted {
            if is_other || again.is_some_and(|again| again <= now) {
                *again = None;
                outbox.push((Addressee::Node(holder), ask(group, key, true)));
            }
        }
        if is_other {
            let wanted: Vec<FullKey> = watches.wanted.keys().cloned().collect();
            // They may have been filled while nobody looked.
            self.wake_lines(cx, wanted);
        }
    }

    /// Clients of another node wait for a key of a group that has a replica here, or do not any more.
    pub(crate) fn on_peer_await(&mut self, cx: &mut Context, from: NodeId, waits: Await) {
        let Some(index) = self.watched(cx, waits.group) else {
            return;
        };
        let key: FullKey = (waits.db, Box::from(&waits.key[..]));
        let outbox = &mut cx.outbox.peer_messages;
        let watches = &mut self.watches[index];
        if !waits.is_on {
            if watches.let_go(&key, from) {
                cx.local.replicas[index].state_mut().await_keys(false);
                self.watchers -= 1;
            }
            return;
        }
        let has_room = watches.kept_count < KEPT_MAX && key.1.len() <= KEPT_KEY_BYTES_MAX;
        if cx.local.replicas[index].member().is_none() || !has_room {
            outbox.push((Addressee::Node(from), tell(waits.group, &key, false)));
        } else if watches.keep(key, from) {
            cx.local.replicas[index].state_mut().await_keys(true);
            self.watchers += 1;
        }
    }

    /// A key of a group without a replica here may have been filled.
    pub(crate) fn on_peer_filled(&mut self, cx: &mut Context, from: NodeId, filled: Filled) {
        let Some(index) = self.watched(cx, filled.group) else {
            return;
        };
        let key: FullKey = (filled.db, Box::from(&filled.key[..]));
        let again = cx.now.after(POLL);
        let watches = &mut self.watches[index];
        let is_asked = watches.asked == Some(from);
        let Some(awaited) = watches.wanted.get_mut(&key) else {
            return;
        };
        if !filled.is_kept && is_asked {
            *awaited = Some(again);
        }
        self.wake_lines(cx, vec![key]);
    }

    /// Tells other nodes which of the keys that they wait for were filled; with `is_any`, it may have been any.
    pub(crate) fn tell_watchers(&mut self, cx: &mut Context, index: usize, filled: &[FullKey], is_any: bool) {
        let group = cx.local.replicas[index].group();
        let outbox = &mut cx.outbox.peer_messages;
        let Some(watches) = self.watches.get(index) else {
            return;
        };
        let kept = &watches.kept;
        let mut say = |key: &FullKey, nodes: &BTreeSet<NodeId>| {
            outbox.extend(
                nodes
                    .iter()
                    .map(|&node| (Addressee::Node(node), tell(group, key, true))),
            );
        };
        if is_any {
            kept.iter().for_each(|(key, nodes)| say(key, nodes));
            return;
        }
        for key in filled {
            if let Some(nodes) = kept.get(key) {
                say(key, nodes);
            }
        }
    }

    /// The whole state of a group was replaced: any key may have been filled.
    pub(crate) fn all_filled(&mut self, cx: &mut Context, index: usize) {
        self.tell_watchers(cx, index, &[], true);
        let wanted = self.watches[index].wanted.keys().cloned().collect();
        self.wake_lines(cx, wanted);
    }

    /// A link broke.
    pub(crate) fn forget_watcher(&mut self, cx: &mut Context, index: usize, node: NodeId) {
        let gone = self.watches[index].on_link_lost(node);
        for _ in 0..gone {
            cx.local.replicas[index].state_mut().await_keys(false);
        }
        self.watchers -= gone;
    }
}
