//! The line `#!lua name=.. flags=..` that a script or a library may begin with.

/// What scripts and functions may say of themselves.
const FLAGS: &[&str] = &[
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

/// True of a word that says something of a script.
pub(crate) fn is_flag(word: &[u8]) -> bool {
    FLAGS.iter().any(|flag| flag.as_bytes() == word)
}

/// What stands in the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shebang {
    /// The name of a library.
    pub name: Option<String>,
    /// What the script says of itself.
    pub flags: Vec<String>,
}

/// Whose line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A script may have flags, and none of its own name.
    Script,
    /// A library must have a name, and its functions have the flags.
    Library,
}

impl Shebang {
    /// Reads the line, if there is one, and gives what stands behind it.
    ///
    /// The rest begins with the end of the line, so that messages count lines as the author does.
    ///
    /// # Errors
    /// In Redis's words, with `ERR` in front.
    pub fn parse(source: &[u8], purpose: Purpose) -> Result<(Option<Self>, &[u8]), String> {
        if !source.starts_with(b"#!") {
            return match purpose {
                Purpose::Script => Ok((None, source)),
                Purpose::Library => Err("ERR Missing library metadata".to_owned()),
            };
        }
        let Some(end) = source.iter().position(|&byte| byte == b'\n') else {
            return Err(match purpose {
                Purpose::Script => "ERR Invalid script shebang".to_owned(),
                Purpose::Library => "ERR Invalid library metadata".to_owned(),
            });
        };
        let line = String::from_utf8_lossy(&source[..end]).into_owned();
        let mut words = match purpose {
            Purpose::Script => line.split_ascii_whitespace().map(str::to_owned).collect(),
            Purpose::Library => quoted_words(&line).ok_or("ERR Invalid library metadata")?,
        }
        .into_iter();
        let engine = words.next().unwrap_or_default();
        let mut shebang = Self::default();
        match purpose {
            Purpose::Script => {
                if engine != "#!lua" {
                    let engine = &engine[2..];
                    return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
                }
                for word in words {
                    let Some(flags) = word.strip_prefix("flags=") else {
                        return Err(format!("ERR Unknown lua shebang option: {word}"));
                    };
                    for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                        if !is_flag(flag.as_bytes()) {
                            return Err(format!("ERR Unexpected flag in script shebang: {flag}"));
                        }
                        shebang.flags.push(flag.to_owned());
                    }
                }
            }
            Purpose::Library => {
                if !engine[2..].eq_ignore_ascii_case("lua") {
                    return Err(format!("ERR Engine '{}' not found", &engine[2..]));
                }
                for word in words {
                    let Some(name) = word.strip_prefix("name=") else {
                        return Err(format!("ERR Invalid metadata value given: {word}"));
                    };
                    if shebang.name.is_some() {
                        return Err(
                            "ERR Invalid metadata value, name argument was given multiple times".to_owned(),
                        );
                    }
                    shebang.name = Some(name.to_owned());
                }
                let Some(name) = &shebang.name else {
                    return Err("ERR Library name was not given".to_owned());
                };
                let is_name = |name: &str| {
                    !name.is_empty()
                        && name
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                };
                if !is_name(name) {
                    return Err(
                        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
                            .to_owned(),
                    );
                }
            }
        }
        Ok((Some(shebang), &source[end..]))
    }
}

/// The words of a line, of which parts may be in quotes; `None` if one of those has no end, or something follows it at once.
fn quoted_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start().chars().peekable();
    while rest.peek().is_some() {
        let mut word = String::new();
        while let Some(letter) = rest.next_if(|letter| !letter.is_ascii_whitespace()) {
            if letter != '"' && letter != '\'' {
                word.push(letter);
                continue;
            }
            loop {
                match rest.next()? {
                    end if end == letter => break,
                    '\\' if letter == '"' || rest.peek() == Some(&letter) => word.push(rest.next()?),
                    other => word.push(other),
                }
            }
            if rest.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                return None;
            }
        }
        words.push(word);
        while rest.next_if(char::is_ascii_whitespace).is_some() {}
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_may_have_a_line_of_flags() {
        let (shebang, rest) =
            Shebang::parse(b"#!lua flags=no-writes,allow-oom\nreturn 1", Purpose::Script).unwrap();
        assert_eq!(shebang.unwrap().flags, ["no-writes", "allow-oom"]);
        assert_eq!(rest, b"\nreturn 1");
        let (shebang, rest) = Shebang::parse(b"return 1", Purpose::Script).unwrap();
        assert_eq!((shebang, rest), (None, &b"return 1"[..]));
        for (line, error) in [
            (
                "#!lua flags=fast\n",
                "ERR Unexpected flag in script shebang: fast",
            ),
            ("#!perl\n", "ERR Unexpected engine in script shebang: perl"),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            ("#!lua", "ERR Invalid script shebang"),
        ] {
            assert_eq!(
                Shebang::parse(line.as_bytes(), Purpose::Script).unwrap_err(),
                error
            );
        }
    }

    #[test]
    fn a_library_must_have_a_name() {
        let (shebang, _) = Shebang::parse(b"#!lua name=mylib\n", Purpose::Library).unwrap();
        assert_eq!(shebang.unwrap().name.as_deref(), Some("mylib"));
        let (shebang, _) = Shebang::parse(b"#!lua name=\"foo\"  \n", Purpose::Library).unwrap();
        assert_eq!(shebang.unwrap().name.as_deref(), Some("foo"));
        for source in [
            "return 1",
            "#!lua\n",
            "#!lua name=a-b\n",
            "#!js name=a\n",
            "#!lua name=a name=b\n",
            "#!lua name=\"a\n",
            "#!lua name=\"a\"b\n",
        ] {
            assert!(
                Shebang::parse(source.as_bytes(), Purpose::Library).is_err(),
                "{source}"
            );
        }
    }
}
