//! What the nodes say of themselves while a cluster grows: asked now and then, in a thread of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::hand::lock;
use crate::http_get;

/// Between two samples of the nodes.
const SAMPLING: Duration = Duration::from_millis(500);

/// What the nodes said of themselves at a moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at_ms: u64,
    pub(super) nodes: usize,
    pub(super) leading: usize,
    pub(super) led_most: u64,
    pub(super) led_least: u64,
    pub(super) sent_bytes: u64,
}

/// Asks the nodes now and then what they lead, and what they have sent.
pub(super) struct Sampler {
    shared: Arc<Sampling>,
    thread: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Sampling {
    is_over: AtomicBool,
    /// Whom to ask, and what the time of the clients was at that moment.
    watched: Mutex<Option<(Vec<SocketAddr>, Instant)>>,
    samples: Mutex<Vec<Sample>>,
}

impl Sampler {
    pub(super) fn start() -> Sampler {
        let shared = Arc::new(Sampling::default());
        let thread = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut sent: BTreeMap<SocketAddr, u64> = BTreeMap::new();
                while !shared.is_over.load(Ordering::Relaxed) {
                    let watched = lock(&shared.watched).clone();
                    if let Some((pages, zero)) = watched {
                        let sample = look(&pages, zero, &mut sent);
                        lock(&shared.samples).push(sample);
                    }
                    thread::sleep(SAMPLING);
                }
            })
        };
        Sampler { shared, thread }
    }

    pub(super) fn watch(&self, pages: Vec<SocketAddr>, elapsed: Duration) {
        let now = Instant::now();
        *lock(&self.shared.watched) = Some((pages, now.checked_sub(elapsed).unwrap_or(now)));
    }

    pub(super) fn stop(self) -> Vec<Sample> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only asks");
        std::mem::take(&mut *lock(&self.shared.samples))
    }
}

/// What the nodes say. `sent` has what each had sent when it was last heard of, so that the sum falls with nobody.
fn look(pages: &[SocketAddr], zero: Instant, sent: &mut BTreeMap<SocketAddr, u64>) -> Sample {
    let mut led = Vec::new();
    for &page in pages {
        let Ok(metrics) = http_get(page, "/metrics") else {
            continue;
        };
        let value = |name: &str| {
            let lines = metrics.body.lines();
            let values = lines.filter(|line| line.split([' ', '{']).next() == Some(name));
            values
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum::<f64>() as u64
        };
        led.push(value("chorale_groups_led"));
        sent.insert(page, value("chorale_peer_output_bytes_total"));
    }
    Sample {
        at_ms: zero.elapsed().as_millis() as u64,
        nodes: led.len(),
        leading: led.iter().filter(|&&led| led > 0).count(),
        led_most: led.iter().copied().max().unwrap_or(0),
        led_least: led.iter().copied().min().unwrap_or(0),
        sent_bytes: sent.values().sum(),
    }
}
