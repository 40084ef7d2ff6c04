//! JSON, as lua-cjson 2.1.0 reads and writes it.
//!
//! Settings last for one run: in Redis they outlive it, and one script changes what another one gets.

use super::{Flow, Result};
use crate::native::Native;
use crate::number;
use crate::raise::Raise;
use crate::value::{TableRef, Value};
use crate::vm::{Args, Vm};

/// Values within each other, whatever a script sets: this process has a stack too.
const DEPTH_MAX: usize = 2_000;

/// Bytes of a text that are written before somebody looks whether there is room for more: each may become six.
const TEXT_BYTES_AT_ONCE: usize = 64 * 1024;

/// What scripts can set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    convert_sparse: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    decode_depth: i32,
    precision: i32,
    keep_buffer: bool,
    /// 0 is an error, 1 writes them, 2 writes null.
    encode_invalid: u8,
    decode_invalid: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            convert_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1_000,
            decode_depth: 1_000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: 0,
            decode_invalid: true,
        }
    }
}

type Made<T> = std::result::Result<T, Raise>;

// ---- settings

fn integer(vm: &Vm, args: Args, index: usize, now: i32, least: i32, most: i32) -> Made<i32> {
    if vm.arg(args, index).is_nil() {
        return Ok(now);
    }
    let n = vm.integer_arg(args, index)? as i32;
    if !(least..=most).contains(&n) {
        let what = format!("expected integer between {least} and {most}");
        return Err(vm.bad_argument(args, index, &what));
    }
    Ok(n)
}

fn choice(vm: &Vm, args: Args, index: usize, now: u8, options: &[&str]) -> Made<u8> {
    match vm.arg(args, index) {
        Value::Nil => Ok(now),
        Value::Bool(bit) => Ok(u8::from(bit)),
        _ => {
            let word = vm.bytes_arg(args, index)?;
            match options.iter().position(|option| option.as_bytes() == &word[..]) {
                Some(place) => Ok(place as u8),
                None => {
                    let what = format!("invalid option '{}'", String::from_utf8_lossy(&word));
                    Err(vm.bad_argument(args, index, &what))
                }
            }
        }
    }
}

pub(super) fn set(vm: &mut Vm, native: Native, args: Args) -> Result {
    let wanted = if native == Native::CjsonEncodeSparseArray {
        3
    } else {
        1
    };
    if args.count > wanted {
        return Err(vm.bad_argument(args, wanted, "found too many arguments"));
    }
    let mut settings = vm.session.cjson;
    let result = match native {
        Native::CjsonEncodeSparseArray => {
            settings.convert_sparse =
                choice(vm, args, 0, u8::from(settings.convert_sparse), &["off", "on"])? == 1;
            settings.sparse_ratio = integer(vm, args, 1, settings.sparse_ratio, 0, i32::MAX)?;
            settings.sparse_safe = integer(vm, args, 2, settings.sparse_safe, 0, i32::MAX)?;
            vm.session.cjson = settings;
            vm.values.clear();
            vm.values.extend([
                Value::Bool(settings.convert_sparse),
                Value::Number(f64::from(settings.sparse_ratio)),
                Value::Number(f64::from(settings.sparse_safe)),
            ]);
            return Ok(Flow::Values);
        }
        Native::CjsonEncodeMaxDepth => {
            settings.encode_depth = integer(vm, args, 0, settings.encode_depth, 1, i32::MAX)?;
            Value::Number(f64::from(settings.encode_depth))
        }
        Native::CjsonDecodeMaxDepth => {
            settings.decode_depth = integer(vm, args, 0, settings.decode_depth, 1, i32::MAX)?;
            Value::Number(f64::from(settings.decode_depth))
        }
        Native::CjsonEncodeNumberPrecision => {
            settings.precision = integer(vm, args, 0, settings.precision, 1, 14)?;
            Value::Number(f64::from(settings.precision))
        }
        Native::CjsonEncodeKeepBuffer => {
            settings.keep_buffer = choice(vm, args, 0, u8::from(settings.keep_buffer), &["off", "on"])? == 1;
            Value::Bool(settings.keep_buffer)
        }
        Native::CjsonEncodeInvalidNumbers => {
            settings.encode_invalid = choice(vm, args, 0, settings.encode_invalid, &["off", "on", "null"])?;
            match settings.encode_invalid {
                2 => vm.heap.text(b"null")?,
                other => Value::Bool(other == 1),
            }
        }
        _ => {
            settings.decode_invalid =
                choice(vm, args, 0, u8::from(settings.decode_invalid), &["off", "on"])? == 1;
            Value::Bool(settings.decode_invalid)
        }
    };
    vm.session.cjson = settings;
    Ok(Flow::One(result))
}

