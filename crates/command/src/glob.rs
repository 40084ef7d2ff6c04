//! Patterns as `KEYS`, `SCAN` and `CONFIG GET` take them.
//!
//! A pattern is read once and compared with many texts. Its stars cut it into parts:
//!
//! ```text
//!   h?llo * [ab]c * world        head, middle parts, tail
//! ```
//!
//! The head must stand at the text's start, the tail at its end, and each middle part is searched from where the one
//! before it ended: what an earlier star could take, the last one can take too. A middle part of plain bytes is searched
//! in linear time, one with wildcards by following all its beginnings at once, a bit for each ("shift-and", Baeza-Yates and
//! Gonnet 1992): 64 elements in one step, and at most `ELEMENTS_MAX`. So no pattern takes more than 256 steps for each
//! byte of a text.

use memchr::memmem::Finder;

/// Stars of a pattern, neighbours counted once and one at the end not at all; a pattern with more fits nothing, as in Redis.
const STARS_MAX: usize = 1_000;

/// Elements of a part between two stars that has wildcards; a pattern with more in one fits nothing.
const ELEMENTS_MAX: usize = 16_384;

/// Whether all of `text` fits `pattern`, once: see [`Glob`].
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Glob::new(pattern).matches(text)
}

/// A pattern: `*` any bytes, `?` one byte, `[abc]`, `[a-z]` and `[^a]` one of a set, `\x` exactly `x`. A set that is not
/// closed ends with the pattern.
///
/// Redis differs in one thing: its stars do not fit a text without any bytes.
#[derive(Debug)]
pub struct Glob {
    /// At the start of the text; without stars, all of it.
    head: Box<[Element]>,
    /// Between two stars each.
    middle: Box<[Part]>,
    /// At the end; `None` if there is no star.
    tail: Option<Box<[Element]>>,
    /// The least bytes of a text that fits.
    shortest: usize,
    /// Letters of both cases are alike.
    folds: bool,
    /// It has more stars or elements than are compared.
    fits_nothing: bool,
}

/// What one byte of a text is compared with.
#[derive(Debug)]
enum Element {
    Byte(u8),
    Any,
    Set(Box<[bool; 256]>),
}

impl Element {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Element::Byte(expected) => *expected == byte,
            Element::Any => true,
            Element::Set(set) => set[usize::from(byte)],
        }
    }
}

/// What stands between two stars.
#[derive(Debug)]
enum Part {
    Plain(Box<Finder<'static>>),
    Wild(Beginnings),
}

impl Part {
    fn new(elements: &[Element]) -> Part {
        let bytes = elements.iter().map(|element| match element {
            Element::Byte(byte) => Some(*byte),
            Element::Any | Element::Set(_) => None,
        });
        match bytes.collect::<Option<Vec<u8>>>() {
            Some(bytes) => Part::Plain(Box::new(Finder::new(&bytes).into_owned())),
            None => Part::Wild(Beginnings::new(elements)),
        }
    }

    /// Where the first place ends at which it fits.
    fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            Part::Plain(finder) => finder.find(text).map(|at| at + finder.needle().len()),
            Part::Wild(beginnings) => beginnings.find(text),
        }
    }
}

/// A part with wildcards, as the bits of its elements that a byte fits, for each byte.
#[derive(Debug)]
struct Beginnings {
    words: usize,
    /// A row of `words` words for each byte.
    rows: Box<[u64]>,
    /// The bit of the last element, in the last word.
    last: u64,
}

impl Beginnings {
    fn new(elements: &[Element]) -> Beginnings {
        let words = elements.len().div_ceil(64);
        let mut rows = vec![0; 256 * words].into_boxed_slice();
        for (at, element) in elements.iter().enumerate() {
            let mut set = |byte: u8| rows[usize::from(byte) * words + at / 64] |= 1 << (at % 64);
            match element {
                Element::Byte(byte) => set(*byte),
                Element::Any | Element::Set(_) => {
                    (0..=u8::MAX).filter(|byte| element.takes(*byte)).for_each(set);
                }
            }
        }
        Beginnings {
            words,
            rows,
            last: 1 << ((elements.len() - 1) % 64),
        }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let mut one = 0;
        let mut several = Vec::new();
        let fitting = if self.words == 1 {
            std::slice::from_mut(&mut one)
        } else {
            several.resize(self.words, 0);
            &mut several[..]
        };
        for (at, byte) in text.iter().enumerate() {
            let row = &self.rows[usize::from(*byte) * self.words..][..self.words];
            // A beginning of no element fits everywhere.
            let mut carry = 1;
            for (word, row) in fitting.iter_mut().zip(row) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & row;
                carry = next;
            }
            if fitting[self.words - 1] & self.last != 0 {
                return Some(at + 1);
            }
        }
        None
    }
}

impl Glob {
    /// Reads a pattern.
    pub fn new(pattern: &[u8]) -> Glob {
        Glob::read(pattern, false)
    }

