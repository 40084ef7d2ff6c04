//! Deadlines as clients give them.

use crate::{Deadline, ReplyError, number};
use ids::UnixMillis;

/// What a client counts a deadline in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Seconds,
    Millis,
}

/// What a client counts a deadline from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// Entry time.
    Now,
    /// The Unix epoch.
    Epoch,
}

/// The latest entry time that parsing reckons with: the year 3084. Whatever it lets pass can then be added
/// to entry time, so that applying a command never fails for a reason that lies in its words.
const NOW_MAX: i64 = 1 << 45;

impl Deadline {
    /// Reads the deadline of `EXPIRE` and its kin, which may lie in the past. `name` is the command's, for the
    /// error.
    pub(crate) fn parse(
        base: Base,
        unit: Unit,
        amount: &[u8],
        name: &'static str,
    ) -> Result<Deadline, ReplyError> {
        let out_of_range = ReplyError::InvalidExpireTime(name);
        let amount = number::integer(amount)?;
        let millis = match unit {
            Unit::Seconds => amount.checked_mul(1_000).ok_or(out_of_range.clone())?,
            Unit::Millis => amount,
        };
        match base {
            Base::Epoch => Ok(Deadline::At(UnixMillis(millis))),
            Base::Now if millis <= i64::MAX - NOW_MAX => Ok(Deadline::In(millis)),
            Base::Now => Err(out_of_range),
        }
    }

    /// Reads the deadline of a command that writes a value, or reads one: it must be positive.
    pub(crate) fn of_write(
        base: Base,
        unit: Unit,
        amount: &[u8],
        name: &'static str,
    ) -> Result<Deadline, ReplyError> {
        match Deadline::parse(base, unit, amount, name)? {
            Deadline::In(millis) | Deadline::At(UnixMillis(millis)) if millis <= 0 => {
                Err(ReplyError::InvalidExpireTime(name))
            }
            deadline => Ok(deadline),
        }
    }

    /// The deadline as a time, for a command that enters at `now`. `None` only if it overflows, which a parsed
    /// deadline does at no entry time before the year 3084.
    #[inline]
    pub fn resolve(self, now: UnixMillis) -> Option<UnixMillis> {
        match self {
            Deadline::In(millis) => now.0.checked_add(millis).map(UnixMillis),
            Deadline::At(time) => Some(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_count_from_entry_time_or_from_the_epoch() {
        let now = UnixMillis(1_700_000_000_000);
        assert_eq!(Deadline::In(5).resolve(now), Some(UnixMillis(1_700_000_000_005)));
        assert_eq!(Deadline::In(-5).resolve(now), Some(UnixMillis(1_699_999_999_995)));
        assert_eq!(Deadline::At(UnixMillis(7)).resolve(now), Some(UnixMillis(7)));
        assert_eq!(
            Deadline::In(i64::MIN).resolve(now),
            Some(UnixMillis(i64::MIN + now.0))
        );
        assert_eq!(Deadline::In(i64::MAX).resolve(now), None);
    }

    #[test]
    fn what_is_parsed_can_always_be_resolved() {
        let read = |base, unit, text: &str| Deadline::parse(base, unit, text.as_bytes(), "x");
        let refused = Err(ReplyError::InvalidExpireTime("x"));
        assert_eq!(read(Base::Now, Unit::Seconds, "9223372036854776"), refused);
        assert_eq!(read(Base::Now, Unit::Seconds, "-9223372036854776"), refused);
        assert_eq!(read(Base::Now, Unit::Millis, "9223372036854770000"), refused);
        assert_eq!(
            read(Base::Epoch, Unit::Millis, "9223372036854775807"),
            Ok(Deadline::At(UnixMillis(i64::MAX)))
        );
        let largest = (i64::MAX - NOW_MAX).to_string();
        let deadline = read(Base::Now, Unit::Millis, &largest).expect("the largest that is accepted");
        assert_eq!(deadline.resolve(UnixMillis(NOW_MAX)), Some(UnixMillis(i64::MAX)));
    }
}
