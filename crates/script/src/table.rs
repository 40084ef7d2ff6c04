//! Tables: an array and a hash with open addressing, as those of Lua 5.1 to the slot.
//!
//! Scripts see the order in which `pairs` goes, and where `#` finds an end in an array with holes. Both follow from where
//! a key is put, so everything that decides this is Lua's: the hash of a string and of a number, the free place that is taken
//! from the end, which node of two moves, and how large the array and the hash become when a key finds no place (Roberto
//! Ierusalimschy, "The Implementation of Lua 5.0", 2005, section 4). Only tables and functions as keys stand elsewhere than in Redis,
//! where their addresses decide.
//!
//! Invariants:
//! 1. A key is a whole number between 1 and the array's length if and only if its value stands in the array.
//! 2. Every key of a node is found in the chain that begins at its main place.
//! 3. The hash has no nodes, or a power of two.

use crate::number::as_index;
use crate::value::{StrRef, TableRef, Value};
use std::cell::Cell;

/// No next node.
const NONE: u32 = u32::MAX;

/// Bits of the index of an array or a hash; one that would be larger is refused.
const BITS_MAX: usize = 26;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Value,
    value: Value,
    next: u32,
}

const FREE: Node = Node {
    key: Value::Nil,
    value: Value::Nil,
    next: NONE,
};

/// Steps that are paid for at once.
const MANY: u64 = 64;

/// Steps that cost as much as an instruction.
const STEPS_PER_INSTRUCTION: u64 = 8;

/// Steps of one function of the library: some milliseconds.
const TOO_MANY: u64 = 2_000_000;

/// Steps along chains of keys that share a place. Keys that were made to collide form long ones; whoever walks them pays for it.
///
/// When they are paid for decides nothing: what is not a whole instruction yet is kept, and a function counts from its own beginning.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    walked: Cell<u64>,
    paid: Cell<u64>,
    /// How many there were when the function of the library that runs was called.
    at_call: Cell<u64>,
}

impl Steps {
    #[inline]
    pub(crate) fn add(&self, steps: u64) {
        self.walked.set(self.walked.get() + steps);
    }

    /// Pays for all that were walked; returns what they cost, in instructions.
    pub(crate) fn pay(&self) -> u64 {
        let walked = self.walked.get();
        walked / STEPS_PER_INSTRUCTION - self.paid.replace(walked) / STEPS_PER_INSTRUCTION
    }

    /// A function of the library is called.
    #[inline]
    pub(crate) fn begin_call(&self) {
        self.at_call.set(self.walked.get());
    }

    pub(crate) fn reset(&self) {
        for count in [&self.walked, &self.paid, &self.at_call] {
            count.set(0);
        }
    }

    /// True if they should be paid for before more are made.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.walked.get() - self.paid.get() >= MANY
    }

    /// True if a function of the library should not go on without a pause.
    pub(crate) fn are_too_many(&self) -> bool {
        self.walked.get() - self.at_call.get() >= TOO_MANY
    }
}

/// Why a key was not put into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It would take more bytes than there are.
    Memory,
    /// It would have more places than a table can have.
    Overflow,
}

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    nodes: Vec<Node>,
    /// Places from here on are taken.
    last_free: u32,
    /// What says how it behaves.
    pub(crate) meta: Option<TableRef>,
    /// Scripts cannot change it.
    pub(crate) is_readonly: bool,
    /// A bit for each event that this table, as a metatable, is known not to handle.
    pub(crate) absent: u8,
}

/// A key together with what places it: hashes of strings stand with the strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed {
    pub(crate) key: Value,
    pub(crate) hash: Hash,
}

/// How a key finds its main place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hash {
    /// The low bits.
    Low(u32),
    /// The remainder.
    Mod(u32),
}

/// Hashes of the strings of a heap.
pub(crate) trait StringHashes {
    fn hash_of(&self, string: StrRef) -> u32;

    /// Where steps are counted.
    fn steps(&self) -> &Steps;
}

