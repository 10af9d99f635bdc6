//! The configuration of a node as its shards see it; the same on all of them.
//!
//! Field comments name the option of `cassandra.yaml` that a field is read from.

mod access;
mod timeouts;

pub use access::{AccessOptions, Authenticator, CidrMode};
pub use timeouts::Timeouts;

use crate::guards::batches::BatchThresholds;
use crate::guards::disk_usage::DiskThresholds;
use crate::guards::filtering::FilteringThresholds;
use crate::guards::tombstones::TombstoneThresholds;
use cluster::plan::BatchLogStrategy;
use cluster::topology::latency::DynamicSnitch;
use cql::guardrails::Guardrails;
use engine::{DataDirectories, SstableOptions, SyncMode};
use model::{MemtableConfigurations, Partitioner, RingToken};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `physical_partition_size` unless the configuration says otherwise, bytes.
const PHYSICAL_PARTITION_SIZE: u64 = 10 << 30;

/// `replica_replacement_after` unless the configuration says otherwise.
const REPLICA_REPLACEMENT_AFTER: Duration = Duration::from_secs(600);

/// `physical_partition_throughput` unless the configuration says otherwise, request units a second.
const PHYSICAL_PARTITION_THROUGHPUT: u32 = 10_000;

/// `hot_partition_reads_per_second` unless the configuration says otherwise.
const HOT_PARTITION_READS_PER_SECOND: u32 = 1_000;

/// Which node a new one replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplaceAddress {
    /// The address of the node that is down.
    pub address: IpAddr,
    /// Whether the option is ignored by a node that has joined already; else it does not start.
    pub first_boot: bool,
}

