//! One command of a transcript: a name, words, and words of the form `key=value`.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// A command. Whoever carries it out must read every word: one that nobody reads is misspelt.
#[derive(Debug)]
pub struct Command {
    line: usize,
    /// As it stands in the file.
    text: String,
    name: String,
    words: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    text: String,
    /// The length of the key, if it is of the form `key=value`, and not quoted.
    key: Option<usize>,
    is_read: Cell<bool>,
}

impl Command {
    /// Splits a line. Words stand between spaces, or between double quotes, where `\r`, `\n`, `\"` and `\\` are what they
    /// are in Rust. An error says what is wrong with the line.
    pub(crate) fn read(line: usize, text: &str) -> Result<Command, String> {
        let mut words = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let word = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let (word, after) = unquote(quoted)?;
                    rest = after;
                    if !rest.is_empty() && !rest.starts_with(' ') {
                        return Err("a quoted word ends where a space stands".into());
                    }
                    Word::new(word, false)
                }
                None => {
                    let end = rest.find(' ').unwrap_or(rest.len());
                    let (word, after) = rest.split_at(end);
                    rest = after;
                    Word::new(word.to_owned(), true)
                }
            };
            words.push(word);
            rest = rest.trim_start();
        }
        if words.is_empty() {
            return Err("there is no command".into());
        }
        Ok(Command {
            line,
            text: text.trim().to_owned(),
            name: words.remove(0).text,
            words,
        })
    }

    /// The line of the file, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The first word.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A word behind the name that has no key, from 0.
    ///
    /// # Errors
    ///
    /// If there are not so many: `what` says what it should have been.
    pub fn word(&self, place: usize, what: &str) -> Result<&str, String> {
        let mut plain = self.words.iter().filter(|word| word.key.is_none());
        let word = plain
            .nth(place)
            .ok_or_else(|| format!("`{}` lacks {what}", self.name))?;
        Ok(word.read())
    }

    /// [`Command::word`] as a number, or whatever can be read from a word.
    ///
    /// # Errors
    ///
    /// If it is not there, or is none.
    pub fn parsed<T: FromStr>(&self, place: usize, what: &str) -> Result<T, String> {
        parse(self.word(place, what)?, what)
    }

    /// All words from a place on, with keys or without: words that are meant for somebody else.
    pub fn rest(&self, place: usize) -> Vec<&str> {
        self.words.iter().skip(place).map(Word::read).collect()
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        let word = self.words.iter().find(|word| word.has_key(key))?;
        Some(&word.read()[key.len() + 1..])
    }

    /// The value of a key as a number, or whatever can be read from a word.
    ///
    /// # Errors
    ///
    /// If it is there and is none.
    pub fn parsed_value<T: FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        self.value(key).map(|value| parse(value, key)).transpose()
    }

    /// The error of an interpreter that does not know the name.
    pub fn unknown(&self) -> String {
        format!("there is no command `{}`", self.name)
    }

    /// The first word that nobody has read.
    pub(crate) fn unread(&self) -> Option<&str> {
        let word = self.words.iter().find(|word| !word.is_read.get())?;
        Some(&word.text)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Word {
    fn new(text: String, may_have_key: bool) -> Word {
        let key = text.find('=').filter(|length| {
            let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            may_have_key && *length > 0 && text[..*length].chars().all(is_name)
        });
        Word {
            text,
            key,
            is_read: Cell::new(false),
        }
    }

    fn has_key(&self, key: &str) -> bool {
        self.key.is_some_and(|length| &self.text[..length] == key)
    }

    fn read(&self) -> &str {
        self.is_read.set(true);
        &self.text
    }
}

fn parse<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not {what}"))
}

/// The word before the closing quote, and what stands behind it.
fn unquote(quoted: &str) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((word, &quoted[at + 1..])),
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                Some('r') => word.push('\r'),
                Some('n') => word.push('\n'),
                Some(escaped @ ('"' | '\\')) => word.push(escaped),
                _ => return Err("behind `\\` stands r, n, a quote or another `\\`".into()),
            },
            letter => word.push(letter),
        }
    }
    Err("a quote is not closed".into())
}
