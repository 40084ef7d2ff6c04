//! What clients may know of each other.

use crate::shared::held;
use ids::NodeId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What `CLIENT LIST` shows of one connection. Its worker writes it with plain stores; any worker reads it.
pub struct ClientInfo {
    /// The client id: counts up and is never reused while the node runs, by no other node either.
    pub id: u64,
    /// The client's address.
    pub address: SocketAddr,
    /// The address it connected to.
    pub local_address: SocketAddr,
    /// The worker that owns the connection.
    pub worker: u16,
    /// The connection's place in its worker's table: [`crate::Session::token`].
    pub token: AtomicU64,
    /// The socket's number.
    pub descriptor: i32,
    /// When it connected, Unix milliseconds.
    pub connected_at: i64,
    /// `CLIENT SETNAME`, `CLIENT SETINFO`.
    pub labels: Mutex<Labels>,
    /// When its last command came, Unix milliseconds.
    pub active_at: AtomicI64,
    /// Number of its last command in the table.
    pub last_command: AtomicU16,
    /// The selected database.
    pub db: AtomicU8,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// Commands queued in a `MULTI` block, -1 outside of one.
    pub queued: AtomicI32,
    /// Watched keys.
    pub watched: AtomicU64,
    /// Channels, patterns and shard channels that it listens to.
    pub subscriptions: [AtomicU64; 3],
    /// `MONITOR`.
    pub is_monitor: AtomicBool,
    /// Bytes waiting to be read as commands.
    pub input_bytes: AtomicU64,
    /// Bytes waiting to be sent.
    pub output_bytes: AtomicU64,
    /// `CLIENT NO-EVICT ON`.
    pub no_evict: AtomicBool,
    /// `CLIENT NO-TOUCH ON`.
    pub no_touch: AtomicBool,
    /// `READONLY`.
    pub reads_at_replicas: AtomicBool,
    /// `CLIENT KILL` chose it: its worker is to close it.
    pub is_killed: AtomicBool,
    /// It waits for a key to be filled.
    pub is_blocked: AtomicBool,
    /// The connection has ended.
    pub(crate) is_gone: AtomicBool,
}

/// Names a client gave itself.
#[derive(Default, Clone)]
pub struct Labels {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
}

impl ClientInfo {
    /// The client info of a new connection.
    pub fn new(
        id: u64,
        address: SocketAddr,
        local_address: SocketAddr,
        worker: u16,
        descriptor: i32,
        now: i64,
    ) -> ClientInfo {
        ClientInfo {
            id,
            address,
            local_address,
            worker,
            token: AtomicU64::new(0),
            descriptor,
            connected_at: now,
            labels: Mutex::default(),
            active_at: AtomicI64::new(now),
            last_command: AtomicU16::new(u16::MAX),
            db: AtomicU8::new(0),
            protocol: AtomicU8::new(2),
            queued: AtomicI32::new(-1),
            watched: AtomicU64::new(0),
            subscriptions: Default::default(),
            is_monitor: AtomicBool::new(false),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            reads_at_replicas: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Notes a command. Plain stores: nobody orders anything by them.
    #[inline]
    pub fn note_command(&self, command: u16, now: i64) {
        self.last_command.store(command, Ordering::Relaxed);
        self.active_at.store(now, Ordering::Relaxed);
    }

    /// Notes whether it waits for a key to be filled.
    pub fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// The names.
    pub fn labels(&self) -> std::sync::MutexGuard<'_, Labels> {
        held(&self.labels)
    }
}

/// All connections of the node. Locked when one comes or goes, and by `CLIENT LIST` and its kin: never per
/// command.
#[derive(Default)]
pub struct Clients {
    infos: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    next_id: AtomicU64,
    /// Ids are above this one.
    base: AtomicU64,
    count: AtomicU64,
}

impl Clients {
    /// A new client id.
    pub fn next_id(&self) -> u64 {
        self.base.load(Ordering::Relaxed) + self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Tells which node of a cluster this is, so that no two nodes give out the same ids: the node's number stands above
    /// the lower 36 bits, the first node's being zero. Told before any client comes.
    pub fn set_node(&self, node: NodeId) {
        let number = node.0.saturating_sub(1);
        self.base.store(number << 36, Ordering::Relaxed);
    }

    /// How many are connected.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a connection that is about to be made.
    pub fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that ended.
    pub fn leave(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Shows a connection to the others.
    pub fn add(&self, info: Arc<ClientInfo>) {
        self.lock().insert(info.id, info);
    }

    /// Hides it again: the connection has ended.
    pub fn remove(&self, id: u64) {
        if let Some(info) = self.lock().remove(&id) {
            info.is_gone.store(true, Ordering::Relaxed);
        }
    }

    /// The one with this number.
    pub fn find(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.lock().get(&id).cloned()
    }

    /// The one with this place at a worker, unless it has ended.
    pub(crate) fn at(&self, worker: u16, connection: u64) -> Option<Arc<ClientInfo>> {
        let is_it = |info: &&Arc<ClientInfo>| {
            info.worker == worker && info.token.load(Ordering::Relaxed) == connection
        };
        self.lock().values().find(is_it).cloned()
    }

    /// All of them, by id.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<ClientInfo>>> {
        held(&self.infos)
    }
}
