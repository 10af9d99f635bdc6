//! `cassandra.yaml` to typed options, with Cassandra's names, units and defaults.
//!
//! 1. The file is a mapping; an unknown key is an error that names the nearest known one.
//! 2. The command line's `-D option=value` replaces keys of the file.
//! 3. Keys that mean something here become fields of [`Config`]; the others are kept in `unused`, to be warned about
//!    once.
//!
//! Defaults are Cassandra's, except `commitlog_sync: group`, and except where Cassandra's is unlimited: connections in
//! all and per client address.

mod disk;
mod guardrails;
mod keys;
mod memtables;
mod settings;
pub mod sstables;
mod thresholds;
pub mod units;

pub use disk::{CommitFailurePolicy, DiskFailurePolicy};
use model::Memtables;
use serde_norway::Value;
use shard::DiskThresholds;
use shard::{BatchThresholds, Guardrails, SstableOptions, SyncMode, TombstoneThresholds};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that a node can be told.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// `cluster_name`.
    pub cluster_name: String,
    /// `num_tokens`.
    pub num_tokens: usize,
    /// `listen_address`: a loopback address.
    pub listen_address: IpAddr,
    /// `rpc_address`: a loopback address, where clients connect.
    pub rpc_address: IpAddr,
    /// `storage_port`.
    pub storage_port: u16,
    /// `native_transport_port`.
    pub native_port: u16,
    /// `native_shard_aware_transport_port`.
    pub shard_aware_port: u16,
    /// `metrics_port`: where HTTP serves figures; `None` (0): nowhere.
    pub metrics_port: Option<u16>,
    /// The one entry of `data_file_directories`.
    pub directory: PathBuf,
    /// `commitlog_sync` with its period or window.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes; a power of two.
    pub segment_bytes: u32,
    /// `commitlog_total_space`, bytes of all cores: beyond it what the oldest segments need is flushed.
    pub log_bytes: u64,
    /// `sstable`, `storage_compatibility_mode`, `flush_compression`, `column_index_size`.
    pub sstables: SstableOptions,
    /// `memtable.configurations`.
    pub memtables: Arc<Memtables>,
    /// `read_request_timeout`.
    pub read_timeout: Duration,
    /// `range_request_timeout`.
    pub range_timeout: Duration,
    /// `write_request_timeout`.
    pub write_timeout: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write_timeout: Duration,
    /// `cas_contention_timeout`.
    pub cas_contention_timeout: Duration,
    /// `truncate_request_timeout`.
    pub truncate_timeout: Duration,
    /// `disk_failure_policy`.
    pub disk_failure_policy: DiskFailurePolicy,
    /// `commit_failure_policy`.
    pub commit_failure_policy: CommitFailurePolicy,
    /// `auto_snapshot`: whether what is dropped or truncated is kept as a snapshot.
    pub auto_snapshot: bool,
    /// `auto_snapshot_ttl`: how long such a snapshot lives; `None`: until someone clears it.
    pub auto_snapshot_ttl: Option<Duration>,
    /// `drop_compact_storage_enabled`: whether ALTER TABLE DROP COMPACT STORAGE is switched on.
    pub drop_compact_storage: bool,
    /// `use_statements_enabled`: whether USE is switched on.
    pub use_statements: bool,
    /// `tombstone_warn_threshold` and `tombstone_failure_threshold`.
    pub tombstones: TombstoneThresholds,
    /// `batch_size_warn_threshold`, `batch_size_fail_threshold` and `unlogged_batch_across_partitions_warn_threshold`.
    pub batches: BatchThresholds,
    /// From where on the disk is too full.
    pub disk: DiskThresholds,
    /// What clients are held to; `None`: nothing, as they are not authenticated, unless `guardrails_apply_to_anonymous`.
    pub guardrails: Option<Arc<Guardrails>>,
    /// `compaction_throughput`: bytes per second that compactions may read; 0: as many as they can.
    pub compaction_bytes_per_second: u64,
    /// `native_transport_max_concurrent_connections`.
    pub connections_max: usize,
    /// `native_transport_max_concurrent_connections_per_ip`.
    pub connections_per_ip_max: usize,
    /// Memory of the whole node, bytes.
    pub memory_bytes: usize,
    /// Keys that were given and have no meaning here.
    pub unused: Vec<String>,
    /// All options: what was given, or a default. See [`Config::all_settings`].
    pub settings: BTreeMap<String, Option<String>>,
}

