//! The order that a history must have: strict serializability, judged from versions.
//!
//! Each key has the list of those who wrote it, and each operation says how many of them it had seen. So who came
//! before whom is known, not guessed. With "was answered before the other began" added, the relation must have no
//! cycle.

/// Operations of a history.
pub(crate) const OPERATIONS: usize = 8;

/// Writers that a key can have: each operation once, and room to see one twice.
const WRITERS: usize = 6;

/// Who wrote a key, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Writers {
    list: [u8; WRITERS],
    count: u8,
}

impl Writers {
    pub(crate) fn version(&self) -> u8 {
        self.count
    }

    pub(crate) fn push(&mut self, operation: usize) {
        self.list[usize::from(self.count)] = u8::try_from(operation).expect("operations are few");
        self.count += 1;
    }

    pub(crate) fn list(&self) -> &[u8] {
        &self.list[..usize::from(self.count)]
    }

    pub(crate) fn has_twice(&self) -> bool {
        let list = self.list();
        (1..list.len()).any(|at| list[..at].contains(&list[at]))
    }
}

/// An operation saw this many writers of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) operation: usize,
    pub(crate) key: usize,
    pub(crate) version: u8,
}

/// What is wrong with a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disorder {
    /// There is no serial order at all.
    NotSerializable,
    /// There is one, and somebody saw the past of what had been answered to somebody before.
    RealTime,
}

/// `after[b]` has the bit of each `a` that was answered before `b` began.
pub(crate) fn disorder(keys: &[Writers], views: &[View], after: &[u8]) -> Option<Disorder> {
    let mut before = [0_u8; OPERATIONS];
    for writers in keys {
        for (at, &later) in writers.list().iter().enumerate() {
            for &earlier in &writers.list()[..at] {
                before[usize::from(later)] |= 1 << earlier;
            }
        }
    }
    for view in views {
        for (at, &writer) in keys[view.key].list().iter().enumerate() {
            let writer = usize::from(writer);
            if writer == view.operation {
                continue;
            }
            if at < usize::from(view.version) {
                before[view.operation] |= 1 << writer;
            } else {
                before[writer] |= 1 << view.operation;
            }
        }
    }
    if has_cycle(before) {
        return Some(Disorder::NotSerializable);
    }
    for (before, after) in before.iter_mut().zip(after) {
        *before |= after;
    }
    has_cycle(before).then_some(Disorder::RealTime)
}

/// Takes away whoever has nobody before him until nobody is left, or all that are left stand in cycles.
fn has_cycle(before: [u8; OPERATIONS]) -> bool {
    let mut left = u8::MAX;
    loop {
        let free = (0..OPERATIONS)
            .filter(|&at| left & 1 << at != 0 && before[at] & left == 0)
            .fold(0, |free, at| free | 1 << at);
        left &= !free;
        if left == 0 || free == 0 {
            return left != 0;
        }
    }
}

#[test]
fn a_lost_update_a_torn_read_and_a_stale_read_are_told_apart() {
    let view = |operation, key, version| View {
        operation,
        key,
        version,
    };
    let mut one = Writers::default();
    one.push(0);
    let mut both = one;
    both.push(1);
    assert_eq!(disorder(&[both], &[view(0, 0, 0), view(1, 0, 1)], &[0, 1]), None);
    let lost = disorder(&[both], &[view(0, 0, 0), view(1, 0, 0)], &[0, 0]);
    assert_eq!(lost, Some(Disorder::NotSerializable));
    let torn = disorder(&[one, one], &[view(2, 0, 1), view(2, 1, 0)], &[]);
    assert_eq!(torn, Some(Disorder::NotSerializable));
    let stale = disorder(&[one, one], &[view(2, 0, 0), view(2, 1, 0)], &[0, 0, 1]);
    assert_eq!(stale, Some(Disorder::RealTime));
}
