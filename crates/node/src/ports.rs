//! The ports of a node, all opened before the first is complained of: whoever has to choose ports chooses once.

use crate::announcing;
use crate::listener::{self, Listener};
use crate::start_error::{StartError, noting, opening, trying};
use gateway::Endpoint;
use options::Settings;
use std::net::{SocketAddr, TcpListener};

/// See the file's header.
pub(crate) struct Ports {
    /// For clients, of both endpoints.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) port: u16,
    pub(crate) cluster_port: Option<u16>,
    pub(crate) admin: Option<TcpListener>,
    /// Opened by the links themselves, later: what was taken over by a start that fails would have to be left again.
    pub(crate) peer_address: Option<SocketAddr>,
}

impl Ports {
    pub(crate) fn open(settings: &Settings) -> Result<Ports, StartError> {
        let mut failures = Vec::new();
        let opened = listener::open(settings, Endpoint::AnyNode, settings.port);
        let opened = opening("cannot listen for clients", "port", opened);
        let any_node = noting(&mut failures, opened);
        let opened = match settings.cluster_port {
            None => Ok(Vec::new()),
            Some(port) => listener::open(settings, Endpoint::Cluster, port),
        };
        let opened = opening("cannot open the cluster endpoint", "cluster-port", opened);
        let cluster = noting(&mut failures, opened);
        let admin = settings.admin_port.and_then(|port| {
            let address = SocketAddr::new(settings.bind[0].ip, port);
            let what = format!("cannot listen on the admin port {address}");
            let opened = opening(what, "admin-port", TcpListener::bind(address));
            noting(&mut failures, opened)
        });
        let peer_address = announcing::peer_address(settings);
        let free = peer_address.map(TcpListener::bind).transpose().map(drop);
        let free = opening("cannot open the peer port", "peer-port", free);
        noting(&mut failures, free);
        if let Some(failure) = StartError::of_all(failures) {
            return Err(failure);
        }
        let mut listeners = any_node.expect("it did not fail");
        let cluster = cluster.expect("it did not fail");
        let port = port_of(&listeners)?.expect("it was opened on one address at least");
        let cluster_port = port_of(&cluster)?;
        listeners.extend(cluster);
        Ok(Ports {
            listeners,
            port,
            cluster_port,
            admin,
            peer_address,
        })
    }
}

/// The port that the sockets of one endpoint listen on.
fn port_of(listeners: &[Listener]) -> Result<Option<u16>, StartError> {
    let address = listeners.first().map(|listener| listener.socket.local_addr());
    let address = trying(
        "cannot read the address of a listening socket",
        address.transpose(),
    )?;
    Ok(address.map(|address| address.port()))
}
