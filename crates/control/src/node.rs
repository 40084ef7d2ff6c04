//! The cluster's nodes, as the meta group knows them.

use crate::wire::wire_struct;
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
    /// The oldest rules that its build can follow.
    pub semantics_min: SemanticsVersion,
    /// The newest.
    pub semantics_max: SemanticsVersion,
}

impl Announcement {
    /// Whether it keeps the bounds.
    pub fn is_valid(&self) -> bool {
        let texts = [&self.client, &self.cluster, &self.peer, &self.zone];
        texts.iter().all(|text| text.len() <= ADDRESS_BYTES_MAX) && self.semantics_min <= self.semantics_max
    }

    /// Whether other nodes reach it on its own machine alone.
    pub fn is_loopback(&self) -> bool {
        let host = self.peer.rsplit_once(':').map_or(&*self.peer, |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
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
    /// Whether it is to give up its replicas.
    pub is_leaving: bool,
    /// By which it joined.
    pub join: Token,
    /// The start by which it joined, as long as it announces the peer address at which it did: whoever was there before is gone.
    /// None once it has announced another one, since addresses may be dealt anew among nodes that start again.
    pub joined: Option<Boot>,
    /// By which it last started.
    pub start: Token,
}

wire_struct!(Announcement {
    client,
    cluster,
    peer,
    zone,
    semantics_min,
    semantics_max
});
wire_struct!(Node {
    announcement,
    boot,
    is_fenced,
    is_leaving,
    join,
    joined,
    start
});
