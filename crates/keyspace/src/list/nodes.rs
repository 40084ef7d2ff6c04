//! Lists beyond the limit of one node: listpacks in a double-ended queue.
//!
//! ```text
//!  nodes   [ .. | gap, count, entries, gap | .. ]
//! ```
//!
//! Each node is a listpack (`listpack.rs`) inside an allocation of one of the allocator's sizes, so a node costs what
//! its bytes cost. What the size leaves over is a gap on either side of the sequence, and whatever is inserted or removed
//! moves the shorter part: at the ends of a list nothing moves but the count. Sizes and counts stand beside each other
//! in the queue, so that finding an index touches no node but the last.
//!
//! Where the borders between nodes are depends on how a list came to be. Nothing that clients or the state hash see may
//! depend on it: a replica that was sent the elements has other borders.
//!
//! Invariants:
//! 1. No node is empty.
//! 2. A node of several elements was within its limit when it last grew.
//! 3. `totals` is the sum of the nodes' own.

use crate::listpack::{self, Buffer, ENTRIES_MAX, Element, Listpack, Offset};
use crate::object::allocation_size;
use crate::value::Digits;
use command::ListEnd;
use std::collections::{VecDeque, vec_deque};
use std::ops::Range;

/// Bytes of a listpack without elements.
const EMPTY_LEN: usize = listpack::EMPTY.len();

/// How large a node may become.
#[derive(Clone, Copy)]
pub(crate) struct NodeLimit {
    bytes: usize,
    count: usize,
}

impl NodeLimit {
    /// The limit that [`crate::EncodingLimits::list_node_size`] means. Nodes that are limited by their elements are kept to
    /// 8 KiB as well, or every change would move too much.
    pub(crate) fn of(node_size: i32) -> NodeLimit {
        if node_size < 0 {
            NodeLimit {
                bytes: 2048 << node_size.unsigned_abs().min(5),
                count: ENTRIES_MAX,
            }
        } else {
            NodeLimit {
                bytes: 8192,
                count: (node_size as usize).clamp(1, ENTRIES_MAX),
            }
        }
    }

    /// Whether a sequence of these bytes and elements is within the limit.
    pub(crate) fn allows(self, bytes: usize, count: usize) -> bool {
        bytes <= self.bytes && count <= self.count
    }

    /// The size at which a list is kept in one node again: below the limit, lest a list at the limit change its form
    /// with every command.
    pub(crate) fn half(self) -> NodeLimit {
        NodeLimit {
            bytes: self.bytes / 2,
            count: self.count / 2,
        }
    }

    /// The size up to which neighbours are joined after a removal, for the same reason.
    fn three_quarters(self) -> NodeLimit {
        NodeLimit {
            bytes: self.bytes / 4 * 3,
            count: self.count * 3 / 4,
        }
    }
}

/// One listpack, somewhere inside its allocation.
#[derive(Clone)]
struct Node {
    room: Box<[u8]>,
    start: u32,
    end: u32,
    count: u32,
}

impl Node {
    /// A node of these entries.
    fn of(run: &[u8], count: usize) -> Node {
        let mut node = Node {
            room: vec![0; allocation_size(EMPTY_LEN + run.len())].into(),
            start: 0,
            end: EMPTY_LEN as u32,
            count: 0,
        };
        listpack::insert_run(&mut node, EMPTY_LEN, run, count);
        node.count = count as u32;
        node
    }

    /// A node of one element.
    fn one(element: Element<'_>) -> Node {
        let mut node = Node {
            room: vec![0; allocation_size(EMPTY_LEN + element.entry_len())].into(),
            start: 0,
            end: EMPTY_LEN as u32,
            count: 1,
        };
        listpack::insert_element(&mut node, EMPTY_LEN, element);
        node
    }

