//! The cluster as a backup sees it: whom to ask, and for what.

use std::collections::BTreeMap;

use crate::BackupError;

/// Nodes and groups.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClusterMembers {
    /// The cluster's name: 32 digits, or empty.
    pub cluster: String,
    /// All nodes.
    pub nodes: Vec<MemberNode>,
    /// All groups.
    pub groups: Vec<MemberGroup>,
    /// What `CONFIG SET` has set, but for secrets: by name.
    pub settings: BTreeMap<String, String>,
    /// Names of the secrets that it has set.
    pub secrets: Vec<String>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberNode {
    /// Its id.
    pub id: u64,
    /// `HOST:PORT` of its any-node endpoint; empty if that is not known.
    pub client: String,
    /// Whether it is heard of.
    pub is_up: bool,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberGroup {
    /// Its number.
    pub number: u16,
    /// Which node leads it, if one does.
    pub leader: Option<u64>,
    /// The nodes with a replica that votes.
    pub voters: Vec<u64>,
}

impl ClusterMembers {
    /// Where clients reach the nodes that are up.
    ///
    /// # Errors
    /// None is.
    pub(crate) fn addresses(&self) -> Result<Vec<String>, BackupError> {
        let up = self
            .nodes
            .iter()
            .filter(|node| node.is_up && !node.client.is_empty());
        let addresses: Vec<String> = up.map(|node| node.client.clone()).collect();
        if addresses.is_empty() {
            return Err(BackupError::Failed(
                "no node is up whose port for clients is known: chorale admin status shows them".to_owned(),
            ));
        }
        Ok(addresses)
    }

    /// Which node copies which groups, by its address: a follower that votes, else the leader; each about as many.
    ///
    /// # Errors
    /// A group has nobody who could.
    pub(crate) fn sources(&self) -> Result<BTreeMap<String, Vec<u16>>, BackupError> {
        let mut sources: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
        for group in &self.groups {
            let candidates = self
                .nodes
                .iter()
                .filter(|node| node.is_up && !node.client.is_empty() && group.voters.contains(&node.id));
            // Followers first: a leader has work of its own.
            let chosen = candidates.min_by_key(|node| {
                let load = sources.get(node.client.as_str()).map_or(0, Vec::len);
                (group.leader == Some(node.id), load)
            });
            let Some(node) = chosen else {
                return Err(BackupError::Failed(format!(
                    "group {} has no replica on a node that is up: chorale admin status says what is the matter",
                    group.number
                )));
            };
            sources.entry(&node.client).or_default().push(group.number);
        }
        if sources.is_empty() {
            return Err(BackupError::Failed(
                "the cluster shows no groups: is the node still starting? Try again in a moment".to_owned(),
            ));
        }
        let owned = sources
            .into_iter()
            .map(|(address, groups)| (address.to_owned(), groups));
        Ok(owned.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> ClusterMembers {
        let node = |id: u64| MemberNode {
            id,
            client: format!("n{id}"),
            is_up: true,
        };
        let group = |number: u16, leader: u64| MemberGroup {
            number,
            leader: Some(leader),
            voters: vec![1, 2, 3],
        };
        ClusterMembers {
            cluster: String::new(),
            nodes: vec![node(1), node(2), node(3)],
            groups: (0..6)
                .map(|number| group(number, u64::from(number % 3) + 1))
                .collect(),
            ..ClusterMembers::default()
        }
    }

    #[test]
    fn followers_copy_and_each_about_as_many_groups() {
        let sources = members().sources().unwrap();
        for groups in sources.values() {
            assert_eq!(groups.len(), 2, "{sources:?}");
        }
        assert!(!sources["n1"].contains(&0), "{sources:?}");
    }

    #[test]
    fn a_leader_copies_where_nobody_else_can_and_a_group_without_anybody_is_an_error() {
        let mut members = members();
        members.nodes[1].is_up = false;
        members.nodes[2].is_up = false;
        assert_eq!(members.sources().unwrap()["n1"], [0, 1, 2, 3, 4, 5]);
        members.groups[4].voters = vec![2, 3];
        let Err(BackupError::Failed(why)) = members.sources() else {
            panic!("nobody has group 4")
        };
        assert!(why.starts_with("group 4 has no replica"), "{why}");
    }
}
