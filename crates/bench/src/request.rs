//! Requests: what one is, its round trips, and its bytes.
//!
//! A request is a kind and two numbers, and its bytes follow from these alone. They are written straight into the buffer of a
//! connection, and written once more, the same, if a node of a cluster says that the key has moved.
//!
//! Names of keys, all of which begin with `bench:`
//!
//! ```text
//!  bench:000000000042             values
//!  bench:account:000000000042     balances
//!  bench:{000000000007}:000003    keys that share a slot with others of their family (--tagged)
//!  bench:{000000000007}:r:000042  records of workload e, in as many slots as there are indexes; number 42 is in index 42 mod n
//!  bench:{000000000007}:index     the names of an index's records
//! ```

use ids::{Prng, Slot};

use crate::keys::Keys;
use crate::sizes::Sizes;
use crate::workload::{Ratio, Workload};

/// What one request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Ping,
    Get,
    Set,
    /// `SET` of a key that nobody has set.
    Insert,
    Trans,
    /// Names from an index, then what they stand for.
    Scan,
    /// A record and its place in the index.
    Record,
    /// Read, change, write back.
    Update,
    Mset,
    Mget,
    Xfer,
    /// An account with money in it.
    Account,
}

/// One round trip of a request: the name under which its latencies are told.
const TRIPS: &[(Op, &[&str])] = &[
    (Op::Ping, &["PING"]),
    (Op::Get, &["GET"]),
    (Op::Set, &["SET"]),
    (Op::Insert, &["insert: SET"]),
    (Op::Trans, &["WATCH", "GET", "MULTI", "SET", "EXEC"]),
    (Op::Scan, &["scan: ZRANGEBYLEX", "scan: MGET"]),
    (Op::Record, &["insert: SET", "insert: ZADD"]),
    (Op::Update, &["update: GET", "update: SET"]),
    (Op::Mset, &["MSET"]),
    (Op::Mget, &["MGET"]),
    (Op::Xfer, &["XFER"]),
    (Op::Account, &["SET"]),
];

/// Round trips of the longest request.
pub(crate) const TRIPS_MAX: usize = 5;

impl Op {
    /// The names of its round trips, in their order.
    pub(crate) fn trips(self) -> &'static [&'static str] {
        let found = TRIPS.iter().find(|(op, _)| *op == self);
        found.expect("a test goes through all of them").1
    }

    /// Its round trips, at most [`TRIPS_MAX`].
    #[inline]
    pub(crate) fn trip_count(self) -> u8 {
        match self {
            Op::Trans => 5,
            Op::Scan | Op::Record | Op::Update => 2,
            Op::Ping | Op::Get | Op::Set | Op::Insert | Op::Mset | Op::Mget | Op::Xfer | Op::Account => 1,
        }
    }

    /// Whether something is written when this round trip is answered.
    pub(crate) fn writes(self, trip: u8) -> bool {
        match self {
            Op::Set | Op::Insert | Op::Record | Op::Mset | Op::Xfer | Op::Account => true,
            Op::Trans => trip == 4,
            Op::Update => trip == 1,
            Op::Ping | Op::Get | Op::Scan | Op::Mget => false,
        }
    }

    /// Whether a nil in the reply to this round trip means that a key was not there.
    pub(crate) fn reads(self, trip: u8) -> bool {
        match self {
            Op::Get | Op::Mget => true,
            Op::Trans => trip == 1,
            Op::Scan => trip == 1,
            Op::Update => trip == 0,
            Op::Ping | Op::Set | Op::Insert | Op::Record | Op::Mset | Op::Xfer | Op::Account => false,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) op: Op,
    /// Of its key, or its family of keys.
    pub(crate) number: u64,
    /// From which everything else is drawn.
    pub(crate) seed: u64,
}

/// What an account holds at first. Nobody can give so much away in a run.
const BALANCE: &[u8] = b"$15\r\n100000000000000\r\n";

