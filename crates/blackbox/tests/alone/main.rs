//! What can be promised only by processes that have the machine to themselves: `cargo test` runs one binary after the other, and
//! the tests of one side by side.

mod large_values;
