//! The values of all options.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::advertise::Advertised;
use crate::bind::BindAddress;
use crate::choices::{
    CodingChoice, DebugCommand, DurabilityChoice, LogFormat, LogLevel, MaxmemoryPolicy, ReplicationFactor,
    TestDisk,
};
use crate::cron::CronSchedule;
use crate::output_limit::OutputLimits;
use crate::parameter::{Change, Parameter};
use crate::peer::PeerAddress;
use crate::table::PARAMETERS;
use crate::value::OptionValue;

/// Why an option that all nodes follow in their time is not set together with others.
const ALONE: &str = "set it by itself: the whole cluster is to follow before that is answered";

/// The values of all options, each within its bounds.
///
/// Code reads the typed [`Fields`] (`settings.maxmemory`); they cannot be assigned, so that every change
/// passes through the table. A copy is one allocation and a few short strings: share it in an `Arc` where it is
/// read by every worker, and replace that when `CONFIG SET` changes it.
#[derive(Clone)]
pub struct Settings {
    /// One value for each row of [`PARAMETERS`], in its order. The truth.
    values: Vec<OptionValue>,
    /// What `values` says, in the types that code wants.
    fields: Fields,
}

/// Lists the fields, each with the option that it follows.
macro_rules! fields {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = $option:literal;)*) => {
        /// The options that code reads. Durations and sizes name their unit; sizes are in bytes.
        #[derive(Clone)]
        pub struct Fields {
            $(#[doc = concat!("`", $option, "`.")] $(#[doc = $doc])* pub $field: $type,)*
        }

        impl Fields {
            /// What the values of all rows say.
            fn of(values: &[OptionValue]) -> Fields {
                Fields { $($field: values[row($option)].typed(),)* }
            }

            /// Follows one option, if code reads it.
            fn follow(&mut self, option: &str, value: &OptionValue) {
                match option {
                    $($option => self.$field = value.typed(),)*
                    _ => {}
                }
            }
        }
    };
}

