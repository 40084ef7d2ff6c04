//! One key and its value in one heap block.
//!
//! ```text
//!  8 bytes  stamp     version (48 bits) | encoding (4) | GROWN | LONG | DEADLINE
//!  4 bytes  access    leader-local: when and how often it was used (`access.rs`); not part of the state hash
//!  4 bytes  lengths   key (8 bits) | value (24 bits), unless LONG
//! [8 bytes] deadline  Unix milliseconds, if DEADLINE
//! [8 bytes] lengths   key (32 bits) | value (32 bits), if LONG
//!  n bytes  key
//!  m bytes  value     the bytes of a string, or eight bytes of an integer
//! ```
//!
//! A key of 16 bytes with a value of 32 is one block of 64 bytes. One allocation per key, and the directory
//! pays eight bytes a slot: this is where Chorale's memory per key comes from, and why this file, with
//! `slot_word.rs`, holds the only `unsafe` of the crate. Everything outside sees slices.
//!
//! Invariants:
//! 1. `self.0` was allocated with [`Layout`] `(self.size(), ALIGN)` by the global allocator and is owned.
//! 2. `size()` is a function of the header, so every change of a length or flag that moves a boundary goes
//!    through [`Object::reshape`].
//! 3. Key and value bytes are initialised from the moment the constructor returns.

use crate::access::Access;
use ids::{UnixMillis, Version};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ptr::NonNull;

const ALIGN: usize = 8;
const VERSION_BITS: u32 = 48;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
const ENCODING_SHIFT: u32 = VERSION_BITS;
const ENCODING_MASK: u64 = 0xf << ENCODING_SHIFT;
const INTEGER: u64 = 1 << ENCODING_SHIFT;
const GROWN: u64 = 1 << 61;
const LONG: u64 = 1 << 62;
const DEADLINE: u64 = 1 << 63;
const SHORT_KEY_MAX: usize = 0xff;
const SHORT_VALUE_MAX: usize = 0xff_ffff;

#[repr(C)]
struct Header {
    stamp: u64,
    access: Cell<u32>,
    lengths: u32,
}

const HEADER: usize = size_of::<Header>();

/// A key, its value, its version and its deadline. See the file's header for the layout.
pub struct Object(NonNull<Header>);

// SAFETY: an `Object` owns its block outright; nothing in it refers to a thread. (The `Cell` makes it !Sync,
// which is right: only the worker that owns the group looks at it.)
unsafe impl Send for Object {}

/// What an object holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A string kept as its bytes.
    Bytes(&'a [u8]),
    /// A string that is the canonical decimal form of this integer.
    Integer(i64),
}

/// The parts of a block whose change moves boundaries inside it.
#[derive(Clone, Copy)]
struct Shape {
    key: usize,
    value: usize,
    has_deadline: bool,
}

impl Shape {
    fn is_long(self) -> bool {
        self.key > SHORT_KEY_MAX || self.value > SHORT_VALUE_MAX
    }

    fn key_offset(self) -> usize {
        HEADER + if self.has_deadline { 8 } else { 0 } + if self.is_long() { 8 } else { 0 }
    }

    fn size(self) -> usize {
        self.key_offset() + self.key + self.value
    }

    fn layout(self) -> Layout {
        // Keys and values are at most 4 GiB each (the parser's limit), so the sum cannot overflow.
        Layout::from_size_align(self.size(), ALIGN).expect("two lengths of 32 bits fit a layout")
    }
}

impl Object {
    /// A string. It is kept as an integer if it is the canonical form of one.
    pub fn string(key: &[u8], value: &[u8], deadline: Option<UnixMillis>, version: Version) -> Object {
        match canonical_integer(value) {
            Some(number) => Object::integer(key, number, deadline, version),
            None => {
                let mut object = Object::allocate(key, value.len(), deadline, version);
                object.value_area_mut().copy_from_slice(value);
                object
            }
        }
    }

