//! Patterns as `KEYS`, `SCAN` and `CONFIG GET` take them.

/// Whether all of `text` fits `pattern`: `*` any bytes, `?` one byte, `[abc]`, `[a-z]` and `[^a]` one of a set,
/// `\x` exactly `x`. A set that is not closed ends with the pattern.
///
/// Redis differs in one thing: its stars do not fit a text without any bytes.
///
/// Takes at most `pattern.len() * text.len()` steps: after a mismatch only the last `*` is extended, because what
/// an earlier one could take, the last one can take too.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    fits(pattern, text, |byte| byte)
}

/// [`matches()`], with ASCII letters of both cases alike.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    fits(pattern, text, |byte| byte.to_ascii_lowercase())
}

fn fits(pattern: &[u8], text: &[u8], fold: fn(u8) -> u8) -> bool {
    let (mut at, mut position) = (0, 0);
    // Where the pattern goes on after the last star, and where in the text that star ends for now.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = &pattern[at..];
        if rest.first() == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            star = Some((at, position));
            continue;
        }
        let taken = match text.get(position) {
            None if rest.is_empty() => return true,
            // A longer star would leave even less text for the rest.
            None => return false,
            Some(&byte) => one(rest, byte, fold),
        };
        match (taken, &mut star) {
            (Some(length), _) => {
                at += length;
                position += 1;
            }
            (None, Some((after, end))) => {
                *end += 1;
                (at, position) = (*after, *end);
            }
            (None, None) => return false,
        }
    }
}

/// The length of the pattern's first element, which is no star, if `byte` fits it.
fn one(pattern: &[u8], byte: u8, fold: fn(u8) -> u8) -> Option<usize> {
    let (length, fit) = match pattern {
        [] => return None,
        [b'?', ..] => (1, true),
        [b'[', set @ ..] => {
            let (length, fit) = in_set(set, byte, fold);
            (1 + length, fit)
        }
        [b'\\', literal, ..] => (2, fold(*literal) == fold(byte)),
        [literal, ..] => (1, fold(*literal) == fold(byte)),
    };
    fit.then_some(length)
}

/// The length of a set after its `[`, and whether `byte` is in it.
fn in_set(set: &[u8], byte: u8, fold: fn(u8) -> u8) -> (usize, bool) {
    let byte = fold(byte);
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &set[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (fold(*from.min(to)), fold(*from.max(to)));
                found |= (from..=to).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
    (at, found != negated)
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
        assert!(matches_ignoring_case(b"GET*", b"getset"));
        assert!(matches_ignoring_case(b"[A-F]?", b"bX"));
    }

    #[test]
    fn hostile_patterns_take_no_exponential_time() {
        let text = vec![b'a'; 20_000];
        let pattern = b"a*".repeat(500);
        assert!(matches(&pattern, &text));
        let pattern = [pattern, b"b".to_vec()].concat();
        assert!(!matches(&pattern, &text));
    }
}
