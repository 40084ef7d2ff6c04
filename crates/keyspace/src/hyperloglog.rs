//! HyperLogLogs: strings in Redis's format, so that values can come from Redis and go there.
//!
//! ```text
//!  4 bytes  "HYLL"
//!  1 byte   encoding  0 dense, 1 sparse
//!  3 bytes  zero
//!  8 bytes  the last estimate; stale if the top bit of the last byte is set
//!  n bytes  16,384 registers
//! ```
//!
//! Dense registers have six bits each, the lowest bits of a byte first: 12,288 bytes. Sparse ones are runs:
//!
//! ```text
//!  00llllll            l + 1 registers of zero
//!  01llllll  llllllll  l + 1 registers of zero
//!  1vvvvvll            l + 1 registers of v + 1
//! ```
//!
//! An element's hash names its register and its rank: how many bits the rest of the hash has up to its first one. A
//! register holds the greatest rank it was given (Flajolet and others, "HyperLogLog", 2007). The estimate is Ertl's ("New
//! cardinality estimation algorithms for HyperLogLog sketches", 2017).
//!
//! An estimate that stands in the value is believed, as Redis does. It is never written here but for the one of nothing
//! in an empty value: `PFCOUNT` is a read, and a read writes nothing.

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::limits::EncodingLimits;
use crate::object::{Kind, Object};
use crate::read::Reader;
use crate::value::Digits;
use command::{HyperLogLogCommand, HyperLogLogDebug, ReplyError};
use resp::{Args, ReplyWriter};

/// Registers of every value.
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that name the register.
const INDEX_BITS: u32 = 14;
/// Bits of a hash that make the rank.
const RANK_BITS: u32 = 64 - INDEX_BITS;
/// Bytes before the registers.
const HEAD: usize = 16;
const MAGIC: &[u8] = b"HYLL";
/// Where the encoding stands.
const ENCODING: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The byte whose top bit says that the estimate is stale.
const STALE: usize = 15;
/// Bytes of a dense value.
const DENSE_BYTES: usize = HEAD + REGISTERS * 6 / 8;
/// The longest runs that one entry can say.
const ZEROS_SHORT_MAX: usize = 64;
const VALUES_MAX: usize = 4;
/// The greatest rank that a run can say.
const SPARSE_RANK_MAX: u8 = 32;
/// Entries that are looked at for runs to be joined after a change.
const JOINED_MAX: usize = 5;

/// Elements that are added to a sparse value one after the other. Each is looked for from the first run on: of more
/// elements, the work of reading and writing all registers is less.
const ONE_BY_ONE_MAX: usize = 32;

/// MurmurHash64A (Appleby), reading little-endian words.
fn murmur_hash(bytes: &[u8], seed: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

/// The register of an element, and its rank.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur_hash(element, 0xadc8_3b19);
    let index = hash as usize & (REGISTERS - 1);
    // A bit above the others ends the search.
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// The runs of a sparse value do not make up all registers.
struct Corrupted;

impl From<Corrupted> for ReplyError {
    fn from(_: Corrupted) -> ReplyError {
        ReplyError::CorruptedHyperLogLog
    }
}

/// Registers of one value next to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Zero, or from 1 to [`SPARSE_RANK_MAX`].
    value: u8,
    length: usize,
}

impl Run {
    /// The run at the start of `bytes`, and how many bytes say it.
    fn decode(bytes: &[u8]) -> Result<(Run, usize), Corrupted> {
        let head = *bytes.first().ok_or(Corrupted)?;
        let (value, length, size) = match head {
            0x00..=0x3f => (0, usize::from(head) + 1, 1),
            0x40..=0x7f => {
                let low = *bytes.get(1).ok_or(Corrupted)?;
                (0, (usize::from(head & 0x3f) << 8 | usize::from(low)) + 1, 2)
            }
            _ => ((head >> 2 & 0x1f) + 1, usize::from(head & 3) + 1, 1),
        };
        Ok((Run { value, length }, size))
    }

