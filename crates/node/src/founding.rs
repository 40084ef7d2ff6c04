//! A node with an empty directory that waits for others like it: who of them makes the cluster is for `control::Founding` to say.
//!
//! ```text
//!   names --resolver--> addresses, each by a number --transport--> links --> Founding --> Create, or Join
//! ```
//!
//! It listens, and dials all addresses that `--join` names, its own among them. Of a name with addresses of both families, those count
//! that are of the family in which this node listens: the others may lead to nobody.

use crate::announcing;
use crate::bootstrap::{BootstrapError, DIALLING, PATIENCE};
use crate::clock;
use crate::resolver::Resolver;
use crate::start_links::StartLinks;
use crate::start_progress::StartProgress;
use bytes::Bytes;
use control::{Founding, FoundingEnd, FoundingMessage, FoundingNode};
use ids::Monotonic;
use options::Settings;
use peer_wire::PeerMessage;
use peer_wire::hello::{NotIntroduced, Peer, Secret, Who};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transport::{LinkId, Remote, TransportEvent};

/// Addresses that can be waited for. While there are more, nobody makes a cluster.
const ADDRESSES_MAX: usize = 256;

/// Addresses that one line of the log names. The rest is counted.
const TOLD_MAX: usize = 16;

/// Why there is no link with an address, by its number: the last reason of each.
type Reasons = Arc<Mutex<BTreeMap<u16, String>>>;

/// See the file's header. It comes back when the node is to make a cluster, or to join one.
///
/// # Errors
/// If the node was told to stop, or cannot listen.
pub(crate) fn wait(
    settings: &Settings,
    own: FoundingNode,
    secret: &Secret,
    workers: u16,
    resolver: &Resolver,
    told_to_stop: &AtomicBool,
    progress: &StartProgress,
) -> Result<FoundingEnd, BootstrapError> {
    let who = Who::Founding {
        id: own.id,
        expects: own.expects,
    };
    let reasons = Reasons::default();
    let noted = reasons.clone();
    let note_refusal = Arc::new(move |link: LinkId, error: &NotIntroduced| {
        if let Remote::Contact(number) = link.remote {
            let mut reasons = noted.lock().unwrap_or_else(PoisonError::into_inner);
            reasons.insert(number, error.to_string());
        }
    });
    let mut waiting = Waiting {
        founding: Founding::new(own),
        links: StartLinks::open(settings, who, secret, (workers, None), note_refusal)?,
        names: settings.join.iter().map(ToString::to_string).collect(),
        addresses: BTreeMap::new(),
        surplus: 0,
        is_ipv4: announcing::peer_address(settings).is_some_and(|address| address.is_ipv4()),
        reasons,
    };
    let end = waiting.run(resolver, told_to_stop, progress)?;
    match end {
        FoundingEnd::Create => tracing::info!(
            nodes = waiting.founding.present(),
            "there is no cluster, and all nodes are there that are to make one: this one makes it, and the others join"
        ),
        FoundingEnd::Join => tracing::info!("there is a cluster, which this node joins"),
    }
    progress.waits();
    Ok(end)
}

struct Waiting {
    founding: Founding<LinkId>,
    links: StartLinks,
    /// As `--join` has them.
    names: Vec<String>,
    /// Where they lead, by number, and which of the names does. A number that nobody has any more is given again.
    addresses: BTreeMap<u16, (SocketAddr, usize)>,
    /// Those that there is no number for.
    surplus: usize,
    /// The family in which this node listens.
    is_ipv4: bool,
    reasons: Reasons,
}

/// What a link brought.
enum Heard {
    Up(LinkId, Peer),
    Down(LinkId),
    Said(LinkId, Option<FoundingMessage>),
}

fn note(event: TransportEvent<'_, Peer>) -> Option<Heard> {
    match event {
        TransportEvent::Up(link, peer) => Some(Heard::Up(link, peer)),
        TransportEvent::Down(link) => Some(Heard::Down(link)),
        TransportEvent::Message(link, packet) => {
            let said = match PeerMessage::decode(&packet) {
                Ok(PeerMessage::Founding(bytes)) => FoundingMessage::decode(&bytes).ok(),
                Ok(_) | Err(_) => None,
            };
            Some(Heard::Said(link, said))
        }
        TransportEvent::Arrival(..) => None,
    }
}

