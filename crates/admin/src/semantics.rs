//! Whether entries may follow newer rules, as the page `/cluster` has it: what a command says before it asks.

use crate::cluster::ClusterView;
use crate::goals::LEADERLESS;
use crate::recovery::list;

/// What would come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisePlan {
    /// The semantics version that entries follow.
    pub from: u16,
    /// The newest that all nodes know.
    pub to: u16,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRaise {
    /// It must not be, and why, for an operator.
    Refused(String),
    /// The node that was asked does not know what others know, and who does.
    NotKnown(String),
}

impl RaisePlan {
    /// From what a node sees.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(view: &ClusterView) -> Result<RaisePlan, NoRaise> {
        if view.is_meta_leaderless {
            return Err(NoRaise::Refused(LEADERLESS.to_owned()));
        }
        let known: Option<Vec<(u64, u16)>> = view
            .nodes
            .iter()
            .map(|node| node.semantics.map(|semantics| (node.id, semantics)))
            .collect();
        let known = known.filter(|known| !known.is_empty());
        let Some((known, from)) = known.zip(view.semantics) else {
            return Err(NoRaise::NotKnown(format!(
                "node {} does not know what the builds of others know: ask one that has a replica of the meta group, node {}",
                view.answered_by,
                list(view.meta_nodes.iter())
            )));
        };
        let versions = || known.iter().map(|(_, semantics)| *semantics);
        let (to, newest) = (versions().min().unwrap_or(from), versions().max().unwrap_or(from));
        if to > from || newest <= from {
            return Ok(RaisePlan { from, to });
        }
        let older = known.iter().filter(|(_, semantics)| *semantics < newest);
        let older: Vec<String> = older
            .map(|(node, semantics)| format!("node {node} knows no newer semantics version than {semantics}"))
            .collect();
        Err(NoRaise::Refused(format!(
            "{}, and others know {newest}: start it with the newer build first",
            older.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeView;

    fn view(semantics: &[Option<u16>]) -> ClusterView {
        let node = |(id, semantics): (u64, &Option<u16>)| NodeView {
            id,
            semantics: *semantics,
            ..NodeView::default()
        };
        ClusterView {
            semantics: Some(3),
            answered_by: 2,
            meta_nodes: vec![1, 3],
            nodes: (1..).zip(semantics).map(node).collect(),
            ..ClusterView::default()
        }
    }

    #[test]
    fn what_all_nodes_know_can_be_followed_and_who_does_not_know_it_is_named() {
        assert_eq!(
            RaisePlan::of(&view(&[Some(5), Some(5)])),
            Ok(RaisePlan { from: 3, to: 5 })
        );
        assert_eq!(RaisePlan::of(&view(&[Some(3)])), Ok(RaisePlan { from: 3, to: 3 }));
        // What the others know beyond that is none of it.
        assert_eq!(
            RaisePlan::of(&view(&[Some(5), Some(4), Some(5)])),
            Ok(RaisePlan { from: 3, to: 4 })
        );
        let older = RaisePlan::of(&view(&[Some(5), Some(3), Some(5)]));
        assert!(
            matches!(&older, Err(NoRaise::Refused(why)) if why.contains("node 2 knows no newer semantics version than 3")),
            "{older:?}"
        );
        let unknown = RaisePlan::of(&view(&[Some(5), None]));
        assert!(
            matches!(&unknown, Err(NoRaise::NotKnown(why)) if why.contains("node 1 3")),
            "{unknown:?}"
        );
        let mut leaderless = view(&[Some(5)]);
        leaderless.is_meta_leaderless = true;
        assert!(matches!(RaisePlan::of(&leaderless), Err(NoRaise::Refused(_))));
    }
}
