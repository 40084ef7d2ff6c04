//! One key and its value in one heap block.
//!
//! ```text
//!  8 bytes  stamp     version (48 bits) | encoding (4) | SETTLED | HELD | GROWN | LONG | DEADLINE
//!  4 bytes  access    leader-local: when and how often it was used (`access.rs`); not part of the state hash
//!  4 bytes  lengths   key (8 bits) | value (24 bits), unless LONG
//! [8 bytes] deadline  Unix milliseconds, if DEADLINE
//! [8 bytes] lengths   key (32 bits) | value (32 bits), if LONG
//!  n bytes  key
//!  m bytes  value     the bytes of a string, eight bytes of an integer, a small collection (`listpack.rs`,
//!                     `integers.rs`), or the eight bytes of a pointer to a large one (`large.rs`) or to a string that
//!                     stays where it came from; of a coded string a fragment (`coded.rs`)
//! ```
//!
//! A key of 16 bytes with a value of 32 is one block of 64 bytes. One allocation per key, and the directory
//! pays eight bytes a slot: this is where Chorale's memory per key comes from, and why this file and
//! `slot_word.rs` hold `unsafe` code. Everything outside sees slices.
//!
//! Invariants:
//! 1. `self.0` was allocated with [`Layout`] `(self.size(), ALIGN)` by the global allocator and is owned.
//! 2. `size()` is a function of the header, so every change of a length or flag that moves a boundary goes
//!    through [`Object::reshape`].
//! 3. Key and value bytes are initialised from the moment the constructor returns.
//! 4. The value bytes of an object whose encoding says that it is large are the address of a [`Large`] that came
//!    from [`Box::into_raw`] and is owned by this object alone. The same holds of one whose encoding says that its string
//!    is kept elsewhere, and a [`Bytes`].

use crate::access::AccessStats;
use crate::coded::{Coded, SettlingRule};
use crate::large::Large;
use crate::listpack::{self, Buffer, Listpack};
use bytes::Bytes;
use ids::{UnixMillis, Version};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ptr::NonNull;

const ALIGN: usize = 8;
const VERSION_BITS: u32 = 48;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
/// No state has applied more commands.
pub(crate) const VERSION_MAX: u64 = VERSION_MASK;
const ENCODING_SHIFT: u32 = VERSION_BITS;
const ENCODING_MASK: u64 = 0xf << ENCODING_SHIFT;
const INTEGER: u64 = Encoding::Integer as u64;
/// The string is settled whatever its version: since then only its name or deadline has changed (`coded.rs`).
const SETTLED: u64 = 1 << 59;
/// The string is not settled whatever its version: it was refilled, or its key is locked (`coded.rs`).
const HELD: u64 = 1 << 60;
const GROWN: u64 = 1 << 61;
/// What is told of a value, and over with it.
const OF_VALUE: u64 = GROWN | SETTLED | HELD;
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

/// The data type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `string`
    String,
    /// `list`
    List,
    /// `set`
    Set,
    /// `hash`
    Hash,
    /// `zset`
    SortedSet,
    /// `stream`
    Stream,
}

impl Kind {
    /// What `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
        }
    }
}

/// How a value is kept, at its place in the stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Encoding {
    Text = 0,
    Integer = 1 << ENCODING_SHIFT,
    ListpackList = 2 << ENCODING_SHIFT,
    ListpackSet = 3 << ENCODING_SHIFT,
    ListpackHash = 4 << ENCODING_SHIFT,
    ListpackSortedSet = 5 << ENCODING_SHIFT,
    IntegerSet = 6 << ENCODING_SHIFT,
    Kept = 7 << ENCODING_SHIFT,
    LargeList = 8 << ENCODING_SHIFT,
    LargeSet = 9 << ENCODING_SHIFT,
    LargeHash = 10 << ENCODING_SHIFT,
    LargeSortedSet = 11 << ENCODING_SHIFT,
    LargeStream = 12 << ENCODING_SHIFT,
    Coded = 13 << ENCODING_SHIFT,
}

impl Encoding {
    const ALL: [Encoding; 14] = [
        Encoding::Text,
        Encoding::Integer,
        Encoding::ListpackList,
        Encoding::ListpackSet,
        Encoding::ListpackHash,
        Encoding::ListpackSortedSet,
        Encoding::IntegerSet,
        Encoding::Kept,
        Encoding::LargeList,
        Encoding::LargeSet,
        Encoding::LargeHash,
        Encoding::LargeSortedSet,
        Encoding::LargeStream,
        Encoding::Coded,
    ];

