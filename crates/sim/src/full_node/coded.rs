//! Values that are kept as fragments: how many there were, and what must be so of them when everything has come to rest.

use super::{FullNode, Holding};
use coding::{Code, Fragment, Gather, Gathered};
use gateway::ReplicaView;
use ids::{Db, SemanticsVersion};
use keyspace::{Given, GroupCode, Keyspace, WalkPlace};
use std::collections::BTreeSet;
use std::fmt;

/// Keys that are looked at in one go.
const WALKED: usize = 10_000;

/// How many values were kept as fragments, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coded {
    /// Values that were replaced by fragments.
    pub demoted: u64,
    /// Values that were made up of fragments, for reads and writes.
    pub gathered: u64,
    /// Fragments that were made of others.
    pub recoded: u64,
    /// Fragments that were found to be damaged.
    pub damaged: u64,
    /// Values of which too few fragments could be reached.
    pub lacking: u64,
}

impl Coded {
    /// Adds what there was elsewhere.
    pub fn add(&mut self, other: Coded) {
        self.demoted += other.demoted;
        self.gathered += other.gathered;
        self.recoded += other.recoded;
        self.damaged += other.damaged;
        self.lacking += other.lacking;
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} values demoted, {} gathered, {} recoded, {} damaged, {} lacking",
            self.demoted, self.gathered, self.recoded, self.damaged, self.lacking
        )
    }
}

impl FullNode {
    /// What its replicas did with fragments.
    pub(crate) fn coded(&self) -> Coded {
        let mut all = Coded::default();
        for counts in self.replica_views().map(|view| view.coding_counts()) {
            all.add(Coded {
                demoted: counts.demoted,
                gathered: counts.gathered,
                recoded: counts.recoded,
                damaged: counts.damaged,
                lacking: counts.lacking,
            });
        }
        all
    }
}

/// A group's code as a replica knows it, for the trace of a failure.
pub(super) fn describe(code: &GroupCode, view: &ReplicaView<'_>) -> String {
    let holders = code.holders.iter().map(|holder| match holder {
        Some(holder) => holder.0.to_string(),
        None => "-".to_owned(),
    });
    let holders: Vec<String> = holders.collect();
    let is_on = if code.is_on { "" } else { " off" };
    let settled = view.keyspace().settled_up_to().unwrap_or_default().0;
    let counts = view.coding_counts();
    let is_in = if counts.groups_filling > 0 { " filling" } else { "" };
    format!(
        "code {}{is_on} {} settled {settled}{is_in}, gathers {}",
        code.epoch.0,
        holders.join("/"),
        counts.gathering
    )
}

type FullKey = (Db, Box<[u8]>);

/// What must be so when everything has come to rest, if values are to be kept as fragments (`is_on`), or are not to be any more; nothing
/// where they are whole from beginning to end. Until a cluster's rules know of fragments there are none. Where groups have lost their majorities, values may be lost (`may_lack`).
pub(crate) fn check_coded(
    running: &[Option<&FullNode>],
    is_on: Option<bool>,
    may_lack: bool,
) -> Result<(), String> {
    let Some(is_on) = is_on else { return Ok(()) };
    let knows = |node: &&FullNode| node.semantics() >= Some(SemanticsVersion::CODING);
    let is_on = is_on && running.iter().flatten().any(knows);
    let views = || running.iter().flatten().flat_map(|node| node.replica_views());
    for leader in views() {
        let Some(member) = leader.member().filter(|member| member.leads()) else {
            continue;
        };
        let members = member.members();
        let all: Vec<ReplicaView<'_>> = views()
            .filter(|view| view.group == leader.group && members.voters.contains(&view.incarnation))
            .collect();
        let are_all_there =
            all.len() == members.voters.len() && members.learners.is_empty() && !members.is_joint();
        let checked = match is_on {
            true => check_on(&leader, &all, are_all_there, may_lack),
            false => check_off(&leader, may_lack),
        };
        // A learner may have the row of a voter whose place it is to take.
        let is_member =
            |view: &ReplicaView<'_>| view.group == leader.group && members.all().contains(&view.incarnation);
        let holders: Vec<ReplicaView<'_>> = views().filter(is_member).collect();
        let checked = checked.and_then(|()| check_values(&leader, &holders, may_lack));
        checked.map_err(|what| {
            format!(
                "group {} is at rest, and {what}; {}",
                leader.group.number(),
                super::describe(&leader)
            )
        })?;
    }
    Ok(())
}