/// Connections of a node when the configuration says nothing or -1.
pub const CONNECTIONS_MAX: usize = 64 << 10;
/// The same for one client address.
pub const CONNECTIONS_PER_IP_MAX: usize = 1 << 10;
/// Memory when nothing is said.
pub const MEMORY_BYTES_DEFAULT: usize = 1 << 30;
/// Least memory of a node.
pub const MEMORY_BYTES_MIN: usize = 64 << 20;
/// Longest configuration file, bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Commit log segments.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// See [`SEGMENT_BYTES_MIN`].
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Tokens of a node.
pub const NUM_TOKENS_MAX: u64 = 1536;

impl Default for Config {
    fn default() -> Config {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Config {
            cluster_name: "Test Cluster".into(),
            num_tokens: 16,
            listen_address: loopback,
            rpc_address: loopback,
            storage_port: 7000,
            native_port: 9042,
            shard_aware_port: 19042,
            metrics_port: Some(7199),
            directory: PathBuf::from("data"),
            sync: SyncMode::Group { window: Duration::ZERO },
            segment_bytes: 32 << 20,
            log_bytes: 8 << 30,
            sstables: SstableOptions::default(),
            memtables: Arc::default(),
            read_timeout: Duration::from_secs(5),
            range_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(2),
            counter_write_timeout: Duration::from_secs(5),
            cas_contention_timeout: Duration::from_millis(1800),
            truncate_timeout: Duration::from_secs(60),
            disk_failure_policy: DiskFailurePolicy::default(),
            commit_failure_policy: CommitFailurePolicy::default(),
            auto_snapshot: true,
            auto_snapshot_ttl: None,
            drop_compact_storage: false,
            use_statements: true,
            tombstones: TombstoneThresholds::default(),
            batches: BatchThresholds::default(),
            disk: DiskThresholds::default(),
            guardrails: None,
            compaction_bytes_per_second: 64 << 20,
            connections_max: CONNECTIONS_MAX,
            connections_per_ip_max: CONNECTIONS_PER_IP_MAX,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            unused: Vec::new(),
            settings: BTreeMap::new(),
        }
    }
}

/// What is wrong with a configuration, naming the option: exit code 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

fn error<T>(text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(text.into()))
}

impl Config {
    /// Reads `file` (the text of a `cassandra.yaml`, or nothing) and then `options` (`-D`, each `name=value`).
    pub fn read(file: &str, options: &[String]) -> Result<Config, ConfigError> {
        let mut given = Given::parse(file)?;
        for option in options {
            given.set(option)?;
        }
        given.config()
    }

    /// Refuses what must not start: without authentication only loopback addresses are listened on.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (name, address) in [("rpc_address", self.rpc_address), ("listen_address", self.listen_address)] {
            if !address.is_loopback() {
                return error(format!(
                    "{name}: {address} is not a loopback address, and clients are not authenticated: refusing to listen \
                     there"
                ));
            }
        }
        if self.native_port == self.shard_aware_port && self.native_port != 0 {
            return error("native_transport_port and native_shard_aware_transport_port are the same");
        }
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return error(format!("memory: {} bytes, at least {MEMORY_BYTES_MIN} are needed", self.memory_bytes));
        }
        Ok(())
    }
}

/// The options as given, by name.
struct Given {
    values: BTreeMap<String, Value>,
    used: Vec<&'static str>,
}

