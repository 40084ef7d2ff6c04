//! A server that does nothing but answer, in this process: what the tool itself can do.
//!
//! It reads commands with the scanner that the clients read replies with, since a command is an array like any other, and
//! answers each with `+OK`.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::scanner::Scanner;

const LISTENER: Token = Token(usize::MAX);
const EVENTS_MAX: usize = 1_024;
const READ_BYTES: usize = 64 << 10;

/// It looks this often whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

const OK: &[u8] = b"+OK\r\n";

/// A responder on a port of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Responder {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts it, on a thread of its own.
    ///
    /// # Errors
    /// If there is no port.
    pub fn start() -> io::Result<Responder> {
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::Builder::new()
            .name("responder".into())
            .spawn(move || serve(poll, &listener, &over))?;
        Ok(Responder {
            address,
            is_over,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// One client.
struct Guest {
    stream: TcpStream,
    scanner: Scanner,
    out: Vec<u8>,
    out_from: usize,
}

fn serve(mut poll: Poll, listener: &TcpListener, is_over: &AtomicBool) {
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut guests: Vec<Option<Guest>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        match poll.poll(&mut events, Some(LOOK)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
        for event in events.iter() {
            if event.token() == LISTENER {
                // What cannot be accepted now is tried with the next one.
                while let Ok((mut stream, _)) = listener.accept() {
                    // Places of those who have left are used again.
                    let free = guests.iter().position(Option::is_none);
                    let place = free.unwrap_or_else(|| {
                        guests.push(None);
                        guests.len() - 1
                    });
                    let token = Token(place);
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    if poll.registry().register(&mut stream, token, interest).is_ok() {
                        let _ = stream.set_nodelay(true);
                        guests[place] = Some(Guest {
                            stream,
                            scanner: Scanner::default(),
                            out: Vec::new(),
                            out_from: 0,
                        });
                    }
                }
            } else if let Some(slot) = guests.get_mut(event.token().0)
                && let Some(guest) = slot
                && !guest.answer(&mut buffer)
            {
                *slot = None;
            }
        }
    }
}

impl Guest {
    /// Answers what has come; false if the client is gone.
    fn answer(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            let read = match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => return false,
            };
            let mut rest = &buffer[..read];
            loop {
                match self.scanner.next(&mut rest) {
                    Ok(Some(_)) => self.out.extend_from_slice(OK),
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
            while self.out_from < self.out.len() {
                match self.stream.write(&self.out[self.out_from..]) {
                    Ok(written) => self.out_from += written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return false,
                }
            }
            if self.out_from == self.out.len() {
                self.out.clear();
                self.out_from = 0;
            }
            if read < buffer.len() {
                return true;
            }
        }
    }
}
