//! Options of hints, the batch log, repair and streaming: of everything that nodes do for each other.

use super::kind::{
    CLASS, DECIMAL, FLAG, INT_KIBIBYTES, INT_MEBIBYTES, INT_MILLISECONDS, INT_SECONDS, INTEGER, Kind, LIST, LONG,
    LONG_BYTES, LONG_MILLISECONDS, LONG_NANOSECONDS, LONG_SECONDS, MAP, RATE,
};
use super::older::Older::{Kibibytes, Mebibytes, MegabitsPerSecond, Milliseconds, Seconds, SecondsFromZero};
use super::{Key, group, read, refused, unused};

const REPAIR: &str = "repairs need no such tuning";
const AUTOMATIC: &str =
    "a node repairs one table at a time, resting between parts of its ranges so that clients go first";
const SCHEDULED: &str = "tables are repaired in full, each node for its own ranges; `auto_repair.global_settings.enabled` is needed as well";
const INTERVAL: &str = "tables are repaired within half of their `gc_grace_seconds` in any case";
const NEAR: &str = "every core has an equal part of it; 0 sets no limit";
const FAR: &str = "besides the limit for all nodes; every core has an equal part of it; 0 sets no limit";
const STATE: &str = "a core remembers its last 256 streams";

pub(super) const KEYS: &[Key] = &[
    read(
        "batchlog_endpoint_strategy",
        Kind::Choice(&["random_remote", "prefer_local", "dynamic_remote", "dynamic"]),
        "random_remote",
        "",
    ),
    read("batchlog_replay_throttle", INT_KIBIBYTES, "1024KiB", "0 sets no limit")
        .older(&[("batchlog_replay_throttle_in_kb", Kibibytes)]),
    refused(
        "auto_hints_cleanup_enabled",
        FLAG,
        "false",
        "hints that are too old are dropped when they are delivered, and those of a node that leaves are deleted at once",
    ),
    refused(
        "enforce_native_deadline_for_hints",
        FLAG,
        "false",
        "hints are kept by when a replica was late, not by how long the client waits",
    ),
    read("hint_window_persistent_enabled", FLAG, "true", ""),
    read("hinted_handoff_disabled_datacenters", LIST, "[]", ""),
    read("hinted_handoff_enabled", FLAG, "true", ""),
    read("hinted_handoff_throttle", INT_KIBIBYTES, "1024KiB", "every core has an equal part of it")
        .older(&[("hinted_handoff_throttle_in_kb", Kibibytes)]),
    refused("hints_compression", CLASS, "", "files of hints are not compressed"),
    read("hints_flush_period", INT_MILLISECONDS, "10s", "what is acknowledged at ANY is written at once")
        .older(&[("hints_flush_period_in_ms", Milliseconds)]),
    read("max_hint_window", INT_MILLISECONDS, "3h", "").older(&[("max_hint_window_in_ms", Milliseconds)]),
    read("max_hints_delivery_threads", INTEGER, "2", "a core sends hints to so many nodes at a time"),
    read("max_hints_file_size", INT_MEBIBYTES, "128MiB", "").older(&[("max_hints_file_size_in_mb", Mebibytes)]),
    read("max_hints_size_per_host", LONG_BYTES, "0B", "every core has an equal part of it"),
    read("transfer_hints_on_decommission", FLAG, "true", ""),
    read("use_creation_time_for_hint_ttl", FLAG, "true", ""),
    group("auto_repair", "{}"),
    read("auto_repair.auto_repair_scheduling_enabled", FLAG, "false", "the same as `auto_repair.enabled`"),
    read("auto_repair.enabled", FLAG, "false", SCHEDULED),
    group("auto_repair.global_settings", "{}"),
    unused("auto_repair.global_settings.allow_parallel_replica_repair", FLAG, "false", AUTOMATIC),
    unused("auto_repair.global_settings.allow_parallel_replica_repair_across_schedules", FLAG, "true", AUTOMATIC),
    read("auto_repair.global_settings.enabled", FLAG, "false", ""),
    unused("auto_repair.global_settings.force_repair_new_node", FLAG, "false", AUTOMATIC),
    refused("auto_repair.global_settings.ignore_dcs", LIST, "[]", "every data centre is repaired"),
    read("auto_repair.global_settings.initial_scheduler_delay", INT_SECONDS, "5m", ""),
    unused("auto_repair.global_settings.materialized_view_repair_enabled", FLAG, "false", AUTOMATIC),
    read("auto_repair.global_settings.min_repair_interval", INT_SECONDS, "24h", INTERVAL),
    unused("auto_repair.global_settings.number_of_repair_threads", INTEGER, "1", AUTOMATIC),
    unused("auto_repair.global_settings.parallel_repair_count", INTEGER, "3", AUTOMATIC),
    unused("auto_repair.global_settings.parallel_repair_percentage", INTEGER, "3", AUTOMATIC),
    unused("auto_repair.global_settings.repair_by_keyspace", FLAG, "true", AUTOMATIC),
    unused("auto_repair.global_settings.repair_max_retries", INTEGER, "3", AUTOMATIC),
    read("auto_repair.global_settings.repair_primary_token_range_only", FLAG, "true", ""),
    unused("auto_repair.global_settings.repair_retry_backoff", LONG_SECONDS, "30s", AUTOMATIC),
    unused("auto_repair.global_settings.repair_session_timeout", INT_SECONDS, "3h", AUTOMATIC),
    unused("auto_repair.global_settings.sstable_upper_threshold", INTEGER, "50000", AUTOMATIC),
    unused("auto_repair.global_settings.table_max_repair_time", INT_SECONDS, "6h", AUTOMATIC),
    unused(
        "auto_repair.global_settings.token_range_splitter",
        CLASS,
        "org.apache.cassandra.repair.autorepair.RepairTokenRangeSplitter",
        AUTOMATIC,
    ),
    unused("auto_repair.history_clear_delete_hosts_buffer_interval", INT_SECONDS, "2h", AUTOMATIC),
    unused("auto_repair.mixed_major_version_repair_enabled", FLAG, "false", AUTOMATIC),
    read("auto_repair.repair_check_interval", INT_SECONDS, "5m", ""),
    unused("auto_repair.repair_task_min_duration", LONG_SECONDS, "5s", AUTOMATIC),
    refused(
        "auto_repair.repair_type_overrides",
        MAP,
        "{}",
        "all repairs are full ones; use `auto_repair.global_settings`",
    ),
    unused("auto_optimise_full_repair_streams", FLAG, "false", REPAIR),
    unused("auto_optimise_inc_repair_streams", FLAG, "false", REPAIR),
    unused("auto_optimise_preview_repair_streams", FLAG, "false", REPAIR),
    unused("concurrent_merkle_tree_requests", INTEGER, "0", REPAIR),
    unused("concurrent_validations", INTEGER, "0", "a core hashes at most two parts of ranges at once"),
    unused("reject_repair_compaction_threshold", INTEGER, "2147483647", REPAIR),
    group("repair", "{}"),
    group("repair.retries", "{}"),
    unused("repair.retries.baseSleepTime", LONG_MILLISECONDS, "200ms", REPAIR),
    unused("repair.retries.enabled", FLAG, "false", REPAIR),
    unused("repair.retries.maxAttempts", MAP, "0", REPAIR),
    unused("repair.retries.maxAttempts.value", INTEGER, "0", REPAIR),
    unused("repair.retries.maxSleepTime", LONG_MILLISECONDS, "1s", REPAIR),
    unused("repair.retries.merkle_tree_response", MAP, "", REPAIR),
    unused("repair.retries.merkle_tree_response.baseSleepTime", LONG_MILLISECONDS, "", REPAIR),
    unused("repair.retries.merkle_tree_response.enabled", FLAG, "", REPAIR),
    unused("repair.retries.merkle_tree_response.maxAttempts.value", INTEGER, "", REPAIR),
    unused("repair.retries.merkle_tree_response.maxSleepTime", LONG_MILLISECONDS, "", REPAIR),
    unused("repair_command_pool_full_strategy", Kind::Choice(&["queue", "reject"]), "queue", REPAIR),
    unused("repair_command_pool_size", INTEGER, "0", REPAIR),
    unused("repair_disk_headroom_reject_ratio", DECIMAL, "0.0", REPAIR),
    unused("repair_request_timeout", LONG_MILLISECONDS, "120000ms", REPAIR)
        .older(&[("repair_request_timeout_in_ms", Milliseconds)]),
    unused("repair_session_max_tree_depth", INTEGER, "", REPAIR).applied("20"),
    unused("repair_session_space", INT_MEBIBYTES, "", REPAIR).older(&[("repair_session_space_in_mb", Mebibytes)]),
    unused("repair_state_expires", LONG_NANOSECONDS, "3d", REPAIR),
    unused("repair_state_size", INTEGER, "100000", REPAIR),
    unused("repaired_data_tracking_for_partition_reads_enabled", FLAG, "false", REPAIR),
    unused("repaired_data_tracking_for_range_reads_enabled", FLAG, "false", REPAIR),
    group("replica_filtering_protection", "{}"),
    read("replica_filtering_protection.cached_rows_fail_threshold", INTEGER, "32000", ""),
    read("replica_filtering_protection.cached_rows_warn_threshold", INTEGER, "2000", ""),
    unused("report_unconfirmed_repaired_data_mismatches", FLAG, "false", REPAIR),
    unused("snapshot_on_repaired_data_mismatch", FLAG, "false", REPAIR),
    unused("max_top_size_partition_count", INTEGER, "10", REPAIR),
    unused("max_top_tombstone_partition_count", INTEGER, "10", REPAIR),
    unused("min_tracked_partition_size", LONG_BYTES, "1MiB", REPAIR),
    unused("min_tracked_partition_tombstone_count", LONG, "5000", REPAIR),
    unused("top_partitions_enabled", FLAG, "true", REPAIR),
    unused("trace_type_repair_ttl", INT_SECONDS, "7d", REPAIR).older(&[("tracetype_repair_ttl", Seconds)]),
    unused("use_offheap_merkle_trees", FLAG, "true", REPAIR),
    unused("validation_preview_purge_head_start", INT_SECONDS, "3600s", REPAIR)
        .older(&[("validation_preview_purge_head_start_in_sec", SecondsFromZero)]),
    read("entire_sstable_inter_dc_stream_throughput_outbound", RATE, "24MiB/s", FAR),
    read("entire_sstable_stream_throughput_outbound", RATE, "24MiB/s", NEAR),
    read("inter_dc_stream_throughput_outbound", RATE, "24MiB/s", FAR)
        .older(&[("inter_dc_stream_throughput_outbound_megabits_per_sec", MegabitsPerSecond)]),
    refused("max_streaming_retries", INTEGER, "3", "streaming is tried again until a minute brings nothing"),
    read("skip_stream_disk_space_check", FLAG, "false", ""),
    read("stream_entire_sstables", FLAG, "true", ""),
    read("stream_throughput_outbound", RATE, "24MiB/s", NEAR)
        .older(&[("stream_throughput_outbound_megabits_per_sec", MegabitsPerSecond)]),
    unused("stream_transfer_task_timeout", LONG_MILLISECONDS, "12h", "streams have no limit of time"),
    refused("streaming_connections_per_host", INTEGER, "1", "every core has a connection to every other node"),
    read(
        "streaming_keep_alive_period",
        INT_SECONDS,
        "300s",
        "a sender that hears nothing for so long ends the session",
    )
    .older(&[("streaming_keep_alive_period_in_secs", Seconds)]),
    unused("streaming_slow_events_log_timeout", INT_SECONDS, "10s", "events of streams are not timed"),
    unused("streaming_state_expires", LONG_NANOSECONDS, "3d", STATE),
    unused("streaming_state_size", LONG_BYTES, "40MiB", STATE),
    unused("streaming_stats_enabled", FLAG, "true", "statistics of streams are always kept"),
];
