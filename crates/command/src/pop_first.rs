//! The words of `LMPOP` and `ZMPOP`, and of their kin that wait: pops from the first key that has anything.

use crate::{ReplyError, number};
use resp::Args;

/// The words `numkeys key [key ...] end [COUNT count]`: keys, which end, and how many.
pub(crate) fn parse<E>(
    argv: Args<'_>,
    end: impl FnOnce(&[u8]) -> Result<E, ReplyError>,
) -> Result<(Args<'_>, E, u64), ReplyError> {
    let keys = number::positive(argv.arg(0), ReplyError::NumKeysNotPositive)?;
    let end_at = usize::try_from(keys).unwrap_or(usize::MAX).saturating_add(1);
    let end = end(argv.get(end_at).ok_or(ReplyError::Syntax)?)?;
    let options = argv.from(end_at + 1);
    let count = match (options.get(0), options.get(1)) {
        (None, _) => 1,
        (Some(word), Some(count)) if word.eq_ignore_ascii_case(b"count") => {
            number::positive(count, ReplyError::CountNotPositive)?
        }
        _ => return Err(ReplyError::Syntax),
    };
    if options.len() > 2 {
        return Err(ReplyError::Syntax);
    }
    Ok((argv.slice(1..end_at), end, count))
}
