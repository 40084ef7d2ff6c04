//! What an operator can set: one table, and everything made from it.
//!
//! ```text
//!  flags ─┐
//!  env ───┼─> load ─> Settings ─> typed fields, read by the code
//!  file ──┤             │  ▲
//!  table ─┘   CONFIG GET│  │CONFIG SET (atomic)
//! ```
//!
//! [`PARAMETERS`] is the table. The command line, the environment names, the keys of the configuration file,
//! `CONFIG GET`/`CONFIG SET` and the reference page are all derived from its rows, so that none of them can
//! disagree. To add an option, add a row; if code reads it, add a field to [`Fields`] that follows it.
//!
//! Nothing here does I/O: whoever calls [`load()`] has read the file and the environment.

mod advertise;
mod bind;
mod choices;
mod cron;
mod kind;
mod load;
mod memory;
mod output_limit;
mod parameter;
mod peer;
mod reference;
mod rewrite;
mod settings;
mod suggest;
mod table;
mod value;

pub use advertise::Advertised;
pub use bind::BindAddress;
pub use choices::{
    CodingChoice, DebugCommand, DurabilityChoice, LogFormat, LogLevel, MaxmemoryPolicy, ReplicationFactor,
    TestDisk,
};
pub use cron::CronSchedule;
pub use kind::OptionKind;
pub use load::{File, Problem, Source, Sources, config_path, load};
pub use memory::{human_bytes, parse_memory};
pub use output_limit::{OutputLimit, OutputLimits};
pub use parameter::{Change, OptionEffect, Parameter, Place, Section};
pub use peer::PeerAddress;
pub use reference::reference;
pub use rewrite::rewrite;
pub use settings::{Fields, SetError, Settings};
pub use table::PARAMETERS;
pub use value::OptionValue;
