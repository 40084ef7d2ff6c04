//! The patterns that are listened to, so filed that a message is compared with few of them.
//!
//! A pattern stands under the bytes that every channel begins with that fits it (`news.` of `news.*`), or, where it begins
//! with a wildcard, under those that every channel ends with. Only those with neither are compared with every channel.

use command::glob::Glob;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a beginning or an end that patterns are told apart by.
const KEY_BYTES_MAX: usize = 32;

type Name = Arc<[u8]>;

/// Patterns. See the file's header.
#[derive(Default)]
pub(crate) struct Patterns {
    by_prefix: Filed,
    by_suffix: Filed,
    others: Vec<Pattern>,
}

struct Pattern {
    name: Name,
    glob: Glob,
}

/// Patterns by bytes of one end.
#[derive(Default)]
struct Filed {
    patterns: BTreeMap<Box<[u8]>, Vec<Pattern>>,
    /// How many entries of `patterns` have keys of this length.
    lengths: BTreeMap<usize, usize>,
}

impl Filed {
    fn insert(&mut self, key: &[u8], pattern: Pattern) {
        let lengths = &mut self.lengths;
        let filed = self.patterns.entry(key.into()).or_insert_with(|| {
            *lengths.entry(key.len()).or_default() += 1;
            Vec::new()
        });
        filed.push(pattern);
    }

    fn remove(&mut self, key: &[u8], name: &[u8]) {
        let Some(filed) = self.patterns.get_mut(key) else {
            return;
        };
        remove(filed, name);
        if filed.is_empty() {
            self.patterns.remove(key);
            if let Some(count) = self.lengths.get_mut(&key.len()) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&key.len());
                }
            }
        }
    }

    /// Hands over the patterns that a channel may fit, whose bytes of each length `key` cuts out.
    fn look<'a>(
        &'a self,
        channel: &[u8],
        key: impl Fn(usize) -> &'a [u8],
        visit: &mut impl FnMut(&'a Pattern),
    ) {
        let lengths = self.lengths.keys().take_while(|length| **length <= channel.len());
        for filed in lengths.filter_map(|length| self.patterns.get(key(*length))) {
            filed.iter().for_each(&mut *visit);
        }
    }
}

fn remove(patterns: &mut Vec<Pattern>, name: &[u8]) {
    if let Some(at) = patterns.iter().position(|pattern| *pattern.name == *name) {
        patterns.swap_remove(at);
        if patterns.capacity() > 64 && patterns.len() < patterns.capacity() / 8 {
            patterns.shrink_to_fit();
        }
    }
}

/// Where a pattern is filed.
enum Place {
    Prefix(Vec<u8>),
    Suffix(Vec<u8>),
    Others,
}

impl Place {
    fn of(glob: &Glob) -> Place {
        let mut prefix = glob.prefix();
        let mut suffix = glob.suffix();
        if !prefix.is_empty() {
            prefix.truncate(KEY_BYTES_MAX);
            Place::Prefix(prefix)
        } else if !suffix.is_empty() {
            suffix.drain(..suffix.len().saturating_sub(KEY_BYTES_MAX));
            Place::Suffix(suffix)
        } else {
            Place::Others
        }
    }
}

impl Patterns {
    /// Files a pattern, which is not filed yet.
    pub(crate) fn insert(&mut self, name: Name) {
        let glob = Glob::new(&name);
        let place = Place::of(&glob);
        let pattern = Pattern { name, glob };
        match place {
            Place::Prefix(key) => self.by_prefix.insert(&key, pattern),
            Place::Suffix(key) => self.by_suffix.insert(&key, pattern),
            Place::Others => self.others.push(pattern),
        }
    }

    /// Takes a pattern out, if it is there.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        match Place::of(&Glob::new(name)) {
            Place::Prefix(key) => self.by_prefix.remove(&key, name),
            Place::Suffix(key) => self.by_suffix.remove(&key, name),
            Place::Others => remove(&mut self.others, name),
        }
    }

    /// The patterns that a channel fits, and how many it was compared with.
    pub(crate) fn matching(&self, channel: &[u8]) -> (Vec<Name>, usize) {
        let (mut found, mut compared) = (Vec::new(), 0);
        let mut visit = |pattern: &Pattern| {
            compared += 1;
            if pattern.glob.matches(channel) {
                found.push(pattern.name.clone());
            }
        };
        self.by_prefix
            .look(channel, |length| &channel[..length], &mut visit);
        self.by_suffix
            .look(channel, |length| &channel[channel.len() - length..], &mut visit);
        self.others.iter().for_each(visit);
        (found, compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::glob;

    const PATTERNS: [&str; 14] = [
        "news.*",
        "news.sport",
        "news.s?ort",
        "*.sport",
        "*",
        "?ews*",
        "n*t",
        "[n]*",
        "*[t]",
        "*port*",
        "",
        "\\*",
        "news.sport.and.everything.that.is.longer.*",
        "*x.news.sport.and.everything.that.is.longer",
    ];
    const CHANNELS: [&str; 8] = [
        "news.sport",
        "news.",
        "",
        "*",
        "x.sport",
        "news.sport.and.everything.that.is.longer.than.that",
        "x.news.sport.and.everything.that.is.longer",
        "t",
    ];

    #[test]
    fn a_channel_fits_what_it_fits_when_all_are_compared() {
        let mut patterns = Patterns::default();
        let mut kept: Vec<&str> = PATTERNS.to_vec();
        for pattern in PATTERNS {
            patterns.insert(pattern.as_bytes().into());
        }
        loop {
            for channel in CHANNELS {
                let mut found = patterns.matching(channel.as_bytes()).0;
                found.sort();
                let fits = |pattern: &&&str| glob::matches(pattern.as_bytes(), channel.as_bytes());
                let mut expected: Vec<Name> = kept
                    .iter()
                    .filter(fits)
                    .map(|pattern| pattern.as_bytes().into())
                    .collect();
                expected.sort();
                assert_eq!(found, expected, "{channel} {kept:?}");
            }
            let Some(gone) = kept.pop() else { break };
            patterns.remove(gone.as_bytes());
        }
        assert!(patterns.by_prefix.lengths.is_empty() && patterns.by_suffix.lengths.is_empty());
        assert!(patterns.by_prefix.patterns.is_empty() && patterns.by_suffix.patterns.is_empty());
    }

    #[test]
    fn most_patterns_are_not_looked_at() {
        let mut patterns = Patterns::default();
        for number in 0..1_000 {
            patterns.insert(format!("user:{number}:*").as_bytes().into());
            patterns.insert(format!("*:{number}").as_bytes().into());
        }
        let (found, compared) = patterns.matching(b"user:7:5");
        assert_eq!((found.len(), compared), (2, 2));
    }
}