/// Records of one index of workload `e`, on average.
const RECORDS_OF_INDEX: u64 = 1_000;

/// A scan asks for 1 to this many records, as YCSB's do.
const SCAN_MAX: u64 = 100;

/// Values begin at one of this many places in one block of letters, so that not all are equal.
const PLACES: usize = 4_096;

/// What all requests of a run have in common.
#[derive(Debug)]
pub(crate) struct Shape {
    workload: Workload,
    mixture: Vec<(u32, Op)>,
    weight: u32,
    sizes: Sizes,
    key_count: u64,
    batch: u64,
    is_tagged: bool,
    indexes: u64,
    letters: Vec<u8>,
}

impl Shape {
    pub(crate) fn new(
        workload: Workload,
        ratio: Ratio,
        sizes: Sizes,
        key_count: u64,
        batch: u64,
        is_tagged: bool,
    ) -> Shape {
        let mut prng = Prng::new(0x6c65_7474_6572_7321);
        let letters = (0..sizes.max() + PLACES).map(|_| b'a' + prng.below(26) as u8);
        let mixture = workload.mixture(ratio);
        Shape {
            workload,
            weight: mixture.iter().map(|(weight, _)| weight).sum(),
            mixture,
            sizes,
            key_count,
            batch: match workload {
                Workload::Xfer => 2,
                _ => batch,
            },
            is_tagged: is_tagged && matches!(workload, Workload::Mset | Workload::Mget | Workload::Xfer),
            indexes: (key_count / RECORDS_OF_INDEX).max(1),
            letters: letters.collect(),
        }
    }

    /// How many numbers keys, or families of keys, are drawn from.
    pub(crate) fn numbers(&self) -> u64 {
        if self.is_tagged {
            (self.key_count / self.batch).max(1)
        } else {
            self.key_count
        }
    }

    /// What loads one number before the run.
    pub(crate) fn load(&self) -> Option<Op> {
        let op = self.workload.load()?;
        Some(match op {
            Op::Set if self.is_tagged => Op::Mset,
            op => op,
        })
    }

