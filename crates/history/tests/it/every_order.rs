//! The slow and plain way: every order of a few transactions that respects real time, on one machine.

use history::{Outcome, Transaction, Transactions, exposed, list_append};
use std::collections::{BTreeMap, BTreeSet};

/// A machine that can say whether a transaction could be the next on it.
trait Machine: Clone {
    type Action;

    /// Does it. `None` if what the transaction was told is not what it would have been told.
    fn apply(&self, transaction: &Transaction<Self::Action>) -> Option<Self>;
}

#[derive(Clone, Default)]
struct Lists(BTreeMap<String, Vec<i64>>);

impl Machine for Lists {
    type Action = list_append::Action;

    fn apply(&self, transaction: &Transaction<list_append::Action>) -> Option<Lists> {
        let mut lists = self.clone();
        for action in &transaction.actions {
            match action {
                list_append::Action::Append { key, element } => {
                    lists.0.entry(key.clone()).or_default().push(*element);
                }
                list_append::Action::Read { key, elements } => {
                    let held = lists.0.get(key).cloned().unwrap_or_default();
                    let told = elements
                        .as_ref()
                        .filter(|_| transaction.outcome == Outcome::Committed);
                    if told.is_some_and(|told| *told != held) {
                        return None;
                    }
                }
            }
        }
        Some(lists)
    }
}

#[derive(Clone)]
enum Version {
    Known(u64),
    /// Some version above this one, that no transaction says it left.
    Above(u64),
}

#[derive(Clone)]
struct Versions<'a> {
    keys: BTreeMap<String, Version>,
    said: &'a BTreeSet<(String, u64)>,
}

impl Machine for Versions<'_> {
    type Action = exposed::Action;

    fn apply(&self, transaction: &Transaction<exposed::Action>) -> Option<Self> {
        let mut next = self.clone();
        let is_told = transaction.outcome == Outcome::Committed;
        for action in &transaction.actions {
            let key = action.key().to_owned();
            let held = next.keys.entry(key.clone()).or_insert(Version::Known(0));
            let (read, left) = match *action {
                exposed::Action::Read { version, .. } => (Some(version), None),
                exposed::Action::Update { read, left, .. } => (Some(read), Some(Some(left))),
                exposed::Action::Write { left, .. } => (None, Some(left)),
            };
            match (read, &held) {
                (Some(read), Version::Known(held)) if is_told && read != *held => return None,
                (Some(read), Version::Above(least)) if is_told => {
                    if read <= *least || self.said.contains(&(key, read)) {
                        return None;
                    }
                    *held = Version::Known(read);
                }
                _ => {}
            }
            let (Version::Known(least) | Version::Above(least)) = *held;
            match left {
                Some(Some(left)) if left <= least => return None,
                Some(Some(left)) => *held = Version::Known(left),
                Some(None) => *held = Version::Above(least),
                None => {}
            }
        }
        Some(next)
    }
}

/// Whether lists of appended elements are strictly serializable.
pub(crate) fn explains_lists(history: &Transactions<list_append::Action>) -> bool {
    can_go_on(&Lists::default(), &possible(history))
}

/// Whether versions are strictly serializable. Each key begins with the smallest version that was read if nobody left that
/// or a smaller one, otherwise with 0.
pub(crate) fn explains_versions(history: &Transactions<exposed::Action>) -> bool {
    let mut said = BTreeSet::new();
    let mut read: BTreeMap<String, u64> = BTreeMap::new();
    for transaction in history.as_slice() {
        for action in &transaction.actions {
            let key = action.key().to_owned();
            let (exposed::Action::Write { left: Some(left), .. } | exposed::Action::Update { left, .. }) =
                action
            else {
                continue;
            };
            said.insert((key, *left));
        }
    }
    for transaction in history.as_slice() {
        for action in &transaction.actions {
            if let exposed::Action::Read { version, .. } | exposed::Action::Update { read: version, .. } =
                action
                && transaction.outcome == Outcome::Committed
            {
                let least = read.entry(action.key().to_owned()).or_insert(*version);
                *least = *version.min(least);
            }
        }
    }
    read.retain(|key, least| {
        said.range((key.clone(), 0)..=(key.clone(), *least))
            .next()
            .is_none()
    });
    let keys = read
        .into_iter()
        .map(|(key, least)| (key, Version::Known(least)))
        .collect();
    can_go_on(&Versions { keys, said: &said }, &possible(history))
}

/// What may have happened.
fn possible<A>(history: &Transactions<A>) -> Vec<&Transaction<A>> {
    history
        .as_slice()
        .iter()
        .filter(|transaction| transaction.outcome != Outcome::Aborted)
        .collect()
}

fn can_go_on<M: Machine>(machine: &M, left: &[&Transaction<M::Action>]) -> bool {
    if left
        .iter()
        .all(|transaction| transaction.outcome == Outcome::Unknown)
    {
        return true;
    }
    left.iter().enumerate().any(|(index, transaction)| {
        let is_first = left.iter().all(|earlier| earlier.ended() >= transaction.invoked);
        if !is_first {
            return false;
        }
        let Some(next) = machine.apply(transaction) else {
            return false;
        };
        let mut rest = left.to_vec();
        rest.remove(index);
        can_go_on(&next, &rest)
    })
}