    fn listpack(&self) -> Listpack<'_> {
        Listpack::new(self.bytes())
    }

    /// The entries without the count.
    fn run(&self) -> &[u8] {
        &self.bytes()[EMPTY_LEN..]
    }

    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn totals(&self) -> Totals {
        Totals {
            elements: self.count as usize,
            bytes: self.len() - EMPTY_LEN,
            room: self.room.len(),
        }
    }

    /// Gives back what the allocation has too much.
    fn fit(&mut self) {
        if allocation_size(self.len()) < self.room.len() {
            let len = self.len();
            self.relocate(len..len, 0, false);
        }
    }

    /// Moves the sequence into an allocation that fits, with `range` replaced by `length` bytes. What the allocation has
    /// too much lies before the sequence or behind it.
    fn relocate(&mut self, range: Range<usize>, length: usize, gap_before: bool) {
        let bytes = self.bytes();
        let after = bytes.len() - range.len() + length;
        let mut room = vec![0; allocation_size(after)];
        let start = if gap_before { room.len() - after } else { 0 };
        room[start..start + range.start].copy_from_slice(&bytes[..range.start]);
        room[start + range.start + length..start + after].copy_from_slice(&bytes[range.end..]);
        self.room = room.into();
        (self.start, self.end) = (start as u32, (start + after) as u32);
    }
}

impl Buffer for Node {
    fn bytes(&self) -> &[u8] {
        &self.room[self.start as usize..self.end as usize]
    }

    fn splice(&mut self, range: Range<usize>, length: usize) -> &mut [u8] {
        let (start, end, before) = (self.start as usize, self.end as usize, self.len());
        let (head, tail) = (range.start, before - range.end);
        let after = before - range.len() + length;
        let is_near_front = head < tail;
        if after > before {
            let growth = after - before;
            let (room_before, room_behind) = (start >= growth, end + growth <= self.room.len());
            if room_before && (is_near_front || !room_behind) {
                self.room.copy_within(start..start + head, start - growth);
                self.start = (start - growth) as u32;
            } else if room_behind {
                self.room.copy_within(end - tail..end, end + growth - tail);
                self.end = (end + growth) as u32;
            } else {
                self.relocate(range, length, is_near_front);
            }
        } else if allocation_size(after) * 2 <= self.room.len() {
            // Only at half, lest a queue that goes up and down move with every command.
            self.relocate(range, length, is_near_front);
        } else if after < before {
            let loss = before - after;
            if is_near_front {
                self.room.copy_within(start..start + head, start + loss);
                self.start = (start + loss) as u32;
            } else {
                self.room.copy_within(end - tail..end, end - loss - tail);
                self.end = (end - loss) as u32;
            }
        }
        &mut self.room[self.start as usize..self.end as usize]
    }
}

/// Sums over nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Totals {
    elements: usize,
    /// Of all entries.
    bytes: usize,
    /// Of all allocations.
    room: usize,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.elements += other.elements;
        self.bytes += other.bytes;
        self.room += other.room;
    }

    fn take(&mut self, other: Totals) {
        self.elements -= other.elements;
        self.bytes -= other.bytes;
        self.room -= other.room;
    }
}

/// Where an element stands, or would be inserted.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: usize,
    offset: Offset,
}

/// A list beyond the limit of one node.
#[derive(Clone, Default)]
pub struct List {
    nodes: VecDeque<Node>,
    totals: Totals,
}

impl List {
    /// The elements of a listpack.
    pub(crate) fn from_listpack(listpack: Listpack<'_>, node_size: i32) -> List {
        let mut list = List::default();
        if listpack.is_empty() {
            return list;
        }
        if NodeLimit::of(node_size).allows(listpack.bytes().len(), listpack.len()) {
            list.insert_node(0, Node::of(&listpack.bytes()[EMPTY_LEN..], listpack.len()));
        } else {
            for element in listpack.iter() {
                list.push(ListEnd::Right, element, node_size);
            }
        }
        list
    }