pub(crate) fn hashed(key: Value, strings: &impl StringHashes) -> Hashed {
    let hash = match key {
        Value::Str(string) => Hash::Low(strings.hash_of(string)),
        Value::Bool(bit) => Hash::Low(u32::from(bit)),
        Value::Number(n) => number_hash(n),
        Value::Table(table) => Hash::Mod(scatter(table.0, 1)),
        Value::Closure(closure) => Hash::Mod(scatter(closure.0, 2)),
        Value::Native(native) => Hash::Mod(scatter(native as u32, 3)),
        Value::Bound(bound) => Hash::Mod(scatter(bound.0, 4)),
        Value::Thread(thread) => Hash::Mod(scatter(thread.0, 5)),
        Value::Nil | Value::Null => Hash::Mod(0),
    };
    Hashed { key, hash }
}

fn scatter(id: u32, kind: u32) -> u32 {
    (id << 3).wrapping_add(kind)
}

fn number_hash(n: f64) -> Hash {
    if n == 0.0 {
        return Hash::Low(0);
    }
    let bits = n.to_bits();
    Hash::Mod((bits as u32).wrapping_add((bits >> 32) as u32))
}

/// The smallest `b` with `n <= 2^b`.
fn ceil_log2(n: u32) -> usize {
    (u32::BITS - n.saturating_sub(1).leading_zeros()) as usize
}

impl Table {
    /// A table with room for so many.
    pub(crate) fn with_room(array: usize, hash: usize) -> Self {
        let mut table = Self {
            array: vec![Value::Nil; array],
            ..Self::default()
        };
        table.set_nodes(hash);
        table
    }

