//! A child process that never outlives this one, and signals to it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// What a node can be told from outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// End in order.
    Terminate,
    /// End at once.
    Kill,
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
}

/// Starts the command in a process group of its own: Ctrl-C at the terminal reaches only this process, which then ends the
/// nodes in order. On Linux the kernel ends the child when this thread ends, however that happens; elsewhere a child is
/// left behind if this process is killed with a signal that cannot be handled.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let tie = move || {
            // SAFETY: the call takes two numbers and touches no memory of ours.
            if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // Between fork and here the parent may have ended, and nobody would tell.
            if std::os::unix::process::parent_id() != parent {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            Ok(())
        };
        // SAFETY: between fork and exec `tie` only makes system calls that may be made there; it allocates nothing and
        // takes no lock.
        unsafe { command.pre_exec(tie) };
    }
    command.spawn()
}

/// Sends a signal to a child that has not been waited for.
pub(super) fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    let id = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: the call takes two numbers and touches no memory of ours. The child was not waited for, as whoever calls
    // promises, so its number belongs to nobody else.
    match unsafe { libc::kill(id, number) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
