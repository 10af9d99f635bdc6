//! Reads `cassandra.yaml` into typed options, with Cassandra's names, units and defaults.
//!
//! 1. The file is a mapping; an unknown option is an error that names the nearest known one.
//! 2. The command line's `-D option=value` replaces options of the file.
//! 3. Every value is checked against the table of all options (`options`). A value that asks for something that the
//!    node does not do is an error that names the option.
//! 4. Options with an effect become fields of [`Config`]. The others are kept in `unused`, about which the log warns
//!    once.
//!
//! README.md lists the defaults that differ from Cassandra's. The options that the shards need are in
//! [`shard::Config`], which is filled here.

mod access;
pub mod archiving;
mod auto_repair;
mod batch_log;
mod client_limits;
mod compaction;
mod discovery;
mod disk;
mod encryption;
mod given;
mod guardrails;
mod hints;
mod interfaces;
mod internode;
mod memtables;
mod options;
mod query_logs;
mod settings;
pub mod sstables;
mod startup_checks;
mod streams;
mod tablets;
mod thresholds;
pub mod units;
mod yaml;

use crate::query_log::options::{AuditOptions, FullQueryOptions};
pub use auto_repair::AutoRepairOptions;
pub use client_limits::{ClientLimits, MESSAGE_BYTES_MAX};
use cluster::gossip::failure_detector::PHI_CONVICT_THRESHOLD;
use cluster::snitch::Snitch;
pub use discovery::{SEEDS_MAX, seeds_of};
pub use disk::{CommitFailurePolicy, DiskFailurePolicy};
pub(crate) use encryption::file_of;
pub use encryption::{ClientEncryption, Encryption, InternodeEncryption, SSL_STORAGE_PORT, ServerEncryption};
use given::Given;
pub use interfaces::Interface;
use model::{Partitioner, RingToken};
pub use options::{Unused, document};
use serde_norway::Value;
pub use shard::DataDirectories;
use shard::{ReplaceAddress, SyncMode};
pub use startup_checks::ResurrectionCheck;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of a node.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The options that the shards need.
    pub node: shard::Config,
    /// `start_native_transport`: whether the node listens for CQL clients.
    pub start_native_transport: bool,
    /// `native_shard_aware_transport_port`.
    pub shard_aware_port: u16,
    /// `metrics_port`: the port on which HTTP serves metrics; `None` (0 in the file) switches it off.
    pub metrics_port: Option<u16>,
    /// `disk_failure_policy`.
    pub disk_failure_policy: DiskFailurePolicy,
    /// `commit_failure_policy`.
    pub commit_failure_policy: CommitFailurePolicy,
    /// `native_transport_max_concurrent_connections`.
    pub connections_max: usize,
    /// `native_transport_max_concurrent_connections_per_ip`.
    pub connections_per_ip_max: usize,
    /// Further limits of clients.
    pub client_limits: ClientLimits,
    /// `audit_logging_options`.
    pub audit_log: AuditOptions,
    /// `full_query_logging_options`.
    pub full_query_log: FullQueryOptions,
    /// `client_encryption_options`.
    pub client_encryption: ClientEncryption,
    /// `server_encryption_options`.
    pub server_encryption: ServerEncryption,
    /// `internode_*`: links to other nodes.
    pub internode: ::internode::Options,
    /// The `cassandra.yaml` that was read, if any.
    pub file: Option<PathBuf>,
    /// `endpoint_snitch`.
    pub snitch: Snitch,
    /// The address at which nodes of this one's data centre may reach it, told to all nodes.
    pub internal_address: Option<IpAddr>,
    /// `prefer_local` of the snitch: whether nodes of this data centre are reached at such addresses.
    pub prefers_local: bool,
    /// The seeds of `seed_provider` as they were given: hosts with a port or without. [`Config::discover`] finds their
    /// addresses.
    pub seed_names: Vec<String>,
    /// `listen_interface`. [`Config::resolve_interfaces`] finds its address.
    pub listen_interface: Option<Interface>,
    /// `rpc_interface`, likewise.
    pub rpc_interface: Option<Interface>,
    /// `startup_checks.check_data_resurrection`, if it is switched on.
    pub resurrection_check: Option<ResurrectionCheck>,
    /// `auto_repair`.
    pub auto_repair: AutoRepairOptions,
    /// `phi_convict_threshold`.
    pub phi_convict_threshold: f64,
    /// Options that have no effect here and were given a value other than their default.
    pub unused: Vec<Unused>,
}

