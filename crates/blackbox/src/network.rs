//! Network namespaces for nodes, joined by a bridge that this process reaches too.
//!
//! ```text
//!   this process -- bridge 10.X.Y.254 --+-- veth -- namespace of node 0: 10.X.Y.1
//!                                       +-- veth -- namespace of node 1: 10.X.Y.2 ...
//! ```
//!
//! A node is cut off from another by a route that swallows what it sends there: one way alone, and without a filter, so
//! that nothing but `ip` is needed. Clients reach every node always: what they see is what is tested.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::serial;

/// Nodes that one network has addresses for.
const NODES_MAX: usize = 199;

/// Where the bridge itself is.
const BRIDGE: u8 = 254;

/// Its address on the link, which is its alone.
const BRIDGE_LINK: &str = "02:00:00:00:00:fe";

/// What the names of all bridges and namespaces begin with. Interfaces have at most 15 letters.
const NAME: &str = "chb";

/// See the file's header. Dropping it removes everything.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    subnet: [u8; 2],
    /// The last number of each node's address.
    nodes: Vec<u8>,
    /// What names mean, as in a file of hosts.
    names: String,
}

impl Network {
    /// A bridge without nodes.
    ///
    /// # Errors
    /// What `ip` says.
    pub(crate) fn new() -> Result<Network, String> {
        let number = u64::from(std::process::id()) + serial() * 7919;
        let subnet = [200 + (number / 250 % 50) as u8, (number % 250) as u8];
        let network = Network {
            name: format!("{NAME}{:x}", number & 0xf_ffff),
            subnet,
            nodes: Vec::new(),
            names: String::new(),
        };
        let bridge = &network.name;
        // Without one of its own it takes the lowest address of its ports, and another one whenever a lower one comes.
        ip(&format!("link add {bridge} address {BRIDGE_LINK} type bridge"))?;
        ip(&format!("addr add {}/24 dev {bridge}", network.at(BRIDGE)))?;
        ip(&format!("link set {bridge} up"))?;
        Ok(network)
    }

    fn at(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.subnet[0], self.subnet[1], last)
    }

    /// Where a node is now.
    fn address(&self, node: usize) -> Ipv4Addr {
        self.at(self.nodes[node])
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    /// Another namespace, and its address.
    pub(crate) fn add(&mut self) -> Result<Ipv4Addr, String> {
        let node = self.nodes.len();
        if node == NODES_MAX {
            return Err(format!("a network has at most {NODES_MAX} nodes"));
        }
        let (bridge, namespace) = (&self.name, self.namespace(node));
        let outside = format!("{bridge}v{node}");
        ip(&format!("netns add {namespace}"))?;
        self.nodes.push(node as u8 + 1);
        let address = self.address(node);
        ip(&format!(
            "link add {outside} type veth peer name inside netns {namespace}"
        ))?;
        ip(&format!("link set {outside} master {bridge} up"))?;
        ip(&format!("-n {namespace} link set lo up"))?;
        ip(&format!("-n {namespace} addr add {address}/24 dev inside"))?;
        ip(&format!("-n {namespace} link set inside up"))?;
        self.route_default(node)?;
        self.write_names(node)?;
        Ok(address)
    }

    /// As a machine has one: it tells which address the machine is reached at.
    fn route_default(&self, node: usize) -> Result<(), String> {
        let (namespace, bridge) = (self.namespace(node), self.at(BRIDGE));
        ip(&format!("-n {namespace} route add default via {bridge}"))
    }

    /// Gives a node another address, in place of the one that it has: the lowest behind those of nodes that stay which nobody has, so that
    /// it may be one that another node had before.
    pub(crate) fn readdress(&mut self, node: usize) -> Result<Ipv4Addr, String> {
        let mut free = NODES_MAX as u8 + 1..BRIDGE;
        let last = free.find(|last| !self.nodes.contains(last));
        self.nodes[node] = last.ok_or("all addresses are taken")?;
        let (namespace, address) = (self.namespace(node), self.address(node));
        ip(&format!("-n {namespace} addr flush dev inside"))?;
        ip(&format!("-n {namespace} addr add {address}/24 dev inside"))?;
        self.route_default(node)?;
        // A machine announces itself at an address that is new to it. Without that, others would send to whoever had it before.
        ip(&format!("neigh flush dev {}", self.name))?;
        for other in 0..self.nodes.len() {
            ip(&format!("-n {} neigh flush dev inside", self.namespace(other)))?;
        }
        Ok(address)
    }

    /// What names mean in all namespaces, from now on.
    pub(crate) fn set_names(&mut self, names: &[(String, Ipv4Addr)]) -> Result<(), String> {
        let lines = names.iter().map(|(name, address)| format!("{address} {name}\n"));
        self.names = lines.collect();
        (0..self.nodes.len()).try_for_each(|node| self.write_names(node))
    }

    /// Writes what `ip netns exec` shows to a program in place of the machine's own: to those that run, too, as it is the same file.
    fn write_names(&self, node: usize) -> Result<(), String> {
        let directory = self.names_of(node);
        let text = format!("127.0.0.1 localhost\n{}", self.names);
        // Name servers cannot be reached from there, and would be waited for.
        let written = fs::create_dir_all(&directory)
            .and_then(|()| fs::write(directory.join("hosts"), text.as_bytes()))
            .and_then(|()| fs::write(directory.join("nsswitch.conf"), "hosts: files\n"));
        written.map_err(|error| format!("{}: {error}", directory.display()))
    }

    fn names_of(&self, node: usize) -> PathBuf {
        Path::new("/etc/netns").join(self.namespace(node))
    }

    /// A program in the namespace of a node. It becomes the process itself, so that signals reach it.
    pub(crate) fn command(&self, node: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace(node)])
            .arg(program);
        command
    }

    /// Swallows what one node sends to the other.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<(), String> {
        self.route("replace", from, to)
    }

    /// Ends [`Network::cut`].
    pub(crate) fn mend(&self, from: usize, to: usize) -> Result<(), String> {
        self.route("del", from, to)
    }

    fn route(&self, verb: &str, from: usize, to: usize) -> Result<(), String> {
        let (namespace, to) = (self.namespace(from), self.address(to));
        ip(&format!("-n {namespace} route {verb} blackhole {to}/32"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The interfaces of a namespace go with it.
        for node in 0..self.nodes.len() {
            let _ = ip(&format!("netns del {}", self.namespace(node)));
            let _ = fs::remove_dir_all(self.names_of(node));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

/// Carries `ip` out, as root.
///
/// # Errors
/// What it says.
pub fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split(' ')).output();
    let done = done.map_err(|error| format!("ip {words}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!(
        "ip {words}: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    ))
}
