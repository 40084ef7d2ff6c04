//! What a command line names as the place of backups, and who asks for them to stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backup::{BackupTarget, ClusterMembers, DirectoryTarget, MemberGroup, MemberNode, S3Target};

use crate::{admin_client, http};
use admin::{ClusterView, ReplicaRole};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What every help text says of a target.
pub(crate) const TARGET_HELP: &str = "A directory of this machine, or s3://BUCKET/PREFIX";

/// How S3 is reached, for help texts.
pub(crate) const S3_HELP: &str = "\
S3 takes its credentials from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, and for
servers other than Amazon's AWS_ENDPOINT_URL. AWS_CA_BUNDLE names certificates to trust instead of the system's.";

/// Opens a target.
///
/// # Errors
/// It is none, in words that say what to do.
pub(crate) fn open(text: &str) -> Result<Box<dyn BackupTarget>, String> {
    if text.starts_with("s3://") {
        let target = S3Target::from_environment(text, |name| std::env::var(name).ok());
        return target
            .map(|target| Box::new(target) as Box<dyn BackupTarget>)
            .map_err(|error| error.to_string());
    }
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(format!(
            "{scheme}:// is no target: name a directory, or s3://BUCKET/PREFIX"
        ));
    }
    let path = Path::new(text);
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    // A disk that is not mounted must not become a directory of the root.
    if !path.is_dir() && above.is_some_and(|above| !above.is_dir()) {
        return Err(format!(
            "there is no directory for {text} to be made in: make it first, or look whether its disk is mounted"
        ));
    }
    Ok(Box::new(DirectoryTarget::new(path)))
}

/// The same of one that is to be read: it must be there.
pub(crate) fn open_existing(text: &str) -> Result<Box<dyn BackupTarget>, String> {
    if !text.contains("://") && !Path::new(text).is_dir() {
        return Err(format!("there is no directory {text}: is its disk mounted?"));
    }
    open(text)
}

/// A flag that is set when somebody wants the command to stop; the second time the process ends at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("cannot be told of signals: {error}"))?;
    }
    Ok(stop)
}

/// The password of the nodes' clients, if there is one.
pub(crate) fn password() -> Option<String> {
    std::env::var(http::PASSWORD_VARIABLE)
        .ok()
        .filter(|password| !password.is_empty())
}

/// The cluster that the node with this admin port is in.
pub(crate) fn members(address: &str) -> Result<ClusterMembers, String> {
    let view = admin_client::cluster(address)?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Ok(members_of(&view, host))
}

fn members_of(view: &ClusterView, host: &str) -> ClusterMembers {
    let voters = |replicas: &[admin::ReplicaStatus]| {
        let voters = replicas
            .iter()
            .filter(|replica| replica.role == ReplicaRole::Voter);
        voters.map(|replica| replica.node).collect()
    };
    ClusterMembers {
        cluster: view.cluster.clone(),
        nodes: view
            .nodes
            .iter()
            .map(|node| MemberNode {
                id: node.id,
                client: reachable(&node.client, host),
                is_up: node.is_up,
            })
            .collect(),
        groups: view
            .groups
            .iter()
            .map(|group| MemberGroup {
                number: group.number,
                leader: group.leader,
                voters: voters(&group.replicas),
            })
            .collect(),
    }
}

/// A node that listens at every address of its machine names none: the host that answers us is one.
fn reachable(client: &str, host: &str) -> String {
    match client.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]" | "", port)) => format!("{host}:{port}"),
        _ => client.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_directory_or_a_bucket() {
        let wrong = |text: &str| open(text).err().unwrap_or_default();
        assert!(wrong("ftp://host/x").starts_with("ftp:// is no target"));
        assert!(wrong("/no/such/folder/backups").contains("is mounted"));
        assert!(open("backups").is_ok(), "it is made here");
        assert!(open_existing("/no/such/folder").is_err());
    }

    #[test]
    fn a_node_that_names_no_host_is_where_we_asked() {
        assert_eq!(reachable("0.0.0.0:6379", "10.0.0.7"), "10.0.0.7:6379");
        assert_eq!(reachable("10.0.0.8:6379", "10.0.0.7"), "10.0.0.8:6379");
        assert_eq!(reachable("", "10.0.0.7"), "");
    }
}
