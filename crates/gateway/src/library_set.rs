//! All libraries of functions, read, as a worker has them.
//!
//! Invariants:
//! 1. No two functions have names that differ in the size of their letters alone.
//! 2. A set is never changed once others have it: a change makes another one, which shares what stayed.

use crate::library_keys::Stamp;
use crate::library_payload;
use script::{FunctionLibrary, Lua, Registered, RunLimits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of the sources of all libraries, and of what their functions are said to be. What would make them more is refused.
pub(crate) const SOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Libraries. Another one is refused.
const LIBRARIES_MAX: usize = 1_024;

/// Functions of all libraries. What would make them more is refused.
const FUNCTIONS_MAX: usize = 32_768;

/// Instructions of a library while it is loaded: registering a thousand functions takes some ten thousand.
const LOAD_INSTRUCTIONS: u64 = 200_000;

/// Bytes of what it makes meanwhile.
const LOAD_LIMITS: RunLimits = RunLimits {
    memory_bytes: 16 * 1024 * 1024,
};

/// Sets that a worker keeps: while they change, transactions may see the one before.
const MET_MAX: usize = 2;

/// There is no room for a library.
pub(crate) const TOO_LARGE: &str =
    "ERR the libraries would be more than there may be; FUNCTION DELETE makes room";

/// A library with what it was made of.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) source: Arc<[u8]>,
    pub(crate) read: FunctionLibrary,
}

impl Library {
    /// Bytes of its source, and of what its functions are said to be: a few words of source can make those long.
    fn bytes(&self) -> usize {
        let described = self
            .read
            .functions
            .iter()
            .filter_map(|function| function.description.as_ref());
        self.source.len() + described.map(|description| description.len()).sum::<usize>()
    }
}

/// Reads a library.
fn read(lua: &mut Lua, source: &[u8]) -> Result<Library, Vec<u8>> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(TOO_LARGE.into());
    }
    let read = lua.load_library(source, LOAD_LIMITS, LOAD_INSTRUCTIONS)?;
    Ok(Library {
        source: source.into(),
        read,
    })
}

/// See the file's header.
#[derive(Clone, Default, Debug)]
pub(crate) struct LibrarySet {
    libraries: BTreeMap<String, Arc<Library>>,
    /// The library of each function, by its name in small letters.
    functions: BTreeMap<Vec<u8>, String>,
    source_bytes: usize,
}

