//! How it went lately with what is in vain if something has changed: with what was read of replicas here, which may be behind, and with
//! what was read of several groups without locks.
//!
//! It saves a round if nothing has changed, and costs an entry or some if something has: where many change the same keys, or clients go on
//! at another node with what they have just changed.

/// See the file's header.
pub(super) struct OldReads {
    credit: u32,
    /// How often it was not tried for want of credit.
    passed: u32,
}

impl Default for OldReads {
    fn default() -> OldReads {
        let (credit, passed) = (OldReads::CREDIT_MAX, 0);
        OldReads { credit, passed }
    }
}

impl OldReads {
    const CREDIT_MAX: u32 = 16;
    /// What one costs that was in vain; one that was not brings 1.
    const LOSS: u32 = 2;
    /// Of those that are passed over, one of so many is tried.
    const TRIED_OF: u32 = 32;

    /// Whether the next one may be tried.
    pub(super) fn may(&mut self) -> bool {
        if self.credit >= OldReads::LOSS {
            return true;
        }
        self.passed += 1;
        self.passed.is_multiple_of(OldReads::TRIED_OF)
    }

    /// One was tried: whether nothing had changed.
    pub(super) fn note(&mut self, is_good: bool) {
        self.credit = match is_good {
            true => OldReads::CREDIT_MAX.min(self.credit + 1),
            false => self.credit.saturating_sub(OldReads::LOSS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_for_long_is_tried_rarely_and_comes_back() {
        let mut reads = OldReads::default();
        for _ in 0..OldReads::CREDIT_MAX {
            assert!(reads.may());
            reads.note(true);
        }
        // One in vain of four is worth while.
        for _ in 0..100 {
            assert!(reads.may());
            reads.note(false);
            (0..3).for_each(|_| reads.note(true));
        }
        while reads.may() {
            reads.note(false);
        }
        let tried = (0..320).filter(|_| reads.may()).count();
        assert_eq!(tried, 10);
        (0..OldReads::LOSS).for_each(|_| reads.note(true));
        assert!(reads.may());
    }
}
