//! The slow log of one worker: commands that took long.

use command::{CommandId, Spec};
use options::Parameter;
use resp::Args;
use std::collections::VecDeque;

/// Commands that took long, oldest first. Each worker has its own; who reads them puts them together by their ids.
#[derive(Default)]
pub struct SlowLog {
    entries: VecDeque<SlowEntry>,
}

/// One command that took long.
#[derive(Clone)]
pub struct SlowEntry {
    /// Counts up from 0 over all workers, and is never used again.
    pub id: u64,
    /// When it ended, Unix seconds.
    pub at_secs: i64,
    /// What it took.
    pub micros: u64,
    /// Its words, shortened.
    pub words: Vec<Vec<u8>>,
    /// The client's address; empty if it was gone.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// Words of a command that an entry keeps.
const WORDS_MAX: usize = 32;
/// Bytes of a word that an entry keeps.
const WORD_BYTES_MAX: usize = 128;

impl SlowLog {
    /// Adds an entry. Beyond `most` entries the oldest go.
    pub(crate) fn push(&mut self, entry: SlowEntry, most: usize) {
        self.entries.push_back(entry);
        let surplus = self.entries.len().saturating_sub(most);
        self.entries.drain(..surplus);
    }

    /// The entries, oldest first.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &SlowEntry> {
        self.entries.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing took long.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

impl SlowEntry {
    /// A command's words as entries keep them: secrets left out, and shortened as Redis shortens them.
    pub(crate) fn words(spec: &Spec, args: Args<'_>) -> Vec<Vec<u8>> {
        let kept = if args.len() > WORDS_MAX {
            WORDS_MAX - 1
        } else {
            args.len()
        };
        let mut words: Vec<Vec<u8>> = (0..kept)
            .map(|at| {
                if is_secret(spec, args, at) {
                    b"(redacted)".to_vec()
                } else {
                    shortened(args.arg(at))
                }
            })
            .collect();
        if kept < args.len() {
            words.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
        }
        words
    }

    /// The words of an `EXEC`: `exec`, then those of its commands with `;` between them. The same number of words in all.
    pub(crate) fn words_of_exec<'a>(
        commands: impl Iterator<Item = (&'static Spec, Args<'a>)>,
    ) -> Vec<Vec<u8>> {
        let mut words = vec![b"exec".to_vec()];
        for (spec, args) in commands {
            if words.len() > 1 {
                words.push(b";".to_vec());
            }
            words.extend(SlowEntry::words(spec, args));
            if words.len() > WORDS_MAX {
                words.truncate(WORDS_MAX - 1);
                words.push(b"... (more commands)".to_vec());
                break;
            }
        }
        words
    }
}

fn shortened(word: &[u8]) -> Vec<u8> {
    let mut kept = word[..word.len().min(WORD_BYTES_MAX)].to_vec();
    if kept.len() < word.len() {
        kept.extend_from_slice(format!("... ({} more bytes)", word.len() - kept.len()).as_bytes());
    }
    kept
}

/// Whether a word is a password, or stands where one does.
fn is_secret(spec: &Spec, args: Args<'_>, at: usize) -> bool {
    match spec.id {
        CommandId::Auth => at > 0,
        CommandId::Hello => {
            let follows_auth = |back: usize| {
                at.checked_sub(back)
                    .filter(|before| *before > 0)
                    .is_some_and(|before| args.arg(before).eq_ignore_ascii_case(b"auth"))
            };
            follows_auth(1) || follows_auth(2)
        }
        CommandId::ConfigSet => {
            let is_value = at >= 3 && at % 2 == 1;
            let name = is_value
                .then(|| std::str::from_utf8(args.arg(at - 1)).ok())
                .flatten();
            name.and_then(Parameter::find).is_some_and(|row| row.secret)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn words(text: &str) -> Vec<String> {
        let args = ArgsBuf::from_slices(text.split(' '));
        let spec = command::resolve(args.as_args()).unwrap();
        SlowEntry::words(spec, args.as_args())
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn long_commands_are_shortened() {
        let many = format!("del{}", " k".repeat(33));
        let kept = words(&many);
        assert_eq!(kept.len(), WORDS_MAX);
        assert_eq!(kept[31], "... (3 more arguments)");
        assert_eq!(words(&format!("del{}", " k".repeat(31))).len(), 32);
        let kept = words(&format!("set k {}", "A".repeat(129)));
        assert_eq!(kept[2], format!("{}... (1 more bytes)", "A".repeat(128)));
    }

    #[test]
    fn an_exec_is_shown_with_its_commands() {
        let words = |texts: &[&str]| {
            let commands: Vec<_> = texts
                .iter()
                .map(|text| ArgsBuf::from_slices(text.split(' ')))
                .collect();
            let commands = commands.iter().map(|args| {
                let spec = command::resolve(args.as_args()).expect("there is such a command");
                (spec, args.as_args())
            });
            let words = SlowEntry::words_of_exec(commands).into_iter();
            words
                .map(|word| String::from_utf8(word).expect("they are text"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(&["incr a", "get b"]),
            ["exec", "incr", "a", ";", "get", "b"]
        );
        let many = words(&["incr a"; 20]);
        assert_eq!(
            (many.len(), many[31].as_str()),
            (WORDS_MAX, "... (more commands)")
        );
    }

    #[test]
    fn secrets_are_left_out() {
        assert_eq!(words("auth me pw"), ["auth", "(redacted)", "(redacted)"]);
        assert_eq!(
            words("hello 3 AUTH me pw SETNAME x"),
            ["hello", "3", "AUTH", "(redacted)", "(redacted)", "SETNAME", "x"]
        );
        assert_eq!(
            words("config set timeout 0 requirepass pw"),
            ["config", "set", "timeout", "0", "requirepass", "(redacted)"]
        );
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let mut log = SlowLog::default();
        for id in 0..5 {
            let entry = SlowEntry {
                id,
                at_secs: 0,
                micros: 0,
                words: Vec::new(),
                address: String::new(),
                name: Vec::new(),
            };
            log.push(entry, 2);
        }
        assert_eq!(log.entries().map(|entry| entry.id).collect::<Vec<_>>(), [3, 4]);
    }
}
