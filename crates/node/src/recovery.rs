//! What an operator orders when majorities are gone: groups of keys begin anew on a running node's word, the meta group on the
//! disk of a node that is stopped.

use crate::meta::{self, Input, Results};
use crate::random;
use crate::status::{nodes_up, stats};
use crate::view::View;
use admin::{RecoverRequest, Recovered};
use control::{Failure, GroupRef, MetaCommand, MetaRefusal, RecoveredMeta};
use gateway::Shared;
use ids::{Boot, GroupId, Incarnation, NodeId};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use storage::{DataDirectory, Identity, Snapshot};

/// How long an operator waits for the meta group. What is not done by then may still be done.
const RECOVERY_TIME_MAX: Duration = Duration::from_secs(60);

/// How long another node's peer port is tried.
const CALL_TIME_MAX: Duration = Duration::from_secs(1);

/// Has the meta group begin groups anew, one after the other.
pub(crate) fn recover(
    shared: &Shared,
    view: &View,
    me: NodeId,
    inputs: &mpsc::Sender<Input>,
    recovery: &RecoverRequest,
) -> Result<Recovered, String> {
    let seen = view.seen().ok_or("this node knows no map yet")?;
    if view.remains().is_leaderless {
        return Err("nobody leads the meta group, which must decide this".to_owned());
    }
    let up = nodes_up(&stats(shared), &seen.map, me);
    for node in up {
        let boot = seen.map.nodes.get(&node).map(|site| site.boot.0);
        if boot.is_some_and(|boot| recovery.gone.contains(&boot)) {
            return Err(format!("node {} is up: it is not gone", node.0));
        }
    }
    let groups = seen.map.groups.len();
    if let Some(unknown) = recovery
        .groups
        .iter()
        .find(|renewal| usize::from(renewal.group) >= groups)
    {
        return Err(format!("there is no group {}", unknown.group));
    }
    let gone = recovery
        .gone
        .iter()
        .map(|&boot| MetaCommand::Gone { boot: Boot(boot) });
    let renewals = recovery.groups.iter().map(|renewal| MetaCommand::Recover {
        group: GroupRef::Data(GroupId::new(renewal.group)),
        node: NodeId(renewal.node),
        recovery_source: renewal.recovery_source.map(Incarnation),
    });
    let commands: Vec<MetaCommand> = gone.chain(renewals).collect();
    tracing::warn!(
        gone = ?recovery.gone,
        groups = recovery.groups.len(),
        "an operator has groups begin anew"
    );
    let (reply, results) = mpsc::channel();
    inputs
        .send(Input::Orders(commands.clone(), reply))
        .map_err(|_| "the node stops")?;
    let results: Results = results
        .recv_timeout(RECOVERY_TIME_MAX)
        .map_err(|_| "no word from the meta group in time: look at the status before you try again")?;
    let mut recovered = Recovered::default();
    for (command, result) in commands.iter().zip(results) {
        match (command, result) {
            (
                MetaCommand::Recover {
                    group: GroupRef::Data(group),
                    ..
                },
                Ok(_),
            ) => {
                recovered.groups.push(group.number());
            }
            (_, Ok(_)) => {}
            (command, Err(failure)) => recovered.refused.push(words(command, failure)),
        }
    }
    Ok(recovered)
}

fn words(command: &MetaCommand, failure: Failure) -> String {
    let what = match command {
        MetaCommand::Recover {
            group: GroupRef::Data(group),
            ..
        } => format!("group {}", group.number()),
        MetaCommand::Gone { boot } => format!("start {} of a node", boot.0),
        _ => "an order".to_owned(),
    };
    let why = match failure {
        Failure::Refused(MetaRefusal::NotNeeded) => "has its majority",
        Failure::Refused(MetaRefusal::Unknown) => "is not as it was when the plan was made: ask for another",
        Failure::Refused(MetaRefusal::Last) => "cannot be done without by the meta group",
        Failure::Refused(_) => "was refused",
        Failure::NotDone => "was not dealt with",
        Failure::Unknown => "may or may not have been dealt with: look at the status",
    };
    format!("{what} {why}")
}

/// What the meta group's new beginning means, or that it has been made.
pub struct MetaRecovery {
    /// This node.
    pub node: u64,
    /// The version of the map that it knows.
    pub epoch: u64,
    /// Entries of its log that were not known to be committed, and count from now on.
    pub uncommitted: u64,
    /// The nodes that had the other voters.
    pub others: Vec<u64>,
    /// Whether it was done.
    pub is_done: bool,
}

/// Makes the node with this data directory the only voter of the meta group, in a new generation; without `is_confirmed` only
/// says what that would mean.
///
/// # Errors
/// Why that cannot be, for an operator.
pub fn recover_meta(path: &Path, is_confirmed: bool) -> Result<MetaRecovery, String> {
    let shown = path.display();
    if !path.is_dir() {
        return Err(format!("there is no directory {shown}"));
    }
    let directory = DataDirectory::open(path).map_err(|error| {
        format!(
            "{error}; stop the node by SIGTERM first: it leaves its data in its directory, and has them again"
        )
    })?;
    let disk = directory.disk();
    let identity = Identity::read(&disk).map_err(|error| error.to_string())?;
    let identity = identity.ok_or_else(|| format!("{shown} is not the data directory of a node"))?;
    let (log, restored) = meta::restored(&disk).map_err(|error| error.to_string())?;
    let (Some(mut log), Some(restored)) = (log, restored) else {
        return Err(format!(
            "node {} is no member of the meta group: use the directory of a node that is",
            identity.node.0
        ));
    };
    let [chance] =
        random::secret::<1>().map_err(|error| format!("cannot read the system's randomness: {error}"))?;
    let recovered = RecoveredMeta::of(&restored, identity.node, chance).ok_or_else(|| {
        format!(
            "node {} is the only voter of the meta group, or none of it: there is nothing to recover",
            identity.node.0
        )
    })?;
    for (node, peer) in &recovered.others {
        let addresses = peer.to_socket_addrs().into_iter().flatten();
        for address in addresses {
            if TcpStream::connect_timeout(&address, CALL_TIME_MAX).is_ok() {
                return Err(format!(
                    "somebody answers at {address}, the peer port of node {}, which is a voter too. If a majority of the \
                     voters is there, nothing is to be recovered; if not, stop that node first, and start it again when this \
                     one is back",
                    node.0
                ));
            }
        }
    }
    if is_confirmed {
        let RecoveredMeta { point, state, .. } = recovered.clone();
        log.write_snapshot(Snapshot { point, state })
            .map_err(|error| error.to_string())?;
    }
    Ok(MetaRecovery {
        node: identity.node.0,
        epoch: recovered.epoch,
        uncommitted: recovered.uncommitted,
        others: recovered.others.iter().map(|(node, _)| node.0).collect(),
        is_done: is_confirmed,
    })
}
