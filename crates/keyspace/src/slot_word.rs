//! One place of a segment: eight bytes that hold a pointer and sixteen bits of hash.
//!
//! ```text
//!  63          48 47                                             0
//!  [ fingerprint ] [ address of the object; 0 means that the place is empty ]
//! ```
//!
//! User-space addresses have 48 bits on the machines Chorale runs on (x86-64 with four-level paging, and
//! aarch64); `SlotWord::new` checks it in release builds too.

use crate::object::Object;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// The sixteen bits of a key's hash that follow its segment's prefix.
pub(crate) type Fingerprint = u16;

/// An optional, owned [`Object`] with its fingerprint.
///
/// Invariant: a non-zero address came from [`Object::into_raw`] and is owned by this word alone.
///
/// The marker makes the word what an `Object` is, `Send` and not `Sync`: a shared object's access statistics
/// may be set, so a shared `Keyspace` must not reach two threads.
pub(crate) struct SlotWord(u64, PhantomData<Object>);

impl SlotWord {
    /// An empty place.
    pub(crate) const EMPTY: SlotWord = SlotWord(0, PhantomData);

    pub(crate) fn new(fingerprint: Fingerprint, object: Object) -> SlotWord {
        let address = object.into_raw().expose_provenance().get() as u64;
        assert!(
            address & !ADDRESS_MASK == 0,
            "an address of more than 48 bits: {address:#x}"
        );
        SlotWord(u64::from(fingerprint) << ADDRESS_BITS | address, PhantomData)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// The word itself.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.0
    }

    /// Meaningful only if the word is not empty.
    #[inline]
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        (self.0 >> ADDRESS_BITS) as Fingerprint
    }

    /// Replaces the fingerprint: the segment's prefix changed.
    pub(crate) fn set_fingerprint(&mut self, fingerprint: Fingerprint) {
        self.0 = (self.0 & ADDRESS_MASK) | u64::from(fingerprint) << ADDRESS_BITS;
    }

    #[inline]
    fn block(&self) -> Option<NonNull<u8>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(
            (self.0 & ADDRESS_MASK) as usize,
        ))
    }

    /// The object, if there is one.
    #[inline]
    pub(crate) fn object(&self) -> Option<ObjectRef<'_>> {
        // SAFETY: the type's invariant; `ManuallyDrop` keeps the ownership with the word.
        self.block().map(|block| ObjectRef {
            object: ManuallyDrop::new(unsafe { Object::from_raw(block) }),
            word: PhantomData,
        })
    }

    /// The object, to change: the word follows if the block moves.
    #[inline]
    pub(crate) fn object_mut(&mut self) -> Option<ObjectMut<'_>> {
        // SAFETY: the type's invariant; `ObjectMut` gives the block back to the word when it is dropped, and
        // borrows the word until then.
        let object = self
            .block()
            .map(|block| ManuallyDrop::new(unsafe { Object::from_raw(block) }))?;
        Some(ObjectMut { word: self, object })
    }

    /// Takes the object out.
    pub(crate) fn take(&mut self) -> Option<Object> {
        let block = self.block()?;
        self.0 = 0;
        // SAFETY: the type's invariant; the word no longer owns the block.
        Some(unsafe { Object::from_raw(block) })
    }
}

impl Drop for SlotWord {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A borrowed object.
pub(crate) struct ObjectRef<'a> {
    object: ManuallyDrop<Object>,
    word: PhantomData<&'a SlotWord>,
}

impl Clone for ObjectRef<'_> {
    fn clone(&self) -> Self {
        // SAFETY: a second shared borrow for the same lifetime; neither drops the object.
        let object = unsafe { std::ptr::read(&self.object) };
        ObjectRef {
            object,
            word: PhantomData,
        }
    }
}

impl Deref for ObjectRef<'_> {
    type Target = Object;

    #[inline]
    fn deref(&self) -> &Object {
        &self.object
    }
}

/// An object borrowed to be changed.
pub(crate) struct ObjectMut<'a> {
    word: &'a mut SlotWord,
    object: ManuallyDrop<Object>,
}

impl Deref for ObjectMut<'_> {
    type Target = Object;

    #[inline]
    fn deref(&self) -> &Object {
        &self.object
    }
}

impl DerefMut for ObjectMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Object {
        &mut self.object
    }
}

impl Drop for ObjectMut<'_> {
    #[inline]
    fn drop(&mut self) {
        let fingerprint = self.word.fingerprint();
        // SAFETY: the object is taken once, here, and `self.object` is not used again.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        // The word still holds the (possibly stale) address; writing over it without dropping it gives the
        // ownership back exactly once.
        std::mem::forget(std::mem::replace(self.word, SlotWord::new(fingerprint, object)));
    }
}
