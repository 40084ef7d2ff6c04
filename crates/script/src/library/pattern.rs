//! Lua's patterns.
//!
//! Matching goes back and tries again, and so may take time that is exponential in the pattern. It counts its steps: a search pauses
//! between two places where it begins, and one that takes too many at one place is an error.

use std::sync::Arc;

use super::string::from_end;
use super::{Flow, Result};
use crate::heap::Bound;
use crate::native::Native;
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::{BoundRef, Value};
use crate::vm::{Args, Vm};

/// Parts of a pattern that are captured.
const CAPTURES_MAX: usize = 32;

/// Parts of a pattern that are tried within each other.
const DEPTH_MAX: usize = 200;

/// Steps of one attempt: some milliseconds.
const STEPS_MAX: usize = 1_000_000;

/// Bytes of a class that are passed by within a step: further ones are steps.
const CLASS_BYTES_A_STEP: usize = 32;

/// Steps of a search before it pauses if the budget is used up. Steps are a few for an instruction.
pub(super) const STEPS_PER_INSTRUCTION: usize = 4;

const ESCAPE: u8 = b'%';

/// Characters that make a pattern out of a string.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// How long a captured part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Open,
    /// It is where it begins that counts.
    Position,
    Bytes(usize),
}

type Matched<T> = std::result::Result<T, Raise>;

