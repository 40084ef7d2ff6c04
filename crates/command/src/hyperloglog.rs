//! HyperLogLogs: estimates of how many different elements were seen.

use crate::spec::Access;

/// One command of this family.
#[derive(Clone, Copy, Debug)]
pub enum HyperLogLogCommand<'a> {
    /// There is none yet.
    None(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
}

impl HyperLogLogCommand<'_> {
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match *self {
            HyperLogLogCommand::None(never, _) => match never {},
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> Access {
        match *self {
            HyperLogLogCommand::None(never, _) => match never {},
        }
    }
}
