//! Where a node says that others reach it.
//!
//! ```text
//!   advertise --> that
//!   bind names an address --> that
//!   bind is every address --> the one by which this machine sends to those that the node joins, or knows from before; to any
//!                             other machine, if there are none yet; the loopback's, if there is no way to any
//! ```
//!
//! Without a secret the peer port is for this machine alone, and so is what the node says of itself.

use control::{Announcement, WEIGHT_PERCENT};
use ids::{GroupCount, SemanticsVersion};
use options::Settings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The ports of clients, of the any-node and of the cluster endpoint.
pub(crate) type ClientPorts = (u16, Option<u16>);

/// Where the node listens for others; none if nobody is ever to come.
pub(crate) fn peer_address(settings: &Settings) -> Option<SocketAddr> {
    let ip = match is_protected(settings) {
        true => IpAddr::V4(Ipv4Addr::LOCALHOST),
        false => settings.bind[0].ip,
    };
    settings.peer_port.map(|port| SocketAddr::new(ip, port))
}

/// Whether the peer port is for this machine alone: whoever reaches one without a secret can write everything.
fn is_protected(settings: &Settings) -> bool {
    settings.cluster_secret.is_none() && !settings.bind[0].ip.is_loopback()
}

/// What this node says of itself to others, which it knows by the addresses that `known` finds: that may take a while, and is
/// done where they matter.
///
/// # Errors
/// If some of them are on other machines, and could not reach it.
pub(crate) fn announcement(
    settings: &Settings,
    (workers, groups): (u16, Option<GroupCount>),
    (port, cluster_port): ClientPorts,
    known: impl Fn() -> Vec<SocketAddr>,
) -> Result<Announcement, String> {
    let is_protected = is_protected(settings);
    let bind = settings.bind[0].ip;
    let advertised = settings.advertise.as_ref();
    let host = match advertised.map(|advertised| advertised.host.clone()) {
        Some(host) => host,
        None if bind.is_unspecified() && is_protected => Ipv4Addr::LOCALHOST.to_string(),
        None if bind.is_unspecified() => own_address(&known()).to_string(),
        None => bind.to_string(),
    };
    let peer_host = match is_protected {
        true => Ipv4Addr::LOCALHOST.to_string(),
        false => host.clone(),
    };
    let at = |host: &str, port: u16| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let announcement = Announcement {
        client: at(&host, port),
        cluster: at(&host, cluster_port.unwrap_or(0)),
        peer: at(&peer_host, settings.peer_port.unwrap_or(0)),
        zone: settings.zone.clone(),
        name: settings.node_name.clone(),
        weight_percent: match groups {
            Some(groups) => weight_percent(settings.weight, workers, groups),
            // All nodes of a cluster that does not say how many groups it has have as many workers.
            None => percent_of(settings.weight.unwrap_or(workers), workers.into()),
        },
        semantics_min: SemanticsVersion::OLDEST,
        semantics_max: SemanticsVersion::CURRENT,
    };
    let known = match announcement.is_loopback() {
        true => known(),
        false => Vec::new(),
    };
    match known.iter().find(|other| is_elsewhere(other.ip())) {
        None => {}
        Some(other) if is_protected => {
            return Err(format!(
                "{other} is on another machine, and without a cluster secret the peer port of this node is open on its own \
                 machine alone: give all nodes the same --cluster-secret-file"
            ));
        }
        Some(other) => {
            return Err(format!(
                "{other} is on another machine and would be told to reach this node at {}, which leads it to itself: name an \
                 address of this machine with --advertise",
                announcement.peer
            ));
        }
    }
    if is_protected && settings.peer_port.is_some() {
        tracing::warn!(
            "the peer port is open on this machine alone, because there is no cluster secret: nodes of other machines can join with --cluster-secret-file"
        );
    }
    Ok(announcement)
}

/// What the node is to have, in hundredths of what a node has that has as many workers as the first one of a cluster with so many groups,
/// if nobody said how many groups there were to be. What counts is that all nodes of a cluster go by the same.
pub(crate) fn weight_percent(weight: Option<u16>, workers: u16, groups: GroupCount) -> u16 {
    /// With more of them, one worker would be hardly more than nothing.
    const USUAL_MAX: u32 = 64;
    let usual = u32::from(groups.get() / GroupCount::PER_WORKER).clamp(1, USUAL_MAX);
    percent_of(weight.unwrap_or(workers), usual)
}

/// A weight in hundredths of the usual one, never nothing.
fn percent_of(weight: u16, usual: u32) -> u16 {
    let percent = (u32::from(weight) * u32::from(WEIGHT_PERCENT) + usual / 2) / usual.max(1);
    u16::try_from(percent.max(1)).unwrap_or(u16::MAX)
}

/// Whether an address is none of this machine's.
fn is_elsewhere(ip: IpAddr) -> bool {
    !ip.to_canonical().is_loopback() && UdpSocket::bind((ip, 0)).is_err()
}

/// The address by which this machine sends to the first of these that is another one; to any, if there is none.
fn own_address(known: &[SocketAddr]) -> IpAddr {
    /// One that no machine has (RFC 5737): it stands for whatever is behind the default route.
    const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
    let own = known.iter().chain([&ANYWHERE]).filter_map(|other| {
        let any = match other {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        };
        // Nothing is sent: the system only chooses the address that it would send from.
        let probe = UdpSocket::bind((any, 0)).ok()?;
        probe.connect(other).ok()?;
        Some(probe.local_addr().ok()?.ip())
    });
    let mut own = own.filter(|ip| !ip.is_loopback());
    own.next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_weighs_as_much_as_it_has_workers_unless_it_says_otherwise() {
        let groups = |count| GroupCount::new(count).unwrap();
        // The first node had eight workers.
        assert_eq!(weight_percent(None, 8, groups(48)), 100);
        assert_eq!(weight_percent(None, 4, groups(48)), 50);
        assert_eq!(weight_percent(None, 24, groups(48)), 300);
        assert_eq!(weight_percent(Some(8), 4, groups(48)), 100);
        assert_eq!(weight_percent(Some(2), 4, groups(48)), 25);
        assert_eq!(weight_percent(None, 2, groups(1)), 200);
        assert_eq!(weight_percent(Some(1), 4, groups(1_024)), 2, "never nothing");
        assert_eq!(weight_percent(Some(1_024), 1, groups(6)), u16::MAX);
    }
}