    /// A string that is the decimal form of `number`.
    pub fn integer(key: &[u8], number: i64, deadline: Option<UnixMillis>, version: Version) -> Object {
        let mut object = Object::allocate(key, 8, deadline, version);
        object.header_mut().stamp |= INTEGER;
        object.value_area_mut().copy_from_slice(&number.to_ne_bytes());
        object
    }

    /// The same value, deadline and access under another key and version.
    pub fn copy_as(&self, key: &[u8], deadline: Option<UnixMillis>, version: Version) -> Object {
        let mut object = Object::allocate(key, self.shape().value, deadline, version);
        object.header_mut().stamp |= self.header().stamp & (ENCODING_MASK | GROWN);
        object.value_area_mut().copy_from_slice(self.value_area());
        object.set_access(self.access());
        object
    }

    fn allocate(key: &[u8], value_length: usize, deadline: Option<UnixMillis>, version: Version) -> Object {
        let shape = Shape {
            key: key.len(),
            value: value_length,
            has_deadline: deadline.is_some(),
        };
        let layout = shape.layout();
        // SAFETY: the layout is at least HEADER bytes long.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block.cast::<Header>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the block is ours, aligned, and long enough for the header and, after it, the value area,
        // which is zeroed here so that invariant 3 holds whatever the caller does next.
        unsafe {
            block.write(Header {
                stamp: version.0 & VERSION_MASK,
                access: Cell::new(0),
                lengths: 0,
            });
            let value_start = block.cast::<u8>().as_ptr().add(shape.key_offset() + shape.key);
            value_start.write_bytes(0, value_length);
        }
        let mut object = Object(block);
        object.write_shape(shape);
        if let Some(deadline) = deadline {
            object.write_deadline(deadline);
        }
        // SAFETY: `key_offset + key.len()` lies inside the block; source and target do not overlap.
        unsafe {
            let target = object.0.cast::<u8>().as_ptr().add(shape.key_offset());
            target.copy_from_nonoverlapping(key.as_ptr(), key.len());
        }
        object
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: invariant 1.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: invariant 1, and `&mut self` makes the access exclusive.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    fn shape(&self) -> Shape {
        let header = self.header();
        let has_deadline = header.stamp & DEADLINE != 0;
        if header.stamp & LONG == 0 {
            return Shape {
                key: (header.lengths & 0xff) as usize,
                value: (header.lengths >> 8) as usize,
                has_deadline,
            };
        }
        let offset = HEADER + if has_deadline { 8 } else { 0 };
        // SAFETY: a LONG block has eight bytes of lengths at this offset (`write_shape`).
        let lengths = unsafe { self.0.cast::<u8>().as_ptr().add(offset).cast::<u64>().read() };
        Shape {
            key: (lengths & 0xffff_ffff) as usize,
            value: (lengths >> 32) as usize,
            has_deadline,
        }
    }

    /// Writes flags and lengths of a block that already has the size of `shape`.
    fn write_shape(&mut self, shape: Shape) {
        let header = self.header_mut();
        header.stamp &= !(LONG | DEADLINE);
        if shape.has_deadline {
            header.stamp |= DEADLINE;
        }
        if shape.is_long() {
            header.stamp |= LONG;
            header.lengths = 0;
            let lengths = shape.key as u64 | (shape.value as u64) << 32;
            let offset = HEADER + if shape.has_deadline { 8 } else { 0 };
            // SAFETY: `Shape::key_offset` reserves these eight bytes; the offset is a multiple of eight.
            unsafe {
                self.0
                    .cast::<u8>()
                    .as_ptr()
                    .add(offset)
                    .cast::<u64>()
                    .write(lengths)
            };
        } else {
            header.lengths = shape.key as u32 | (shape.value as u32) << 8;
        }
    }

    #[inline]
    fn write_deadline(&mut self, deadline: UnixMillis) {
        debug_assert!(self.header().stamp & DEADLINE != 0);
        // SAFETY: a DEADLINE block has eight bytes right behind the header, aligned to eight.
        unsafe {
            self.0
                .cast::<u8>()
                .as_ptr()
                .add(HEADER)
                .cast::<i64>()
                .write(deadline.0)
        };
    }

    /// Gives the block another shape with the same key: moves key and value to their new places, keeping as
    /// much of the value as fits and zeroing what is new.
    fn reshape(&mut self, after: Shape) {
        let before = self.shape();
        debug_assert_eq!(before.key, after.key);
        let (layout_before, size_after) = (before.layout(), after.size());
        let kept = before.value.min(after.value);
        let moves = before.key_offset() != after.key_offset();
        // SAFETY: the block is resized with the layout it was allocated with. When it shrinks, what is to be
        // kept is first moved to its new place while the old block still holds it; when it grows, after. All
        // offsets plus lengths lie inside the larger of the two sizes at the moment of the copy, and new
        // value bytes are zeroed before anyone can see them.
        unsafe {
            let shrinks = size_after < before.size();
            let slide = |base: *mut u8| {
                if moves {
                    let source = base.add(before.key_offset());
                    source.copy_to(base.add(after.key_offset()), before.key + kept);
                }
            };
            if shrinks {
                slide(self.0.cast::<u8>().as_ptr());
            }
            if size_after != before.size() {
                let block = realloc(self.0.cast::<u8>().as_ptr(), layout_before, size_after);
                let Some(block) = NonNull::new(block.cast::<Header>()) else {
                    handle_alloc_error(after.layout())
                };
                self.0 = block;
            }
            let base = self.0.cast::<u8>().as_ptr();
            if !shrinks {
                slide(base);
            }
            base.add(after.key_offset() + after.key + kept)
                .write_bytes(0, after.value - kept);
        }
        self.write_shape(after);
    }

    #[inline]
    fn value_area(&self) -> &[u8] {
        let shape = self.shape();
        // SAFETY: invariants 1 and 3.
        unsafe {
            let start = self.0.cast::<u8>().as_ptr().add(shape.key_offset() + shape.key);
            std::slice::from_raw_parts(start, shape.value)
        }
    }

    #[inline]
    fn value_area_mut(&mut self) -> &mut [u8] {
        let shape = self.shape();
        // SAFETY: invariants 1 and 3, and `&mut self` makes the access exclusive.
        unsafe {
            let start = self.0.cast::<u8>().as_ptr().add(shape.key_offset() + shape.key);
            std::slice::from_raw_parts_mut(start, shape.value)
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let shape = self.shape();
        // SAFETY: invariants 1 and 3.
        unsafe {
            let start = self.0.cast::<u8>().as_ptr().add(shape.key_offset());
            std::slice::from_raw_parts(start, shape.key)
        }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        let area = self.value_area();
        if self.header().stamp & ENCODING_MASK == INTEGER {
            let bytes = area.try_into().expect("an integer has eight bytes");
            Value::Integer(i64::from_ne_bytes(bytes))
        } else {
            Value::Bytes(area)
        }
    }

    /// The version: the group's count of applied commands when the object last changed.
    #[inline]
    pub fn version(&self) -> Version {
        Version(self.header().stamp & VERSION_MASK)
    }

    /// Marks a change.
    #[inline]
    pub fn set_version(&mut self, version: Version) {
        let header = self.header_mut();
        header.stamp = (header.stamp & !VERSION_MASK) | (version.0 & VERSION_MASK);
    }

    /// When the key expires, if ever.
    #[inline]
    pub fn deadline(&self) -> Option<UnixMillis> {
        if self.header().stamp & DEADLINE == 0 {
            return None;
        }
        // SAFETY: see `write_deadline`.
        Some(UnixMillis(unsafe {
            self.0.cast::<u8>().as_ptr().add(HEADER).cast::<i64>().read()
        }))
    }

    /// Whether the key is gone at `time`.
    #[inline]
    pub fn is_expired(&self, time: UnixMillis) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= time)
    }

