//! A server that answers as a function says, one command at a time, whichever connection it came by.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What to do with one command.
pub(crate) enum Do {
    /// Answer these bytes.
    Say(&'static str),
    /// The same, of text made just now.
    Tell(String),
    /// The same, each byte in a packet of its own.
    Spell(&'static str),
    /// Let everybody wait, then answer this.
    Stall(Duration, &'static str),
    /// Never answer.
    Ignore,
    /// Close the connection.
    Close,
    /// Answer, and close it at once behind the answer.
    SayAndClose(&'static str),
    /// Close it, and take no more.
    CloseForGood,
}

type Script = Box<dyn FnMut(&[String]) -> Do + Send>;

struct Inner {
    /// Commands are carried out one at a time.
    script: Mutex<Script>,
    /// First words, of all but the first questions, which every run begins with.
    log: Mutex<Vec<Vec<String>>>,
    is_over: AtomicBool,
}

/// The server. Dropping it closes its port.
pub(crate) struct Scripted {
    address: SocketAddr,
    inner: Arc<Inner>,
    accepting: Option<JoinHandle<()>>,
}

impl Scripted {
    /// `PING` and `INFO` are answered by itself: every run asks them first.
    pub(crate) fn start(script: impl FnMut(&[String]) -> Do + Send + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let inner = Arc::new(Inner {
            script: Mutex::new(Box::new(script)),
            log: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let served = inner.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if served.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let inner = served.clone();
                thread::spawn(move || serve(&stream, &inner, address));
            }
        });
        Scripted {
            address,
            inner,
            accepting: Some(accepting),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All commands that came, but the first questions.
    pub(crate) fn log(&self) -> Vec<Vec<String>> {
        self.inner.log.lock().expect("no script panics").clone()
    }

    /// Their first words.
    pub(crate) fn names(&self) -> Vec<String> {
        self.log().into_iter().map(|words| words[0].clone()).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.inner.end(self.address);
        if let Some(accepting) = self.accepting.take() {
            // It has nothing to say.
            let _ = accepting.join();
        }
    }
}

impl Inner {
    /// Wakes the thread that accepts, so that it ends and the port with it.
    fn end(&self, address: SocketAddr) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(address));
    }
}

fn serve(stream: &TcpStream, inner: &Inner, address: SocketAddr) {
    stream.set_nodelay(true).expect("it is a socket");
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    // An error of writing is the end of the client.
    let mut say = |bytes: &[u8]| drop(writer.write_all(bytes));
    while let Some(words) = command(&mut reader) {
        match words[0].as_str() {
            "PING" => say(b"+PONG\r\n"),
            "INFO" => say(b"$20\r\nredis_version:7.0.0\n\r\n"),
            _ => {
                let mut script = inner.script.lock().expect("no script panics");
                inner.log.lock().expect("no script panics").push(words.clone());
                match script(&words) {
                    Do::Say(text) => say(text.as_bytes()),
                    Do::Tell(text) => say(text.as_bytes()),
                    Do::Spell(text) => {
                        for byte in text.as_bytes() {
                            say(&[*byte]);
                            // So that the other side reads them one by one, mostly.
                            thread::yield_now();
                        }
                    }
                    Do::Stall(time, text) => {
                        // A server that stands still: nothing is waited for, the stall is what is tested.
                        thread::sleep(time);
                        say(text.as_bytes());
                    }
                    Do::Ignore => {}
                    Do::Close => break,
                    Do::SayAndClose(text) => {
                        // The answer waits for what comes behind it, and that is the end: both come in one packet.
                        #[cfg(target_os = "linux")]
                        socket2::SockRef::from(stream)
                            .set_tcp_cork(true)
                            .expect("it is TCP");
                        say(text.as_bytes());
                        break;
                    }
                    Do::CloseForGood => {
                        inner.end(address);
                        break;
                    }
                }
            }
        }
    }
    // The other side may be gone already.
    let _ = stream.shutdown(Shutdown::Both);
}

fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(reader, '*')?;
    (0..count)
        .map(|_| {
            let length = number(reader, '$')?;
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes).ok()?;
            bytes.truncate(length);
            String::from_utf8(bytes).ok()
        })
        .collect()
}

fn number(reader: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
