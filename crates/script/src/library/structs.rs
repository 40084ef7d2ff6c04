//! Roberto Ierusalimschy's `struct`, as Redis has it.

use super::{Flow, Result};
use crate::raise::Raise;
use crate::value::Value;
use crate::vm::{Args, VALUES_MAX, Vm};

/// Bytes of an integer.
const INTEGER_MAX: usize = 32;

/// What `!` alone aligns to.
const ALIGN: usize = 8;

type Made<T> = std::result::Result<T, Raise>;

struct Format<'a> {
    text: &'a [u8],
    at: usize,
    is_little: bool,
    align: usize,
}

/// An option, and how many bytes it takes.
struct Item {
    option: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        // A string of C.
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Self {
            text: &text[..end],
            at: 0,
            is_little: true,
            align: 1,
        }
    }

    fn number(&mut self, default: usize) -> Made<usize> {
        if !self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut n: i32 = 0;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at).copied() {
            let next = n
                .checked_mul(10)
                .and_then(|n| n.checked_add(i32::from(digit - b'0')));
            n = next.ok_or(Raise::Text("integral size overflow"))?;
            self.at += 1;
        }
        Ok(n as usize)
    }

    fn next(&mut self) -> Made<Option<Item>> {
        let Some(&option) = self.text.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_MAX {
                    return Err(Raise::message(format!(
                        "integral size {size} is larger than limit of {INTEGER_MAX}"
                    )));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    fn padding(&self, length: usize, item: &Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        if size == 0 {
            return 0;
        }
        size.wrapping_sub(length & (size - 1)) & (size - 1)
    }

    fn control(&mut self, option: u8) -> Made<()> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let align = self.number(ALIGN)?;
                if !align.is_power_of_two() {
                    return Err(Raise::message(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            other => {
                let mut text = b"invalid format option '".to_vec();
                text.extend_from_slice(&[other, b'\'']);
                return Err(Raise::Message(text));
            }
        }
        Ok(())
    }
}

fn is_integer(option: u8) -> bool {
    matches!(
        option,
        b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I'
    )
}

/// The first argument that is missing is nil: the library puts one behind them.
fn number(vm: &Vm, args: Args, index: usize) -> Made<f64> {
    if index == args.count {
        return Err(vm.bad_argument(args, index, "number expected, got nil"));
    }
    vm.number_arg(args, index)
}

pub(super) fn pack(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    vm.may_parse(text.len())?;
    let mut format = Format::new(&text);
    let mut out: Vec<u8> = Vec::new();
    let mut arg = 1;
    while let Some(item) = format.next()? {
        vm.may_make(out.len())?;
        let padding = format.padding(out.len(), &item);
        out.resize(out.len() + padding, 0);
        match item.option {
            option if is_integer(option) => {
                let n = number(vm, args, arg)?;
                arg += 1;
                let mut value = if n < 0.0 { n as i64 as u64 } else { n as u64 };
                let start = out.len();
                for _ in 0..item.size {
                    out.push(value as u8);
                    value >>= 8;
                }
                if !format.is_little {
                    out[start..].reverse();
                }
            }
            b'x' => out.push(0),
            b'f' => {
                let n = number(vm, args, arg)? as f32;
                arg += 1;
                out.extend_from_slice(&if format.is_little {
                    n.to_le_bytes()
                } else {
                    n.to_be_bytes()
                });
            }
            b'd' => {
                let n = number(vm, args, arg)?;
                arg += 1;
                out.extend_from_slice(&if format.is_little {
                    n.to_le_bytes()
                } else {
                    n.to_be_bytes()
                });
            }
            b'c' | b's' => {
                let bytes = vm.bytes_arg(args, arg)?;
                arg += 1;
                let size = if item.size == 0 { bytes.len() } else { item.size };
                if bytes.len() < size {
                    return Err(vm.bad_argument(args, arg, "string too short"));
                }
                if (out.len() + size).saturating_mul(2) > vm.heap.room() {
                    return Err(Raise::Memory);
                }
                out.extend_from_slice(&bytes[..size]);
                if item.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(option)?,
        }
    }
    vm.charge(text.len() + out.len() / 32);
    vm.heap.text(&out).map(Flow::One)
}

fn read_integer(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let mut value: u64 = 0;
    let push = |value: u64, byte: &u8| value.wrapping_shl(8) | u64::from(*byte);
    if is_little {
        value = bytes.iter().rev().fold(value, push);
    } else {
        value = bytes.iter().fold(value, push);
    }
    if !is_signed {
        return value as f64;
    }
    if let bits @ 1..64 = bytes.len() * 8 {
        let unused = 64 - bits;
        return ((value << unused) as i64 >> unused) as f64;
    }
    value as i64 as f64
}

pub(super) fn unpack(vm: &mut Vm, args: Args) -> Result {
    let (text, data) = (vm.bytes_arg(args, 0)?, vm.bytes_arg(args, 1)?);
    vm.may_parse(text.len())?;
    let from = vm.optional_integer(args, 2, 1)?;
    if from < 1 {
        return Err(vm.bad_argument(args, 2, "offset must be 1 or greater"));
    }
    let mut at = usize::try_from(from - 1).unwrap_or(usize::MAX);
    let mut format = Format::new(&text);
    let mut values: Vec<Value> = Vec::new();
    let fits = |at: usize, size: usize| size <= data.len() && at <= data.len() - size;
    while let Some(mut item) = format.next()? {
        at = at.saturating_add(format.padding(at, &item));
        if !fits(at, item.size) {
            return Err(vm.bad_argument(args, 1, "data string too short"));
        }
        if values.len() + 2 >= VALUES_MAX {
            return Err(Raise::Text("stack overflow (too many results)"));
        }
        match item.option {
            option if is_integer(option) => {
                let bytes = &data[at..at + item.size];
                let n = read_integer(bytes, format.is_little, option.is_ascii_lowercase());
                values.push(Value::Number(n));
            }
            b'x' => {}
            b'f' => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&data[at..at + 4]);
                let n = if format.is_little {
                    f32::from_le_bytes(bytes)
                } else {
                    f32::from_be_bytes(bytes)
                };
                values.push(Value::Number(f64::from(n)));
            }
            b'd' => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&data[at..at + 8]);
                let n = if format.is_little {
                    f64::from_le_bytes(bytes)
                } else {
                    f64::from_be_bytes(bytes)
                };
                values.push(Value::Number(n));
            }
            b'c' => {
                if item.size == 0 {
                    let Some(size) = values.last().and_then(|&value| vm.to_number(value)) else {
                        return Err(Raise::Text("format 'c0' needs a previous size"));
                    };
                    values.pop();
                    item.size = size as usize;
                    if size < 0.0 || !fits(at, item.size) {
                        return Err(vm.bad_argument(args, 1, "data string too short"));
                    }
                }
                let value = vm.heap.text(&data[at..at + item.size])?;
                values.push(value);
            }
            b's' => {
                let rest = &data[at..];
                let Some(length) = rest.iter().position(|&byte| byte == 0) else {
                    return Err(Raise::Text("unfinished string in data"));
                };
                let value = vm.heap.text(&rest[..length])?;
                values.push(value);
                item.size = length + 1;
            }
            option => format.control(option)?,
        }
        at += item.size;
    }
    values.push(Value::Number((at + 1) as f64));
    vm.charge(text.len() + data.len() / 64);
    vm.values = values;
    Ok(Flow::Values)
}

pub(super) fn size(vm: &mut Vm, args: Args) -> Result {
    let text = vm.bytes_arg(args, 0)?;
    vm.may_parse(text.len())?;
    let mut format = Format::new(&text);
    let mut at = 0usize;
    while let Some(item) = format.next()? {
        at += format.padding(at, &item);
        match item.option {
            b's' => return Err(vm.bad_argument(args, 0, "variable-size format 's'")),
            b'c' if item.size == 0 => return Err(vm.bad_argument(args, 0, "variable-size format 'c0'")),
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        at = at.saturating_add(item.size);
    }
    Ok(Flow::One(Value::Number(at as f64)))
}
