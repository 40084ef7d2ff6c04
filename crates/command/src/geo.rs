//! Positions on the earth, kept in sorted sets.

use crate::spec::Access;

/// One command of this family.
#[derive(Clone, Copy, Debug)]
pub enum GeoCommand<'a> {
    /// There is none yet.
    None(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
}

impl GeoCommand<'_> {
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match *self {
            GeoCommand::None(never, _) => match never {},
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> Access {
        match *self {
            GeoCommand::None(never, _) => match never {},
        }
    }
}