    /// What the next request does.
    pub(crate) fn op(&self, prng: &mut Prng) -> Op {
        if self.mixture.len() == 1 {
            return self.mixture[0].1;
        }
        let mut at = prng.below(u64::from(self.weight)) as u32;
        for (weight, op) in &self.mixture {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *op,
            }
        }
        unreachable!("a number below the sum of all weights is below one of them")
    }

    /// Kinds of requests that a run has, or that load its keys.
    pub(crate) fn ops(&self, is_load: bool) -> Vec<Op> {
        if is_load {
            return self.load().into_iter().collect();
        }
        self.mixture.iter().map(|(_, op)| *op).collect()
    }

    /// The slot that a node of a cluster must have for this round trip; none for what concerns no key.
    pub(crate) fn slot(&self, request: &Request, keys: &mut Keys) -> Option<Slot> {
        let mut name = Name::default();
        match request.op {
            Op::Ping => return None,
            Op::Get | Op::Set | Op::Insert | Op::Trans | Op::Update => name.value(request.number),
            // The tag alone decides.
            Op::Scan | Op::Record => name.index(request.number % self.indexes),
            Op::Xfer | Op::Account => self.account(&mut name, request.number, 0),
            Op::Mset | Op::Mget if self.is_tagged => name.member(request.number, 0),
            Op::Mset | Op::Mget => {
                let mut first = None;
                self.each_number(request, keys, |number| {
                    first.get_or_insert(number);
                });
                name.value(first.unwrap_or_default());
            }
        }
        Some(Slot::of_key(name.bytes()))
    }

    /// Appends the bytes of one round trip.
    pub(crate) fn write(&self, request: &Request, trip: u8, keys: &mut Keys, made: u64, out: &mut Vec<u8>) {
        let mut name = Name::default();
        match (request.op, trip) {
            (Op::Ping, _) => out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n"),
            (Op::Get, _) | (Op::Trans, 1) | (Op::Update, 0) => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                name.value(request.number);
                bulk(out, name.bytes());
            }
            (Op::Set | Op::Insert, _) | (Op::Trans, 3) | (Op::Update, _) => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                name.value(request.number);
                bulk(out, name.bytes());
                self.value(request.seed, out);
            }
            (Op::Trans, 0) => {
                out.extend_from_slice(b"*2\r\n$5\r\nWATCH\r\n");
                name.value(request.number);
                bulk(out, name.bytes());
            }
            (Op::Trans, 2) => out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n"),
            (Op::Trans, _) => out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n"),
            (Op::Scan, 0) => {
                out.extend_from_slice(b"*7\r\n$11\r\nZRANGEBYLEX\r\n");
                name.index(request.number % self.indexes);
                bulk(out, name.bytes());
                name.clear();
                name.push(b"[");
                name.digits(request.number);
                bulk(out, name.bytes());
                out.extend_from_slice(b"$1\r\n+\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n");
                bulk_number(out, scan_length(request));
            }
            (Op::Scan, _) => {
                // The records that the index names: of its numbers, those from here on.
                let left = made.saturating_sub(request.number).div_ceil(self.indexes);
                let count = scan_length(request).min(left).max(1);
                array(out, 1 + count);
                out.extend_from_slice(b"$4\r\nMGET\r\n");
                for place in 0..count {
                    name.clear();
                    name.record(self.indexes, request.number + place * self.indexes);
                    bulk(out, name.bytes());
                }
            }
            (Op::Record, 0) => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                name.record(self.indexes, request.number);
                bulk(out, name.bytes());
                self.value(request.seed, out);
            }
            (Op::Record, _) => {
                out.extend_from_slice(b"*4\r\n$4\r\nZADD\r\n");
                name.index(request.number % self.indexes);
                bulk(out, name.bytes());
                out.extend_from_slice(b"$1\r\n0\r\n");
                name.clear();
                name.digits(request.number);
                bulk(out, name.bytes());
            }
            (Op::Mset, _) => {
                array(out, 1 + 2 * self.batch);
                out.extend_from_slice(b"$4\r\nMSET\r\n");
                let mut seed = request.seed;
                self.each_key(request, keys, |key| {
                    bulk(out, key);
                    seed = seed.wrapping_add(1);
                    self.value(seed, out);
                });
            }
            (Op::Mget, _) => {
                array(out, 1 + self.batch);
                out.extend_from_slice(b"$4\r\nMGET\r\n");
                self.each_key(request, keys, |key| bulk(out, key));
            }
            (Op::Xfer, _) => {
                out.extend_from_slice(b"*4\r\n$4\r\nXFER\r\n");
                // Both directions equally often, so that no account runs dry.
                let is_back = request.seed & 1 == 1;
                let other = if self.is_tagged {
                    request.number
                } else {
                    let mut prng = Prng::new(request.seed);
                    let drawn = keys.draw(&mut prng, self.key_count);
                    if drawn == request.number {
                        (drawn + 1) % self.key_count
                    } else {
                        drawn
                    }
                };
                let mut accounts = [(request.number, 0), (other, 1)];
                if self.is_tagged && is_back {
                    accounts.reverse();
                }
                for (number, place) in accounts {
                    name.clear();
                    self.account(&mut name, number, place);
                    bulk(out, name.bytes());
                }
                out.extend_from_slice(b"$1\r\n1\r\n");
            }
            (Op::Account, _) => {
                let places = if self.is_tagged { 2 } else { 1 };
                array(out, 1 + 2 * places);
                out.extend_from_slice(b"$4\r\nMSET\r\n");
                for place in 0..places {
                    name.clear();
                    self.account(&mut name, request.number, place);
                    bulk(out, name.bytes());
                    out.extend_from_slice(BALANCE);
                }
            }
        }
    }

    /// Numbers of the keys of a batch. They are drawn one by one, and one that is there already is drawn again a few times:
    /// where a few keys are drawn almost always, a batch names some of them twice.
    fn each_number(&self, request: &Request, keys: &mut Keys, mut with: impl FnMut(u64)) {
        const TRIES: u32 = 4;
        const REMEMBERED: usize = 64;
        let mut prng = Prng::new(request.seed);
        let mut drawn = [u64::MAX; REMEMBERED];
        for place in 0..self.batch as usize {
            let mut number = keys.draw(&mut prng, self.key_count);
            for _ in 1..TRIES {
                if !drawn.contains(&number) {
                    break;
                }
                number = keys.draw(&mut prng, self.key_count);
            }
            drawn[place % REMEMBERED] = number;
            with(number);
        }
    }

    fn each_key(&self, request: &Request, keys: &mut Keys, mut with: impl FnMut(&[u8])) {
        let mut name = Name::default();
        if self.is_tagged {
            for place in 0..self.batch {
                name.clear();
                name.member(request.number, place);
                with(name.bytes());
            }
        } else {
            self.each_number(request, keys, |number| {
                name.clear();
                name.value(number);
                with(name.bytes());
            });
        }
    }

    fn account(&self, name: &mut Name, number: u64, place: u64) {
        if self.is_tagged {
            name.member(number, place);
        } else {
            name.push(b"bench:account:");
            name.digits(number);
        }
    }

    fn value(&self, seed: u64, out: &mut Vec<u8>) {
        let mut prng = Prng::new(seed);
        let size = self.sizes.draw(&mut prng);
        let from = (prng.next_u64() % PLACES as u64) as usize;
        bulk(out, &self.letters[from..from + size]);
    }
}