    /// Reads a pattern for which ASCII letters of both cases are alike.
    pub fn ignoring_case(pattern: &[u8]) -> Glob {
        Glob::read(pattern, true)
    }

    fn read(pattern: &[u8], folds: bool) -> Glob {
        let fold = |byte: u8| if folds { byte.to_ascii_lowercase() } else { byte };
        let mut parts = vec![Vec::new()];
        let mut rest = pattern;
        while let Some((first, after)) = rest.split_first() {
            let element = match (first, after) {
                (b'*', _) => {
                    // Neighbours are one star.
                    if parts.len() == 1 || parts.last().is_some_and(|part| !part.is_empty()) {
                        parts.push(Vec::new());
                    }
                    rest = after;
                    continue;
                }
                (b'?', _) => {
                    rest = after;
                    Element::Any
                }
                (b'[', _) => {
                    let (set, behind) = read_set(after, fold);
                    rest = behind;
                    Element::Set(set)
                }
                (b'\\', [literal, after @ ..]) => {
                    rest = after;
                    Element::Byte(fold(*literal))
                }
                (literal, _) => {
                    rest = after;
                    Element::Byte(fold(*literal))
                }
            };
            let part = parts.last_mut().expect("there is one from the start");
            part.push(element);
        }
        let shortest = parts.iter().map(Vec::len).sum();
        let stars = parts.len() - 1;
        let ends_in_star = parts.last().is_some_and(Vec::is_empty);
        let tail = (stars > 0).then(|| parts.pop().expect("there are two at least"));
        let mut parts = parts.into_iter();
        let head = parts.next().expect("there is one from the start");
        let middle: Vec<Vec<Element>> = parts.collect();
        let is_wild = |part: &Vec<Element>| part.iter().any(|element| !matches!(element, Element::Byte(_)));
        let fits_nothing = stars - usize::from(stars > 0 && ends_in_star) > STARS_MAX
            || middle
                .iter()
                .any(|part| part.len() > ELEMENTS_MAX && is_wild(part));
        let middle = if fits_nothing { Vec::new() } else { middle };
        Glob {
            head: head.into(),
            middle: middle.iter().map(|part| Part::new(part)).collect(),
            tail: tail.map(Into::into),
            shortest,
            folds,
            fits_nothing,
        }
    }

    /// Whether all of `text` fits.
    pub fn matches(&self, text: &[u8]) -> bool {
        if self.folds {
            self.fits(&text.to_ascii_lowercase())
        } else {
            self.fits(text)
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        if self.fits_nothing || text.len() < self.shortest || !fits_here(&self.head, text) {
            return false;
        }
        let Some(tail) = &self.tail else {
            return text.len() == self.shortest;
        };
        let end = text.len() - tail.len();
        if !fits_here(tail, &text[end..]) {
            return false;
        }
        let mut at = self.head.len();
        self.middle.iter().all(|part| {
            let found = part.find(&text[at..end]);
            at += found.unwrap_or(0);
            found.is_some()
        })
    }

    /// The bytes that every text that fits begins with.
    pub fn prefix(&self) -> Vec<u8> {
        plain(self.head.iter())
    }

    /// The bytes that every text that fits ends with.
    pub fn suffix(&self) -> Vec<u8> {
        let mut suffix = plain(self.tail.as_ref().unwrap_or(&self.head).iter().rev());
        suffix.reverse();
        suffix
    }
}

/// The bytes of elements up to the first wildcard.
fn plain<'a>(elements: impl Iterator<Item = &'a Element>) -> Vec<u8> {
    elements
        .map_while(|element| match element {
            Element::Byte(byte) => Some(*byte),
            Element::Any | Element::Set(_) => None,
        })
        .collect()
}

/// Whether the first bytes of a text fit.
fn fits_here(elements: &[Element], text: &[u8]) -> bool {
    elements
        .iter()
        .zip(text)
        .all(|(element, byte)| element.takes(*byte))
}

