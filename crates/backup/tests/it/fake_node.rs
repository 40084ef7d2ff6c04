//! A port that answers commands as a test wants it: a node that loses groups, refuses and forgets, at the moments that are chosen.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use backup::{ClusterMembers, MemberGroup, MemberNode};

/// What a connection is answered: RESP, or nothing more, which closes it.
pub(crate) type Reply = Option<Vec<u8>>;

/// A node; its threads end with the process.
pub(crate) struct FakeNode<S> {
    address: String,
    state: Arc<Mutex<S>>,
}

impl<S: Send + 'static> FakeNode<S> {
    /// One that answers each command by this function.
    pub(crate) fn start(state: S, answer: fn(&mut S, &[Vec<u8>]) -> Reply) -> FakeNode<S> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.expect("it is accepted"), Arc::clone(&shared));
                thread::spawn(move || serve(&stream, &state, answer));
            }
        });
        FakeNode { address, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().expect("no answer panics")
    }

    /// A cluster of this node alone, with one group.
    pub(crate) fn members(&self) -> ClusterMembers {
        ClusterMembers {
            nodes: vec![MemberNode {
                id: 1,
                client: self.address.clone(),
                is_up: true,
            }],
            groups: vec![MemberGroup {
                number: 0,
                leader: Some(1),
                voters: vec![1],
            }],
            ..ClusterMembers::default()
        }
    }
}

fn serve<S>(mut stream: &TcpStream, state: &Mutex<S>, answer: fn(&mut S, &[Vec<u8>]) -> Reply) {
    let mut reader = BufReader::new(stream);
    while let Some(words) = read_command(&mut reader) {
        let reply = match words[0].as_slice() {
            // Whoever has no password looks whether there is to be one.
            b"PING" => Some(b"+PONG\r\n".to_vec()),
            _ => answer(&mut state.lock().expect("no answer panics"), &words),
        };
        let Some(reply) = reply else { return };
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}

fn read_command(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let mut count = || -> Option<usize> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim_end().parse().ok()
    };
    let words = count()?;
    (0..words)
        .map(|_| {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let length: usize = line.get(1..)?.trim_end().parse().ok()?;
            let mut word = vec![0; length + 2];
            reader.read_exact(&mut word).ok()?;
            word.truncate(length);
            Some(word)
        })
        .collect()
}

pub(crate) fn ok() -> Reply {
    Some(b"+OK\r\n".to_vec())
}

pub(crate) fn number(number: u64) -> Reply {
    Some(format!(":{number}\r\n").into_bytes())
}

pub(crate) fn error(text: &str) -> Reply {
    Some(format!("-{text}\r\n").into_bytes())
}

pub(crate) fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
