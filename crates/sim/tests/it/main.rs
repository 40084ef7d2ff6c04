//! Simulations by the dozen; by the hundred they run from the command line.

mod mutations;
mod scale;
mod seeds;