fields! {
    bind: Vec<BindAddress> = "bind";
    /// 0: the system chooses.
    port: u16 = "port";
    /// `None`: no cluster endpoint.
    cluster_port: Option<u16> = "cluster-port";
    /// `None`: clients are told the address that they reached.
    advertise: Option<Advertised> = "advertise";
    /// `None`: no admin port.
    admin_port: Option<u16> = "admin-port";
    /// Connections.
    tcp_backlog: u32 = "tcp-backlog";
    /// `None`: not used.
    tcp_keepalive_secs: Option<u32> = "tcp-keepalive";
    /// `None`: idle clients stay.
    timeout_secs: Option<u32> = "timeout";
    maxclients: u32 = "maxclients";
    protected_mode: bool = "protected-mode";
    /// `None`: clients need not authenticate.
    requirepass: Option<String> = "requirepass";
    enable_debug_command: DebugCommand = "enable-debug-command";
    /// The file that was read, if any.
    config: Option<String> = "config";
    dir: String = "dir";
    /// `None`: one for each core.
    workers: Option<u16> = "workers";
    /// `None`: a new cluster gets six for each worker.
    groups: Option<u16> = "groups";
    partitions: u16 = "partitions";
    databases: u16 = "databases";
    /// `None`: the node stays alone.
    peer_port: Option<u16> = "peer-port";
    /// Nodes of the cluster to become a member of, none of which may be there now. Empty: the node's own.
    join: Vec<PeerAddress> = "join";
    /// Nodes that make a cluster together where there is none. `None`: the node never makes one that it is to join.
    join_expect: Option<u16> = "join-expect";
    /// Or what stood in `cluster-secret-file`; `None`: nodes prove nothing to each other.
    cluster_secret: Option<String> = "cluster-secret";
    /// Read it and call [`Settings::take_cluster_secret`].
    cluster_secret_file: Option<String> = "cluster-secret-file";
    /// May be empty.
    node_name: String = "node-name";
    /// May be empty.
    zone: String = "zone";
    /// `None`: as many as there are workers.
    weight: Option<u16> = "weight";
    /// Of the cluster, once the node is in one.
    durability: DurabilityChoice = "durability";
    /// Bytes a second. 0: no limit.
    snapshot_rate: u64 = "snapshot-rate";
    /// Of this start alone.
    accept_data_loss: bool = "accept-data-loss";
    test_disk: TestDisk = "test-disk";
    replication_factor: ReplicationFactor = "rf";
    /// `None`: a node that is away is waited for.
    replace_after_secs: Option<u32> = "replace-after";
    /// Replicas that are filled on one node at a time.
    move_concurrency: u32 = "move-concurrency";
    /// Bytes a second. 0: no limit.
    move_bandwidth: u64 = "move-bandwidth";
    /// `None`: there is no place for backups that the cluster takes by itself.
    backup_target: Option<String> = "backup-target";
    /// `None`: it takes none.
    backup_schedule: Option<CronSchedule> = "backup-schedule";
    /// `None`: all stay.
    backup_keep: Option<u32> = "backup-keep";
    /// 0: no limit.
    maxmemory: u64 = "maxmemory";
    maxmemory_policy: MaxmemoryPolicy = "maxmemory-policy";
    /// Keys.
    maxmemory_samples: u32 = "maxmemory-samples";
    lfu_log_factor: u32 = "lfu-log-factor";
    /// 0: counters do not decay.
    lfu_decay_time_minutes: u32 = "lfu-decay-time";
    coding: CodingChoice = "coding";
    /// Bytes. What is below the least that has an effect was accepted too.
    coding_threshold: u32 = "coding-threshold";
    coding_hot_percent: u32 = "coding-hot-memory";
    coding_delay_millis: u32 = "coding-delay";
    /// Bytes.
    proto_max_bulk_len: u64 = "proto-max-bulk-len";
    /// Bytes.
    client_query_buffer_limit: u64 = "client-query-buffer-limit";
    output_limits: OutputLimits = "client-output-buffer-limit";
    log_format: LogFormat = "log-format";
    log_level: LogLevel = "log-level";
    /// Letters in their normal order.
    notify_keyspace_events: String = "notify-keyspace-events";
    /// Microseconds; negative: nothing is logged; 0: everything is.
    slowlog_log_slower_than_micros: i64 = "slowlog-log-slower-than";
    /// Entries.
    slowlog_max_len: u64 = "slowlog-max-len";
    /// 0: events are not watched.
    latency_monitor_threshold_millis: u64 = "latency-monitor-threshold";
    scripting: bool = "scripting";
    latency_tracking: bool = "latency-tracking";
    latency_percentiles: Vec<f64> = "latency-tracking-info-percentiles";
    /// Elements.
    hash_max_listpack_entries: u64 = "hash-max-listpack-entries";
    /// Bytes.
    hash_max_listpack_value: u64 = "hash-max-listpack-value";
    hll_sparse_max_bytes: u64 = "hll-sparse-max-bytes";
    stream_node_max_bytes: u64 = "stream-node-max-bytes";
    stream_node_max_entries: u64 = "stream-node-max-entries";
    /// As Redis counts it: elements, or -1 to -5 for sizes.
    list_max_listpack_size: i32 = "list-max-listpack-size";
    /// Elements.
    set_max_intset_entries: u64 = "set-max-intset-entries";
    /// Elements.
    set_max_listpack_entries: u64 = "set-max-listpack-entries";
    /// Bytes.
    set_max_listpack_value: u64 = "set-max-listpack-value";
    /// Elements.
    zset_max_listpack_entries: u64 = "zset-max-listpack-entries";
    /// Bytes.
    zset_max_listpack_value: u64 = "zset-max-listpack-value";
}

/// The position of an option that is there.
fn row(option: &str) -> usize {
    Parameter::position(option).unwrap_or_else(|| panic!("no row of the table is `{option}`"))
}

impl Default for Settings {
    fn default() -> Settings {
        let values: Vec<OptionValue> = PARAMETERS.iter().map(Parameter::default_value).collect();
        let fields = Fields::of(&values);
        Settings { values, fields }
    }
}

/// What differs from the defaults; not the secrets. `Fields` has no `Debug` at all, for the same reason.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.iter()
                    .filter(|(row, value)| **value != row.default_value())
                    .map(|(row, value)| {
                        (
                            row.name,
                            if row.secret {
                                "(secret)".to_owned()
                            } else {
                                value.render()
                            },
                        )
                    }),
            )
            .finish()
    }
}

impl Deref for Settings {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

/// Why `CONFIG SET` changed nothing. Displayed, it is the whole error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No option has this name.
    Unknown {
        /// The name as the client gave it.
        name: String,
    },
    /// An option refused its value, or to be changed at all.
    Failed {
        /// The name as the client gave it.
        name: String,
        /// Why, in the words of Redis.
        reason: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown { name } => {
                write!(
                    f,
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                )
            }
            SetError::Failed { name, reason } => {
                write!(
                    f,
                    "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
                )
            }
        }
    }
}

impl std::error::Error for SetError {}

