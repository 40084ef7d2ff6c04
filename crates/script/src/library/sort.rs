//! `table.sort`.
//!
//! The same quicksort as Lua's, comparison by comparison, since equal elements come out in an order that follows from it. A
//! comparison may be a function of the script, so that all there is to remember stands in [`Sort`].

use super::{Flow, Result};
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::{TableRef, Value};
use crate::vm::{Args, Event, Vm};

/// Which comparison is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// Is the last one less than the first?
    Ends,
    /// Is the middle one less than the first?
    Low,
    /// Is the last one less than the middle one?
    High,
    /// Is the one at `i` less than the pivot?
    Up,
    /// Is the pivot less than the one at `j`?
    Down,
}

/// A table that is being sorted. The pivot is behind the arguments on the stack.
#[derive(Debug)]
pub(crate) struct Sort {
    /// Parts that are still to be sorted.
    parts: Vec<(i64, i64)>,
    low: i64,
    high: i64,
    i: i64,
    j: i64,
    point: Point,
    has_function: bool,
}

type Sorted<T> = std::result::Result<T, Raise>;

pub(super) fn sort(vm: &mut Vm, args: Args) -> Result {
    let table = vm.table_arg(args, 0)?;
    let has_function = !vm.arg(args, 1).is_nil();
    if has_function {
        vm.function_arg(args, 1)?;
    }
    let high = i64::from(vm.heap.border(table));
    vm.ensure_stack(args.base + 5)?;
    vm.thread.stack[args.base + 3] = Value::Nil;
    let mut sort = Box::new(Sort {
        parts: Vec::new(),
        low: 1,
        high,
        i: 0,
        j: 0,
        point: Point::Ends,
        has_function,
    });
    if !sort.begin() {
        return Ok(Flow::None);
    }
    compare_on(vm, sort, args.base, table)
}

/// A comparison has given what is in `values`, or the sort had paused.
pub(super) fn go_on(vm: &mut Vm, mut sort: Box<Sort>, base: usize) -> Result {
    let table = vm.table_arg(Args { base, count: 3 }, 0)?;
    if let Some(&result) = vm.values.first()
        && !sort.take(vm, base, table, result.is_truthy())?
    {
        return Ok(Flow::None);
    }
    compare_on(vm, sort, base, table)
}

fn get(vm: &Vm, table: TableRef, index: i64) -> Value {
    vm.heap.get_number(table, index as f64)
}

fn set(vm: &mut Vm, table: TableRef, index: i64, value: Value) -> Sorted<()> {
    vm.raw_set(table, Value::Number(index as f64), value)
}

fn swap(vm: &mut Vm, table: TableRef, a: i64, b: i64) -> Sorted<()> {
    let (x, y) = (get(vm, table, a), get(vm, table, b));
    set(vm, table, a, y)?;
    set(vm, table, b, x)
}

/// Compares until a function must be asked.
fn compare_on(vm: &mut Vm, mut sort: Box<Sort>, base: usize, table: TableRef) -> Result {
    loop {
        if vm.fuel.left <= 0 {
            return Ok(Flow::Pause(Waiting::Sort(sort)));
        }
        vm.charge(1);
        let pivot = vm.thread.stack[base + 3];
        let (a, b) = match sort.point {
            Point::Ends => (get(vm, table, sort.high), get(vm, table, sort.low)),
            Point::Low => (get(vm, table, sort.i), get(vm, table, sort.low)),
            Point::High => (get(vm, table, sort.high), get(vm, table, sort.i)),
            Point::Up => (get(vm, table, sort.i), pivot),
            Point::Down => (pivot, get(vm, table, sort.j)),
        };
        let function = if sort.has_function {
            vm.thread.stack[base + 2]
        } else if let Some(result) = vm.less(a, b) {
            if !sort.take(vm, base, table, result)? {
                return Ok(Flow::None);
            }
            continue;
        } else {
            match vm.order_handler(a, b, Event::Less) {
                Some(handler) => handler,
                None => {
                    let Raise::Message(message) = Vm::compare_error(a, b) else {
                        return Err(Vm::compare_error(a, b));
                    };
                    return Err(Raise::Bare(message));
                }
            }
        };
        vm.values.clear();
        vm.values.extend([a, b]);
        return Ok(Flow::Call {
            function,
            waiting: Waiting::Sort(sort),
        });
    }
}

impl Sort {
    /// Begins with the part from `low` to `high`, or another one if this has no two elements. False at the end.
    fn begin(&mut self) -> bool {
        while self.low >= self.high {
            let Some((low, high)) = self.parts.pop() else {
                return false;
            };
            (self.low, self.high) = (low, high);
        }
        self.point = Point::Ends;
        true
    }

    fn next_part(&mut self) -> bool {
        (self.low, self.high) = (1, 0);
        self.begin()
    }

    /// Goes on with the result of the comparison. False at the end.
    fn take(&mut self, vm: &mut Vm, base: usize, table: TableRef, is_less: bool) -> Sorted<bool> {
        match self.point {
            Point::Ends => {
                if is_less {
                    swap(vm, table, self.low, self.high)?;
                }
                if self.high - self.low == 1 {
                    return Ok(self.next_part());
                }
                self.i = i64::midpoint(self.low, self.high);
                self.point = Point::Low;
            }
            Point::Low => {
                if is_less {
                    swap(vm, table, self.i, self.low)?;
                    return self.middle(vm, base, table);
                }
                self.point = Point::High;
            }
            Point::High => {
                if is_less {
                    swap(vm, table, self.i, self.high)?;
                }
                return self.middle(vm, base, table);
            }
            Point::Up => {
                if is_less {
                    if self.i > self.high {
                        return Err(Raise::Text("invalid order function for sorting"));
                    }
                    self.i += 1;
                } else {
                    self.j -= 1;
                    self.point = Point::Down;
                }
            }
            Point::Down => {
                if is_less {
                    if self.j < self.low {
                        return Err(Raise::Text("invalid order function for sorting"));
                    }
                    self.j -= 1;
                } else if self.j < self.i {
                    return self.divide(vm, table);
                } else {
                    swap(vm, table, self.i, self.j)?;
                    self.i += 1;
                    self.point = Point::Up;
                }
            }
        }
        Ok(true)
    }

    /// The first, the middle and the last one are in order: the middle one is the pivot.
    fn middle(&mut self, vm: &mut Vm, base: usize, table: TableRef) -> Sorted<bool> {
        if self.high - self.low == 2 {
            return Ok(self.next_part());
        }
        vm.thread.stack[base + 3] = get(vm, table, self.i);
        swap(vm, table, self.i, self.high - 1)?;
        self.i = self.low + 1;
        self.j = self.high - 1;
        self.point = Point::Up;
        Ok(true)
    }

    /// The pivot goes to its place; the smaller part is sorted first.
    fn divide(&mut self, vm: &mut Vm, table: TableRef) -> Sorted<bool> {
        swap(vm, table, self.high - 1, self.i)?;
        let (left, right) = ((self.low, self.i - 1), (self.i + 1, self.high));
        let (smaller, larger) = if self.i - self.low < self.high - self.i {
            (left, right)
        } else {
            (right, left)
        };
        self.parts.push(larger);
        (self.low, self.high) = smaller;
        Ok(self.begin())
    }
}
