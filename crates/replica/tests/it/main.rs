//! Several replicas of different groups under transactions, one replica on its own, and what asks a group.

mod bank;
mod cluster;
mod fragments;
mod group_client;
mod open_entry;
mod single;
mod transcripts;

use replica::{Operation, Replica, Turn};
use resp::{Protocol, ReplyWriter};

/// The reply to one command, carried out whatever locks there are.
fn execute(replica: &mut Replica, turn: &Turn, operation: &Operation) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
    match operation.parse() {
        Ok(command) => replica.execute(turn, operation.db, &command, &mut writer),
        Err(error) => error.write(&mut writer),
    }
    out
}
