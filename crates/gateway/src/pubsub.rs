//! Who listens to what, and how messages reach them.
//!
//! Each worker knows the subscriptions of its own connections, and nobody else looks at them: a message goes once to
//! every worker that has any, in a mailbox batch, and each hands it to its own connections. So the messages of one publisher
//! to one channel keep their order. What must be known of the whole node at once (`PUBSUB`, `PUBLISH` inside `EXEC`)
//! stands in [`Subscriptions`], which is touched when subscriptions change and by those who ask, never by a message.
//!
//! ```text
//!  PUBLISH --+-- own connections: a delivery, written when the command is over
//!            +-- Broadcast --> other worker: to its connections; Received --> PUBLISH is answered with the sum
//! ```
//!
//! Memory: the name of a channel is kept once for all who listen on one worker, and a place of a few words for each
//! of them; all of it counts as memory in use. A connection may have [`Session::SUBSCRIPTIONS_MAX`] subscriptions.

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::fanout::{Fanout, Purpose};
use crate::gather::Gather;
use crate::message::Message;
use crate::notify::Notify;
use crate::patterns::Patterns;
use crate::session::Session;
use crate::shared::held;
use bytes::Bytes;
use command::glob::Glob;
use command::{CommandId, ReplyError, Spec};
use ids::NodeId;
use keyspace::EventClasses;
use options::{OutputLimit, Settings};
use peer_wire::{ChannelKind, PeerMessage, Publish};
use replica::ReplyTo;
use resp::{Args, Protocol, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    /// A channel.
    Channel,
    /// A pattern of channels.
    Pattern,
    /// A shard channel: channels of another space of names, which patterns do not reach.
    ShardChannel,
}

impl SubscriptionKind {
    const ALL: [SubscriptionKind; 3] = [
        SubscriptionKind::Channel,
        SubscriptionKind::Pattern,
        SubscriptionKind::ShardChannel,
    ];

    fn index(self) -> usize {
        self as usize
    }

    /// The words of the replies to subscribing and to leaving.
    fn words(self) -> [&'static str; 2] {
        match self {
            SubscriptionKind::Channel => ["subscribe", "unsubscribe"],
            SubscriptionKind::Pattern => ["psubscribe", "punsubscribe"],
            SubscriptionKind::ShardChannel => ["ssubscribe", "sunsubscribe"],
        }
    }
}

type Name = Arc<[u8]>;

/// A message to a channel.
#[derive(Clone, Copy)]
pub(crate) struct Published<'a> {
    pub(crate) kind: SubscriptionKind,
    pub(crate) channel: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Published<'a> {
    /// What `PUBLISH` or `SPUBLISH` sends.
    pub(crate) fn by(kind: SubscriptionKind, args: Args<'a>) -> Published<'a> {
        Published {
            kind,
            channel: args.arg(1),
            payload: args.arg(2),
        }
    }

    fn send_to_workers(self, cx: &mut Context, workers: &[u16], reply_to: Option<ReplyTo>) {
        for &worker in workers {
            cx.mailbox_batch(worker)
                .push_broadcast(reply_to, self.kind, self.channel, self.payload);
        }
    }

    /// Sends it to these nodes: who listens there is their business.
    pub(crate) fn send_to(self, cx: &mut Context, nodes: &[NodeId]) {
        if nodes.is_empty() {
            return;
        }
        let publish = Publish {
            kind: match self.kind {
                SubscriptionKind::ShardChannel => ChannelKind::ShardChannel,
                SubscriptionKind::Channel | SubscriptionKind::Pattern => ChannelKind::Channel,
            },
            channel: Bytes::copy_from_slice(self.channel),
            payload: Bytes::copy_from_slice(self.payload),
        };
        for &node in nodes {
            cx.send_to_node(node, PeerMessage::Publish(publish.clone()));
        }
    }
}

/// How many connections of the node listen to each name. Locked when subscriptions change, and by those who ask.
#[derive(Default)]
pub struct Subscriptions {
    counts: [Mutex<BTreeMap<Name, u64>>; 3],
    /// Those that are patterns. Locked after their counts.
    patterns: Mutex<Patterns>,
}

impl Subscriptions {
    /// Names of a kind that anybody listens to.
    pub fn names(&self, kind: SubscriptionKind) -> usize {
        self.lock(kind).len()
    }

