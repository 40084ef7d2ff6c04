//! Who answers clients while the node is not ready: a start may wait for other nodes for as long as these are away.
//!
//! ```text
//!   listeners --> this thread: -LOADING to every command --> listeners, with the clients that are still there --> workers
//! ```
//!
//! Nobody is let in by it: no password is asked for, because nothing is done. `INFO` is answered, as in Redis, where no password is set: it says
//! how far the start is.

use crate::clock;
use crate::listener::{self, Listener};
use crate::start_progress::StartProgress;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use options::Settings;
use resp::{Decoded, Decoder, Limits, Protocol, ReplyWriter};
use slab::Slab;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Clients at a time. One more is told that there are too many, and is closed.
const GUESTS_MAX: u64 = 1_024;
/// Bytes of a request that is not whole. One that is longer is answered, and its connection closed.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes read at a time. What they are answered is written with one call: who does not take it is closed.
const READ_BYTES: usize = 4 * 1024;
/// Reads from one socket in one turn: others get their turn too.
const READS_MAX: usize = 16;
/// Events taken from the system at once.
const EVENTS_MAX: usize = 256;

const WAKER: Token = Token(0);
const LISTENERS: usize = 1;
const GUESTS: usize = 1 << 16;

/// See the file's header.
pub(crate) struct Lobby {
    is_over: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Vec<Listener>>,
}

impl Lobby {
    pub(crate) fn open(
        mut listeners: Vec<Listener>,
        settings: &Settings,
        progress: Arc<StartProgress>,
    ) -> io::Result<Lobby> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            let token = Token(LISTENERS + index);
            poll.registry()
                .register(&mut listener.socket, token, Interest::READABLE)?;
        }
        let is_over = Arc::<AtomicBool>::default();
        let mut room = Room {
            poll,
            listeners,
            guests: Slab::new(),
            settings: settings.clone(),
            progress,
        };
        let over = is_over.clone();
        let thread = std::thread::Builder::new()
            .name("lobby".to_owned())
            .spawn(move || {
                room.run(&over);
                room.leave()
            })?;
        Ok(Lobby {
            is_over,
            waker,
            thread,
        })
    }

    /// Gives the listening sockets back, each with the clients that came by it.
    ///
    /// # Errors
    /// If the system refuses to wake the thread.
    pub(crate) fn close(self) -> io::Result<Vec<Listener>> {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake()?;
        let listeners = self.thread.join();
        listeners.map_err(|_| io::Error::other("the thread that answered clients has failed"))
    }
}

/// A client that waits.
struct Guest {
    stream: TcpStream,
    /// By which it came.
    listener: usize,
    input: Vec<u8>,
    decoder: Decoder,
}

struct Room {
    poll: Poll,
    listeners: Vec<Listener>,
    guests: Slab<Guest>,
    settings: Settings,
    /// What every command is answered by.
    progress: Arc<StartProgress>,
}

impl Room {
    fn run(&mut self, is_over: &AtomicBool) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !is_over.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return tracing::error!(%error, "cannot wait for clients before the node is ready");
                }
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(token) if token < GUESTS => self.accept(token - LISTENERS),
                    Token(token) => self.serve(token - GUESTS),
                }
            }
        }
    }

    /// What is left to the workers. Who is in the middle of a request is closed, as nothing of it was done.
    fn leave(mut self) -> Vec<Listener> {
        let registry = self.poll.registry();
        for (_, mut guest) in std::mem::take(&mut self.guests) {
            let is_between = guest.input.is_empty() && !guest.decoder.is_mid_frame();
            if is_between && registry.deregister(&mut guest.stream).is_ok() {
                self.listeners[guest.listener].waiting.push(guest.stream.into());
            }
        }
        for listener in &mut self.listeners {
            // One that is watched for still belongs to this thread, and a worker's own try says so.
            let _ = registry.deregister(&mut listener.socket);
        }
        self.listeners
    }

    fn accept(&mut self, index: usize) {
        loop {
            let (mut stream, address) = match self.listeners[index].socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Whoever could not be accepted waits for the workers, or for the next one who comes.
                Err(_) => return,
            };
            let connected = self.guests.len() as u64;
            let admitted = match connected >= GUESTS_MAX {
                true => Err(listener::Refusal::TooMany),
                false => listener::admit(&self.settings, connected, address.ip()),
            };
            if let Err(refusal) = admitted {
                refusal.send(&stream.into());
                continue;
            }
            let entry = self.guests.vacant_entry();
            let token = Token(GUESTS + entry.key());
            if self
                .poll
                .registry()
                .register(&mut stream, token, Interest::READABLE)
                .is_ok()
            {
                entry.insert(Guest {
                    stream,
                    listener: index,
                    input: Vec::new(),
                    decoder: Decoder::new(),
                });
            }
        }
    }

    fn serve(&mut self, key: usize) {
        let Some(guest) = self.guests.get_mut(key) else {
            return;
        };
        let may_ask = self.settings.requirepass.is_none();
        for _ in 0..READS_MAX {
            match guest.serve(&self.progress, may_ask) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return drop(self.guests.remove(key)),
            }
        }
        // Readiness is told once; asking again tells it again.
        let again =
            self.poll
                .registry()
                .reregister(&mut guest.stream, Token(GUESTS + key), Interest::READABLE);
        if again.is_err() {
            self.guests.remove(key);
        }
    }
}

impl Guest {
    /// Reads once, and answers whatever it asks for; `INFO` too, if it may ask that. Whether there may be more.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn serve(&mut self, progress: &StartProgress, may_ask: bool) -> io::Result<bool> {
        let loading = progress.reply();
        let mut bytes = [0; READ_BYTES];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        self.input.extend_from_slice(&bytes[..count]);
        let (mut answers, mut at) = (Vec::new(), 0);
        let is_fine = loop {
            let rest = &self.input[at..];
            match self.decoder.decode(rest, &Limits::default()) {
                Ok(Decoded::Incomplete) => break rest.len() <= INPUT_BYTES_MAX,
                Ok(Decoded::Frame { consumed }) => {
                    match self.decoder.args(rest).iter().next() {
                        Some(name) if may_ask && name.eq_ignore_ascii_case(b"info") => {
                            let info = progress.info(clock::now());
                            ReplyWriter::new(&mut answers, Protocol::Resp2).bulk(info.as_bytes());
                        }
                        Some(_) => answers.extend_from_slice(loading),
                        None => {}
                    }
                    at += consumed;
                }
                Err(_) => break false,
            }
        };
        self.input.drain(..at);
        if !is_fine {
            answers.extend_from_slice(loading);
        }
        let is_sent = answers.is_empty() || self.stream.write(&answers)? == answers.len();
        match is_fine && is_sent {
            true => Ok(true),
            false => Err(ErrorKind::InvalidInput.into()),
        }
    }
}
