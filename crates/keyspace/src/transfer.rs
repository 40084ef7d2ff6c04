//! stub
use crate::Keyspace;
pub struct Transfer;
pub struct StateCut { pub is_last: bool, pub bytes: Vec<u8> }
impl Transfer { pub fn begin(_: &mut Keyspace) -> Transfer { Transfer } pub fn next_cut(&mut self, _: &mut Keyspace, _: usize) -> StateCut { StateCut{is_last:true, bytes:vec![]} } }
pub struct Arrival;
impl Arrival { pub fn new() -> Arrival { Arrival } pub fn take(&mut self, _: &[u8]) -> Result<(), std::fmt::Error> { Ok(()) } pub fn finish(self) -> Keyspace { unimplemented!() } }
