//! Something that may wait for the disk, done by a thread of its own for one that must not: one at a time.
//!
//! ```text
//!   begin --> thread: it is done --> take_ended, or wait: what it was, and what came of it
//! ```

use std::io;
use std::thread::JoinHandle;

/// See the file's header. `T` says what is done.
pub(crate) struct SideTask<T> {
    under_way: Option<(T, JoinHandle<io::Result<()>>)>,
}

impl<T> SideTask<T> {
    /// There is nothing to be done.
    pub(crate) fn none() -> SideTask<T> {
        SideTask { under_way: None }
    }

    /// Whether something is being done, or was and is not taken yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Has it done.
    ///
    /// # Errors
    /// No thread can be started for it: nothing is done.
    ///
    /// # Panics
    /// If something is under way.
    pub(crate) fn begin(
        &mut self,
        what: T,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        assert!(!self.is_busy(), "one at a time");
        let thread = std::thread::Builder::new().name("side-task".to_owned());
        self.under_way = Some((what, thread.spawn(work)?));
        Ok(())
    }

    /// What was done, if it is over.
    pub(crate) fn take_ended(&mut self) -> Option<(T, io::Result<()>)> {
        let ended = self.under_way.take_if(|(_, thread)| thread.is_finished());
        ended.map(over)
    }

    /// The same; waits for its end.
    pub(crate) fn wait(&mut self) -> Option<(T, io::Result<()>)> {
        self.under_way.take().map(over)
    }
}

fn over<T>((what, thread): (T, JoinHandle<io::Result<()>>)) -> (T, io::Result<()>) {
    let outcome = thread.join();
    let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("it has panicked: see above")));
    (what, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn who_has_something_done_waits_for_it_only_if_he_wants_to() {
        let mut side_task = SideTask::none();
        assert!(!side_task.is_busy() && side_task.take_ended().is_none());
        let (go_on, told) = mpsc::channel::<()>();
        let work = move || told.recv().map_err(io::Error::other);
        side_task.begin("one", work).expect("a thread is started");
        // It waits for a word that has not come.
        assert!(side_task.is_busy() && side_task.take_ended().is_none());
        go_on.send(()).expect("it waits");
        let (what, outcome) = side_task.wait().expect("it is under way");
        assert_eq!((what, outcome.is_ok(), side_task.is_busy()), ("one", true, false));
        let begun = side_task.begin("two", || panic!("a test"));
        begun.expect("a thread is started");
        let (what, outcome) = side_task.wait().expect("it is under way");
        assert_eq!((what, outcome.is_err()), ("two", true));
    }
}