    /// Sets or clears the deadline.
    pub fn set_deadline(&mut self, deadline: Option<UnixMillis>) {
        let shape = self.shape();
        if shape.has_deadline != deadline.is_some() {
            self.reshape(Shape {
                has_deadline: deadline.is_some(),
                ..shape
            });
        }
        if let Some(deadline) = deadline {
            self.write_deadline(deadline);
        }
    }

    /// Replaces the value by a string, kept as an integer if it is the canonical form of one.
    pub fn set_string(&mut self, value: &[u8]) {
        if let Some(number) = canonical_integer(value) {
            return self.set_integer(number);
        }
        self.set_text(value);
    }

    /// Replaces the value by a string, kept as text even if an integer would do.
    pub fn set_text(&mut self, value: &[u8]) {
        self.set_value_length(value.len());
        self.header_mut().stamp &= !(ENCODING_MASK | GROWN);
        self.value_area_mut().copy_from_slice(value);
    }

    /// Replaces the value by an integer.
    pub fn set_integer(&mut self, number: i64) {
        self.set_value_length(8);
        let header = self.header_mut();
        header.stamp = (header.stamp & !(ENCODING_MASK | GROWN)) | INTEGER;
        self.value_area_mut().copy_from_slice(&number.to_ne_bytes());
    }