/// The version of Cassandra that the node behaves like.
pub const RELEASE_VERSION: &str = "5.0.9";
/// `native_shard_aware_transport_port` if the configuration does not say.
pub const SHARD_AWARE_PORT: u16 = 19042;
/// The most connections of a node if the configuration gives no number or -1.
pub const CONNECTIONS_MAX: usize = 64 << 10;
/// The least memory of a node, bytes.
pub const MEMORY_BYTES_MIN: usize = 64 << 20;
/// The longest configuration file, bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The smallest commit log segment, bytes.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest commit log segment, bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The most data directories of a node.
pub const DATA_DIRECTORIES_MAX: usize = 256;
/// `allocate_tokens_for_local_replication_factor` if the configuration does not say.
pub const ALLOCATION_FACTOR: u32 = 3;
/// The most tokens of a node.
pub const NUM_TOKENS_MAX: u64 = 1536;

impl Default for Config {
    fn default() -> Config {
        Config {
            node: shard::Config { allocate_for_factor: Some(ALLOCATION_FACTOR), ..shard::Config::default() },
            start_native_transport: true,
            shard_aware_port: SHARD_AWARE_PORT,
            metrics_port: Some(7199),
            disk_failure_policy: DiskFailurePolicy::default(),
            commit_failure_policy: CommitFailurePolicy::default(),
            connections_max: CONNECTIONS_MAX,
            connections_per_ip_max: CONNECTIONS_MAX,
            client_limits: ClientLimits::default(),
            audit_log: AuditOptions::default(),
            full_query_log: FullQueryOptions::default(),
            client_encryption: ClientEncryption::default(),
            server_encryption: ServerEncryption::default(),
            internode: ::internode::Options::default(),
            file: None,
            snitch: Snitch::default(),
            internal_address: None,
            prefers_local: false,
            seed_names: Vec::new(),
            listen_interface: None,
            rpc_interface: None,
            resurrection_check: None,
            auto_repair: AutoRepairOptions::default(),
            phi_convict_threshold: PHI_CONVICT_THRESHOLD,
            unused: Vec::new(),
        }
    }
}

/// What is wrong with a configuration, with the option's name. The process ends with exit code 1.
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

    /// Refuses a configuration with which a node must not start: it may listen on loopback addresses only, for other
    /// nodes unless they must show certificates, for clients unless they must log in; its two CQL ports must differ;
    /// and it needs [`MEMORY_BYTES_MIN`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let node = &self.node;
        let closed = |name: &str, address: IpAddr, strangers: &str, needed: &str| {
            error(format!(
                "{name}: {address} is not a loopback address, and {strangers} are not authenticated: refusing to listen \
                 there without {needed}"
            ))
        };
        if !node.rpc_address.is_loopback() && !node.access.requires_login() {
            return closed("rpc_address", node.rpc_address, "clients", "an authenticator that asks for a login");
        }
        if !node.listen_address.is_loopback() && !self.server_encryption.is_mutual() {
            let needed = "server_encryption_options with internode_encryption: all and require_client_auth: true";
            return closed("listen_address", node.listen_address, "other nodes", needed);
        }
        if node.native_port == self.shard_aware_port && node.native_port != 0 {
            return error("native_transport_port and native_shard_aware_transport_port are the same");
        }
        self.check_encryption()?;
        if node.memory_bytes < MEMORY_BYTES_MIN {
            return error(format!("memory: {} bytes, at least {MEMORY_BYTES_MIN} are needed", node.memory_bytes));
        }
        Ok(())
    }
}

