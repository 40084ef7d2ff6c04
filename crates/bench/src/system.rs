//! What is asked of the system that the standard library has no name for: a timer that a loop can wait for to the microsecond,
//! and signals to processes. `unsafe` around system calls.

use std::io;
use std::time::Duration;

use mio::{Registry, Token};

/// What a process can be told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End at once.
    Kill,
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
}

/// Sends a signal to a process by its number.
pub(crate) fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    let process = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    // 0 and negative numbers mean groups of processes.
    if process < 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the call takes two numbers and touches no memory of ours.
    match unsafe { libc::kill(process, number) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ticks of `/proc/PID/stat` in a second.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: the call takes a number and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks)
        .ok()
        .filter(|ticks| *ticks > 0)
        .unwrap_or(100)
}

/// Wakes a loop at a point in time. `epoll` itself counts in milliseconds, and a request that is to start every 50
/// microseconds would start in bursts.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Timer(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Timer {
    /// A timer that is not set.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        // SAFETY: the call takes two numbers and touches no memory of ours.
        let number =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made it, and nobody else knows it.
        let timer = Timer(unsafe { OwnedFd::from_raw_fd(number) });
        let number = timer.0.as_raw_fd();
        registry.register(&mut mio::unix::SourceFd(&number), token, mio::Interest::READABLE)?;
        Ok(timer)
    }

    /// Sets it, whatever it was set to. It then wakes the loop once.
    pub(crate) fn set(&self, from_now: Duration) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let zero = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = libc::itimerspec {
            it_interval: zero,
            it_value: libc::timespec {
                tv_sec: from_now.as_secs().min(1_000) as libc::time_t,
                // 0 would mean never.
                tv_nsec: libc::c_long::from(from_now.subsec_nanos().max(1) as i32),
            },
        };
        // SAFETY: the pointer is to a local of the type that the call reads; the other one may be null.
        match unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const value, std::ptr::null_mut()) }
        {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Elsewhere the loop's own milliseconds must do, and [`Timer::set`] does nothing.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Timer> {
        Ok(Timer)
    }

    pub(crate) fn set(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::time::Instant;

    #[test]
    fn a_timer_wakes_the_loop_each_time_that_it_is_set() {
        let mut poll = Poll::new().expect("the system has epoll");
        let mut events = Events::with_capacity(4);
        let timer = Timer::new(poll.registry(), Token(3)).expect("the system has timers");
        for _ in 0..50 {
            let begin = Instant::now();
            timer.set(Duration::from_micros(300)).expect("it can be set");
            poll.poll(&mut events, Some(Duration::from_secs(20)))
                .expect("it waits");
            assert_eq!(
                events.iter().map(|event| event.token()).collect::<Vec<_>>(),
                [Token(3)]
            );
            assert!(begin.elapsed() >= Duration::from_micros(300));
        }
    }

    #[test]
    fn no_signal_goes_to_a_group_of_processes() {
        assert!(signal(0, Signal::Continue).is_err());
        assert!(signal(u32::MAX, Signal::Continue).is_err());
    }
}