    /// The value as bytes to change in place, grown with zeros (never shrunk) to `length_min`. An integer
    /// becomes its decimal form first.
    pub fn bytes_mut(&mut self, length_min: usize) -> &mut [u8] {
        if let Value::Integer(number) = self.value() {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(number).as_bytes();
            self.set_value_length(digits.len());
            self.header_mut().stamp &= !ENCODING_MASK;
            self.value_area_mut().copy_from_slice(digits);
        }
        if self.shape().value < length_min {
            self.set_value_length(length_min);
        }
        self.header_mut().stamp |= GROWN;
        self.value_area_mut()
    }

    fn set_value_length(&mut self, value: usize) {
        let shape = self.shape();
        if shape.value != value {
            self.reshape(Shape { value, ..shape });
        }
    }

    /// Whether the string was changed in place since it was set: what `OBJECT ENCODING` calls `raw` however
    /// short it is.
    pub fn is_grown(&self) -> bool {
        self.header().stamp & GROWN != 0
    }

    /// Leader-local access statistics.
    #[inline]
    pub fn access(&self) -> Access {
        Access(self.header().access.get())
    }

    /// Sets the access statistics. By shared reference: they are no part of the state.
    #[inline]
    pub fn set_access(&self, access: Access) {
        self.header().access.set(access.0);
    }

    /// Bytes of memory, as the allocator rounds them.
    #[inline]
    pub fn memory(&self) -> usize {
        allocation_size(self.shape().size())
    }

    /// Gives up ownership; [`Object::from_raw`] takes it back.
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        let block = self.0.cast();
        std::mem::forget(self);
        block
    }

    /// # Safety
    /// `block` came from [`Object::into_raw`] and no other `Object` owns it now.
    pub(crate) unsafe fn from_raw(block: NonNull<u8>) -> Object {
        Object(block.cast())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let layout = self.shape().layout();
        // SAFETY: invariant 1.
        unsafe { dealloc(self.0.cast::<u8>().as_ptr(), layout) };
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("value", &self.value())
            .field("version", &self.version().0)
            .field("deadline", &self.deadline())
            .finish()
    }
}

/// The integer whose canonical decimal form is `text`: no plus sign, no leading zeros, no `-0`.
#[inline]
fn canonical_integer(text: &[u8]) -> Option<i64> {
    let first = *text.first()?;
    if text.len() > 20 || !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    command::number::parse_i64(text)
}

