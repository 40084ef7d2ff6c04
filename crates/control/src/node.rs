//! The cluster's nodes, as the meta group knows them.

use crate::goal::NodeGoal;
use crate::wire::{Wire, wire_struct};
use codec::{DecodeError, Reader};
use ids::{Boot, SemanticsVersion, Token};
use std::net::IpAddr;

/// Most nodes of a cluster. One more may not join.
pub const NODES_MAX: usize = 1_024;

/// Most bytes of an address, and of a zone's name. A node that announces more is refused.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// What a node says of itself when it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// Where clients reach the any-node endpoint, `host:port`.
    pub client: String,
    /// Where clients reach the cluster endpoint.
    pub cluster: String,
    /// Where other nodes reach it.
    pub peer: String,
    /// What it shares its fate with; may be empty.
    pub zone: String,
    /// By which it is itself, with another directory and at another address too; may be empty.
    pub name: String,
    /// How much it is to have, in hundredths of what a node has that says nothing of it.
    pub weight_percent: u16,
    /// The oldest rules that its build can follow.
    pub semantics_min: SemanticsVersion,
    /// The newest.
    pub semantics_max: SemanticsVersion,
}

impl Announcement {
    /// Whether it keeps the bounds.
    pub fn is_valid(&self) -> bool {
        let texts = [&self.client, &self.cluster, &self.peer, &self.zone, &self.name];
        let is_text = |text: &&String| text.len() <= ADDRESS_BYTES_MAX && !text.contains(DIVIDER);
        let is_weight = self.weight_percent > 0;
        texts.iter().all(is_text) && is_weight && self.semantics_min <= self.semantics_max
    }

    /// As what it is placed, if it has nothing yet.
    pub(crate) fn placed(&self) -> Placed {
        Placed {
            zone: self.zone.clone(),
            weight_percent: self.weight_percent,
        }
    }

    /// Whether other nodes reach it on its own machine alone.
    pub fn is_loopback(&self) -> bool {
        let host = self.peer.rsplit_once(':').map_or(&*self.peer, |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }

    /// Whether two nodes cannot both say this of themselves: whichever joined last is what both are.
    pub fn is_same_place(&self, other: &Announcement) -> bool {
        self.peer == other.peer || self.has_name_of(other)
    }

    /// Whether both have one name.
    pub fn has_name_of(&self, other: &Announcement) -> bool {
        !self.name.is_empty() && self.name == other.name
    }

    /// Whether its build can follow these rules.
    pub fn supports(&self, semantics: SemanticsVersion) -> bool {
        (self.semantics_min..=self.semantics_max).contains(&semantics)
    }
}

/// As what a node is placed. It may say otherwise since: then replicas stay where they are until all is placed anew by an operator, who
/// may restart many nodes before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// What it shares its fate with; may be empty.
    pub zone: String,
    /// See [`Announcement::weight_percent`].
    pub weight_percent: u16,
}

wire_struct!(Placed { zone, weight_percent });

impl Placed {
    fn is_valid(&self) -> bool {
        self.zone.len() <= ADDRESS_BYTES_MAX && !self.zone.contains(DIVIDER) && self.weight_percent > 0
    }
}

/// One member of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// As it said when it last started.
    pub announcement: Announcement,
    /// As what it is placed: what it said when it joined, or when everything was last placed anew.
    pub placed: Placed,
    /// Its last start. All others it had are dead.
    pub boot: Boot,
    /// Whether this start is dead too, although no other is known yet.
    pub is_fenced: bool,
    /// What is to become of it.
    pub goal: NodeGoal,
    /// By which it joined.
    pub join: Token,
    /// The start by which it joined, as long as it announces the peer address at which it did: whoever was there before is gone.
    /// None once it has announced another one, since addresses may be dealt anew among nodes that start again.
    pub joined: Option<Boot>,
    /// By which it last started.
    pub start: Token,
}

/// Divides a zone from what stands behind it.
const DIVIDER: char = '\0';

/// The weight of a node that says nothing of it.
pub const WEIGHT_PERCENT: u16 = 100;

/// What an announcement says beside addresses and semantics, and as what its node is placed if that is not what it says.
///
/// ```text
///  zone                                          each behind a divider; what says nothing of the last ones ends before them, and is
///  zone | name                                   written, and read, as before there were names and weights
///  zone | name | weight
///  zone | name | weight | zone | weight          the last two as what it is placed
/// ```
struct Tail {
    zone: String,
    name: String,
    weight_percent: u16,
    placed: Option<Placed>,
}

impl Tail {
    fn text(&self) -> String {
        let weight = |percent: u16| match percent {
            WEIGHT_PERCENT => String::new(),
            percent => percent.to_string(),
        };
        let mut parts = vec![self.zone.clone(), self.name.clone(), weight(self.weight_percent)];
        match &self.placed {
            Some(placed) => parts.extend([placed.zone.clone(), weight(placed.weight_percent)]),
            None => {
                while parts.len() > 1 && parts.last().is_some_and(String::is_empty) {
                    parts.pop();
                }
            }
        }
        parts.join("\0")
    }

    /// None if `text` does not write it so.
    fn of(text: &str) -> Option<Tail> {
        let weight = |text: &str| match text {
            "" => Some(WEIGHT_PERCENT),
            text => text.parse().ok(),
        };
        let parts: Vec<&str> = text.split(DIVIDER).collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let placed = match parts.len() {
            0..=3 => None,
            _ => Some(Placed {
                zone: part(3).to_owned(),
                weight_percent: weight(part(4))?,
            }),
        };
        let tail = Tail {
            zone: part(0).to_owned(),
            name: part(1).to_owned(),
            weight_percent: weight(part(2))?,
            placed,
        };
        (tail.text() == text).then_some(tail)
    }
}

