//! `gsub`.

use std::sync::Arc;

use super::pattern::{Captured, Matcher, STEPS_PER_INSTRUCTION};
use super::{Flow, Result};
use crate::execute::Found;
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::Value;
use crate::vm::{Args, BYTES_AT_ONCE, Vm};

/// Bytes of a replacement text that count as one instruction.
const TEXT_BYTES_PER_INSTRUCTION: usize = 16;

/// A substitution that is under way. What replaces is the third argument, on the stack.
#[derive(Debug)]
pub(crate) struct Substitution {
    source: Arc<[u8]>,
    pattern: Arc<[u8]>,
    out: Vec<u8>,
    at: usize,
    count: u64,
    max: u64,
    /// The match whose replacement a function was asked for.
    asked: Option<(usize, usize)>,
}

pub(super) fn gsub(vm: &mut Vm, args: Args) -> Result {
    let (source, pattern) = (vm.bytes_arg(args, 0)?, vm.bytes_arg(args, 1)?);
    let max = match vm.arg(args, 3) {
        Value::Nil => source.len() as u64 + 1,
        _ => u64::try_from(vm.integer_arg(args, 3)? as i32).unwrap_or(0),
    };
    if !matches!(
        vm.arg(args, 2),
        Value::Number(_)
            | Value::Str(_)
            | Value::Table(_)
            | Value::Closure(_)
            | Value::Native(_)
            | Value::Bound(_)
    ) {
        return Err(vm.bad_argument(args, 2, "string/function/table expected"));
    }
    vm.values.clear();
    let substitution = Substitution {
        source,
        pattern,
        out: Vec::new(),
        at: 0,
        count: 0,
        max,
        asked: None,
    };
    substitute(vm, Box::new(substitution), args.base)
}

impl Substitution {
    /// What the result has become so far must fit, twice, since it is copied when it becomes a string.
    fn check_room(&self, vm: &Vm) -> std::result::Result<(), Raise> {
        if self.out.len().saturating_mul(2) > vm.heap.room() {
            return Err(Raise::Memory);
        }
        Ok(())
    }

    fn replace(&mut self, vm: &Vm, value: Value, start: usize, end: usize) -> std::result::Result<(), Raise> {
        match value {
            Value::Nil | Value::Bool(false) => self.out.extend_from_slice(&self.source[start..end]),
            Value::Str(_) | Value::Number(_) => {
                self.out
                    .extend_from_slice(&vm.to_bytes(value).unwrap_or_default());
            }
            other => {
                return Err(Raise::message(format!(
                    "invalid replacement value (a {})",
                    other.type_name()
                )));
            }
        }
        self.check_room(vm)
    }

    /// Goes on behind a match.
    fn advance(&mut self, start: usize, end: Option<usize>) -> bool {
        match end {
            Some(end) if end > start => self.at = end,
            _ if start < self.source.len() => {
                self.out.push(self.source[start]);
                self.at = start + 1;
            }
            _ => return false,
        }
        true
    }
}

/// The replacement text, with what was captured in place of `%1`. One text may name a long match many times: whether `out` has become no
/// longer than `most`; it is not finished otherwise.
fn fill_in(
    out: &mut Vec<u8>,
    text: &[u8],
    matcher: &Matcher<'_>,
    start: usize,
    end: usize,
    most: usize,
) -> std::result::Result<bool, Raise> {
    let mut index = 0;
    while index < text.len() && out.len() <= most {
        let byte = text[index];
        index += 1;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let next = text.get(index).copied().unwrap_or(0);
        index += 1;
        match next {
            b'0' => out.extend_from_slice(matcher.whole(start, end)),
            b'1'..=b'9' => match matcher.capture(usize::from(next - b'1'), start, end)? {
                Captured::Text(text) => out.extend_from_slice(text),
                Captured::Position(position) => out.extend_from_slice(position.to_string().as_bytes()),
            },
            other => out.push(other),
        }
    }
    Ok(out.len() <= most)
}

/// Goes on; if a function was asked, what it gave is in `values`.
pub(super) fn substitute(vm: &mut Vm, mut this: Box<Substitution>, base: usize) -> Result {
    let args = Args { base, count: 3 };
    let (source, pattern) = (Arc::clone(&this.source), Arc::clone(&this.pattern));
    let is_anchored = pattern.first() == Some(&b'^');
    let mut goes_on = true;
    if let Some((start, end)) = this.asked.take() {
        let value = vm.values.first().copied().unwrap_or(Value::Nil);
        this.replace(vm, value, start, end)?;
        goes_on = this.advance(start, Some(end)) && !is_anchored;
    }
    let mut matcher = Matcher::new(&source, &pattern);
    let replacement = vm.arg(args, 2);
    let text = vm.to_bytes(replacement);
    while goes_on && this.count < this.max {
        if vm.puts_off(0, this.out.len()) {
            return Ok(Flow::PutOff(Waiting::Substitution(this)));
        }
        let before = matcher.steps;
        let start = this.at;
        let found = matcher.attempt(start, usize::from(is_anchored))?;
        vm.charge((matcher.steps - before) / STEPS_PER_INSTRUCTION + 1);
        if let Some(end) = found {
            this.count += 1;
            match (&text, replacement) {
                (Some(text), _) => {
                    let (before, room) = (this.out.len(), vm.heap.room() / 2);
                    let most = match vm.puts_off_large {
                        true => room.min(BYTES_AT_ONCE),
                        false => room,
                    };
                    vm.charge(text.len() / TEXT_BYTES_PER_INSTRUCTION);
                    if !fill_in(&mut this.out, text, &matcher, start, end, most)? {
                        if this.out.len() > room {
                            return Err(Raise::Memory);
                        }
                        // It is matched again there.
                        this.out.truncate(before);
                        this.count -= 1;
                        return Ok(Flow::PutOff(Waiting::Substitution(this)));
                    }
                }
                (None, Value::Table(_)) => {
                    let key = matcher.capture(0, start, end)?.value(vm)?;
                    match vm.index(replacement, key) {
                        Found::Value(value) => this.replace(vm, value, start, end)?,
                        Found::Handler(function, object) => {
                            vm.values.clear();
                            vm.values.extend([object, key]);
                            this.asked = Some((start, end));
                            return Ok(Flow::Call {
                                function,
                                waiting: Waiting::Substitution(this),
                            });
                        }
                        Found::Not(value, _) => return Err(Vm::value_error("index", value)),
                        Found::Loop => return Err(Raise::Text("loop in gettable")),
                    }
                }
                (None, function) => {
                    vm.values.clear();
                    matcher.push_captures(vm, Some((start, end)))?;
                    this.asked = Some((start, end));
                    return Ok(Flow::Call {
                        function,
                        waiting: Waiting::Substitution(this),
                    });
                }
            }
        }
        goes_on = this.advance(start, found) && !is_anchored;
        if vm.fuel.left <= 0 && goes_on {
            return Ok(Flow::Pause(Waiting::Substitution(this)));
        }
    }
    let at = this.at.min(source.len());
    this.out.extend_from_slice(&source[at..]);
    this.check_room(vm)?;
    vm.charge(this.out.len() / 64);
    let text = vm.heap.text(&this.out)?;
    vm.values.clear();
    vm.values.extend([text, Value::Number(this.count as f64)]);
    Ok(Flow::Values)
}
