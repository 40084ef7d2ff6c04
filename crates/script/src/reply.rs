//! Replies: what commands answer to scripts, and scripts to clients.

use std::sync::Arc;

use crate::number::to_i64;
use crate::raise::Raise;
use crate::value::{StrRef, TableRef, Value};
use crate::vm::{BYTES_AT_ONCE, Event, VALUES_AT_ONCE, Vm};

/// A reply, whatever the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing.
    Null,
    /// Nothing where there might have been an array; scripts make no difference.
    NullArray,
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Arc<[u8]>),
    /// A status, such as `OK`.
    Status(Vec<u8>),
    /// An error, code first, without the dash.
    Error(Vec<u8>),
    /// Replies in an order.
    Array(Vec<Reply>),
    /// Pairs of replies.
    Map(Vec<(Reply, Reply)>),
    /// Replies without an order.
    Set(Vec<Reply>),
    /// A truth value, for clients of RESP3.
    Bool(bool),
    /// A number.
    Double(f64),
    /// A whole number of any length, as digits.
    BigNumber(Vec<u8>),
    /// A text with its format, of three letters.
    Verbatim {
        /// Its format.
        format: Vec<u8>,
        /// The text.
        text: Arc<[u8]>,
    },
}

/// Replies within each other that a script may answer with.
const DEPTH_MAX: usize = 1_000;

/// Values of one reply. A table may hold itself, and then it has no end.
const VALUES_MAX: usize = 4_000_000;

/// Bytes of its texts. They may be one string many times, and are copied.
const BYTES_MAX: usize = 512 * 1024 * 1024;

/// What a reply that would never end becomes.
const TOO_DEEP: &[u8] = b"ERR reached lua stack limit";

/// What a reply of too many bytes becomes.
const TOO_LONG: &[u8] = b"ERR the reply is too long";

/// What a reply may still have.
struct Left {
    values: usize,
    bytes: usize,
}

impl Left {
    fn is_used_up(&self) -> bool {
        self.values == 0 || self.bytes == 0
    }

    fn take_bytes(&mut self, text: &[u8]) {
        self.bytes = self.bytes.saturating_sub(text.len());
    }
}

/// The digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .collect()
}

/// An error's text with a code in front: what has no space has none.
pub(crate) fn with_code(text: &[u8]) -> Vec<u8> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    let text = &text[..end.map_or(0, |end| end + 1)];
    if text.contains(&b' ') {
        text.to_vec()
    } else {
        [b"ERR ", text].concat()
    }
}

/// A text that goes on one line.
fn on_one_line(text: &[u8]) -> Vec<u8> {
    text.iter()
        .map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte })
        .collect()
}

impl Vm {
    /// A reply as the script sees it. An error is a table; whether it is raised is the caller's business.
    pub(crate) fn value_of(&mut self, reply: &Reply) -> Result<Value, Raise> {
        match reply {
            Reply::Null | Reply::NullArray => Ok(if self.session.is_resp3 {
                Value::Nil
            } else {
                Value::Bool(false)
            }),
            Reply::Integer(n) => Ok(Value::Number(*n as f64)),
            Reply::Bulk(bytes) => self.heap.shared_string(bytes).map(Value::Str),
            Reply::Status(text) => {
                let text = self.heap.text(text)?;
                self.table_with(&[("ok", text)])
            }
            Reply::Error(text) => self.error_value(Raise::Reply(with_code(text))),
            Reply::Array(items) => self.array_of(items),
            Reply::Map(pairs) => {
                let map = self.heap.add_table(0, pairs.len())?;
                for (key, value) in pairs {
                    let (key, value) = (self.value_of(key)?, self.value_of(value)?);
                    self.set_key(map, key, value)?;
                }
                self.table_with(&[("map", Value::Table(map))])
            }
            Reply::Set(items) => {
                let set = self.heap.add_table(0, items.len())?;
                for item in items {
                    let key = self.value_of(item)?;
                    self.set_key(set, key, Value::Bool(true))?;
                }
                self.table_with(&[("set", Value::Table(set))])
            }
            Reply::Bool(bit) => Ok(Value::Bool(*bit)),
            Reply::Double(n) => self.table_with(&[("double", Value::Number(*n))]),
            Reply::BigNumber(digits) => {
                let digits = self.heap.text(digits)?;
                self.table_with(&[("big_number", digits)])
            }
            Reply::Verbatim { format, text } => {
                let (text, format) = (
                    self.heap.shared_string(text).map(Value::Str)?,
                    self.heap.text(format)?,
                );
                let table = self.table_with(&[("string", text), ("format", format)])?;
                self.table_with(&[("verbatim_string", table)])
            }
        }
    }

    /// A key that a table cannot have is left out.
    fn set_key(&mut self, table: TableRef, key: Value, value: Value) -> Result<(), Raise> {
        match key {
            Value::Nil => Ok(()),
            Value::Number(n) if n.is_nan() => Ok(()),
            _ => self.heap.set(table, key, value),
        }
    }

