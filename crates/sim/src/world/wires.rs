//! Connections of clients, from the network's side: what is on its way in them, and who waits how long.

use super::machine::running;
use super::{ANSWER_MAX, CODE_MAX, Event, GROWTH_MAX, Phase, REST, REST_MAX, World};
use crate::clock::{MICROS, MILLIS, SECONDS};
use crate::full_node::{FullNode, check_at_rest};
use crate::node::{Connection, Input};

/// The longest pause of a client in the calm.
const CALM_THINK: u64 = 20 * MILLIS;
/// The longest pause between two steps of a transaction.
const STEP_THINK: u64 = 5 * MILLIS;

/// One connection.
pub(super) struct Wire {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) life: u32,
    pub(super) latency: u64,
    pub(super) is_open: bool,
}

impl World<'_> {
    pub(super) fn on_bytes(&mut self, connection: Connection, bytes: Vec<u8>) -> Result<(), String> {
        let Some(wire) = self.wires.get(&connection) else {
            return Ok(());
        };
        let machine = &self.machines[wire.node];
        if machine.node.is_none() || machine.life != wire.life {
            self.after(wire.latency, Event::Reset(connection));
            return Ok(());
        }
        self.input(wire.node, Input::Bytes(connection, bytes))
    }

    pub(super) fn on_hang_up(&mut self, connection: Connection) -> Result<(), String> {
        let Some(wire) = self.wires.get(&connection) else {
            return Ok(());
        };
        let (node, life) = (wire.node, wire.life);
        self.wires.remove(&connection);
        if self.machines[node].life == life {
            self.input(node, Input::Gone(connection))?;
        }
        Ok(())
    }

    pub(super) fn on_answer(&mut self, connection: Connection, bytes: &[u8]) -> Result<(), String> {
        let Some(wire) = self.wires.get(&connection).filter(|wire| wire.is_open) else {
            return Ok(());
        };
        let client = wire.client;
        if self.clients.clients[client].connection != Some(connection) {
            return Ok(());
        }
        self.trace.hear(self.now, || {
            format!("client {client} is told {:?}", String::from_utf8_lossy(bytes))
        });
        if self.clients.receive(client, bytes, self.now)? {
            let think = if self.phase.is_calm() {
                self.swarm.think.min(CALM_THINK)
            } else {
                self.swarm.think
            };
            let is_within = self.clients.is_within(client);
            let think = if is_within { think.min(STEP_THINK) } else { think };
            let delay = self.prng.below(think + 1);
            self.after(delay, Event::Wake(client));
        }
        Ok(())
    }

    pub(super) fn on_reset(&mut self, connection: Connection) -> Result<(), String> {
        let Some(wire) = self.wires.remove(&connection) else {
            return Ok(());
        };
        let client = wire.client;
        if self.clients.clients[client].connection == Some(connection) {
            let lost = self.clients.lose(client);
            self.note(|| format!("client {client} is cut off, {lost} requests unknown"));
            let delay = MILLIS + self.prng.below(20 * MILLIS);
            self.after(delay, Event::Wake(client));
        }
        Ok(())
    }

    pub(super) fn on_wake(&mut self, index: usize) -> Result<(), String> {
        if self.clients.waits(index) {
            return Ok(());
        }
        // Now and then a client goes elsewhere without a reason.
        let is_turned_away = std::mem::take(&mut self.clients.clients[index].is_turned_away);
        if (self.prng.below(40) == 0 || is_turned_away)
            && let Some(connection) = self.clients.clients[index].connection
        {
            self.clients.lose(index);
            self.hang_up(connection);
        }
        let connection = match self.clients.clients[index].connection {
            Some(connection) => connection,
            None => {
                let count = self.machines.len() as u64;
                let node = self.prng.below(count) as usize;
                if !self.machines[node]
                    .node
                    .as_ref()
                    .is_some_and(FullNode::is_serving)
                {
                    self.after(5 * MILLIS, Event::Wake(index));
                    return Ok(());
                }
                self.connections += 1;
                let connection = Connection(self.connections);
                let wire = Wire {
                    client: index,
                    node,
                    life: self.machines[node].life,
                    latency: 20 * MICROS + self.prng.below(500) * MICROS,
                    is_open: true,
                };
                self.wires.insert(connection, wire);
                self.clients.clients[index].connection = Some(connection);
                connection
            }
        };
        let bytes = self.clients.ask(index, self.swarm, self.now);
        if bytes.is_empty() {
            if self.clients.are_done() && matches!(self.phase, Phase::Calm { .. }) {
                self.phase = Phase::Rest;
                let growth = if self.swarm.shape.splits { GROWTH_MAX } else { 0 };
                let code = if self.swarm.shape.coding.is_some() {
                    CODE_MAX
                } else {
                    0
                };
                self.after(REST, Event::Rest(self.now + REST_MAX + growth + code));
            }
            return Ok(());
        }
        let latency = self.wires[&connection].latency;
        // Bytes come in pieces of any size.
        let cut = match self.prng.below(8) {
            0 => self.prng.below(bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        let (first, second) = bytes.split_at(cut);
        for piece in [first, second] {
            if !piece.is_empty() {
                self.after(latency, Event::ToServer(connection, piece.to_vec()));
            }
        }
        self.after(self.patience(), Event::Patience(index, connection));
        Ok(())
    }

    fn patience(&self) -> u64 {
        if self.phase.is_calm() {
            ANSWER_MAX
        } else {
            self.swarm.patience
        }
    }

    pub(super) fn on_patience(&mut self, index: usize, connection: Connection) -> Result<(), String> {
        let client = &self.clients.clients[index];
        let is_same = client.connection == Some(connection);
        if !is_same || !self.clients.waits(index) {
            return Ok(());
        }
        let until = client.waits_since + self.patience();
        if until > self.now {
            self.schedule(until, Event::Patience(index, connection));
            return Ok(());
        }
        if self.phase.is_calm() {
            let running = running(&self.machines);
            let rest = match check_at_rest(&running, self.gone()) {
                Ok(()) => "nothing is under way".to_owned(),
                Err(what) => what,
            };
            return Err(format!(
                "client {index} was not answered within {} s after the storm: {rest}",
                ANSWER_MAX / SECONDS
            ));
        }
        self.note(|| format!("client {index} gives up"));
        self.clients.lose(index);
        self.hang_up(connection);
        self.after(MILLIS, Event::Wake(index));
        Ok(())
    }

    pub(super) fn hang_up(&mut self, connection: Connection) {
        if let Some(wire) = self.wires.get_mut(&connection) {
            wire.is_open = false;
            let latency = wire.latency;
            self.after(latency, Event::Hangs(connection));
        }
    }
}