    pub(crate) fn lock(&self, kind: SubscriptionKind) -> MutexGuard<'_, BTreeMap<Name, u64>> {
        held(&self.counts[kind.index()])
    }

    /// The connections that a message to a channel reaches.
    pub(crate) fn receivers(&self, kind: SubscriptionKind, channel: &[u8]) -> u64 {
        let direct = self.lock(kind).get(channel).copied().unwrap_or(0);
        if kind != SubscriptionKind::Channel {
            return direct;
        }
        let counts = self.lock(SubscriptionKind::Pattern);
        let (matching, _) = self.patterns().matching(channel);
        direct + matching.iter().filter_map(|name| counts.get(name)).sum::<u64>()
    }

    fn patterns(&self) -> MutexGuard<'_, Patterns> {
        held(&self.patterns)
    }

    fn join(&self, kind: SubscriptionKind, name: &Name) {
        let mut counts = self.lock(kind);
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 && kind == SubscriptionKind::Pattern {
            self.patterns().insert(name.clone());
        }
    }

    fn leave(&self, kind: SubscriptionKind, name: &[u8]) {
        let mut counts = self.lock(kind);
        if let Some(count) = counts.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(name);
                if kind == SubscriptionKind::Pattern {
                    self.patterns().remove(name);
                }
            }
        }
    }
}

/// What one connection listens to.
#[derive(Default)]
pub(crate) struct Listening {
    names: [BTreeSet<Name>; 3],
    /// `MONITOR`.
    pub(crate) is_monitor: bool,
}

impl Listening {
    fn is_empty(&self) -> bool {
        !self.is_monitor && self.names.iter().all(BTreeSet::is_empty)
    }

    fn total(&self) -> usize {
        self.names.iter().map(BTreeSet::len).sum()
    }

    /// The count in a reply: shard channels are counted by themselves, channels and patterns together.
    fn shown(&self, kind: SubscriptionKind) -> usize {
        let of = |kind: SubscriptionKind| self.names[kind.index()].len();
        match kind {
            SubscriptionKind::ShardChannel => of(kind),
            SubscriptionKind::Channel | SubscriptionKind::Pattern => {
                of(SubscriptionKind::Channel) + of(SubscriptionKind::Pattern)
            }
        }
    }
}

/// Connections in the order of their tokens. Shared with the messages on their way to them.
pub(crate) type Listeners = Arc<Vec<u64>>;

/// The subscriptions of one worker's connections.
#[derive(Default)]
pub(crate) struct PubSub {
    listeners: [BTreeMap<Name, Listeners>; 3],
    monitors: Listeners,
    patterns: Patterns,
    /// Patterns that channels were compared with since the start.
    compared: u64,
    /// Messages whose receivers at other workers are not all known yet: their sum so far.
    published: Gather<u64>,
    /// Keyspace notifications.
    notify: Notify,
}

impl PubSub {
    /// The settings are others. Which events are noted from here on.
    pub(crate) fn follow(&mut self, settings: &Settings) -> EventClasses {
        self.notify = Notify::new(settings);
        self.notify.classes
    }

    /// How keyspace events are told.
    pub(crate) fn notify(&self) -> Notify {
        self.notify
    }

    /// How many patterns channels were compared with since the start.
    #[inline]
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }

    /// The connections that monitor.
    pub(crate) fn monitors(&self) -> Listeners {
        self.monitors.clone()
    }

    /// Says whether a name is kept that nobody listens to, or a connection listens twice.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_kept = |listeners: &Listeners| !listeners.is_empty() && listeners.is_sorted_by(|a, b| a < b);
        let mut all = self.listeners.iter().flatten();
        match all.find(|(_, listeners)| !is_kept(listeners)) {
            None => self.published.check(),
            Some((name, listeners)) => Err(format!("{listeners:?} listen to {}", name.escape_ascii())),
        }
    }

    /// The name as it is kept, if somebody listens to it already.
    fn kept(&self, kind: SubscriptionKind, name: &[u8]) -> Name {
        let known = self.listeners[kind.index()].get_key_value(name);
        known.map_or_else(|| name.into(), |(kept, _)| kept.clone())
    }

    fn join(&mut self, kind: SubscriptionKind, name: &Name, token: u64) {
        let listeners = self.listeners[kind.index()].entry(name.clone()).or_default();
        if listeners.is_empty() && kind == SubscriptionKind::Pattern {
            self.patterns.insert(name.clone());
        }
        insert(listeners, token);
    }

    fn leave(&mut self, kind: SubscriptionKind, name: &[u8], token: u64) {
        let of_kind = &mut self.listeners[kind.index()];
        if let Some(listeners) = of_kind.get_mut(name) {
            remove(listeners, token);
            if listeners.is_empty() {
                of_kind.remove(name);
                if kind == SubscriptionKind::Pattern {
                    self.patterns.remove(name);
                }
            }
        }
    }
}

