//! Executions of which one thing is told otherwise, so that certainly no order explains them any more.

use crate::executed::{self, Exposed, Lists};
use crate::made::Draw;
use history::{Transaction, Transactions, exposed, list_append};
use std::collections::BTreeMap;

/// What it does, and a function that does it if there is a place for it.
type Lie<H> = (&'static str, fn(&H, &mut Draw) -> Option<H>);

/// Ways to spoil lists.
pub(crate) const LISTS: [Lie<Lists>; 4] = [
    ("a read is stale by one", stale_list),
    ("two reads are exchanged", exchanged_lists),
    ("an append is dropped", dropped_append),
    ("a read is answered across a commit", late_list),
];

/// Ways to spoil versions.
pub(crate) const VERSIONS: [Lie<Exposed>; 4] = [
    ("a read is stale by one", stale_version),
    ("two reads are exchanged", exchanged_versions),
    ("a write is dropped", dropped_write),
    ("a read is answered across a commit", late_version),
];

fn pick<T: Copy>(from: &[T], draw: &mut Draw) -> Option<T> {
    from.get(draw.below(from.len().max(1) as u64) as usize).copied()
}

/// Lets a transaction be called just after this moment.
fn call_after<A>(transaction: &mut Transaction<A>, moment: u64) {
    transaction.invoked = moment + 1;
    transaction.returned = transaction.returned.map(|returned| returned.max(moment + 1));
}

/// One read of a list: which transaction and action, of which key, and what was in it.
type ListRead<'a> = (usize, usize, &'a str, &'a [i64]);

fn list_reads(told: &Lists) -> Vec<ListRead<'_>> {
    let read = |(at, nth): (usize, usize)| {
        let action = &told.as_slice()[at].actions[nth];
        executed::list_of(action).map(|(key, elements)| (at, nth, key, elements))
    };
    executed::reads_of(told).into_iter().filter_map(read).collect()
}

/// Who appended each element.
fn appenders(told: &Lists) -> BTreeMap<i64, usize> {
    let mut appenders = BTreeMap::new();
    for (at, transaction) in told.as_slice().iter().enumerate() {
        for action in &transaction.actions {
            if let list_append::Action::Append { element, .. } = action {
                appenders.insert(*element, at);
            }
        }
    }
    appenders
}

fn set_list(transaction: &mut Transaction<list_append::Action>, nth: usize, told: Vec<i64>) {
    if let list_append::Action::Read { elements, .. } = &mut transaction.actions[nth] {
        *elements = Some(told);
    }
}

/// A read that was called after the last append that it shows was answered no longer shows it.
fn stale_list(told: &Lists, draw: &mut Draw) -> Option<Lists> {
    let mut all = told.as_slice().to_vec();
    let appenders = appenders(told);
    let mut settled = list_reads(told);
    settled.retain(|&(at, _, _, elements)| {
        let writer = elements.last().map(|last| appenders[last]);
        writer.is_some_and(|writer| all[writer].ended() < all[at].invoked)
    });
    let (at, nth, _, elements) = pick(&settled, draw)?;
    set_list(&mut all[at], nth, elements[..elements.len() - 1].to_vec());
    Some(Transactions::new(all))
}

/// Two reads of one list are exchanged, and the last append that one of them shows was called after the other had ended.
fn exchanged_lists(told: &Lists, draw: &mut Draw) -> Option<Lists> {
    let mut all = told.as_slice().to_vec();
    let appenders = appenders(told);
    let reads = list_reads(told);
    for _ in 0..2_000 {
        let (one, one_nth, key, elements) = pick(&reads, draw)?;
        let (other, other_nth, other_key, others) = pick(&reads, draw)?;
        let writer = others.last().map(|last| appenders[last]);
        if key == other_key && writer.is_some_and(|writer| all[writer].invoked > all[one].ended()) {
            set_list(&mut all[one], one_nth, others.to_vec());
            set_list(&mut all[other], other_nth, elements.to_vec());
            return Some(Transactions::new(all));
        }
    }
    None
}

/// Nobody reads an element any more that was appended before one of those who read it were called.
fn dropped_append(told: &Lists, draw: &mut Draw) -> Option<Lists> {
    let mut all = told.as_slice().to_vec();
    let appenders = appenders(told);
    let reads = list_reads(told);
    let mut settled = Vec::new();
    for &(at, _, key, elements) in &reads {
        let is_settled = |element: &&i64| all[appenders[element]].ended() < all[at].invoked;
        settled.extend(elements.iter().find(is_settled).map(|&element| (key, element)));
    }
    let (lost_key, lost) = pick(&settled, draw)?;
    for &(at, nth, key, elements) in &reads {
        if key == lost_key {
            let left = elements.iter().copied().filter(|&element| element != lost);
            set_list(&mut all[at], nth, left.collect());
        }
    }
    Some(Transactions::new(all))
}