fn check_on(
    leader: &ReplicaView<'_>,
    all: &[ReplicaView<'_>],
    are_all_there: bool,
    may_lack: bool,
) -> Result<(), String> {
    let Some(wanted) = Code::of_replicas(all.len()).filter(|_| are_all_there) else {
        return Ok(());
    };
    let keyspace = leader.keyspace();
    let Some(code) = keyspace.code() else {
        return Err("has no code".to_owned());
    };
    // What is lost can neither be made whole nor be cut anew.
    if may_lack {
        return Ok(());
    }
    if !code.is_on || code.code != wanted {
        return Err("does not keep values as fragments by the code for its replicas".to_owned());
    }
    let holders: BTreeSet<_> = code.holders.iter().flatten().collect();
    if holders.len() < code.holders.len() || !all.iter().all(|view| holders.contains(&view.incarnation)) {
        return Err("has not one row for each replica".to_owned());
    }
    let (settled, applied) = (keyspace.settled_up_to().unwrap_or_default(), keyspace.applied());
    if settled.0 + 2 < applied.0 {
        return Err(format!("has settled up to {} of {}", settled.0, applied.0));
    }
    for (db, key) in settled_keys(leader.keyspace()) {
        let whole = all.iter().filter(|view| view.incarnation != leader.incarnation);
        if let Some(view) = whole.clone().find(|view| !view.keyspace().is_coded(db, &key)) {
            return Err(format!(
                "{} is settled, and whole at {}",
                String::from_utf8_lossy(&key),
                view.incarnation.0
            ));
        }
    }
    Ok(())
}

fn check_off(leader: &ReplicaView<'_>, may_lack: bool) -> Result<(), String> {
    let Some(code) = leader.keyspace().code() else {
        return Ok(());
    };
    if code.is_on {
        return Err("keeps values as fragments still".to_owned());
    }
    match settled_keys(leader.keyspace()).first() {
        Some((_, key)) if !may_lack => Err(format!("{} is settled still", String::from_utf8_lossy(key))),
        _ => Ok(()),
    }
}

/// The code of a group that has values which are kept as fragments, or may be.
pub(super) fn code_in_use(keyspace: &Keyspace) -> Option<GroupCode> {
    let code = keyspace.code()?;
    (!settled_keys(keyspace).is_empty()).then(|| code.clone())
}

/// Whether values that are kept as fragments can be made up of what these replicas of a group have.
pub(super) fn are_made_up_of(holdings: &[&Holding]) -> bool {
    let codes = holdings.iter().filter_map(|holding| holding.coded.as_ref());
    let Some(newest) = codes.map(|(code, _)| code).max_by_key(|code| code.epoch) else {
        return true;
    };
    let has_row = |holding: &&&Holding| {
        let row = newest.row_of(holding.incarnation);
        holding.coded.as_ref().is_some_and(|(code, is_in)| {
            row.is_some() && code.row_of(holding.incarnation) == row && (*is_in || code.epoch < newest.epoch)
        })
    };
    holdings.iter().filter(has_row).count() >= newest.code.data()
}

fn settled_keys(keyspace: &Keyspace) -> Vec<FullKey> {
    let (mut settled, mut held) = (Vec::new(), Vec::new());
    let mut at: Option<WalkPlace> = None;
    loop {
        at = keyspace.find_settled(at, WALKED, &mut settled, &mut held);
        if at.is_none() {
            return settled;
        }
    }
}

/// Each settled value is made up of the fragments of those who are there, and where it is whole it is the same.
fn check_values(leader: &ReplicaView<'_>, all: &[ReplicaView<'_>], may_lack: bool) -> Result<(), String> {
    for (db, key) in settled_keys(leader.keyspace()) {
        let Some(version) = leader.keyspace().version_of(db, &key) else {
            continue;
        };
        let name = String::from_utf8_lossy(&key).into_owned();
        let mut rows = Vec::new();
        for view in all {
            if let Given::Fragment(bytes) = view.keyspace().fragment(db, &key, version) {
                let fragment = Fragment::read_shared(&bytes);
                rows.push(fragment.map_err(|error| format!("{name} has a fragment that is none: {error}"))?);
            }
        }
        let Some(head) = rows.first().map(|row| row.head) else {
            if may_lack {
                continue;
            }
            return Err(format!("there is nothing of {name}"));
        };
        let mut gather = Gather::new(head);
        for row in rows {
            // Two may have the same row for a while.
            let _ = gather.offer(row);
        }
        let mut whole = vec![0; gather.length()];
        match gather.decode(&mut whole) {
            Gathered::Whole { corrupt } if corrupt.is_empty() => {}
            _ if may_lack => continue,
            other => return Err(format!("{name} is not to be made up: {other:?}")),
        }
        for view in all {
            if let Some((_, bytes)) = view.keyspace().whole_part(db, &key)
                && bytes[..] != whole[..]
            {
                return Err(format!("{name} is another value at {}", view.incarnation.0));
            }
        }
    }
    Ok(())
}