fn insert(listeners: &mut Listeners, token: u64) {
    if let Err(at) = listeners.binary_search(&token) {
        Arc::make_mut(listeners).insert(at, token);
    }
}

fn remove(listeners: &mut Listeners, token: u64) {
    if let Ok(at) = listeners.binary_search(&token) {
        Arc::make_mut(listeners).remove(at);
    }
}

impl Session {
    /// Channels, patterns and shard channels that one connection may listen to. At the limit the commands answer an
    /// error for each one more.
    pub const SUBSCRIPTIONS_MAX: usize = 1 << 20;

    /// Whether it listens to channels, patterns or shard channels.
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.listens(|listening| listening.total() > 0)
    }

    /// How much may wait for it to be read.
    pub fn output_limit(&self, settings: &Settings) -> OutputLimit {
        if self.is_subscribed() {
            settings.output_limits.pubsub
        } else {
            settings.output_limits.normal
        }
    }

    /// Whether something may be sent to it that it did not ask for now.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.listening.is_some()
    }

    /// Whether `MONITOR` is on.
    pub(crate) fn is_monitor(&self) -> bool {
        self.listens(|listening| listening.is_monitor)
    }

    #[inline]
    fn listens(&self, how: impl Fn(&Listening) -> bool) -> bool {
        self.listening.as_deref().is_some_and(how)
    }

    /// Why a connection that listens may not carry out a command, if so.
    pub(crate) fn refuses_while_listening(&self, spec: &Spec) -> Option<ReplyError> {
        if self.protocol == Protocol::Resp2 && self.is_subscribed() && !is_allowed_while_subscribed(spec.id) {
            let after =
                "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
            return Some(ReplyError::quoting(
                "ERR Can't execute '",
                spec.name.as_bytes(),
                after,
            ));
        }
        let is_on_keys = spec.route != command::CommandRoute::Connection;
        (self.is_monitor() && is_on_keys).then_some(ReplyError::MonitorOnKeys)
    }

    /// Shows `CLIENT LIST` what it listens to, and forgets that it ever did once it does not.
    pub(crate) fn note_listening(&mut self) {
        if self.listens(Listening::is_empty) {
            self.listening = None;
        }
        let listening = self.listening.as_deref();
        for (index, count) in self.info.subscriptions.iter().enumerate() {
            let len = listening.map_or(0, |listening| listening.names[index].len());
            count.store(len as u64, Ordering::Relaxed);
        }
        let is_monitor = listening.is_some_and(|listening| listening.is_monitor);
        self.info.is_monitor.store(is_monitor, Ordering::Relaxed);
    }
}

fn is_allowed_while_subscribed(id: CommandId) -> bool {
    matches!(id, CommandId::Ping | CommandId::Quit | CommandId::Reset) || changes_subscriptions(id)
}

/// Whether a command's replies are pushes: they are sent even where `CLIENT REPLY` is off.
pub(crate) fn changes_subscriptions(id: CommandId) -> bool {
    matches!(
        id,
        CommandId::Subscribe
            | CommandId::Unsubscribe
            | CommandId::PSubscribe
            | CommandId::PUnsubscribe
            | CommandId::SSubscribe
            | CommandId::SUnsubscribe
    )
}

/// Requests of one connection that may be answered elsewhere when it publishes one message more: what those who listen there
/// are compared with in one turn stays bounded, however many messages it sends ahead.
pub(crate) const PUBLISHED_MAX: usize = 32;

/// Whether a command sends a message.
pub(crate) fn is_publish(spec: &Spec) -> bool {
    matches!(spec.id, CommandId::Publish | CommandId::SPublish)
}

/// A message as it is sent: an array, which is made a push where the protocol has one.
fn frame(words: &[&[u8]]) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    let mut out = ReplyWriter::new(&mut bytes, Protocol::Resp2);
    out.array(words.len());
    words.iter().for_each(|word| out.bulk(word));
    bytes.into()
}

