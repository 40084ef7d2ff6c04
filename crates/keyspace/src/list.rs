//! Lists.
//!
//! A list is one listpack in its object while it is no larger than one node, and a [`List`] of nodes beyond that. It
//! becomes small again at half of that size. Both directions are decided by the elements alone, so that all replicas
//! keep a list in the same form.

mod nodes;

pub(crate) use nodes::List;

use crate::apply::{Apply, Edit};
use crate::events::EventClasses;
use crate::large::Large;
use crate::listpack::{self, Element, Listpack};
use crate::object::{Kind, Object, Value};
use crate::read::Reader;
use command::{ListCommand, ListEnd, ListSearch, PivotSide, ReplyError};
use nodes::{Elements, NodeLimit};
use resp::{Args, ReplyWriter};

/// How `LPOP` and its kin are noted.
fn pop_event(end: ListEnd) -> &'static str {
    match end {
        ListEnd::Left => "lpop",
        ListEnd::Right => "rpop",
    }
}

/// How `LPUSH` and its kin are noted.
fn push_event(end: ListEnd) -> &'static str {
    match end {
        ListEnd::Left => "lpush",
        ListEnd::Right => "rpush",
    }
}

/// The elements of a list from one end on: `skip` are left out, and then there are at most `count`.
fn elements(object: &Object, from: ListEnd, skip: usize, count: usize) -> Elements<'_> {
    match object.value() {
        Value::Listpack(_, listpack) => Elements::of(listpack, from, skip, count),
        Value::Large(Large::List(list)) => list.elements(from, skip, count),
        value => unreachable!("the kind was checked: {value:?} is no list"),
    }
}

/// The index that `index` means in a list of `len`; negative ones count from the end.
fn resolve_index(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index + len as i64 } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// Where the range from `start` to `stop`, both included, begins in a list of `len`, and how many elements it has.
pub(crate) fn resolve_range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { index + len } else { index };
    let start = from_start(start).max(0);
    let stop = from_start(stop).min(len - 1);
    if start > stop {
        (0, 0)
    } else {
        (start as usize, (stop - start + 1) as usize)
    }
}