    /// Bytes that it takes beside its place in the heap.
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_of(self.array.capacity(), self.nodes.len())
    }

    pub(crate) fn bytes_of(array: usize, nodes: usize) -> usize {
        array * size_of::<Value>() + nodes * size_of::<Node>()
    }

    fn place(&self, hash: Hash) -> usize {
        let length = self.nodes.len() as u32;
        match hash {
            Hash::Low(hash) => (hash & (length - 1)) as usize,
            Hash::Mod(hash) => (hash % ((length - 1) | 1)) as usize,
        }
    }

    #[inline]
    fn find(&self, hashed: Hashed, steps: &Steps) -> Option<&Node> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.place(hashed.hash);
        loop {
            let node = &self.nodes[at];
            if node.key == hashed.key {
                return Some(node);
            }
            if node.next == NONE {
                return None;
            }
            steps.add(1);
            at = node.next as usize;
        }
    }

    #[inline]
    pub(crate) fn get_string(&self, key: StrRef, hash: u32, steps: &Steps) -> Value {
        if self.nodes.is_empty() {
            return Value::Nil;
        }
        let mut at = hash as usize & (self.nodes.len() - 1);
        loop {
            let node = &self.nodes[at];
            if let Value::Str(other) = node.key
                && other == key
            {
                return node.value;
            }
            if node.next == NONE {
                return Value::Nil;
            }
            steps.add(1);
            at = node.next as usize;
        }
    }

    /// Replaces the value of a string that is a key already and has a value.
    #[inline]
    pub(crate) fn replace_string(&mut self, key: StrRef, hash: u32, value: Value, steps: &Steps) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let mut at = hash as usize & (self.nodes.len() - 1);
        loop {
            let node = &mut self.nodes[at];
            if let Value::Str(other) = node.key
                && other == key
            {
                if node.value.is_nil() {
                    return false;
                }
                node.value = value;
                return true;
            }
            if node.next == NONE {
                return false;
            }
            steps.add(1);
            at = node.next as usize;
        }
    }

    /// The value of a whole number.
    #[inline]
    pub(crate) fn get_index(&self, index: u32, steps: &Steps) -> Value {
        match self.array.get((index as usize).wrapping_sub(1)) {
            Some(&value) => value,
            None => self.find_number(f64::from(index), steps),
        }
    }

    fn find_number(&self, n: f64, steps: &Steps) -> Value {
        let hashed = Hashed {
            key: Value::Number(n),
            hash: number_hash(n),
        };
        self.find(hashed, steps).map_or(Value::Nil, |node| node.value)
    }

    #[inline]
    pub(crate) fn get_number(&self, n: f64, steps: &Steps) -> Value {
        let index = n as u32;
        if f64::from(index) == n
            && let Some(&value) = self.array.get((index as usize).wrapping_sub(1))
        {
            return value;
        }
        self.find_number(n, steps)
    }

    /// Replaces what stands in the array.
    #[inline]
    pub(crate) fn replace_number(&mut self, n: f64, value: Value) -> bool {
        let index = n as u32;
        if f64::from(index) == n
            && let Some(slot) = self.array.get_mut((index as usize).wrapping_sub(1))
            && !slot.is_nil()
        {
            *slot = value;
            return true;
        }
        false
    }

    pub(crate) fn get(&self, hashed: Hashed, steps: &Steps) -> Value {
        match hashed.key {
            Value::Nil => Value::Nil,
            Value::Number(n) => self.get_number(n, steps),
            _ => self.find(hashed, steps).map_or(Value::Nil, |node| node.value),
        }
    }

    /// Puts a value in its place. `room` is how many bytes there are; the key is neither nil nor NaN.
    pub(crate) fn set(
        &mut self,
        hashed: Hashed,
        value: Value,
        strings: &impl StringHashes,
        room: usize,
    ) -> Result<(), Full> {
        if let Value::Number(n) = hashed.key
            && let Some(index) = as_index(n)
            && let Some(slot) = self.array.get_mut(index as usize - 1)
        {
            *slot = value;
            return Ok(());
        }
        if let Some(at) = self.position_of(hashed, strings.steps()) {
            self.nodes[at].value = value;
            return Ok(());
        }
        // Lua makes a place even for nil, and so moves its other keys: `pairs` shows it.
        self.insert(hashed, value, strings, room)
    }

    fn position_of(&self, hashed: Hashed, steps: &Steps) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.place(hashed.hash);
        loop {
            if self.nodes[at].key == hashed.key {
                return Some(at);
            }
            if self.nodes[at].next == NONE {
                return None;
            }
            steps.add(1);
            at = self.nodes[at].next as usize;
        }
    }

    fn free_place(&mut self) -> Option<usize> {
        while self.last_free > 0 {
            self.last_free -= 1;
            if self.nodes[self.last_free as usize].key.is_nil() {
                return Some(self.last_free as usize);
            }
        }
        None
    }

    fn insert(
        &mut self,
        hashed: Hashed,
        value: Value,
        strings: &impl StringHashes,
        room: usize,
    ) -> Result<(), Full> {
        if self.nodes.is_empty() {
            return self.rehash(hashed, value, strings, room);
        }
        let mut at = self.place(hashed.hash);
        if !self.nodes[at].value.is_nil() {
            let Some(free) = self.free_place() else {
                return self.rehash(hashed, value, strings, room);
            };
            let mut other = self.place(self::hashed(self.nodes[at].key, strings).hash);
            if other == at {
                self.nodes[free].next = self.nodes[at].next;
                self.nodes[at].next = free as u32;
                at = free;
            } else {
                while self.nodes[other].next != at as u32 {
                    strings.steps().add(1);
                    other = self.nodes[other].next as usize;
                }
                self.nodes[other].next = free as u32;
                self.nodes[free] = self.nodes[at];
                self.nodes[at].next = NONE;
            }
        }
        self.nodes[at].key = hashed.key;
        self.nodes[at].value = value;
        Ok(())
    }

    fn rehash(
        &mut self,
        hashed: Hashed,
        value: Value,
        strings: &impl StringHashes,
        room: usize,
    ) -> Result<(), Full> {
        // How many whole numbers k there are with 2^(b-1) < k <= 2^b, for each b.
        let mut counts = [0usize; BITS_MAX + 2];
        let mut whole = 0;
        let mut total = 0;
        for (bucket, count) in counts.iter_mut().enumerate() {
            let from = if bucket == 0 { 0 } else { 1usize << (bucket - 1) };
            let to = (1usize << bucket).min(self.array.len());
            if from >= self.array.len() {
                break;
            }
            *count = self.array[from..to]
                .iter()
                .filter(|value| !value.is_nil())
                .count();
            whole += *count;
        }
        total += whole;
        let mut count_key = |key: Value| {
            if let Value::Number(n) = key
                && let Some(index) = as_index(n)
                && index as usize <= 1 << BITS_MAX
            {
                counts[ceil_log2(index)] += 1;
                whole += 1;
            }
        };
        for node in self.nodes.iter().filter(|node| !node.value.is_nil()) {
            count_key(node.key);
            total += 1;
        }
        count_key(hashed.key);
        total += 1;
        // All places were looked at, and will be moved.
        strings.steps().add((self.places() / 2) as u64);
        let (array, in_array) = best_array(&counts, whole);
        self.resize(array, total - in_array, strings, room)?;
        self.set(hashed, value, strings, room)
    }

    /// Makes the array and the hash as large as asked, and moves what no longer stands where it was.
    pub(crate) fn resize(
        &mut self,
        array: usize,
        hash: usize,
        strings: &impl StringHashes,
        room: usize,
    ) -> Result<(), Full> {
        let nodes = node_count(hash);
        if array > 1 << BITS_MAX || nodes > 1 << BITS_MAX {
            return Err(Full::Overflow);
        }
        // All of the new one, since it stands beside the old one until that is empty.
        if Self::bytes_of(array, nodes) > room {
            return Err(Full::Memory);
        }
        let old = std::mem::take(&mut self.nodes);
        self.set_nodes(hash);
        let vanishing: Vec<Value> = if array < self.array.len() {
            self.array.split_off(array)
        } else {
            self.array.reserve_exact(array - self.array.len());
            self.array.resize(array, Value::Nil);
            Vec::new()
        };
        self.array.shrink_to_fit();
        // There is a place for each of them: the sizes were counted.
        for (index, value) in (array + 1..).zip(vanishing) {
            if !value.is_nil() {
                self.set(
                    hashed(Value::Number(index as f64), strings),
                    value,
                    strings,
                    usize::MAX,
                )?;
            }
        }
        for node in old.iter().rev().filter(|node| !node.value.is_nil()) {
            self.set(hashed(node.key, strings), node.value, strings, usize::MAX)?;
        }
        Ok(())
    }

    fn set_nodes(&mut self, hash: usize) {
        let count = node_count(hash);
        self.nodes = vec![FREE; count];
        self.last_free = count as u32;
    }

    /// Makes the array at least so long, for a constructor that fills it.
    pub(crate) fn reserve_array(
        &mut self,
        length: usize,
        strings: &impl StringHashes,
        room: usize,
    ) -> Result<(), Full> {
        if length <= self.array.len() {
            return Ok(());
        }
        let hash = self.nodes.len();
        self.resize(length, hash, strings, room)
    }

    /// An index whose value is not nil, before one whose value is: what `#` gives.
    pub(crate) fn border(&self, steps: &Steps) -> u32 {
        let length = self.array.len();
        if let Some(last) = self.array.last()
            && last.is_nil()
        {
            let (mut low, mut high) = (0, length);
            while high - low > 1 {
                let middle = usize::midpoint(low, high);
                if self.array[middle - 1].is_nil() {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            return low as u32;
        }
        if self.nodes.is_empty() {
            return length as u32;
        }
        let (mut low, mut high) = (length as u32, length as u32 + 1);
        while !self.get_index(high, steps).is_nil() {
            low = high;
            if high > u32::MAX / 4 {
                // Somebody put numbers there on purpose.
                let mut index = 1;
                while !self.get_index(index, steps).is_nil() {
                    index += 1;
                }
                return index - 1;
            }
            high *= 2;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.get_index(middle, steps).is_nil() {
                high = middle;
            } else {
                low = middle;
            }
        }
        low
    }

    /// The first key with a value behind `key`, with it: `None` if `key` is not of this table, nil at the end.
    pub(crate) fn next(&self, hashed: Hashed, steps: &Steps) -> Option<(Value, Value)> {
        let from = match hashed.key {
            Value::Nil => 0,
            Value::Number(n) if as_index(n).is_some_and(|index| index as usize <= self.array.len()) => {
                n as usize
            }
            _ => self.array.len() + self.position_of(hashed, steps)? + 1,
        };
        let found = self.entry_from(from);
        // Places without a value are passed over, however many there are.
        let end = found.map_or(self.array.len() + self.nodes.len(), |(end, ..)| end);
        steps.add(end.saturating_sub(from) as u64);
        Some(found.map_or((Value::Nil, Value::Nil), |(_, key, value)| (key, value)))
    }

    /// The first key with a value from a position on, and the position behind it.
    pub(crate) fn entry_from(&self, from: usize) -> Option<(usize, Value, Value)> {
        let mut at = from;
        while at < self.array.len() {
            if !self.array[at].is_nil() {
                return Some((at + 1, Value::Number((at + 1) as f64), self.array[at]));
            }
            at += 1;
        }
        let mut node = at - self.array.len();
        while node < self.nodes.len() {
            let found = &self.nodes[node];
            if !found.value.is_nil() {
                return Some((self.array.len() + node + 1, found.key, found.value));
            }
            node += 1;
        }
        None
    }

    /// All keys and values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Value, Value)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (next, key, value) = self.entry_from(at)?;
            at = next;
            Some((key, value))
        })
    }

    /// All values that the table holds on to, keys of the dead included.
    pub(crate) fn held(&self) -> impl Iterator<Item = Value> {
        let nodes = self.nodes.iter().flat_map(|node| [node.key, node.value]);
        self.array.iter().copied().chain(nodes)
    }

    /// Places that a walk over it looks at.
    pub(crate) fn places(&self) -> usize {
        self.array.len() + self.nodes.len()
    }

    /// Values from 1 on, as they lie in the array.
    pub(crate) fn array(&self) -> &[Value] {
        &self.array
    }

    /// The array, to be sorted or shifted.
    pub(crate) fn array_mut(&mut self) -> &mut [Value] {
        &mut self.array
    }

    /// Panics if an invariant of the header is broken.
    #[cfg(test)]
    pub(crate) fn check(&self, strings: &impl StringHashes) {
        assert!(self.nodes.is_empty() || self.nodes.len().is_power_of_two());
        for node in self.nodes.iter().filter(|node| !node.value.is_nil()) {
            if let Value::Number(n) = node.key
                && let Some(index) = as_index(n)
            {
                assert!(index as usize > self.array.len());
            }
            assert!(
                self.position_of(hashed(node.key, strings), strings.steps())
                    .is_some()
            );
        }
    }
}