    fn listpack(kind: Kind) -> Encoding {
        match kind {
            Kind::String => Encoding::Text,
            Kind::List => Encoding::ListpackList,
            Kind::Set => Encoding::ListpackSet,
            Kind::Hash => Encoding::ListpackHash,
            Kind::SortedSet => Encoding::ListpackSortedSet,
            Kind::Stream => unreachable!("streams are large values"),
        }
    }

    fn large(large: &Large) -> Encoding {
        match large {
            Large::List(_) => Encoding::LargeList,
            Large::Set(_) => Encoding::LargeSet,
            Large::Hash(_) => Encoding::LargeHash,
            Large::SortedSet(_) => Encoding::LargeSortedSet,
            Large::Stream(_) => Encoding::LargeStream,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Encoding::Text | Encoding::Integer | Encoding::Kept | Encoding::Coded => Kind::String,
            Encoding::ListpackList | Encoding::LargeList => Kind::List,
            Encoding::ListpackSet | Encoding::IntegerSet | Encoding::LargeSet => Kind::Set,
            Encoding::ListpackHash | Encoding::LargeHash => Kind::Hash,
            Encoding::ListpackSortedSet | Encoding::LargeSortedSet => Kind::SortedSet,
            Encoding::LargeStream => Kind::Stream,
        }
    }
}