impl Given {
    fn parse(file: &str) -> Result<Given, ConfigError> {
        if file.len() > FILE_BYTES_MAX {
            return error(format!("the configuration has {} bytes, at most {FILE_BYTES_MAX}", file.len()));
        }
        let mut given = Given { values: BTreeMap::new(), used: Vec::new() };
        let document = match file.trim() {
            "" => Value::Null,
            _ => serde_norway::from_str(file).or_else(|e| error(format!("the configuration is not YAML: {e}")))?,
        };
        match document {
            Value::Null => {}
            Value::Mapping(mapping) => {
                for (key, value) in mapping {
                    let Value::String(key) = key else { return error(format!("{key:?} is not an option's name")) };
                    known(&key)?;
                    given.values.insert(key, value);
                }
            }
            _ => return error("the configuration is not a mapping of options"),
        }
        Ok(given)
    }

    fn set(&mut self, option: &str) -> Result<(), ConfigError> {
        let Some((name, value)) = option.split_once('=') else {
            return error(format!("-D {option}: name=value is needed"));
        };
        known(name)?;
        let value = match serde_norway::from_str(value) {
            Ok(value) => value,
            Err(_) => Value::String(value.into()),
        };
        self.values.insert(name.into(), value);
        Ok(())
    }

    /// The value of an option; null counts as not given.
    fn take(&mut self, name: &'static str) -> Option<&Value> {
        self.used.push(name);
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>, ConfigError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(flag)) => Ok(Some(flag.to_string())),
            Some(_) => error(format!("{name}: one value is needed")),
        }
    }

    fn number(&mut self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => error(format!("{name}: {text} is not a number from {min} to {max}")),
        }
    }

    fn port(&mut self, name: &'static str) -> Result<Option<u16>, ConfigError> {
        Ok(self.number(name, 0, u16::MAX as u64)?.map(|port| port as u16))
    }

    /// -1 means no limit of the operator's own: the built-in one stands.
    fn count(&mut self, name: &'static str, max: usize) -> Result<Option<usize>, ConfigError> {
        if self.text(name)?.as_deref() == Some("-1") {
            return Ok(None);
        }
        Ok(self.number(name, 1, max as u64)?.map(|count| count as usize))
    }

    /// A duration; its older spelling is a plain number of milliseconds.
    fn duration(&mut self, name: &'static str, millis: &'static str) -> Result<Option<Duration>, ConfigError> {
        if let Some(number) = self.number(millis, 0, u32::MAX as u64)? {
            return Ok(Some(Duration::from_millis(number)));
        }
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::duration(&text) {
            Some(duration) => Ok(Some(duration)),
            None => error(format!("{name}: {text} is not a duration such as 10s or 500ms")),
        }
    }

    fn timeout(&mut self, name: &'static str, millis: &'static str) -> Result<Option<Duration>, ConfigError> {
        match self.duration(name, millis)? {
            Some(duration) if duration < TIMEOUT_MIN => error(format!("{name}: at least {TIMEOUT_MIN:?}")),
            duration => Ok(duration),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => error(format!("{name}: {other} is neither true nor false")),
        }
    }

    /// A duration of at least a second, in days, hours, minutes or seconds.
    fn whole_seconds(&mut self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::duration(&text) {
            Some(duration) if duration.subsec_nanos() == 0 && !duration.is_zero() => Ok(Some(duration)),
            _ => error(format!("{name}: {text} is not a duration such as 30d or 12h")),
        }
    }

    fn address(&mut self, name: &'static str) -> Result<Option<IpAddr>, ConfigError> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("localhost") => Ok(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
            Some(text) => match text.parse() {
                Ok(address) => Ok(Some(address)),
                Err(_) => error(format!("{name}: {text} is not an IP address")),
            },
        }
    }

    fn directory(&mut self) -> Result<Option<PathBuf>, ConfigError> {
        match self.take("data_file_directories") {
            None => Ok(None),
            Some(Value::String(path)) => Ok(Some(path.into())),
            Some(Value::Sequence(list)) => match list.as_slice() {
                [Value::String(path)] => Ok(Some(path.into())),
                _ => error("data_file_directories: exactly one directory is supported"),
            },
            Some(_) => error("data_file_directories: a list of one directory is needed"),
        }
    }

    fn sync(&mut self) -> Result<SyncMode, ConfigError> {
        let period = self.duration("commitlog_sync_period", "commitlog_sync_period_in_ms")?;
        let window = self.duration("commitlog_sync_group_window", "commitlog_sync_group_window_in_ms")?;
        match self.text("commitlog_sync")?.as_deref() {
            None | Some("group") => Ok(SyncMode::Group { window: window.unwrap_or_default() }),
            Some("batch") => Ok(SyncMode::Batch),
            Some("periodic") => match period.unwrap_or(Duration::from_secs(10)) {
                Duration::ZERO => error("commitlog_sync_period: more than 0 is needed"),
                period => Ok(SyncMode::Periodic { period }),
            },
            Some(other) => error(format!("commitlog_sync: {other} is not one of group, batch, periodic")),
        }
    }

    fn throughput(&mut self) -> Result<Option<u64>, ConfigError> {
        const NAME: &str = "compaction_throughput";
        let older = self.number("compaction_throughput_mb_per_sec", 0, 1 << 30)?.map(|megabytes| megabytes << 20);
        match (older, self.text(NAME)?) {
            (Some(bytes), _) => Ok(Some(bytes)),
            (None, None) => Ok(None),
            (None, Some(text)) => match text.strip_suffix("/s").and_then(units::bytes) {
                Some(bytes) => Ok(Some(bytes)),
                None => error(format!("{NAME}: {text} is not a rate such as 64MiB/s")),
            },
        }
    }

    fn log_bytes(&mut self) -> Result<Option<u64>, ConfigError> {
        const NAME: &str = "commitlog_total_space";
        let older = self.number("commitlog_total_space_in_mb", 1, 1 << 30)?.map(|megabytes| megabytes << 20);
        match (older, self.text(NAME)?) {
            (Some(bytes), _) => Ok(Some(bytes)),
            (None, None) => Ok(None),
            (None, Some(text)) => match units::bytes(&text) {
                Some(bytes) => Ok(Some(bytes)),
                None => error(format!("{NAME}: {text} is not a size such as 8GiB")),
            },
        }
    }

    fn segment_bytes(&mut self) -> Result<Option<u32>, ConfigError> {
        const NAME: &str = "commitlog_segment_size";
        let older = self.number("commitlog_segment_size_in_mb", 1, 1024)?.map(|megabytes| megabytes << 20);
        let bytes = match (older, self.text(NAME)?) {
            (Some(bytes), _) => bytes,
            (None, None) => return Ok(None),
            (None, Some(text)) => match units::bytes(&text) {
                Some(bytes) => bytes,
                None => return error(format!("{NAME}: {text} is not a size such as 32MiB")),
            },
        };
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return error(format!(
                "{NAME}: {bytes} bytes; a power of two from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} is needed"
            ));
        }
        Ok(Some(bytes as u32))
    }

    /// Options with one value that is implemented: any other would change what operators rely on.
    fn only(&mut self, name: &'static str, taken: &[&str]) -> Result<(), ConfigError> {
        match self.text(name)? {
            Some(text) if !taken.iter().any(|value| text == *value || text.ends_with(&format!(".{value}"))) => {
                error(format!("{name}: {text} is not supported yet, only {}", taken.join(", ")))
            }
            _ => Ok(()),
        }
    }

    fn config(mut self) -> Result<Config, ConfigError> {
        let default = Config::default();
        self.only("partitioner", &["Murmur3Partitioner"])?;
        self.only("authenticator", &["AllowAllAuthenticator"])?;
        self.only("authorizer", &["AllowAllAuthorizer"])?;
        self.only("endpoint_snitch", &["SimpleSnitch"])?;
        self.only("start_native_transport", &["true"])?;
        let connections = "native_transport_max_concurrent_connections";
        let per_ip = "native_transport_max_concurrent_connections_per_ip";
        let mut config = Config {
            cluster_name: self.text("cluster_name")?.unwrap_or(default.cluster_name),
            num_tokens: self.number("num_tokens", 1, NUM_TOKENS_MAX)?.map_or(default.num_tokens, |n| n as usize),
            listen_address: self.address("listen_address")?.unwrap_or(default.listen_address),
            rpc_address: self.address("rpc_address")?.unwrap_or(default.rpc_address),
            storage_port: self.port("storage_port")?.unwrap_or(default.storage_port),
            native_port: self.port("native_transport_port")?.unwrap_or(default.native_port),
            shard_aware_port: self.port("native_shard_aware_transport_port")?.unwrap_or(default.shard_aware_port),
            metrics_port: match self.port("metrics_port")? {
                Some(0) => None,
                given => given.or(default.metrics_port),
            },
            directory: self.directory()?.unwrap_or(default.directory),
            sync: self.sync()?,
            segment_bytes: self.segment_bytes()?.unwrap_or(default.segment_bytes),
            log_bytes: self.log_bytes()?.unwrap_or(default.log_bytes),
            sstables: self.sstables()?,
            memtables: Arc::new(self.memtables()?),
            read_timeout: self
                .timeout("read_request_timeout", "read_request_timeout_in_ms")?
                .unwrap_or(default.read_timeout),
            range_timeout: self
                .timeout("range_request_timeout", "range_request_timeout_in_ms")?
                .unwrap_or(default.range_timeout),
            write_timeout: self
                .timeout("write_request_timeout", "write_request_timeout_in_ms")?
                .unwrap_or(default.write_timeout),
            counter_write_timeout: self
                .timeout("counter_write_request_timeout", "counter_write_request_timeout_in_ms")?
                .unwrap_or(default.counter_write_timeout),
            cas_contention_timeout: self
                .timeout("cas_contention_timeout", "cas_contention_timeout_in_ms")?
                .unwrap_or(default.cas_contention_timeout),
            truncate_timeout: self
                .timeout("truncate_request_timeout", "truncate_request_timeout_in_ms")?
                .unwrap_or(default.truncate_timeout),
            disk_failure_policy: self.disk_failure_policy()?,
            commit_failure_policy: self.commit_failure_policy()?,
            auto_snapshot: self.flag("auto_snapshot")?.unwrap_or(default.auto_snapshot),
            auto_snapshot_ttl: self.whole_seconds("auto_snapshot_ttl")?,
            drop_compact_storage: self
                .flag("drop_compact_storage_enabled")?
                .or(self.flag("enable_drop_compact_storage")?)
                .unwrap_or(default.drop_compact_storage),
            use_statements: self.flag("use_statements_enabled")?.unwrap_or(default.use_statements),
            tombstones: self.tombstones()?,
            batches: self.batches()?,
            disk: self.disk_thresholds()?,
            guardrails: self.guardrails()?.map(Arc::new),
            compaction_bytes_per_second: self.throughput()?.unwrap_or(default.compaction_bytes_per_second),
            connections_max: self.count(connections, CONNECTIONS_MAX)?.unwrap_or(default.connections_max),
            connections_per_ip_max: self.count(per_ip, CONNECTIONS_MAX)?.unwrap_or(default.connections_per_ip_max),
            memory_bytes: default.memory_bytes,
            unused: Vec::new(),
            settings: settings::of_given(&self.values),
        };
        config.unused =
            self.values.into_keys().filter(|name| !self.used.contains(&name.as_str())).collect::<Vec<String>>();
        Ok(config)
    }
}

/// Cassandra's own lower bound of a request's time-out.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);

fn known(key: &str) -> Result<(), ConfigError> {
    if keys::is_known(key) {
        return Ok(());
    }
    error(format!("{key}: unknown option; did you mean {}?", keys::nearest(key)))
}

#[cfg(test)]
mod tests;
