//! What a start brings that becomes the cluster's if that has none: so that members joined with other options do as all do.
//!
//! Whose password clients give: no member lets somebody in whom another one refuses.
//!
//! ```text
//!   this start brings    the cluster has     clients give
//!   none                 one, or none        the cluster's, or none
//!   one                  none                that one, which becomes the cluster's
//!   one                  another one         the cluster's; at a node alone that of the start, which becomes the cluster's: who forgot the
//!                                            old one needs no more than the node's own options
//! ```
//!
//! Whether strings are kept as fragments (`coding`): whoever leads a group decides for it, and all are to decide alike. `on` becomes the
//! cluster's if nothing is set there; what is set holds, whatever a start brings.

use control::Setting;
use options::CodingChoice;
use std::collections::BTreeMap;

/// The options, as the meta group is told them.
const PASSWORD: &str = "requirepass";
const CODING: &str = "coding";

/// An option that a start brings, and that is to become the cluster's.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BroughtSetting {
    pub(crate) name: &'static str,
    pub(crate) words: String,
    /// The version of what the cluster has instead: it does not hold here meanwhile.
    over: Option<u64>,
}

impl BroughtSetting {
    /// What becomes of the password that a start brings, beside what is set for the cluster.
    pub(crate) fn password(
        own: Option<&str>,
        settings: Option<&BTreeMap<String, Setting>>,
        is_alone: bool,
    ) -> Option<BroughtSetting> {
        let theirs = settings.and_then(|settings| settings.get(PASSWORD));
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
            Some(_) | None => Some(BroughtSetting {
                name: PASSWORD,
                words: words.to_owned(),
                over: theirs.map(|theirs| theirs.version),
            }),
        }
    }

    /// The same of whether strings are kept as fragments.
    pub(crate) fn coding(
        own: CodingChoice,
        settings: Option<&BTreeMap<String, Setting>>,
    ) -> Option<BroughtSetting> {
        let theirs = settings.and_then(|settings| settings.get(CODING));
        match (own, theirs) {
            (CodingChoice::On, None) => Some(BroughtSetting {
                name: CODING,
                words: "on".to_owned(),
                over: None,
            }),
            (CodingChoice::On, Some(theirs)) if theirs.value != "on" => {
                tracing::warn!(
                    "strings are not kept as fragments, though this start was given coding on: it is off for the cluster, and CONFIG SET coding on \
                     changes it for all nodes"
                );
                None
            }
            _ => None,
        }
    }

    /// Whether this setting is what is to be replaced.
    pub(crate) fn is_over(&self, name: &str, version: u64) -> bool {
        name == self.name && self.over == Some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(name: &str, value: &str) -> BTreeMap<String, Setting> {
        let setting = Setting {
            value: value.to_owned(),
            version: 7,
        };
        BTreeMap::from([(name.to_owned(), setting)])
    }

    #[test]
    fn the_password_of_a_start_is_the_clusters_if_that_has_none_or_is_this_node_alone() {
        let brought = |own: Option<&str>, theirs: Option<&str>, is_alone: bool| {
            let settings = theirs.map(|theirs| settings(PASSWORD, theirs));
            let brought = BroughtSetting::password(own, settings.as_ref(), is_alone);
            brought.map(|brought| (brought.words.clone(), brought.is_over(PASSWORD, 7)))
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

    #[test]
    fn coding_that_a_start_brings_is_the_clusters_if_nothing_is_set_there() {
        let brought = |own, theirs: Option<&str>| {
            let settings = theirs.map(|theirs| settings(CODING, theirs));
            let brought = BroughtSetting::coding(own, settings.as_ref());
            brought.map(|brought| (brought.name, brought.words.clone()))
        };
        assert_eq!(brought(CodingChoice::On, None), Some((CODING, "on".to_owned())));
        for (own, theirs) in [
            (CodingChoice::On, Some("on")),
            (CodingChoice::On, Some("off")),
            (CodingChoice::Off, Some("on")),
            (CodingChoice::Off, None),
        ] {
            assert_eq!(brought(own, theirs), None, "{theirs:?}");
        }
    }
}
