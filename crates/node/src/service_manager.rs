//! What a service manager is told that asks for it, as systemd does with `Type=notify`: when the node is ready for clients, when it stops, and
//! what it waits for meanwhile. It is told in datagrams to the socket that `NOTIFY_SOCKET` names (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the node stands, in words for an operator.
pub(crate) fn tell_status(status: &str) {
    tell(&format!("STATUS={status}"));
}

/// The node serves clients.
pub(crate) fn tell_ready() {
    tell("READY=1\nSTATUS=ready for clients");
}

/// The node has begun to stop.
pub(crate) fn tell_stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
}

fn tell(state: &str) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&name, state)
    {
        // It serves clients all the same.
        tracing::debug!(%error, "a service manager could not be told where the node stands");
    }
}

/// It waits for nobody: a manager that does not read is not told.
fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address(name)?).map(drop)
}

/// A path; or behind an `@` a name that is no file, where there are such.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_encoded_bytes().strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;

    #[test]
    fn a_manager_is_told_at_a_name_that_is_no_file() {
        let name = format!("chorale-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"READY=1");
        assert!(send(OsStr::new("/no/such/socket"), "READY=1").is_err());
    }
}