impl Waiting {
    fn run(
        &mut self,
        resolver: &Resolver,
        told_to_stop: &AtomicBool,
        progress: &StartProgress,
    ) -> Result<FoundingEnd, BootstrapError> {
        let mut told_at = clock::raw();
        let mut dialled_at = told_at;
        let mut names = resolver.version();
        let mut there = 0;
        self.dial(resolver, told_at);
        loop {
            self.links.wait(None)?;
            if told_to_stop.load(Ordering::Relaxed) {
                return Err(BootstrapError::Stopped);
            }
            let now = clock::raw();
            for heard in self.links.read(note) {
                self.on_heard(heard, now);
            }
            if now.since(dialled_at) >= DIALLING || names != resolver.version() {
                (dialled_at, names) = (now, resolver.version());
                self.dial(resolver, now);
            }
            let transport = &mut self.links.transport;
            let end = self.founding.step(&mut |link, message| {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                transport.send(link, PeerMessage::Founding(Bytes::from(bytes)));
            });
            // What it brings is heard with the next reading.
            let mut happened = Vec::new();
            transport.flush(now, &mut |event| happened.extend(note(event)));
            if let Some(end) = end {
                return Ok(end);
            }
            for heard in happened {
                self.on_heard(heard, now);
            }
            let is_there = self.founding.present();
            if std::mem::replace(&mut there, is_there) != is_there {
                progress.founds(there, self.founding.own().expects);
            }
            if now.since(told_at) >= PATIENCE {
                told_at = now;
                self.say_what_is_awaited();
            }
        }
    }

    fn on_heard(&mut self, heard: Heard, now: Monotonic) {
        match heard {
            Heard::Up(link, peer) => {
                let address = match link.remote {
                    Remote::Contact(number) => Some(number),
                    Remote::Joiner(_) | Remote::Node(_) => None,
                };
                if let Some(number) = address {
                    self.reasons().remove(&number);
                }
                if peer.who.node().is_some() {
                    return self.founding.on_cluster();
                }
                let node = peer
                    .who
                    .founding()
                    .map(|(id, expects)| FoundingNode { id, expects });
                let is_taken = node.is_some_and(|node| self.founding.on_link_up(link, address, node));
                if !is_taken {
                    self.forget(link, now);
                }
            }
            Heard::Down(link) => self.founding.on_link_down(link),
            Heard::Said(link, Some(message)) => self.founding.on_message(link, message),
            Heard::Said(link, None) => self.forget(link, now),
        }
    }

    /// Wants no link with somebody any more.
    fn forget(&mut self, link: LinkId, now: Monotonic) {
        self.founding.on_link_down(link);
        let mut ignored = |_: TransportEvent<'_, Peer>| {};
        self.links.transport.forget(link, now, &mut ignored);
    }

    /// Follows the names, and dials wherever they lead.
    fn dial(&mut self, resolver: &Resolver, now: Monotonic) {
        let mut wanted: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        let mut is_known = true;
        for (name, text) in self.names.iter().enumerate() {
            resolver.want(text);
            let found = of_family(resolver.addresses(text), self.is_ipv4);
            is_known &= !found.is_empty();
            for address in found {
                wanted.entry(address).or_insert(name);
            }
        }
        self.surplus = wanted.len().saturating_sub(ADDRESSES_MAX);
        is_known &= self.surplus == 0;
        let gone = self
            .addresses
            .extract_if(.., |_, (address, _)| wanted.remove(address).is_none());
        for (number, _) in gone.collect::<Vec<_>>() {
            self.reasons().remove(&number);
            self.forget(contact(number), now);
        }
        let is_free = |number: &u16| !self.addresses.contains_key(number);
        let free: Vec<u16> = (0..ADDRESSES_MAX as u16).filter(is_free).collect();
        self.addresses.extend(free.into_iter().zip(wanted));
        for (number, (address, _)) in &self.addresses {
            self.links.transport.dial(contact(*number), *address, now);
        }
        let numbers: BTreeSet<u16> = self.addresses.keys().copied().collect();
        self.founding.on_addresses(is_known.then_some(numbers));
    }

