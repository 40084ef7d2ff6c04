//! A RESP2 and RESP3 client that hides nothing.
//!
//! It is written apart from the server's own protocol crate, so that a mistake there cannot hide here.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;

/// A reply, with every difference kept that is visible on the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, and `!` of RESP3.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*`
    Array(Vec<Value>),
    /// `%`
    Map(Vec<(Value, Value)>),
    /// `~`
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `#`
    Boolean(bool),
    /// `,`, as sent: formatting is part of what is compared.
    Double(Vec<u8>),
    /// `(`
    BigNumber(Vec<u8>),
    /// `=`, with its three-letter format.
    Verbatim(Vec<u8>),
}

impl Value {
    /// A bulk string.
    #[must_use]
    pub fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    /// `+OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::Simple(b"OK".to_vec())
    }

    /// True for a null of any kind.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullBulk | Self::NullArray)
    }

    /// The text of an error reply.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// The text of a string of any kind (not of an error).
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Simple(text) | Self::Bulk(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Self::Verbatim(text) => Some(String::from_utf8_lossy(text.get(4..)?).into_owned()),
            _ => None,
        }
    }

    /// The value of an integer reply, or of a string that holds one.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            other => other.text()?.parse().ok(),
        }
    }

    /// The elements of an array, set or push.
    #[must_use]
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            _ => None,
        }
    }

    /// A map as pairs, whether it was sent as one (RESP3) or as a flat array (RESP2).
    #[must_use]
    pub fn pairs(&self) -> Option<Vec<(Value, Value)>> {
        match self {
            Self::Map(pairs) => Some(pairs.clone()),
            Self::Array(elements) if elements.len().is_multiple_of(2) => Some(
                elements
                    .chunks_exact(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            ),
            _ => None,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{}", text.escape_ascii()),
            Self::Error(text) => write!(f, "-{}", text.escape_ascii()),
            Self::Integer(value) => write!(f, ":{value}"),
            Self::Bulk(text) if text.len() > 400 => {
                write!(f, "\"{}..\" ({} bytes)", text[..400].escape_ascii(), text.len())
            }
            Self::Bulk(text) => write!(f, "\"{}\"", text.escape_ascii()),
            Self::NullBulk => f.write_str("$-1"),
            Self::NullArray => f.write_str("*-1"),
            Self::Null => f.write_str("_"),
            Self::Array(elements) => f.debug_list().entries(elements).finish(),
            Self::Map(pairs) => f
                .debug_map()
                .entries(pairs.iter().map(|(key, value)| (key, value)))
                .finish(),
            Self::Set(elements) => f.debug_set().entries(elements).finish(),
            Self::Push(elements) => f.debug_tuple("push").field(elements).finish(),
            Self::Boolean(value) => write!(f, "#{value}"),
            Self::Double(text) => write!(f, ",{}", text.escape_ascii()),
            Self::BigNumber(text) => write!(f, "({}", text.escape_ascii()),
            Self::Verbatim(text) => write!(f, "={}", text.escape_ascii()),
        }
    }
}

/// The bytes of a command as a client library sends it.
#[must_use]
pub fn frame<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// One connection. Every wait is bounded by [`PATIENCE`] unless [`Client::set_patience`] says otherwise.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// Where the unread part of `received` begins.
    position: usize,
}