/// A module of its own; its settings are those of all.
pub(super) fn new(vm: &mut Vm) -> Result {
    let table = vm.heap.add_table(0, 16)?;
    for &(library, name, native) in Native::ALL {
        if library == "cjson" {
            let name = vm.heap.text(name.as_bytes())?;
            vm.heap.set(table, name, Value::Native(native))?;
        }
    }
    let null = vm.heap.text(b"null")?;
    vm.heap.set(table, null, Value::Null)?;
    Ok(Flow::One(Value::Table(table)))
}

// ---- writing

struct Encoder<'a> {
    vm: &'a Vm,
    settings: Settings,
    out: Vec<u8>,
    /// Values that were looked at.
    work: usize,
}

pub(super) fn encode(vm: &mut Vm, args: Args) -> Result {
    if args.count != 1 {
        return Err(vm.bad_argument(args, 0, "expected 1 argument"));
    }
    let mut encoder = Encoder {
        vm,
        settings: vm.session.cjson,
        out: Vec::new(),
        work: 0,
    };
    encoder.value(vm.arg(args, 0), 0)?;
    let (out, work) = (encoder.out, encoder.work);
    vm.charge(work + out.len() / 16);
    vm.heap.text(&out).map(Flow::One)
}

fn cannot(what: &str, why: &str) -> Raise {
    Raise::message(format!("Cannot serialise {what}: {why}"))
}