    fn reasons(&self) -> MutexGuard<'_, BTreeMap<u16, String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an operator.
    fn say_what_is_awaited(&self) {
        let own = self.founding.own();
        for (link, theirs) in self.founding.other_numbers().take(TOLD_MAX) {
            tracing::error!(
                "{} expects {theirs} nodes and this one {}: nobody makes a cluster before all have the same --join-expect",
                self.called(link),
                own.expects
            );
        }
        tracing::warn!("{}", self.awaited());
    }

    fn awaited(&self) -> String {
        let expected = usize::from(self.founding.own().expects);
        let there = self.founding.present();
        let missing = self.missing();
        let what = if !missing.is_empty() {
            let more = missing.len().saturating_sub(TOLD_MAX);
            let more = match more {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let told: Vec<&str> = missing.iter().take(TOLD_MAX).map(String::as_str).collect();
            format!("no answer from {}{more}", told.join(", "))
        } else if there < expected {
            "all addresses of --join answer, and no more nodes are behind them: start the others, and have --join name them".to_owned()
        } else if !self.founding.is_named() {
            "no address of --join leads to this node itself, so that another one has to make the cluster"
                .to_owned()
        } else {
            "all addresses of --join answer, and one of the nodes is to make the cluster".to_owned()
        };
        format!(
            "there is no cluster yet, and {there} of {expected} nodes are there that are to make one: {what}"
        )
    }

    /// Names that lead nowhere, and addresses where nobody answers.
    fn missing(&self) -> Vec<String> {
        let leads = |name: usize| self.addresses.values().any(|(_, of)| *of == name);
        let nowhere = self.names.iter().enumerate().filter(|(name, _)| !leads(*name));
        let nowhere = nowhere.map(|(_, text)| format!("{text} (the name leads nowhere)"));
        let reasons = self.reasons();
        let unanswered = self.addresses.keys().filter_map(|number| {
            let link = contact(*number);
            let is_up = self.links.transport.links().any(|up| up == link);
            let reason = reasons
                .get(number)
                .map_or(String::new(), |reason| format!(" ({reason})"));
            (!is_up).then(|| format!("{}{reason}", self.called(link)))
        });
        let surplus = (self.surplus > 0).then(|| {
            let surplus = self.surplus;
            format!("{surplus} addresses beyond {ADDRESSES_MAX}, which is as many as can be waited for")
        });
        nowhere.chain(unanswered).chain(surplus).collect()
    }

    /// A link as an operator knows it.
    fn called(&self, link: LinkId) -> String {
        let named = match link.remote {
            Remote::Contact(number) => self.addresses.get(&number),
            Remote::Joiner(_) | Remote::Node(_) => None,
        };
        match named {
            Some((address, name)) if self.names[*name] == address.to_string() => address.to_string(),
            Some((address, name)) => format!("{} at {address}", self.names[*name]),
            None => "a node that has dialled this one".to_owned(),
        }
    }
}

fn contact(number: u16) -> LinkId {
    LinkId {
        remote: Remote::Contact(number),
        number: 0,
    }
}

/// Those of a family, if there are any.
fn of_family(mut addresses: Vec<SocketAddr>, is_ipv4: bool) -> Vec<SocketAddr> {
    if addresses.iter().any(|address| address.is_ipv4() == is_ipv4) {
        addresses.retain(|address| address.is_ipv4() == is_ipv4);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_with_both_families_those_count_in_which_the_node_listens() {
        let [four, six]: [SocketAddr; 2] = ["127.0.0.1:1", "[::1]:1"].map(|text| text.parse().unwrap());
        assert_eq!(of_family(vec![six, four], true), [four]);
        assert_eq!(of_family(vec![six, four], false), [six]);
        assert_eq!(
            of_family(vec![six], true),
            [six],
            "then nobody answers, and it is said"
        );
        assert_eq!(of_family(vec![], true), []);
    }
}
