//! What the servers take of this machine while they are measured.

use std::net::SocketAddr;

use crate::process;
use crate::report::Server;
use crate::system;

/// One server, while it is measured.
#[derive(Debug)]
struct Watched {
    endpoint: String,
    address: SocketAddr,
    process: u32,
    /// Time on a processor when the process was first looked at.
    first: u64,
    last: u64,
    /// Of the processes that were here before.
    earlier: u64,
    resident: Option<u64>,
}

/// Processes of this machine that listen at some of these addresses.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    servers: Vec<Watched>,
}

impl Watch {
    /// Finds the processes. One that listens at several of the addresses counts once.
    pub(crate) fn find(addresses: impl IntoIterator<Item = (String, SocketAddr)>) -> Watch {
        let mut servers: Vec<Watched> = Vec::new();
        for (endpoint, address) in addresses {
            if let Some(process) = process::listener(address)
                && servers.iter().all(|known| known.process != process)
            {
                let nanos = system::cpu_nanos(process).unwrap_or(0);
                servers.push(Watched {
                    endpoint,
                    address,
                    process,
                    first: nanos,
                    last: nanos,
                    earlier: 0,
                    resident: None,
                });
            }
        }
        Watch { servers }
    }

    /// It is measured from here on.
    pub(crate) fn begin(&mut self) {
        for server in &mut self.servers {
            server.first = system::cpu_nanos(server.process).unwrap_or(0);
            server.last = server.first;
        }
    }

    /// Looks at all of them, and for those that have ended, whether there is another one in their place.
    pub(crate) fn look(&mut self) {
        for server in &mut self.servers {
            // A process that has ended and was not waited for has no memory.
            let resident = process::resident_bytes(server.process);
            match (system::cpu_nanos(server.process), resident) {
                (Some(nanos), Some(bytes)) => {
                    server.last = server.last.max(nanos);
                    server.resident = Some(bytes);
                }
                _ => {
                    server.resident = None;
                    if let Some(process) = process::listener(server.address) {
                        server.earlier += server.last - server.first;
                        server.process = process;
                        // It was started while it was measured.
                        server.first = 0;
                        server.last = system::cpu_nanos(process).unwrap_or(0);
                        server.resident = process::resident_bytes(process);
                    }
                }
            }
        }
    }

    /// What they took, for so many requests.
    pub(crate) fn servers(&self, requests: u64) -> Vec<Server> {
        let servers = self.servers.iter().map(|server| {
            let nanos = server.earlier + (server.last - server.first);
            Server {
                endpoint: server.endpoint.clone(),
                process: server.process,
                cpu_seconds: nanos as f64 / 1e9,
                cpu_us_per_request: (requests > 0).then(|| nanos as f64 / 1e3 / requests as f64),
                resident_bytes: server.resident,
            }
        });
        servers.collect()
    }
}
