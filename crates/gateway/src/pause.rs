//! `CLIENT PAUSE`: commands that wait for a while.
//!
//! A paused command stays where it came in: its connection is read no further, and goes on with it when the pause is
//! over. Meanwhile no key expires or is given up for room, so that the data stay as they are.

use crate::context::Context;
use crate::session::Session;
use command::{CommandId, Flags, Spec};
use ids::UnixMillis;
use resp::Args;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pause under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// When it ends.
    pub until: UnixMillis,
    /// Whether all commands wait; if not, those that may write do.
    pub is_for_all: bool,
}

/// The node's pause, which any worker may begin and end: one number, read once a turn.
#[derive(Default)]
pub struct SharedPause(AtomicU64);

impl SharedPause {
    /// The pause under way at `now`.
    #[inline]
    pub fn get(&self, now: UnixMillis) -> Option<Pause> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            number => decode(number).filter(|pause| pause.until > now),
        }
    }

    /// Begins a pause. One under way is not made shorter, nor made to hold back less.
    pub fn begin(&self, now: UnixMillis, pause: Pause) {
        let joined = |number: u64| {
            let joined = match decode(number).filter(|pause| pause.until > now) {
                None => pause,
                Some(current) => Pause {
                    until: current.until.max(pause.until),
                    is_for_all: current.is_for_all || pause.is_for_all,
                },
            };
            (joined.until.0.max(0) as u64) << 1 | u64::from(joined.is_for_all)
        };
        self.0.update(Ordering::AcqRel, Ordering::Acquire, joined);
    }

    /// Ends it.
    pub fn end(&self) {
        self.0.store(0, Ordering::Release);
    }
}

fn decode(number: u64) -> Option<Pause> {
    (number > 0).then_some(Pause {
        until: UnixMillis((number >> 1) as i64),
        is_for_all: number & 1 == 1,
    })
}

/// The pause as of this turn.
#[derive(Default)]
pub(crate) struct Pausing {
    pause: Option<Pause>,
    /// One ended, and the driver does not know yet.
    lets_go: bool,
}

impl Pausing {
    /// Learns of a pause that began or ended.
    #[inline]
    pub(crate) fn look(&mut self, cx: &mut Context) {
        let pause = cx.shared.pause.get(cx.turn.now);
        if pause != self.pause {
            self.lets_go |= self.pause.is_some() && pause.is_none();
            self.pause = pause;
            for replica in &mut cx.local.replicas {
                replica.state_mut().keep_expired(pause.is_some());
            }
        }
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    /// When it ends.
    pub(crate) fn until(&self) -> Option<UnixMillis> {
        self.pause.map(|pause| pause.until)
    }

    /// Whether one ended since this was last asked.
    pub(crate) fn lets_go(&mut self) -> bool {
        std::mem::take(&mut self.lets_go)
    }

    /// Whether a command has to wait for the end of the pause. What would be refused is refused at once.
    pub(crate) fn is_postponed(&self, cx: &Context, session: &Session, spec: &Spec, args: Args<'_>) -> bool {
        let Some(pause) = self.pause else {
            return false;
        };
        if !session.is_authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            return false;
        }
        let may_write = match &session.block {
            Some(block) if spec.id == CommandId::Exec => {
                let mut commands = block.commands.iter();
                commands.any(|queued| may_write(cx, queued.spec, queued.args.as_args()))
            }
            Some(_) | None => may_write(cx, spec, args),
        };
        pause.is_for_all || may_write
    }
}

/// A connection waits for the end of the pause.
pub(crate) fn hold_back(cx: &Context, session: &mut Session) {
    session.in_flight.is_paused = true;
    cx.stats.paused.add(1);
}

/// A connection waits no more for the end of a pause, if it did.
pub(crate) fn go_on(cx: &Context, session: &mut Session) {
    if std::mem::take(&mut session.in_flight.is_paused) {
        cx.stats.paused.set(cx.stats.paused.get() - 1);
    }
}

fn may_write(cx: &Context, spec: &Spec, args: Args<'_>) -> bool {
    spec.flags.contains(Flags::WRITE)
        || spec.flags.contains(Flags::MAY_REPLICATE) && !cx.shared.scripts.says_no_writes(spec.id, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(until: i64, is_for_all: bool) -> Pause {
        Pause {
            until: UnixMillis(until),
            is_for_all,
        }
    }

    #[test]
    fn a_pause_ends_by_itself_and_by_order() {
        let shared = SharedPause::default();
        assert_eq!(shared.get(UnixMillis(0)), None);
        shared.begin(UnixMillis(0), pause(100, false));
        assert_eq!(shared.get(UnixMillis(99)), Some(pause(100, false)));
        assert_eq!(shared.get(UnixMillis(100)), None);
        shared.end();
        assert_eq!(shared.get(UnixMillis(50)), None);
    }

    #[test]
    fn a_pause_under_way_is_not_weakened() {
        let shared = SharedPause::default();
        shared.begin(UnixMillis(0), pause(100, true));
        shared.begin(UnixMillis(10), pause(50, false));
        assert_eq!(shared.get(UnixMillis(20)), Some(pause(100, true)));
        shared.begin(UnixMillis(20), pause(300, false));
        assert_eq!(shared.get(UnixMillis(20)), Some(pause(300, true)));
        shared.begin(UnixMillis(300), pause(400, false));
        assert_eq!(
            shared.get(UnixMillis(300)),
            Some(pause(400, false)),
            "a new one begins anew"
        );
    }
}