impl Connection {
    /// Writes a message that the client listens to, between its replies.
    pub fn hear(&mut self, message: &[u8]) {
        // It may have left, or been told to go, since the message was sent on its way.
        if !self.session.is_listening() || self.session.is_overrun || self.session.is_closing {
            return;
        }
        let out = self.pipeline.message_target();
        match message.split_first() {
            Some((b'*', rest)) if self.session.protocol == Protocol::Resp3 => {
                out.push(b'>');
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(message),
        }
    }
}

impl PubSub {
    /// `SUBSCRIBE`, `PSUBSCRIBE`, `SSUBSCRIBE`: one reply for each name.
    pub(crate) fn subscribe(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        kind: SubscriptionKind,
        names: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) {
        let token = session.token;
        let listening = session.listening.get_or_insert_default();
        for name in names.iter() {
            let is_new = !listening.names[kind.index()].contains(name);
            if is_new && listening.total() >= Session::SUBSCRIPTIONS_MAX {
                ReplyError::TooManySubscriptions.write(w);
                continue;
            }
            if is_new {
                let name = self.kept(kind, name);
                cx.shared.subscriptions.join(kind, &name);
                self.join(kind, &name, token);
                cx.stats.subscriptions.add(1);
                listening.names[kind.index()].insert(name);
            }
            changed(kind.words()[0], Some(name), listening.shown(kind), w);
        }
        session.note_listening();
    }

    /// `UNSUBSCRIBE`, `PUNSUBSCRIBE`, `SUNSUBSCRIBE`: one reply for each name, and one if there is none.
    pub(crate) fn unsubscribe(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        kind: SubscriptionKind,
        names: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) {
        let token = session.token;
        let mut none = Listening::default();
        let listening = session.listening.as_deref_mut().unwrap_or(&mut none);
        let word = kind.words()[1];
        if names.is_empty() {
            let all = std::mem::take(&mut listening.names[kind.index()]);
            if all.is_empty() {
                changed(word, None, listening.shown(kind), w);
            }
            let others = listening.shown(kind);
            for (left, name) in (0..all.len()).rev().zip(&all) {
                self.unlisten(cx, kind, name, token);
                changed(word, Some(name), left + others, w);
            }
        }
        for name in names.iter() {
            if listening.names[kind.index()].remove(name) {
                self.unlisten(cx, kind, name, token);
            }
            changed(word, Some(name), listening.shown(kind), w);
        }
        session.note_listening();
    }

    fn unlisten(&mut self, cx: &mut Context, kind: SubscriptionKind, name: &[u8], token: u64) {
        cx.shared.subscriptions.leave(kind, name);
        self.leave(kind, name, token);
        cx.stats
            .subscriptions
            .set(cx.stats.subscriptions.get().saturating_sub(1));
    }

    /// The connection listens to nothing any more: it is closed, or begins anew.
    pub(crate) fn stop_listening(&mut self, cx: &mut Context, session: &mut Session) {
        let Some(listening) = session.listening.take() else {
            return;
        };
        for kind in SubscriptionKind::ALL {
            for name in &listening.names[kind.index()] {
                self.unlisten(cx, kind, name, session.token);
            }
        }
        if listening.is_monitor {
            self.stop_monitoring(cx, session.token);
        }
        session.note_listening();
    }

    /// Adds a connection to the monitors.
    pub(crate) fn start_monitoring(&mut self, cx: &mut Context, session: &mut Session) {
        let listening = session.listening.get_or_insert_default();
        if !listening.is_monitor {
            listening.is_monitor = true;
            insert(&mut self.monitors, session.token);
            cx.stats.monitors.add(1);
            cx.shared.monitors.fetch_add(1, Ordering::SeqCst);
        }
        session.note_listening();
    }

    fn stop_monitoring(&mut self, cx: &mut Context, token: u64) {
        remove(&mut self.monitors, token);
        cx.stats.monitors.set(cx.stats.monitors.get().saturating_sub(1));
        cx.shared.monitors.fetch_sub(1, Ordering::SeqCst);
    }