/// An attempt to match.
pub(super) struct Matcher<'a> {
    source: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    pub(super) steps: usize,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(source: &'a [u8], pattern: &'a [u8]) -> Self {
        Self {
            source,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps: 0,
        }
    }

    /// The end of a match that begins at a place of the source, of the pattern from `pattern` on.
    pub(super) fn attempt(&mut self, at: usize, pattern: usize) -> Matched<Option<usize>> {
        self.captures.clear();
        let before = self.steps;
        let result = self.matches(at, pattern, before + STEPS_MAX);
        self.depth = 0;
        result
    }

    /// The pattern is a string of C: it ends at a zero.
    fn at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    fn step(&mut self, limit: usize) -> Matched<()> {
        self.steps += 1;
        if self.steps > limit {
            return Err(Raise::Text("pattern too complex"));
        }
        Ok(())
    }

    /// The end of a class, which may be long: it is walked over each time.
    fn class_end(&mut self, p: usize) -> Matched<usize> {
        let end = self.find_class_end(p)?;
        self.steps += (end - p).saturating_sub(CLASS_BYTES_A_STEP);
        Ok(end)
    }

    fn find_class_end(&self, mut p: usize) -> Matched<usize> {
        let first = self.at(p);
        p += 1;
        match first {
            ESCAPE => {
                if self.at(p) == 0 {
                    return Err(Raise::Text("malformed pattern (ends with '%')"));
                }
                Ok(p + 1)
            }
            b'[' => {
                if self.at(p) == b'^' {
                    p += 1;
                }
                loop {
                    let byte = self.at(p);
                    if byte == 0 {
                        return Err(Raise::Text("malformed pattern (missing ']')"));
                    }
                    p += 1;
                    if byte == ESCAPE && self.at(p) != 0 {
                        p += 1;
                    }
                    if self.at(p) == b']' {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p),
        }
    }

    /// `end` is where the closing bracket stands.
    fn in_set(&mut self, byte: u8, mut p: usize, end: usize) -> bool {
        let mut is_in = true;
        if self.at(p + 1) == b'^' {
            is_in = false;
            p += 1;
        }
        p += 1;
        while p < end {
            self.steps += 1;
            if self.at(p) == ESCAPE {
                p += 1;
                if in_class(byte, self.at(p)) {
                    return is_in;
                }
            } else if self.at(p + 1) == b'-' && p + 2 < end {
                if (self.at(p)..=self.at(p + 2)).contains(&byte) {
                    return is_in;
                }
                p += 2;
            } else if self.at(p) == byte {
                return is_in;
            }
            p += 1;
        }
        !is_in
    }

    fn fits_one(&mut self, byte: u8, p: usize, end: usize) -> bool {
        match self.at(p) {
            b'.' => true,
            ESCAPE => in_class(byte, self.at(p + 1)),
            b'[' => self.in_set(byte, p, end - 1),
            plain => plain == byte,
        }
    }

    fn matches(&mut self, at: usize, p: usize, limit: usize) -> Matched<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Raise::Text("pattern too complex"));
        }
        let result = self.matches_here(at, p, limit);
        self.depth -= 1;
        result
    }

    fn matches_here(&mut self, mut at: usize, mut p: usize, limit: usize) -> Matched<Option<usize>> {
        loop {
            self.step(limit)?;
            match self.at(p) {
                0 => return Ok(Some(at)),
                b'(' => {
                    let (length, next) = if self.at(p + 1) == b')' {
                        (Length::Position, p + 2)
                    } else {
                        (Length::Open, p + 1)
                    };
                    if self.captures.len() >= CAPTURES_MAX {
                        return Err(Raise::Text("too many captures"));
                    }
                    let level = self.captures.len();
                    self.captures.push((at, length));
                    let result = self.matches(at, next, limit)?;
                    if result.is_none() {
                        self.captures.truncate(level);
                    }
                    return Ok(result);
                }
                b')' => {
                    let open = self
                        .captures
                        .iter()
                        .rposition(|&(_, length)| length == Length::Open);
                    let Some(level) = open else {
                        return Err(Raise::Text("invalid pattern capture"));
                    };
                    self.captures[level].1 = Length::Bytes(at - self.captures[level].0);
                    let result = self.matches(at, p + 1, limit)?;
                    if result.is_none() {
                        self.captures[level].1 = Length::Open;
                    }
                    return Ok(result);
                }
                ESCAPE if self.at(p + 1) == b'b' => match self.balanced(at, p + 2, limit)? {
                    Some(end) => {
                        at = end;
                        p += 4;
                        continue;
                    }
                    None => return Ok(None),
                },
                ESCAPE if self.at(p + 1) == b'f' => {
                    p += 2;
                    if self.at(p) != b'[' {
                        return Err(Raise::Text("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if at == 0 { 0 } else { self.source[at - 1] };
                    let here = self.source.get(at).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                    continue;
                }
                ESCAPE if self.at(p + 1).is_ascii_digit() => {
                    let level = usize::from(self.at(p + 1)).wrapping_sub(usize::from(b'1'));
                    let (start, length) = match self.captures.get(level) {
                        Some(&(start, Length::Bytes(length))) => (start, length),
                        // A position is as long as nothing is.
                        Some((_, Length::Position)) => return Ok(None),
                        Some((_, Length::Open)) | None => return Err(Raise::Text("invalid capture index")),
                    };
                    self.steps += length / 16;
                    if self.source[start..start + length]
                        != *self.source.get(at..at + length).unwrap_or_default()
                    {
                        return Ok(None);
                    }
                    at += length;
                    p += 2;
                    continue;
                }
                b'$' if self.at(p + 1) == 0 => return Ok((at == self.source.len()).then_some(at)),
                _ => {}
            }
            let end = self.class_end(p)?;
            let fits = match self.source.get(at) {
                Some(&byte) => self.fits_one(byte, p, end),
                None => false,
            };
            match self.at(end) {
                b'?' => {
                    if fits && let Some(found) = self.matches(at + 1, end + 1, limit)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                b'*' => return self.longest(at, p, end, limit),
                b'+' => {
                    return if fits {
                        self.longest(at + 1, p, end, limit)
                    } else {
                        Ok(None)
                    };
                }
                b'-' => return self.shortest(at, p, end, limit),
                _ => {
                    if !fits {
                        return Ok(None);
                    }
                    at += 1;
                    p = end;
                }
            }
        }
    }

    fn longest(&mut self, at: usize, p: usize, end: usize, limit: usize) -> Matched<Option<usize>> {
        let mut count = 0;
        while let Some(&byte) = self.source.get(at + count) {
            self.step(limit)?;
            if !self.fits_one(byte, p, end) {
                break;
            }
            count += 1;
        }
        loop {
            self.step(limit)?;
            if let Some(found) = self.matches(at + count, end + 1, limit)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, mut at: usize, p: usize, end: usize, limit: usize) -> Matched<Option<usize>> {
        loop {
            self.step(limit)?;
            if let Some(found) = self.matches(at, end + 1, limit)? {
                return Ok(Some(found));
            }
            match self.source.get(at) {
                Some(&byte) if self.fits_one(byte, p, end) => at += 1,
                _ => return Ok(None),
            }
        }
    }

    fn balanced(&mut self, at: usize, p: usize, limit: usize) -> Matched<Option<usize>> {
        if self.at(p) == 0 || self.at(p + 1) == 0 {
            return Err(Raise::Text("unbalanced pattern"));
        }
        let (open, close) = (self.at(p), self.at(p + 1));
        if self.source.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        let mut end = at + 1;
        while let Some(&byte) = self.source.get(end) {
            self.step(limit)?;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(end + 1));
                }
            } else if byte == open {
                depth += 1;
            }
            end += 1;
        }
        Ok(None)
    }

    pub(super) fn whole(&self, start: usize, end: usize) -> &'a [u8] {
        &self.source[start..end]
    }

    /// A captured part; the whole match if there is none.
    pub(super) fn capture(&self, level: usize, start: usize, end: usize) -> Matched<Captured<'a>> {
        match self.captures.get(level) {
            None if level == 0 => Ok(Captured::Text(&self.source[start..end])),
            None => Err(Raise::Text("invalid capture index")),
            Some((_, Length::Open)) => Err(Raise::Text("unfinished capture")),
            Some(&(start, Length::Position)) => Ok(Captured::Position(start + 1)),
            Some(&(start, Length::Bytes(length))) => Ok(Captured::Text(&self.source[start..start + length])),
        }
    }

    /// All captured parts, or the whole match if there is none and it is wanted.
    pub(super) fn push_captures(&self, vm: &mut Vm, whole: Option<(usize, usize)>) -> Matched<()> {
        let count = match whole {
            Some(_) if self.captures.is_empty() => 1,
            _ => self.captures.len(),
        };
        let (start, end) = whole.unwrap_or_default();
        for level in 0..count {
            let value = self.capture(level, start, end)?.value(vm)?;
            vm.values.push(value);
        }
        Ok(())
    }
}

