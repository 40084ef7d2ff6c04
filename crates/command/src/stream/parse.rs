//! Streams: their words.

use super::{
    ClaimOptions, Claimant, DeliveryTime, GroupRead, GroupStart, NewId, ReadFrom, StreamCommand, StreamRead,
    Trim, TrimBound,
};
use crate::blocking::{BlockingCommand, BlockingPop};
use crate::number::{self, integer};
use crate::{Command, ReplyError};
use ids::StreamId;
use resp::Args;

/// Longest id in bytes: Redis looks at no more.
const ID_BYTES_MAX: usize = 127;

/// Entries and pending ones that `XINFO STREAM key FULL` tells if it is not told how many.
const FULL_COUNT: u64 = 10;

/// How many entries `XAUTOCLAIM` claims if it is not told how many.
const AUTO_CLAIM_COUNT: u64 = 100;

/// The highest `COUNT` of `XAUTOCLAIM`: Redis has room for as many ids.
const AUTO_CLAIM_COUNT_MAX: u64 = i64::MAX as u64 / 16;

pub(super) fn command(command: StreamCommand<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Stream(command))
}

/// A number as `strtoull` reads it: leading zeros and a plus sign are no mistake.
fn part(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = is_number.then(|| str::from_utf8(digits).ok())??;
    text.parse().ok()
}

/// The two parts of an id; the second is `None` if it does not stand there.
fn parts(word: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    if word.len() > ID_BYTES_MAX {
        return None;
    }
    match word.iter().position(|&byte| byte == b'-') {
        None => Some((part(word)?, None)),
        Some(dash) => Some((part(&word[..dash])?, Some(&word[dash + 1..]))),
    }
}

/// `ms-seq`, or `ms` with this `seq`.
pub(super) fn id(word: &[u8], missing_seq: u64) -> Option<StreamId> {
    let (ms, seq) = parts(word)?;
    Some(StreamId::new(ms, seq.map_or(Some(missing_seq), part)?))
}

fn strict_id(word: &[u8]) -> Result<StreamId, ReplyError> {
    id(word, 0).ok_or(ReplyError::InvalidStreamId)
}

