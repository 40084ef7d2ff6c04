//! A gateway and its clients: what a worker's loop does with them, without sockets.

use crate::clock::{glance, lent};
use crate::node::{Connection, Output};
use crate::whole::frame::Frame;
use ids::{Boot, GroupCount, HashSeed, NodeId, Prng};
use options::Settings;
use peer_wire::PeerMessage;
use server::{ClientCard, Delivery, Endpoint, Gateway, Hooks, Session, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One connection in so many comes by the cluster endpoint.
const BY_CLUSTER: u64 = 5;

/// See the file's header.
pub(crate) struct Serving {
    pub(crate) node: NodeId,
    pub(crate) boot: Boot,
    pub(crate) gateway: Gateway,
    shared: Arc<Shared>,
    clients: BTreeMap<Connection, server::Connection>,
    /// Connections that have ended: what is on its way to them is not heard.
    ended: BTreeSet<Connection>,
    /// To be looked at when the turn ends.
    listed: BTreeSet<Connection>,
    /// To be looked at in the next one.
    unread: BTreeSet<Connection>,
    /// What is to be sent to other nodes.
    pub(crate) outbox: Vec<(NodeId, PeerMessage)>,
}

impl Serving {
    pub(crate) fn new(node: NodeId, boot: Boot, groups: GroupCount, prng: &mut Prng) -> Serving {
        let mut shared = Shared::new(boot, "run".into(), 0, 6379, groups, 1, Settings::default());
        shared.cluster_port = Some(7379);
        shared.hooks = Hooks {
            clock: glance,
            monotonic: lent,
            ..Hooks::default()
        };
        shared.clients.set_node(node);
        let shared = Arc::new(shared);
        let secret = HashSeed([prng.next_u64(), prng.next_u64()]);
        Serving {
            node,
            boot,
            gateway: Gateway::new(0, shared.clone(), secret, prng.next_u64()),
            shared,
            clients: BTreeMap::new(),
            ended: BTreeSet::new(),
            listed: BTreeSet::new(),
            unread: BTreeSet::new(),
            outbox: Vec::new(),
        }
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A client sends bytes.
    pub(crate) fn receive(&mut self, from: Connection, bytes: &[u8], out: &mut Output<Frame>) {
        if self.ended.contains(&from) {
            return;
        }
        let shared = &self.shared;
        let connection = self.clients.entry(from).or_insert_with(|| {
            let address = ([127, 0, 0, 1], 1).into();
            let card = ClientCard::new(shared.clients.next_id(), address, address, 0, 0, 0);
            let card = Arc::new(card);
            shared.clients.add(card.clone());
            let endpoint = match from.0 % BY_CLUSTER {
                0 => Endpoint::Cluster,
                _ => Endpoint::AnyNode,
            };
            server::Connection::new(Session::new(card, from.0, endpoint, true))
        });
        self.gateway.feed(connection, bytes);
        self.listed.insert(from);
        // Who is not to be told what was read is closed before anything is sent.
        self.deliver(out);
    }

    /// A client is gone.
    pub(crate) fn close(&mut self, connection: Connection) {
        if let Some(mut gone) = self.clients.remove(&connection) {
            self.gateway.forget_connection(connection.0);
            self.gateway.go_on(&mut gone.session);
            self.gateway.stop_listening(&mut gone.session);
            self.shared.clients.remove(gone.session.card.id);
            self.ended.insert(connection);
        }
        self.listed.remove(&connection);
        self.unread.remove(&connection);
    }

    /// Everything that follows from what came this turn.
    pub(crate) fn finish(&mut self, out: &mut Output<Frame>) {
        self.listed.append(&mut self.unread);
        self.gateway.end_waits();
        self.deliver(out);
        self.finish_cluster(out);
        self.finish_clients(out);
        // Connections that went on may have asked for more.
        self.finish_cluster(out);
        self.finish_clients(out);
        assert!(
            self.gateway.take_errands().is_empty() && self.gateway.backlog() == 0,
            "nothing that clients ask for is large, and there is one worker"
        );
    }

    /// Background work.
    pub(crate) fn tend(&mut self, out: &mut Output<Frame>) {
        self.gateway.tend();
        self.deliver(out);
        self.finish_clients(out);
    }

    fn finish_cluster(&mut self, out: &mut Output<Frame>) {
        if self.gateway.has_cluster_work() {
            self.gateway.finish_cluster(lent());
        }
        self.outbox.extend(self.gateway.take_peer_messages());
        self.deliver(out);
    }

    fn deliver(&mut self, out: &mut Output<Frame>) {
        while let Some(delivery) = self.gateway.next_delivery() {
            if let Delivery::Reap = delivery {
                self.reap(out);
                continue;
            }
            if let Delivery::Message { .. } = delivery {
                continue;
            }
            let Some(token) = delivery.connection().map(Connection) else {
                continue;
            };
            if let Some(connection) = self.clients.get_mut(&token) {
                self.gateway.deliver(connection, delivery);
                self.listed.insert(token);
            }
        }
    }

    /// Closes the connections that the gateway marked.
    fn reap(&mut self, out: &mut Output<Frame>) {
        let is_killed = |client: &server::Connection| client.session.card.is_killed.load(Ordering::Relaxed);
        let clients = self.clients.iter();
        let killed: Vec<Connection> = clients
            .filter(|(_, client)| is_killed(client))
            .map(|(connection, _)| *connection)
            .collect();
        for connection in killed {
            self.close(connection);
            out.closed.push(connection);
        }
    }

    fn finish_clients(&mut self, out: &mut Output<Frame>) {
        while let Some(token) = self.listed.pop_first() {
            let Some(connection) = self.clients.get_mut(&token) else {
                continue;
            };
            let is_held = connection.session.is_waiting || connection.session.is_paused;
            if connection.has_commands() && !is_held && !connection.pipeline.is_full() {
                self.gateway.resume(connection);
            }
            // Before anything is sent: what was read may not be to be told.
            self.deliver(out);
            let Some(connection) = self.clients.get_mut(&token) else {
                continue;
            };
            while connection.pipeline.ready_bytes() > 0 {
                let ready = connection.pipeline.ready().to_vec();
                connection.pipeline.sent(ready.len());
                out.bytes.push((token, ready));
            }
            let is_answered = connection.pipeline.is_settled() && !connection.session.is_waiting;
            if connection.session.is_closing && is_answered {
                self.close(token);
                out.closed.push(token);
            } else if is_answered && connection.has_commands() {
                self.unread.insert(token);
            }
        }
    }
}
