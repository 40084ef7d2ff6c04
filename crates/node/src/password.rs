//! Whose password clients give: in a cluster it is the cluster's, so that no member lets somebody in whom another one refuses.
//!
//! ```text
//!   this start brings    the cluster has     clients give
//!   none                 one, or none        the cluster's, or none
//!   one                  none                that one, which becomes the cluster's
//!   one                  another one         the cluster's; at a node alone that of the start, which becomes the cluster's: who forgot the
//!                                            old one needs no more than the node's own options
//! ```

use control::Setting;
use std::collections::BTreeMap;

/// The option, as the meta group is told it.
pub(crate) const NAME: &str = "requirepass";

/// A password that a start brings, and that is to become the cluster's.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BroughtPassword {
    pub(crate) words: String,
    /// The version of what the cluster has instead: it does not hold here meanwhile.
    over: Option<u64>,
}

impl BroughtPassword {
    /// What becomes of the password that a start brings, beside what is set for the cluster.
    pub(crate) fn new(
        own: Option<&str>,
        settings: Option<&BTreeMap<String, Setting>>,
        is_alone: bool,
    ) -> Option<BroughtPassword> {
        let theirs = settings.and_then(|settings| settings.get(NAME));
        let words = own?;
        match theirs {
            Some(theirs) if theirs.value == words => None,
            Some(theirs) if !theirs.value.is_empty() && !is_alone => {
                tracing::warn!(
                    "clients give the password of the cluster, and not the one that this start was given: CONFIG SET requirepass \
                     changes it for all nodes"
                );
                None
            }
            Some(_) | None => Some(BroughtPassword {
                words: words.to_owned(),
                over: theirs.map(|theirs| theirs.version),
            }),
        }
    }

    /// Whether this setting is what is to be replaced.
    pub(crate) fn is_over(&self, name: &str, version: u64) -> bool {
        name == NAME && self.over == Some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: &str) -> BTreeMap<String, Setting> {
        let setting = Setting {
            value: value.to_owned(),
            version: 7,
        };
        BTreeMap::from([(NAME.to_owned(), setting)])
    }

    #[test]
    fn the_password_of_a_start_is_the_clusters_if_that_has_none_or_is_this_node_alone() {
        let brought = |own: Option<&str>, theirs: Option<&str>, is_alone: bool| {
            let settings = theirs.map(settings);
            let brought = BroughtPassword::new(own, settings.as_ref(), is_alone);
            brought.map(|brought| (brought.words.clone(), brought.is_over(NAME, 7)))
        };
        let own = |is_over| Some(("own".to_owned(), is_over));
        for is_alone in [false, true] {
            assert_eq!(brought(None, None, is_alone), None);
            assert_eq!(brought(None, Some("other"), is_alone), None);
            assert_eq!(brought(Some("own"), Some("own"), is_alone), None);
            assert_eq!(brought(Some("own"), None, is_alone), own(false));
            // It was taken away: whoever starts with one wants one.
            assert_eq!(brought(Some("own"), Some(""), is_alone), own(true));
        }
        assert_eq!(brought(Some("own"), Some("other"), false), None);
        assert_eq!(brought(Some("own"), Some("other"), true), own(true));
    }
}
