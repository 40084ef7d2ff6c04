//! What nodes say to each other, through frames that come in pieces, damaged or not.

mod any;
mod frames;
mod messages;
