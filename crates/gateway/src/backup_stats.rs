//! What has become of the backups that this node has taken, for whoever looks. Touched when one begins and ends.

use crate::shared::held;
use ids::UnixMillis;
use std::sync::Mutex;

/// Bytes of a reason that are kept: it is a field of `INFO`.
const REASON_BYTES_MAX: usize = 512;

/// See the file's header.
#[derive(Default)]
pub struct BackupStats(Mutex<BackupSummary>);

/// What is known of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BackupSummary {
    /// Whether one is being taken.
    pub is_running: bool,
    /// When the newest was made of which this node knows that it is whole.
    pub good_at: Option<UnixMillis>,
    /// When the last one failed.
    pub failed_at: Option<UnixMillis>,
    /// Why it did; empty again once one was good.
    pub reason: String,
    /// When this node will take the next by itself, if it is the one that does.
    pub next_at: Option<UnixMillis>,
}

impl BackupStats {
    /// What is known.
    pub fn summary(&self) -> BackupSummary {
        held(&self.0).clone()
    }

    /// One begins.
    pub fn begin(&self) {
        held(&self.0).is_running = true;
    }

    /// It was made then, or failed now for this reason.
    pub fn end(&self, now: UnixMillis, end: Result<UnixMillis, &str>) {
        held(&self.0).is_running = false;
        match end {
            Ok(made) => self.set_good(made),
            Err(why) => self.set_failed(now, why),
        }
    }

    /// There is a good one of then.
    pub fn set_good(&self, made: UnixMillis) {
        let mut summary = held(&self.0);
        if summary.good_at.is_none_or(|good| good < made) {
            summary.good_at = Some(made);
        }
        if summary.failed_at.is_none_or(|failed| failed < made) {
            summary.reason.clear();
        }
    }

    /// None can be taken, for this reason.
    pub fn set_failed(&self, now: UnixMillis, why: &str) {
        let mut reason: String = why
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let mut summary = held(&self.0);
        summary.failed_at = Some(now);
        summary.reason = reason;
    }

    /// When this node takes the next one; `None` if it does not.
    pub fn set_next(&self, next: Option<UnixMillis>) {
        held(&self.0).next_at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_until_a_backup_is_good() {
        let stats = BackupStats::default();
        stats.begin();
        assert!(stats.summary().is_running);
        stats.end(UnixMillis(5), Err("the disk\r\nis full"));
        let failed = BackupSummary {
            failed_at: Some(UnixMillis(5)),
            reason: "the disk  is full".to_owned(),
            ..BackupSummary::default()
        };
        assert_eq!(stats.summary(), failed);
        stats.set_good(UnixMillis(3));
        assert_eq!(stats.summary().reason, failed.reason, "it is an older one");
        stats.end(UnixMillis(9), Ok(UnixMillis(8)));
        let summary = stats.summary();
        assert_eq!(
            (summary.good_at, summary.reason.as_str()),
            (Some(UnixMillis(8)), "")
        );
        stats.set_failed(UnixMillis(10), &"ä".repeat(1_000));
        assert_eq!(stats.summary().reason.len(), REASON_BYTES_MAX);
    }
}
