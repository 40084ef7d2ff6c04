//! The strings of a heap, each once.
//!
//! The hash is that of Lua 5.1, of at most 32 of the bytes, because the order of `pairs` follows from it. Strings that were
//! made to collide form long chains; whoever walks them pays for each step ([`Steps`]).

use std::sync::Arc;

use crate::arena::{Arena, Mark};
use crate::table::{Steps, StringHashes};
use crate::value::StrRef;

const NONE: u32 = u32::MAX;

/// Buckets of a new heap.
const BUCKETS: usize = 512;

/// A string, and the next one of its bucket.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Arc<[u8]>,
    hash: u32,
    next: u32,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: Arc::new([]),
            hash: 0,
            next: NONE,
        }
    }
}

/// All strings.
#[derive(Debug)]
pub(crate) struct Strings {
    arena: Arena<Text>,
    buckets: Vec<u32>,
    count: usize,
    steps: Steps,
}

impl StringHashes for Strings {
    #[inline]
    fn hash_of(&self, string: StrRef) -> u32 {
        self.arena.get(string.0).hash
    }

    #[inline]
    fn steps(&self) -> &Steps {
        &self.steps
    }
}

/// Lua's hash of a string.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    let mut hash = bytes.len() as u32;
    let step = (bytes.len() >> 5) + 1;
    let mut at = bytes.len();
    while at >= step {
        hash ^= (hash << 5)
            .wrapping_add(hash >> 2)
            .wrapping_add(u32::from(bytes[at - 1]));
        at -= step;
    }
    hash
}

impl Strings {
    pub(crate) fn new() -> Self {
        Self {
            arena: Arena::default(),
            buckets: vec![NONE; BUCKETS],
            count: 0,
            steps: Steps::default(),
        }
    }

    /// Bytes that a string of this length takes.
    pub(crate) fn bytes_of(length: usize) -> usize {
        // The two counts of an `Arc`, and the bucket.
        Arena::<Text>::BYTES + length + 16 + size_of::<u32>()
    }

    pub(crate) fn bytes(&self, string: StrRef) -> &Arc<[u8]> {
        &self.arena.get(string.0).bytes
    }

    fn find(&mut self, bytes: &[u8], hash: u32, alive: Mark) -> Option<StrRef> {
        let mut at = self.buckets[hash as usize & (self.buckets.len() - 1)];
        while at != NONE {
            self.steps.add(1);
            let text = self.arena.get(at);
            if text.hash == hash && *text.bytes == *bytes {
                // One that is dead and was not swept yet lives again.
                if matches!(self.arena.mark(at), Mark::White(_)) {
                    self.arena.set_mark(at, alive);
                }
                return Some(StrRef(at));
            }
            at = self.arena.get(at).next;
        }
        None
    }

    /// The reference of these bytes, if they are here.
    pub(crate) fn look_up(&mut self, bytes: &[u8], alive: Mark) -> Result<StrRef, u32> {
        let hash = hash(bytes);
        self.find(bytes, hash, alive).ok_or(hash)
    }

    /// Adds a string that is not here yet.
    pub(crate) fn add(&mut self, bytes: Arc<[u8]>, hash: u32, mark: Mark) -> StrRef {
        if self.count >= self.buckets.len() {
            self.grow();
        }
        let bucket = hash as usize & (self.buckets.len() - 1);
        let next = self.buckets[bucket];
        let id = self.arena.add(Text { bytes, hash, next }, mark);
        self.buckets[bucket] = id;
        self.count += 1;
        StrRef(id)
    }

    fn grow(&mut self) {
        let length = self.buckets.len() * 2;
        let old = std::mem::replace(&mut self.buckets, vec![NONE; length]);
        for head in old {
            let mut at = head;
            while at != NONE {
                let text = self.arena.get_mut(at);
                let next = text.next;
                let bucket = text.hash as usize & (length - 1);
                text.next = self.buckets[bucket];
                self.buckets[bucket] = at;
                at = next;
            }
            self.steps.add(1);
        }
    }

    pub(crate) fn mark(&mut self, string: StrRef) {
        if matches!(self.arena.mark(string.0), Mark::White(_)) {
            self.arena.set_mark(string.0, Mark::Black);
        }
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Drops the dead of a bucket, whitens the others, and returns the bytes that became free.
    pub(crate) fn sweep(&mut self, bucket: usize, dead: Mark, alive: Mark) -> usize {
        let mut freed = 0;
        let mut at = self.buckets[bucket];
        let mut before = NONE;
        while at != NONE {
            let next = self.arena.get(at).next;
            if self.arena.mark(at) == dead {
                match before {
                    NONE => self.buckets[bucket] = next,
                    id => self.arena.get_mut(id).next = next,
                }
                let text = self.arena.remove(at);
                freed += Self::bytes_of(text.bytes.len());
                self.count -= 1;
            } else {
                if self.arena.mark(at) == Mark::Black {
                    self.arena.set_mark(at, alive);
                }
                before = at;
            }
            at = next;
        }
        freed
    }

    /// What is here now stays.
    pub(crate) fn fix(&mut self) {
        self.arena.fix();
    }

    /// Drops all but what stays.
    pub(crate) fn reset(&mut self) {
        let fixed = self.arena.fixed() as u32;
        let many = self.arena.len() - self.arena.fixed() > BUCKETS;
        if many {
            // Each bucket once, and no more buckets than a new heap has.
            self.buckets = vec![NONE; BUCKETS.max(self.arena.fixed().next_power_of_two())];
            for id in 0..fixed {
                let bucket = self.arena.get(id).hash as usize & (self.buckets.len() - 1);
                self.arena.get_mut(id).next = self.buckets[bucket];
                self.buckets[bucket] = id;
            }
        } else {
            for id in fixed..self.arena.len() as u32 {
                if self.arena.mark(id) == Mark::Free {
                    continue;
                }
                let bucket = self.arena.get(id).hash as usize & (self.buckets.len() - 1);
                while self.buckets[bucket] != NONE && self.buckets[bucket] >= fixed {
                    self.buckets[bucket] = self.arena.get(self.buckets[bucket]).next;
                }
                self.unlink_behind(bucket, fixed);
            }
        }
        self.arena.reset();
        self.count = self.arena.len();
        self.steps.reset();
    }

    /// Takes strings that do not stay out of a bucket whose first one stays.
    fn unlink_behind(&mut self, bucket: usize, fixed: u32) {
        let mut before = self.buckets[bucket];
        while before != NONE {
            let mut next = self.arena.get(before).next;
            while next != NONE && next >= fixed {
                next = self.arena.get(next).next;
            }
            self.arena.get_mut(before).next = next;
            before = next;
        }
    }
}