/// What the allocator makes of a request: multiples of 16 to 128, then four classes per doubling (jemalloc's
/// size classes, "Size classes" in its manual).
#[inline]
pub fn allocation_size(size: usize) -> usize {
    if size <= 128 {
        return (size + 15) & !15;
    }
    let class = (size - 1).ilog2() - 2;
    let step = 1usize << class;
    (size + step - 1) & !(step - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &Object, key: &[u8], value: Value<'_>, deadline: Option<i64>) {
        assert_eq!(object.key(), key);
        assert_eq!(object.value(), value);
        assert_eq!(object.deadline(), deadline.map(UnixMillis));
    }

    #[test]
    fn lengths_at_and_beyond_the_short_form_keep_key_value_and_deadline() {
        for key_length in [0, 1, 255, 256, 70_000] {
            for value_length in [0, 1, 7, 8, 9, SHORT_VALUE_MAX, SHORT_VALUE_MAX + 1] {
                for deadline in [None, Some(-5), Some(i64::MAX)] {
                    let (key, value) = (vec![b'k'; key_length], vec![b'v'; value_length]);
                    let object = Object::string(&key, &value, deadline.map(UnixMillis), Version(7));
                    check(&object, &key, Value::Bytes(&value), deadline);
                    assert_eq!(object.version(), Version(7));
                }
            }
        }
    }

    #[test]
    fn every_change_of_shape_keeps_what_it_does_not_change() {
        let key = vec![b'k'; 300];
        let mut object = Object::string(&key, b"hello", None, Version(1));
        let sizes = [5usize, 0, 3, SHORT_VALUE_MAX + 2, 9, 1, SHORT_VALUE_MAX, 40];
        let mut deadline = None;
        for (round, &size) in sizes.iter().cycle().take(40).enumerate() {
            let value = vec![b'a' + (round % 26) as u8; size];
            object.set_string(&value);
            check(&object, &key, Value::Bytes(&value), deadline);
            deadline = if round % 3 == 0 { None } else { Some(round as i64) };
            object.set_deadline(deadline.map(UnixMillis));
            check(&object, &key, Value::Bytes(&value), deadline);
            object.set_version(Version(round as u64));
            assert_eq!(object.version(), Version(round as u64));
        }
    }

    #[test]
    fn growth_in_place_fills_with_zeros() {
        let mut object = Object::string(b"k", b"abc", Some(UnixMillis(9)), Version(1));
        object.bytes_mut(6)[5] = b'z';
        check(&object, b"k", Value::Bytes(b"abc\0\0z"), Some(9));
        assert!(object.is_grown());
        object.set_string(b"q");
        assert!(!object.is_grown());
    }

    #[test]
    fn text_stays_text_even_if_an_integer_would_do() {
        let mut object = Object::string(b"k", b"7", Some(UnixMillis(9)), Version(1));
        object.set_text(b"12");
        check(&object, b"k", Value::Bytes(b"12"), Some(9));
        assert!(!object.is_grown());
        object.set_string(b"12");
        check(&object, b"k", Value::Integer(12), Some(9));
    }

    #[test]
    fn integers_are_kept_as_integers_and_become_digits_when_changed_in_place() {
        let mut object = Object::string(b"k", b"-12", None, Version(1));
        assert_eq!(object.value(), Value::Integer(-12));
        assert_eq!(object.bytes_mut(0), b"-12");
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "1 ",
            "9223372036854775808",
            "123456789012345678901",
        ] {
            assert_eq!(canonical_integer(text.as_bytes()), None, "{text}");
        }
        for number in [0, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(canonical_integer(number.to_string().as_bytes()), Some(number));
        }
    }

    #[test]
    fn a_copy_under_another_key_is_independent() {
        let mut object = Object::string(b"from", b"value", Some(UnixMillis(3)), Version(1));
        let copy = object.copy_as(b"a longer key", None, Version(2));
        object.set_string(b"other");
        check(&copy, b"a longer key", Value::Bytes(b"value"), None);
    }

    #[test]
    fn allocation_sizes_are_those_of_the_allocator() {
        for (size, class) in [
            (1, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (160, 160),
            (1025, 1280),
        ] {
            assert_eq!(allocation_size(size), class, "{size}");
        }
    }
}
