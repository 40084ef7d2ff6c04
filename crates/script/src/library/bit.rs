//! Mike Pall's `bit`: numbers as 32 bits, with a sign.

use super::{Flow, Result};
use crate::native::Native;
use crate::raise::Raise;
use crate::value::Value;
use crate::vm::{Args, Vm};

/// Adding this leaves a whole number in the low bits of a double, wrapped around as the library does it.
const MAGIC: f64 = 6_755_399_441_055_744.0;

fn bits(vm: &Vm, args: Args, index: usize) -> std::result::Result<u32, Raise> {
    let n = vm.number_arg(args, index)?;
    Ok((n + MAGIC).to_bits() as u32)
}

fn give(bits: u32) -> Result {
    Ok(Flow::One(Value::Number(f64::from(bits as i32))))
}

pub(super) fn to_bit(vm: &mut Vm, args: Args) -> Result {
    give(bits(vm, args, 0)?)
}

pub(super) fn not(vm: &mut Vm, args: Args) -> Result {
    give(!bits(vm, args, 0)?)
}

pub(super) fn swap(vm: &mut Vm, args: Args) -> Result {
    give(bits(vm, args, 0)?.swap_bytes())
}

pub(super) fn combine(vm: &mut Vm, native: Native, args: Args) -> Result {
    let mut result = bits(vm, args, 0)?;
    for index in 1..args.count {
        let other = bits(vm, args, index)?;
        result = match native {
            Native::BitBand => result & other,
            Native::BitBor => result | other,
            _ => result ^ other,
        };
    }
    give(result)
}

pub(super) fn shift(vm: &mut Vm, native: Native, args: Args) -> Result {
    let (n, by) = (bits(vm, args, 0)?, bits(vm, args, 1)? & 31);
    give(match native {
        Native::BitArshift => ((n as i32) >> by) as u32,
        Native::BitLshift => n << by,
        Native::BitRshift => n >> by,
        Native::BitRol => n.rotate_left(by),
        _ => n.rotate_right(by),
    })
}

/// `bit.tohex(x [, n])`. The number of digits is whatever a script says: in C the least of all integers overflowed the buffer.
pub(super) fn to_hex(vm: &mut Vm, args: Args) -> Result {
    let n = bits(vm, args, 0)?;
    let digits = if args.count < 2 {
        8
    } else {
        bits(vm, args, 1)? as i32
    };
    let text = format!("{n:08x}");
    let text = if digits < 0 { text.to_uppercase() } else { text };
    let count = digits.unsigned_abs().min(8) as usize;
    vm.heap.text(&text.as_bytes()[8 - count..]).map(Flow::One)
}