    /// All elements in one listpack. The caller knows that they are few enough.
    pub(crate) fn to_listpack(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.listpack_len());
        bytes.extend_from_slice(&listpack::EMPTY);
        for node in &self.nodes {
            let end = bytes.len();
            listpack::insert_run(&mut bytes, end, node.run(), node.count as usize);
        }
        bytes
    }

    /// The length of what [`List::to_listpack`] makes.
    pub(crate) fn listpack_len(&self) -> usize {
        EMPTY_LEN + self.totals.bytes
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.totals.elements
    }

    /// Bytes of everything.
    pub(crate) fn memory(&self) -> usize {
        let queue = match self.nodes.capacity() {
            0 => 0,
            capacity => allocation_size(capacity * size_of::<Node>()),
        };
        self.totals.room + queue
    }

    /// The elements from one end on: `skip` are left out, and then there are at most `count`.
    pub(crate) fn elements(&self, from: ListEnd, skip: usize, count: usize) -> Elements<'_> {
        let skip = skip.min(self.len());
        let border = match from {
            ListEnd::Left => skip,
            ListEnd::Right => self.len() - skip,
        };
        let Some(place) = self.place_of(border) else {
            return Elements::of(Listpack::new(&listpack::EMPTY), from, skip, count);
        };
        Elements {
            nodes: match from {
                ListEnd::Left => self.nodes.range(place.node + 1..),
                ListEnd::Right => self.nodes.range(..place.node),
            },
            current: self.nodes[place.node].listpack(),
            at: place.offset,
            left: count.min(self.len() - skip),
            from,
        }
    }

    /// The elements from index `start` on, at most `count`, in order.
    pub(crate) fn range(&self, start: usize, count: usize) -> Elements<'_> {
        self.elements(ListEnd::Left, start, count)
    }

    /// Calls `visit` for the elements in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8])) {
        self.range(0, self.len())
            .for_each(|element| visit(element.text(&mut Digits::default())));
    }

    /// Adds an element at the end. `node_size` is [`crate::EncodingLimits::list_node_size`].
    pub(crate) fn push_back(&mut self, element: &[u8], node_size: i32) {
        self.push(ListEnd::Right, Element::of(element), node_size);
    }

    /// Adds an element at this end.
    pub(crate) fn push(&mut self, end: ListEnd, element: Element<'_>, node_size: i32) {
        let limit = NodeLimit::of(node_size);
        let last = match end {
            ListEnd::Left => 0,
            ListEnd::Right => self.nodes.len().saturating_sub(1),
        };
        if self.has_room(last, element, limit) {
            self.add_to(last, end, element);
        } else {
            if last < self.nodes.len() {
                // It stays as it is for a while: what it kept to grow in is not needed any more.
                self.change(last, Node::fit);
            }
            let index = match end {
                ListEnd::Left => 0,
                ListEnd::Right => self.nodes.len(),
            };
            self.insert_node(index, Node::one(element));
        }
    }

    /// Removes up to `count` elements from this end on. What is removed in whole nodes is returned: the caller may want
    /// to drop it in pieces.
    pub(crate) fn cut(&mut self, end: ListEnd, count: usize) -> List {
        let mut removed = List::default();
        let mut left = count.min(self.len());
        while left > 0 {
            let index = match end {
                ListEnd::Left => 0,
                ListEnd::Right => self.nodes.len() - 1,
            };
            let has = self.nodes[index].count as usize;
            if has <= left {
                let node = self.remove_node(index);
                removed.insert_node(removed.nodes.len(), node);
                left -= has;
                continue;
            }
            self.change(index, |node| {
                let listpack = node.listpack();
                let border = match end {
                    ListEnd::Left => left,
                    ListEnd::Right => has - left,
                };
                let at = listpack.offset_of(border).expect("the border is within the node");
                let range = match end {
                    ListEnd::Left => listpack.start()..at,
                    ListEnd::Right => at..listpack.end(),
                };
                listpack::remove_run(node, range, left);
            });
            break;
        }
        self.shrink_queue();
        removed
    }

    /// Puts another element in the place of the one of this index; `false` if there is none.
    pub(crate) fn set(&mut self, index: usize, element: Element<'_>, node_size: i32) -> bool {
        if index >= self.len() {
            return false;
        }
        let place = self.place_of(index).expect("the list has elements");
        let node = &self.nodes[place.node];
        let (_, next) = node.listpack().at(place.offset);
        let length = node.len() - (next - place.offset) + element.entry_len();
        let limit = NodeLimit::of(node_size);
        let range = place.offset..next;
        if node.count == 1 || limit.allows(length, node.count as usize) {
            self.change(place.node, |node| {
                listpack::remove_run(node, range, 1);
                listpack::insert_element(node, place.offset, element);
                node.fit();
            });
            self.mend(place.node, limit);
        } else {
            self.change(place.node, |node| listpack::remove_run(node, range, 1));
            self.insert_at(place, element, limit);
        }
        true
    }

    /// Inserts an element before or after the first one that equals `pivot`; `false` if none does.
    pub(crate) fn insert(
        &mut self,
        pivot: Element<'_>,
        after: bool,
        element: Element<'_>,
        node_size: i32,
    ) -> bool {
        let found = self.nodes.iter().enumerate().find_map(|(node, in_node)| {
            let (found, next) = find(in_node.listpack(), pivot)?;
            let offset = if after { next } else { found };
            Some(Place { node, offset })
        });
        if let Some(place) = found {
            self.insert_at(place, element, NodeLimit::of(node_size));
        }
        found.is_some()
    }

    /// Removes up to `max` elements that equal `wanted`, those nearest to this end. Returns how many.
    pub(crate) fn remove(&mut self, wanted: Element<'_>, from: ListEnd, max: usize, node_size: i32) -> usize {
        let (mut removed, mut touched, mut last_touched) = (0, 0, 0);
        for step in 0..self.nodes.len() {
            let index = match from {
                ListEnd::Left => step,
                ListEnd::Right => self.nodes.len() - 1 - step,
            };
            let here = self.change(index, |node| {
                let removed = remove_equal(node, wanted, from, max - removed);
                node.fit();
                removed
            });
            if here > 0 {
                removed += here;
                touched += 1;
                last_touched = index;
            }
            if removed == max {
                break;
            }
        }
        let limit = NodeLimit::of(node_size);
        match touched {
            0 => {}
            1 => self.mend(last_touched, limit),
            _ => self.join_all(limit),
        }
        removed
    }

    /// Drops about `budget` elements, and counts it down; `true` once none is left.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        while *budget > 0
            && let Some(last) = self.nodes.len().checked_sub(1)
        {
            let node = self.remove_node(last);
            *budget = budget.saturating_sub(node.count as usize);
        }
        self.nodes.is_empty()
    }

    /// Where the element of this index stands, found from the nearer end; behind the last one for the length. `None` if
    /// there are no elements.
    fn place_of(&self, index: usize) -> Option<Place> {
        debug_assert!(index <= self.len());
        let (node, inside) = if index <= self.len() / 2 {
            let mut before = 0;
            let node = self.nodes.iter().position(|node| {
                let is_here = index < before + node.count as usize;
                before += if is_here { 0 } else { node.count as usize };
                is_here
            })?;
            (node, index - before)
        } else {
            let mut before = self.len();
            let node = self.nodes.iter().rposition(|node| {
                before -= node.count as usize;
                index >= before
            })?;
            (node, index - before)
        };
        let offset = self.nodes[node].listpack().offset_of(inside);
        let offset = offset.expect("counts say that the element is in this node");
        Some(Place { node, offset })
    }

    /// Whether the node takes one more.
    fn has_room(&self, index: usize, element: Element<'_>, limit: NodeLimit) -> bool {
        self.nodes
            .get(index)
            .is_some_and(|node| limit.allows(node.len() + element.entry_len(), node.count as usize + 1))
    }

    /// Adds an element at an end of a node.
    fn add_to(&mut self, index: usize, end: ListEnd, element: Element<'_>) {
        self.change(index, |node| {
            let at = match end {
                ListEnd::Left => EMPTY_LEN,
                ListEnd::Right => node.len(),
            };
            listpack::insert_element(node, at, element);
        });
    }

    /// Adds an element in the middle: to the node it falls into, to a neighbour, or to a new node.
    fn insert_at(&mut self, place: Place, element: Element<'_>, limit: NodeLimit) {
        let Place { node: index, offset } = place;
        if self.has_room(index, element, limit) {
            self.change(index, |node| {
                listpack::insert_element(node, offset, element);
            });
            return;
        }
        let end = self.nodes[index].len();
        if offset == EMPTY_LEN {
            self.insert_between(index, element, limit);
        } else if offset == end {
            self.insert_between(index + 1, element, limit);
        } else {
            self.split(place);
            self.insert_between(index + 1, element, limit);
            // From behind, so that the indexes stay true: there are two or three nodes where there was one.
            for left in (index.saturating_sub(1)..=index + 2).rev() {
                self.join(left, limit);
            }
        }
    }

    /// Adds an element between the nodes `index - 1` and `index`.
    fn insert_between(&mut self, index: usize, element: Element<'_>, limit: NodeLimit) {
        if index > 0 && self.has_room(index - 1, element, limit) {
            self.add_to(index - 1, ListEnd::Right, element);
        } else if self.has_room(index, element, limit) {
            self.add_to(index, ListEnd::Left, element);
        } else {
            self.insert_node(index, Node::one(element));
        }
    }

    /// Makes two nodes of one.
    fn split(&mut self, place: Place) {
        let right = self.change(place.node, |node| {
            let all = node.count as usize;
            let mut before = 0;
            let mut at = EMPTY_LEN;
            while at < place.offset {
                at = node.listpack().at(at).1;
                before += 1;
            }
            let right = Node::of(&node.bytes()[place.offset..], all - before);
            let end = node.len();
            listpack::remove_run(node, place.offset..end, all - before);
            node.fit();
            right
        });
        self.insert_node(place.node + 1, right);
    }

    /// Joins a node with the next one if both are within `limit` together; whether it did.
    fn join(&mut self, left: usize, limit: NodeLimit) -> bool {
        let (Some(first), Some(second)) = (self.nodes.get(left), self.nodes.get(left + 1)) else {
            return false;
        };
        let count = (first.count + second.count) as usize;
        if !limit.allows(first.len() + second.len() - EMPTY_LEN, count) {
            return false;
        }
        let second = self.remove_node(left + 1);
        self.change(left, |first| {
            let end = first.len();
            listpack::insert_run(first, end, second.run(), second.count as usize);
        });
        true
    }

    /// After a removal from a node: it goes if it is empty, and is joined with a neighbour if both are small.
    fn mend(&mut self, index: usize, limit: NodeLimit) {
        if self.nodes[index].count == 0 {
            self.remove_node(index);
        } else {
            self.join(index, limit.three_quarters());
        }
        if index > 0 {
            self.join(index - 1, limit.three_quarters());
        }
    }

    /// [`List::mend`] of all nodes.
    fn join_all(&mut self, limit: NodeLimit) {
        let nodes = std::mem::take(&mut self.nodes);
        self.totals = Totals::default();
        for node in nodes.into_iter().filter(|node| node.count > 0) {
            let end = self.nodes.len();
            self.insert_node(end, node);
            if end > 0 {
                self.join(end - 1, limit.three_quarters());
            }
        }
    }

    /// Changes a node, and keeps the sums true.
    fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        let node = &mut self.nodes[index];
        self.totals.take(node.totals());
        let result = change(node);
        node.count = node.listpack().len() as u32;
        self.totals.add(node.totals());
        result
    }

    fn insert_node(&mut self, index: usize, node: Node) {
        self.totals.add(node.totals());
        self.nodes.insert(index, node);
    }

    fn remove_node(&mut self, index: usize) -> Node {
        let node = self.nodes.remove(index).expect("the caller knows the node");
        self.totals.take(node.totals());
        node
    }

    /// Gives back what the queue holds for many more nodes than there are.
    fn shrink_queue(&mut self) {
        if self.nodes.capacity() > 4 * self.nodes.len().max(4) {
            self.nodes.shrink_to(2 * self.nodes.len());
        }
    }

    /// Checks the invariants.
    #[cfg(test)]
    fn check(&self, limit: NodeLimit) {
        let mut totals = Totals::default();
        for node in &self.nodes {
            assert!(node.count > 0, "invariant 1");
            assert!(
                node.count == 1 || limit.allows(node.len(), node.count as usize),
                "invariant 2"
            );
            assert!(Listpack::check(node.bytes()));
            assert_eq!(node.listpack().len(), node.count as usize);
            assert_eq!(allocation_size(node.room.len()), node.room.len());
            assert!(node.room.len() < 2 * allocation_size(node.len()));
            totals.add(node.totals());
        }
        assert_eq!(totals, self.totals, "invariant 3");
    }
}