impl Settings {
    /// How long a command takes that goes into the slow log; `None` if there is none.
    pub fn slow_from(&self) -> Option<Duration> {
        let micros = u64::try_from(self.slowlog_log_slower_than_micros);
        micros.ok().map(Duration::from_micros)
    }

    /// Every name that a pattern of `CONFIG GET` is compared with, aliases included, in the order of the table.
    /// A word without wildcards goes to [`Settings::get`], which knows hidden options too.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let shown = |row: &&Parameter| row.is_in_config() && !row.hidden;
        PARAMETERS.iter().filter(shown).flat_map(Parameter::names)
    }

    /// The value of an option as `CONFIG GET` shows it, by name or alias in any letter case.
    pub fn get(&self, name: &str) -> Option<String> {
        let index = Parameter::position(name)?;
        PARAMETERS[index]
            .is_in_config()
            .then(|| self.values[index].render())
    }

    /// Every option with its value, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, &OptionValue)> {
        PARAMETERS.iter().zip(&self.values)
    }

    /// `CONFIG SET`: all pairs, or none of them.
    ///
    /// An option that can only be set at start accepts the value that it has: tools save all parameters and
    /// restore them, and asking for what is already so is not an error.
    pub fn set_all(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), SetError> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut rows = Vec::with_capacity(pairs.len());
        for &(name, _) in pairs {
            let index = std::str::from_utf8(name)
                .ok()
                .and_then(Parameter::position)
                .filter(|&index| PARAMETERS[index].is_in_config())
                .ok_or_else(|| SetError::Unknown { name: shown(name) })?;
            if rows.contains(&index) {
                return Err(SetError::Failed {
                    name: shown(name),
                    reason: "duplicate parameter".into(),
                });
            }
            rows.push(index);
        }
        let mut next = self.clone();
        for (&index, &(name, text)) in rows.iter().zip(pairs) {
            let failed = |reason: String| SetError::Failed {
                name: shown(name),
                reason,
            };
            let row = &PARAMETERS[index];
            let value = std::str::from_utf8(text)
                .map_err(|_| "argument must be UTF-8 text".to_owned())
                .and_then(|text| row.kind.parse(text, Some(&self.values[index])));
            match row.change {
                Change::Live => next.put(index, value.map_err(failed)?),
                Change::Restart if value.as_ref() == Ok(&self.values[index]) => {}
                Change::Restart => return Err(failed("can't set immutable config".into())),
                Change::Order if value.map_err(&failed)? == self.values[index] => {}
                Change::Order => return Err(failed(ALONE.into())),
            }
        }
        *self = next;
        Ok(())
    }

    /// Makes what stands in `cluster-secret-file` the `cluster-secret`. White space around it, such as the last line's end,
    /// is not part of it.
    ///
    /// # Errors
    /// If it cannot be a secret: what is wrong with the file, as the end of a sentence.
    pub fn take_cluster_secret(&mut self, text: &str) -> Result<(), String> {
        let secret = text.trim();
        if secret.is_empty() {
            return Err("is empty; it must hold the secret".to_owned());
        }
        let index = row("cluster-secret");
        let kind = PARAMETERS[index].kind;
        let value = kind.parse(secret, None);
        let value = value.map_err(|_| format!("must hold one line; allowed: {}", kind.allowed()))?;
        self.put(index, value);
        Ok(())
    }

    /// The `durability` that a `CONFIG SET` of these pairs orders, by that name or by Redis's; none if all of the three are to be what
    /// they are.
    ///
    /// # Errors
    /// A value that is none, names that contradict each other, and one of them together with other options: it is not answered at once.
    pub fn ordered_durability(&self, pairs: &[(&[u8], &[u8])]) -> Result<Option<DurabilityChoice>, SetError> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let row_of = |name| {
            let row = Parameter::find(text(name)?)?;
            (row.change == Change::Order).then_some(row)
        };
        let mut given: BTreeMap<&str, String> = BTreeMap::new();
        let mut first = None;
        for &(name, value) in pairs {
            let Some(row) = row_of(name) else { continue };
            let failed = |reason| SetError::Failed {
                name: row.name.to_owned(),
                reason,
            };
            let value = text(value).ok_or_else(|| failed("argument must be UTF-8 text".to_owned()))?;
            let parsed = row.kind.parse(value, None).map_err(failed)?;
            if given.insert(row.name, parsed.render()).is_some() {
                return Err(failed("duplicate parameter".to_owned()));
            }
            if Some(parsed.render()) != self.get(row.name) {
                first.get_or_insert(row.name);
            }
        }
        let Some(name) = first else { return Ok(None) };
        let failed = |name: &str, reason: String| SetError::Failed {
            name: name.to_owned(),
            reason,
        };
        if given.len() < pairs.len() {
            return Err(failed(name, ALONE.to_owned()));
        }
        let wanted = match given.get("durability") {
            Some(word) => DurabilityChoice::of_word(word).expect("it was parsed"),
            None => self
                .named_by_redis(&given)
                .map_err(|(name, reason)| failed(name, reason))?,
        };
        let mut so = self.clone();
        so.take_durability(wanted);
        for (name, value) in &given {
            let is_same = so.get(name).as_ref() == Some(value);
            // What `no` syncs is synced as with `everysec`.
            if !is_same && (*name, value.as_str()) != ("appendfsync", "no") {
                let reason = format!("contradicts durability {}", wanted.word());
                return Err(failed(name, reason));
            }
        }
        Ok(Some(wanted))
    }

    /// What `appendonly` and `appendfsync` come to, by themselves.
    fn named_by_redis(
        &self,
        given: &BTreeMap<&str, String>,
    ) -> Result<DurabilityChoice, (&'static str, String)> {
        let writes = match given.get("appendonly").map(String::as_str) {
            Some("no") if self.durability != DurabilityChoice::Memory => {
                let reason = "what is on disk would go: if that is meant, set durability memory";
                return Err(("appendonly", reason.to_owned()));
            }
            Some(word) => word == "yes",
            None => self.durability != DurabilityChoice::Memory,
        };
        if !writes {
            let reason = "there is nothing to sync with durability memory: set appendonly yes too";
            return Err(("appendfsync", reason.to_owned()));
        }
        let given = given.get("appendfsync").cloned();
        let syncs = given.or_else(|| self.get("appendfsync"));
        Ok(match syncs.as_deref() {
            Some("always") => DurabilityChoice::Strict,
            _ => DurabilityChoice::Relaxed,
        })
    }

    /// Makes the cluster's `durability` that of these settings, and lets Redis's names follow it.
    pub fn take_durability(&mut self, durability: DurabilityChoice) {
        if self.durability != durability {
            self.put(row("durability"), OptionValue::Word(durability.word()));
            self.put(row("appendfsync"), OptionValue::Word("everysec"));
        }
        self.follow_durability();
    }

    /// `appendonly` and `appendfsync` say what `durability` is. Without files `appendfsync` says nothing, and stays as it is.
    pub(crate) fn follow_durability(&mut self) {
        let (writes, syncs) = match self.durability {
            DurabilityChoice::Memory => ("no", None),
            DurabilityChoice::Relaxed => ("yes", Some("everysec")),
            DurabilityChoice::Strict => ("yes", Some("always")),
        };
        self.put(row("appendonly"), OptionValue::Word(writes));
        if let Some(syncs) = syncs {
            self.put(row("appendfsync"), OptionValue::Word(syncs));
        }
    }

    /// Stores a value that has passed the bounds of its row.
    pub(crate) fn put(&mut self, index: usize, value: OptionValue) {
        self.fields.follow(PARAMETERS[index].name, &value);
        self.values[index] = value;
    }

    pub(crate) fn value(&self, index: usize) -> &OptionValue {
        &self.values[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::OptionKind;

    #[test]
    fn every_field_can_hold_every_value_that_its_row_allows() {
        for row in PARAMETERS {
            let mut fields = Settings::default().fields;
            let extremes: Vec<OptionValue> = match row.kind {
                OptionKind::Integer { min, max } => {
                    vec![OptionValue::Integer(min), OptionValue::Integer(max)]
                }
                OptionKind::Memory { min, max } => vec![OptionValue::Memory(min), OptionValue::Memory(max)],
                OptionKind::Bool => vec![OptionValue::Bool(false), OptionValue::Bool(true)],
                OptionKind::Choice { words } => words.iter().map(|word| OptionValue::Word(word)).collect(),
                _ => vec![row.default_value()],
            };
            for value in extremes {
                fields.follow(row.name, &value);
            }
        }
    }

    #[test]
    fn a_field_follows_its_option() {
        let mut settings = Settings::default();
        settings
            .set_all(&[
                (b"maxmemory", b"1gb"),
                (b"TIMEOUT", b"30"),
                (b"loglevel", b"DEBUG"),
            ])
            .unwrap();
        assert_eq!(settings.maxmemory, 1 << 30);
        assert_eq!(settings.timeout_secs, Some(30));
        assert_eq!(settings.log_level, LogLevel::Debug);
        settings.set_all(&[(b"timeout", b"0")]).unwrap();
        assert_eq!(settings.timeout_secs, None);
    }
}
