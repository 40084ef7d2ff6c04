//! Backups of the whole cluster at one instant, and how what they hold is put back.
//!
//! `BACKUP` is how `chorale admin backup` speaks to nodes: one command of them, `BACKUP MARK`, is carried out by all groups at
//! once, and the others concern what one node copies. `MRESTORE` puts objects as a backup has them.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Categories, Flags, Merge, Spec, Spread, ValueAccess};
use crate::{Command, ReplyError};
use ids::UnixMillis;
use resp::Args;

/// What payloads of `MRESTORE` begin with.
pub const RESTORE_FORMAT: u8 = 1;

/// The flag of a payload that adds elements to a large collection.
pub const RESTORE_CONTINUES: u8 = 128;

/// A subcommand of `BACKUP` that the node answers.
const fn of_node(name: &'static str, arity: i16) -> Spec {
    Spec::new(name, arity).flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_MULTI))
}

pub(crate) const BACKUP: Spec = Spec::container("backup");
pub(crate) const BACKUP_BEGIN: Spec = of_node("backup|begin", -4);
pub(crate) const BACKUP_STATUS: Spec = of_node("backup|status", 3);
pub(crate) const BACKUP_PARTS: Spec = of_node("backup|parts", 3);
pub(crate) const BACKUP_READ: Spec = of_node("backup|read", 6);
pub(crate) const BACKUP_END: Spec = of_node("backup|end", 3);
pub(crate) const BACKUP_HELP: Spec = Spec::help("backup|help");

pub(crate) const BACKUP_MARK: Spec = of_node("backup|mark", 3)
    .flags(Flags::WRITE)
    .everywhere(Merge::Ok)
    .access(ValueAccess::Overwrites)
    .parse(|args| {
        Ok(Command::BackupMark {
            id: backup_id(args.arg(2))?,
        })
    });

/// The number of a backup: positive.
///
/// # Errors
/// What is none.
pub fn backup_id(word: &[u8]) -> Result<u64, ReplyError> {
    let id = number::parse_i64(word).and_then(|id| u64::try_from(id).ok());
    id.filter(|id| *id > 0).ok_or(ReplyError::InvalidBackupId)
}

pub(crate) const MRESTORE: Spec = Spec::write_several("mrestore", -4)
    .keys(&[KeySpec::from(1, KeyFlags::OVERWRITE).step(3)])
    .flags(Flags::DENYOOM)
    .of(Categories::DANGEROUS)
    .spread(Spread::Split(Merge::Ok))
    .access(ValueAccess::Overwrites)
    .parse(parse_mrestore);

fn parse_mrestore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let triples = args.from(1);
    if !triples.len().is_multiple_of(3) {
        return Err(ReplyError::WrongArity("mrestore"));
    }
    (0..triples.len() / 3).try_for_each(|at| RestoredObject::of(triples, at).map(|_| ()))?;
    Ok(Command::MRestore { triples })
}

/// One object of an `MRESTORE`.
#[derive(Clone, Copy, Debug)]
pub struct RestoredObject<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// When it expires.
    pub deadline: Option<UnixMillis>,
    /// Format, flags, form and value: the keyspace knows what they are.
    pub payload: &'a [u8],
}

impl<'a> RestoredObject<'a> {
    /// The one at this place among those of an `MRESTORE`.
    ///
    /// # Errors
    /// A deadline that is no number, or negative.
    pub fn of(triples: Args<'a>, at: usize) -> Result<RestoredObject<'a>, ReplyError> {
        let millis = number::integer(triples.arg(3 * at + 1))?;
        if millis < 0 {
            return Err(ReplyError::InvalidExpireTime("mrestore"));
        }
        Ok(RestoredObject {
            key: triples.arg(3 * at),
            deadline: (millis > 0).then_some(UnixMillis(millis)),
            payload: triples.arg(3 * at + 2),
        })
    }
}