impl Client {
    /// Connects once.
    ///
    /// # Errors
    /// Of the socket.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        // A test that sends fragments means them to leave as fragments.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            received: Vec::new(),
            position: 0,
        })
    }

    /// Bounds every single wait for bytes in either direction.
    pub fn set_patience(&mut self, patience: Duration) {
        self.stream
            .set_read_timeout(Some(patience))
            .expect("a time-out above zero is accepted");
        self.stream
            .set_write_timeout(Some(patience))
            .expect("a time-out above zero is accepted");
    }

    /// Sends a command without waiting for the reply.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<()> {
        self.send_raw(&frame(arguments))
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more will be sent; replies can still be received.
    ///
    /// # Errors
    /// Of the socket.
    pub fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// The next reply.
    ///
    /// # Errors
    /// `UnexpectedEof` if the server closed the connection, `InvalidData` if what it sent is not RESP,
    /// `WouldBlock` or `TimedOut` if nothing came, or another error of the socket.
    pub fn receive(&mut self) -> io::Result<Value> {
        let kind = self.byte()?;
        match kind {
            b'+' => Ok(Value::Simple(self.line()?)),
            b'-' => Ok(Value::Error(self.line()?)),
            b':' => Ok(Value::Integer(self.number()?)),
            b',' => Ok(Value::Double(self.line()?)),
            b'(' => Ok(Value::BigNumber(self.line()?)),
            b'_' => {
                let rest = self.line()?;
                if rest.is_empty() {
                    Ok(Value::Null)
                } else {
                    Err(malformed("null with content"))
                }
            }
            b'#' => match self.line()?.as_slice() {
                b"t" => Ok(Value::Boolean(true)),
                b"f" => Ok(Value::Boolean(false)),
                _ => Err(malformed("boolean")),
            },
            b'$' | b'=' | b'!' => {
                let length = self.number()?;
                if length == -1 && kind == b'$' {
                    return Ok(Value::NullBulk);
                }
                let length = usize::try_from(length).map_err(|_| malformed("negative length"))?;
                let content = self.exactly(length)?;
                if self.exactly(2)? != b"\r\n" {
                    return Err(malformed("string without its line end"));
                }
                Ok(match kind {
                    b'$' => Value::Bulk(content),
                    b'=' => Value::Verbatim(content),
                    _ => Value::Error(content),
                })
            }
            b'*' | b'~' | b'>' | b'%' => {
                let count = self.number()?;
                if count == -1 && kind == b'*' {
                    return Ok(Value::NullArray);
                }
                let count = usize::try_from(count).map_err(|_| malformed("negative count"))?;
                if kind == b'%' {
                    let pairs = (0..count).map(|_| Ok((self.receive()?, self.receive()?)));
                    return Ok(Value::Map(pairs.collect::<io::Result<_>>()?));
                }
                let elements = (0..count).map(|_| self.receive()).collect::<io::Result<_>>()?;
                Ok(match kind {
                    b'*' => Value::Array(elements),
                    b'~' => Value::Set(elements),
                    _ => Value::Push(elements),
                })
            }
            _ => Err(malformed("unknown type of reply")),
        }
    }

    /// Sends a command and receives its reply.
    ///
    /// # Errors
    /// As [`Client::receive`].
    pub fn try_command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Value> {
        self.send(arguments)?;
        self.receive()
    }

    /// Sends a command and receives its reply.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        match self.try_command(arguments) {
            Ok(reply) => reply,
            Err(error) => panic!(
                "no reply to {}: {error}",
                arguments
                    .iter()
                    .map(|argument| argument.as_ref().escape_ascii().to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        }
    }

    /// Runs a command given as words between blanks.
    ///
    /// # Panics
    /// If there is no reply.
    #[track_caller]
    pub fn run(&mut self, words: &str) -> Value {
        self.command(&words.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// Runs a command given as words and expects `+OK`.
    ///
    /// # Panics
    /// If the reply is another one.
    #[track_caller]
    pub fn run_ok(&mut self, words: &str) {
        assert_eq!(self.run(words), Value::ok(), "reply to {words}");
    }

    /// Sends all commands at once and receives as many replies. A thread of its own sends, because a server may
    /// rightly stop reading from a client whose replies nobody takes.
    ///
    /// # Panics
    /// If a reply is missing.
    #[track_caller]
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Value> {
        let bytes: Vec<u8> = commands.iter().flat_map(|arguments| frame(arguments)).collect();
        let mut sending = self.stream.try_clone().expect("a socket can be duplicated");
        std::thread::scope(|scope| {
            scope.spawn(move || sending.write_all(&bytes).expect("the server reads the pipeline"));
            (0..commands.len())
                .map(|index| {
                    self.receive()
                        .unwrap_or_else(|error| panic!("reply {index} of {}: {error}", commands.len()))
                })
                .collect()
        })
    }

    /// Reads what still comes, up to the end of the connection, and says how many bytes that were. A reset counts as
    /// an end, because the server may close while bytes of ours are under way.
    ///
    /// # Errors
    /// If the connection stays open for as long as the patience lasts.
    pub fn drain(&mut self) -> io::Result<usize> {
        let mut total = self.received.len() - self.position;
        let mut buffer = vec![0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(count) => total += count,
                Err(error) if is_closed(&error) => return Ok(total),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A field of an `INFO` section, as text.
    ///
    /// # Panics
    /// If `INFO` does not answer with text.
    #[track_caller]
    pub fn info(&mut self, section: &str, field: &str) -> Option<String> {
        let text = self
            .command(&["INFO", section])
            .text()
            .expect("INFO answers with text");
        text.lines()
            .find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned()))
    }

    /// A number of an `INFO` section.
    ///
    /// # Panics
    /// If the field is absent or no number.
    #[track_caller]
    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let value = self
            .info(section, field)
            .unwrap_or_else(|| panic!("INFO {section} lacks {field}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("INFO {section} has {field}:{value}, no number"))
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.position == self.received.len() {
            self.received.clear();
            self.position = 0;
        }
        let mut buffer = [0; 16384];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn byte(&mut self) -> io::Result<u8> {
        while self.position == self.received.len() {
            self.fill()?;
        }
        self.position += 1;
        Ok(self.received[self.position - 1])
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = self.position;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|&byte| byte == b'\n') {
                let end = searched + end;
                let line = &self.received[self.position..end];
                let line = line
                    .strip_suffix(b"\r")
                    .ok_or_else(|| malformed("line without CR"))?
                    .to_vec();
                self.position = end + 1;
                return Ok(line);
            }
            let unread = self.received.len() - self.position;
            self.fill()?;
            searched = self.position + unread;
        }
    }

    fn number(&mut self) -> io::Result<i64> {
        let line = self.line()?;
        std::str::from_utf8(&line)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| malformed("not a number where one belongs"))
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() - self.position < length {
            self.fill()?;
        }
        let bytes = self.received[self.position..self.position + length].to_vec();
        self.position += length;
        Ok(bytes)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// True if the error says that the other side is gone, rather than slow.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
    )
}
