//! Objects of one kind, named by where they stand.
//!
//! A reference that outlives its object would name another one: a mistake of the collector could give a script a wrong value, and
//! nothing worse.

/// What the collector knows of an object. There are two whites: those of the last cycle are dead when a sweep meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    White(bool),
    Gray,
    Black,
    /// There is no object here.
    Free,
    /// Made with the heap, and never collected.
    Fixed,
}

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
    marks: Vec<Mark>,
    free: Vec<u32>,
    fixed: usize,
}

impl<T: Default> Default for Arena<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            marks: Vec::new(),
            free: Vec::new(),
            fixed: 0,
        }
    }
}

impl<T: Default> Arena<T> {
    /// Bytes of a place.
    pub(crate) const BYTES: usize = size_of::<T>() + size_of::<Mark>() + size_of::<u32>();

    pub(crate) fn add(&mut self, item: T, mark: Mark) -> u32 {
        if let Some(id) = self.free.pop() {
            self.items[id as usize] = item;
            self.marks[id as usize] = mark;
            return id;
        }
        let id = u32::try_from(self.items.len()).expect("memory is bounded far below so many objects");
        self.items.push(item);
        self.marks.push(mark);
        id
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &T {
        &self.items[id as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.items[id as usize]
    }

    #[inline]
    pub(crate) fn mark(&self, id: u32) -> Mark {
        self.marks[id as usize]
    }

    pub(crate) fn set_mark(&mut self, id: u32, mark: Mark) {
        self.marks[id as usize] = mark;
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, id: u32) -> T {
        self.marks[id as usize] = Mark::Free;
        self.free.push(id);
        std::mem::take(&mut self.items[id as usize])
    }

    /// What is here now stays.
    pub(crate) fn fix(&mut self) {
        debug_assert!(self.free.is_empty(), "objects are fixed before any is collected");
        self.fixed = self.items.len();
        self.marks.fill(Mark::Fixed);
    }

    pub(crate) fn fixed(&self) -> usize {
        self.fixed
    }

    /// Drops all but what stays.
    pub(crate) fn reset(&mut self) {
        self.items.truncate(self.fixed);
        self.marks.truncate(self.fixed);
        self.free.clear();
        // One large run must not make the place of all later ones large.
        self.items.shrink_to(KEPT.max(self.fixed));
        self.marks.shrink_to(KEPT.max(self.fixed));
        self.free.shrink_to(KEPT);
    }
}

/// Places that are kept for the next run.
const KEPT: usize = 1_024;