/// What an object holds.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string kept as its bytes.
    Bytes(&'a [u8]),
    /// A string that is the canonical decimal form of this integer.
    Integer(i64),
    /// A small collection: elements of a list, members of a set, fields each followed by its value, or members each
    /// followed by its score.
    Listpack(Kind, Listpack<'a>),
    /// A small set of integers: see `integers.rs`.
    Integers(&'a [u8]),
    /// A collection beyond the limits of the small ones.
    Large(&'a Large),
    /// A string of which this replica has a fragment.
    Coded(Coded<'a>),
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

    /// A string that stays where it came from. No integer is as long as what this is for.
    pub(crate) fn kept(key: &[u8], bytes: Bytes, deadline: Option<UnixMillis>, version: Version) -> Object {
        let mut object = Object::allocate(key, size_of::<usize>(), deadline, version);
        object.own_kept(bytes);
        object
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
        if let Value::Large(large) = self.value() {
            let object = Object::large(key, large.clone(), deadline, version);
            object.set_access(self.access());
            return object;
        }
        if let Some(kept) = self.kept_string() {
            let mut object = Object::kept(key, kept.clone(), deadline, version);
            object.set_grown(self.is_grown());
            object.set_access(self.access());
            return object;
        }
        let mut object = Object::allocate(key, self.shape().value, deadline, version);
        object.header_mut().stamp |= self.header().stamp & (ENCODING_MASK | GROWN);
        object.value_area_mut().copy_from_slice(self.value_area());
        object.set_access(self.access());
        object
    }

    /// The same value, deadline and access under another key and version; nothing is copied that is large.
    pub fn rename(mut self, key: &[u8], version: Version) -> Object {
        let deadline = self.deadline();
        let Some(large) = self.take_large() else {
            return self.copy_as(key, deadline, version);
        };
        let object = Object::large(key, large, deadline, version);
        object.set_access(self.access());
        object
    }

    /// An empty collection, small for now.
    pub(crate) fn collection(kind: Kind, key: &[u8], version: Version) -> Object {
        Object::with_listpack(kind, key, &listpack::EMPTY, None, version)
    }

    /// A small collection of these elements.
    pub(crate) fn with_listpack(
        kind: Kind,
        key: &[u8],
        bytes: &[u8],
        deadline: Option<UnixMillis>,
        version: Version,
    ) -> Object {
        let mut object = Object::allocate(key, bytes.len(), deadline, version);
        object.set_encoding(Encoding::listpack(kind));
        object.value_area_mut().copy_from_slice(bytes);
        object
    }

    /// A large collection.
    pub(crate) fn large(
        key: &[u8],
        large: impl Into<Box<Large>>,
        deadline: Option<UnixMillis>,
        version: Version,
    ) -> Object {
        let mut object = Object::allocate(key, size_of::<usize>(), deadline, version);
        object.own(large.into());
        object
    }

    /// Writes the pointer into value bytes of the right length that own nothing yet.
    fn own(&mut self, large: Box<Large>) {
        self.set_encoding(Encoding::large(&large));
        let address = Box::into_raw(large).expose_provenance();
        self.value_area_mut().copy_from_slice(&address.to_ne_bytes());
    }

    /// The same for a string that is kept elsewhere.
    fn own_kept(&mut self, bytes: Bytes) {
        self.set_encoding(Encoding::Kept);
        let address = Box::into_raw(Box::new(bytes)).expose_provenance();
        self.value_area_mut().copy_from_slice(&address.to_ne_bytes());
    }

    fn encoding(&self) -> Encoding {
        let bits = self.header().stamp & ENCODING_MASK;
        Encoding::ALL[(bits >> ENCODING_SHIFT) as usize]
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        let header = self.header_mut();
        header.stamp = (header.stamp & !(ENCODING_MASK | OF_VALUE)) | encoding as u64;
    }

    /// The data type.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.encoding().kind()
    }

    fn large_address(&self) -> Option<*mut Large> {
        // The large encodings are those of eight and above, but the last.
        if self.header().stamp & (8 << ENCODING_SHIFT) == 0 || self.is_coded() {
            return None;
        }
        Some(self.address())
    }

    fn kept_address(&self) -> Option<*mut Bytes> {
        (self.header().stamp & ENCODING_MASK == Encoding::Kept as u64).then(|| self.address())
    }

    fn address<T>(&self) -> *mut T {
        let bytes = self.value_area().try_into().expect("a pointer has eight bytes");
        std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(bytes))
    }

    /// The string, if it stays where it came from: whoever wants it for a while can share it.
    #[inline]
    pub(crate) fn kept_string(&self) -> Option<&Bytes> {
        // SAFETY: invariant 4; it is borrowed as long as the object is.
        self.kept_address().map(|kept| unsafe { &*kept })
    }

    /// Whether this is a string of which there is a fragment alone.
    #[inline]
    pub fn is_coded(&self) -> bool {
        self.header().stamp & ENCODING_MASK == Encoding::Coded as u64
    }

    /// The fragment of a coded string.
    pub(crate) fn coded(&self) -> Option<Coded<'_>> {
        self.is_coded().then(|| Coded::new(self.value_area()))
    }

    /// A coded string of this fragment, which [`Coded::check`] has found to be one.
    pub(crate) fn of_fragment(
        key: &[u8],
        fragment: &[u8],
        is_grown: bool,
        deadline: Option<UnixMillis>,
    ) -> Object {
        let mut object = Object::allocate(key, 0, deadline, Version(0));
        object.header_mut().stamp |= u64::from(is_grown) * GROWN;
        object.set_fragment(fragment);
        object
    }

    /// Replaces the string by a fragment of it, or a fragment by another one. It is the same value.
    pub(crate) fn set_fragment(&mut self, fragment: &[u8]) {
        let told = self.header().stamp & OF_VALUE;
        self.set_area(Encoding::Coded, fragment);
        self.header_mut().stamp |= told;
    }

    /// Replaces a fragment by its string, which stays where it came from if that is given. It is the same value.
    pub(crate) fn set_whole(&mut self, whole: &[u8], kept: Option<Bytes>) {
        let told = self.header().stamp & OF_VALUE;
        match kept {
            Some(kept) => self.set_kept(kept),
            None => self.set_text(whole),
        }
        self.header_mut().stamp |= told;
    }

    /// The string as it was set or changed, whole and no integer: of which there can be a fragment.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        match self.value() {
            Value::Bytes(whole) => Some(whole),
            _ => None,
        }
    }

    /// Whether the string is settled by this rule. A coded one is.
    pub(crate) fn is_settled(&self, rule: SettlingRule) -> bool {
        let stamp = self.header().stamp;
        match self.encoding() {
            Encoding::Coded => true,
            Encoding::Text | Encoding::Kept => {
                stamp & HELD == 0
                    && (stamp & SETTLED != 0 || self.version() <= rule.up_to)
                    && self.whole().is_some_and(|whole| whole.len() >= rule.threshold)
            }
            _ => false,
        }
    }

    /// Whether it was said to be settled, whatever its version.
    pub(crate) fn is_settled_for_good(&self) -> bool {
        self.header().stamp & SETTLED != 0
    }

    /// It is settled, whatever version it gets by changes of name and deadline.
    pub(crate) fn settle_for_good(&mut self) {
        self.header_mut().stamp |= SETTLED;
    }

    /// Whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        self.header().stamp & HELD != 0
    }

    /// It is not settled as long as it is held. Nor is it for good: if it is let go, its version counts.
    pub(crate) fn hold(&mut self, is_held: bool) {
        let header = self.header_mut();
        header.stamp = (header.stamp & !(HELD | SETTLED)) | (u64::from(is_held) * HELD);
    }

    /// Takes out the string that is kept elsewhere, if it is one: an empty one is left.
    fn take_kept(&mut self) -> Option<Box<Bytes>> {
        let kept = self.kept_address()?;
        self.set_encoding(Encoding::Text);
        // SAFETY: invariant 4; the object no longer says that its string is kept elsewhere, so it owns it no more.
        let kept = unsafe { Box::from_raw(kept) };
        self.set_value_length(0);
        Some(kept)
    }

    /// Drops what the value bytes point to, if they are a pointer.
    fn disown(&mut self) {
        drop(self.take_large());
        drop(self.take_kept());
    }

    /// The large collection, to change.
    #[inline]
    pub(crate) fn large_mut(&mut self) -> Option<&mut Large> {
        // SAFETY: invariant 4, and `&mut self` makes the access exclusive.
        self.large_address().map(|large| unsafe { &mut *large })
    }

    /// Takes the large collection out, if there is one: an empty string is left.
    pub(crate) fn take_large(&mut self) -> Option<Box<Large>> {
        let large = self.large_address()?;
        self.set_encoding(Encoding::Text);
        // SAFETY: invariant 4; the object no longer says that it is large, so it owns the collection no more.
        let large = unsafe { Box::from_raw(large) };
        self.set_value_length(0);
        Some(large)
    }

    /// Replaces the value by a small collection of these elements.
    pub(crate) fn set_listpack(&mut self, kind: Kind, bytes: &[u8]) {
        self.set_area(Encoding::listpack(kind), bytes);
    }

    /// Replaces the value by a small set of integers.
    pub(crate) fn set_integers(&mut self, bytes: &[u8]) {
        self.set_area(Encoding::IntegerSet, bytes);
    }

    /// Replaces the value by a large collection.
    pub(crate) fn set_large(&mut self, large: Large) {
        self.disown();
        self.set_value_length(size_of::<usize>());
        self.own(Box::new(large));
    }

    /// Replaces the value by a string that stays where it came from.
    pub(crate) fn set_kept(&mut self, bytes: Bytes) {
        self.disown();
        self.set_value_length(size_of::<usize>());
        self.own_kept(bytes);
    }

    fn set_area(&mut self, encoding: Encoding, bytes: &[u8]) {
        self.disown();
        self.set_value_length(bytes.len());
        self.set_encoding(encoding);
        self.value_area_mut().copy_from_slice(bytes);
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
        match self.encoding() {
            Encoding::Text => Value::Bytes(area),
            Encoding::Integer => {
                let bytes = area.try_into().expect("an integer has eight bytes");
                Value::Integer(i64::from_ne_bytes(bytes))
            }
            Encoding::IntegerSet => Value::Integers(area),
            Encoding::Kept => Value::Bytes(self.kept_string().expect("its encoding says so")),
            Encoding::Coded => Value::Coded(Coded::new(area)),
            encoding => match self.large_address() {
                // SAFETY: invariant 4; the collection is borrowed as long as the object is.
                Some(large) => Value::Large(unsafe { &*large }),
                None => Value::Listpack(encoding.kind(), Listpack::new(area)),
            },
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
        self.set_area(Encoding::Text, value);
    }

    /// Replaces the value by an integer.
    pub fn set_integer(&mut self, number: i64) {
        self.set_area(Encoding::Integer, &number.to_ne_bytes());
    }

    /// The value as bytes to change in place, grown with zeros (never shrunk) to `length_min`. An integer
    /// becomes its decimal form first.
    ///
    /// # Panics
    /// If the value is a collection, or coded.
    pub fn bytes_mut(&mut self, length_min: usize) -> &mut [u8] {
        let is_whole = self.kind() == Kind::String && !self.is_coded();
        assert!(is_whole, "{:?} is not a string that is whole", self.value());
        if let Some(kept) = self.take_kept() {
            self.set_text(&kept);
        }
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
        let header = self.header_mut();
        // It may be changed to what it was, under the same version: what was held is held still.
        header.stamp = (header.stamp & !SETTLED) | GROWN;
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

    /// Of a string that is kept elsewhere: whether it was changed in place before that.
    pub(crate) fn set_grown(&mut self, is_grown: bool) {
        if is_grown {
            self.header_mut().stamp |= GROWN;
        }
    }

    /// Leaves a string where it is, with the whole block, to be shared from now on. What tells the object from others stays.
    pub(crate) fn share_text(&mut self) {
        /// A block that is nothing but its value any more.
        struct Shared(Object);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                self.0.value_area()
            }
        }
        if self.header().stamp & ENCODING_MASK != Encoding::Text as u64 {
            return;
        }
        let (key, is_grown, access) = (self.key().to_vec(), self.is_grown(), self.access());
        let object = Object::kept(&key, Bytes::new(), self.deadline(), self.version());
        object.set_access(access);
        let block = std::mem::replace(self, object);
        self.set_kept(Bytes::from_owner(Shared(block)));
        self.set_grown(is_grown);
    }

    /// Cuts a string that has a block of its own to so many bytes: nobody needs it any more.
    pub(crate) fn cut_text(&mut self, length: usize) {
        self.set_value_length(length);
    }

    /// Leader-local access statistics.
    #[inline]
    pub fn access(&self) -> AccessStats {
        AccessStats(self.header().access.get())
    }

    /// Sets the access statistics. By shared reference: they are no part of the state.
    #[inline]
    pub fn set_access(&self, access: AccessStats) {
        self.header().access.set(access.0);
    }

    /// Bytes of memory, as the allocator rounds them.
    #[inline]
    pub fn memory(&self) -> usize {
        let mut block = allocation_size(self.shape().size());
        if let Some(kept) = self.kept_string() {
            block += allocation_size(size_of::<Bytes>()) + allocation_size(kept.len());
        }
        match self.large_address() {
            None => block,
            // SAFETY: invariant 4.
            Some(large) => block + unsafe { &*large }.memory(),
        }
    }

    /// Where the block is. It moves when the key's or the value's length, or the presence of a deadline, changes.
    pub(crate) fn block(&self) -> NonNull<u8> {
        self.0.cast()
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

/// The bytes of a small collection.
impl Buffer for Object {
    fn bytes(&self) -> &[u8] {
        debug_assert!(!matches!(self.value(), Value::Large(_)));
        self.value_area()
    }

    fn splice(&mut self, range: std::ops::Range<usize>, length: usize) -> &mut [u8] {
        debug_assert!(!matches!(self.value(), Value::Large(_)));
        let before = self.shape().value;
        let after = before - range.len() + length;
        if after == before {
            // What stands behind stays where it is.
            return self.value_area_mut();
        }
        if after > before {
            self.set_value_length(after);
        }
        self.value_area_mut()
            .copy_within(range.end..before, range.start + length);
        if after < before {
            self.set_value_length(after);
        }
        self.value_area_mut()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.disown();
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
pub(crate) fn canonical_integer(text: &[u8]) -> Option<i64> {
    let first = *text.first()?;
    if text.len() > 20 || !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    command::number::parse_i64(text)
}

/// What the allocator makes of a request: multiples of 16 to 128, then four classes per doubling (jemalloc's
/// size classes, "Size classes" in its manual), and whole pages above 14 KiB.
#[inline]
pub fn allocation_size(size: usize) -> usize {
    /// The largest request that is not given pages of its own.
    const SMALL_MAX: usize = 14 * 1024;
    const PAGE: usize = 4096;
    if size <= 128 {
        return (size + 15) & !15;
    }
    if size > SMALL_MAX {
        return size.div_ceil(PAGE) * PAGE;
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
        assert_eq!(format!("{:?}", object.value()), format!("{value:?}"));
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
        assert!(matches!(object.value(), Value::Integer(-12)));
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
            (14_336, 14_336),
            (14_337, 16_384),
            (100_000, 102_400),
            (536_870_920, 536_875_008),
        ] {
            assert_eq!(allocation_size(size), class, "{size}");
        }
    }
}
