//! Channels, and `MONITOR`, which listens too: the gateway keeps who listens to what, and no group takes part.
//!
//! The names of shard channels stand where keys stand, so that clients of a cluster find the node; they are no keys.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Flags, Spec};

/// Of the commands that change what a connection listens to.
const LISTENING: Flags = Flags::PUBSUB
    .and(Flags::NOSCRIPT)
    .and(Flags::LOADING)
    .and(Flags::STALE);
/// Of the questions about who listens.
const ASKING: Flags = Flags::PUBSUB.and(Flags::LOADING).and(Flags::STALE);
const PUBLISHING: Flags = ASKING.and(Flags::FAST).and(Flags::MAY_REPLICATE);

pub(crate) const SUBSCRIBE: Spec = Spec::new("subscribe", -2).flags(LISTENING);

pub(crate) const UNSUBSCRIBE: Spec = Spec::new("unsubscribe", -1).flags(LISTENING);

pub(crate) const PSUBSCRIBE: Spec = Spec::new("psubscribe", -2).flags(LISTENING);

pub(crate) const PUNSUBSCRIBE: Spec = Spec::new("punsubscribe", -1).flags(LISTENING);

pub(crate) const PUBLISH: Spec = Spec::new("publish", 3).flags(PUBLISHING);

pub(crate) const SSUBSCRIBE: Spec = Spec::new("ssubscribe", -2)
    .keys(&[KeySpec::from(1, KeyFlags::NOT_KEY)])
    .flags(LISTENING);

pub(crate) const SUNSUBSCRIBE: Spec = Spec::new("sunsubscribe", -1)
    .keys(&[KeySpec::from(1, KeyFlags::NOT_KEY)])
    .flags(LISTENING);

pub(crate) const SPUBLISH: Spec = Spec::new("spublish", 3)
    .keys(&[KeySpec::at(1, KeyFlags::NOT_KEY)])
    .flags(PUBLISHING);

/// `PUBSUB`, the container.
pub(crate) const PUBSUB: Spec = Spec::container("pubsub");

pub(crate) const PUBSUB_CHANNELS: Spec = Spec::new("pubsub|channels", -2).flags(ASKING);

pub(crate) const PUBSUB_NUMSUB: Spec = Spec::new("pubsub|numsub", -2).flags(ASKING);

pub(crate) const PUBSUB_NUMPAT: Spec = Spec::new("pubsub|numpat", 2).flags(ASKING);

pub(crate) const PUBSUB_SHARDCHANNELS: Spec = Spec::new("pubsub|shardchannels", -2).flags(ASKING);

pub(crate) const PUBSUB_SHARDNUMSUB: Spec = Spec::new("pubsub|shardnumsub", -2).flags(ASKING);

pub(crate) const PUBSUB_HELP: Spec = Spec::help("pubsub|help");

pub(crate) const MONITOR: Spec = Spec::admin("monitor", 1);
