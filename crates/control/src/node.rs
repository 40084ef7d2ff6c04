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
    /// The oldest rules that its build can follow.
    pub semantics_min: SemanticsVersion,
    /// The newest.
    pub semantics_max: SemanticsVersion,
}

impl Announcement {
    /// Whether it keeps the bounds.
    pub fn is_valid(&self) -> bool {
        let texts = [&self.client, &self.cluster, &self.peer, &self.zone, &self.name];
        let is_text = |text: &&String| text.len() <= ADDRESS_BYTES_MAX && !text.contains(BEHIND_ZONE);
        texts.iter().all(is_text) && self.semantics_min <= self.semantics_max
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

/// One member of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// As it said when it last started.
    pub announcement: Announcement,
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

/// Divides a zone from the name behind it.
const BEHIND_ZONE: char = '\0';

/// A name stands behind the zone, in its text: what says nothing of a name is written, and read, as before there were names.
impl Wire for Announcement {
    fn put(&self, out: &mut Vec<u8>) {
        self.client.put(out);
        self.cluster.put(out);
        self.peer.put(out);
        match self.name.is_empty() {
            true => self.zone.put(out),
            false => format!("{}{BEHIND_ZONE}{}", self.zone, self.name).put(out),
        }
        self.semantics_min.put(out);
        self.semantics_max.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
        let (client, cluster, peer) = (Wire::take(input)?, Wire::take(input)?, Wire::take(input)?);
        let text = String::take(input)?;
        let (zone, name) = match text.split_once(BEHIND_ZONE) {
            None => (&*text, ""),
            Some((_, "")) => return Err(input.error("a name behind a zone")),
            Some(both) => both,
        };
        Ok(Announcement {
            client,
            cluster,
            peer,
            zone: zone.to_owned(),
            name: name.to_owned(),
            semantics_min: Wire::take(input)?,
            semantics_max: Wire::take(input)?,
        })
    }
}

wire_struct!(Node {
    announcement,
    boot,
    is_fenced,
    goal,
    join,
    joined,
    start
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn a_name_stands_behind_the_zone_and_without_one_an_announcement_is_written_as_ever() {
        let announcement = |zone: &str, name: &str| Announcement {
            client: "a:1".to_owned(),
            cluster: "a:2".to_owned(),
            peer: "a:3".to_owned(),
            zone: zone.to_owned(),
            name: name.to_owned(),
            semantics_min: SemanticsVersion(1),
            semantics_max: SemanticsVersion(1),
        };
        for (zone, name) in [("", ""), ("z", ""), ("", "n"), ("z", "n")] {
            let announcement = announcement(zone, name);
            let bytes = wire::encode(1, &announcement);
            assert_eq!(wire::decode(1, &bytes), Ok(announcement));
        }
        let bytes = wire::encode(1, &announcement("z", ""));
        assert_eq!(bytes, b"\x01\x03a:1\x03a:2\x03a:3\x01z\x01\x01");
        assert!(!announcement("z\0n", "").is_valid());
        let nameless = b"\x01\x03a:1\x03a:2\x03a:3\x02z\0\x01\x01";
        assert!(
            wire::decode::<Announcement>(1, nameless).is_err(),
            "a value has one encoding"
        );
    }
}