    /// Writes the run; it has to be one that a single entry can say.
    fn encode(self, to: &mut Vec<u8>) {
        let length = self.length - 1;
        if self.value > 0 {
            to.push(0x80 | (self.value - 1) << 2 | length as u8);
        } else if self.length <= ZEROS_SHORT_MAX {
            to.push(length as u8);
        } else {
            to.extend([0x40 | (length >> 8) as u8, length as u8]);
        }
    }
}

/// The runs of sparse registers, each with its place in them: the first is at 0.
fn runs(registers: &[u8]) -> impl Iterator<Item = Result<(usize, Run), Corrupted>> + '_ {
    let (mut at, mut index) = (0, 0);
    std::iter::from_fn(move || {
        if at == registers.len() {
            return (index != REGISTERS).then(|| {
                // The error is told once.
                index = REGISTERS;
                Err(Corrupted)
            });
        }
        let found = Run::decode(&registers[at..]).and_then(|(run, size)| {
            let start = index;
            if start + run.length > REGISTERS {
                return Err(Corrupted);
            }
            at += size;
            index += run.length;
            Ok((start, run))
        });
        if found.is_err() {
            (at, index) = (registers.len(), REGISTERS);
        }
        Some(found)
    })
}

fn dense_get(registers: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    let high = registers.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[byte], high]) >> shift) as u8 & 0x3f
}

/// All registers in order, four out of every three bytes.
fn dense_groups(registers: &[u8]) -> impl Iterator<Item = [u8; 4]> + '_ {
    registers.as_chunks().0.iter().map(|&[a, b, c]| {
        [
            a & 0x3f,
            a >> 6 | (b & 0x0f) << 2,
            b >> 4 | (c & 0x03) << 4,
            c >> 2,
        ]
    })
}

fn dense_set(registers: &mut [u8], index: usize, value: u8) {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    let high = registers.get(byte + 1).copied().unwrap_or(0);
    let cleared = u16::from_le_bytes([registers[byte], high]) & !(0x3f << shift);
    let [low, high] = (cleared | u16::from(value) << shift).to_le_bytes();
    registers[byte] = low;
    // The last register ends with the last byte.
    if let Some(byte) = registers.get_mut(byte + 1) {
        *byte = high;
    }
}

/// Whether these are a value's bytes, as far as that can be told at once.
fn check(bytes: &[u8]) -> Result<(), ReplyError> {
    let is_whole = bytes.len() >= HEAD
        && bytes.starts_with(MAGIC)
        && match bytes[ENCODING] {
            DENSE => bytes.len() == DENSE_BYTES,
            SPARSE => true,
            _ => false,
        };
    if is_whole {
        Ok(())
    } else {
        Err(ReplyError::NotAHyperLogLog)
    }
}

/// The estimate that stands in the value, unless it is stale.
fn cached(bytes: &[u8]) -> Option<u64> {
    let estimate = bytes[8..HEAD].try_into().expect("eight bytes of the head");
    (bytes[STALE] & 0x80 == 0).then(|| u64::from_le_bytes(estimate))
}

/// A value without elements. As in Redis it counts as changed, though its estimate would be right.
fn empty() -> Vec<u8> {
    let mut bytes = head(SPARSE);
    Run {
        value: 0,
        length: REGISTERS,
    }
    .encode(&mut bytes);
    bytes
}

/// The bytes before the registers, with a stale estimate.
fn head(encoding: u8) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING] = encoding;
    bytes[STALE] = 0x80;
    bytes
}

/// The registers of a value, one byte each: where values are joined.
struct Registers(Box<[u8; REGISTERS]>);

impl Registers {
    fn new() -> Registers {
        Registers(Box::new([0; REGISTERS]))
    }

