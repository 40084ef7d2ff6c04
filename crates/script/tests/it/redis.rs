//! A real Redis, for answers to compare with.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use script::Reply;

/// A server of Debian's package, which ends with this value.
pub(crate) struct Redis {
    child: Child,
    directory: PathBuf,
    connection: BufReader<TcpStream>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .expect("the system has a free port")
            .port();
        let directory = std::env::temp_dir().join(format!("script-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(["--dir", &directory.display().to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: CONTRIBUTING.md says what the tests need");
        let until = Instant::now() + Duration::from_secs(20);
        let connection = loop {
            if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                break stream;
            }
            if Instant::now() > until || child.try_wait().expect("a child can be asked").is_some() {
                panic!("redis-server does not start");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Self {
            child,
            directory,
            connection: BufReader::new(connection),
        }
    }

    pub(crate) fn command(&mut self, words: &[&[u8]]) -> Reply {
        let mut frame = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            frame.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            frame.extend_from_slice(word);
            frame.extend_from_slice(b"\r\n");
        }
        self.connection
            .get_mut()
            .write_all(&frame)
            .expect("redis-server is there");
        self.read()
    }

    /// The same, answered with the types of RESP3 if it says so.
    pub(crate) fn command_in(&mut self, words: &[&[u8]], is_resp3: bool) -> Reply {
        if !is_resp3 {
            return self.command(words);
        }
        self.command(&[b"HELLO", b"3"]);
        let reply = self.command(words);
        self.command(&[b"HELLO", b"2"]);
        reply
    }

    pub(crate) fn eval(&mut self, source: &str, keys: &[&str], argv: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", source.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().chain(argv).map(|word| word.as_bytes()));
        self.command(&words)
    }

    fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.connection
            .read_until(b'\n', &mut line)
            .expect("redis-server is there");
        let line = line.strip_suffix(b"\r\n").expect("redis-server is there");
        let number = || -> i64 {
            std::str::from_utf8(&line[1..])
                .ok()
                .and_then(|text| text.parse().ok())
                .expect("a number stands there")
        };
        match line[0] {
            b'+' => Reply::Status(line[1..].to_vec()),
            b'-' => Reply::Error(line[1..].to_vec()),
            b':' => Reply::Integer(number()),
            b'_' => Reply::Null,
            b'#' => Reply::Bool(line[1] == b't'),
            b',' => Reply::Double(
                std::str::from_utf8(&line[1..])
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .expect("a number stands there"),
            ),
            b'(' => Reply::BigNumber(line[1..].to_vec()),
            b'$' | b'=' if number() >= 0 => {
                let mut bytes = vec![0; usize::try_from(number()).expect("it is not negative") + 2];
                self.connection
                    .read_exact(&mut bytes)
                    .expect("redis-server is there");
                bytes.truncate(bytes.len() - 2);
                if line[0] == b'$' {
                    return Reply::Bulk(bytes.into());
                }
                Reply::Verbatim {
                    format: bytes[..3].to_vec(),
                    text: bytes[4..].into(),
                }
            }
            b'$' => Reply::Null,
            b'*' if number() < 0 => Reply::NullArray,
            b'*' => Reply::Array((0..number()).map(|_| self.read()).collect()),
            b'~' => Reply::Set((0..number()).map(|_| self.read()).collect()),
            b'%' => Reply::Map((0..number()).map(|_| (self.read(), self.read())).collect()),
            other => panic!("a reply that begins with {other}"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}
