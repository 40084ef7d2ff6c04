//! Log lines that strangers can cause: a few, and how many were left out.

use ids::Monotonic;
use std::time::Duration;

/// At most one line in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts what is left out.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    quiet_until: Monotonic,
    left_out: u64,
}

impl Notices {
    /// How many lines were left out since the last one, if one may be written now.
    pub(crate) fn may(&mut self, now: Monotonic) -> Option<u64> {
        if now < self.quiet_until {
            self.left_out += 1;
            return None;
        }
        self.quiet_until = now.after(PAUSE);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second_with_a_count() {
        let mut notices = Notices::default();
        let lines: Vec<_> = (0..2_500u64)
            .filter_map(|millis| notices.may(Monotonic(millis * 1_000_000)))
            .collect();
        assert_eq!(lines, [0, 999, 999]);
    }
}
