//! A server that does nothing but answer: what the tool itself can do, and what other tools can do against the same.
//!
//! It reads commands with the scanner that the clients read replies with, since a command is an array like any other, and
//! answers each with `+OK`: at once, or after a time drawn from [`Delays`], which are known, so that a tool can be asked
//! whether it tells what was there.
//!
//! Answers are all alike. So none belongs to a command, and with a pipeline the one that is due first is given first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::delays::Delays;
use crate::plan::{CLIENTS_MAX, IN_FLIGHT_SLOTS_MAX};
use crate::scanner::Scanner;
use crate::system::Timer;

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const EVENTS_MAX: usize = 1_024;
const READ_BYTES: usize = 64 << 10;

/// It looks this often whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of answers that a client has not taken, more than a run can ask for. One that lets more gather is closed.
const OUT_MAX: usize = 8 << 20;

const OK: &[u8] = b"+OK\r\n";

/// A responder on a port of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Responder {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts it on a thread of its own, at this port of this machine; 0 is any that is free. Without delays it answers at once.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub fn start(port: u16, delays: Option<Delays>) -> io::Result<Responder> {
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut hall = Hall {
            poll,
            listener,
            timer,
            delays,
            base: Instant::now(),
            guests: Vec::new(),
            arrived: 0,
            pending: BinaryHeap::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        };
        let over = is_over.clone();
        let thread = thread::Builder::new()
            .name("responder".into())
            .spawn(move || hall.serve(&over))?;
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
    /// Counted from the first one, so that no answer goes to who has taken the place of another.
    number: u64,
    stream: TcpStream,
    scanner: Scanner,
    out: Vec<u8>,
    out_from: usize,
}

/// An answer that is not due yet: when, for which guest, at which place.
type Pending = Reverse<(u64, u64, usize)>;

/// What the thread has. Times are nanoseconds from `base`.
struct Hall {
    poll: Poll,
    listener: TcpListener,
    timer: Timer,
    delays: Option<Delays>,
    base: Instant,
    guests: Vec<Option<Guest>>,
    arrived: u64,
    /// At most [`IN_FLIGHT_SLOTS_MAX`], as many as a run can ask for; who asks for more is closed.
    pending: BinaryHeap<Pending>,
    buffer: Box<[u8]>,
}

impl Hall {
    fn serve(&mut self, is_over: &AtomicBool) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !is_over.load(Ordering::Relaxed) {
            if let Some(Reverse((due, ..))) = self.pending.peek() {
                // What is due already is given at once.
                let wait = due.saturating_sub(self.clock());
                // Without a timer answers come late by up to a look.
                let _ = self.timer.set(Duration::from_nanos(wait));
            }
            match self.poll.poll(&mut events, Some(LOOK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
            for event in events.iter() {
                match event.token() {
                    LISTENER => self.accept(),
                    TIMER => {}
                    Token(place) => self.on_readable(place),
                }
            }
            self.give_what_is_due();
        }
    }

    fn clock(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    fn accept(&mut self) {
        // What cannot be accepted now is tried with the next one.
        while let Ok((mut stream, _)) = self.listener.accept() {
            // Places of those who have left are used again.
            let free = self.guests.iter().position(Option::is_none);
            let place = free.unwrap_or(self.guests.len());
            if place == CLIENTS_MAX {
                continue;
            }
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            if registry.register(&mut stream, Token(place), interest).is_err() {
                continue;
            }
            // Without it answers come later.
            let _ = stream.set_nodelay(true);
            if place == self.guests.len() {
                self.guests.push(None);
            }
            self.arrived += 1;
            self.guests[place] = Some(Guest {
                number: self.arrived,
                stream,
                scanner: Scanner::default(),
                out: Vec::new(),
                out_from: 0,
            });
        }
    }

    fn on_readable(&mut self, place: usize) {
        if !self.answer(place)
            && let Some(slot) = self.guests.get_mut(place)
        {
            *slot = None;
        }
    }

    /// Reads what has come, and answers it now or later; false if the client is gone.
    fn answer(&mut self, place: usize) -> bool {
        let Some(Some(guest)) = self.guests.get_mut(place) else {
            return true;
        };
        loop {
            let read = match guest.stream.read(&mut self.buffer) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => return false,
            };
            let mut rest = &self.buffer[..read];
            loop {
                match guest.scanner.next(&mut rest) {
                    Ok(Some(_)) => match &mut self.delays {
                        None => guest.out.extend_from_slice(OK),
                        Some(_) if self.pending.len() == IN_FLIGHT_SLOTS_MAX => return false,
                        Some(delays) => {
                            let now = self.base.elapsed().as_nanos() as u64;
                            self.pending
                                .push(Reverse((now + delays.draw(), guest.number, place)));
                        }
                    },
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
            if !guest.flush() {
                return false;
            }
            if read < self.buffer.len() {
                return true;
            }
        }
    }

    fn give_what_is_due(&mut self) {
        let now = self.clock();
        while let Some(Reverse((due, number, place))) = self.pending.peek().copied()
            && due <= now
        {
            self.pending.pop();
            let Some(slot) = self.guests.get_mut(place) else {
                continue;
            };
            if let Some(guest) = slot
                && guest.number == number
            {
                guest.out.extend_from_slice(OK);
                if !guest.flush() {
                    *slot = None;
                }
            }
        }
    }
}

impl Guest {
    /// Writes what the system takes; false if the client is gone, or takes nothing.
    fn flush(&mut self) -> bool {
        while self.out_from < self.out.len() {
            match self.stream.write(&self.out[self.out_from..]) {
                Ok(written) => self.out_from += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.out.drain(..self.out_from);
                    self.out_from = 0;
                    return self.out.len() <= OUT_MAX;
                }
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.out_from = 0;
        true
    }
}
