//! Which nodes whoever leads the meta group has told what.
//!
//! ```text
//!   (nothing) --greeted--> it may say what it knows --node heartbeat--> known --something newer--> told
//!       ^                                                                 |
//!       '------------------------- its link is another one ---------------'
//! ```
//!
//! Who has said nothing of what it knows is told nothing but who leads: most have nearly all, and the whole is long.

use crate::state::State;
use ids::{Epoch, Monotonic, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What changes in the map within this time of what was told last is told together.
const TELL_AGAIN: Duration = Duration::from_millis(20);

/// Versions of the map and of the settings.
pub(crate) type Versions = (Epoch, u64);

/// What is to be said now.
#[derive(Default)]
pub(crate) struct Due {
    /// Who is to hear who leads.
    pub(crate) greeted: Vec<NodeId>,
    /// Who lacks something, and what it knows. Those that are members no more hear it a last time.
    pub(crate) untold: Vec<(NodeId, Versions)>,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Telling {
    /// None of those that were greeted, and have not answered.
    known: BTreeMap<NodeId, Option<Versions>>,
    /// What all were told that are not in `behind`.
    told: Versions,
    /// Who may lack something, or is to be greeted.
    behind: BTreeSet<NodeId>,
    last: Option<Monotonic>,
    /// Whether something waits for its time.
    is_waiting: bool,
}

impl Telling {
    /// A node has said what it knows.
    pub(crate) fn hear(&mut self, node: NodeId, versions: Versions) {
        self.known.insert(node, Some(versions));
        if versions.0 < self.told.0 || versions.1 < self.told.1 {
            self.behind.insert(node);
        }
    }

    /// Nobody knows what the node knows.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.known.remove(&node);
        self.behind.insert(node);
    }

    /// When there is something to say.
    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        let last = self.last.filter(|_| self.is_waiting)?;
        Some(last.after(TELL_AGAIN))
    }

    /// What is to be said now, which counts as said. The state has these versions.
    pub(crate) fn due(&mut self, me: NodeId, state: &State, versions: Versions, now: Monotonic) -> Due {
        let has_news = versions != self.told;
        if !has_news && self.behind.is_empty() {
            return Due::default();
        }
        // Whoever has set something may be answered already.
        let has_settings = versions.1 != self.told.1;
        self.is_waiting = !has_settings && self.last.is_some_and(|last| now < last.after(TELL_AGAIN));
        if self.is_waiting {
            return Due::default();
        }
        self.last = Some(now);
        self.told = versions;
        let nodes = state.nodes();
        let mut due = Due::default();
        if has_news {
            let gone = self.known.extract_if(.., |node, _| !nodes.contains_key(node));
            due.untold
                .extend(gone.map(|(node, known)| (node, known.unwrap_or_default())));
            self.behind.extend(nodes.keys());
        }
        for node in std::mem::take(&mut self.behind) {
            if node == me || !nodes.contains_key(&node) {
                continue;
            }
            let Some(known) = self.known.get_mut(&node) else {
                self.known.insert(node, None);
                due.greeted.push(node);
                continue;
            };
            if let Some(known) = known
                .as_mut()
                .filter(|known| known.0 < versions.0 || known.1 < versions.1)
            {
                due.untold.push((node, *known));
                *known = versions;
            }
        }
        due
    }
}
