//! MessagePack, as lua-cmsgpack 0.4.0 reads and writes it.

use super::{Flow, Result};
use crate::raise::Raise;
use crate::value::{TableRef, Value};
use crate::vm::{Args, VALUES_MAX, Vm};

/// Tables within each other that are written; deeper ones are nil.
const NESTING_MAX: usize = 16;

/// Values within each other that are read.
const DEPTH_MAX: usize = 1_000;

type Made<T> = std::result::Result<T, Raise>;

struct Packer<'a> {
    vm: &'a Vm,
    out: Vec<u8>,
    work: usize,
}

pub(super) fn pack(vm: &mut Vm, args: Args) -> Result {
    if args.count == 0 {
        return Err(Raise::message(
            "bad argument #0 to 'pack' (MessagePack pack needs input.)",
        ));
    }
    let mut packer = Packer {
        vm,
        out: Vec::new(),
        work: 0,
    };
    for index in 0..args.count {
        packer.value(vm.arg(args, index), 0)?;
    }
    let (out, work) = (packer.out, packer.work);
    vm.charge(work + out.len() / 16);
    vm.heap.text(&out).map(Flow::One)
}

impl Packer<'_> {
    fn put(&mut self, marker: u8, bytes: &[u8]) {
        self.out.push(marker);
        self.out.extend_from_slice(bytes);
    }

    fn value(&mut self, value: Value, level: usize) -> Made<()> {
        self.work += 1;
        if self.vm.puts_off(self.work, self.out.len()) {
            return Err(Raise::Large);
        }
        if self.out.len().saturating_mul(2) > self.vm.heap.room() {
            return Err(Raise::Memory);
        }
        match value {
            Value::Str(string) => {
                let bytes = self.vm.heap.bytes(string);
                let length = bytes.len();
                self.vm.may_make(length)?;
                match length {
                    0..32 => self.out.push(0xa0 | length as u8),
                    32..=0xff => self.put(0xd9, &[length as u8]),
                    0x100..=0xffff => self.put(0xda, &(length as u16).to_be_bytes()),
                    _ => self.put(0xdb, &(length as u32).to_be_bytes()),
                }
                self.out.extend_from_slice(bytes);
            }
            Value::Bool(bit) => self.out.push(if bit { 0xc3 } else { 0xc2 }),
            Value::Number(n) => self.number(n),
            Value::Table(table) if level < NESTING_MAX => self.table(table, level)?,
            Value::Nil
            | Value::Table(_)
            | Value::Closure(_)
            | Value::Native(_)
            | Value::Bound(_)
            | Value::Thread(_)
            | Value::Null => self.out.push(0xc0),
        }
        Ok(())
    }

    fn number(&mut self, n: f64) {
        let whole = n as i64;
        if n.is_finite() && n == n.trunc() && whole as f64 == n && n < 9_223_372_036_854_775_808.0 {
            return self.integer(whole);
        }
        let short = n as f32;
        if f64::from(short) == n {
            self.put(0xca, &short.to_be_bytes());
        } else {
            self.put(0xcb, &n.to_be_bytes());
        }
    }

    fn integer(&mut self, n: i64) {
        match n {
            0..=127 => self.out.push(n as u8),
            128..=0xff => self.put(0xcc, &[n as u8]),
            0x100..=0xffff => self.put(0xcd, &(n as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.put(0xce, &(n as u32).to_be_bytes()),
            0x1_0000_0000.. => self.put(0xcf, &n.to_be_bytes()),
            -32..0 => self.out.push(n as u8),
            -128..-32 => self.put(0xd0, &[n as u8]),
            -32_768..-128 => self.put(0xd1, &(n as i16).to_be_bytes()),
            -2_147_483_648..-32_768 => self.put(0xd2, &(n as i32).to_be_bytes()),
            _ => self.put(0xd3, &n.to_be_bytes()),
        }
    }

    fn count(&mut self, count: usize, short: u8, long: u8) {
        match count {
            0..16 => self.out.push(short | count as u8),
            16..=0xffff => self.put(long, &(count as u16).to_be_bytes()),
            _ => self.put(long + 1, &(count as u32).to_be_bytes()),
        }
    }

    fn is_array(&self, table: TableRef) -> bool {
        let (mut max, mut count) = (0.0_f64, 0.0_f64);
        for (key, _) in self.vm.heap.table(table).entries() {
            match key {
                Value::Number(n) if n > 0.0 && n == n.trunc() && n <= f64::from(i32::MAX) => {
                    max = max.max(n);
                    count += 1.0;
                }
                _ => return false,
            }
        }
        max == count
    }

    fn table(&mut self, table: TableRef, level: usize) -> Made<()> {
        self.work += self.vm.heap.table(table).places() / 4;
        if self.is_array(table) {
            let length = self.vm.heap.border(table);
            self.count(length as usize, 0x90, 0xdc);
            for index in 1..=length {
                self.value(self.vm.heap.get_index(table, index), level + 1)?;
            }
            return Ok(());
        }
        self.count(self.vm.heap.table(table).entries().count(), 0x80, 0xde);
        let mut from = 0;
        while let Some((next, key, value)) = self.vm.heap.table(table).entry_from(from) {
            from = next;
            self.value(key, level + 1)?;
            self.value(value, level + 1)?;
        }
        Ok(())
    }
}

// ---- reading

/// Why bytes are no value.
enum Bad {
    Missing,
    Format,
    Raise(Raise),
}

impl From<Raise> for Bad {
    fn from(raise: Raise) -> Self {
        Self::Raise(raise)
    }
}

struct Unpacker<'a> {
    vm: &'a mut Vm,
    bytes: &'a [u8],
    work: usize,
}

