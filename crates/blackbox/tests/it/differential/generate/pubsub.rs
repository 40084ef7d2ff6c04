//! Publishing while nobody listens. Messages and subscriptions are tested in `pubsub.rs`: they come when they come, and
//! as many as there are channels.

use super::{Generator, PATTERNS, words};

const CHANNELS: &[&str] = &["a", "news", "news.art", ""];

impl Generator {
    pub(super) fn pubsub_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(6) {
            0 => vec![
                self.word(&["PUBLISH", "SPUBLISH"]),
                self.of(CHANNELS),
                self.value(),
            ],
            1 => {
                let mut arguments = vec![self.word(&["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])];
                if self.prng.chance(50) {
                    arguments.push(self.of(CHANNELS));
                }
                arguments
            }
            2 | 3 => {
                let mut arguments = words("PUBSUB");
                arguments.push(self.word(&["CHANNELS", "SHARDCHANNELS"]));
                if self.prng.chance(50) {
                    arguments.push(self.of(PATTERNS));
                }
                arguments
            }
            4 => {
                let mut arguments = words("PUBSUB");
                arguments.push(self.word(&["NUMSUB", "SHARDNUMSUB"]));
                for _ in 0..self.prng.below(3) {
                    arguments.push(self.of(CHANNELS));
                }
                arguments
            }
            _ => vec![words("PUBSUB").remove(0), self.word(&["NUMPAT", "HELP", "BOGUS"])],
        }
    }
}
