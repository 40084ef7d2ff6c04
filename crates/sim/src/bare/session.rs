//! A client's connection: requests one at a time, answers in their order.

use bytes::Bytes;
use command::ReplyError;
use ids::{GroupId, Groups, Slot};
use resp::{Decoded, Decoder, Limits, Writer};

/// A connection.
#[derive(Default)]
pub(crate) struct Session {
    input: Vec<u8>,
    decoder: Decoder,
    /// Whether a request is under way; those behind it wait in `input`.
    pub(crate) is_waiting: bool,
}

/// What a client asks.
pub(crate) enum Asked {
    /// Words that change something of a group.
    Write(GroupId, Bytes),
    /// Words that do not.
    Read(GroupId, Bytes),
    /// What is answered without asking anybody.
    Answer(Vec<u8>),
}

impl Session {
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next request, if it is whole and none is under way.
    pub(crate) fn next(&mut self, groups: Groups) -> Option<Asked> {
        if self.is_waiting {
            return None;
        }
        let consumed = match self.decoder.decode(&self.input, &Limits::default()) {
            Ok(Decoded::Frame { consumed }) => consumed,
            Ok(Decoded::Incomplete) | Err(_) => return None,
        };
        let request = Bytes::copy_from_slice(&self.input[..consumed]);
        let asked = understand(self.decoder.args(&self.input), &request, groups).unwrap_or_else(|error| {
            let mut answer = Vec::new();
            error.write(&mut Writer::new(&mut answer, resp::Protocol::Resp2));
            Asked::Answer(answer)
        });
        self.input.drain(..consumed);
        self.is_waiting = true;
        Some(asked)
    }
}

fn understand(args: resp::Args<'_>, request: &Bytes, groups: Groups) -> Result<Asked, ReplyError> {
    let spec = command::resolve(args)?;
    let mut key = None;
    command::keys(spec, args, &mut |index, _| {
        key.get_or_insert(index);
    });
    let parsed = command::parse(spec, args).ok_or_else(|| ReplyError::unknown_command(args))??;
    let key = key.ok_or_else(|| ReplyError::unknown_command(args))?;
    let group = groups.group_of(Slot::of_key(args.arg(key)));
    Ok(if parsed.writes() {
        Asked::Write(group, request.clone())
    } else {
        Asked::Read(group, request.clone())
    })
}

/// Calls `f` with the words of a whole request.
pub(crate) fn with_words<T>(request: &[u8], f: impl FnOnce(resp::Args<'_>) -> T) -> T {
    let mut decoder = Decoder::new();
    match decoder.decode(request, &Limits::default()) {
        Ok(Decoded::Frame { .. }) => f(decoder.args(request)),
        Ok(Decoded::Incomplete) | Err(_) => panic!("a session cut it out as a whole request"),
    }
}