    fn table_with(&mut self, fields: &[(&str, Value)]) -> Result<Value, Raise> {
        let table = self.heap.add_table(0, fields.len())?;
        for &(name, value) in fields {
            let name = self.heap.text(name.as_bytes())?;
            self.heap.set(table, name, value)?;
        }
        Ok(Value::Table(table))
    }

    fn array_of(&mut self, items: &[Reply]) -> Result<Value, Raise> {
        let table = self.heap.add_table(items.len(), 0)?;
        for (index, item) in (1..).zip(items) {
            let value = self.value_of(item)?;
            self.heap.set(table, Value::Number(f64::from(index)), value)?;
        }
        Ok(Value::Table(table))
    }

    fn field(&mut self, table: TableRef, name: &str) -> Value {
        match self.heap.text(name.as_bytes()) {
            Ok(name) => self.heap.get(table, name),
            Err(_) => Value::Nil,
        }
    }

    fn text_field(&mut self, table: TableRef, name: &str) -> Option<Arc<[u8]>> {
        match self.field(table, name) {
            Value::Str(string) => Some(Arc::clone(self.heap.bytes(string))),
            _ => None,
        }
    }

    /// What a script's value is as a reply. Nothing of the script runs: metatables are not asked.
    /// `None` if it is much, and to be put off.
    pub(crate) fn reply_of(&mut self, value: Value) -> Option<Reply> {
        let (values, bytes) = match self.puts_off_large {
            true => (VALUES_AT_ONCE, BYTES_AT_ONCE),
            false => (VALUES_MAX, BYTES_MAX),
        };
        let mut left = Left { values, bytes };
        let reply = self.reply_within(value, 0, &mut left);
        match self.puts_off_large {
            true => (!left.is_used_up()).then_some(reply),
            false if left.bytes == 0 => Some(Reply::Error(TOO_LONG.to_vec())),
            false => Some(reply),
        }
    }

    /// A text of a reply, on one line.
    fn line_of(&self, text: StrRef, left: &mut Left) -> Vec<u8> {
        let text = self.heap.bytes(text);
        left.take_bytes(text);
        on_one_line(text)
    }

    fn reply_within(&mut self, value: Value, depth: usize, left: &mut Left) -> Reply {
        if depth > DEPTH_MAX || left.is_used_up() {
            return Reply::Error(TOO_DEEP.to_vec());
        }
        left.values -= 1;
        match value {
            Value::Str(string) => {
                let text = Arc::clone(self.heap.bytes(string));
                left.take_bytes(&text);
                Reply::Bulk(text)
            }
            Value::Number(n) => Reply::Integer(to_i64(n)),
            Value::Bool(bit) if self.session.is_resp3 => Reply::Bool(bit),
            Value::Bool(true) => Reply::Integer(1),
            Value::Table(table) => self.table_reply(table, depth, left),
            Value::Nil
            | Value::Bool(false)
            | Value::Closure(_)
            | Value::Native(_)
            | Value::Bound(_)
            | Value::Thread(_)
            | Value::Null => Reply::Null,
        }
    }

    fn table_reply(&mut self, table: TableRef, depth: usize, left: &mut Left) -> Reply {
        if let Value::Str(text) = self.heap.get_string(table, Event::Err.name()) {
            return Reply::Error(self.line_of(text, left));
        }
        if let Value::Str(text) = self.heap.get_string(table, Event::Ok.name()) {
            return Reply::Status(self.line_of(text, left));
        }
        // The names of the others are looked for only if somebody made a string of them.
        if let Value::Number(n) = self.field(table, "double") {
            return Reply::Double(n);
        }
        if let Value::Table(map) = self.field(table, "map") {
            let mut pairs = Vec::new();
            let mut from = 0;
            while let Some((next, key, value)) = self.heap.table(map).entry_from(from) {
                from = next;
                let key = self.reply_within(key, depth + 1, left);
                pairs.push((key, self.reply_within(value, depth + 1, left)));
                if left.is_used_up() {
                    break;
                }
            }
            return Reply::Map(pairs);
        }
        if let Value::Table(set) = self.field(table, "set") {
            let mut items = Vec::new();
            let mut from = 0;
            while let Some((next, key, _)) = self.heap.table(set).entry_from(from) {
                from = next;
                items.push(self.reply_within(key, depth + 1, left));
                if left.is_used_up() {
                    break;
                }
            }
            return Reply::Set(items);
        }
        if let Some(digits) = self.text_field(table, "big_number") {
            left.take_bytes(&digits);
            return Reply::BigNumber(on_one_line(&digits));
        }
        if let Value::Table(verbatim) = self.field(table, "verbatim_string")
            && let Some(format) = self.text_field(verbatim, "format")
            && let Some(text) = self.text_field(verbatim, "string")
        {
            left.take_bytes(&format);
            left.take_bytes(&text);
            return Reply::Verbatim {
                format: format.to_vec(),
                text,
            };
        }
        let mut items = Vec::new();
        loop {
            let index = u32::try_from(items.len() + 1).unwrap_or(u32::MAX);
            let value = self.heap.get_index(table, index);
            if value.is_nil() || left.is_used_up() {
                return Reply::Array(items);
            }
            items.push(self.reply_within(value, depth + 1, left));
        }
    }
}
