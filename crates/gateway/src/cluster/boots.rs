//! The boots of a cluster as one version of the map has them: the newest, and which of them live.
//!
//! Groups are told who is dead in their logs, as *fences*. A fence names who lives, and not who is a member of the group: batches, transactions and
//! waiting clients come from gateways of any node. But it is worth an entry in a group's log only when somebody has died since the last
//! one: most versions of the map say that replicas have moved, and a node that joins kills nobody.

use ids::Boot;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boots {
    newest: Boot,
    /// In ascending order.
    alive: Vec<Boot>,
}

impl Boots {
    /// All up to the newest are dead but these.
    pub fn new(newest: Boot, alive: impl IntoIterator<Item = Boot>) -> Boots {
        let mut alive: Vec<Boot> = alive.into_iter().collect();
        alive.sort_unstable();
        alive.dedup();
        Boots { newest, alive }
    }

    /// Whether a boot is over. One that is newer than all of these is not, as far as they know.
    pub fn is_dead(&self, boot: Boot) -> bool {
        boot <= self.newest && self.alive.binary_search(&boot).is_err()
    }

    /// Whether somebody is dead by these who is not by those that were known before.
    pub fn has_died_since(&self, known: &Boots) -> bool {
        let counted = self.newest.0.saturating_sub(known.newest.0);
        let first_new = self.alive.partition_point(|boot| *boot <= known.newest);
        let alive = (self.alive.len() - first_new) as u64;
        alive < counted || known.alive.iter().any(|boot| self.is_dead(*boot))
    }

    /// What a group is told of them.
    pub(crate) fn fence(&self) -> keyspace::Fence {
        keyspace::Fence::new(self.newest, self.alive.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(newest: u64, alive: &[u64]) -> Boots {
        Boots::new(Boot(newest), alive.iter().copied().map(Boot))
    }

    #[test]
    fn who_has_died_is_told_by_who_was_dead_before() {
        let all: Vec<Boots> = (0..=6u64)
            .flat_map(|newest| {
                let sets = 0..1u64 << newest;
                sets.map(move |set| {
                    let alive: Vec<u64> = (1..=newest).filter(|boot| set >> (boot - 1) & 1 == 1).collect();
                    boots(newest, &alive)
                })
            })
            .collect();
        for known in &all {
            for now in &all {
                let died = (1..=6)
                    .map(Boot)
                    .any(|boot| now.is_dead(boot) && !known.is_dead(boot));
                assert_eq!(now.has_died_since(known), died, "{known:?} {now:?}");
            }
        }
    }

    #[test]
    fn nobody_dies_when_nodes_join() {
        assert!(!boots(5, &[1, 2, 4, 5]).has_died_since(&boots(4, &[1, 2, 4])));
        assert!(
            boots(5, &[1, 2, 4]).has_died_since(&boots(4, &[1, 2, 4])),
            "it was dead at once"
        );
        assert!(
            boots(5, &[1, 4, 5]).has_died_since(&boots(4, &[1, 2, 4])),
            "one has started again"
        );
    }
}