/// The first element that equals `wanted`, and the offset of the next.
pub(crate) fn find(listpack: Listpack<'_>, wanted: Element<'_>) -> Option<(Offset, Offset)> {
    let mut at = listpack.start();
    while at < listpack.end() {
        let (element, next) = listpack.at(at);
        if element == wanted {
            return Some((at, next));
        }
        at = next;
    }
    None
}

/// Removes up to `max` elements that equal `wanted`, those nearest to this end. Returns how many.
pub(crate) fn remove_equal(
    buffer: &mut impl Buffer,
    wanted: Element<'_>,
    from: ListEnd,
    max: usize,
) -> usize {
    let listpack = Listpack::new(buffer.bytes());
    // The matches that go are the first `max` from here on.
    let mut first = listpack.end();
    match from {
        ListEnd::Left => first = find(listpack, wanted).map_or(first, |(at, _)| at),
        ListEnd::Right => {
            let (mut at, mut found) = (listpack.end(), 0);
            while found < max
                && let Some(before) = listpack.before(at)
            {
                at = before;
                if listpack.at(at).0 == wanted {
                    first = at;
                    found += 1;
                }
            }
        }
    }
    if first == listpack.end() || max == 0 {
        return 0;
    }
    // One pass copies what stays: removing one by one would move the rest every time.
    let mut kept = Vec::with_capacity(listpack.end() - first);
    let (mut removed, mut kept_from, mut at) = (0, first, first);
    while at < listpack.end() && removed < max {
        let (element, next) = listpack.at(at);
        if element == wanted {
            kept.extend_from_slice(&listpack.bytes()[kept_from..at]);
            kept_from = next;
            removed += 1;
        }
        at = next;
    }
    kept.extend_from_slice(&listpack.bytes()[kept_from..at]);
    let bytes = buffer.splice(first..at, kept.len());
    bytes[first..first + kept.len()].copy_from_slice(&kept);
    listpack::remove_run(buffer, first..first, removed);
    removed
}

