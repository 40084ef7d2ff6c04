//! What is to be measured.

use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::faults::Fault;
use crate::keys::Distribution;
use crate::schedule::Arrivals;
use crate::sizes::{SIZE_MAX, Sizes};
use crate::workload::{Ratio, Workload};

/// Clients of one run. Each has a socket, in a cluster one to each node.
pub const CLIENTS_MAX: usize = 20_000;

/// Requests of one client that are on their way at a time, in all of a run.
pub const IN_FLIGHT_SLOTS_MAX: usize = 1 << 20;

/// Keys; their names have twelve digits.
pub const KEYS_MAX: u64 = 1_000_000_000;

/// Keys of one `MSET` or `MGET`.
pub const BATCH_MAX: u64 = 1_000;

/// Replicas that `WAIT` may ask for.
pub const WAIT_MAX: u64 = 100;

/// Threads of the tool.
pub const THREADS_MAX: usize = 64;

/// Seconds of one run, warm-up aside: each is a line of the report.
pub const SECONDS_MAX: u64 = 86_400;

/// Requests per second of an open loop.
pub const RATE_MAX: f64 = 1e8;

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// After this many requests.
    Requests(u64),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where clients connect; with [`Plan::is_cluster`], who is asked for the rest. At least one.
    pub endpoints: Vec<Endpoint>,
    /// Clients know slots, and ask the node that has the key's.
    pub is_cluster: bool,
    /// Clients of each endpoint.
    pub clients: usize,
    /// When it is over.
    pub length: Length,
    /// How long it runs before anything counts.
    pub warmup: Duration,
    /// Requests of one client that are on their way at a time.
    pub pipeline: usize,
    /// What clients do.
    pub workload: Workload,
    /// `GET` and `SET` of the workload `get_set`.
    pub ratio: Ratio,
    /// How many keys there are.
    pub keys: u64,
    /// How they are drawn, if not as the workload does.
    pub distribution: Option<Distribution>,
    /// How long values are.
    pub sizes: Sizes,
    /// Keys of one `MSET` or `MGET`.
    pub batch: u64,
    /// Those keys share a hash tag.
    pub is_tagged: bool,
    /// `WAIT` for so many replicas is sent behind every write, on the same connection, and the request ends with its answer.
    pub wait: Option<u64>,
    /// Requests per second of all clients together, begun at times fixed beforehand, whatever the server does.
    pub rate: Option<f64>,
    /// How these beginnings lie in time.
    pub arrivals: Arrivals,
    /// Everything drawn follows from it.
    pub seed: u64,
    /// Threads of the tool.
    pub threads: usize,
    /// What clients say first.
    pub password: Option<String>,
    /// They ask for RESP3.
    pub is_resp3: bool,
    /// How long a reply is waited for.
    pub timeout: Duration,
    /// Whether keys are made before the run, where the workload needs them.
    pub is_loaded: bool,
    /// What happens to servers meanwhile.
    pub faults: Vec<Fault>,
    /// Whether to tell on standard error how it goes.
    pub shows_progress: bool,
}

impl Plan {
    /// A run of the defaults that `--help` names.
    pub fn new(endpoints: Vec<Endpoint>) -> Plan {
        Plan {
            endpoints,
            is_cluster: false,
            clients: 50,
            length: Length::Time(Duration::from_secs(10)),
            warmup: Duration::ZERO,
            pipeline: 1,
            workload: Workload::GetSet,
            ratio: Ratio::default(),
            keys: 100_000,
            distribution: None,
            sizes: Sizes::Fixed(100),
            batch: 10,
            is_tagged: false,
            wait: None,
            rate: None,
            arrivals: Arrivals::default(),
            seed: 1,
            threads: 1,
            password: None,
            is_resp3: false,
            timeout: Duration::from_secs(5),
            is_loaded: true,
            faults: Vec::new(),
            shows_progress: false,
        }
    }