    /// Raises every register to what it is in the value `bytes`.
    fn join(&mut self, bytes: &[u8]) -> Result<(), Corrupted> {
        let registers = &bytes[HEAD..];
        if bytes[ENCODING] == DENSE {
            for (raised, group) in self
                .0
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .zip(dense_groups(registers))
            {
                for (register, value) in raised.iter_mut().zip(group) {
                    *register = (*register).max(value);
                }
            }
            return Ok(());
        }
        for found in runs(registers) {
            let (start, run) = found?;
            for register in &mut self.0[start..start + run.length] {
                *register = (*register).max(run.value);
            }
        }
        Ok(())
    }

    /// Adds elements; whether a register changed.
    fn add(&mut self, elements: Args<'_>) -> bool {
        let mut changes = false;
        for (index, rank) in elements.iter().map(place) {
            changes |= rank > self.0[index];
            self.0[index] = self.0[index].max(rank);
        }
        changes
    }

    /// As a dense value.
    fn to_dense(&self) -> Vec<u8> {
        let mut bytes = head(DENSE);
        bytes.resize(DENSE_BYTES, 0);
        for (index, &register) in self.0.iter().enumerate() {
            dense_set(&mut bytes[HEAD..], index, register);
        }
        bytes
    }

    /// As a sparse value, if there is one of at most so many bytes.
    fn to_sparse(&self, bytes_max: usize) -> Option<Vec<u8>> {
        let mut bytes = head(SPARSE);
        for run in self.0.chunk_by(|a, b| a == b) {
            let value = run[0];
            if value > SPARSE_RANK_MAX || bytes.len() > bytes_max {
                return None;
            }
            // A single entry can say that all registers are zero.
            let length_max = if value == 0 { REGISTERS } else { VALUES_MAX };
            for part in run.chunks(length_max) {
                let length = part.len();
                Run { value, length }.encode(&mut bytes);
            }
        }
        (bytes.len() <= bytes_max).then_some(bytes)
    }

    fn estimate(&self) -> u64 {
        let mut histogram = Histogram::new();
        self.0.iter().for_each(|&value| histogram.add(value, 1));
        histogram.estimate()
    }
}

/// How many registers hold each value.
struct Histogram([u32; 64]);

impl Histogram {
    fn new() -> Histogram {
        Histogram([0; 64])
    }

    fn add(&mut self, value: u8, count: usize) {
        self.0[usize::from(value)] += count as u32;
    }

    /// Of the value `bytes`.
    fn of(bytes: &[u8]) -> Result<Histogram, Corrupted> {
        let mut histogram = Histogram::new();
        let registers = &bytes[HEAD..];
        if bytes[ENCODING] == DENSE {
            for group in dense_groups(registers) {
                group.into_iter().for_each(|value| histogram.add(value, 1));
            }
        } else {
            for found in runs(registers) {
                let (_, run) = found?;
                histogram.add(run.value, run.length);
            }
        }
        Ok(histogram)
    }

    /// How many different elements these registers have seen.
    fn estimate(&self) -> u64 {
        /// 1 / (2 ln 2)
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let all = REGISTERS as f64;
        let count = |value: u32| f64::from(self.0[value as usize]);
        let mut sum = all * tau((all - count(RANK_BITS + 1)) / all);
        for value in (1..=RANK_BITS).rev() {
            sum = 0.5 * (sum + count(value));
        }
        sum += all * sigma(count(0) / all);
        // Of no elements the sum is infinite, and the estimate zero.
        (ALPHA * all * all / sum).round() as u64
    }
}

