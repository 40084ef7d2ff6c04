//! The load generator: drives any server of the Redis protocol, and says what it measured.
//!
//! One [`Plan`] makes one [`Report`]. Everybody is measured by the same means: the same requests from the same seed, the same
//! clock, and the tool's own part told beside the server's.
//!
//! What is deliberately not here: TLS, checks of what replies hold (`history` and `blackbox` are for
//! these), and clean-up: keys stay in the server, all under names that begin with `bench:`.
//!
//! Reading order: `plan`, `workload`, `request` with `keys` and `sizes` (what is asked), `driver` with `connection`, `scanner`
//! and `schedule` (how), `slots` (of clusters), `slice`, `histogram`, `errors` (what was seen), `run`, `report`, `plot`. Beside them
//! `faults`, `process`, `watch` and `system`, which look at processes of this machine, and `responder` with `delays`, by
//! which the tool measures itself, and others.

mod asker;
mod connection;
mod delays;
mod driver;
mod endpoint;
mod errors;
mod faults;
mod histogram;
mod keys;
mod plan;
mod plot;
mod process;
mod progress;
mod report;
mod request;
mod responder;
mod run;
mod scanner;
mod schedule;
mod sizes;
mod slice;
mod slots;
mod system;
mod watch;
mod workload;

pub use delays::Delays;
pub use endpoint::{ENDPOINTS_MAX, Endpoint};
pub use faults::{FAULTS_MAX, Fault, Mark};
pub use histogram::Histogram;
pub use keys::Distribution;
pub use plan::{
    BATCH_MAX, CLIENTS_MAX, IN_FLIGHT_SLOTS_MAX, KEYS_MAX, Length, Plan, RATE_MAX, SECONDS_MAX, THREADS_MAX,
    WAIT_MAX,
};
pub use plot::svg;
pub use report::{Client, Latency, Percentile, Report, RoundTrip, Row, Server, Setup, table};
pub use responder::Responder;
pub use run::run;
pub use scanner::{Malformed, Reply, Scanner};
pub use schedule::Arrivals;
pub use sizes::{SIZE_MAX, Sizes};
pub use workload::{Ratio, Spec, WORKLOADS, Workload};