/// What a shard has to know about its node. Defaults are Cassandra's, except that of `commitlog_sync`, which is
/// `group`.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// `data_file_directories`.
    pub directories: DataDirectories,
    /// `cluster_name`.
    pub cluster_name: String,
    /// `partitioner`.
    pub partitioner: Partitioner,
    /// `num_tokens`, from 1 to 1536; of use at the first start only.
    pub num_tokens: usize,
    /// `initial_token`: tokens of a new node, each once, as many as `num_tokens`; empty: random ones.
    pub initial_tokens: Vec<RingToken>,
    /// `allocate_tokens_for_local_replication_factor`: the tokens of a new node are chosen so that nodes have equal
    /// shares of data with this factor; `None`: random ones.
    pub allocate_for_factor: Option<u32>,
    /// `listen_address`: a loopback address.
    pub listen_address: IpAddr,
    /// `broadcast_address`: where other nodes reach this one, if not at `listen_address`.
    pub broadcast_address: Option<IpAddr>,
    /// `rpc_address`: a loopback address, where clients connect.
    pub rpc_address: IpAddr,
    /// `broadcast_rpc_address`: where clients are told to connect, if not at `rpc_address`.
    pub broadcast_rpc_address: Option<IpAddr>,
    /// `storage_port`.
    pub storage_port: u16,
    /// `native_transport_port`.
    pub native_port: u16,
    /// `auto_bootstrap`: whether a node that joins fetches the data of its ranges before it owns them.
    pub auto_bootstrap: bool,
    /// `replace_address`, `replace_address_first_boot`: the address of the node, which is down, whose place this one
    /// takes.
    pub replace_address: Option<ReplaceAddress>,
    /// `join_ring`: whether the node owns ranges of the ring as soon as it is a member of the cluster; else an operator
    /// lets it.
    pub join_ring: bool,
    /// `ignore_dc`: whether the node may start in another data centre than before.
    pub ignore_dc: bool,
    /// `ignore_rack`: the same for its rack.
    pub ignore_rack: bool,
    /// `clock_skew_max`: the most that the clock of a node may differ from that of the cluster that it joins.
    pub clock_skew_max: Duration,
    /// The options that begin with `dynamic_snitch`; `None`: the nearest replicas are asked first, however slow.
    pub dynamic_snitch: Option<DynamicSnitch>,
    /// `seed_provider`: addresses of nodes that a new node asks for its cluster, this one perhaps among them.
    pub seeds: Vec<SocketAddr>,
    /// The node's data centre.
    pub data_center: String,
    /// The node's rack in its data centre.
    pub rack: String,
    /// `commitlog_sync` with its period or window.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes; a power of two.
    pub segment_bytes: u32,
    /// `commitlog_total_space`, bytes of all cores. Beyond it tables are flushed that need the oldest segments.
    pub log_bytes: u64,
    /// How SSTables are written: `sstable`, `storage_compatibility_mode`, `flush_compression`, `column_index_size`.
    pub sstables: SstableOptions,
    /// `memtable.configurations`: the memtables that tables may name.
    pub memtables: Arc<MemtableConfigurations>,
    /// `default_compaction`: the option `compaction` of tables that are created without it; `None`: Cassandra's own.
    pub default_compaction: Option<Arc<BTreeMap<String, String>>>,
    /// `incremental_backups`: whether SSTables of flushes are linked into `backups/`.
    pub incremental_backups: bool,
    /// Memory of the whole node, bytes.
    pub memory_bytes: usize,
    /// `read_request_timeout`.
    pub read_timeout: Duration,
    /// `range_request_timeout`.
    pub range_timeout: Duration,
    /// `write_request_timeout`.
    pub write_timeout: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write_timeout: Duration,
    /// `cas_contention_timeout`: how long a conditional update, or a read at SERIAL, waits for others of its partition.
    pub cas_contention_timeout: Duration,
    /// `truncate_request_timeout`.
    pub truncate_timeout: Duration,
    /// `request_timeout`: how long the cluster may take to agree on a change of the schema.
    pub request_timeout: Duration,
    /// `native_transport_timeout`: how long a client waits for an answer. Requests that have waited longer before they
    /// begin are refused, and none takes longer in all.
    pub client_timeout: Duration,
    /// `cql_start_time: QUEUE`: whether the time that a request may take includes what it waits before it begins.
    pub waiting_counts: bool,
    /// `slow_query_log_timeout`: requests that take this long are logged; `None`, which 0 stands for: none.
    pub slow_query_timeout: Option<Duration>,
    /// `auto_snapshot`: whether dropped and truncated tables are kept as snapshots.
    pub auto_snapshot: bool,
    /// `auto_snapshot_ttl`: how long such a snapshot lives; `None`: until it is cleared.
    pub auto_snapshot_ttl: Option<Duration>,
    /// `drop_compact_storage_enabled`: whether ALTER TABLE DROP COMPACT STORAGE is allowed.
    pub drop_compact_storage: bool,
    /// `dynamic_data_masking_enabled`: whether columns can be masked, and masks have an effect.
    pub masking: bool,
    /// `use_statements_enabled`: whether USE is allowed.
    pub use_statements: bool,
    /// `tombstone_warn_threshold` and `tombstone_failure_threshold`.
    pub tombstones: TombstoneThresholds,
    /// `replica_filtering_protection`.
    pub filtering: FilteringThresholds,
    /// `batch_size_warn_threshold`, `batch_size_fail_threshold` and `unlogged_batch_across_partitions_warn_threshold`.
    pub batches: BatchThresholds,
    /// `batchlog_endpoint_strategy`: the nodes that keep logged batches.
    pub batch_log_strategy: BatchLogStrategy,
    /// `batchlog_replay_throttle`: bytes per second of logged batches that all nodes together apply again; 0: no limit.
    pub batch_log_replay_bytes_per_second: u64,
    /// The thresholds of disk usage (`data_disk_usage_percentage_warn_threshold` and the like).
    pub disk: DiskThresholds,
    /// The guardrails that apply to clients; `None`: none do.
    pub guardrails: Option<Arc<Guardrails>>,
    /// The guardrails that apply to clients in keyspaces of ManagedStrategy.
    pub managed_guardrails: Arc<Guardrails>,
    /// Who may connect and do what.
    pub access: AccessOptions,
    /// Mutations that other nodes miss.
    pub hints: HintOptions,
    /// How data is streamed between nodes.
    pub streams: StreamOptions,
    /// `physical_partition_size`: bytes of a tablet above which it is split; above 0.
    pub physical_partition_size: u64,
    /// `replica_replacement_after`: how long a node is down before its replicas of keyspaces of ManagedStrategy are
    /// rebuilt on others.
    pub replica_replacement_after: Duration,
    /// `physical_partition_throughput`: request units a second of a tablet above which it is split; above 0.
    pub physical_partition_throughput: u32,
    /// `auto_cleanup_enabled`: whether the node removes what it has of ranges that it lost as soon as an operation has
    /// ended.
    pub auto_cleanup: bool,
    /// `hot_partition_relief`: whether reads of hot partitions are joined and spread over the replicas.
    pub hot_partition_relief: bool,
    /// `hot_partition_reads_per_second`: reads of a partition by one core from which on it is hot; above 0.
    pub hot_partition_reads_per_second: u32,
    /// `compaction_throughput`: bytes per second that compactions of the node may read; 0: no limit.
    pub compaction_bytes_per_second: u64,
    /// Every option with its value, as `system_views.settings` shows them.
    pub settings: Arc<BTreeMap<String, Option<String>>>,
}