fn node_count(hash: usize) -> usize {
    if hash == 0 { 0 } else { hash.next_power_of_two() }
}

/// The largest array of which more than half is used, and how many of `whole` numbers go into it.
fn best_array(counts: &[usize], whole: usize) -> (usize, usize) {
    let (mut size, mut inside, mut below) = (0, 0, 0);
    let mut power = 1usize;
    for &count in counts {
        if power / 2 >= whole {
            break;
        }
        if count > 0 {
            below += count;
            if below > power / 2 {
                size = power;
                inside = below;
            }
        }
        if below == whole {
            break;
        }
        power *= 2;
    }
    (size, inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Plain(Steps);

    impl StringHashes for Plain {
        fn hash_of(&self, string: StrRef) -> u32 {
            string.0.wrapping_mul(0x9e37_79b9)
        }

        fn steps(&self) -> &Steps {
            &self.0
        }
    }

    #[test]
    fn a_table_is_a_map() {
        let mut state = 7u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let plain = Plain::default();
        let mut table = Table::default();
        let mut model = BTreeMap::new();
        for _ in 0..20_000 {
            let id = draw(400);
            let key = if id % 2 == 0 {
                Value::Number(f64::from(id / 2 + 1))
            } else {
                Value::Str(StrRef(id))
            };
            let value = if draw(3) == 0 {
                Value::Nil
            } else {
                Value::Number(f64::from(draw(1000)))
            };
            table.set(hashed(key, &plain), value, &plain, usize::MAX).unwrap();
            if value.is_nil() {
                model.remove(&id);
            } else {
                model.insert(id, value);
            }
            let probe = draw(400);
            let key = if probe % 2 == 0 {
                Value::Number(f64::from(probe / 2 + 1))
            } else {
                Value::Str(StrRef(probe))
            };
            let expected = model.get(&probe).copied().unwrap_or(Value::Nil);
            assert_eq!(table.get(hashed(key, &plain), plain.steps()), expected);
        }
        table.check(&plain);
        assert_eq!(table.entries().count(), model.len());
        let border = table.border(plain.steps());
        assert!(border == 0 || !table.get_index(border, plain.steps()).is_nil());
        assert!(table.get_index(border + 1, plain.steps()).is_nil());
    }

    #[test]
    fn a_table_that_would_be_too_large_stays_as_it_is() {
        let plain = Plain::default();
        let mut table = Table::default();
        let one = Value::Number(1.0);
        table.set(hashed(one, &plain), one, &plain, 1_000).unwrap();
        let two = Value::Number(2.0);
        assert_eq!(table.set(hashed(two, &plain), two, &plain, 30), Err(Full::Memory));
        assert_eq!(table.get(hashed(one, &plain), plain.steps()), one);
        assert_eq!(table.get(hashed(two, &plain), plain.steps()), Value::Nil);
    }
}
