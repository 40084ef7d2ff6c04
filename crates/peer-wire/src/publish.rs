//! A message to a channel, for the clients of another node.
//!
//! ```text
//!  publish  kind u8: 1 channel, 2 shard channel | length u32 | channel | payload to the end of the message
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};

/// A message to a channel. Nobody answers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish {
    /// Which space of names the channel is of.
    pub kind: ChannelKind,
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub payload: Bytes,
}

/// A space of names of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelKind {
    /// `PUBLISH`; patterns reach it.
    Channel,
    /// `SPUBLISH`.
    ShardChannel,
}

impl Publish {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        1 + 4 + self.channel.len() + self.payload.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u8(match self.kind {
            ChannelKind::Channel => 1,
            ChannelKind::ShardChannel => 2,
        });
        out.bytes(&self.channel);
        out.shared(&self.payload);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Publish, DecodeError> {
        let kind = match reader.u8()? {
            1 => ChannelKind::Channel,
            2 => ChannelKind::ShardChannel,
            _ => return Err(reader.unknown("a kind of channel that this version knows")),
        };
        Ok(Publish {
            kind,
            channel: reader.shared_bytes()?,
            payload: reader.shared_remainder(),
        })
    }
}
