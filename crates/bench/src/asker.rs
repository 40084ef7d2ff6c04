//! Single questions to a server, outside of what is measured: a blocking connection, and replies as values.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long one step may take: connecting, writing, reading.
const STEP_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes of one bulk string, values of one array, and how deep arrays may lie in each other. More is an error.
const BULK_MAX: usize = 16 << 20;
const ARRAY_MAX: usize = 1 << 17;
const DEPTH_MAX: usize = 8;

/// A reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Array(Vec<Value>),
    Nil,
    Error(String),
}

impl Value {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Integer(_) | Value::Array(_) | Value::Nil | Value::Error(_) => None,
        }
    }

    pub(crate) fn array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(values) => Some(values),
            Value::Text(_) | Value::Integer(_) | Value::Nil | Value::Error(_) => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Text(_) | Value::Array(_) | Value::Nil | Value::Error(_) => None,
        }
    }
}

/// A connection for questions.
pub(crate) struct Asker(BufReader<TcpStream>);

impl Asker {
    /// Connects, and says the password if there is one.
    pub(crate) fn connect(address: SocketAddr, password: Option<&str>) -> io::Result<Asker> {
        let stream = TcpStream::connect_timeout(&address, STEP_TIME_MAX)?;
        stream.set_read_timeout(Some(STEP_TIME_MAX))?;
        stream.set_write_timeout(Some(STEP_TIME_MAX))?;
        stream.set_nodelay(true)?;
        let mut asker = Asker(BufReader::new(stream));
        if let Some(password) = password
            && let Value::Error(error) = asker.ask(&["AUTH", password])?
        {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
        }
        Ok(asker)
    }

    /// Sends one command and waits for the reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Value> {
        self.0.get_mut().write_all(&command(words))?;
        self.value(0)
    }

    fn value(&mut self, depth: usize) -> io::Result<Value> {
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "this is no reply of the Redis protocol",
            )
        };
        let mut line = Vec::new();
        let most = 1 << 16;
        self.0.by_ref().take(most).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_suffix("\r\n").ok_or_else(wrong)?;
        let text = line.get(1..).ok_or_else(wrong)?;
        let number = || text.parse::<i64>().map_err(|_| wrong());
        match line.as_bytes()[0] {
            b'+' => Ok(Value::Text(text.to_owned())),
            b'-' => Ok(Value::Error(text.to_owned())),
            b':' => Ok(Value::Integer(number()?)),
            b'$' | b'*' if text == "-1" => Ok(Value::Nil),
            b'$' => {
                let length = usize::try_from(number()?).map_err(|_| wrong())?;
                if length > BULK_MAX {
                    return Err(wrong());
                }
                let mut bytes = vec![0; length + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            b'*' => {
                let count = usize::try_from(number()?).map_err(|_| wrong())?;
                if count > ARRAY_MAX || depth == DEPTH_MAX {
                    return Err(wrong());
                }
                let values: io::Result<Vec<Value>> = (0..count).map(|_| self.value(depth + 1)).collect();
                Ok(Value::Array(values?))
            }
            _ => Err(wrong()),
        }
    }
}

/// A command as bytes.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
