//! Source as tokens, with Lua 5.1's words for what is wrong with it.

use crate::number;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Char(u8),
    Keyword(Keyword),
    Concat,
    Dots,
    Equal,
    GreaterEqual,
    LessEqual,
    NotEqual,
    Number(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
    End,
}

macro_rules! keywords {
    ($($name:literal => $variant:ident),* $(,)?) => {
        /// A word that cannot be a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Keyword {
            $($variant,)*
        }

        impl Keyword {
            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            fn of(word: &[u8]) -> Option<Self> {
                $(if word == $name.as_bytes() {
                    return Some(Self::$variant);
                })*
                None
            }
        }
    };
}

keywords! {
    "and" => And,
    "break" => Break,
    "do" => Do,
    "else" => Else,
    "elseif" => Elseif,
    "end" => End,
    "false" => False,
    "for" => For,
    "function" => Function,
    "if" => If,
    "in" => In,
    "local" => Local,
    "nil" => Nil,
    "not" => Not,
    "or" => Or,
    "repeat" => Repeat,
    "return" => Return,
    "then" => Then,
    "true" => True,
    "until" => Until,
    "while" => While,
}

impl Token {
    /// The token as messages show it, names and values aside.
    pub(crate) fn word(&self) -> Vec<u8> {
        match self {
            Self::Char(byte) if byte.is_ascii_control() => format!("char({byte})").into_bytes(),
            Self::Char(byte) => vec![*byte],
            Self::Keyword(keyword) => keyword.word().as_bytes().to_vec(),
            Self::Concat => b"..".to_vec(),
            Self::Dots => b"...".to_vec(),
            Self::Equal => b"==".to_vec(),
            Self::GreaterEqual => b">=".to_vec(),
            Self::LessEqual => b"<=".to_vec(),
            Self::NotEqual => b"~=".to_vec(),
            Self::Number(_) => b"<number>".to_vec(),
            Self::Name(_) => b"<name>".to_vec(),
            Self::Text(_) => b"<string>".to_vec(),
            Self::End => b"<eof>".to_vec(),
        }
    }
}

/// Source that is read token by token.
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    /// Where the token begins that was read last.
    start: usize,
    pub(crate) line: u32,
    /// Line of the token before the current one.
    pub(crate) last_line: u32,
    pub(crate) token: Token,
    ahead: Option<(Token, usize, usize, u32)>,
    /// Source text of the current token.
    text: (usize, usize),
    name: Vec<u8>,
}

/// What is wrong, complete with its position.
pub(crate) type SyntaxError = Vec<u8>;