pub(super) fn unpack(vm: &mut Vm, args: Args) -> Result {
    unpack_some(vm, args, 0, 0)
}

pub(super) fn unpack_one(vm: &mut Vm, args: Args) -> Result {
    let offset = vm.optional_integer(args, 1, 0)? as i32;
    unpack_some(vm, args, 1, offset)
}

pub(super) fn unpack_limit(vm: &mut Vm, args: Args) -> Result {
    let limit = vm.integer_arg(args, 1)? as i32;
    let offset = vm.optional_integer(args, 2, 0)? as i32;
    unpack_some(vm, args, limit, offset)
}

fn unpack_some(vm: &mut Vm, args: Args, limit: i32, offset: i32) -> Result {
    let bytes = vm.bytes_arg(args, 0)?;
    if offset < 0 || limit < 0 {
        return Err(Raise::message(format!(
            "Invalid request to unpack with offset of {offset} and limit of {limit}."
        )));
    }
    if offset as usize > bytes.len() {
        return Err(Raise::message(format!(
            "Start offset {offset} greater than input length {}.",
            bytes.len()
        )));
    }
    vm.may_parse(bytes.len() - offset as usize)?;
    let is_all = limit == 0 && offset == 0;
    let limit = if is_all { usize::MAX } else { limit as usize };
    let mut unpacker = Unpacker {
        vm,
        bytes: &bytes[offset as usize..],
        work: 0,
    };
    let mut values = Vec::new();
    while !unpacker.bytes.is_empty() && values.len() < limit {
        if values.len() >= VALUES_MAX {
            return Err(Raise::Text("stack overflow (in function mp_unpack)"));
        }
        match unpacker.value(0) {
            Ok(value) => values.push(value),
            Err(Bad::Missing) => return Err(Raise::Text("Missing bytes in input.")),
            Err(Bad::Format) => return Err(Raise::Text("Bad data format in input.")),
            Err(Bad::Raise(raise)) => return Err(raise),
        }
    }
    let (left, work) = (unpacker.bytes.len(), unpacker.work);
    vm.charge(work + bytes.len() / 32);
    if !is_all {
        let next = if left == 0 {
            -1.0
        } else {
            (bytes.len() - left) as f64
        };
        values.insert(0, Value::Number(next));
    }
    vm.values = values;
    Ok(Flow::Values)
}