impl LibrarySet {
    /// What is kept of libraries, or sent. Those that are in the set that is known are not read again.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn of_payload(
        lua: &mut Lua,
        payload: &[u8],
        known: Option<&LibrarySet>,
    ) -> Result<LibrarySet, Vec<u8>> {
        let known = known.iter().flat_map(|known| known.libraries.values());
        let known: BTreeMap<&[u8], &Arc<Library>> =
            known.map(|library| (&library.source[..], library)).collect();
        let mut set = LibrarySet::default();
        for source in library_payload::decode(payload)? {
            let library = match known.get(&source[..]) {
                Some(library) => Arc::clone(library),
                None => Arc::new(read(lua, &source)?),
            };
            let name = &library.read.name;
            if set.libraries.contains_key(name) {
                return Err(format!("ERR Library '{name}' already exists").into_bytes());
            }
            set.put(library)?;
        }
        Ok(set)
    }

    /// As they are kept, and sent.
    pub(crate) fn to_payload(&self) -> Vec<u8> {
        library_payload::encode(self.libraries.values().map(|library| &library.source[..]))
    }

    /// The stamp of what is kept.
    pub(crate) fn stamp_of(&self, payload: &[u8]) -> Stamp {
        Stamp {
            sha1: Stamp::digits_of(payload),
            libraries: self.libraries.len() as u64,
            functions: self.functions.len() as u64,
            bytes: self.source_bytes as u64,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// How many libraries and functions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.libraries.len(), self.functions.len())
    }

    /// In the order of their names.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.values().map(|library| &**library)
    }

    /// The library of a function, and what it said of it.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Library, &Registered)> {
        let library = self
            .libraries
            .get(self.functions.get(&name.to_ascii_lowercase())?)?;
        let mut functions = library.read.functions.iter();
        let function = functions.find(|function| function.name.eq_ignore_ascii_case(name))?;
        Some((library, function))
    }

    /// Reads a library and adds it; its name. Nothing is changed if that fails.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn add(&mut self, lua: &mut Lua, source: &[u8], replaces: bool) -> Result<String, Vec<u8>> {
        let library = read(lua, source)?;
        let name = library.read.name.clone();
        if !replaces && self.libraries.contains_key(&name) {
            return Err(format!("ERR Library '{name}' already exists").into_bytes());
        }
        let mut next = self.clone();
        next.remove(&name);
        next.put(Arc::new(library))?;
        *self = next;
        Ok(name)
    }

    /// Adds all of another set. Nothing is changed if that fails.
    ///
    /// # Errors
    /// The error for the client, code first.
    pub(crate) fn join(&mut self, others: &LibrarySet, replaces: bool) -> Result<(), Vec<u8>> {
        let mut next = self.clone();
        for name in others.libraries.keys() {
            if next.remove(name) && !replaces {
                return Err(format!("ERR Library {name} already exists").into_bytes());
            }
        }
        for library in others.libraries.values() {
            next.put(library.clone())?;
        }
        *self = next;
        Ok(())
    }

    /// Whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.libraries.remove(name) else {
            return false;
        };
        self.source_bytes -= library.bytes();
        for function in &library.read.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    fn put(&mut self, library: Arc<Library>) -> Result<(), Vec<u8>> {
        self.source_bytes += library.bytes();
        let functions = self.functions.len() + library.read.functions.len();
        let is_full = self.libraries.len() >= LIBRARIES_MAX || functions > FUNCTIONS_MAX;
        if is_full || self.source_bytes > SOURCE_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        for function in &library.read.functions {
            let name = function.name.to_ascii_lowercase();
            if self.functions.insert(name, library.read.name.clone()).is_some() {
                let name = &function.name[..];
                return Err([b"ERR Function ", name, b" already exists"].concat());
            }
        }
        self.libraries.insert(library.read.name.clone(), library);
        Ok(())
    }
}

/// The sets that a worker has met, by their digits: the last ones.
#[derive(Default)]
pub(crate) struct MetLibraries(VecDeque<([u8; 40], Arc<LibrarySet>)>);

impl MetLibraries {
    pub(crate) fn get(&self, sha1: &[u8; 40]) -> Option<Arc<LibrarySet>> {
        let met = self.0.iter().find(|(known, _)| known == sha1);
        met.map(|(_, set)| set.clone())
    }

    /// The last one that was met.
    pub(crate) fn last(&self) -> Option<&Arc<LibrarySet>> {
        self.0.back().map(|(_, set)| set)
    }