impl<'a> Lexer<'a> {
    /// `name` is the chunk's, as messages show it.
    pub(crate) fn new(source: &'a [u8], name: Vec<u8>) -> Self {
        Self {
            source,
            at: 0,
            start: 0,
            line: 1,
            last_line: 1,
            token: Token::End,
            ahead: None,
            text: (0, 0),
            name,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    /// An error at a line, near something.
    fn error_near(&self, message: &str, near: Option<&[u8]>) -> SyntaxError {
        let mut text = self.name.clone();
        text.extend_from_slice(format!(":{}: {message}", self.line).as_bytes());
        if let Some(near) = near {
            text.extend_from_slice(b" near '");
            // C's formatting ends at a zero.
            let end = near.iter().position(|&byte| byte == 0).unwrap_or(near.len());
            text.extend_from_slice(&near[..end]);
            text.push(b'\'');
        }
        text
    }

    /// An error that names no token.
    pub(crate) fn error_plain(&self, message: &str) -> SyntaxError {
        self.error_near(message, None)
    }

    /// An error near the current token.
    pub(crate) fn error(&self, message: &str) -> SyntaxError {
        let near = match self.token {
            Token::Number(_) | Token::Name(_) | Token::Text(_) => {
                self.source[self.text.0..self.text.1].to_vec()
            }
            _ => self.token.word(),
        };
        self.error_near(message, Some(&near))
    }

    /// An error within a token that is being read.
    fn error_within(&self, message: &str) -> SyntaxError {
        self.error_near(message, Some(&self.source[self.start..self.at]))
    }

    /// Goes on to the next token.
    pub(crate) fn next(&mut self) -> Result<(), SyntaxError> {
        self.last_line = self.line;
        if let Some((token, start, end, line)) = self.ahead.take() {
            self.token = token;
            self.text = (start, end);
            self.line = line;
        } else {
            self.token = self.read()?;
            self.text = (self.start, self.at);
        }
        Ok(())
    }

    /// The token behind the current one.
    pub(crate) fn look_ahead(&mut self) -> Result<&Token, SyntaxError> {
        if self.ahead.is_none() {
            // The position of the current token stands until the next one is taken.
            let line = self.line;
            let token = self.read()?;
            self.ahead = Some((token, self.start, self.at, self.line));
            self.line = line;
        }
        Ok(&self.ahead.as_ref().expect("it was just read").0)
    }

    fn newline(&mut self) {
        let first = self.source[self.at];
        self.at += 1;
        if let Some(second @ (b'\n' | b'\r')) = self.peek()
            && second != first
        {
            self.at += 1;
        }
        self.line += 1;
    }

    fn read(&mut self) -> Result<Token, SyntaxError> {
        loop {
            self.start = self.at;
            let Some(byte) = self.peek() else {
                return Ok(Token::End);
            };
            match byte {
                b'\n' | b'\r' => self.newline(),
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' => {
                    self.at += 1;
                    if self.peek() != Some(b'-') {
                        return Ok(Token::Char(b'-'));
                    }
                    self.at += 1;
                    self.comment()?;
                }
                b'[' => {
                    let (level, length) = self.bracket_level();
                    return match level {
                        Some(level) => {
                            self.at += length;
                            Ok(Token::Text(self.long_text(level, "string")?))
                        }
                        None if length == 1 => {
                            self.at += 1;
                            Ok(Token::Char(b'['))
                        }
                        None => {
                            self.at += length;
                            Err(self.error_within("invalid long string delimiter"))
                        }
                    };
                }
                b'=' => return Ok(self.maybe_equal(b'=', Token::Equal)),
                b'<' => return Ok(self.maybe_equal(b'<', Token::LessEqual)),
                b'>' => return Ok(self.maybe_equal(b'>', Token::GreaterEqual)),
                b'~' => return Ok(self.maybe_equal(b'~', Token::NotEqual)),
                b'"' | b'\'' => return self.quoted(byte),
                b'.' => {
                    self.at += 1;
                    if self.peek() == Some(b'.') {
                        self.at += 1;
                        if self.peek() == Some(b'.') {
                            self.at += 1;
                            return Ok(Token::Dots);
                        }
                        return Ok(Token::Concat);
                    }
                    if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                        return self.number();
                    }
                    return Ok(Token::Char(b'.'));
                }
                b'0'..=b'9' => return self.number(),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    while self
                        .peek()
                        .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    {
                        self.at += 1;
                    }
                    let word = &self.source[self.start..self.at];
                    return Ok(match Keyword::of(word) {
                        Some(keyword) => Token::Keyword(keyword),
                        None => Token::Name(word.to_vec()),
                    });
                }
                _ => {
                    self.at += 1;
                    return Ok(Token::Char(byte));
                }
            }
        }
    }

    fn maybe_equal(&mut self, first: u8, token: Token) -> Token {
        self.at += 1;
        if self.peek() == Some(b'=') {
            self.at += 1;
            token
        } else {
            Token::Char(first)
        }
    }

    /// At a bracket: how many equal signs it has, if it is a long one; and the length of all that.
    fn bracket_level(&self) -> (Option<usize>, usize) {
        let bracket = self.source[self.at];
        let mut end = self.at + 1;
        while self.source.get(end) == Some(&b'=') {
            end += 1;
        }
        let level = end - self.at - 1;
        if self.source.get(end) == Some(&bracket) {
            (Some(level), end + 1 - self.at)
        } else {
            (None, end - self.at)
        }
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'[')
            && let (Some(level), length) = self.bracket_level()
        {
            self.at += length;
            self.long_text(level, "comment")?;
            return Ok(());
        }
        while self.peek().is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {
            self.at += 1;
        }
        Ok(())
    }

    fn long_text(&mut self, level: usize, what: &str) -> Result<Vec<u8>, SyntaxError> {
        let mut text = Vec::new();
        if matches!(self.peek(), Some(b'\n' | b'\r')) {
            self.newline();
        }
        loop {
            match self.peek() {
                None => {
                    let message = format!("unfinished long {what}");
                    return Err(self.error_near(&message, Some(b"<eof>")));
                }
                Some(b']') => {
                    let (found, length) = self.bracket_level();
                    if found == Some(level) {
                        self.at += length;
                        return Ok(text);
                    }
                    text.push(b']');
                    self.at += 1;
                }
                Some(b'[') => {
                    if level == 0 && self.bracket_level().0 == Some(0) {
                        return Err(self.error_near("nesting of [[...]] is deprecated", Some(b"[")));
                    }
                    text.push(b'[');
                    self.at += 1;
                }
                Some(b'\n' | b'\r') => {
                    text.push(b'\n');
                    self.newline();
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Token, SyntaxError> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.error_near("unfinished string", Some(b"<eof>"))),
                Some(b'\n' | b'\r') => return Err(self.error_within("unfinished string")),
                Some(b'\\') => {
                    self.at += 1;
                    let Some(byte) = self.peek() else { continue };
                    match byte {
                        b'\n' | b'\r' => {
                            text.push(b'\n');
                            self.newline();
                            continue;
                        }
                        b'0'..=b'9' => {
                            let mut value = 0u32;
                            for _ in 0..3 {
                                let Some(digit @ b'0'..=b'9') = self.peek() else {
                                    break;
                                };
                                value = value * 10 + u32::from(digit - b'0');
                                self.at += 1;
                            }
                            let Ok(byte) = u8::try_from(value) else {
                                return Err(self.error_within("escape sequence too large"));
                            };
                            text.push(byte);
                            continue;
                        }
                        b'a' => text.push(7),
                        b'b' => text.push(8),
                        b'f' => text.push(12),
                        b'n' => text.push(b'\n'),
                        b'r' => text.push(b'\r'),
                        b't' => text.push(b'\t'),
                        b'v' => text.push(11),
                        other => text.push(other),
                    }
                    self.at += 1;
                }
                Some(byte) if byte == quote => {
                    self.at += 1;
                    return Ok(Token::Text(text));
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            self.at += 1;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
        }
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            self.at += 1;
        }
        match number::parse(&self.source[self.start..self.at]) {
            Some(n) => Ok(Token::Number(n)),
            None => Err(self.error_within("malformed number")),
        }
    }

    /// True if the character behind the current token is not on the same line: a call would be ambiguous.
    pub(crate) fn has_moved_line(&self) -> bool {
        self.line != self.last_line
    }
}

