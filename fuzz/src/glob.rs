//! Patterns.

use command::glob::{Glob, matches};

/// Matching ends and never panics; escaped text fits itself alone; a star in front takes anything.
pub fn glob(data: &[u8]) {
    let data = &data[..data.len().min(400)];
    let split = data
        .iter()
        .position(|&byte| byte == 0xff)
        .unwrap_or(data.len() / 2);
    let (pattern, text) = (&data[..split], data.get(split + 1..).unwrap_or_default());
    let fits = matches(pattern, text);
    Glob::ignoring_case(pattern).matches(text);
    if fits {
        let starred = [b"*", pattern].concat();
        for prefix in [&b""[..], b"x", pattern, text] {
            assert!(matches(&starred, &[prefix, text].concat()));
        }
    }
    let escaped: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
    assert!(matches(&escaped, text) && Glob::ignoring_case(&escaped).matches(text));
    assert!(!matches(&escaped, &[text, b"x"].concat()));
    assert!(text.is_empty() || !matches(&escaped, &text[1..]));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "a*b*c\u{1}",
        "[a-z]*[^x]?",
        "h[\\]ae-]llo",
        "\\*\\[",
        "[^",
        "[a-",
        "*a*a*a*a*b",
    ]
    .iter()
    .flat_map(|pattern| {
        ["", "abc", "hello", "]", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
            .map(|text| [pattern.as_bytes(), &[0xff], text.as_bytes()].concat())
    })
    .collect()
}
