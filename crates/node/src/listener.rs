//! Listening sockets, and who may come in.

use gateway::Endpoint;
use mio::net::TcpListener;
use options::{BindAddress, Settings};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// A listening socket, and which way clients come in by it.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) endpoint: Endpoint,
    /// Those who came in by it before there were workers (`lobby.rs`).
    pub(crate) waiting: Vec<TcpStream>,
}

/// Opens a listening socket for each address of `bind`. With port 0 the system chooses, and all addresses
/// share its choice.
pub(crate) fn open(settings: &Settings, endpoint: Endpoint, mut port: u16) -> io::Result<Vec<Listener>> {
    let mut listeners: Vec<Listener> = Vec::new();
    for address in &settings.bind {
        let target = SocketAddr::new(address.ip, port);
        match listen(target, settings.tcp_backlog) {
            Ok(socket) => {
                port = socket.local_addr()?.port();
                listeners.push(Listener {
                    socket,
                    endpoint,
                    waiting: Vec::new(),
                });
            }
            // "-::1": an address that may be missing on this machine.
            Err(_) if address.optional => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{target}: {error}"))),
        }
    }
    if listeners.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "none of the bind addresses exists",
        ));
    }
    Ok(listeners)
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // The IPv4 address is listed on its own.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Why a client is sent away before its first command.
pub(crate) enum Refusal {
    TooMany,
    Protected,
}

impl Refusal {
    /// Tells the client, as far as one write goes, and closes.
    pub(crate) fn send(&self, mut stream: &TcpStream) {
        let text: &[u8] = match self {
            Refusal::TooMany => b"-ERR max number of clients reached\r\n",
            Refusal::Protected => {
                b"-DENIED Chorale is running in protected mode because no password is set. In this mode \
                connections are only accepted from the loopback interface. To connect from another machine, \
                do one of these: 1) set a password: start the server with --requirepass PASSWORD, or send \
                CONFIG SET requirepass PASSWORD from this machine; 2) send CONFIG SET protected-mode no from \
                this machine, if the network is trusted; 3) start the server with --protected-mode no.\r\n"
            }
        };
        // The socket is new, so its buffer takes a line; if it does not, the client learns from the close.
        drop(stream.write(text));
    }
}

/// Whether a client from `address` may come in.
pub(crate) fn admit(settings: &Settings, connected: u64, address: IpAddr) -> Result<(), Refusal> {
    if connected >= u64::from(settings.maxclients) {
        return Err(Refusal::TooMany);
    }
    if settings.protected_mode && settings.requirepass.is_none() && !address.to_canonical().is_loopback() {
        return Err(Refusal::Protected);
    }
    Ok(())
}

/// The address as the log shows it.
pub(crate) fn describe(addresses: &[BindAddress]) -> String {
    addresses
        .iter()
        .map(|address| address.ip.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