/// All of these words are ids.
fn check_ids(ids: Args<'_>) -> Result<Args<'_>, ReplyError> {
    match ids.iter().all(|word| id(word, 0).is_some()) {
        true => Ok(ids),
        false => Err(ReplyError::InvalidStreamId),
    }
}

/// One end of a range: `-`, `+`, an id, or `(id` which is left out.
fn bound(
    word: &[u8],
    missing_seq: u64,
    inside: impl FnOnce(StreamId) -> Option<StreamId>,
    nothing: ReplyError,
) -> Result<StreamId, ReplyError> {
    match word {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        [b'(', exclusive @ ..] if !exclusive.is_empty() => {
            let id = id(exclusive, missing_seq).ok_or(ReplyError::InvalidStreamId)?;
            inside(id).ok_or(nothing)
        }
        word => id(word, missing_seq).ok_or(ReplyError::InvalidStreamId),
    }
}

fn start(word: &[u8]) -> Result<StreamId, ReplyError> {
    bound(word, 0, StreamId::next, ReplyError::InvalidRangeStart)
}

fn end(word: &[u8]) -> Result<StreamId, ReplyError> {
    bound(word, u64::MAX, StreamId::previous, ReplyError::InvalidRangeEnd)
}

/// A count of which Redis takes negative ones for none.
fn count(word: &[u8]) -> Result<u64, ReplyError> {
    integer(word).map(|count| u64::try_from(count).unwrap_or(0))
}

/// The first words of `XCLAIM` and `XAUTOCLAIM`; the error is of an idle time that is no number.
fn claimant(args: Args<'_>, error: ReplyError) -> Result<Claimant<'_>, ReplyError> {
    let millis = number::parse_i64(args.arg(4)).ok_or(error)?;
    Ok(Claimant {
        key: args.arg(1),
        group: args.arg(2),
        consumer: args.arg(3),
        idle_min_millis: u64::try_from(millis).unwrap_or(0),
    })
}

fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The words of `XADD` and `XTRIM` from the key on, as far as both have them.
#[derive(Default)]
struct TrimWords {
    keeps: Option<TrimBound>,
    is_approximate: bool,
    limit: Option<u64>,
}

impl TrimWords {
    /// Reads an option at `at`; where the next word stands, or `None` if it is none of these.
    fn read(&mut self, args: Args<'_>, at: usize) -> Result<Option<usize>, ReplyError> {
        let (Some(option), Some(next)) = (args.get(at), args.get(at + 1)) else {
            return Ok(None);
        };
        let is_length = is(option, b"maxlen");
        if is_length || is(option, b"minid") {
            if self.keeps.is_some() {
                return Err(ReplyError::TwoTrimBounds);
            }
            let has_sign = args.len() > at + 2 && matches!(next, b"~" | b"=");
            self.is_approximate = has_sign && next == b"~";
            let at = at + 1 + usize::from(has_sign);
            let threshold = args.arg(at);
            self.keeps = Some(if is_length {
                let length = integer(threshold)?;
                TrimBound::Newest(u64::try_from(length).map_err(|_| ReplyError::StreamMaxLenNegative)?)
            } else {
                TrimBound::From(strict_id(threshold)?)
            });
            return Ok(Some(at + 1));
        }
        if is(option, b"limit") {
            let limit = integer(next)?;
            self.limit = Some(u64::try_from(limit).map_err(|_| ReplyError::StreamLimitNegative)?);
            return Ok(Some(at + 2));
        }
        Ok(None)
    }

    fn finish(self) -> Result<Option<Trim>, ReplyError> {
        let Some(keeps) = self.keeps else {
            return match self.limit {
                Some(1..) => Err(ReplyError::LimitWithoutTrim),
                _ => Ok(None),
            };
        };
        if self.limit.is_some() && !self.is_approximate {
            return Err(ReplyError::LimitOfExactTrim);
        }
        Ok(Some(Trim {
            keeps,
            is_approximate: self.is_approximate,
            limit: self.limit,
        }))
    }
}

pub(super) fn parse_add(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut words = TrimWords::default();
    let mut creates = true;
    let mut at = 2;
    let mut id = None;
    while let Some(word) = args.get(at) {
        if word == b"*" {
            id = Some(NewId::Now);
            break;
        }
        if let Some(next) = words.read(args, at)? {
            at = next;
        } else if is(word, b"nomkstream") {
            creates = false;
            at += 1;
        } else {
            id = Some(new_id(word)?);
            break;
        }
    }
    let trim = words.finish()?;
    let fields = args.from((at + 1).min(args.len()));
    let Some(id) = id.filter(|_| fields.len() >= 2 && fields.len().is_multiple_of(2)) else {
        return Err(ReplyError::WrongArity("xadd"));
    };
    if id == NewId::Exactly(StreamId::MIN) {
        return Err(ReplyError::StreamIdZero);
    }
    command(StreamCommand::Add {
        key: args.arg(1),
        id,
        creates,
        trim,
        fields,
    })
}

fn new_id(word: &[u8]) -> Result<NewId, ReplyError> {
    match parts(word) {
        Some((ms, Some(b"*"))) => Ok(NewId::Of { ms }),
        _ => strict_id(word).map(NewId::Exactly),
    }
}

pub(super) fn parse_trim(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut words = TrimWords::default();
    let mut at = 2;
    while at < args.len() {
        at = words.read(args, at)?.ok_or(ReplyError::Syntax)?;
    }
    command(StreamCommand::Trim {
        key: args.arg(1),
        trim: words.finish()?.ok_or(ReplyError::NoTrim)?,
    })
}

pub(super) fn parse_range(args: Args<'_>, reverse: bool) -> Result<Command<'_>, ReplyError> {
    let (first, last) = if reverse { (3, 2) } else { (2, 3) };
    let (start, end) = (start(args.arg(first))?, end(args.arg(last))?);
    let mut most = None;
    let mut at = 4;
    while let Some(option) = args.get(at) {
        match args.get(at + 1) {
            Some(value) if is(option, b"count") => most = Some(count(value)?),
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    command(StreamCommand::Range {
        key: args.arg(1),
        start,
        end,
        count: most,
        reverse,
    })
}

pub(super) fn parse_delete(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    command(StreamCommand::Delete {
        key: args.arg(1),
        ids: check_ids(args.from(2))?,
    })
}

pub(super) fn parse_set_id(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let last = strict_id(args.arg(2))?;
    let (mut added, mut max_deleted) = (None, None);
    let mut at = 3;
    while let Some(option) = args.get(at) {
        match args.get(at + 1) {
            Some(value) if is(option, b"entriesadded") => {
                let entries = integer(value)?;
                added = Some(u64::try_from(entries).map_err(|_| ReplyError::EntriesAddedNegative)?);
            }
            Some(value) if is(option, b"maxdeletedid") => {
                let id = strict_id(value)?;
                if last < id {
                    return Err(ReplyError::SetIdBelowGivenDeleted);
                }
                max_deleted = Some(id);
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    command(StreamCommand::SetId {
        key: args.arg(1),
        last,
        added,
        max_deleted,
    })
}

/// Reads a word that stands for the start of a stream in `XREAD` or `XREADGROUP`.
pub(super) fn read_from(word: &[u8]) -> Option<ReadFrom> {
    match word {
        b"$" => Some(ReadFrom::Last),
        b">" => Some(ReadFrom::New),
        word => id(word, 0).map(ReadFrom::After),
    }
}

/// How long to wait, in milliseconds: 0 is for ever.
fn timeout(word: &[u8]) -> Result<Option<u64>, ReplyError> {
    let millis = number::parse_i64(word).ok_or(ReplyError::TimeoutNotAnInteger)?;
    let millis = u64::try_from(millis).map_err(|_| ReplyError::TimeoutNegative)?;
    Ok((millis > 0).then_some(millis))
}

/// `XREAD`, or `XREADGROUP` if `of_group`.
pub(super) fn parse_read(args: Args<'_>, of_group: bool) -> Result<Command<'_>, ReplyError> {
    let (mut most, mut wait, mut group, mut is_acknowledged) = (0, None, None, false);
    let mut at = 1;
    let streams = loop {
        let word = args.get(at).ok_or(ReplyError::Syntax)?;
        match args.get(at + 1) {
            Some(value) if is(word, b"block") => {
                wait = Some(timeout(value)?);
                at += 2;
            }
            Some(value) if is(word, b"count") => {
                most = count(value)?;
                at += 2;
            }
            Some(_) if is(word, b"streams") => break args.from(at + 1),
            Some(name) if is(word, b"group") && args.len() > at + 2 => {
                if !of_group {
                    return Err(ReplyError::GroupOfXread);
                }
                group = Some((name, args.arg(at + 2)));
                at += 3;
            }
            _ if is(word, b"noack") => {
                if !of_group {
                    return Err(ReplyError::NoAckOfXread);
                }
                is_acknowledged = true;
                at += 1;
            }
            _ => return Err(ReplyError::Syntax),
        }
    };
    if !streams.len().is_multiple_of(2) {
        return Err(ReplyError::UnbalancedStreams);
    }
    if of_group && group.is_none() {
        return Err(ReplyError::NoGroup);
    }
    let middle = streams.len() / 2;
    let starts = streams.from(middle);
    for word in starts.iter() {
        match read_from(word).ok_or(ReplyError::InvalidStreamId)? {
            ReadFrom::Last if of_group => return Err(ReplyError::LastIdOfGroup),
            ReadFrom::New if !of_group => return Err(ReplyError::NewWithoutGroup),
            ReadFrom::After(_) | ReadFrom::Last | ReadFrom::New => {}
        }
    }
    let read = StreamRead {
        keys: streams.slice(0..middle),
        starts,
        count: (most > 0).then_some(most),
        group: group.map(|(group, consumer)| GroupRead {
            group,
            consumer,
            is_acknowledged,
        }),
    };
    match wait {
        None => command(StreamCommand::Read(read)),
        Some(timeout_millis) => Ok(Command::Blocking(BlockingCommand {
            pop: BlockingPop::Streams(read),
            timeout_millis,
        })),
    }
}

pub(super) fn parse_acknowledge(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    command(StreamCommand::Acknowledge {
        key: args.arg(1),
        group: args.arg(2),
        ids: check_ids(args.from(3))?,
    })
}

pub(super) fn parse_pending(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (key, group) = (args.arg(1), args.arg(2));
    if args.len() == 3 {
        return command(StreamCommand::Pending { key, group });
    }
    if !(6..=9).contains(&args.len()) {
        return Err(ReplyError::Syntax);
    }
    let (mut first, mut idle) = (3, 0);
    if is(args.arg(3), b"idle") {
        idle = u64::try_from(integer(args.arg(4))?).unwrap_or(0);
        if args.len() < 8 {
            return Err(ReplyError::Syntax);
        }
        first += 2;
    }
    let most = count(args.arg(first + 2))?;
    command(StreamCommand::PendingRange {
        key,
        group,
        start: start(args.arg(first))?,
        end: end(args.arg(first + 1))?,
        count: most,
        idle_min_millis: idle,
        consumer: args.get(first + 3),
    })
}

pub(super) fn parse_claim(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let claimant = claimant(args, ReplyError::ClaimIdleMin)?;
    let ids = args
        .from(5)
        .iter()
        .take_while(|word| id(word, 0).is_some())
        .count();
    let mut options = ClaimOptions::default();
    let mut at = 5 + ids;
    while let Some(option) = args.get(at) {
        let number = |word, error| number::parse_i64(word).ok_or(error);
        at += match args.get(at + 1) {
            _ if is(option, b"force") => {
                options.is_forced = true;
                1
            }
            _ if is(option, b"justid") => {
                options.only_ids = true;
                1
            }
            Some(value) if is(option, b"idle") => {
                options.delivered = DeliveryTime::Ago(number(value, ReplyError::ClaimIdle)?);
                2
            }
            Some(value) if is(option, b"time") => {
                options.delivered = DeliveryTime::At(number(value, ReplyError::ClaimTime)?);
                2
            }
            Some(value) if is(option, b"retrycount") => {
                options.deliveries = u64::try_from(number(value, ReplyError::ClaimRetryCount)?).ok();
                2
            }
            Some(value) if is(option, b"lastid") => {
                options.last_id = strict_id(value)?;
                2
            }
            _ => return Err(ReplyError::unknown_claim_option(option)),
        };
    }
    command(StreamCommand::Claim {
        claimant,
        ids: args.slice(5..5 + ids),
        options,
    })
}

pub(super) fn parse_auto_claim(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let claimant = claimant(args, ReplyError::AutoClaimIdleMin)?;
    let start = start(args.arg(5))?;
    let (mut most, mut only_ids) = (AUTO_CLAIM_COUNT, false);
    let mut at = 6;
    while let Some(option) = args.get(at) {
        at += match args.get(at + 1) {
            Some(value) if is(option, b"count") => {
                let count = number::positive(value, ReplyError::AutoClaimCount)?;
                most = Some(count)
                    .filter(|count| *count <= AUTO_CLAIM_COUNT_MAX)
                    .ok_or(ReplyError::AutoClaimCount)?;
                2
            }
            _ if is(option, b"justid") => {
                only_ids = true;
                1
            }
            _ => return Err(ReplyError::Syntax),
        };
    }
    command(StreamCommand::AutoClaim {
        claimant,
        start,
        count: most,
        only_ids,
    })
}

/// `XGROUP CREATE`, or `XGROUP SETID` if not `creates_group`.
pub(super) fn parse_group_start(args: Args<'_>, creates_group: bool) -> Result<Command<'_>, ReplyError> {
    let (mut creates, mut entries_read) = (false, None);
    let mut at = 5;
    while let Some(option) = args.get(at) {
        at += match args.get(at + 1) {
            _ if creates_group && is(option, b"mkstream") => {
                creates = true;
                1
            }
            Some(value) if is(option, b"entriesread") => {
                entries_read = match integer(value)? {
                    -1 => None,
                    entries => Some(u64::try_from(entries).map_err(|_| ReplyError::EntriesReadNegative)?),
                };
                2
            }
            _ => return Err(ReplyError::unknown_subcommand_or_arity("xgroup", args.arg(1))),
        };
    }
    let from = match args.arg(4) {
        b"$" => GroupStart::Last,
        // Only `SETID` takes the ends of a range, in Redis.
        b"-" if !creates_group => GroupStart::After(StreamId::MIN),
        b"+" if !creates_group => GroupStart::After(StreamId::MAX),
        word => GroupStart::After(strict_id(word)?),
    };
    let (key, group) = (args.arg(2), args.arg(3));
    command(if creates_group {
        StreamCommand::CreateGroup {
            key,
            group,
            from,
            creates,
            entries_read,
        }
    } else {
        StreamCommand::SetGroupId {
            key,
            group,
            from,
            entries_read,
        }
    })
}

pub(super) fn parse_info(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let key = args.arg(2);
    let unknown = || ReplyError::unknown_subcommand_or_arity("xinfo", args.arg(1));
    if args.len() == 3 {
        return command(StreamCommand::Info { key });
    }
    if !is(args.arg(3), b"full") {
        return Err(unknown());
    }
    let count = match (args.get(4), args.get(5)) {
        (None, _) => FULL_COUNT,
        (Some(option), Some(value)) if is(option, b"count") && args.len() == 6 => {
            u64::try_from(integer(value)?).unwrap_or(FULL_COUNT)
        }
        _ => return Err(unknown()),
    };
    command(StreamCommand::FullInfo { key, count })
}