impl Unpacker<'_> {
    fn take(&mut self, count: usize) -> std::result::Result<&[u8], Bad> {
        if count > self.bytes.len() {
            return Err(Bad::Missing);
        }
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(taken)
    }

    fn array_of<const N: usize>(&mut self) -> std::result::Result<[u8; N], Bad> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn text(&mut self, length: usize) -> std::result::Result<Value, Bad> {
        let bytes = self.bytes;
        self.take(length)?;
        Ok(self.vm.heap.text(&bytes[..length])?)
    }

    fn value(&mut self, depth: usize) -> std::result::Result<Value, Bad> {
        self.work += 1;
        let [marker] = self.array_of()?;
        Ok(match marker {
            0x00..=0x7f => Value::Number(f64::from(marker)),
            0xe0..=0xff => Value::Number(f64::from(marker as i8)),
            0x80..=0x8f => self.map(usize::from(marker & 0xf), depth)?,
            0x90..=0x9f => self.array(usize::from(marker & 0xf), depth)?,
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xca => Value::Number(f64::from(f32::from_be_bytes(self.array_of()?))),
            0xcb => Value::Number(f64::from_be_bytes(self.array_of()?)),
            0xcc => Value::Number(f64::from(u8::from_be_bytes(self.array_of()?))),
            0xcd => Value::Number(f64::from(u16::from_be_bytes(self.array_of()?))),
            0xce => Value::Number(f64::from(u32::from_be_bytes(self.array_of()?))),
            // Signed, as the library gives it.
            0xcf => Value::Number(i64::from_be_bytes(self.array_of()?) as f64),
            0xd0 => Value::Number(f64::from(i8::from_be_bytes(self.array_of()?))),
            0xd1 => Value::Number(f64::from(i16::from_be_bytes(self.array_of()?))),
            0xd2 => Value::Number(f64::from(i32::from_be_bytes(self.array_of()?))),
            0xd3 => Value::Number(i64::from_be_bytes(self.array_of()?) as f64),
            0xc4 | 0xd9 => {
                let length = u8::from_be_bytes(self.array_of()?);
                self.text(usize::from(length))?
            }
            0xc5 | 0xda => {
                let length = u16::from_be_bytes(self.array_of()?);
                self.text(usize::from(length))?
            }
            0xc6 | 0xdb => {
                let length = u32::from_be_bytes(self.array_of()?);
                self.text(length as usize)?
            }
            0xdc => {
                let count = u16::from_be_bytes(self.array_of()?);
                self.array(usize::from(count), depth)?
            }
            0xdd => {
                let count = u32::from_be_bytes(self.array_of()?);
                self.array(count as usize, depth)?
            }
            0xde => {
                let count = u16::from_be_bytes(self.array_of()?);
                self.map(usize::from(count), depth)?
            }
            0xdf => {
                let count = u32::from_be_bytes(self.array_of()?);
                self.map(count as usize, depth)?
            }
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(Bad::Format),
        })
    }

    /// The number of elements is what somebody wrote: nothing is made for those that do not come.
    fn array(&mut self, count: usize, depth: usize) -> std::result::Result<Value, Bad> {
        if depth > DEPTH_MAX {
            return Err(Raise::Text("stack overflow (in function mp_decode_to_lua_array)").into());
        }
        let table = self.vm.heap.add_table(0, 0)?;
        for index in 1..=count {
            let value = self.value(depth + 1)?;
            self.vm.heap.set(table, Value::Number(index as f64), value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> std::result::Result<Value, Bad> {
        if depth > DEPTH_MAX {
            return Err(Raise::Text("stack overflow (in function mp_decode_to_lua_hash)").into());
        }
        let table = self.vm.heap.add_table(0, 0)?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err(Raise::Bare(b"table index is nil".to_vec()).into()),
                Value::Number(n) if n.is_nan() => {
                    return Err(Raise::Bare(b"table index is NaN".to_vec()).into());
                }
                _ => self.vm.heap.set(table, key, value)?,
            }
            self.vm.heap.check_steps()?;
        }
        Ok(Value::Table(table))
    }
}
