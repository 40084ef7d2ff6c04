//! What is asked of the system that the standard library has no name for: a timer that a loop can wait for to the microsecond,
//! signals to processes, and how long they were on a processor. `unsafe` around system calls.

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

/// For how long all threads of a process, those that have ended too, were on a processor: nanoseconds. `None` if there is no such
/// process, or if the system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_nanos(process: u32) -> Option<u64> {
    let process = libc::pid_t::try_from(process).ok()?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a local of the type that the call writes.
    let result = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
    if result == 0 { clock_nanos(clock) } else { None }
}

/// Elsewhere nobody finds processes either.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_nanos(_: u32) -> Option<u64> {
    None
}

/// For how long this thread was on a processor, in nanoseconds.
pub(crate) fn thread_cpu_nanos() -> Option<u64> {
    clock_nanos(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_nanos(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local of the type that the call writes.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
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
    fn the_work_of_threads_that_have_ended_stays_counted() {
        let work = || {
            let begin = thread_cpu_nanos().expect("Linux");
            let mut prng = ids::Prng::new(1);
            while thread_cpu_nanos().expect("Linux") - begin < 5_000_000 {
                std::hint::black_box(prng.next_u64());
            }
        };
        let me = std::process::id();
        let before = cpu_nanos(me).expect("Linux");
        std::thread::spawn(work).join().expect("it only counts");
        assert!(cpu_nanos(me).expect("Linux") - before >= 5_000_000);
        assert_eq!(cpu_nanos(u32::MAX), None);
    }

    #[test]
    fn no_signal_goes_to_a_group_of_processes() {
        assert!(signal(0, Signal::Continue).is_err());
        assert!(signal(u32::MAX, Signal::Continue).is_err());
    }
}