/// A chunk's name as messages show it.
pub(crate) fn chunk_id(source: &[u8]) -> Vec<u8> {
    const MAX: usize = 60;
    match source {
        [b'=', rest @ ..] => rest[..rest.len().min(MAX - 1)].to_vec(),
        [b'@', rest @ ..] => {
            let room = MAX - " '...' ".len() - 1;
            if rest.len() > room {
                [b"...", &rest[rest.len() - room..]].concat()
            } else {
                rest.to_vec()
            }
        }
        _ => {
            let end = source
                .iter()
                .position(|&byte| matches!(byte, b'\n' | b'\r' | 0))
                .unwrap_or(source.len());
            let room = MAX - " [string \"...\"] ".len() - 1;
            let mut text = b"[string \"".to_vec();
            let is_cut = end < source.len() && source[end] != 0 || end > room;
            text.extend_from_slice(&source[..end.min(room)]);
            if is_cut {
                text.extend_from_slice(b"...");
            }
            text.extend_from_slice(b"\"]");
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_source_is_a_token() {
        let mut lexer = Lexer::new(b"x -- y\n..", b"t".to_vec());
        lexer.next().unwrap();
        assert_eq!(lexer.token, Token::Name(b"x".to_vec()));
        assert_eq!(lexer.look_ahead().unwrap(), &Token::Concat);
        lexer.next().unwrap();
        assert_eq!((lexer.line, lexer.last_line), (2, 1));
        lexer.next().unwrap();
        assert_eq!(lexer.token, Token::End);
    }
}
