//! What a worker does so that what it has acknowledged outlives the process, as far as the layout says: nothing, or through its disk.

use crate::disk::Disk;
use crate::keeping::WorkerModes;
use gateway::Gateway;
use std::sync::Arc;
use std::thread::JoinHandle;

/// See the file's header.
pub(crate) struct Keeper {
    worker: u16,
    /// None in modes that keep nothing.
    disk: Option<Disk>,
    /// Of a node that is in a cluster: how far all of its workers are.
    modes: Option<Arc<WorkerModes>>,
    /// Threads of a disk that was given up. Its files may go when they have ended.
    leaving: Vec<JoinHandle<()>>,
    /// The change as which all is kept that was acknowledged here.
    followed: Option<u64>,
}

impl Keeper {
    pub(crate) fn new(worker: u16, disk: Option<Disk>, modes: Option<Arc<WorkerModes>>) -> Keeper {
        Keeper {
            worker,
            followed: None,
            disk,
            modes,
            leaving: Vec::new(),
        }
    }

    /// The disk, if there is one.
    pub(crate) fn disk(&mut self) -> Option<&mut Disk> {
        self.disk.as_mut()
    }

    /// The same, to look at.
    pub(crate) fn disk_seen(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Once a turn, behind the layout: keeps what is acknowledged as that says, and says when all is kept so.
    pub(crate) fn follow(&mut self, gateway: &mut Gateway) {
        let (Some((mode, change)), Some(modes)) = (gateway.durability(), &self.modes) else {
            return;
        };
        if self.followed == Some(change) {
            return;
        }
        match (&mut self.disk, mode.writes()) {
            (Some(disk), true) if disk.mode() != mode => disk.set_mode(mode),
            (Some(_), true) | (None, false) => {}
            (None, true) => self.disk = modes.take_disk(self.worker, change),
            (disk, false) => {
                if let Some(disk) = disk.take() {
                    self.leaving = disk.give_up(gateway);
                }
            }
        }
        let is_reached = match &self.disk {
            // What is still being read stands in logs of earlier starts only.
            Some(disk) => {
                let awaits = gateway.awaits_kept_states();
                disk.is_reached() && !gateway.is_changing_durability() && !awaits
            }
            None => !mode.writes() && self.leaving.iter().all(JoinHandle::is_finished),
        };
        if is_reached {
            self.followed = Some(change);
            modes.follow(self.worker, change);
        }
    }

    /// At a turn's end: what is to be kept is, as far as the mode demands it.
    pub(crate) fn finish(&mut self, gateway: &mut Gateway, mut go_on: impl FnMut(&mut Gateway)) {
        // What is kept may let more follow: a group of one commits when it is written.
        if let Some(disk) = &mut self.disk {
            while gateway.has_disk_tasks() && disk.keep(gateway) {
                go_on(gateway);
            }
        }
        if gateway.has_saves() {
            for save in gateway.take_saves() {
                match &mut self.disk {
                    Some(disk) => disk.save(save, gateway),
                    None => gateway.on_saved(save.number, false),
                }
            }
        }
        if gateway.has_syncs() {
            for number in gateway.take_syncs() {
                match &mut self.disk {
                    Some(disk) => disk.sync(number, gateway),
                    None => gateway.on_synced(number, &[]),
                }
            }
        }
    }

    /// The loop has ended.
    pub(crate) fn end(self) {
        for thread in self.leaving {
            drop(thread.join());
        }
        if let Some(disk) = self.disk {
            disk.end();
        }
    }
}
