//! How much a node does in a second, from totals that only grow.

use gateway::Shared;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Totals when the rates were last computed.
pub(crate) struct Rates {
    at: Instant,
    commands: u64,
    input: u64,
    output: u64,
}

impl Rates {
    pub(crate) fn new(now: Instant) -> Rates {
        Rates {
            at: now,
            commands: 0,
            input: 0,
            output: 0,
        }
    }

    /// Computes them anew, if a second has passed.
    pub(crate) fn sample(&mut self, shared: &Shared, now: Instant) {
        let elapsed = (now - self.at).as_secs_f64();
        if elapsed < 1.0 {
            return;
        }
        let sampled = Rates {
            at: now,
            commands: shared.total(|worker| worker.commands.get()),
            input: shared.total(|worker| worker.input_bytes.get()),
            output: shared.total(|worker| worker.output_bytes.get()),
        };
        let rates = &shared.rates;
        for (rate, now, before) in [
            (&rates.commands, sampled.commands, self.commands),
            (&rates.input, sampled.input, self.input),
            (&rates.output, sampled.output, self.output),
        ] {
            rate.store(
                (now.saturating_sub(before) as f64 / elapsed) as u64,
                Ordering::Relaxed,
            );
        }
        *self = sampled;
    }
}
