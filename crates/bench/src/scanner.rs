//! Replies of RESP2 and RESP3, read as they come: where each ends, whether it is an error, and how many values in it are nil.
//!
//! Bytes are looked at once and not kept, whatever the pieces in which they come; of an error the first [`TEXT_MAX`] bytes are.
//! It does not read what values hold, and of RESP3 not what nobody sends without being asked: attributes, and values whose length
//! is told behind them. Both are no replies to it. What a server pushes is read over.

/// Bytes of a line that are kept. Of an error this is enough for its first word and an address; a longer length is none.
const TEXT_MAX: usize = 160;

/// The answer to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The first error in it, without the `-`: the reply itself, or within an array, as `EXEC` answers.
    pub error: Option<&'a [u8]>,
    /// The reply itself is nil, as of an `EXEC` that was not carried out.
    pub is_nil: bool,
    /// How many values are nil: the reply itself, or values in it.
    pub nils: u32,
    /// The reply itself is this integer, as of `WAIT`.
    pub integer: Option<i64>,
}

/// What came is no reply of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Where in the stream of replies of one connection the next byte belongs.
#[derive(Debug)]
pub struct Scanner {
    /// The line that has begun.
    line: [u8; TEXT_MAX],
    line_len: usize,
    /// Bytes of a bulk string that have not come, its CR LF among them.
    bulk_missing: u64,
    /// Values of this reply that have not ended.
    values_missing: u64,
    is_first: bool,
    /// What is being read is no reply, but was pushed.
    is_push: bool,
    /// The bulk string that is being read is the text of an error.
    is_error_bulk: bool,
    is_nil: bool,
    nils: u32,
    integer: Option<i64>,
    error: [u8; TEXT_MAX],
    error_len: usize,
    has_error: bool,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner {
            line: [0; TEXT_MAX],
            line_len: 0,
            bulk_missing: 0,
            values_missing: 0,
            is_first: true,
            is_push: false,
            is_error_bulk: false,
            is_nil: false,
            nils: 0,
            integer: None,
            error: [0; TEXT_MAX],
            error_len: 0,
            has_error: false,
        }
    }
}

impl Scanner {
    /// Reads on, and takes what it has read off the front of `bytes`. `None` when all bytes are read and the reply goes on.
    ///
    /// # Errors
    /// If this is no reply. The connection is of no more use then.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Reply<'_>>, Malformed> {
        loop {
            if self.bulk_missing > 0 {
                let taken = self.bulk_missing.min(bytes.len() as u64);
                let (text, rest) = bytes.split_at(taken as usize);
                *bytes = rest;
                self.bulk_missing -= taken;
                if self.is_error_bulk {
                    self.keep_error(text);
                }
                if self.bulk_missing > 0 {
                    return Ok(None);
                }
                self.is_error_bulk = false;
            } else {
                let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                    self.keep(bytes);
                    *bytes = &[];
                    return Ok(None);
                };
                let (line, rest) = bytes.split_at(end + 1);
                *bytes = rest;
                if self.line_len == 0 {
                    self.on_line(line)?;
                } else {
                    self.keep(line);
                    let (kept, length) = (self.line, self.line_len);
                    self.line_len = 0;
                    self.on_line(&kept[..length])?;
                }
                if self.bulk_missing > 0 {
                    continue;
                }
            }
            self.values_missing -= 1;
            if self.values_missing == 0 {
                if self.is_push {
                    self.end();
                    continue;
                }
                return Ok(Some(self.end()));
            }
        }
    }

    /// The beginning of a line whose end has not come, as far as there is room.
    fn keep(&mut self, bytes: &[u8]) {
        let room = TEXT_MAX - self.line_len;
        let taken = room.min(bytes.len());
        self.line[self.line_len..self.line_len + taken].copy_from_slice(&bytes[..taken]);
        self.line_len += taken;
    }

    /// More of the text of an error, as far as there is room.
    fn keep_error(&mut self, text: &[u8]) {
        let taken = text.len().min(TEXT_MAX - self.error_len);
        self.error[self.error_len..self.error_len + taken].copy_from_slice(&text[..taken]);
        self.error_len += taken;
    }

    /// A value, or the head of one.
    fn on_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let is_whole_reply = self.is_first;
        if self.is_first {
            self.is_first = false;
            self.values_missing = 1;
        }
        let (kind, text) = line.split_first().ok_or(Malformed)?;
        match kind {
            b'+' | b',' | b'#' | b'(' => Ok(()),
            b':' => {
                if is_whole_reply {
                    let text = std::str::from_utf8(text.trim_ascii_end()).map_err(|_| Malformed)?;
                    self.integer = Some(text.parse().map_err(|_| Malformed)?);
                }
                Ok(())
            }
            b'-' => {
                if !self.has_error {
                    self.has_error = true;
                    self.error_len = 0;
                    self.keep_error(text);
                }
                Ok(())
            }
            b'_' => self.on_nil(is_whole_reply),
            b'$' | b'=' | b'!' => match length(text)? {
                None => self.on_nil(is_whole_reply),
                Some(length) => {
                    self.bulk_missing = length + 2;
                    if *kind == b'!' && !self.has_error {
                        self.has_error = true;
                        self.is_error_bulk = true;
                        self.error_len = 0;
                    }
                    Ok(())
                }
            },
            b'*' | b'~' | b'%' | b'>' => match length(text)? {
                None => self.on_nil(is_whole_reply),
                Some(count) => {
                    // A map tells pairs.
                    let values = if *kind == b'%' { 2 * count } else { count };
                    self.is_push |= is_whole_reply && *kind == b'>';
                    self.values_missing = self.values_missing.checked_add(values).ok_or(Malformed)?;
                    Ok(())
                }
            },
            _ => Err(Malformed),
        }
    }

    fn on_nil(&mut self, is_whole_reply: bool) -> Result<(), Malformed> {
        self.is_nil |= is_whole_reply;
        self.nils += 1;
        Ok(())
    }

    fn end(&mut self) -> Reply<'_> {
        let (is_nil, nils, has_error) = (self.is_nil, self.nils, self.has_error);
        let integer = self.integer.take();
        self.is_first = true;
        self.is_push = false;
        self.is_nil = false;
        self.nils = 0;
        self.has_error = false;
        Reply {
            error: has_error.then(|| self.error[..self.error_len].trim_ascii_end()),
            is_nil,
            nils,
            integer,
        }
    }
}

