//! What is asked of the kernel for each socket.

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// Silence after which the kernel asks whether the peer is there, how often, and how many times in vain. A peer whose
/// machine is gone is noticed by heartbeats much sooner; this is for links that nobody needs.
const KEEPALIVE_TIME: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long bytes may stay unacknowledged before the kernel gives the link up.
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that the kernel takes beyond what is on the way: more of them would stand before each heartbeat.
const NOT_SENT_BYTES: u32 = 128 * 1024;
/// Peers that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Sets the options of a connected socket.
pub(crate) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    if cfg!(target_os = "linux") {
        set_linux_options(&socket)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn set_linux_options(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES)
}

#[cfg(not(target_os = "linux"))]
fn set_linux_options(_: &Socket) -> io::Result<()> {
    Ok(())
}

/// Whether a socket that was dialled is connected by now.
pub(crate) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a listening socket.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A node that starts again must get its port, whatever connections of the last one linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}