/// Reads a set behind its `[`; returns it with what follows it.
fn read_set(pattern: &[u8], fold: impl Fn(u8) -> u8) -> (Box<[bool; 256]>, &[u8]) {
    let (is_negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut set = Box::new([false; 256]);
    rest = loop {
        rest = match rest {
            [] => break rest,
            [b'\\', literal, after @ ..] => {
                set[usize::from(fold(*literal))] = true;
                after
            }
            [b']', after @ ..] => break after,
            [from, b'-', to, after @ ..] => {
                let (from, to) = (fold(*from.min(to)), fold(*from.max(to)));
                (from..=to).for_each(|byte| set[usize::from(byte)] = true);
                after
            }
            [literal, after @ ..] => {
                set[usize::from(fold(*literal))] = true;
                after
            }
        };
    };
    if is_negated {
        set.iter_mut().for_each(|is_in| *is_in = !*is_in);
    }
    (set, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("**", "", true),
            ("a*", "a", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("*ab", "aab", true),
            ("*abc*", "xxababcxx", true),
            ("?", "", false),
            ("?", "a", true),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[]a]", "a", false),
            ("[a", "a", true),
            ("[ab", "b", true),
            ("[", "[", false),
            ("[^", "x", true),
            ("[a-", "-", true),
            ("[a-]", "a", true),
            // The bracket is the range's end, so that the set is not closed.
            ("[a-]", "_", true),
            ("[a-]", "-", false),
            ("[\\]]", "]", true),
            ("[\\^]", "^", true),
            ("[a\\-z]", "-", true),
            ("[a\\-z]", "b", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("a\\", "a\\", true),
            ("\\\\", "\\", true),
            ("a[", "a", false),
            ("foo*bar", "foobarbaz", false),
            ("*?", "", false),
            ("*?", "a", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern:?} {text:?}"
            );
        }
    }

    #[test]
    fn case_matters_only_if_asked_for() {
        assert!(!matches(b"GET*", b"getset"));
        assert!(Glob::ignoring_case(b"GET*").matches(b"getset"));
        assert!(Glob::ignoring_case(b"[A-F]?").matches(b"bX"));
        assert!(Glob::ignoring_case(b"[a-f]*\\X").matches(b"Bx"));
    }

    #[test]
    fn hostile_patterns_take_linear_time() {
        let text = vec![b'a'; 100_000];
        let part = |repeated: &[u8], times: usize| [b"*", &repeated.repeat(times)[..], b"b*"].concat();
        let patterns = [
            // More elements than the text has bytes.
            part(b"a?", 150_000),
            part(b"a", 50_000),
            part(b"a?", ELEMENTS_MAX / 2 - 1),
            part(b"[ab]", 64),
            part(&[&b"["[..], &b"ac".repeat(150_000), b"]"].concat(), 1),
            [b"a*".repeat(STARS_MAX), b"b".to_vec()].concat(),
        ];
        for pattern in &patterns {
            assert!(!matches(pattern, &text));
        }
        assert!(matches(&[b"a*".repeat(STARS_MAX), b"a".to_vec()].concat(), &text));
    }

    #[test]
    fn too_many_stars_fit_nothing_as_in_redis() {
        let text = vec![b'a'; 60_000];
        for (pattern, expected) in [
            (b"a*".repeat(STARS_MAX), true),
            // The last star does not count, nor do neighbours.
            (b"a*".repeat(STARS_MAX + 1), true),
            (b"a***".repeat(STARS_MAX + 1), true),
            (b"a*".repeat(STARS_MAX + 2), false),
            (b"*?".repeat(STARS_MAX), true),
            (b"*?".repeat(STARS_MAX + 1), false),
            (b"*?".repeat(50_000), false),
        ] {
            assert_eq!(matches(&pattern, &text), expected, "{} bytes", pattern.len());
        }
    }

    /// The same by trying everything.
    fn plainly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| plainly(rest, &text[taken..])),
            (_, []) => false,
            ([b'?', rest @ ..], [_, after @ ..]) => plainly(rest, after),
            ([b'[', rest @ ..], [byte, after @ ..]) => {
                let (set, rest) = read_set(rest, |byte| byte);
                set[usize::from(*byte)] && plainly(rest, after)
            }
            ([b'\\', literal, rest @ ..] | [literal, rest @ ..], [byte, after @ ..]) => {
                literal == byte && plainly(rest, after)
            }
        }
    }

    #[test]
    fn patterns_fit_what_trying_everything_finds() {
        let mut prng = ids::Prng::new(7);
        let mut draw = |letters: &[u8], most: u64| -> Vec<u8> {
            let length = prng.below(most);
            (0..length)
                .map(|_| letters[prng.below(letters.len() as u64) as usize])
                .collect()
        };
        let mut fitting = 0;
        for _ in 0..20_000 {
            let (pattern, text) = (draw(b"aab**?[]^-\\", 10), draw(b"ab]", 12));
            let expected = plainly(&pattern, &text);
            fitting += u32::from(expected);
            let shown = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text), expected, "{} {}", shown.0, shown.1);
            let glob = Glob::new(&pattern);
            if expected {
                assert!(text.starts_with(&glob.prefix()) && text.ends_with(&glob.suffix()));
            }
        }
        assert!(fitting > 500, "{fitting}");
        // Parts of more than one word.
        for length in 60..140 {
            let part = [b"?".repeat(length), b"b".to_vec()].concat();
            let pattern = [b"*", &part[..], b"*c"].concat();
            let text = [b"a".repeat(length + 5), b"bac".to_vec()].concat();
            assert!(matches(&pattern, &text), "{length}");
            assert!(!matches(&pattern, &text[10..]), "{length}");
        }
    }
}