impl Given {
    fn directories(&self) -> Result<Option<DataDirectories>, ConfigError> {
        const NAME: &str = "data_file_directories";
        let mut paths: Vec<PathBuf> = Vec::new();
        let Some(given) = self.take(NAME) else { return Ok(None) };
        let Value::Sequence(list) = given else { return error(format!("{NAME}: a list of directories is needed")) };
        for path in list {
            match path {
                Value::String(path) if path.is_empty() => return error(format!("{NAME}: a directory has no name")),
                Value::String(path) if paths.contains(&PathBuf::from(&path)) => {
                    return error(format!("{NAME}: {path} is there twice"));
                }
                Value::String(path) => paths.push(path.into()),
                _ => return error(format!("{NAME}: a list of directories is needed")),
            }
        }
        if paths.len() > DATA_DIRECTORIES_MAX {
            return error(format!("{NAME}: {} directories, at most {DATA_DIRECTORIES_MAX} are taken", paths.len()));
        }
        Ok(DataDirectories::new(paths))
    }

    /// `partitioner`, by the name of its class, with or without its package.
    fn partitioner(&self) -> Result<Partitioner, ConfigError> {
        let Some(name) = self.text("partitioner")? else { return Ok(Partitioner::default()) };
        match Partitioner::named(&name) {
            Some(partitioner) => Ok(partitioner),
            None => error(format!("Invalid partitioner class {name}")),
        }
    }

    /// `num_tokens` and the tokens of `initial_token`; if both are given, the numbers of tokens must agree.
    fn tokens(&self, partitioner: Partitioner) -> Result<(Option<usize>, Vec<RingToken>), ConfigError> {
        const NAME: &str = "initial_token";
        let count = self.number("num_tokens", 1, NUM_TOKENS_MAX)?.map(|count| count as usize);
        let Some(text) = self.text(NAME)? else { return Ok((count, Vec::new())) };
        let mut tokens = Vec::new();
        for token in text.split(',').map(str::trim) {
            match partitioner.parse_token(token) {
                Ok(token) if tokens.contains(&token) => return error(format!("{NAME}: {token} is there twice")),
                Ok(token) => tokens.push(token),
                Err(text) => return error(format!("{NAME}: {token} is not a token: {text}")),
            }
        }
        match count {
            None if tokens.len() != 1 => error("initial_token was set but num_tokens is not!"),
            Some(count) if tokens.len() != count => error(format!(
                "The number of initial tokens (by initial_token) specified ({}) is different from num_tokens value ({count})",
                tokens.len()
            )),
            _ => Ok((Some(tokens.len()), tokens)),
        }
    }

    /// `allocate_tokens_for_local_replication_factor`, which Cassandra's own file sets to 3.
    fn allocation_factor(&self) -> Result<Option<u32>, ConfigError> {
        let given = self.number("allocate_tokens_for_local_replication_factor", 1, u64::from(u16::MAX))?;
        Ok(Some(given.map_or(ALLOCATION_FACTOR, |factor| factor as u32)))
    }

    fn sync(&self) -> Result<SyncMode, ConfigError> {
        let period = self.duration("commitlog_sync_period")?;
        let window = self.duration("commitlog_sync_group_window")?;
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

    fn segment_bytes(&self) -> Result<Option<u32>, ConfigError> {
        const NAME: &str = "commitlog_segment_size";
        let Some(bytes) = self.bytes(NAME)? else { return Ok(None) };
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return error(format!(
                "{NAME}: {bytes} bytes; a power of two from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} is needed"
            ));
        }
        Ok(Some(bytes as u32))
    }

    /// An address that others are told. The text of the refusal is Cassandra's.
    fn replace_address(&self) -> Result<Option<ReplaceAddress>, ConfigError> {
        let given = |name| self.address(name).map(|found| found.map(|address| (name, address)));
        let found = match given("replace_address_first_boot")? {
            Some(found) => Some(found),
            None => given("replace_address")?,
        };
        Ok(found.map(|(name, address)| ReplaceAddress { address, first_boot: name == "replace_address_first_boot" }))
    }