/// Elements from one end of a list on.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    /// The nodes that follow, as far as the walk is concerned.
    nodes: vec_deque::Iter<'a, Node>,
    current: Listpack<'a>,
    at: Offset,
    left: usize,
    from: ListEnd,
}

impl<'a> Elements<'a> {
    /// The elements of one listpack: `skip` are left out, and then there are at most `count`.
    pub(crate) fn of(listpack: Listpack<'a>, from: ListEnd, skip: usize, count: usize) -> Elements<'a> {
        let skip = skip.min(listpack.len());
        let border = match from {
            ListEnd::Left => skip,
            ListEnd::Right => listpack.len() - skip,
        };
        Elements {
            nodes: vec_deque::Iter::default(),
            current: listpack,
            at: listpack
                .offset_of(border)
                .expect("the border is within the sequence"),
            left: count.min(listpack.len() - skip),
            from,
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        match self.from {
            ListEnd::Left => {
                if self.at == self.current.end() {
                    self.current = self.nodes.next()?.listpack();
                    self.at = self.current.start();
                }
                let (element, next) = self.current.at(self.at);
                self.at = next;
                Some(element)
            }
            ListEnd::Right => {
                if self.at == self.current.start() {
                    self.current = self.nodes.next_back()?.listpack();
                    self.at = self.current.end();
                }
                self.at = self.current.before(self.at).expect("no node is empty");
                Some(self.current.at(self.at).0)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;
    use std::collections::VecDeque;

    fn texts(elements: Elements<'_>) -> Vec<Vec<u8>> {
        elements.map(Element::to_vec).collect()
    }

    fn sample(prng: &mut Prng) -> Vec<u8> {
        match prng.below(20) {
            0 => vec![b'x'; prng.below(9_000) as usize],
            1..4 => vec![b'y'; prng.below(400) as usize],
            4..12 => prng.below(4).to_string().into_bytes(),
            12..16 => (prng.next_u64() as i64 >> prng.below(64))
                .to_string()
                .into_bytes(),
            _ => vec![b'a' + prng.below(3) as u8; prng.below(6) as usize],
        }
    }

    fn end(prng: &mut Prng) -> ListEnd {
        if prng.below(2) == 0 {
            ListEnd::Left
        } else {
            ListEnd::Right
        }
    }

    /// Does one thing to both, and compares what they answer.
    fn step(list: &mut List, model: &mut VecDeque<Vec<u8>>, prng: &mut Prng, size: i32) {
        let text = sample(prng);
        let element = Element::of(&text);
        match prng.below(16) {
            0..6 => match end(prng) {
                ListEnd::Left => {
                    list.push(ListEnd::Left, element, size);
                    model.push_front(text);
                }
                ListEnd::Right => {
                    list.push_back(&text, size);
                    model.push_back(text);
                }
            },
            6..8 => {
                let (from, count) = (end(prng), prng.below(12) as usize);
                let count = if prng.below(30) == 0 { count * 20 } else { count }.min(model.len());
                let before = list.len();
                let removed = list.cut(from, count);
                assert!(removed.len() <= count);
                assert_eq!(list.len(), before - count);
                match from {
                    ListEnd::Left => drop(model.drain(..count)),
                    ListEnd::Right => model.truncate(model.len() - count),
                }
            }
            8..10 => {
                let index = prng.below(model.len() as u64 + 2) as usize;
                assert_eq!(list.set(index, element, size), index < model.len());
                if let Some(old) = model.get_mut(index) {
                    *old = text;
                }
            }
            10..14 => {
                let pivot = match prng.below(model.len() as u64 + 1) as usize {
                    at if at < model.len() => model[at].clone(),
                    _ => sample(prng),
                };
                let after = prng.below(2) == 0;
                let found = model.iter().position(|other| *other == pivot);
                let inserted = list.insert(Element::of(&pivot), after, element, size);
                assert_eq!(inserted, found.is_some());
                if let Some(at) = found {
                    model.insert(at + usize::from(after), text);
                }
            }
            _ => {
                let (from, max) = (end(prng), prng.below(4) as usize);
                let max = if max == 3 { usize::MAX } else { max };
                let mut left = max;
                let mut keep = |other: &Vec<u8>| {
                    let goes = *other == text && left > 0;
                    left -= usize::from(goes);
                    !goes
                };
                let before = model.len();
                match from {
                    ListEnd::Left => model.retain(keep),
                    ListEnd::Right => {
                        let mut kept: VecDeque<_> = model.drain(..).rev().filter(&mut keep).collect();
                        kept.make_contiguous().reverse();
                        *model = kept;
                    }
                }
                let removed = list.remove(element, from, max, size);
                assert_eq!(removed, before - model.len());
            }
        }
    }

    #[test]
    fn agrees_with_a_queue_of_texts_under_any_changes() {
        for (seed, size) in [1, 2, 3, 7, 128, -1, -2, -5, 0, i32::MIN].into_iter().enumerate() {
            let mut prng = Prng::new(seed as u64);
            let (mut list, mut model) = (List::default(), VecDeque::new());
            for _ in 0..3_000 {
                step(&mut list, &mut model, &mut prng, size);
                list.check(NodeLimit::of(size));
                assert_eq!(list.len(), model.len());
                if prng.below(8) > 0 {
                    continue;
                }
                assert_eq!(
                    texts(list.elements(ListEnd::Left, 0, usize::MAX)),
                    Vec::from(model.clone())
                );
                let (skip, count) = (prng.below(40) as usize, prng.below(40) as usize);
                let forwards: Vec<_> = model.iter().skip(skip).take(count).cloned().collect();
                let backwards: Vec<_> = model.iter().rev().skip(skip).take(count).cloned().collect();
                assert_eq!(texts(list.range(skip, count)), forwards);
                assert_eq!(texts(list.elements(ListEnd::Right, skip, count)), backwards);
                assert_eq!(list.elements(ListEnd::Right, skip, count).len(), backwards.len());
            }
            let clone = list.clone();
            let mut budget = 100_000;
            assert!(list.drain(&mut budget));
            assert_eq!(list.totals, Totals::default());
            assert_eq!(texts(clone.range(0, clone.len())), Vec::from(model));
        }
    }

    #[test]
    fn a_list_and_its_listpack_form_become_each_other() {
        let mut prng = Prng::new(7);
        for size in [1, 4, 128, -2] {
            let mut list = List::default();
            for _ in 0..100 {
                list.push_back(&sample(&mut prng), size);
            }
            let bytes = list.to_listpack();
            assert!(Listpack::check(&bytes));
            assert_eq!(bytes.len(), list.listpack_len());
            let again = List::from_listpack(Listpack::new(&bytes), size);
            again.check(NodeLimit::of(size));
            assert_eq!(texts(again.range(0, 200)), texts(list.range(0, 200)));
        }
    }

    #[test]
    fn nodes_of_short_elements_are_full_whichever_end_they_come_from() {
        for end in [ListEnd::Left, ListEnd::Right] {
            let mut list = List::default();
            for number in 0..100_000 {
                list.push(end, Element::Integer(number), -2);
            }
            // Integers of three and four bytes of content, and the length behind.
            let content = list.listpack_len();
            assert!(
                list.memory() < content + content / 50,
                "{} for {content}",
                list.memory()
            );
        }
    }

    #[test]
    fn a_queue_that_wanders_through_its_nodes_holds_what_it_needs() {
        let mut list = List::default();
        for number in 0..200_000 {
            list.push(ListEnd::Right, Element::Integer(number), -2);
            if number >= 5_000 {
                assert_eq!(list.range(0, 1).next(), Some(Element::Integer(number - 5_000)));
                list.cut(ListEnd::Left, 1);
            }
        }
        list.check(NodeLimit::of(-2));
        assert!(list.memory() < list.listpack_len() + 20_000, "{}", list.memory());
    }
}
