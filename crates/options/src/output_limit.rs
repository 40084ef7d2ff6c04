//! How much may wait for a client that reads slowly.

use crate::memory::{human_bytes, parse_memory};

/// The limits of one class of clients. A client that passes one is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// Bytes that disconnect at once; 0: no such limit.
    pub hard: u64,
    /// Bytes that disconnect when exceeded without a break for `soft_secs`; 0: no such limit.
    pub soft: u64,
    /// Seconds above `soft`.
    pub soft_secs: u64,
}

impl OutputLimit {
    /// Whether this much output disconnects at once.
    pub fn passes_hard(&self, waiting_bytes: u64) -> bool {
        self.hard != 0 && waiting_bytes >= self.hard
    }

    /// Whether this much output starts, or keeps running, the count of soft seconds.
    pub fn passes_soft(&self, waiting_bytes: u64) -> bool {
        self.soft != 0 && waiting_bytes >= self.soft
    }
}

/// The limits of the three classes, `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OutputLimits {
    /// Clients that send commands.
    pub normal: OutputLimit,
    /// Redis replicas.
    pub replica: OutputLimit,
    /// Clients with subscriptions.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    /// These limits with the classes in `text` replaced: `CLASS HARD SOFT SECONDS` once or more.
    ///
    /// The error is worded as Redis words it.
    pub fn with(mut self, text: &str) -> Result<OutputLimits, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        for four in words.chunks_exact(4) {
            let wrong = |what: &str| format!("Error in {what} value in buffer limit configuration.");
            let limit = OutputLimit {
                hard: parse_memory(four[1]).ok_or_else(|| wrong("hard"))?,
                soft: parse_memory(four[2]).ok_or_else(|| wrong("soft"))?,
                soft_secs: four[3].parse().map_err(|_| wrong("soft_seconds"))?,
            };
            match four[0].to_ascii_lowercase().as_str() {
                "normal" => self.normal = limit,
                "slave" | "replica" => self.replica = limit,
                "pubsub" => self.pubsub = limit,
                _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
            }
        }
        Ok(self)
    }

    fn render_with(&self, size: impl Fn(u64) -> String, replica: &str) -> String {
        [
            ("normal", self.normal),
            (replica, self.replica),
            ("pubsub", self.pubsub),
        ]
        .map(|(class, l)| format!("{class} {} {} {}", size(l.hard), size(l.soft), l.soft_secs))
        .join(" ")
    }

    /// As `CONFIG GET` shows it: all three classes, sizes in bytes, and `slave` for replicas, which is the
    /// spelling that tools compare with.
    pub fn render(&self) -> String {
        self.render_with(|bytes| bytes.to_string(), "slave")
    }

    /// As documentation shows it.
    pub fn render_for_people(&self) -> String {
        self.render_with(human_bytes, "replica")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_not_named_keep_their_limits() {
        let all = OutputLimits::default()
            .with("normal 1mb 2mb 60 slave 3mb 4mb 70 pubsub 5mb 6mb 80")
            .unwrap();
        assert_eq!(
            all.render(),
            "normal 1048576 2097152 60 slave 3145728 4194304 70 pubsub 5242880 6291456 80"
        );
        let changed = all.with("replica 1gb 0 0").unwrap();
        assert_eq!(
            changed.render_for_people(),
            "normal 1mb 2mb 60 replica 1gb 0 0 pubsub 5mb 6mb 80"
        );
    }

    #[test]
    fn each_mistake_has_the_message_that_redis_gives() {
        for (text, part) in [
            ("", "Wrong number of arguments"),
            ("wrong number", "Wrong number of arguments"),
            ("master 10mb 10mb 60", "Invalid client class"),
            ("normal 10mbs 10mb 60", "Error in hard"),
            ("replica 10mb 10mbs 60", "Error in soft value"),
            ("pubsub 10mb 10mb 60s", "Error in soft_seconds"),
        ] {
            let message = OutputLimits::default().with(text).unwrap_err();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }

    #[test]
    fn zero_means_no_limit() {
        let none = OutputLimit::default();
        assert!(!none.passes_hard(u64::MAX) && !none.passes_soft(u64::MAX));
        let some = OutputLimit {
            hard: 10,
            soft: 5,
            soft_secs: 1,
        };
        assert!(some.passes_hard(10) && !some.passes_hard(9) && some.passes_soft(5) && !some.passes_soft(4));
    }
}