/// How data is streamed between nodes. Defaults are Cassandra's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamOptions {
    /// `stream_throughput_outbound`: bytes per second of ranges that this node sends; 0: no limit.
    pub throughput: u64,
    /// `inter_dc_stream_throughput_outbound`: the same, to other data centres.
    pub far_throughput: u64,
    /// `entire_sstable_stream_throughput_outbound`: bytes per second of whole SSTables that this node sends; 0: no
    /// limit.
    pub whole_throughput: u64,
    /// `entire_sstable_inter_dc_stream_throughput_outbound`: the same, to other data centres.
    pub far_whole_throughput: u64,
    /// `stream_entire_sstables`: whether an SSTable that lies within the ranges is sent as it is.
    pub whole_sstables: bool,
    /// `skip_stream_disk_space_check`, negated.
    pub check_disk_space: bool,
    /// `streaming_keep_alive_period`: how long a session waits for a sign of life of the other node.
    pub keep_alive: Duration,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        const RATE: u64 = 24 << 20;
        StreamOptions {
            throughput: RATE,
            far_throughput: RATE,
            whole_throughput: RATE,
            far_whole_throughput: RATE,
            whole_sstables: true,
            check_disk_space: true,
            keep_alive: Duration::from_secs(300),
        }
    }
}

/// How mutations are kept for nodes that miss them. Defaults are Cassandra's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintOptions {
    /// `hints_directory`; `None`: `hints` in the first data directory.
    pub directory: Option<PathBuf>,
    /// `hinted_handoff_enabled`: whether they are kept at all.
    pub enabled: bool,
    /// `hinted_handoff_disabled_datacenters`: nodes of these data centres get none.
    pub disabled_centers: BTreeSet<String>,
    /// `hinted_handoff_throttle`: bytes per second that this node sends, divided by the number of other nodes, to each
    /// of them; 0: no limit.
    pub throttle_bytes: u64,
    /// `hints_flush_period`: how often they are written to files.
    pub flush_period: Duration,
    /// `max_hint_window`: none are kept for a node that has been down for longer.
    pub window: Duration,
    /// `hint_window_persistent_enabled`: none are kept either once the oldest hint for the node is older than that.
    pub window_persistent: bool,
    /// `max_hints_delivery_threads`: to so many nodes a core sends hints at a time.
    pub deliveries_max: usize,
    /// `max_hints_file_size`: a file that has reached it is closed.
    pub file_bytes_max: u64,
    /// `max_hints_size_per_host`: none are kept for a node beyond this size; 0: no limit.
    pub host_bytes_max: u64,
    /// `use_creation_time_for_hint_ttl`: whether the age of a hint counts from when its mutation was to be written, or
    /// from when it was kept.
    pub age_from_creation: bool,
    /// `transfer_hints_on_decommission`: whether a node that leaves hands its hints to another one.
    pub transfer_on_decommission: bool,
}

impl Default for HintOptions {
    fn default() -> HintOptions {
        HintOptions {
            directory: None,
            enabled: true,
            disabled_centers: BTreeSet::new(),
            throttle_bytes: 1024 << 10,
            flush_period: Duration::from_secs(10),
            window: Duration::from_secs(3 * 60 * 60),
            window_persistent: true,
            deliveries_max: 2,
            file_bytes_max: 128 << 20,
            host_bytes_max: 0,
            age_from_creation: true,
            transfer_on_decommission: true,
        }
    }
}