impl Announcement {
    fn put_with(&self, placed: Option<&Placed>, out: &mut Vec<u8>) {
        let tail = Tail {
            zone: self.zone.clone(),
            name: self.name.clone(),
            weight_percent: self.weight_percent,
            placed: placed.cloned(),
        };
        self.client.put(out);
        self.cluster.put(out);
        self.peer.put(out);
        tail.text().put(out);
        self.semantics_min.put(out);
        self.semantics_max.put(out);
    }

    fn take_with(input: &mut Reader<'_>) -> Result<(Announcement, Option<Placed>), DecodeError> {
        let (client, cluster, peer) = (Wire::take(input)?, Wire::take(input)?, Wire::take(input)?);
        let text = String::take(input)?;
        let tail = Tail::of(&text).ok_or(input.error("what stands behind a zone"))?;
        let announcement = Announcement {
            client,
            cluster,
            peer,
            zone: tail.zone,
            name: tail.name,
            weight_percent: tail.weight_percent,
            semantics_min: Wire::take(input)?,
            semantics_max: Wire::take(input)?,
        };
        Ok((announcement, tail.placed))
    }
}

impl Wire for Announcement {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_with(None, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
        let unknown = input.error("an announcement");
        match Announcement::take_with(input)? {
            (announcement, None) => Ok(announcement),
            (_, Some(_)) => Err(unknown),
        }
    }
}

impl Wire for Node {
    fn put(&self, out: &mut Vec<u8>) {
        let placed = Some(&self.placed).filter(|placed| **placed != self.announcement.placed());
        self.announcement.put_with(placed, out);
        self.boot.put(out);
        self.is_fenced.put(out);
        self.goal.put(out);
        self.join.put(out);
        self.joined.put(out);
        self.start.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Node, DecodeError> {
        let (announcement, placed) = Announcement::take_with(input)?;
        let is_otherwise = placed
            .as_ref()
            .is_none_or(|placed| *placed != announcement.placed());
        if !is_otherwise || placed.as_ref().is_some_and(|placed| !placed.is_valid()) {
            return Err(input.error("as what the node is placed"));
        }
        Ok(Node {
            placed: placed.unwrap_or_else(|| announcement.placed()),
            announcement,
            boot: Wire::take(input)?,
            is_fenced: Wire::take(input)?,
            goal: Wire::take(input)?,
            join: Wire::take(input)?,
            joined: Wire::take(input)?,
            start: Wire::take(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn announcement(zone: &str, name: &str, weight_percent: u16) -> Announcement {
        Announcement {
            client: "a:1".to_owned(),
            cluster: "a:2".to_owned(),
            peer: "a:3".to_owned(),
            zone: zone.to_owned(),
            name: name.to_owned(),
            weight_percent,
            semantics_min: SemanticsVersion(1),
            semantics_max: SemanticsVersion(1),
        }
    }

    #[test]
    fn names_and_weights_stand_behind_the_zone_and_without_them_an_announcement_is_written_as_ever() {
        for (zone, name) in [("", ""), ("z", ""), ("", "n"), ("z", "n")] {
            for weight_percent in [100, 50, 1_000] {
                let announcement = announcement(zone, name, weight_percent);
                let bytes = wire::encode(1, &announcement);
                assert_eq!(wire::decode(1, &bytes), Ok(announcement));
            }
        }
        let bytes = wire::encode(1, &announcement("z", "", 100));
        assert_eq!(bytes, b"\x01\x03a:1\x03a:2\x03a:3\x01z\x01\x01");
        assert!(!announcement("z\0n", "", 100).is_valid());
        assert!(!announcement("z", "n", 0).is_valid());
        for tail in [
            "z\0",
            "z\0\0",
            "z\0n\0",
            "z\0n\x00100",
            "z\0n\x00050",
            "z\0n\0x",
            "z\0n\0\0y",
            "z\0n\0\0y\0",
        ] {
            let mut bytes = b"\x01\x03a:1\x03a:2\x03a:3".to_vec();
            tail.to_owned().put(&mut bytes);
            bytes.extend([1, 1]);
            assert!(
                wire::decode::<Announcement>(1, &bytes).is_err(),
                "a value has one encoding, which {tail:?} is not"
            );
        }
    }

    #[test]
    fn as_what_a_node_is_placed_is_written_only_where_it_says_otherwise() {
        let node = |announcement: Announcement, zone: &str, weight_percent| Node {
            announcement,
            placed: Placed {
                zone: zone.to_owned(),
                weight_percent,
            },
            boot: Boot(1),
            is_fenced: false,
            goal: NodeGoal::Stays,
            join: Token(2),
            joined: Some(Boot(1)),
            start: Token(2),
        };
        let length = |node: &Node| wire::encode(1, node).len();
        let same = node(announcement("z", "", 100), "z", 100);
        for (zone, weight_percent) in [("z", 100), ("", 100), ("y", 100), ("z", 50)] {
            let node = node(announcement("z", "", 100), zone, weight_percent);
            assert_eq!(wire::decode(1, &wire::encode(1, &node)), Ok(node.clone()));
            assert_eq!(length(&node) == length(&same), node == same);
        }
        let bytes = wire::encode(1, &node(announcement("z", "n", 100), "y", 100));
        let bytes = String::from_utf8_lossy(&bytes).replace("\0y\0", "\0z\0");
        assert!(
            wire::decode::<Node>(1, bytes.as_bytes()).is_err(),
            "it says nothing"
        );
    }
}