    /// `PUBLISH`, `SPUBLISH`: answered at once if no other worker can have receivers, and there is no other node.
    pub(crate) fn on_publish(
        &mut self,
        cx: &mut Context,
        fanout: &mut Fanout,
        connection: &mut Connection,
        (kind, args): (SubscriptionKind, Args<'_>),
    ) {
        let published = Published::by(kind, args);
        let here = self.hand_out(cx, published);
        // Asked once: another worker's last listener may leave at any moment, and who is waited for must be who is asked.
        let workers = listening_workers(cx);
        if workers.is_empty() && cx.view.nodes_up().next().is_none() {
            return connection.writer().integer(here as i64);
        }
        let reply_to = cx.reserve(connection);
        let (nodes, not_asked) = fanout.ask_nodes(cx, reply_to, Purpose::Receivers, args);
        published.send_to(cx, &not_asked);
        let others = workers.len() + nodes;
        if others == 0 {
            return publish_done(cx, reply_to, here);
        }
        self.published.begin(reply_to, here, others);
        published.send_to_workers(cx, &workers, Some(reply_to));
    }

    /// `PUBLISH`, `SPUBLISH` inside `EXEC`, whose reply cannot wait: the receivers are counted by who listens now.
    pub(crate) fn publish_now(
        &mut self,
        cx: &mut Context,
        kind: SubscriptionKind,
        args: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) {
        let published = Published::by(kind, args);
        w.integer(cx.shared.subscriptions.receivers(kind, published.channel) as i64);
        self.on_node_message(cx, published);
        let up: Vec<NodeId> = cx.view.nodes_up().collect();
        published.send_to(cx, &up);
    }

    /// Hands a message to whoever listens on this node.
    pub(crate) fn on_node_message(&mut self, cx: &mut Context, published: Published<'_>) {
        self.hand_out(cx, published);
        let workers = listening_workers(cx);
        published.send_to_workers(cx, &workers, None);
    }

    /// Hands a message to the connections of this worker that listen. Returns how many.
    /// A message that another node sends.
    pub(crate) fn on_peer_publish(&mut self, cx: &mut Context, publish: &Publish) {
        let kind = match publish.kind {
            ChannelKind::Channel => SubscriptionKind::Channel,
            ChannelKind::ShardChannel => SubscriptionKind::ShardChannel,
        };
        let published = Published {
            kind,
            channel: &publish.channel,
            payload: &publish.payload,
        };
        self.on_node_message(cx, published);
    }

    fn hand_out(&mut self, cx: &mut Context, published: Published<'_>) -> u64 {
        let Published {
            kind,
            channel,
            payload,
        } = published;
        let mut receivers = 0;
        if let Some(listeners) = self.listeners[kind.index()].get(channel) {
            let word: &[u8] = match kind {
                SubscriptionKind::ShardChannel => b"smessage",
                SubscriptionKind::Channel | SubscriptionKind::Pattern => b"message",
            };
            receivers += listeners.len();
            cx.deliver(Delivery::Message {
                listeners: listeners.clone(),
                message: frame(&[word, channel, payload]),
            });
        }
        if kind == SubscriptionKind::Channel {
            let (matching, compared) = self.patterns.matching(channel);
            self.compared += compared as u64;
            for pattern in matching {
                let Some(listeners) = self.listeners[SubscriptionKind::Pattern.index()].get(&pattern) else {
                    continue;
                };
                receivers += listeners.len();
                cx.deliver(Delivery::Message {
                    listeners: listeners.clone(),
                    message: frame(&[b"pmessage", &pattern, channel, payload]),
                });
            }
        }
        receivers as u64
    }

    /// A message from another worker.
    pub(crate) fn on_broadcast(
        &mut self,
        cx: &mut Context,
        from: u16,
        reply_to: Option<ReplyTo>,
        published: Published<'_>,
    ) {
        let receivers = self.hand_out(cx, published);
        if let Some(reply_to) = reply_to {
            cx.send(from, Message::Received { reply_to, receivers });
        }
    }

    /// Another worker says how many of its connections a message reached; the last answer completes `PUBLISH`.
    pub(crate) fn on_received(&mut self, cx: &mut Context, reply_to: ReplyTo, receivers: u64) {
        let Some(sum) = self.published.on_answer(reply_to, |sum| *sum += receivers) else {
            return;
        };
        publish_done(cx, reply_to, sum);
    }
}

/// The other workers that have subscriptions.
fn listening_workers(cx: &Context) -> Vec<u16> {
    let others = cx.other_workers();
    let listening = others.filter(|(_, stats)| stats.subscriptions.get() > 0);
    listening.map(|(worker, _)| worker).collect()
}

/// The nodes that hear of what happens in a group from its leader here; none if another one leads it. Those that have a
/// replica hear of it there, as soon as that has the state.
pub(crate) fn nodes_without_replica(cx: &Context, index: usize) -> Vec<NodeId> {
    let Some(member) = cx.local.replicas[index].leader() else {
        return Vec::new();
    };
    let seats = &cx.layout_of(index).seats;
    let has_none = |node: &NodeId| {
        let replicas = seats.iter().filter(|(_, other)| *other == node);
        !replicas
            .into_iter()
            .any(|(replica, _)| member.applies_itself(*replica))
    };
    cx.view.nodes_up().filter(has_none).collect()
}

fn publish_done(cx: &mut Context, reply_to: ReplyTo, receivers: u64) {
    let mut bytes = Vec::new();
    ReplyWriter::new(&mut bytes, Protocol::Resp2).integer(receivers as i64);
    cx.deliver(Delivery::Reply { reply_to, bytes });
}

/// `PUBSUB CHANNELS`, `PUBSUB SHARDCHANNELS`.
pub(crate) fn channels(
    cx: &Context,
    kind: SubscriptionKind,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::unknown_subcommand_or_arity("pubsub", args.arg(1)));
    }
    let names = cx.shared.subscriptions.lock(kind);
    let wanted = args.get(2).map(Glob::new);
    let is_wanted = |name: &&Name| wanted.as_ref().is_none_or(|wanted| wanted.matches(name));
    let found: Vec<&Name> = names.keys().filter(is_wanted).collect();
    w.array(found.len());
    found.iter().for_each(|name| w.bulk(name));
    Ok(())
}