/// Draws requests, one thread's.
#[derive(Debug)]
pub(crate) struct Draw {
    keys: Keys,
    prng: Prng,
}

impl Draw {
    pub(crate) fn new(keys: Keys, seed: u64) -> Draw {
        Draw {
            keys,
            prng: Prng::new(seed),
        }
    }

    pub(crate) fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    /// The next request. `made` is how many numbers are there; `make` takes the next one.
    pub(crate) fn request(
        &mut self,
        shape: &Shape,
        load: Option<Op>,
        made: u64,
        make: impl FnOnce() -> u64,
    ) -> Request {
        let op = load.unwrap_or_else(|| shape.op(&mut self.prng));
        let is_new = load.is_some() || matches!(op, Op::Insert | Op::Record);
        let number = if is_new {
            make()
        } else {
            self.keys.draw(&mut self.prng, made)
        };
        Request {
            op,
            number,
            seed: self.prng.next_u64(),
        }
    }
}

fn scan_length(request: &Request) -> u64 {
    1 + request.seed % SCAN_MAX
}

/// The name of a key, without memory of its own.
struct Name {
    bytes: [u8; NAME_MAX],
    length: usize,
}

/// Longer than every name: `bench:{` and 12 digits and `}:r:` and 12 digits are 35.
const NAME_MAX: usize = 48;

impl Default for Name {
    fn default() -> Name {
        Name {
            bytes: [0; NAME_MAX],
            length: 0,
        }
    }
}

