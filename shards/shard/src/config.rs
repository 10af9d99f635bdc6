//! What a shard is told about its node when it starts.

use crate::guards::batches::BatchThresholds;
use crate::guards::disk_usage::DiskThresholds;
use crate::guards::tombstones::TombstoneThresholds;
use cql::guardrails::Guardrails;
use engine::SstableOptions;
use model::MemtableConfigurations;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a shard needs to know of its node. The same on all shards.
#[derive(Clone, Debug)]
pub struct Config {
    /// Data directory of the node.
    pub directory: PathBuf,
    /// `cluster_name`.
    pub cluster_name: String,
    /// `num_tokens`, 1 to 1536... taken at the first start only.
    pub num_tokens: usize,
    /// `listen_address`.
    pub listen_address: IpAddr,
    /// `rpc_address`.
    pub rpc_address: IpAddr,
    /// `storage_port`.
    pub storage_port: u16,
    /// `native_transport_port`.
    pub native_port: u16,
    /// Data centre and rack of the snitch.
    pub data_center: String,
    /// See `data_center`.
    pub rack: String,
    /// Commit log mode.
    pub sync: engine::SyncMode,
    /// `commitlog_segment_size`, bytes.
    pub segment_bytes: u32,
    /// This shard's part of `commitlog_total_space`, bytes.
    pub log_bytes: u64,
    /// How SSTables are written.
    pub sstables: SstableOptions,
    /// Which memtables tables may name.
    pub memtables: Arc<MemtableConfigurations>,
    /// Memory of this shard, bytes: memtables, caches and statements get shares of it.
    pub memory_bytes: usize,
    /// `read_request_timeout`.
    pub read_timeout: Duration,
    /// `range_request_timeout`.
    pub range_timeout: Duration,
    /// `write_request_timeout`.
    pub write_timeout: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write_timeout: Duration,
    /// `cas_contention_timeout`: how long a conditional change, or a read at SERIAL, waits for others of its partition.
    pub cas_contention_timeout: Duration,
    /// `truncate_request_timeout`.
    pub truncate_timeout: Duration,
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
    /// What clients are held to; `None`: nothing.
    pub guardrails: Option<Arc<Guardrails>>,
    /// `compaction_throughput`: bytes per second that compactions of the node may read; 0: as many as they can.
    pub compaction_bytes_per_second: u64,
    /// Every option with its value, as `system_views.settings` shows them.
    pub settings: Arc<BTreeMap<String, Option<String>>>,
}

impl Config {
    /// The address and the port that other nodes know this one by.
    pub(crate) fn storage_address(&self) -> (IpAddr, u16) {
        (self.listen_address, self.storage_port)
    }
}

/// A configuration for tests of modules that need one.
#[cfg(test)]
pub(crate) fn sample() -> Config {
    Config {
        directory: "".into(),
        cluster_name: "Test Cluster".into(),
        num_tokens: 2,
        listen_address: [127, 0, 0, 1].into(),
        rpc_address: [127, 0, 0, 1].into(),
        storage_port: 7000,
        native_port: 9042,
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        sync: engine::SyncMode::Batch,
        segment_bytes: 1 << 20,
        log_bytes: 1 << 30,
        sstables: SstableOptions::default(),
        memtables: Arc::default(),
        memory_bytes: 1 << 20,
        read_timeout: Duration::from_secs(5),
        range_timeout: Duration::from_secs(10),
        write_timeout: Duration::from_secs(2),
        counter_write_timeout: Duration::from_secs(5),
        cas_contention_timeout: Duration::from_millis(1800),
        truncate_timeout: Duration::from_secs(60),
        auto_snapshot: true,
        auto_snapshot_ttl: None,
        drop_compact_storage: true,
        use_statements: true,
        tombstones: Default::default(),
        batches: Default::default(),
        disk: Default::default(),
        guardrails: None,
        compaction_bytes_per_second: 0,
        settings: Default::default(),
    }
}
