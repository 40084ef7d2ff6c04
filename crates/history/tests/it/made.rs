//! Histories of a real sequential execution: operations that happened one after the other, each with a call before and an
//! answer after its moment.

use crate::naive::Plain;
use history::{Answer, Call, Family, History, Operation, Process};

/// A small generator: the crate under test has none.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// How a history is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) family: Family,
    pub(crate) clients: u32,
    pub(crate) operations: u64,
    /// How long an operation takes at most; one happens every 10.
    pub(crate) spread: u64,
    /// How many of a hundred have an unknown outcome.
    pub(crate) unknown: u64,
    /// How many of a hundred are asked before the client's last one is answered.
    pub(crate) pipelined: u64,
    /// From how many values writers choose; 0 for a new one each time.
    pub(crate) values: u64,
}

fn call(draw: &mut Draw, shape: &Shape, fresh: &mut i64, recent: &[i64]) -> Call {
    let mut value = |draw: &mut Draw| {
        if shape.values > 0 {
            return draw.below(shape.values) as i64 + 1;
        }
        *fresh += 1;
        *fresh
    };
    match shape.family {
        Family::Register => match draw.below(10) {
            0..5 => Call::Get,
            5..8 => Call::Set(value(draw)),
            8 => Call::Swap(value(draw)),
            _ => {
                let from = match recent.last() {
                    Some(_) if draw.percent(30) => recent[draw.below(recent.len() as u64) as usize],
                    Some(&last) => last,
                    None => 0,
                };
                Call::Cas(from, value(draw))
            }
        },
        Family::Counter => match draw.below(3) {
            0 => Call::Count,
            _ if shape.values > 0 => Call::Add(draw.below(4) as i64 - 1),
            _ => Call::Add(draw.below(3) as i64 + 1),
        },
        Family::List => match draw.below(2) {
            0 => Call::List,
            _ => Call::Append(value(draw)),
        },
        Family::Queue => match draw.below(2) {
            0 => Call::Pop,
            _ => {
                *fresh += 1;
                Call::Push(*fresh)
            }
        },
        Family::Member(member) => match draw.below(3) {
            0 => Call::Insert(member),
            1 => Call::Remove(member),
            _ => Call::Has(member),
        },
    }
}

/// Makes one from a seed.
pub(crate) fn history(seed: u64, shape: &Shape) -> History {
    let mut draw = Draw::new(seed);
    let mut object = Plain::default();
    let mut fresh = 0;
    let mut recent = Vec::new();
    // When each client is free again, under which name it goes on, and when it asked last.
    let mut clients: Vec<(u64, u32, u64)> = (0..shape.clients).map(|name| (0, name, 0)).collect();
    let mut names = shape.clients;
    let mut operations = Vec::new();
    for turn in 1..=shape.operations {
        let moment = turn * 10 + shape.spread;
        let waits = !draw.percent(shape.pipelined);
        let free: Vec<usize> = (0..clients.len())
            .filter(|&client| !waits || clients[client].0 < moment)
            .collect();
        if free.is_empty() {
            continue;
        }
        let client = free[draw.below(free.len() as u64) as usize];
        let (free_at, _, asked_at) = clients[client];
        let earliest = if waits { free_at } else { asked_at + 1 };
        let invoked = moment.saturating_sub(draw.below(shape.spread + 1)).max(earliest);
        let returned = (moment + 1 + draw.below(shape.spread + 1)).max(free_at);
        let call = call(&mut draw, shape, &mut fresh, &recent);
        let process = Process(clients[client].1);
        let is_unknown = draw.percent(shape.unknown);
        let answer = if is_unknown && draw.percent(50) {
            Answer::Unknown
        } else {
            object.apply(call)
        };
        if let Call::Set(value) | Call::Swap(value) | Call::Cas(_, value) = call {
            recent.push(value);
        }
        clients[client].0 = returned + 1;
        clients[client].2 = invoked;
        if is_unknown {
            clients[client].1 = names;
            names += 1;
        }
        operations.push(Operation {
            process,
            key: "k".to_owned(),
            invoked,
            returned: (!is_unknown).then_some(returned),
            call,
            answer: if is_unknown { Answer::Unknown } else { answer },
        });
    }
    History::new(operations)
}

pub(crate) const FAMILIES: [Family; 5] = [
    Family::Register,
    Family::Counter,
    Family::List,
    Family::Queue,
    Family::Member(7),
];