/// A captured part.
pub(super) enum Captured<'a> {
    Text(&'a [u8]),
    Position(usize),
}

impl Captured<'_> {
    pub(super) fn value(&self, vm: &mut Vm) -> Matched<Value> {
        match self {
            Self::Text(text) => vm.heap.text(text),
            Self::Position(position) => Ok(Value::Number(*position as f64)),
        }
    }
}

/// A class is a letter; its capital is all the others.
fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Find,
    Captures,
    /// The next one of an iterator.
    Next(BoundRef),
}

/// A search that may pause.
#[derive(Debug)]
pub(crate) struct Search {
    source: Arc<[u8]>,
    pattern: Arc<[u8]>,
    at: usize,
    goal: Goal,
}

pub(super) fn find(vm: &mut Vm, args: Args) -> Result {
    begin(vm, args, Goal::Find)
}

pub(super) fn find_captures(vm: &mut Vm, args: Args) -> Result {
    begin(vm, args, Goal::Captures)
}

fn begin(vm: &mut Vm, args: Args, goal: Goal) -> Result {
    let (source, pattern) = (vm.bytes_arg(args, 0)?, vm.bytes_arg(args, 1)?);
    let init = from_end(vm.optional_integer(args, 2, 1)?, source.len());
    let init = usize::try_from(init - 1).unwrap_or(0).min(source.len());
    let until_zero = pattern
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(pattern.len());
    let is_plain =
        vm.arg(args, 3).is_truthy() || !pattern[..until_zero].iter().any(|byte| SPECIALS.contains(byte));
    if goal == Goal::Find && is_plain {
        vm.charge(source.len() / 16);
        vm.values.clear();
        match find_plain(&source[init..], &pattern) {
            Some(at) => vm.values.extend([
                Value::Number((init + at + 1) as f64),
                Value::Number((init + at + pattern.len()) as f64),
            ]),
            None => vm.values.push(Value::Nil),
        }
        return Ok(Flow::Values);
    }
    search(
        vm,
        Box::new(Search {
            source,
            pattern,
            at: init,
            goal,
        }),
    )
}

/// Where a string is in another one: by its first byte, and without going back far, whatever the strings are.
fn find_plain(source: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(source, wanted)
}