impl Config {
    /// The directory of the files of hints.
    pub fn hints_directory(&self) -> PathBuf {
        self.hints.directory.clone().unwrap_or_else(|| self.directories.first().join("hints"))
    }

    /// The address and the port that other nodes know this one by.
    pub fn storage_address(&self) -> SocketAddr {
        SocketAddr::new(self.broadcast_address.unwrap_or(self.listen_address), self.storage_port)
    }

    /// The address and the port that clients know this node by.
    pub fn native_address(&self) -> SocketAddr {
        SocketAddr::new(self.broadcast_rpc_address.unwrap_or(self.rpc_address), self.native_port)
    }

    /// One shard's part of the node's memory, bytes.
    pub(crate) fn shard_memory_bytes(&self) -> usize {
        self.memory_bytes / runtime::shard_count()
    }

    /// One shard's part of the commit log's space, bytes.
    pub(crate) fn shard_log_bytes(&self) -> u64 {
        self.log_bytes / runtime::shard_count() as u64
    }
}

impl Default for Config {
    fn default() -> Config {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Config {
            directories: "data".into(),
            cluster_name: "Test Cluster".into(),
            partitioner: Partitioner::default(),
            num_tokens: 16,
            initial_tokens: Vec::new(),
            allocate_for_factor: None,
            listen_address: loopback,
            broadcast_address: None,
            rpc_address: loopback,
            broadcast_rpc_address: None,
            storage_port: 7000,
            native_port: 9042,
            auto_bootstrap: true,
            replace_address: None,
            join_ring: true,
            ignore_dc: false,
            ignore_rack: false,
            clock_skew_max: Duration::from_secs(10),
            dynamic_snitch: Some(DynamicSnitch::default()),
            seeds: Vec::new(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            sync: SyncMode::Group { window: Duration::ZERO },
            segment_bytes: 32 << 20,
            log_bytes: 8 << 30,
            sstables: SstableOptions::default(),
            memtables: Arc::default(),
            default_compaction: None,
            incremental_backups: false,
            memory_bytes: 1 << 30,
            read_timeout: Duration::from_secs(5),
            range_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(2),
            counter_write_timeout: Duration::from_secs(5),
            cas_contention_timeout: Duration::from_millis(1800),
            truncate_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            client_timeout: Duration::from_secs(12),
            waiting_counts: false,
            slow_query_timeout: Some(Duration::from_millis(500)),
            auto_snapshot: true,
            auto_snapshot_ttl: None,
            drop_compact_storage: false,
            masking: false,
            use_statements: true,
            tombstones: TombstoneThresholds::default(),
            filtering: FilteringThresholds::default(),
            batches: BatchThresholds::default(),
            batch_log_strategy: BatchLogStrategy::RandomRemote,
            batch_log_replay_bytes_per_second: 1 << 20,
            disk: DiskThresholds::default(),
            guardrails: None,
            managed_guardrails: Arc::new(Guardrails::default().or_of_services()),
            access: AccessOptions::default(),
            hints: HintOptions::default(),
            streams: StreamOptions::default(),
            physical_partition_size: PHYSICAL_PARTITION_SIZE,
            replica_replacement_after: REPLICA_REPLACEMENT_AFTER,
            physical_partition_throughput: PHYSICAL_PARTITION_THROUGHPUT,
            auto_cleanup: false,
            hot_partition_relief: true,
            hot_partition_reads_per_second: HOT_PARTITION_READS_PER_SECOND,
            compaction_bytes_per_second: 64 << 20,
            settings: Arc::default(),
        }
    }
}

/// A configuration for tests of modules that need one.
#[cfg(test)]
pub(crate) fn sample() -> Config {
    Config {
        directories: "".into(),
        num_tokens: 2,
        sync: SyncMode::Batch,
        segment_bytes: 1 << 20,
        log_bytes: 1 << 30,
        memory_bytes: 1 << 20,
        drop_compact_storage: true,
        compaction_bytes_per_second: 0,
        ..Config::default()
    }
}
