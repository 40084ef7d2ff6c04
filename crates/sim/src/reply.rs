//! Requests as bytes, and replies as values.

use crate::padding::number_of;
use resp::{parse_array_header, skip_value};
use std::collections::BTreeSet;

/// What clients are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Text(String),
    Array(Vec<Reply>),
    Error(String),
}

impl Reply {
    /// Different texts.
    pub(crate) fn texts(&self) -> Option<BTreeSet<String>> {
        let Reply::Array(all) = self else { return None };
        let text = |reply: &Reply| match reply {
            Reply::Text(text) => Some(text.clone()),
            _ => None,
        };
        let texts: BTreeSet<String> = all.iter().map(text).collect::<Option<_>>()?;
        (texts.len() == all.len()).then_some(texts)
    }

    pub(crate) fn numbers(&self) -> Option<Vec<i64>> {
        let Reply::Array(all) = self else { return None };
        all.iter().map(Reply::number).collect()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Reply::Number(number) => Some(*number),
            Reply::Text(text) => number_of(text),
            _ => None,
        }
    }
}

/// The bytes of a request.
pub(crate) fn encode(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// The words of requests, for traces.
pub(crate) fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split("\r\n").filter(|line| !line.starts_with(['*', '$']));
    words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// The first reply in `bytes`, and its length; `None` if it is not whole.
///
/// # Errors
/// If it is none.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    let Some(length) = skip_value(bytes) else {
        return Ok(None);
    };
    let reply = reply_of(&bytes[..length]);
    let reply = reply.ok_or_else(|| format!("no reply: {:?}", String::from_utf8_lossy(&bytes[..length])))?;
    Ok(Some((reply, length)))
}

fn reply_of(bytes: &[u8]) -> Option<Reply> {
    if matches!(bytes, b"$-1\r\n" | b"*-1\r\n" | b"_\r\n") {
        return Some(Reply::Nil);
    }
    if let Some((count, head)) = parse_array_header(bytes) {
        let (mut all, mut at) = (Vec::new(), head);
        for _ in 0..count {
            let length = skip_value(&bytes[at..])?;
            all.push(reply_of(&bytes[at..at + length])?);
            at += length;
        }
        return Some(Reply::Array(all));
    }
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n")?;
    match text.as_bytes().first()? {
        b'-' => Some(Reply::Error(text[1..].to_owned())),
        b'+' => Some(Reply::Text(text[1..].to_owned())),
        b':' => text[1..].parse().ok().map(Reply::Number),
        b'$' => Some(Reply::Text(text.split_once("\r\n")?.1.to_owned())),
        _ => None,
    }
}