    pub(crate) fn meet(&mut self, sha1: [u8; 40], set: Arc<LibrarySet>) {
        self.0.retain(|(known, _)| *known != sha1);
        if self.0.len() >= MET_MAX {
            self.0.pop_front();
        }
        self.0.push_back((sha1, set));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(library: &str, functions: &str) -> Vec<u8> {
        let mut source = format!("#!lua name={library}\n");
        for name in functions.split(' ') {
            source += &format!("redis.register_function('{name}', function() end)\n");
        }
        source.into_bytes()
    }

    fn names(set: &LibrarySet) -> Vec<String> {
        let functions = set.functions.iter();
        functions
            .map(|(function, library)| format!("{library}.{}", String::from_utf8_lossy(function)))
            .collect()
    }

    #[test]
    fn what_fails_changes_nothing() {
        let mut lua = Lua::new();
        let mut set = LibrarySet::default();
        set.add(&mut lua, &source("a", "f g"), false).unwrap();
        set.add(&mut lua, &source("b", "H"), false).unwrap();
        let before = names(&set);
        assert_eq!(before, ["a.f", "a.g", "b.h"]);
        for (source, replaces, error) in [
            (source("a", "x"), false, "ERR Library 'a' already exists"),
            (source("c", "x F"), false, "ERR Function F already exists"),
            (source("a", "f h"), true, "ERR Function h already exists"),
            (source("c", "x X"), false, "ERR Function X already exists"),
        ] {
            let told = set.add(&mut lua, &source, replaces).unwrap_err();
            assert_eq!(String::from_utf8_lossy(&told), error);
            assert_eq!(names(&set), before);
            assert_eq!(set.counts(), (2, 3));
        }
        set.add(&mut lua, &source("a", "g x"), true).unwrap();
        assert_eq!(names(&set), ["a.g", "b.h", "a.x"]);
        assert!(set.function(b"h").is_some() && set.function(b"G").is_some() && set.function(b"f").is_none());
        assert!(set.remove("a") && !set.remove("a"));
        assert_eq!(set.source_bytes, source("b", "H").len());
    }

    #[test]
    fn what_is_known_is_not_read_again() {
        let mut lua = Lua::new();
        let mut known = LibrarySet::default();
        for library in ["a", "b"] {
            known.add(&mut lua, &source(library, library), false).unwrap();
        }
        let mut later = known.clone();
        later.add(&mut lua, &source("b", "f g"), true).unwrap();
        let read = LibrarySet::of_payload(&mut lua, &later.to_payload(), Some(&known)).unwrap();
        assert_eq!(names(&read), names(&later));
        assert_eq!(read.source_bytes, later.source_bytes);
        assert!(Arc::ptr_eq(&read.libraries["a"], &known.libraries["a"]));
        assert!(!Arc::ptr_eq(&read.libraries["b"], &known.libraries["b"]));
    }

    /// A few words of source can make many functions, and describe each at length.
    #[test]
    fn functions_and_what_is_said_of_them_have_bounds() {
        let mut lua = Lua::new();
        let mut set = LibrarySet::default();
        let many = |library: usize| {
            format!(
                "#!lua name=l{library}\nfor i = 1, 1000 do redis.register_function('f{library}_' .. i, function() end) end"
            )
        };
        let added = (0..).take_while(|&library| set.add(&mut lua, many(library).as_bytes(), false).is_ok());
        assert_eq!(added.count(), FUNCTIONS_MAX / 1000);
        let long = |count: usize| {
            format!(
                "#!lua name=long\nlocal text = ('d'):rep(400000) for i = 1, {count} do \
                 redis.register_function{{function_name = 'l' .. i, description = text, callback = function() end}} end"
            )
        };
        let mut set = LibrarySet::default();
        set.add(&mut lua, long(10).as_bytes(), false).unwrap();
        let told = set.add(&mut lua, long(11).as_bytes(), true).unwrap_err();
        assert_eq!(told, TOO_LARGE.as_bytes());
        assert!(set.remove("long"));
        assert_eq!(set.source_bytes, 0);
    }

    #[test]
    fn a_set_that_was_sent_joins_as_a_whole_or_not_at_all() {
        let mut lua = Lua::new();
        let mut sent = LibrarySet::default();
        sent.add(&mut lua, &source("a", "f"), false).unwrap();
        sent.add(&mut lua, &source("b", "g"), false).unwrap();
        let sent = LibrarySet::of_payload(&mut lua, &sent.to_payload(), None).unwrap();
        let mut set = LibrarySet::default();
        set.add(&mut lua, &source("b", "g"), false).unwrap();
        set.add(&mut lua, &source("c", "F"), false).unwrap();
        let told = set.join(&sent, false).unwrap_err();
        assert_eq!(told, b"ERR Library b already exists");
        let told = set.join(&sent, true).unwrap_err();
        assert_eq!(told, b"ERR Function f already exists");
        assert_eq!(names(&set), ["c.f", "b.g"].map(String::from));
        set.remove("c");
        set.join(&sent, true).unwrap();
        assert_eq!(names(&set), ["a.f", "b.g"]);
    }

    #[test]
    fn libraries_have_a_bound() {
        let mut lua = Lua::new();
        let mut set = LibrarySet::default();
        let mut large = source("a", "f");
        large.resize(SOURCE_BYTES_MAX / 2, b' ');
        set.add(&mut lua, &large, false).unwrap();
        let mut other = source("b", "g");
        other.resize(SOURCE_BYTES_MAX / 2 + 1, b' ');
        assert_eq!(
            set.add(&mut lua, &other, false).unwrap_err(),
            TOO_LARGE.as_bytes()
        );
        other.pop();
        set.add(&mut lua, &other, false).unwrap();
    }
}
