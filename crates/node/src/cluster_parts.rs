//! The parts of a node that know of other nodes: the links of each worker, and the thread of the meta group.

use crate::bootstrap::Bootstrapped;
use crate::brought_setting::BroughtSetting;
use crate::clock;
use crate::disk::Disk;
use crate::handover;
use crate::keeping::{Keeping, Owner};
use crate::kept::{self, NewLogs};
use crate::mailboxes::Mailboxes;
use crate::meta::{self, Desk, Input, Outbox};
use crate::peers::{Handed, Peers};
use crate::random;
use crate::view::View;
use control::{Beginning, GroupRef, Started};
use gateway::{Gateway, Shared};
use ids::{GroupId, NodeId, Token};
use mio::Poll;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use storage::DataDirectory;

/// See the file's header.
pub(crate) struct ClusterParts {
    /// One for each worker.
    pub(crate) peers: VecDeque<Peers>,
    pub(crate) inputs: mpsc::Sender<Input>,
    thread: JoinHandle<()>,
    /// Locked as long as the node runs.
    pub(crate) directory: DataDirectory,
    pub(crate) node: NodeId,
    token: Token,
    pub(crate) keeping: Arc<Keeping>,
    /// One for each worker, in modes that keep anything.
    pub(crate) disks: VecDeque<Disk>,
}

/// The groups of keys that begin on this node with nothing.
fn founded(started: &Started) -> impl Iterator<Item = GroupId> {
    let replicas = started.replicas.iter();
    let founded = replicas.filter(|replica| replica.beginning == Beginning::BootstrapReplica);
    founded.filter_map(|replica| match replica.group {
        GroupRef::Data(group) => Some(group),
        GroupRef::Meta => None,
    })
}

impl ClusterParts {
    pub(crate) fn begin(
        bootstrapped: Bootstrapped,
        peer_address: Option<SocketAddr>,
        view: Arc<View>,
        mailboxes: &Arc<Mailboxes>,
        shared: &Arc<Shared>,
        polls: &[Poll],
    ) -> io::Result<ClusterParts> {
        let Bootstrapped {
            directory,
            own,
            token,
            started,
            driver,
            resolver,
            map,
            book,
            announcement,
            groups,
            durability,
            kept,
        } = bootstrapped;
        let node = own.node;
        let mut disks = VecDeque::new();
        if durability.writes() {
            let logs = NewLogs {
                disk: directory.disk(),
                mode: durability,
                cluster: own.cluster,
                node,
                token,
                groups,
                kept,
                founded: founded(&started).collect(),
            };
            disks = logs.begin(polls.len() as u16, mailboxes)?.into();
        } else {
            kept::keep_nothing(&directory.disk()).map_err(io::Error::other)?;
        }
        let owner = Owner {
            cluster: own.cluster,
            node,
            token,
            groups,
        };
        let keeping = Keeping::new(
            directory.disk(),
            owner,
            durability,
            mailboxes.clone(),
            shared.clone(),
        );
        let keeping = Arc::new(keeping);
        let (inputs, received) = mpsc::channel();
        let outbox = Arc::new(Outbox::default());
        let handed: Handed = Arc::new(polls.iter().map(|_| Mutex::default()).collect());
        let mut peers = VecDeque::new();
        for (worker, poll) in (0..).zip(polls) {
            let registry = poll.registry().try_clone()?;
            let seed = random::secret::<1>()?[0];
            let mut links = Peers::new(
                &own,
                worker,
                registry,
                view.clone(),
                resolver.clone(),
                handed.clone(),
                inputs.clone(),
                outbox.clone(),
                seed,
            );
            if let (0, Some(address)) = (worker, peer_address) {
                links.listen(address)?;
            }
            peers.push_back(links);
        }
        let settings = driver.settings();
        let given = shared.settings();
        let is_alone = map.nodes.len() == 1;
        let password = BroughtSetting::password(given.requirepass.as_deref(), settings.as_deref(), is_alone);
        let coding = BroughtSetting::coding(given.coding, settings.as_deref());
        let brought = [password, coding].into_iter().flatten().collect();
        let desk = Desk {
            view,
            outbox,
            mailboxes: mailboxes.clone(),
            shared: shared.clone(),
            started,
            keeping: keeping.clone(),
            disk: directory.disk(),
            book: Mutex::new(book),
            brought,
        };
        // Before there are workers: nobody is to be let in without the cluster's password.
        if let Some(settings) = settings {
            desk.set(&settings);
        }
        tracing::info!(
            cluster = format!("{:032x}", own.cluster.0),
            node = own.node.0,
            boot = own.boot.0,
            client = announcement.client,
            cluster_endpoint = announcement.cluster,
            peer = announcement.peer,
            "this node is a member, and announces these addresses"
        );
        desk.show(map);
        let thread = std::thread::Builder::new()
            .name("meta".to_owned())
            .spawn(move || meta::run(driver, &received, &desk))?;
        Ok(ClusterParts {
            peers,
            inputs,
            thread,
            directory,
            node,
            token,
            keeping,
            disks,
        })
    }

    /// Ends, and leaves the data to the next start, if they are given. Where they are kept anyway, the run has ended well if
    /// `is_clean`.
    pub(crate) fn end(self, gateways: Option<Vec<Gateway>>, is_clean: bool) {
        // It may have ended by itself, because its log could not be written.
        drop(self.inputs.send(Input::Stop));
        drop(self.thread.join());
        if self.keeping.keeps_all() {
            if is_clean && let Err(error) = storage::set_clean(&self.directory.disk()) {
                tracing::error!(%error, "the next start will take this one for one that was killed");
            }
            return;
        }
        let Some(gateways) = gateways else { return };
        // The mark first: a start would miss logs that are gone. But logs that were begun and are not all there yet may fill the disk.
        let disk = self.directory.disk();
        let keep_nothing = || kept::keep_nothing(&disk);
        let is_kept =
            keep_nothing().or_else(|_| storage::remove_replicas(&disk).and_then(|()| keep_nothing()));
        if let Err(error) = is_kept {
            tracing::error!(%error, "the data cannot be handed over to the next start: the mark of this run cannot be written");
            return;
        }
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        let now = clock::raw();
        for gateway in gateways {
            let (some, others) = gateway.into_handover_images(now);
            kept.extend(some);
            lost.extend(others.iter().map(|group| group.number()));
        }
        if !lost.is_empty() {
            tracing::error!(groups = ?lost, "not handed over, because a transaction in these groups has not ended");
        }
        if let Err(error) = handover::leave(self.directory.disk(), self.node, &[self.token], kept) {
            tracing::error!(
                %error,
                "the data could not be handed over to the next start: what no other node holds is lost"
            );
        }
    }
}