/// The correction for registers that are full, as the paper has it.
fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut z) = (x, 1.0, 1.0 - x);
    loop {
        let before = z;
        x = x.sqrt();
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The correction for registers that are zero, as the paper has it.
fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut z) = (x, 1.0, x);
    loop {
        let before = z;
        x *= x;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Raises a register of the value `bytes`; whether it was lower. A sparse value that would be longer than `sparse_max` becomes
/// dense.
fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupted> {
    if bytes[ENCODING] == DENSE {
        let registers = &mut bytes[HEAD..];
        let is_higher = value > dense_get(registers, index);
        if is_higher {
            dense_set(registers, index, value);
            bytes[STALE] |= 0x80;
        }
        return Ok(is_higher);
    }
    // The run of the register, where it begins, and where the run before it stands.
    let (mut at, mut before, mut start) = (HEAD, HEAD, 0);
    let (run, size) = loop {
        let (run, size) = Run::decode(&bytes[at..])?;
        if index < start + run.length {
            break (run, size);
        }
        before = at;
        at += size;
        start += run.length;
    };
    if run.value >= value {
        return Ok(false);
    }
    let mut parts = Vec::new();
    let around = [
        (run.value, index - start),
        (value, 1),
        (run.value, start + run.length - index - 1),
    ];
    if value <= SPARSE_RANK_MAX {
        for (value, length) in around.into_iter().filter(|(_, length)| *length > 0) {
            Run { value, length }.encode(&mut parts);
        }
    }
    let is_too_long = parts.len() > size && bytes.len() + parts.len() - size > sparse_max;
    if parts.is_empty() || is_too_long {
        make_dense(bytes)?;
        return raise(bytes, index, value, sparse_max);
    }
    bytes.splice(at..at + size, parts);
    join_runs(bytes, before);
    bytes[STALE] |= 0x80;
    Ok(true)
}

/// Joins runs of equal values from the entry at `at` on, as far as a change can have made some.
fn join_runs(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_MAX {
        let Ok((run, size)) = Run::decode(bytes.get(at..).unwrap_or_default()) else {
            return;
        };
        let next = Run::decode(&bytes[at + size..]);
        let joined = next.ok().filter(|(next, _)| {
            run.value > 0 && next.value == run.value && run.length + next.length <= VALUES_MAX
        });
        match joined {
            Some((next, next_size)) => {
                let mut entry = Vec::new();
                let length = run.length + next.length;
                Run { length, ..run }.encode(&mut entry);
                bytes.splice(at..at + size + next_size, entry);
            }
            None => at += size,
        }
    }
}

/// Makes a sparse value a dense one. The estimate stays.
fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupted> {
    let mut registers = Registers::new();
    registers.join(bytes)?;
    let mut dense = registers.to_dense();
    dense[8..HEAD].copy_from_slice(&bytes[8..HEAD]);
    *bytes = dense;
    Ok(())
}

/// A string of these bytes, kept as one that grows.
fn store(object: &mut Object, bytes: &[u8]) {
    object.set_text(bytes);
    object.bytes_mut(0);
}

/// Adds elements; whether a register changed. A sparse value that would be longer than `sparse_max` becomes dense.
fn add(object: &mut Object, elements: Args<'_>, sparse_max: usize) -> Result<bool, ReplyError> {
    let mut digits = Digits::default();
    let bytes = object.value().text(&mut digits);
    check(bytes)?;
    if bytes[ENCODING] == DENSE {
        // Most elements change nothing, and the value is written in place if one does.
        let mut raised = elements
            .iter()
            .map(place)
            .filter(|&(index, value)| value > dense_get(&bytes[HEAD..], index))
            .peekable();
        if raised.peek().is_none() {
            return Ok(false);
        }
        let raised: Vec<(usize, u8)> = raised.collect();
        let bytes = object.bytes_mut(0);
        for (index, value) in raised {
            let value = value.max(dense_get(&bytes[HEAD..], index));
            dense_set(&mut bytes[HEAD..], index, value);
        }
        bytes[STALE] |= 0x80;
        return Ok(true);
    }
    if elements.len() > ONE_BY_ONE_MAX {
        let mut registers = Registers::new();
        registers.join(bytes)?;
        let changes = registers.add(elements);
        if changes {
            let sparse = registers.to_sparse(sparse_max);
            store(object, &sparse.unwrap_or_else(|| registers.to_dense()));
        }
        return Ok(changes);
    }
    let mut bytes = bytes.to_vec();
    let mut changes = false;
    for element in elements.iter() {
        let (index, value) = place(element);
        changes |= raise(&mut bytes, index, value, sparse_max)?;
    }
    if changes {
        store(object, &bytes);
    }
    Ok(changes)
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn hyperloglog(&mut self, command: &HyperLogLogCommand<'_>) {
        let result = match *command {
            HyperLogLogCommand::Add { key, elements } => self.pf_add(key, elements),
            HyperLogLogCommand::Merge { destination, sources } => self.pf_merge(destination, sources),
            HyperLogLogCommand::Debug { key, action } => self.pf_debug(key, action),
            HyperLogLogCommand::Count { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn pf_add(&mut self, key: &[u8], elements: Args<'_>) -> Result<(), ReplyError> {
        let location = self.locate(key);
        let sparse_max = self.keyspace.limits().sparse_bytes as usize;
        let found = self.update_string(location, key, |change| {
            let changes = add(change.object, elements, sparse_max)?;
            if changes {
                change.mark();
            }
            Ok(changes)
        });
        let changes = match found {
            Some(changes) => changes?,
            None => {
                let mut object = Object::string(key, b"", None, self.version());
                store(&mut object, &empty());
                add(&mut object, elements, sparse_max)?;
                self.insert(location, object);
                true
            }
        };
        if changes {
            self.event(EventClasses::STRING, "pfadd", key);
        }
        self.out.integer(i64::from(changes));
        Ok(())
    }

    fn pf_merge(&mut self, destination: &[u8], sources: Args<'_>) -> Result<(), ReplyError> {
        let mut registers = Registers::new();
        let mut is_dense = false;
        for key in std::iter::once(destination).chain(sources.iter()) {
            if let Some(object) = self.peek(Kind::String, key)? {
                let mut digits = Digits::default();
                let bytes = object.value().text(&mut digits);
                check(bytes)?;
                registers.join(bytes)?;
                is_dense |= bytes[ENCODING] == DENSE;
            }
        }
        let sparse_max = self.keyspace.limits().sparse_bytes as usize;
        let sparse = if is_dense {
            None
        } else {
            registers.to_sparse(sparse_max)
        };
        let bytes = sparse.unwrap_or_else(|| registers.to_dense());
        let location = self.locate(destination);
        let found = self.update(location, destination, |change| {
            store(change.object, &bytes);
            change.mark();
        });
        if found.is_none() {
            let mut object = Object::string(destination, b"", None, self.version());
            store(&mut object, &bytes);
            self.insert(location, object);
        }
        self.event(EventClasses::STRING, "pfadd", destination);
        self.out.ok();
        Ok(())
    }

    /// `PFDEBUG` with a subcommand that makes the value dense.
    fn pf_debug(&mut self, key: &[u8], action: HyperLogLogDebug) -> Result<(), ReplyError> {
        let location = self.locate(key);
        let found = self.update_string(location, key, |change| {
            let mut bytes = change.object.value().text(&mut Digits::default()).to_vec();
            check(&bytes)?;
            let is_sparse = bytes[ENCODING] == SPARSE;
            if is_sparse {
                make_dense(&mut bytes)?;
                store(change.object, &bytes);
                change.mark();
            }
            Ok((bytes, is_sparse))
        });
        let (bytes, was_sparse) = found.ok_or(ReplyError::NoHyperLogLogToDebug)??;
        if action == HyperLogLogDebug::Registers {
            self.out.array(REGISTERS);
            for index in 0..REGISTERS {
                self.out.integer(i64::from(dense_get(&bytes[HEAD..], index)));
            }
        } else {
            self.out.integer(i64::from(was_sparse));
        }
        Ok(())
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn hyperloglog(&mut self, command: &HyperLogLogCommand<'_>) {
        let result = match *command {
            HyperLogLogCommand::Count { keys } => self.pf_count(keys),
            HyperLogLogCommand::Debug { key, action } => self.pf_show(key, action),
            HyperLogLogCommand::Add { .. } | HyperLogLogCommand::Merge { .. } => {
                unreachable!("{command:?} is not a read")
            }
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn pf_count(&mut self, keys: Args<'_>) -> Result<(), ReplyError> {
        let mut digits = Digits::default();
        if keys.len() == 1 {
            let estimate = match self.lookup_kind(keys.arg(0), Kind::String)? {
                None => 0,
                Some(object) => {
                    let bytes = object.value().text(&mut digits);
                    check(bytes)?;
                    match cached(bytes) {
                        Some(estimate) => estimate,
                        None => Histogram::of(bytes)?.estimate(),
                    }
                }
            };
            self.out.integer(estimate as i64);
            return Ok(());
        }
        let mut registers = Registers::new();
        for key in keys.iter() {
            if let Some(object) = self.lookup_kind(key, Kind::String)? {
                let bytes = object.value().text(&mut digits);
                check(bytes)?;
                registers.join(bytes)?;
            }
        }
        self.out.integer(registers.estimate() as i64);
        Ok(())
    }

    /// `PFDEBUG` with a subcommand that changes nothing.
    fn pf_show(&mut self, key: &[u8], action: HyperLogLogDebug) -> Result<(), ReplyError> {
        let found = self.lookup_kind(key, Kind::String)?;
        let object = found.ok_or(ReplyError::NoHyperLogLogToDebug)?;
        let mut digits = Digits::default();
        let bytes = object.value().text(&mut digits);
        check(bytes)?;
        let is_dense = bytes[ENCODING] == DENSE;
        if action == HyperLogLogDebug::Encoding {
            self.out.simple(if is_dense { "dense" } else { "sparse" });
            return Ok(());
        }
        if is_dense {
            return Err(ReplyError::HyperLogLogNotSparse);
        }
        let words = decode_runs(&bytes[HEAD..])?;
        self.out.bulk(words.join(" ").as_bytes());
        Ok(())
    }
}

/// Sparse registers in words, one for each entry.
fn decode_runs(registers: &[u8]) -> Result<Vec<String>, Corrupted> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < registers.len() {
        let (Run { value, length }, size) = Run::decode(&registers[at..])?;
        words.push(match (value, size) {
            (0, 1) => format!("z:{length}"),
            (0, _) => format!("Z:{length}"),
            _ => format!("v:{value},{length}"),
        });
        at += size;
    }
    Ok(words)
}

/// `PFSELFTEST`: that dense registers keep what is written to them, that both encodings have the same registers, and that
/// estimates are as good as they should be.
pub fn self_test(out: &mut ReplyWriter<'_>) {
    match find_fault() {
        None => out.ok(),
        Some(fault) => out.error(&format!("TESTFAILED {fault}")),
    }
}

/// What is wrong with this file's arithmetic, if anything is.
fn find_fault() -> Option<String> {
    const ELEMENTS_MAX: u64 = 100_000;
    let mut bytes = vec![0; DENSE_BYTES];
    let expected = |index: usize, turn: usize| ((index * 7 + turn * 13) % 64) as u8;
    for turn in 0..8 {
        let registers = &mut bytes[HEAD..];
        (0..REGISTERS).for_each(|index| dense_set(registers, index, expected(index, turn)));
        let wrong = (0..REGISTERS).find(|&index| dense_get(registers, index) != expected(index, turn));
        if let Some(index) = wrong {
            return Some(format!("Register {index} does not hold what was written to it"));
        }
    }
    let mut value = empty();
    let sparse_max = EncodingLimits::default().sparse_bytes as usize;
    let mut plain = Registers::new();
    let mut checked = 1;
    for count in 1..=ELEMENTS_MAX {
        let (index, rank) = place(&count.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        if raise(&mut value, index, rank, sparse_max).is_err() {
            return Some(format!("The runs are damaged after {count} elements"));
        }
        plain.0[index] = plain.0[index].max(rank);
        if count < checked {
            continue;
        }
        checked *= 10;
        let Ok(histogram) = Histogram::of(&value) else {
            return Some(format!("The runs are damaged after {count} elements"));
        };
        let estimate = histogram.estimate();
        if estimate != plain.estimate() {
            return Some(format!("The encodings differ after {count} elements"));
        }
        // Six standard errors, each of 1.04 / sqrt(16,384), and of small sets one element.
        let error_max = count as f64 * 6.0 * 1.04 / 128.0 + 1.0;
        if estimate.abs_diff(count) as f64 > error_max {
            return Some(format!("Of {count} elements the estimate is {estimate}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    const SPARSE_MAX: usize = 3_000;

    /// The registers of a value, plainly.
    fn registers(bytes: &[u8]) -> Vec<u8> {
        let mut registers = Registers::new();
        assert!(registers.join(bytes).is_ok());
        registers.0.to_vec()
    }

    #[test]
    fn the_self_test_finds_no_fault() {
        assert_eq!(find_fault(), None);
    }

    #[test]
    fn hashes_are_those_of_redis() {
        // What Redis 7.0.15 has in its registers for these elements.
        let mut bytes = empty();
        for element in [&b"a"[..], b"b", b"c"] {
            let (index, rank) = place(element);
            assert!(raise(&mut bytes, index, rank, SPARSE_MAX).is_ok_and(|changed| changed));
        }
        let words = decode_runs(&bytes[HEAD..]).unwrap_or_default();
        assert_eq!(words.join(" "), "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603");
    }

    #[test]
    fn a_value_agrees_with_plain_registers_however_it_is_kept() {
        let mut prng = Prng::new(1);
        for ranks in [3, 20, 51] {
            let mut bytes = empty();
            let mut model = vec![0; REGISTERS];
            for turn in 0..6_000 {
                // Neighbours, so that runs are joined and parted.
                let index = if turn < 1_500 {
                    (turn * 7 + prng.below(9) as usize) % 300
                } else {
                    prng.below(REGISTERS as u64) as usize
                };
                let rank = 1 + prng.below(ranks) as u8;
                let is_higher = rank > model[index];
                model[index] = model[index].max(rank);
                assert!(raise(&mut bytes, index, rank, SPARSE_MAX).is_ok_and(|changed| changed == is_higher));
                assert!(check(&bytes).is_ok());
                assert!(bytes[ENCODING] == DENSE || bytes.len() <= SPARSE_MAX);
                if turn % 100 == 0 {
                    assert_eq!(registers(&bytes), model);
                }
            }
            assert_eq!(bytes[ENCODING], DENSE);
        }
    }

    #[test]
    fn joined_registers_come_back_from_both_encodings() {
        let mut prng = Prng::new(2);
        for count in [0u64, 1, 10, 500, 20_000] {
            let mut all = Registers::new();
            for _ in 0..count {
                let (index, rank) = place(&prng.next_u64().to_le_bytes());
                all.0[index] = all.0[index].max(rank);
            }
            assert_eq!(registers(&all.to_dense()), all.0.to_vec());
            if let Some(sparse) = all.to_sparse(SPARSE_MAX) {
                assert!(sparse.len() <= SPARSE_MAX);
                assert_eq!(registers(&sparse), all.0.to_vec());
            } else {
                assert!(count >= 500);
            }
        }
    }

    #[test]
    fn damaged_runs_are_noticed_and_never_a_panic() {
        let mut prng = Prng::new(3);
        let mut bytes = empty();
        for _ in 0..200 {
            let (index, rank) = place(&prng.next_u64().to_le_bytes());
            assert!(raise(&mut bytes, index, rank, SPARSE_MAX).is_ok());
        }
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            let at = HEAD + prng.below((bytes.len() - HEAD) as u64) as usize;
            damaged[at] = prng.next_u64() as u8;
            if prng.below(3) == 0 {
                damaged.truncate(at);
            }
            let is_whole = Histogram::of(&damaged).is_ok();
            assert_eq!(Registers::new().join(&damaged).is_ok(), is_whole);
            let (index, rank) = place(&prng.next_u64().to_le_bytes());
            let raised = raise(&mut damaged, index, rank, SPARSE_MAX);
            assert!(!is_whole || raised.is_ok());
        }
    }
}