/// A read is called after an append was answered that it does not show.
fn late_list(told: &Lists, draw: &mut Draw) -> Option<Lists> {
    let mut all = told.as_slice().to_vec();
    let appenders = appenders(told);
    let reads = list_reads(told);
    let mut longest: BTreeMap<&str, &[i64]> = BTreeMap::new();
    for &(_, _, key, elements) in &reads {
        let known = longest.entry(key).or_default();
        if elements.len() > known.len() {
            *known = elements;
        }
    }
    let mut missed = Vec::new();
    for &(at, _, key, elements) in &reads {
        let next = longest[key].get(elements.len()).map(|next| appenders[next]);
        let ended = next
            .filter(|&writer| writer != at)
            .map(|writer| all[writer].ended());
        missed.extend(ended.filter(|&ended| ended != u64::MAX).map(|ended| (at, ended)));
    }
    let (at, ended) = pick(&missed, draw)?;
    call_after(&mut all[at], ended);
    Some(Transactions::new(all))
}

/// One read without a write: which transaction and action, of which key, and the version.
type VersionRead<'a> = (usize, usize, &'a str, u64);

fn version_reads(seen: &Exposed) -> Vec<VersionRead<'_>> {
    let mut reads = Vec::new();
    for (at, transaction) in seen.as_slice().iter().enumerate() {
        for (nth, action) in transaction.actions.iter().enumerate() {
            if let exposed::Action::Read { key, version } = action
                && transaction.is_committed()
            {
                reads.push((at, nth, key.as_str(), *version));
            }
        }
    }
    reads
}

/// Which committed transaction left a version by an update, with which action, and on top of which version.
fn updates(seen: &Exposed) -> BTreeMap<(&str, u64), (usize, usize, u64)> {
    let mut updates = BTreeMap::new();
    for (at, transaction) in seen.as_slice().iter().enumerate() {
        for (nth, action) in transaction.actions.iter().enumerate() {
            if let exposed::Action::Update { key, read, left } = action
                && transaction.is_committed()
            {
                updates.insert((key.as_str(), *left), (at, nth, *read));
            }
        }
    }
    updates
}

fn set_version(transaction: &mut Transaction<exposed::Action>, nth: usize, told: u64) {
    if let exposed::Action::Read { version, .. } = &mut transaction.actions[nth] {
        *version = told;
    }
}

/// A read that was called after its version was left shows the one before.
fn stale_version(seen: &Exposed, draw: &mut Draw) -> Option<Exposed> {
    let mut all = seen.as_slice().to_vec();
    let updates = updates(seen);
    let mut settled = Vec::new();
    for (at, nth, key, version) in version_reads(seen) {
        if let Some(&(writer, _, before)) = updates.get(&(key, version))
            && all[writer].ended() < all[at].invoked
        {
            settled.push((at, nth, before));
        }
    }
    let (at, nth, before) = pick(&settled, draw)?;
    set_version(&mut all[at], nth, before);
    Some(Transactions::new(all))
}

/// Two reads of one key are exchanged, and the version of one was left by somebody who was called after the other had ended.
fn exchanged_versions(seen: &Exposed, draw: &mut Draw) -> Option<Exposed> {
    let mut all = seen.as_slice().to_vec();
    let updates = updates(seen);
    let reads = version_reads(seen);
    for _ in 0..2_000 {
        let (one, one_nth, key, version) = pick(&reads, draw)?;
        let (other, other_nth, other_key, others) = pick(&reads, draw)?;
        let writer = updates.get(&(key, others)).map(|&(writer, ..)| writer);
        if key == other_key && writer.is_some_and(|writer| all[writer].invoked > all[one].ended()) {
            set_version(&mut all[one], one_nth, others);
            set_version(&mut all[other], other_nth, version);
            return Some(Transactions::new(all));
        }
    }
    None
}

/// A write that somebody read is not there, and the version below is somebody's, so that it is not what was there before.
fn dropped_write(seen: &Exposed, draw: &mut Draw) -> Option<Exposed> {
    let mut all = seen.as_slice().to_vec();
    let updates = updates(seen);
    let mut read = Vec::new();
    for (reader, _, key, version) in version_reads(seen) {
        if let Some(&(at, nth, before)) = updates.get(&(key, version))
            && at != reader
            && updates.contains_key(&(key, before))
        {
            read.push((at, nth));
        }
    }
    let (at, nth) = pick(&read, draw)?;
    all[at].actions.remove(nth);
    Some(Transactions::new(all))
}

/// A read is called after somebody ended who replaced its version.
fn late_version(seen: &Exposed, draw: &mut Draw) -> Option<Exposed> {
    let mut all = seen.as_slice().to_vec();
    let mut replaced = BTreeMap::new();
    for ((key, _), (at, _, before)) in updates(seen) {
        replaced.insert((key, before), at);
    }
    let mut missed = Vec::new();
    for (at, _, key, version) in version_reads(seen) {
        let writer = replaced.get(&(key, version)).filter(|&&writer| writer != at);
        let ended = writer.map(|&writer| all[writer].ended());
        missed.extend(ended.filter(|&ended| ended != u64::MAX).map(|ended| (at, ended)));
    }
    let (at, ended) = pick(&missed, draw)?;
    call_after(&mut all[at], ended);
    Some(Transactions::new(all))
}
