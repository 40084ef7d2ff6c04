//! Requests that failed, counted by kind.

use std::collections::BTreeMap;

/// Kinds that are told apart. Further ones count as [`OTHER`].
const KINDS_MAX: usize = 32;
const OTHER: &str = "other";

/// Bytes of an error's first word that are kept.
const WORD_MAX: usize = 32;

/// The reply did not come in time. The connection is given up.
pub(crate) const TIMEOUT: &str = "timeout";

/// The connection ended while the request was on its way: nobody knows whether it was carried out.
pub(crate) const CONNECTION_LOST: &str = "connection lost";

/// `EXEC` answered nil, because the watched key had changed.
pub(crate) const ABORTED: &str = "EXEC aborted";

/// `WAIT` says that fewer replicas have the write than were asked for.
pub(crate) const TOO_FEW_REPLICAS: &str = "too few replicas";

/// The server speaks neither RESP2 nor RESP3.
pub(crate) const MALFORMED: &str = "malformed reply";

/// How often requests failed, by kind: the first word of the error reply, or one of the constants above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    kinds: Vec<(Vec<u8>, u64)>,
}

impl Errors {
    pub(crate) fn count(&mut self, kind: &str) {
        self.add(kind.as_bytes(), 1);
    }

    /// Counts an error reply by its first word. Only a kind that is new takes memory.
    pub(crate) fn count_reply(&mut self, error: &[u8]) {
        self.add(first_word(error), 1);
    }

    pub(crate) fn add_all(&mut self, other: &Errors) {
        for (kind, count) in &other.kinds {
            self.add(kind, *count);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn by_kind(&self) -> BTreeMap<String, u64> {
        let words = self.kinds.iter();
        words
            .map(|(kind, count)| (String::from_utf8_lossy(kind).into_owned(), *count))
            .collect()
    }

    fn add(&mut self, kind: &[u8], more: u64) {
        if let Some((_, count)) = self.kinds.iter_mut().find(|(known, _)| known == kind) {
            *count += more;
        } else if self.kinds.len() < KINDS_MAX - 1 {
            self.kinds.push((kind.to_vec(), more));
        } else {
            match self.kinds.iter_mut().find(|(known, _)| known == OTHER.as_bytes()) {
                Some((_, count)) => *count += more,
                None => self.kinds.push((OTHER.as_bytes().to_vec(), more)),
            }
        }
    }
}

/// The word by which clients know an error.
pub(crate) fn first_word(error: &[u8]) -> &[u8] {
    let end = error.iter().position(|&byte| byte == b' ').unwrap_or(error.len());
    &error[..end.min(WORD_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let mut errors = Errors::default();
        errors.count_reply(b"CLUSTERDOWN Hash slot not served");
        errors.count_reply(b"CLUSTERDOWN The cluster is down");
        errors.count_reply(b"OOM");
        errors.count(TIMEOUT);
        let mut all = Errors::default();
        all.add_all(&errors);
        all.count(TIMEOUT);
        let kinds = all.by_kind();
        assert_eq!(
            kinds
                .iter()
                .map(|(kind, count)| (kind.as_str(), *count))
                .collect::<Vec<_>>(),
            [("CLUSTERDOWN", 2), ("OOM", 1), ("timeout", 2)]
        );
        assert_eq!(all.total(), 5);
    }

    #[test]
    fn kinds_without_end_are_counted_as_others() {
        let mut errors = Errors::default();
        for number in 0..1_000 {
            errors.count_reply(format!("E{number} of its own kind").as_bytes());
        }
        assert_eq!(errors.total(), 1_000);
        assert_eq!(errors.by_kind().len(), KINDS_MAX);
        assert_eq!(errors.by_kind()[OTHER], 1_000 - (KINDS_MAX as u64 - 1));
    }
}
