//! `string.format`.

use super::{Flow, Result};
use crate::number::{Directive, to_i64};
use crate::raise::Raise;
use crate::vm::{Args, Vm};

/// Digits that a width or a precision has at most.
const DIGITS_MAX: usize = 2;

/// Flags of one directive.
const FLAGS_MAX: usize = 5;

/// What stands behind a percent sign, and its length.
fn directive(text: &[u8]) -> std::result::Result<(Directive, usize), Raise> {
    let mut found = Directive::default();
    let mut at = 0;
    while let Some(byte @ (b'-' | b'+' | b' ' | b'#' | b'0')) = text.get(at).copied() {
        match byte {
            b'-' => found.is_left = true,
            b'+' => found.has_plus = true,
            b' ' => found.has_space = true,
            b'#' => found.is_alternate = true,
            _ => found.has_zeros = true,
        }
        at += 1;
    }
    if at > FLAGS_MAX {
        return Err(Raise::Text("invalid format (repeated flags)"));
    }
    let digits = |at: &mut usize| {
        let mut n = 0;
        let mut count = 0;
        while count < DIGITS_MAX
            && let Some(byte @ b'0'..=b'9') = text.get(*at).copied()
        {
            n = n * 10 + usize::from(byte - b'0');
            *at += 1;
            count += 1;
        }
        n
    };
    found.width = digits(&mut at);
    if text.get(at) == Some(&b'.') {
        at += 1;
        found.precision = Some(digits(&mut at));
    }
    if text.get(at).is_some_and(u8::is_ascii_digit) {
        return Err(Raise::Text("invalid format (width or precision too long)"));
    }
    Ok((found, at))
}

pub(super) fn format(vm: &mut Vm, args: Args) -> Result {
    let format = vm.bytes_arg(args, 0)?;
    vm.may_parse(format.len())?;
    let mut out = Vec::new();
    // Bytes of numbers, which take longer than those that are copied.
    let mut of_numbers = 0;
    let mut at = 0;
    let mut arg = 0;
    while at < format.len() {
        let byte = format[at];
        at += 1;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        if format.get(at) == Some(&b'%') {
            out.push(b'%');
            at += 1;
            continue;
        }
        let (found, length) = directive(&format[at..])?;
        at += length;
        let letter = format.get(at).copied().unwrap_or(0);
        at += 1;
        arg += 1;
        if arg >= args.count {
            return Err(vm.bad_argument(args, arg, "no value"));
        }
        let before = out.len();
        let is_number = !matches!(letter, b'q' | b's');
        if is_number {
            vm.may_parse(of_numbers)?;
        }
        match letter {
            b'c' => {
                let byte = vm.integer_arg(args, arg)? as u8;
                let start = out.len();
                found.pad(&mut out, &[byte], false);
                // C's formatting ends at a zero.
                if let Some(zero) = out[start..].iter().position(|&byte| byte == 0) {
                    out.truncate(start + zero);
                }
            }
            b'd' | b'i' => found.decimal(&mut out, to_i64(vm.number_arg(args, arg)?)),
            b'o' | b'u' | b'x' | b'X' => {
                let n = vm.number_arg(args, arg)?;
                // C converts to an unsigned number; what does not fit is taken modulo 2^64, as far as it says anything.
                let n = if n >= 9_223_372_036_854_775_808.0 {
                    n as u64
                } else {
                    to_i64(n) as u64
                };
                found.unsigned(&mut out, n, letter);
            }
            b'e' | b'E' | b'f' | b'g' | b'G' => found.float(&mut out, vm.number_arg(args, arg)?, letter),
            b'q' => {
                let text = vm.bytes_arg(args, arg)?;
                vm.may_make(out.len() + text.len())?;
                quote(&mut out, &text);
            }
            b's' => {
                let text = vm.bytes_arg(args, arg)?;
                vm.may_make(out.len() + text.len())?;
                if found.precision.is_none() && text.len() >= 100 {
                    out.extend_from_slice(&text);
                } else {
                    // C's formatting ends at a zero, and at the precision.
                    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
                    let end = found.precision.map_or(end, |precision| precision.min(end));
                    found.pad(&mut out, &text[..end], false);
                }
            }
            other => {
                let name = if other == 0 {
                    String::new()
                } else {
                    String::from_utf8_lossy(&[other]).into_owned()
                };
                return Err(Raise::message(format!("invalid option '%{name}' to 'format'")));
            }
        }
        if is_number {
            of_numbers += out.len() - before;
        }
        if out.len().saturating_mul(2) > vm.heap.room() {
            return Err(Raise::Memory);
        }
    }
    vm.charge(out.len() / 32 + of_numbers / 8);
    vm.heap.text(&out).map(Flow::One)
}

fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'\n' => out.extend_from_slice(&[b'\\', byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\000"),
            other => out.push(other),
        }
    }
    out.push(b'"');
}
