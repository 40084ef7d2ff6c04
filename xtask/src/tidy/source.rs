//! Rust source with everything blanked that is not code, so that words can be searched without a parser.

/// The code of one file, line by line as in the file: comments, and what is inside strings and characters, are
/// blanks. Blanks keep their width, so that offsets are those of the file.
pub(super) struct Source {
    code: String,
}

impl Source {
    /// All code.
    pub(super) fn new(text: &str) -> Source {
        Source {
            code: blank_comments_and_strings(text),
        }
    }

    /// Only code that is in the product: items under `#[cfg(test)]` are blank as well.
    pub(super) fn without_tests(text: &str) -> Source {
        let mut source = Source::new(text);
        source.blank_tests();
        source
    }

    /// The blanked text.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Lines of the blanked text.
    pub(super) fn lines(&self) -> Vec<&str> {
        self.code.lines().collect()
    }

    /// The line, from 1, of an offset.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
    }

    /// Where `needle` stands as a word (or words) of its own.
    pub(super) fn words<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        let code = self.code.as_bytes();
        self.code
            .match_indices(needle)
            .map(|(at, _)| at)
            .filter(move |&at| {
                let before = at.checked_sub(1).map(|before| code[before]);
                let after = code.get(at + needle.len()).copied();
                let ends_in_word = needle.bytes().last().is_some_and(is_word);
                !(before.is_some_and(is_word) || ends_in_word && after.is_some_and(is_word))
            })
    }

    fn blank_tests(&mut self) {
        const ATTRIBUTE: &str = "#[cfg(test)]";
        let mut bytes = self.code.clone().into_bytes();
        for (start, _) in self.code.match_indices(ATTRIBUTE) {
            let end = start + ATTRIBUTE.len() + item_length(&self.code[start + ATTRIBUTE.len()..]);
            blank(&mut bytes[start..end]);
        }
        self.code = String::from_utf8(bytes).expect("whole items were replaced by blanks");
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How far the item goes that `code` begins with: to a `;` outside of brackets, or to the end of its braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn blank_comments_and_strings(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        let (skip, length) = match rest[0] {
            b'/' if rest.starts_with(b"//") => (0, line_comment(rest)),
            b'/' if rest.starts_with(b"/*") => (0, block_comment(rest)),
            b'"' => (1, string(&rest[1..])),
            // `r"`, `r#"`, `br#"`; not the `r#` of a raw identifier, nor the end of another word.
            b'r' if !before.is_some_and(|byte| is_word(byte) && byte != b'b' && byte != b'c') => {
                let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
                if rest.get(1 + hashes) != Some(&b'"') {
                    at += 1;
                    continue;
                }
                (2 + hashes, raw_string(&rest[2 + hashes..], hashes))
            }
            b'\'' => match character(&text[at + 1..]) {
                Some(length) => (1, length),
                None => (1, 0),
            },
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut bytes[at + skip..at + skip + length]);
        at += skip + length;
        // The closing quote, which would otherwise open another string.
        if matches!(rest[0], b'"' | b'r') && at < text.len() {
            at += 1;
        }
    }
    String::from_utf8(bytes).expect("comments and strings begin and end between characters")
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of what is between the quotes.
fn string(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], hashes: usize) -> usize {
    let closes = |at: usize| {
        let after = &rest[at + 1..];
        after.len() >= hashes && after[..hashes].iter().all(|&byte| byte == b'#')
    };
    let quotes = (0..rest.len()).filter(|&at| rest[at] == b'"');
    quotes.into_iter().find(|&at| closes(at)).unwrap_or(rest.len())
}

/// The length of a character literal after its first quote, with the last; none for a lifetime.
fn character(rest: &str) -> Option<usize> {
    if let Some(escaped) = rest.strip_prefix('\\') {
        // The character after the backslash may itself be a quote.
        let first = escaped.chars().next()?.len_utf8();
        return escaped[first..].find('\'').map(|end| 1 + first + end + 1);
    }
    let first = rest.chars().next()?.len_utf8();
    rest[first..].starts_with('\'').then_some(first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank_and_keep_their_width() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y"); g"#, r#"f("    "); g"#),
            (r###"r#"a"b"# c"###, r###"r#"   "# c"###),
            ("br\"a\" b", "br\" \" b"),
            (r"'\'' '\n' 'x' b", r"'    '    '   b"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("\"\u{e9}\" x", "\"  \" x"),
            ("for r in \"a\"", "for r in \" \""),
        ];
        for (text, code) in cases {
            assert_eq!(Source::new(text).code(), code, "{text}");
        }
    }

    #[test]
    fn tests_are_no_part_of_the_product() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { fn b() {} }\nfn c() {}\n";
        let source = Source::without_tests(text);
        assert_eq!(source.lines()[0], "fn a() {}");
        assert_eq!(source.lines()[5], "fn c() {}");
        assert!(source.lines()[1..5].iter().all(|line| line.trim().is_empty()));
    }

    #[test]
    fn words_are_found_whole() {
        let source = Source::new("async fn f() { no_async(); asynchronous(); std::fs::read(); async {} }");
        assert_eq!(source.words("async").count(), 2);
        assert_eq!(source.words("std::fs").count(), 1);
        let source = Source::new("eprintln!(); println!()");
        assert_eq!(source.words("println!").collect::<Vec<_>>(), [13]);
    }
}