impl Name {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn clear(&mut self) {
        self.length = 0;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Twelve digits, so that names sort as numbers do.
    fn digits(&mut self, mut number: u64) {
        let mut digits = [0; 12];
        for pair in digits.rchunks_exact_mut(2) {
            pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        self.push(&digits);
    }

    fn value(&mut self, number: u64) {
        self.push(b"bench:");
        self.digits(number);
    }

    fn member(&mut self, family: u64, place: u64) {
        self.push(b"bench:{");
        self.digits(family);
        self.push(b"}:");
        self.digits(place);
    }

    fn index(&mut self, index: u64) {
        self.push(b"bench:{");
        self.digits(index);
        self.push(b"}:index");
    }

    fn record(&mut self, indexes: u64, number: u64) {
        self.push(b"bench:{");
        self.digits(number % indexes);
        self.push(b"}:r:");
        self.digits(number);
    }
}

fn array(out: &mut Vec<u8>, count: u64) {
    out.push(b'*');
    decimal(out, count);
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn bulk_number(out: &mut Vec<u8>, number: u64) {
    let digits = number.checked_ilog10().unwrap_or(0) + 1;
    out.push(b'$');
    decimal(out, u64::from(digits));
    out.extend_from_slice(b"\r\n");
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// The digits of 0 to 99: most numbers are lengths, and two digits at a time take half of the divisions.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [tens, ones] = PAIRS[number as usize];
    at -= 1;
    digits[at] = ones;
    if tens != b'0' {
        at -= 1;
        digits[at] = tens;
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Distribution;
    use crate::workload::WORKLOADS;

    const ALL: [Op; 12] = [
        Op::Ping,
        Op::Get,
        Op::Set,
        Op::Insert,
        Op::Trans,
        Op::Scan,
        Op::Record,
        Op::Update,
        Op::Mset,
        Op::Mget,
        Op::Xfer,
        Op::Account,
    ];

    fn shape(name: &str, is_tagged: bool) -> (Shape, Keys) {
        let workload = name.parse().expect("a workload");
        let shape = Shape::new(workload, Ratio::default(), Sizes::Fixed(3), 5_000, 4, is_tagged);
        let keys = Keys::new(Distribution::Uniform, shape.numbers());
        (shape, keys)
    }

    /// The words of the commands that one request sends, trip by trip.
    fn words(shape: &Shape, keys: &mut Keys, request: Request) -> Vec<Vec<String>> {
        (0..request.op.trip_count())
            .map(|trip| {
                let mut out = Vec::new();
                shape.write(&request, trip, keys, 5_000, &mut out);
                let text = String::from_utf8(out).expect("only letters");
                let mut lines = text.split("\r\n");
                let count: usize = lines
                    .next()
                    .and_then(|line| line[1..].parse().ok())
                    .expect("an array");
                let words: Vec<String> = (0..count)
                    .map(|_| {
                        let length: usize = lines
                            .next()
                            .and_then(|line| line[1..].parse().ok())
                            .expect("a bulk");
                        let word = lines.next().expect("it follows").to_owned();
                        assert_eq!(word.len(), length);
                        word
                    })
                    .collect();
                assert_eq!(lines.collect::<Vec<_>>(), [""], "one command and no more");
                words
            })
            .collect()
    }

    #[test]
    fn every_request_has_as_many_names_as_round_trips() {
        for op in ALL {
            assert_eq!(op.trips().len(), usize::from(op.trip_count()), "{op:?}");
            assert!(op.trips().len() <= TRIPS_MAX);
        }
    }

    #[test]
    fn requests_are_whole_commands_and_the_same_when_they_are_written_again() {
        for spec in WORKLOADS {
            for is_tagged in [false, true] {
                let (shape, mut keys) = shape(spec.name, is_tagged);
                let mut draw = Draw::new(keys.clone(), 9);
                for load in [None, shape.load()] {
                    for _ in 0..100 {
                        let numbers = shape.numbers();
                        let request = draw.request(&shape, load, numbers, || 42);
                        let once = words(&shape, &mut keys, request);
                        assert_eq!(once, words(&shape, &mut keys, request), "{}", spec.name);
                        for trip in &once {
                            let is_ours = trip.len() == 1 || trip[1].starts_with("bench:");
                            assert!(is_ours, "{trip:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_slot_is_that_of_the_first_key() {
        for spec in WORKLOADS.iter().filter(|spec| spec.name != "ping") {
            for is_tagged in [false, true] {
                let (shape, mut keys) = shape(spec.name, is_tagged);
                let mut draw = Draw::new(keys.clone(), 9);
                for _ in 0..100 {
                    let request = draw.request(&shape, None, shape.numbers(), || 42);
                    let slot = shape.slot(&request, &mut keys);
                    let first = words(&shape, &mut keys, request)[0][1].clone();
                    assert_eq!(slot, Some(Slot::of_key(first.as_bytes())), "{first}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_written_as_everybody_writes_them() {
        let mut prng = Prng::new(5);
        let some = (0..64).map(|bits| prng.next_u64() >> bits);
        for number in (0..=10_000).chain(some).chain([u64::MAX]) {
            let mut out = Vec::new();
            decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
            let number = number % 1_000_000_000_000;
            let mut name = Name::default();
            name.digits(number);
            assert_eq!(name.bytes(), format!("{number:012}").as_bytes());
        }
    }

    #[test]
    fn a_transaction_is_five_commands_on_one_key() {
        let (shape, mut keys) = shape("trans", false);
        let request = Request {
            op: Op::Trans,
            number: 7,
            seed: 1,
        };
        let commands = words(&shape, &mut keys, request);
        let first: Vec<&str> = commands.iter().map(|words| words[0].as_str()).collect();
        assert_eq!(first, ["WATCH", "GET", "MULTI", "SET", "EXEC"]);
        assert_eq!(commands[0][1], "bench:000000000007");
        assert_eq!(commands[0][1], commands[3][1]);
        assert_eq!(commands[3][2].len(), 3);
    }

    #[test]
    fn keys_of_a_batch_differ_and_with_a_tag_share_a_slot() {
        for (is_tagged, is_one_slot) in [(false, false), (true, true)] {
            for name in ["mset", "mget"] {
                let (shape, mut keys) = shape(name, is_tagged);
                let mut draw = Draw::new(keys.clone(), 9);
                let request = draw.request(&shape, None, shape.numbers(), || 0);
                let command = words(&shape, &mut keys, request).remove(0);
                let step = if name == "mset" { 2 } else { 1 };
                let mut names: Vec<&String> = command[1..].iter().step_by(step).collect();
                let mut slots: Vec<Slot> = names.iter().map(|name| Slot::of_key(name.as_bytes())).collect();
                names.sort_unstable();
                names.dedup();
                slots.dedup();
                assert_eq!(names.len(), 4, "{command:?}");
                assert_eq!(slots.len() == 1, is_one_slot, "{command:?}");
            }
        }
    }

    #[test]
    fn money_goes_between_two_accounts() {
        for is_tagged in [false, true] {
            let (shape, mut keys) = shape("xfer", is_tagged);
            let mut draw = Draw::new(keys.clone(), 9);
            for _ in 0..200 {
                let request = draw.request(&shape, None, shape.numbers(), || 0);
                let command = words(&shape, &mut keys, request).remove(0);
                assert_eq!(command.len(), 4);
                assert_ne!(command[1], command[2]);
            }
        }
    }

    #[test]
    fn a_scan_reads_the_records_that_its_index_names() {
        let (shape, mut keys) = shape("e", false);
        let request = Request {
            op: Op::Scan,
            number: 4_988,
            seed: 99,
        };
        // Five indexes; 4988, 4993 and 4998 are the last three numbers of the fourth one.
        let commands = words(&shape, &mut keys, request);
        assert_eq!(
            commands[0],
            [
                "ZRANGEBYLEX",
                "bench:{000000000003}:index",
                "[000000004988",
                "+",
                "LIMIT",
                "0",
                "100"
            ]
        );
        assert_eq!(
            commands[1][1..],
            [
                "bench:{000000000003}:r:000000004988",
                "bench:{000000000003}:r:000000004993",
                "bench:{000000000003}:r:000000004998"
            ]
        );
    }

    #[test]
    fn kinds_of_requests_come_as_often_as_the_workload_says() {
        let (shape, keys) = shape("b", false);
        let mut draw = Draw::new(keys, 9);
        let sets = (0..20_000).filter(|_| draw.request(&shape, None, 5_000, || 0).op == Op::Set);
        let sets = sets.count();
        assert!((800..1_200).contains(&sets), "{sets} of 20000");
    }
}
