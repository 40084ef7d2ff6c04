//! A connection to a node's port for clients: commands as words, replies as values (RESP2).

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// To connect to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Without a byte of a reply, or with no room for a byte of a command: longer than any node waits before it says `UNKNOWN`.
const STEP_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of a line of a reply, and of a string in one; a longer one is an error.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const STRING_BYTES_MAX: u64 = 64 << 20;
/// Values in an array, and arrays in arrays.
const ARRAY_LENGTH_MAX: usize = 1 << 20;
const DEPTH_MAX: u8 = 4;
/// Bytes that are read from the socket at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// What a node answers, but an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// `+OK`, or a string.
    Bytes(Vec<u8>),
    Number(i64),
    Array(Vec<Answer>),
    Null,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The connection is of no use any more; what was asked may have been done.
    Link(String),
    /// The node answers with an error.
    Told(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Link(why) | AskError::Told(why) => f.write_str(why),
        }
    }
}

impl Answer {
    /// Its text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Answer::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Its number, if it is one, or the text of one.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Answer::Number(number) => u64::try_from(*number).ok(),
            other => other.text()?.parse().ok(),
        }
    }

    pub(crate) fn array(&self) -> Option<&[Answer]> {
        match self {
            Answer::Array(values) => Some(values),
            _ => None,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    reader: BufReader<TcpStream>,
    /// What is to be sent with the next [`Connection::flush`].
    unsent: Vec<u8>,
}

impl Connection {
    /// Connects to `HOST:PORT`, and shows the password, if there is one.
    ///
    /// # Errors
    /// [`AskError::Told`] if it is the wrong one, or none where there is to be one.
    pub(crate) fn open(address: &str, password: Option<&str>) -> Result<Connection, AskError> {
        let unreachable = |error: io::Error| AskError::Link(format!("cannot reach {address}: {error}"));
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for socket in address.to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&socket, CONNECT_TIME_MAX) {
                Ok(stream) => return Connection::over(stream, address, password),
                Err(error) => failure = error,
            }
        }
        Err(unreachable(failure))
    }

    fn over(stream: TcpStream, address: &str, password: Option<&str>) -> Result<Connection, AskError> {
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(STEP_TIME_MAX)))
            .and_then(|()| stream.set_write_timeout(Some(STEP_TIME_MAX)));
        set.map_err(|error| AskError::Link(format!("cannot use the connection to {address}: {error}")))?;
        let mut connection = Connection {
            address: address.to_owned(),
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            unsent: Vec::new(),
        };
        match password {
            Some(password) => connection.ask(&[b"AUTH", password.as_bytes()]).map(drop)?,
            // A command of many words would be refused for its length, and nothing would be said of passwords.
            None => match connection.ask(&[b"PING"]) {
                Err(AskError::Told(told)) if !is_about_password(&told) => {}
                answer => answer.map(drop)?,
            },
        }
        Ok(connection)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Answer, AskError> {
        self.send(words);
        self.flush()?;
        self.receive()
    }

    /// Adds a command to what is sent next.
    pub(crate) fn send(&mut self, words: &[&[u8]]) {
        let to = &mut self.unsent;
        to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            to.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            to.extend_from_slice(word);
            to.extend_from_slice(b"\r\n");
        }
    }

    /// Sends it.
    pub(crate) fn flush(&mut self) -> Result<(), AskError> {
        let sent = self.reader.get_mut().write_all(&self.unsent);
        self.unsent.clear();
        // One large value must not take its room for good.
        self.unsent.shrink_to(BUFFER_BYTES);
        sent.map_err(|error| self.lost(&error))
    }

    /// The answer to the oldest command that has none.
    pub(crate) fn receive(&mut self) -> Result<Answer, AskError> {
        match self.value(0) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(told)) => Err(AskError::Told(told)),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(&self, error: &io::Error) -> AskError {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("it has not answered for {} s", STEP_TIME_MAX.as_secs())
            }
            io::ErrorKind::UnexpectedEof => "it was closed".to_owned(),
            _ => error.to_string(),
        };
        AskError::Link(format!("the connection to {} is lost: {why}", self.address))
    }

    /// A value, or the error that a node tells.
    fn value(&mut self, depth: u8) -> io::Result<Result<Answer, String>> {
        let line = self.line()?;
        let (kind, text) = line.split_first().ok_or_else(|| malformed("an empty line"))?;
        Ok(match kind {
            b'+' => Ok(Answer::Bytes(text.to_vec())),
            b'-' => Err(String::from_utf8_lossy(text).into_owned()),
            b':' => Ok(Answer::Number(number(text)?)),
            b'_' => Ok(Answer::Null),
            b'$' => match number(text)? {
                -1 => Ok(Answer::Null),
                length => Ok(Answer::Bytes(self.string(length)?)),
            },
            b'*' => match number(text)? {
                -1 => Ok(Answer::Null),
                length => self.array(length, depth)?,
            },
            _ => return Err(malformed("a reply of no known kind")),
        })
    }

    fn array(&mut self, length: i64, depth: u8) -> io::Result<Result<Answer, String>> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= ARRAY_LENGTH_MAX);
        let length = length.ok_or_else(|| malformed("a long array"))?;
        if depth == DEPTH_MAX {
            return Err(malformed("arrays in arrays"));
        }
        let (mut values, mut told) = (Vec::new(), None);
        for _ in 0..length {
            match self.value(depth + 1)? {
                Ok(value) => values.push(value),
                Err(error) => told = Some(error),
            }
        }
        Ok(told.map_or(Ok(Answer::Array(values)), Err))
    }

    fn string(&mut self, length: i64) -> io::Result<Vec<u8>> {
        let length = u64::try_from(length)
            .ok()
            .filter(|length| *length <= STRING_BYTES_MAX);
        let length = length.ok_or_else(|| malformed("a long string"))?;
        let mut bytes = Vec::new();
        (&mut self.reader).take(length + 2).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length + 2 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(text) => Ok(text.to_vec()),
            None if line.len() as u64 == LINE_BYTES_MAX => Err(malformed("a long line")),
            None if line.ends_with(b"\n") => Err(malformed("a line without CR")),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Whether a node says that it wants a password, or another one.
pub(crate) fn is_about_password(told: &str) -> bool {
    told.starts_with("NOAUTH") || told.starts_with("WRONGPASS")
}

fn number(text: &[u8]) -> io::Result<i64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| malformed("no number where one was expected"))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what}: is it a node's port for clients?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Opens a connection to who answers like this to the first command: the error, if it is one, and what was asked.
    fn opened(password: Option<&str>, answer: &'static [u8]) -> (Option<String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has one").to_string();
        let node = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let mut asked = [0; 256];
            let count = stream.read(&mut asked).expect("he asks");
            stream.write_all(answer).expect("he waits");
            String::from_utf8_lossy(&asked[..count]).into_owned()
        });
        let error = Connection::open(&address, password).err();
        let told = error.map(|error| match error {
            AskError::Told(told) => told,
            AskError::Link(why) => panic!("{why}"),
        });
        (told, node.join().expect("it does not panic"))
    }

    #[test]
    fn a_password_that_is_missing_or_wrong_is_noticed_before_anything_is_asked() {
        let (told, asked) = opened(None, b"-NOAUTH Authentication required.\r\n");
        assert_eq!(asked, "*1\r\n$4\r\nPING\r\n");
        assert!(told.is_some_and(|told| is_about_password(&told)));
        let (told, asked) = opened(Some("word"), b"-WRONGPASS invalid\r\n");
        assert_eq!(asked, "*2\r\n$4\r\nAUTH\r\n$4\r\nword\r\n");
        assert!(told.is_some_and(|told| is_about_password(&told)));
        // Any other error is one of what is asked next.
        for answer in [&b"+PONG\r\n"[..], b"-LOADING it is\r\n"] {
            assert_eq!(opened(None, answer).0, None);
        }
    }
}
