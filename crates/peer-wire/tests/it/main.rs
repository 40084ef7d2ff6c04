//! What nodes say to each other, through frames that come in pieces, damaged or not; and how they begin.

mod any;
mod formats;
mod frames;
mod hello;
mod messages;