/// Goes on with a search, and pauses where the budget is used up.
pub(super) fn search(vm: &mut Vm, mut search: Box<Search>) -> Result {
    let (source, pattern) = (Arc::clone(&search.source), Arc::clone(&search.pattern));
    let is_anchored = pattern.first() == Some(&b'^') && !matches!(search.goal, Goal::Next(_));
    let mut matcher = Matcher::new(&source, &pattern);
    loop {
        let before = matcher.steps;
        let found = matcher.attempt(search.at, usize::from(is_anchored))?;
        vm.charge((matcher.steps - before) / STEPS_PER_INSTRUCTION);
        let at = search.at;
        if let Some(end) = found {
            vm.values.clear();
            match search.goal {
                Goal::Find => {
                    vm.values
                        .extend([Value::Number((at + 1) as f64), Value::Number(end as f64)]);
                    matcher.push_captures(vm, None)?;
                }
                Goal::Captures => matcher.push_captures(vm, Some((at, end)))?,
                Goal::Next(bound) => {
                    let next = if end == at { end + 1 } else { end };
                    vm.heap.set_bound_number(bound, 2, next as f64);
                    matcher.push_captures(vm, Some((at, end)))?;
                }
            }
            return Ok(Flow::Values);
        }
        search.at += 1;
        if is_anchored || search.at > source.len() {
            if let Goal::Next(bound) = search.goal {
                vm.heap.set_bound_number(bound, 2, (source.len() + 1) as f64);
                return Ok(Flow::None);
            }
            return Ok(Flow::One(Value::Nil));
        }
        if vm.fuel.left <= 0 {
            return Ok(Flow::Pause(Waiting::Search(search)));
        }
    }
}

pub(super) fn gmatch(vm: &mut Vm, args: Args) -> Result {
    let (source, pattern) = (vm.bytes_arg(args, 0)?, vm.bytes_arg(args, 1)?);
    let (source, pattern) = (vm.heap.text(&source)?, vm.heap.text(&pattern)?);
    let bound = vm.heap.add_bound(Bound {
        native: Native::GmatchIterator,
        state: [source, pattern, Value::Number(0.0)],
    })?;
    Ok(Flow::One(Value::Bound(bound)))
}

pub(super) fn gmatch_iterator(vm: &mut Vm, args: Args) -> Result {
    let Value::Bound(bound) = vm.thread.stack[args.base] else {
        return Ok(Flow::None);
    };
    let [Value::Str(source), Value::Str(pattern), Value::Number(at)] = vm.heap.bound(bound).state else {
        return Ok(Flow::None);
    };
    let (source, pattern) = (
        Arc::clone(vm.heap.bytes(source)),
        Arc::clone(vm.heap.bytes(pattern)),
    );
    if at as usize > source.len() {
        return Ok(Flow::None);
    }
    search(
        vm,
        Box::new(Search {
            source,
            pattern,
            at: at as usize,
            goal: Goal::Next(bound),
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(source: &str, pattern: &str) -> Option<(usize, usize)> {
        let mut matcher = Matcher::new(source.as_bytes(), pattern.as_bytes());
        (0..=source.len()).find_map(|at| matcher.attempt(at, 0).unwrap().map(|end| (at, end)))
    }

    #[test]
    fn patterns_match_what_the_manual_says() {
        assert_eq!(first("hello world", "o w"), Some((4, 7)));
        assert_eq!(first("key=value", "%w+=%w+"), Some((0, 9)));
        assert_eq!(first("f(a(b)c)d", "%b()"), Some((1, 8)));
        assert_eq!(first("THE (quick) fox", "%f[%a]%a+%f[%A]"), Some((0, 3)));
        assert_eq!(first("abab", "(ab)%1"), Some((0, 4)));
        assert_eq!(first("aaa", "a-b"), None);
        assert_eq!(first("x]y", "[]]"), Some((1, 2)));
        assert_eq!(first("a-z", "[a%-]+"), Some((0, 2)));
    }

    #[test]
    fn a_pattern_that_goes_back_for_ever_is_an_error() {
        let source = "a".repeat(5_000);
        let mut matcher = Matcher::new(source.as_bytes(), b".-.-.-.-b");
        assert!(matches!(
            matcher.attempt(0, 0),
            Err(Raise::Text("pattern too complex"))
        ));
        // A set that each step passes by, and which is left at its first character.
        let wide = format!("a-[a{}]c", "b".repeat(200_000));
        let mut matcher = Matcher::new(source.as_bytes(), wide.as_bytes());
        assert!(matches!(
            matcher.attempt(0, 0),
            Err(Raise::Text("pattern too complex"))
        ));
        let deep = "a?".repeat(1_000);
        let mut matcher = Matcher::new(source.as_bytes(), deep.as_bytes());
        assert!(matches!(
            matcher.attempt(0, 0),
            Err(Raise::Text("pattern too complex"))
        ));
    }
}
