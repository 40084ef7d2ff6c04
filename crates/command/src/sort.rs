//! `SORT` and `SORT_RO`.

use crate::key_spec::{KeyFlags, KeySpec, Search};
use crate::spec::{Categories, Cost, Flags, Spec, ValueAccess};
use crate::{Command, ReplyError, number};
use resp::Args;

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC|DESC] [ALPHA] [STORE destination]`, and `SORT_RO`,
/// which has no destination.
#[derive(Clone, Copy, Debug)]
pub struct SortCommand<'a> {
    /// The list, set or sorted set.
    pub key: &'a [u8],
    /// What to sort by instead of the elements; without a `*` nothing is sorted.
    pub by: Option<&'a [u8]>,
    /// Elements to leave out, negative as zero, and how many to answer then, all if negative.
    pub limit: Option<(i64, i64)>,
    /// `DESC`
    pub is_descending: bool,
    /// `ALPHA`: by bytes, not by numbers.
    pub is_alpha: bool,
    /// Where the result is stored, as a list.
    pub destination: Option<&'a [u8]>,
    /// All words, checked by the parser.
    argv: Args<'a>,
}

impl<'a> SortCommand<'a> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        self.destination.is_some()
    }

    /// See [`Command::access`].
    pub fn access(&self) -> ValueAccess {
        if self.writes() {
            ValueAccess::Modifies
        } else {
            ValueAccess::Reads
        }
    }

    /// The patterns of what is answered for each element; the element itself if there is none.
    pub fn patterns(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        options(self.argv).filter_map(|option| match option {
            Ok(SortOption::Get(pattern)) => Some(pattern),
            _ => None,
        })
    }
}

/// One option.
enum SortOption<'a> {
    Ascending,
    Descending,
    Alpha,
    Limit(&'a [u8], &'a [u8]),
    By(&'a [u8]),
    Get(&'a [u8]),
    /// Where the destination stands.
    Store(usize),
}

/// Where the options begin.
const OPTIONS: usize = 2;

/// The options in order, up to the first mistake.
fn options<'a>(argv: Args<'a>) -> impl Iterator<Item = Result<SortOption<'a>, ReplyError>> + Clone + use<'a> {
    let mut at = OPTIONS;
    std::iter::from_fn(move || {
        let word = argv.get(at)?;
        let value = |nth: usize| argv.get(at + nth);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let (option, length) = match (value(1), value(2)) {
            _ if is("ASC") => (SortOption::Ascending, 1),
            _ if is("DESC") => (SortOption::Descending, 1),
            _ if is("ALPHA") => (SortOption::Alpha, 1),
            (Some(offset), Some(count)) if is("LIMIT") => (SortOption::Limit(offset, count), 3),
            (Some(_), _) if is("STORE") => (SortOption::Store(at + 1), 2),
            (Some(pattern), _) if is("BY") => (SortOption::By(pattern), 2),
            (Some(pattern), _) if is("GET") => (SortOption::Get(pattern), 2),
            _ => {
                at = argv.len();
                return Some(Err(ReplyError::Syntax));
            }
        };
        at += length;
        Some(Ok(option))
    })
}

/// Where the destination stands among the words of `SORT`, the last of several. A word that is no option is passed over,
/// as Redis does: where there is one, the command is a mistake, and only `COMMAND GETKEYS` wants to know.
pub(crate) fn destination(argv: Args<'_>) -> Option<usize> {
    let mut destination = None;
    let mut at = OPTIONS;
    while let Some(word) = argv.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        at += match argv.get(at + 1) {
            Some(_) if is("STORE") => {
                destination = Some(at + 1);
                2
            }
            _ if is("LIMIT") => 3,
            _ if is("BY") || is("GET") => 2,
            _ => 1,
        };
    }
    destination
}

fn parse(argv: Args<'_>, may_store: bool) -> Result<Command<'_>, ReplyError> {
    let mut sort = SortCommand {
        key: argv.arg(1),
        by: None,
        limit: None,
        is_descending: false,
        is_alpha: false,
        destination: None,
        argv,
    };
    for option in options(argv) {
        match option? {
            SortOption::Ascending => sort.is_descending = false,
            SortOption::Descending => sort.is_descending = true,
            SortOption::Alpha => sort.is_alpha = true,
            SortOption::Limit(offset, count) => {
                sort.limit = Some((number::integer(offset)?, number::integer(count)?));
            }
            SortOption::By(pattern) => sort.by = Some(pattern),
            SortOption::Get(_) => {}
            SortOption::Store(position) if may_store => sort.destination = Some(argv.arg(position)),
            SortOption::Store(_) => return Err(ReplyError::Syntax),
        }
    }
    Ok(Command::Sort(sort))
}

/// The key after `STORE`.
const DESTINATION: KeySpec = KeySpec {
    notes: Some("`STORE` may stand anywhere among the options."),
    search: Search::Hidden { keyword: "STORE" },
    ..KeySpec::at(0, KeyFlags::OVERWRITE)
};

/// The keys that patterns name.
const PATTERNS: KeySpec = KeySpec {
    notes: Some("`BY` and `GET` make names of keys out of the elements."),
    search: Search::Incomplete,
    ..KeySpec::at(0, KeyFlags::READ)
};

const CATEGORIES: Categories = Categories::SET
    .and(Categories::SORTEDSET)
    .and(Categories::LIST)
    .and(Categories::DANGEROUS);

pub(crate) const SORT: Spec = Spec::write_several("sort", -2)
    .keys(&[KeySpec::at(1, KeyFlags::READ), PATTERNS, DESTINATION])
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
    .of(CATEGORIES)
    .cost(Cost::Part)
    .parse(|args| parse(args, true));

pub(crate) const SORT_RO: Spec = Spec::read_several("sort_ro", -2)
    .keys(&[KeySpec::at(1, KeyFlags::READ), PATTERNS])
    .flags(Flags::MOVABLEKEYS)
    .of(CATEGORIES)
    .cost(Cost::Part)
    .parse(|args| parse(args, false));
