//! The values of all options.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::advertise::Advertised;
use crate::bind::BindAddress;
use crate::choices::{DebugCommand, LogFormat, LogLevel, MaxmemoryPolicy, ReplicationFactor};
use crate::output_limit::OutputLimits;
use crate::parameter::{Change, Parameter};
use crate::peer::PeerAddress;
use crate::table::PARAMETERS;
use crate::value::Value;

/// The values of all options, each within its bounds.
///
/// Code reads the typed [`Fields`] (`settings.maxmemory`); they cannot be assigned, so that every change
/// passes through the table. A copy is one allocation and a few short strings: share it in an `Arc` where it is
/// read by every worker, and replace that when `CONFIG SET` changes it.
#[derive(Clone)]
pub struct Settings {
    /// One value for each row of [`PARAMETERS`], in its order. The truth.
    values: Vec<Value>,
    /// What `values` says, in the types that code wants.
    fields: Fields,
}

/// The options that code reads. Durations and sizes name their unit; sizes are in bytes.
#[derive(Clone)]
pub struct Fields {
    /// `bind`.
    pub bind: Vec<BindAddress>,
    /// `port`; 0: the system chooses.
    pub port: u16,
    /// `cluster-port`; `None`: no cluster endpoint.
    pub cluster_port: Option<u16>,
    /// `advertise`; `None`: clients are told the address that they reached.
    pub advertise: Option<Advertised>,
    /// `admin-port`; `None`: no admin port.
    pub admin_port: Option<u16>,
    /// `tcp-backlog`, connections.
    pub tcp_backlog: u32,
    /// `tcp-keepalive`; `None`: not used.
    pub tcp_keepalive_secs: Option<u32>,
    /// `timeout`; `None`: idle clients stay.
    pub timeout_secs: Option<u32>,
    /// `maxclients`.
    pub maxclients: u32,
    /// `protected-mode`.
    pub protected_mode: bool,
    /// `requirepass`; `None`: clients need not authenticate.
    pub requirepass: Option<String>,
    /// `enable-debug-command`.
    pub enable_debug_command: DebugCommand,
    /// `config`: the file that was read, if any.
    pub config: Option<String>,
    /// `dir`.
    pub dir: String,
    /// `workers`; `None`: one for each core.
    pub workers: Option<u16>,
    /// `groups`; `None`: a new cluster gets six for each worker.
    pub groups: Option<u16>,
    /// `partitions`.
    pub partitions: u16,
    /// `databases`.
    pub databases: u16,
    /// `peer-port`; `None`: the node stays alone.
    pub peer_port: Option<u16>,
    /// `join`: nodes of the cluster to become a member of, none of which may be there now. Empty: the node's own.
    pub join: Vec<PeerAddress>,
    /// `cluster-secret`, or what stood in `cluster-secret-file`; `None`: nodes prove nothing to each other.
    pub cluster_secret: Option<String>,
    /// `cluster-secret-file`. Read it and call [`Settings::take_cluster_secret`].
    pub cluster_secret_file: Option<String>,
    /// `zone`; may be empty.
    pub zone: String,
    /// `rf`.
    pub replication_factor: ReplicationFactor,
    /// `replace-after`; `None`: a node that is away is waited for.
    pub replace_after_secs: Option<u32>,
    /// `maxmemory`; 0: no limit.
    pub maxmemory: u64,
    /// `maxmemory-policy`.
    pub maxmemory_policy: MaxmemoryPolicy,
    /// `maxmemory-samples`, keys.
    pub maxmemory_samples: u32,
    /// `lfu-log-factor`.
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`; 0: counters do not decay.
    pub lfu_decay_time_minutes: u32,
    /// `proto-max-bulk-len`, bytes.
    pub proto_max_bulk_len: u64,
    /// `client-query-buffer-limit`, bytes.
    pub client_query_buffer_limit: u64,
    /// `client-output-buffer-limit`.
    pub output_limits: OutputLimits,
    /// `log-format`.
    pub log_format: LogFormat,
    /// `log-level`.
    pub log_level: LogLevel,
    /// `notify-keyspace-events`: letters in their normal order.
    pub notify_keyspace_events: String,
    /// `slowlog-log-slower-than`, microseconds; negative: nothing is logged; 0: everything is.
    pub slowlog_log_slower_than_micros: i64,
    /// `slowlog-max-len`, entries.
    pub slowlog_max_len: u64,
    /// `latency-monitor-threshold`; 0: events are not watched.
    pub latency_monitor_threshold_millis: u64,
    /// `latency-tracking`.
    pub latency_tracking: bool,
    /// `latency-tracking-info-percentiles`.
    pub latency_percentiles: Vec<f64>,
    /// `hash-max-listpack-entries`, elements.
    pub hash_max_listpack_entries: u64,
    /// `hash-max-listpack-value`, bytes.
    pub hash_max_listpack_value: u64,
    /// `hll-sparse-max-bytes`.
    pub hll_sparse_max_bytes: u64,
    /// `list-max-listpack-size`, as Redis counts it: elements, or -1 to -5 for sizes.
    pub list_max_listpack_size: i32,
    /// `set-max-intset-entries`, elements.
    pub set_max_intset_entries: u64,
    /// `set-max-listpack-entries`, elements.
    pub set_max_listpack_entries: u64,
    /// `set-max-listpack-value`, bytes.
    pub set_max_listpack_value: u64,
    /// `zset-max-listpack-entries`, elements.
    pub zset_max_listpack_entries: u64,
    /// `zset-max-listpack-value`, bytes.
    pub zset_max_listpack_value: u64,
}

impl Fields {
    /// Fields before the rows have filled them. Never seen outside: every field is filled by a row, which a
    /// test checks by looking for these values.
    pub(crate) fn unfilled() -> Fields {
        Fields {
            bind: Vec::new(),
            port: u16::MAX,
            cluster_port: Some(u16::MAX),
            advertise: Some(Advertised {
                host: String::new(),
                port: None,
            }),
            admin_port: Some(u16::MAX),
            tcp_backlog: u32::MAX,
            tcp_keepalive_secs: Some(u32::MAX),
            timeout_secs: Some(u32::MAX),
            maxclients: u32::MAX,
            protected_mode: false,
            requirepass: Some(String::new()),
            enable_debug_command: DebugCommand::Local,
            config: Some(String::new()),
            dir: String::new(),
            workers: Some(u16::MAX),
            groups: Some(u16::MAX),
            partitions: u16::MAX,
            databases: u16::MAX,
            peer_port: Some(u16::MAX),
            join: vec![PeerAddress {
                host: String::new(),
                port: 0,
            }],
            cluster_secret: Some(String::new()),
            cluster_secret_file: Some(String::new()),
            zone: "?".to_owned(),
            replication_factor: ReplicationFactor::Six,
            replace_after_secs: Some(u32::MAX),
            maxmemory: u64::MAX,
            maxmemory_policy: MaxmemoryPolicy::VolatileTtl,
            maxmemory_samples: u32::MAX,
            lfu_log_factor: u32::MAX,
            lfu_decay_time_minutes: u32::MAX,
            proto_max_bulk_len: u64::MAX,
            client_query_buffer_limit: u64::MAX,
            output_limits: OutputLimits::default(),
            log_format: LogFormat::Json,
            log_level: LogLevel::Nothing,
            notify_keyspace_events: "?".to_owned(),
            slowlog_log_slower_than_micros: i64::MAX,
            slowlog_max_len: u64::MAX,
            latency_monitor_threshold_millis: u64::MAX,
            latency_tracking: false,
            latency_percentiles: Vec::new(),
            hash_max_listpack_entries: u64::MAX,
            hash_max_listpack_value: u64::MAX,
            hll_sparse_max_bytes: u64::MAX,
            list_max_listpack_size: i32::MAX,
            set_max_intset_entries: u64::MAX,
            set_max_listpack_entries: u64::MAX,
            set_max_listpack_value: u64::MAX,
            zset_max_listpack_entries: u64::MAX,
            zset_max_listpack_value: u64::MAX,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let values: Vec<Value> = PARAMETERS.iter().map(Parameter::default_value).collect();
        let mut settings = Settings {
            values,
            fields: Fields::unfilled(),
        };
        for (row, value) in PARAMETERS.iter().zip(&settings.values) {
            if let Some(fill) = row.fill {
                fill(&mut settings.fields, value);
            }
        }
        settings
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
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, &Value)> {
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
        let index = Parameter::position("cluster-secret").expect("the row stands in the table");
        let kind = PARAMETERS[index].kind;
        let value = kind.parse(secret, None);
        let value = value.map_err(|_| format!("must hold one line; allowed: {}", kind.allowed()))?;
        self.put(index, value);
        Ok(())
    }

    /// Stores a value that has passed the bounds of its row.
    pub(crate) fn put(&mut self, index: usize, value: Value) {
        if let Some(fill) = PARAMETERS[index].fill {
            fill(&mut self.fields, &value);
        }
        self.values[index] = value;
    }

    pub(crate) fn value(&self, index: usize) -> &Value {
        &self.values[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    #[test]
    fn every_field_is_filled_by_a_row() {
        let filled = Settings::default().fields;
        macro_rules! differ {
            ($($field:ident),+ $(,)?) => {
                // Without `..`: a new field does not compile until it stands in the list below.
                let Fields { $($field),+ } = Fields::unfilled();
                $(assert!(filled.$field != $field, "no row fills {}", stringify!($field));)+
            };
        }
        differ!(
            bind,
            port,
            cluster_port,
            advertise,
            admin_port,
            tcp_backlog,
            tcp_keepalive_secs,
            timeout_secs,
            maxclients,
            protected_mode,
            requirepass,
            enable_debug_command,
            config,
            dir,
            workers,
            groups,
            partitions,
            databases,
            peer_port,
            join,
            cluster_secret,
            cluster_secret_file,
            zone,
            replication_factor,
            replace_after_secs,
            maxmemory,
            maxmemory_policy,
            maxmemory_samples,
            lfu_log_factor,
            lfu_decay_time_minutes,
            proto_max_bulk_len,
            client_query_buffer_limit,
            output_limits,
            log_format,
            log_level,
            notify_keyspace_events,
            slowlog_log_slower_than_micros,
            slowlog_max_len,
            latency_monitor_threshold_millis,
            latency_tracking,
            latency_percentiles,
            hash_max_listpack_entries,
            hash_max_listpack_value,
            hll_sparse_max_bytes,
            list_max_listpack_size,
            set_max_intset_entries,
            set_max_listpack_entries,
            set_max_listpack_value,
            zset_max_listpack_entries,
            zset_max_listpack_value,
        );
    }

    #[test]
    fn every_field_can_hold_every_value_that_its_row_allows() {
        for row in PARAMETERS {
            let Some(fill) = row.fill else { continue };
            let mut fields = Fields::unfilled();
            let extremes: Vec<Value> = match row.kind {
                Kind::Integer { min, max } => vec![Value::Integer(min), Value::Integer(max)],
                Kind::Memory { min, max } => vec![Value::Memory(min), Value::Memory(max)],
                Kind::Bool => vec![Value::Bool(false), Value::Bool(true)],
                Kind::Choice { words } => words.iter().map(|word| Value::Word(word)).collect(),
                _ => vec![row.default_value()],
            };
            for value in extremes {
                fill(&mut fields, &value);
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