    /// How keys are drawn.
    pub fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(self.workload.distribution())
    }

    /// Clients of all endpoints.
    pub fn client_count(&self) -> usize {
        self.clients * self.endpoints.len()
    }

    /// Finds what does not go together.
    ///
    /// # Errors
    /// In words that say what to change.
    pub fn check(&self) -> Result<(), String> {
        let between = |name: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("--{name} {value}: take 1 to {most}"))
        };
        between("clients", self.clients as u64, CLIENTS_MAX as u64)?;
        between("pipeline", self.pipeline as u64, IN_FLIGHT_SLOTS_MAX as u64)?;
        between("keys", self.keys, KEYS_MAX)?;
        between("batch", self.batch, BATCH_MAX)?;
        between("threads", self.threads as u64, THREADS_MAX as u64)?;
        if let Some(replicas) = self.wait {
            between("wait", replicas, WAIT_MAX)?;
        }
        if self.client_count() > CLIENTS_MAX {
            return Err(format!(
                "{} clients at each of {} endpoints are more than {CLIENTS_MAX}: lower --clients",
                self.clients,
                self.endpoints.len()
            ));
        }
        if self.client_count() * self.pipeline > IN_FLIGHT_SLOTS_MAX {
            return Err(format!(
                "{} clients with a pipeline of {} are more than {IN_FLIGHT_SLOTS_MAX} requests on their way: lower one of them",
                self.client_count(),
                self.pipeline
            ));
        }
        match self.length {
            Length::Time(time) if time.is_zero() || time > Duration::from_secs(SECONDS_MAX) => {
                return Err(format!("--seconds: take more than 0, up to {SECONDS_MAX}"));
            }
            Length::Requests(0) => return Err("--requests 0: take at least 1".to_owned()),
            Length::Time(_) | Length::Requests(_) => {}
        }
        if let Some(rate) = self.rate
            && !(rate > 0.0 && rate <= RATE_MAX)
        {
            return Err(format!(
                "--rate: take more than 0 requests per second, up to {RATE_MAX}"
            ));
        }
        if self.arrivals != Arrivals::Even && self.rate.is_none() {
            return Err(
                "--arrivals: requests of a closed loop begin with replies: take --rate too".to_owned(),
            );
        }
        if self.timeout.is_zero() {
            return Err("--timeout: take more than 0 seconds".to_owned());
        }
        if self.workload == Workload::Trans && self.pipeline > 1 {
            return Err(
                "trans cannot be pipelined, because WATCH is about the whole connection: leave --pipeline out, and take more \
                 --clients"
                    .to_owned(),
            );
        }
        let keys_needed = match self.workload {
            Workload::Xfer => 2,
            Workload::Mset | Workload::Mget => self.batch,
            _ => 1,
        };
        if self.keys < keys_needed {
            return Err(format!(
                "{} needs at least {keys_needed} keys: raise --keys",
                self.workload
            ));
        }
        if self.sizes.max() > SIZE_MAX {
            return Err(format!("--size: take at most {SIZE_MAX}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new(Endpoint::parse_list("127.0.0.1:1,127.0.0.1:2").expect("two endpoints"))
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_what_to_change() {
        plan().check().expect("the defaults go together");
        type Change = fn(&mut Plan);
        let cases: [(&str, Change); 13] = [
            ("--clients", |plan| plan.clients = 0),
            ("lower --clients", |plan| plan.clients = CLIENTS_MAX / 2 + 1),
            ("--pipeline 0", |plan| plan.pipeline = 0),
            ("lower one of them", |plan| plan.pipeline = IN_FLIGHT_SLOTS_MAX),
            ("--keys", |plan| plan.keys = KEYS_MAX + 1),
            ("--wait 0", |plan| plan.wait = Some(0)),
            ("--seconds", |plan| plan.length = Length::Time(Duration::ZERO)),
            ("--requests", |plan| plan.length = Length::Requests(0)),
            ("--rate", |plan| plan.rate = Some(f64::NAN)),
            ("more --clients", |plan| {
                plan.workload = Workload::Trans;
                plan.pipeline = 2;
            }),
            ("take --rate too", |plan| plan.arrivals = Arrivals::Poisson),
            ("at least 10 keys", |plan| {
                plan.workload = Workload::Mset;
                plan.keys = 9;
            }),
            ("at least 2 keys", |plan| {
                plan.workload = Workload::Xfer;
                plan.keys = 1;
            }),
        ];
        for (hint, change) in cases {
            let mut plan = plan();
            change(&mut plan);
            let problem = plan.check().expect_err(hint);
            assert!(problem.contains(hint), "{hint}: {problem}");
        }
    }
}