/// What the commands do to one list that is there.
impl Edit<'_> {
    fn list_len(&self) -> usize {
        self.object.value().len()
    }

    fn list_limit(&self) -> NodeLimit {
        NodeLimit::of(self.limits.list_node_size)
    }

    /// The small form, if the list has it and stays within the limit with so many more bytes and elements. Otherwise
    /// the list has nodes afterwards.
    fn small_list(&mut self, more_bytes: isize, more: usize) -> Option<Listpack<'_>> {
        let limit = self.list_limit();
        let large = match self.object.value() {
            Value::Listpack(_, listpack) => {
                let bytes = listpack.bytes().len().saturating_add_signed(more_bytes);
                let is_small = limit.allows(bytes, listpack.len() + more);
                (!is_small).then(|| List::from_listpack(listpack, self.limits.list_node_size))
            }
            _ => return None,
        };
        if let Some(list) = large {
            self.object.set_large(Large::List(list));
        }
        match self.object.value() {
            Value::Listpack(_, listpack) => Some(listpack),
            _ => None,
        }
    }

    /// The nodes of a list that is not small.
    fn nodes(&mut self) -> &mut List {
        match self.object.large_mut() {
            Some(Large::List(list)) => list,
            _ => unreachable!("a list that is not small has nodes"),
        }
    }

    /// Makes a list that shrank far enough small again.
    fn shrink_list(&mut self) {
        let limit = self.list_limit().half();
        if let Value::Large(Large::List(list)) = self.object.value()
            && list.len() > 0
            && limit.allows(list.listpack_len(), list.len())
        {
            let bytes = list.to_listpack();
            self.object.set_listpack(Kind::List, &bytes);
        }
    }

    /// Where an element at an end of the small form is inserted.
    fn end_of(listpack: Listpack<'_>, end: ListEnd) -> listpack::Offset {
        match end {
            ListEnd::Left => listpack.start(),
            ListEnd::Right => listpack.end(),
        }
    }

    /// Adds an element at an end.
    fn push_element(&mut self, end: ListEnd, text: &[u8]) {
        self.mark();
        let element = Element::of(text);
        if let Some(listpack) = self.small_list(element.entry_len() as isize, 1) {
            let at = Self::end_of(listpack, end);
            listpack::insert_element(self.object, at, element);
        } else {
            let node_size = self.limits.list_node_size;
            self.nodes().push(end, element, node_size);
        }
    }

    /// Adds elements at an end, one after the other.
    fn push_elements(&mut self, end: ListEnd, elements: Args<'_>) {
        if elements.len() == 1 {
            return self.push_element(end, elements.arg(0));
        }
        self.mark();
        let lengths = elements.iter().map(|text| Element::of(text).entry_len());
        let bytes: usize = lengths.sum();
        if let Some(listpack) = self.small_list(bytes as isize, elements.len()) {
            let at = Self::end_of(listpack, end);
            // One run of all, lest the object grow once for each.
            let mut run = Vec::with_capacity(listpack::EMPTY.len() + bytes);
            run.extend_from_slice(&listpack::EMPTY);
            let mut add = |text: &[u8]| listpack::push_back(&mut run, text);
            match end {
                ListEnd::Left => elements.iter().rev().for_each(&mut add),
                ListEnd::Right => elements.iter().for_each(&mut add),
            }
            let run = &run[listpack::EMPTY.len()..];
            listpack::insert_run(self.object, at, run, elements.len());
            return;
        }
        let node_size = self.limits.list_node_size;
        let list = self.nodes();
        for text in elements.iter() {
            list.push(end, Element::of(text), node_size);
        }
    }

    /// Removes up to `count` elements from an end on. What comes back is to be dropped piece by piece.
    fn cut_elements(&mut self, end: ListEnd, count: usize) -> List {
        let count = count.min(self.list_len());
        if count == 0 {
            return List::default();
        }
        self.mark();
        let Value::Listpack(_, listpack) = self.object.value() else {
            let removed = self.nodes().cut(end, count);
            self.shrink_list();
            return removed;
        };
        let border = match end {
            ListEnd::Left => count,
            ListEnd::Right => listpack.len() - count,
        };
        let at = listpack
            .offset_of(border)
            .expect("the border is within the sequence");
        let range = match end {
            ListEnd::Left => listpack.start()..at,
            ListEnd::Right => at..listpack.end(),
        };
        listpack::remove_run(self.object, range, count);
        List::default()
    }

    /// Puts another element in the place of the one of this index, which is there.
    fn set_element(&mut self, index: usize, text: &[u8]) {
        self.mark();
        let element = Element::of(text);
        let before = elements(self.object, ListEnd::Left, index, 1).next();
        let before = before.map_or(0, Element::entry_len);
        if let Some(listpack) = self.small_list(element.entry_len() as isize - before as isize, 0) {
            let at = listpack.offset_of(index).expect("the caller knows the index");
            listpack::replace(self.object, at, text);
            return;
        }
        let node_size = self.limits.list_node_size;
        self.nodes().set(index, element, node_size);
        self.shrink_list();
    }

    /// Inserts an element next to the first that equals `pivot`; whether there is one.
    fn insert_element(&mut self, pivot: &[u8], side: PivotSide, text: &[u8]) -> bool {
        let (pivot, element) = (Element::of(pivot), Element::of(text));
        let after = side == PivotSide::After;
        if let Value::Listpack(_, listpack) = self.object.value() {
            let Some((found, next)) = nodes::find(listpack, pivot) else {
                return false;
            };
            let at = if after { next } else { found };
            if self.small_list(element.entry_len() as isize, 1).is_some() {
                self.mark();
                listpack::insert_element(self.object, at, element);
                return true;
            }
        }
        let node_size = self.limits.list_node_size;
        let is_inserted = self.nodes().insert(pivot, after, element, node_size);
        if is_inserted {
            self.mark();
        }
        is_inserted
    }

    /// Removes up to `max` elements that equal `text`, those nearest to this end. Returns how many.
    fn remove_elements(&mut self, text: &[u8], from: ListEnd, max: usize) -> usize {
        let wanted = Element::of(text);
        let node_size = self.limits.list_node_size;
        let removed = match self.object.value() {
            Value::Listpack(..) => nodes::remove_equal(self.object, wanted, from, max),
            _ => self.nodes().remove(wanted, from, max, node_size),
        };
        if removed > 0 {
            self.mark();
            self.shrink_list();
        }
        removed
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn list(&mut self, command: &ListCommand<'_>) {
        let result = match *command {
            ListCommand::Push {
                key,
                elements,
                end,
                only_if_present,
            } => self.list_push(key, elements, end, only_if_present),
            ListCommand::Pop { key, end, count } => self.list_pop(key, end, count),
            ListCommand::Set { key, index, element } => self.list_set(key, index, element),
            ListCommand::Trim { key, start, stop } => self.list_trim(key, start, stop),
            ListCommand::Insert {
                key,
                side,
                pivot,
                element,
            } => self.list_insert(key, side, pivot, element),
            ListCommand::Remove { key, count, element } => self.list_remove(key, count, element),
            ListCommand::Move {
                source,
                destination,
                from,
                to,
            } => self.list_move(source, destination, from, to),
            ListCommand::PopFirst { keys, end, count } => self.list_pop_first(keys, end, count),
            ListCommand::Len { .. }
            | ListCommand::Index { .. }
            | ListCommand::Range { .. }
            | ListCommand::Position { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn list_push(
        &mut self,
        key: &[u8],
        elements: Args<'_>,
        end: ListEnd,
        only_if_present: bool,
    ) -> Result<(), ReplyError> {
        let len = self.edit(Kind::List, key, !only_if_present, |edit| {
            edit.push_elements(end, elements);
            edit.list_len()
        })?;
        if len.is_some() {
            self.event(EventClasses::LIST, push_event(end), key);
        }
        self.out.integer(len.unwrap_or(0) as i64);
        Ok(())
    }

    fn list_pop(&mut self, key: &[u8], end: ListEnd, count: Option<u64>) -> Result<(), ReplyError> {
        let is_there = self.take_elements(key, end, count.unwrap_or(1), |out, taken| {
            if count.is_some() {
                out.array(taken);
            }
        })?;
        match count {
            _ if is_there => {}
            None => self.out.null(),
            Some(_) => self.out.null_array(),
        }
        Ok(())
    }

    /// Removes up to `count` elements of a list from this end on, and writes them behind what `head` writes, which is
    /// told how many they are. `false`, with nothing written, if there is no such list.
    pub(crate) fn take_elements(
        &mut self,
        key: &[u8],
        end: ListEnd,
        count: u64,
        head: impl FnOnce(&mut ReplyWriter<'_>, usize),
    ) -> Result<bool, ReplyError> {
        // The elements go from the list to the reply without a stop: the edit has a writer of its own to hold.
        let mut unused = Vec::new();
        let mut editor = Apply {
            keyspace: &mut *self.keyspace,
            local: &mut *self.local,
            db: self.db,
            out: &mut ReplyWriter::new(&mut unused, self.out.protocol()),
        };
        let out = &mut *self.out;
        let taken = editor.edit(Kind::List, key, false, |edit| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let found = elements(edit.object, end, 0, count);
            let taken = found.len();
            head(out, taken);
            found.for_each(|element| element.write(out));
            (taken, edit.cut_elements(end, taken), edit.list_len())
        })?;
        let Some((taken, removed, left)) = taken else {
            return Ok(false);
        };
        self.keyspace.lazyfree().add_large(Large::List(removed));
        if taken > 0 {
            self.event(EventClasses::LIST, pop_event(end), key);
            self.list_deleted(key, left);
        }
        Ok(true)
    }

    /// Notes that the key is gone if its list has no elements left.
    fn list_deleted(&mut self, key: &[u8], left: usize) {
        if left == 0 {
            self.event(EventClasses::GENERIC, "del", key);
        }
    }

    fn list_set(&mut self, key: &[u8], index: i64, element: &[u8]) -> Result<(), ReplyError> {
        let is_set = self.edit(Kind::List, key, false, |edit| {
            let index = resolve_index(index, edit.list_len());
            if let Some(index) = index {
                edit.set_element(index, element);
            }
            index.is_some()
        })?;
        match is_set {
            None => return Err(ReplyError::NoSuchKey),
            Some(false) => return Err(ReplyError::IndexOutOfRange),
            Some(true) => {}
        }
        self.event(EventClasses::LIST, "lset", key);
        self.out.ok();
        Ok(())
    }

    fn list_trim(&mut self, key: &[u8], start: i64, stop: i64) -> Result<(), ReplyError> {
        let trimmed = self.edit(Kind::List, key, false, |edit| {
            let len = edit.list_len();
            let (start, count) = resolve_range(start, stop, len);
            // A command that removes nothing counts as a change too, as in Redis.
            edit.mark();
            let right = edit.cut_elements(ListEnd::Right, len - start - count);
            let left = edit.cut_elements(ListEnd::Left, start);
            ([left, right], count)
        })?;
        if let Some((removed, left)) = trimmed {
            for list in removed {
                self.keyspace.lazyfree().add_large(Large::List(list));
            }
            self.event(EventClasses::LIST, "ltrim", key);
            self.list_deleted(key, left);
        }
        self.out.ok();
        Ok(())
    }

    fn list_insert(
        &mut self,
        key: &[u8],
        side: PivotSide,
        pivot: &[u8],
        element: &[u8],
    ) -> Result<(), ReplyError> {
        let len = self.edit(Kind::List, key, false, |edit| {
            edit.insert_element(pivot, side, element).then(|| edit.list_len())
        })?;
        let answer = match len {
            None => 0,
            Some(None) => -1,
            Some(Some(len)) => {
                self.event(EventClasses::LIST, "linsert", key);
                len as i64
            }
        };
        self.out.integer(answer);
        Ok(())
    }

    fn list_remove(&mut self, key: &[u8], count: i64, element: &[u8]) -> Result<(), ReplyError> {
        let (from, max) = match count {
            0 => (ListEnd::Left, usize::MAX),
            1.. => (ListEnd::Left, count as usize),
            _ => (ListEnd::Right, count.unsigned_abs() as usize),
        };
        let removed = self.edit(Kind::List, key, false, |edit| {
            (edit.remove_elements(element, from, max), edit.list_len())
        })?;
        let (removed, left) = removed.unwrap_or((0, 0));
        if removed > 0 {
            self.event(EventClasses::LIST, "lrem", key);
            self.list_deleted(key, left);
        }
        self.out.integer(removed as i64);
        Ok(())
    }

    fn list_move(
        &mut self,
        source: &[u8],
        destination: &[u8],
        from: ListEnd,
        to: ListEnd,
    ) -> Result<(), ReplyError> {
        match self.move_element(source, destination, from, to)? {
            Some(element) => self.out.bulk(&element),
            None => self.out.null(),
        }
        Ok(())
    }

    /// Moves an element from an end of one list to an end of another, or of the same. `None`, and nothing was done, if
    /// the source is absent.
    pub(crate) fn move_element(
        &mut self,
        source: &[u8],
        destination: &[u8],
        from: ListEnd,
        to: ListEnd,
    ) -> Result<Option<Vec<u8>>, ReplyError> {
        let is_rotation = source == destination;
        // An absent source is no mistake, whatever the destination holds.
        if !is_rotation && self.peek(Kind::List, source)?.is_some() {
            self.peek(Kind::List, destination)?;
        }
        let taken = self.edit(Kind::List, source, false, |edit| {
            let element = elements(edit.object, from, 0, 1).next().map(Element::to_vec);
            // At most one node: not worth freeing piece by piece.
            drop(edit.cut_elements(from, 1));
            if is_rotation && let Some(element) = &element {
                edit.push_element(to, element);
            }
            (element, edit.list_len())
        })?;
        let Some((Some(element), left)) = taken else {
            return Ok(None);
        };
        if !is_rotation {
            self.edit(Kind::List, destination, true, |edit| {
                edit.push_element(to, &element)
            })?;
        }
        // In this order, as in Redis.
        self.event(EventClasses::LIST, push_event(to), destination);
        self.event(EventClasses::LIST, pop_event(from), source);
        self.list_deleted(source, left);
        Ok(Some(element))
    }

    fn list_pop_first(&mut self, keys: Args<'_>, end: ListEnd, count: u64) -> Result<(), ReplyError> {
        if !self.take_elements_of_any(keys, end, count)? {
            self.out.null_array();
        }
        Ok(())
    }

    /// Removes up to `count` elements of the first list there is, and writes an array of its key and an array of them.
    /// `false`, with nothing written, if there is none.
    pub(crate) fn take_elements_of_any(
        &mut self,
        keys: Args<'_>,
        end: ListEnd,
        count: u64,
    ) -> Result<bool, ReplyError> {
        for key in keys.iter() {
            let is_there = self.take_elements(key, end, count, |out, taken| {
                out.array(2);
                out.bulk(key);
                out.array(taken);
            })?;
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn list(&mut self, command: &ListCommand<'_>) {
        match *command {
            ListCommand::Len { key } => {
                if let Some(object) = self.lookup_or(key, Kind::List, |out| out.integer(0)) {
                    self.out.integer(object.value().len() as i64);
                }
            }
            ListCommand::Index { key, index } => self.list_index(key, index),
            ListCommand::Range { key, start, stop } => self.list_range(key, start, stop),
            ListCommand::Position { key, element, search } => self.list_position(key, element, search),
            ListCommand::Push { .. }
            | ListCommand::Pop { .. }
            | ListCommand::Set { .. }
            | ListCommand::Trim { .. }
            | ListCommand::Insert { .. }
            | ListCommand::Remove { .. }
            | ListCommand::Move { .. }
            | ListCommand::PopFirst { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    fn list_index(&mut self, key: &[u8], index: i64) {
        let Some(object) = self.lookup_or(key, Kind::List, |out| out.null()) else {
            return;
        };
        let found = resolve_index(index, object.value().len())
            .and_then(|index| elements(&object, ListEnd::Left, index, 1).next());
        match found {
            Some(element) => element.write(self.out),
            None => self.out.null(),
        }
    }

    fn list_range(&mut self, key: &[u8], start: i64, stop: i64) {
        let Some(object) = self.lookup_or(key, Kind::List, |out| out.array(0)) else {
            return;
        };
        let (start, count) = resolve_range(start, stop, object.value().len());
        self.out.array(count);
        elements(&object, ListEnd::Left, start, count).for_each(|element| element.write(self.out));
    }

    fn list_position(&mut self, key: &[u8], element: &[u8], search: ListSearch) {
        let is_array = search.count.is_some();
        let absent = |out: &mut ReplyWriter<'_>| if is_array { out.array(0) } else { out.null() };
        let Some(object) = self.lookup_or(key, Kind::List, absent) else {
            return;
        };
        let (len, wanted) = (object.value().len(), Element::of(element));
        let or_all = |limit: u64| match limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let mut found = elements(&object, search.from, 0, or_all(search.length_max))
            .enumerate()
            .filter(|(_, element)| *element == wanted)
            .map(|(step, _)| match search.from {
                ListEnd::Left => step as i64,
                ListEnd::Right => (len - 1 - step) as i64,
            })
            .skip(usize::try_from(search.rank - 1).unwrap_or(usize::MAX));
        match search.count {
            None => match found.next() {
                Some(index) => self.out.integer(index),
                None => self.out.null(),
            },
            Some(count) => {
                let found: Vec<i64> = found.take(or_all(count)).collect();
                self.out.array(found.len());
                found.into_iter().for_each(|index| self.out.integer(index));
            }
        }
    }
}
