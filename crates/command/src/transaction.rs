//! Transactions: the gateway keeps the queue, groups only see what `EXEC` runs.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::spec::{Flags, Spec};

pub(crate) const MULTI: Spec = Spec::new("multi", 1).flags(Flags::SESSION);

pub(crate) const EXEC: Spec =
    Spec::new("exec", 1).flags(Flags::NOSCRIPT.and(Flags::ANYTIME).and(Flags::SKIP_SLOWLOG));

pub(crate) const DISCARD: Spec = Spec::new("discard", 1).flags(Flags::SESSION);

pub(crate) const WATCH: Spec = Spec::new("watch", -2)
    .keys(&[KeySpec::from(1, KeyFlags::RO)])
    .flags(Flags::SESSION);

pub(crate) const UNWATCH: Spec = Spec::new("unwatch", 1).flags(Flags::SESSION);