    fn told_address(&self, name: &'static str) -> Result<Option<IpAddr>, ConfigError> {
        match self.address(name)? {
            Some(given) if given.is_unspecified() => error(format!("{name} cannot be a wildcard address ({given})!")),
            given => Ok(given),
        }
    }

    fn config(self) -> Result<Config, ConfigError> {
        let default = Config::default();
        let unused = self.check(self.guardrails_hold()?)?;
        let connections = "native_transport_max_concurrent_connections";
        let per_ip = "native_transport_max_concurrent_connections_per_ip";
        let config = Config {
            node: self.node(default.node)?,
            start_native_transport: self.flag("start_native_transport")?.unwrap_or(default.start_native_transport),
            shard_aware_port: self.port("native_shard_aware_transport_port")?.unwrap_or(default.shard_aware_port),
            metrics_port: match self.port("metrics_port")? {
                Some(0) => None,
                given => given.or(default.metrics_port),
            },
            disk_failure_policy: self.disk_failure_policy()?,
            commit_failure_policy: self.commit_failure_policy()?,
            connections_max: self.count(connections, CONNECTIONS_MAX)?.unwrap_or(default.connections_max),
            connections_per_ip_max: self.count(per_ip, CONNECTIONS_MAX)?.unwrap_or(default.connections_per_ip_max),
            client_limits: self.client_limits()?,
            audit_log: self.audit_log()?,
            full_query_log: self.full_query_log()?,
            client_encryption: self.client_encryption()?,
            server_encryption: self.server_encryption()?,
            internode: self.internode()?,
            file: default.file,
            snitch: self.snitch()?,
            internal_address: None,
            prefers_local: false,
            seed_names: self.seeds()?,
            listen_interface: self.interface("listen_interface", "listen_address", "listen_interface_prefer_ipv6")?,
            rpc_interface: self.interface("rpc_interface", "rpc_address", "rpc_interface_prefer_ipv6")?,
            resurrection_check: self.resurrection_check()?,
            auto_repair: self.auto_repair()?,
            phi_convict_threshold: self.phi_convict_threshold()?,
            unused,
        };
        Ok(config)
    }