/// A length or a count; `None` is the nil that -1 stands for. More than 2^40 is none that a server could mean.
fn length(text: &[u8]) -> Result<Option<u64>, Malformed> {
    let digits = text.strip_suffix(b"\r\n").ok_or(Malformed)?;
    if digits == b"-1" {
        return Ok(None);
    }
    if digits.is_empty() || digits.len() > 12 {
        return Err(Malformed);
    }
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Malformed);
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reply says, as a word.
    fn word(reply: Reply<'_>) -> String {
        match reply.error {
            Some(error) => format!("error {}", String::from_utf8_lossy(error)),
            None if reply.is_nil => "nil".to_owned(),
            None if reply.integer.is_some() => format!("integer {}", reply.integer.unwrap_or_default()),
            None => format!("value with {} nils", reply.nils),
        }
    }

    const STREAM: &[u8] = b"+OK\r\n:-12\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n-ERR no way\r\n*3\r\n$1\r\na\r\n$-1\r\n*2\r\n+x\r\n$-1\r\n\
        *2\r\n:1\r\n-WRONGTYPE of it\r\n-MOVED 7 10.0.0.1:6379\r\n+PONG\r\n";

    const REPLIES: [&str; 12] = [
        "value with 0 nils",
        "integer -12",
        "value with 0 nils",
        "value with 0 nils",
        "nil",
        "nil",
        "value with 0 nils",
        "error ERR no way",
        "value with 2 nils",
        "error WRONGTYPE of it",
        "error MOVED 7 10.0.0.1:6379",
        "value with 0 nils",
    ];

    fn scan(pieces: &[&[u8]]) -> Vec<String> {
        let mut scanner = Scanner::default();
        let mut words = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while let Some(reply) = scanner.next(&mut rest).expect("these are replies") {
                words.push(word(reply));
            }
            assert!(rest.is_empty(), "everything is read");
        }
        words
    }

    #[test]
    fn replies_are_the_same_wherever_the_stream_is_cut() {
        assert_eq!(scan(&[STREAM]), REPLIES);
        for cut in 0..=STREAM.len() {
            let (one, other) = STREAM.split_at(cut);
            assert_eq!(scan(&[one, other]), REPLIES, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(scan(&bytes), REPLIES, "byte by byte");
    }

    const STREAM3: &[u8] = b"_\r\n,1.5\r\n#t\r\n(3492890328409238509\r\n=7\r\ntxt:a\r\n\r\n%2\r\n+a\r\n_\r\n+b\r\n~2\r\n:1\r\n_\r\n\
        >2\r\n+invalidate\r\n*1\r\n_\r\n!9\r\nERR no\r\nx\r\n-ERR plain\r\n*2\r\n!5\r\nSOME\n\r\n!3\r\nTWO\r\n>0\r\n%0\r\n";

    const REPLIES3: [&str; 10] = [
        "nil",
        "value with 0 nils",
        "value with 0 nils",
        "value with 0 nils",
        "value with 0 nils",
        "value with 2 nils",
        "error ERR no\r\nx",
        "error ERR plain",
        "error SOME",
        "value with 0 nils",
    ];

    #[test]
    fn replies_of_resp3_are_the_same_wherever_the_stream_is_cut_and_what_is_pushed_is_none() {
        assert_eq!(scan(&[STREAM3]), REPLIES3);
        for cut in 0..=STREAM3.len() {
            let (one, other) = STREAM3.split_at(cut);
            assert_eq!(scan(&[one, other]), REPLIES3, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM3.chunks(1).collect();
        assert_eq!(scan(&bytes), REPLIES3, "byte by byte");
    }

    #[test]
    fn of_a_long_error_the_beginning_is_kept() {
        let long = format!("-ERR {}\r\n+OK\r\n", "x".repeat(1000));
        for cut in [1, 100, 200, 1006] {
            let (one, other) = long.as_bytes().split_at(cut);
            let words = scan(&[one, other]);
            assert!(words[0].starts_with("error ERR xxx"), "{words:?}");
            assert_eq!(words[1], "value with 0 nils");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for wrong in [
            &b"HTTP/1.0 400 Bad Request\r\n"[..],
            b"$x\r\n",
            b"$-2\r\n",
            b"*\r\n",
            b"$9999999999999\r\n",
            b"\n",
            b"|1\r\n",
            b"$?\r\n",
            b"%x\r\n",
            b":one\r\n",
            b"$5\n",
        ] {
            let mut rest = wrong;
            assert_eq!(Scanner::default().next(&mut rest), Err(Malformed), "{wrong:?}");
        }
    }
}