/// `PUBSUB NUMSUB`, `PUBSUB SHARDNUMSUB`.
pub(crate) fn counts(cx: &Context, kind: SubscriptionKind, names: Args<'_>, w: &mut ReplyWriter<'_>) {
    let counts = cx.shared.subscriptions.lock(kind);
    w.array(names.len() * 2);
    for name in names.iter() {
        w.bulk(name);
        w.integer(counts.get(name).copied().unwrap_or(0) as i64);
    }
}

/// The reply to a change of subscriptions.
fn changed(word: &str, name: Option<&[u8]>, count: usize, w: &mut ReplyWriter<'_>) {
    w.push(3);
    w.bulk(word.as_bytes());
    match name {
        Some(name) => w.bulk(name),
        None => w.null(),
    }
    w.integer(count as i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_as_long_as_somebody_listens() {
        let subscriptions = Subscriptions::default();
        let name: Name = b"news.sport".as_slice().into();
        let pattern: Name = b"news.*".as_slice().into();
        subscriptions.join(SubscriptionKind::Channel, &name);
        subscriptions.join(SubscriptionKind::Channel, &name);
        subscriptions.join(SubscriptionKind::Pattern, &pattern);
        assert_eq!(
            subscriptions.receivers(SubscriptionKind::Channel, b"news.sport"),
            3
        );
        assert_eq!(
            subscriptions.receivers(SubscriptionKind::ShardChannel, b"news.sport"),
            0
        );
        subscriptions.leave(SubscriptionKind::Channel, &name);
        assert_eq!(subscriptions.names(SubscriptionKind::Channel), 1);
        subscriptions.leave(SubscriptionKind::Channel, &name);
        assert_eq!(subscriptions.names(SubscriptionKind::Channel), 0);
        assert_eq!(
            subscriptions.receivers(SubscriptionKind::Channel, b"news.sport"),
            1
        );
    }

    #[test]
    fn a_message_on_its_way_keeps_those_it_was_sent_to() {
        let mut pubsub = PubSub::default();
        let name = pubsub.kept(SubscriptionKind::Channel, b"c");
        pubsub.join(SubscriptionKind::Channel, &name, 2);
        pubsub.join(SubscriptionKind::Channel, &name, 1);
        pubsub.join(SubscriptionKind::Channel, &name, 1);
        let on_its_way = pubsub.listeners[0][&name].clone();
        pubsub.leave(SubscriptionKind::Channel, b"c", 2);
        assert_eq!(*on_its_way, [1, 2]);
        assert_eq!(*pubsub.listeners[0][&name], [1]);
        pubsub.leave(SubscriptionKind::Channel, b"c", 1);
        assert!(pubsub.listeners[0].is_empty());
    }
}
