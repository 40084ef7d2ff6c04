//! What carries scripts out: an interpreter, the numbers that it draws, and the libraries of functions that it has met.
//!
//! Each worker has one. A run that is carried out elsewhere (`heavy_run.rs`) has one of its own for that time, and nothing that workers look at
//! needs a lock for it.

use crate::library_set::{LibrarySet, MetLibraries};
use crate::script_cache::{DROPPED_HERE_BYTES_MAX, SharedScripts};
use crate::shared::held;
use ids::Prng;
use script::{Interpreter, Lua, LuaRun, Run};
use std::sync::Arc;

/// See the file's header.
pub(crate) struct ScriptRunner {
    pub(crate) lua: Lua,
    /// Where random numbers of scripts begin.
    pub(crate) draws: Prng,
    libraries: MetLibraries,
    /// Runs that are over, and hold much.
    large: Vec<LuaRun>,
}

impl ScriptRunner {
    /// One that has met nothing. `seed` decides where random numbers of scripts begin.
    pub(crate) fn new(seed: u64) -> ScriptRunner {
        ScriptRunner {
            lua: Lua::default(),
            draws: Prng::new(seed),
            libraries: MetLibraries::default(),
            large: Vec::new(),
        }
    }

    /// A run is over. What it has made goes elsewhere ([`ScriptRunner::take_large`]), if it is much.
    pub(crate) fn let_go(&mut self, run: LuaRun) {
        match run.memory_bytes() > DROPPED_HERE_BYTES_MAX {
            true => self.large.push(run),
            false => self.lua.recycle(run),
        }
    }

    /// Runs that are over and hold much, with how many bytes: to drop them takes long.
    pub(crate) fn take_large(&mut self) -> Vec<(LuaRun, usize)> {
        let large = std::mem::take(&mut self.large).into_iter();
        large
            .map(|run| {
                let bytes = run.memory_bytes();
                (run, bytes)
            })
            .collect()
    }

    /// The libraries that were met last, here or by anybody of this node.
    pub(crate) fn last_libraries(&self, shared: &SharedScripts) -> Option<Arc<LibrarySet>> {
        let met = self.libraries.last().cloned();
        met.or_else(|| held(&shared.libraries).last().cloned())
    }

    /// The libraries of these digits, if any worker has met them.
    pub(crate) fn libraries(&mut self, shared: &SharedScripts, sha1: &[u8; 40]) -> Option<Arc<LibrarySet>> {
        if let Some(set) = self.libraries.get(sha1) {
            return Some(set);
        }
        let set = held(&shared.libraries).get(sha1)?;
        self.libraries.meet(*sha1, set.clone());
        Some(set)
    }

    pub(crate) fn meet_libraries(&mut self, shared: &SharedScripts, sha1: [u8; 40], set: Arc<LibrarySet>) {
        held(&shared.libraries).meet(sha1, set.clone());
        self.libraries.meet(sha1, set);
    }
}