    /// The options that the shards need. Its settings are completed when the node starts: see [`Config::all_settings`].
    fn node(&self, default: shard::Config) -> Result<shard::Config, ConfigError> {
        let partitioner = self.partitioner()?;
        let (num_tokens, initial_tokens) = self.tokens(partitioner)?;
        let (is_dc_checked, is_rack_checked) = self.location_checks()?;
        Ok(shard::Config {
            partitioner,
            directories: self.directories()?.unwrap_or(default.directories),
            cluster_name: self.text("cluster_name")?.unwrap_or(default.cluster_name),
            num_tokens: num_tokens.unwrap_or(default.num_tokens),
            initial_tokens,
            allocate_for_factor: self.allocation_factor()?,
            listen_address: self.address("listen_address")?.unwrap_or(default.listen_address),
            broadcast_address: self.told_address("broadcast_address")?,
            broadcast_rpc_address: self.told_address("broadcast_rpc_address")?,
            rpc_address: self.address("rpc_address")?.unwrap_or(default.rpc_address),
            storage_port: self.port("storage_port")?.unwrap_or(default.storage_port),
            auto_bootstrap: self.flag("auto_bootstrap")?.unwrap_or(default.auto_bootstrap),
            replace_address: self.replace_address()?,
            join_ring: self.flag("join_ring")?.unwrap_or(default.join_ring),
            ignore_dc: !is_dc_checked || self.flag("ignore_dc")?.unwrap_or(default.ignore_dc),
            ignore_rack: !is_rack_checked || self.flag("ignore_rack")?.unwrap_or(default.ignore_rack),
            clock_skew_max: self.duration("clock_skew_max")?.unwrap_or(default.clock_skew_max),
            dynamic_snitch: self.dynamic_snitch(default.dynamic_snitch)?,
            seeds: default.seeds,
            native_port: self.port("native_transport_port")?.unwrap_or(default.native_port),
            data_center: default.data_center,
            rack: default.rack,
            sync: self.sync()?,
            segment_bytes: self.segment_bytes()?.unwrap_or(default.segment_bytes),
            log_bytes: self.bytes("commitlog_total_space")?.unwrap_or(default.log_bytes),
            sstables: self.sstables()?,
            memtables: Arc::new(self.memtables()?),
            default_compaction: self.default_compaction()?.map(Arc::new),
            incremental_backups: self.flag("incremental_backups")?.unwrap_or(default.incremental_backups),
            memory_bytes: default.memory_bytes,
            read_timeout: self.timeout("read_request_timeout")?.unwrap_or(default.read_timeout),
            range_timeout: self.timeout("range_request_timeout")?.unwrap_or(default.range_timeout),
            write_timeout: self.timeout("write_request_timeout")?.unwrap_or(default.write_timeout),
            counter_write_timeout: self
                .timeout("counter_write_request_timeout")?
                .unwrap_or(default.counter_write_timeout),
            cas_contention_timeout: self.timeout("cas_contention_timeout")?.unwrap_or(default.cas_contention_timeout),
            truncate_timeout: self.timeout("truncate_request_timeout")?.unwrap_or(default.truncate_timeout),
            request_timeout: self.timeout("request_timeout")?.unwrap_or(default.request_timeout),
            client_timeout: self.duration("native_transport_timeout")?.unwrap_or(default.client_timeout),
            waiting_counts: self.text("cql_start_time")?.is_some_and(|start| start.eq_ignore_ascii_case("QUEUE")),
            slow_query_timeout: match self.duration("slow_query_log_timeout")? {
                None => default.slow_query_timeout,
                Some(timeout) => Some(timeout).filter(|timeout| !timeout.is_zero()),
            },
            auto_snapshot: self.flag("auto_snapshot")?.unwrap_or(default.auto_snapshot),
            auto_snapshot_ttl: self.whole_seconds("auto_snapshot_ttl")?,
            drop_compact_storage: self.flag("drop_compact_storage_enabled")?.unwrap_or(default.drop_compact_storage),
            masking: self.flag("dynamic_data_masking_enabled")?.unwrap_or(default.masking),
            use_statements: self.flag("use_statements_enabled")?.unwrap_or(default.use_statements),
            tombstones: self.tombstones()?,
            filtering: self.filtering()?,
            batches: self.batches()?,
            batch_log_strategy: self.batch_log_strategy()?,
            batch_log_replay_bytes_per_second: self
                .size("batchlog_replay_throttle")?
                .unwrap_or(default.batch_log_replay_bytes_per_second),
            disk: self.disk_thresholds()?,
            managed_guardrails: Arc::new(self.managed_guardrails()?),
            guardrails: self.guardrails()?.map(Arc::new),
            access: self.access()?,
            hints: self.hints()?,
            streams: self.streams()?,
            physical_partition_size: self.physical_partition_size()?.unwrap_or(default.physical_partition_size),
            replica_replacement_after: {
                self.replica_replacement_after()?.unwrap_or(default.replica_replacement_after)
            },
            physical_partition_throughput: {
                self.physical_partition_throughput()?.unwrap_or(default.physical_partition_throughput)
            },
            auto_cleanup: self.flag("auto_cleanup_enabled")?.unwrap_or(default.auto_cleanup),
            hot_partition_relief: self.flag("hot_partition_relief")?.unwrap_or(default.hot_partition_relief),
            hot_partition_reads_per_second: {
                self.hot_partition_reads_per_second()?.unwrap_or(default.hot_partition_reads_per_second)
            },
            compaction_bytes_per_second: {
                self.rate("compaction_throughput")?.unwrap_or(default.compaction_bytes_per_second)
            },
            settings: Arc::new(settings::of_given(&self.values)),
        })
    }
}

#[cfg(test)]
mod tests;
