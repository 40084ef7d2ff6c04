//! Tests of the machines, through their interface.

mod locks;
mod plain;
