//! `SORT` and `SORT_RO`.

use crate::spec::Access;

/// One command of this family.
#[derive(Clone, Copy, Debug)]
pub enum SortCommand<'a> {
    /// There is none yet.
    None(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
}

impl SortCommand<'_> {
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match *self {
            SortCommand::None(never, _) => match never {},
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> Access {
        match *self {
            SortCommand::None(never, _) => match never {},
        }
    }
}