impl Encoder<'_> {
    fn value(&mut self, value: Value, depth: usize) -> Made<()> {
        self.work += 1;
        if self.vm.puts_off(self.work, self.out.len()) {
            return Err(Raise::Large);
        }
        self.check_room()?;
        match value {
            Value::Str(string) => return self.text(self.vm.heap.bytes(string)),
            Value::Number(n) => return self.number(n),
            Value::Bool(bit) => self.out.extend_from_slice(if bit { b"true" } else { b"false" }),
            Value::Nil | Value::Null => self.out.extend_from_slice(b"null"),
            Value::Table(table) => return self.table(table, depth + 1),
            other => return Err(cannot(other.type_name(), "type not supported")),
        }
        Ok(())
    }

    /// What is written becomes a string, and stands twice while it does.
    fn check_room(&self) -> Made<()> {
        match self.out.len().saturating_mul(2) > self.vm.heap.room() {
            true => Err(Raise::Memory),
            false => Ok(()),
        }
    }

    /// A string, which is a value or a key.
    fn text(&mut self, text: &[u8]) -> Made<()> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.vm.may_parse(text.len())?;
        self.out.push(b'"');
        for (index, &byte) in text.iter().enumerate() {
            if index % TEXT_BYTES_AT_ONCE == TEXT_BYTES_AT_ONCE - 1 {
                self.check_room()?;
            }
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                9 => self.out.extend_from_slice(b"\\t"),
                10 => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                13 => self.out.extend_from_slice(b"\\r"),
                0..32 | 127 => {
                    let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend_from_slice(&digits);
                }
                other => self.out.push(other),
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    fn number(&mut self, n: f64) -> Made<()> {
        if !n.is_finite() {
            match self.settings.encode_invalid {
                0 => return Err(cannot("number", "must not be NaN or Inf")),
                1 => {}
                _ => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
            }
        }
        number::push_significant(&mut self.out, n, self.settings.precision as usize);
        Ok(())
    }

    /// How long a table is as an array; `None` if it is an object.
    fn array_length(&self, table: TableRef) -> Made<Option<usize>> {
        let (mut max, mut items) = (0.0_f64, 0.0_f64);
        for (key, _) in self.vm.heap.table(table).entries() {
            match key {
                Value::Number(n) if n >= 1.0 && n.floor() == n => {
                    max = max.max(n);
                    items += 1.0;
                }
                _ => return Ok(None),
            }
        }
        let settings = self.settings;
        if settings.sparse_ratio > 0
            && max > items * f64::from(settings.sparse_ratio)
            && max > f64::from(settings.sparse_safe)
        {
            if !settings.convert_sparse {
                return Err(cannot("table", "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(max as usize))
    }

    fn table(&mut self, table: TableRef, depth: usize) -> Made<()> {
        if depth > self.settings.encode_depth as usize || depth > DEPTH_MAX {
            return Err(Raise::message(format!(
                "Cannot serialise, excessive depth ({depth})"
            )));
        }
        self.work += self.vm.heap.table(table).places() / 4;
        if let Some(length @ 1..) = self.array_length(table)? {
            self.out.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    self.out.push(b',');
                }
                self.value(self.vm.heap.get_number(table, index as f64), depth)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let mut is_first = true;
        let mut from = 0;
        while let Some((next, key, value)) = self.vm.heap.table(table).entry_from(from) {
            from = next;
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match key {
                Value::Number(n) => {
                    self.out.push(b'"');
                    self.number(n)?;
                    self.out.push(b'"');
                }
                Value::Str(string) => self.text(self.vm.heap.bytes(string))?,
                other => return Err(cannot(other.type_name(), "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

// ---- reading

/// A token, with what it holds.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Bool(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Bool(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(what) => what,
        }
    }
}

struct Decoder<'a> {
    vm: &'a mut Vm,
    text: &'a [u8],
    at: usize,
    /// Where the last token begins.
    start: usize,
    settings: Settings,
    work: usize,
}

pub(super) fn decode(vm: &mut Vm, args: Args) -> Result {
    if args.count != 1 {
        return Err(vm.bad_argument(args, 0, "expected 1 argument"));
    }
    let text = vm.bytes_arg(args, 0)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Raise::Text("JSON parser does not support UTF-16 or UTF-32"));
    }
    vm.may_parse(text.len())?;
    let settings = vm.session.cjson;
    let mut decoder = Decoder {
        vm,
        text: &text,
        at: 0,
        start: 0,
        settings,
        work: 0,
    };
    let token = decoder.next();
    let value = decoder.value(token, 0)?;
    let end = decoder.next();
    if end != Token::End {
        return Err(decoder.expected("the end", &end));
    }
    let work = decoder.work;
    vm.charge(work + text.len() / 8);
    Ok(Flow::One(value))
}

impl Decoder<'_> {
    /// The text is a string of C: a zero is its end.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn expected(&self, what: &str, found: &Token) -> Raise {
        Raise::message(format!(
            "Expected {what} but found {} at character {}",
            found.name(),
            self.start + 1
        ))
    }

    fn error(&mut self, what: &'static str) -> Token {
        self.start = self.at;
        Token::Error(what)
    }

    fn next(&mut self) -> Token {
        self.work += 1;
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let byte = self.byte(self.at);
        let simple = match byte {
            0 => return Token::End,
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.settings.decode_invalid && self.is_odd_number() {
                    return self.error("invalid number");
                }
                return self.number();
            }
            b't' | b'f' | b'n' | b'N' | b'i' | b'I' | b'+' => {
                let rest = &self.text[self.at..];
                for (word, token) in [
                    (&b"true"[..], Token::Bool(true)),
                    (&b"false"[..], Token::Bool(false)),
                    (&b"null"[..], Token::Null),
                ] {
                    if rest.starts_with(word) {
                        self.at += word.len();
                        return token;
                    }
                }
                if self.settings.decode_invalid && self.is_odd_number() {
                    return self.number();
                }
                return self.error("invalid token");
            }
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        simple
    }

    /// What C reads as a number, and JSON does not.
    fn is_odd_number(&self) -> bool {
        let mut at = self.at;
        if self.byte(at) == b'+' {
            return true;
        }
        if self.byte(at) == b'-' {
            at += 1;
        }
        if self.byte(at) == b'0' {
            let second = self.byte(at + 1);
            return second | 0x20 == b'x' || second.is_ascii_digit();
        }
        if self.byte(at) <= b'9' {
            return false;
        }
        let word = self.text.get(at..at + 3).unwrap_or_default();
        word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
    }

    fn number(&mut self) -> Token {
        match number::parse_prefix(&self.text[self.at..]) {
            Some((n, length)) => {
                self.at += length;
                Token::Number(n)
            }
            None => self.error("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = self.byte(self.at);
            match byte {
                b'"' => {
                    self.at += 1;
                    return Token::Text(out);
                }
                0 => return self.error("unexpected end of string"),
                b'\\' => {
                    let plain = match self.byte(self.at + 1) {
                        escaped @ (b'"' | b'\\' | b'/') => escaped,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => {
                            if !self.unicode(&mut out) {
                                return self.error("invalid unicode escape code");
                            }
                            continue;
                        }
                        _ => return self.error("invalid escape code"),
                    };
                    out.push(plain);
                    self.at += 2;
                }
                other => {
                    out.push(other);
                    self.at += 1;
                }
            }
        }
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |value, &digit| {
            Some(value * 16 + char::from(digit).to_digit(16)?)
        })
    }

    /// An escape of UTF-16, one or two of them.
    fn unicode(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(mut code) = self.hex(self.at + 2) else {
            return false;
        };
        let mut length = 6;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                return false;
            }
            let Some(low) = self.hex(self.at + 8).filter(|low| low & 0xfc00 == 0xdc00) else {
                return false;
            };
            code = ((code & 0x3ff) << 10 | low & 0x3ff) + 0x10000;
            length = 12;
        }
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => return false,
        }
        self.at += length;
        true
    }

    fn value(&mut self, token: Token, depth: usize) -> Made<Value> {
        match token {
            Token::Text(text) => self.vm.heap.text(&text),
            Token::Number(n) => Ok(Value::Number(n)),
            Token::Bool(bit) => Ok(Value::Bool(bit)),
            Token::Null => Ok(Value::Null),
            Token::ObjectBegin => self.object(depth + 1),
            Token::ArrayBegin => self.array(depth + 1),
            other => Err(self.expected("value", &other)),
        }
    }

    fn descend(&self, depth: usize) -> Made<()> {
        if depth > self.settings.decode_depth as usize || depth > DEPTH_MAX {
            return Err(Raise::message(format!(
                "Found too many nested data structures ({depth})"
            )));
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Made<Value> {
        self.descend(depth)?;
        let table = self.vm.heap.add_table(0, 0)?;
        let mut token = self.next();
        if token == Token::ObjectEnd {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = &token else {
                return Err(self.expected("object key string", &token));
            };
            let key = self.vm.heap.text(key)?;
            token = self.next();
            if token != Token::Colon {
                return Err(self.expected("colon", &token));
            }
            token = self.next();
            let value = self.value(token, depth)?;
            self.vm.heap.set(table, key, value)?;
            self.vm.heap.check_steps()?;
            token = self.next();
            if token == Token::ObjectEnd {
                return Ok(Value::Table(table));
            }
            if token != Token::Comma {
                return Err(self.expected("comma or object end", &token));
            }
            token = self.next();
        }
    }

    fn array(&mut self, depth: usize) -> Made<Value> {
        self.descend(depth)?;
        let table = self.vm.heap.add_table(0, 0)?;
        let mut token = self.next();
        if token == Token::ArrayEnd {
            return Ok(Value::Table(table));
        }
        let mut index = 1.0;
        loop {
            let value = self.value(token, depth)?;
            self.vm.heap.set(table, Value::Number(index), value)?;
            index += 1.0;
            token = self.next();
            if token == Token::ArrayEnd {
                return Ok(Value::Table(table));
            }
            if token != Token::Comma {
                return Err(self.expected("comma or array end", &token));
            }
            token = self.next();
        }
    }
}
