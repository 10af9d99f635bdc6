//! Options of directories, the commit log, memtables, SSTables, compaction, caches and the process.

use super::kind::{
    CLASS, DECIMAL, FLAG, INT_KIBIBYTES, INT_MEBIBYTES, INT_MILLISECONDS, INT_MINUTES, INT_SECONDS, INTEGER, Kind,
    LIST, LONG, LONG_MEBIBYTES, MAP, RATE, TEXT,
};
use super::older::Older::{
    Kibibytes, Mebibytes, MebibytesOrNone, MebibytesPerSecond, Milliseconds, MinutesOrNone, SecondsFromZero,
};
use super::{CACHE, JVM, Key, MEMORY, THREADS, group, read, refused, unused};

pub(super) const KEYS: &[Key] = &[
    read(
        "data_file_directories",
        LIST,
        "[]",
        "core `i` of a node with `n` directories writes SSTables to directory `i` mod `n`",
    ),
    refused("local_system_data_file_directory", TEXT, "", "system tables are in the first data directory"),
    unused("commitlog_directory", TEXT, "", "the commit log is in the first data directory"),
    read("hints_directory", TEXT, "", "by default `hints` in the first data directory"),
    unused("saved_caches_directory", TEXT, "", "caches are not saved"),
    read(
        "disk_failure_policy",
        Kind::Choice(&["best_effort", "stop", "ignore", "stop_paranoid", "die"]),
        "ignore",
        "`stop` by default, as in the file of Cassandra; `best_effort` is `stop`, as a core writes to one directory. With \
         `stop`, `best_effort` and `ignore` a damaged SSTable fails the reads that need its damaged bytes until it is \
         replaced by what all other replicas have (README, \"Operate a node\")",
    ),
    read("commit_failure_policy", Kind::Choice(&["stop", "stop_commit", "ignore", "die"]), "stop", ""),
    read(
        "commitlog_sync",
        Kind::Choice(&["periodic", "batch", "group"]),
        "",
        "`group` by default, so that an acknowledged write is durable",
    ),
    read("commitlog_sync_period", INT_MILLISECONDS, "0ms", "").older(&[("commitlog_sync_period_in_ms", Milliseconds)]),
    read("commitlog_sync_group_window", INT_MILLISECONDS, "0ms", "")
        .older(&[("commitlog_sync_group_window_in_ms", Milliseconds)]),
    unused(
        "periodic_commitlog_sync_lag_block",
        INT_MILLISECONDS,
        "",
        "writes wait for a late sync at most until the log is full",
    )
    .older(&[("periodic_commitlog_sync_lag_block_in_ms", Milliseconds)]),
    read("commitlog_segment_size", INT_MEBIBYTES, "32MiB", "a power of two from 1MiB to 1GiB")
        .older(&[("commitlog_segment_size_in_mb", Mebibytes)]),
    read("commitlog_total_space", INT_MEBIBYTES, "", "").older(&[("commitlog_total_space_in_mb", Mebibytes)]),
    refused("commitlog_compression", CLASS, "", "the commit log is not compressed"),
    unused("commitlog_max_compression_buffers_in_pool", INTEGER, "3", "belongs to `commitlog_compression`"),
    unused(
        "commitlog_disk_access_mode",
        Kind::Choice(&["auto", "mmap", "mmap_index_only", "standard", "legacy", "direct"]),
        "legacy",
        "the commit log is written by direct I/O",
    ),
    refused("max_mutation_size", INT_KIBIBYTES, "", "the limit is fixed")
        .older(&[("max_mutation_size_in_kb", Kibibytes)])
        .applied("16384KiB"),
    unused("max_value_size", INT_MEBIBYTES, "256MiB", "a value in an SSTable is bounded by its block")
        .older(&[("max_value_size_in_mb", Mebibytes)]),
    refused("cdc_enabled", FLAG, "false", "there is no change data capture"),
    unused("cdc_block_writes", FLAG, "true", "belongs to `cdc_enabled`"),
    unused("cdc_free_space_check_interval", INT_MILLISECONDS, "250ms", "belongs to `cdc_enabled`")
        .older(&[("cdc_free_space_check_interval_ms", Milliseconds)]),
    unused("cdc_on_repair_enabled", FLAG, "true", "belongs to `cdc_enabled`"),
    unused("cdc_raw_directory", TEXT, "", "belongs to `cdc_enabled`"),
    unused("cdc_total_space", INT_MEBIBYTES, "0MiB", "belongs to `cdc_enabled`")
        .older(&[("cdc_total_space_in_mb", Mebibytes)]),
    group("memtable", ""),
    read("memtable.configurations", MAP, "", ""),
    unused(
        "memtable_allocation_type",
        Kind::Choice(&[
            "unslabbed_heap_buffers",
            "unslabbed_heap_buffers_logged",
            "heap_buffers",
            "offheap_buffers",
            "offheap_objects",
        ]),
        "heap_buffers",
        MEMORY,
    ),
    unused("memtable_cleanup_threshold", DECIMAL, "", MEMORY),
    unused("memtable_flush_writers", INTEGER, "0", "every core flushes its own memtables"),
    unused("memtable_heap_space", INT_MEBIBYTES, "", MEMORY).older(&[("memtable_heap_space_in_mb", Mebibytes)]),
    unused("memtable_offheap_space", INT_MEBIBYTES, "", MEMORY).older(&[("memtable_offheap_space_in_mb", Mebibytes)]),
    group("sstable", "{}"),
    read(
        "sstable.selected_format",
        TEXT,
        "big",
        "`bti` by default, unless `storage_compatibility_mode` is `CASSANDRA_4`",
    ),
    read("sstable.format", MAP, "{}", "names of formats; none has options"),
    read("flush_compression", Kind::Choice(&["none", "fast", "table"]), "fast", ""),
    read("column_index_size", INT_KIBIBYTES, "", "").older(&[("column_index_size_in_kb", Kibibytes)]),
    unused("column_index_cache_size", INT_KIBIBYTES, "2KiB", CACHE)
        .older(&[("column_index_cache_size_in_kb", Kibibytes)]),
    unused("index_summary_capacity", LONG_MEBIBYTES, "", CACHE).older(&[("index_summary_capacity_in_mb", Mebibytes)]),
    unused("index_summary_resize_interval", INT_MINUTES, "60m", CACHE)
        .older(&[("index_summary_resize_interval_in_minutes", MinutesOrNone)])
        .nullable(),
    unused("uuid_sstable_identifiers_enabled", FLAG, "false", "identifiers of SSTables are always UUIDs"),
    unused("trickle_fsync", FLAG, "false", "SSTables are written by direct I/O"),
    unused("trickle_fsync_interval", INT_KIBIBYTES, "10240KiB", "SSTables are written by direct I/O")
        .older(&[("trickle_fsync_interval_in_kb", Kibibytes)]),
    unused(
        "sstable_preemptive_open_interval",
        INT_MEBIBYTES,
        "50MiB",
        "the SSTables of a compaction are opened when it ends",
    )
    .older(&[("sstable_preemptive_open_interval_in_mb", MebibytesOrNone)])
    .nullable(),
    unused(
        "compressed_read_ahead_buffer_size",
        INT_KIBIBYTES,
        "256KiB",
        "compactions and scans read ahead by what they need",
    ),
    unused(
        "disk_access_mode",
        Kind::Choice(&["auto", "mmap", "mmap_index_only", "standard", "legacy", "direct"]),
        "mmap_index_only",
        "SSTables are read by direct I/O",
    ),
    unused("disk_optimization_estimate_percentile", DECIMAL, "0.95", "SSTables are read by direct I/O"),
    unused("disk_optimization_page_cross_chance", DECIMAL, "0.1", "SSTables are read by direct I/O"),
    unused("disk_optimization_strategy", Kind::Choice(&["ssd", "spinning"]), "ssd", "SSTables are read by direct I/O"),
    read(
        "corrupted_tombstone_strategy",
        Kind::Choice(&["disabled", "warn", "exception"]),
        "disabled",
        "`warn` is refused; `exception`: negative times of deletion, which versions before `oa` can hold, are damage",
    ),
    unused(
        "check_for_duplicate_rows_during_compaction",
        FLAG,
        "true",
        "rows of a partition are strictly ordered where they are read",
    ),
    unused(
        "check_for_duplicate_rows_during_reads",
        FLAG,
        "true",
        "rows of a partition are strictly ordered where they are read",
    ),
    refused(
        "snapshot_on_duplicate_row_detection",
        FLAG,
        "false",
        "rows of a partition are strictly ordered where they are read",
    ),
    refused("sstable_read_rate_persistence_enabled", FLAG, "false", "rates of reads are not stored"),
    read("auto_snapshot", FLAG, "true", ""),
    read("auto_snapshot_ttl", TEXT, "", ""),
    refused("snapshot_before_compaction", FLAG, "false", "compactions make no snapshots"),
    unused("snapshot_links_per_second", LONG, "0", "hard links of a snapshot are made at once"),
    read("incremental_backups", FLAG, "false", ""),
    refused("automatic_sstable_upgrade", FLAG, "false", "older SSTables are rewritten by `nodetool upgradesstables`"),
    unused("max_concurrent_automatic_sstable_upgrades", INTEGER, "1", "belongs to `automatic_sstable_upgrade`"),
    read("default_compaction", CLASS, "", "of user tables; `SizeTieredCompactionStrategy` without it"),
    read("compaction_throughput", RATE, "64MiB/s", "")
        .older(&[("compaction_throughput_mb_per_sec", MebibytesPerSecond)]),
    unused("concurrent_compactors", INTEGER, "", "every core compacts its own SSTables"),
    refused(
        "autocompaction_on_startup_enabled",
        FLAG,
        "true",
        "compaction is switched off by `nodetool disableautocompaction`",
    ),
    unused(
        "max_space_usable_for_compactions_in_percentage",
        DECIMAL,
        "0.95",
        "a compaction that finds no space ends and is tried again",
    ),
    unused(
        "min_free_space_per_drive",
        INT_MEBIBYTES,
        "50MiB",
        "a compaction that finds no space ends and is tried again",
    )
    .older(&[("min_free_space_per_drive_in_mb", Mebibytes)]),
    read(
        "startup_checks",
        Kind::StartupChecks,
        "{}",
        "`check_data_resurrection`, `check_dc` and `check_rack`; `check_filesystem_ownership` is refused",
    ),
    unused("buffer_pool_use_heap_if_exhausted", FLAG, "false", CACHE),
    unused("cache_load_timeout", INT_SECONDS, "30s", "caches are not saved")
        .older(&[("cache_load_timeout_seconds", SecondsFromZero)]),
    unused("counter_cache_keys_to_save", INTEGER, "2147483647", "caches are not saved"),
    unused("counter_cache_save_period", Kind::DurationOrSeconds, "7200", "caches are not saved"),
    unused("counter_cache_size", LONG_MEBIBYTES, "", CACHE).older(&[("counter_cache_size_in_mb", Mebibytes)]),
    unused("file_cache_enabled", FLAG, "false", CACHE),
    unused("file_cache_round_up", FLAG, "", CACHE).applied("false"),
    unused("file_cache_size", INT_MEBIBYTES, "", CACHE).older(&[("file_cache_size_in_mb", Mebibytes)]),
    unused("key_cache_invalidate_after_sstable_deletion", FLAG, "false", CACHE),
    unused("key_cache_keys_to_save", INTEGER, "2147483647", "caches are not saved"),
    unused("key_cache_migrate_during_compaction", FLAG, "true", CACHE),
    unused("key_cache_save_period", Kind::DurationOrSeconds, "14400", "caches are not saved"),
    unused("key_cache_size", LONG_MEBIBYTES, "", CACHE).older(&[("key_cache_size_in_mb", Mebibytes)]),
    unused("networking_cache_size", INT_MEBIBYTES, "", CACHE).older(&[("networking_cache_size_in_mb", Mebibytes)]),
    unused("row_cache_class_name", TEXT, "org.apache.cassandra.cache.OHCProvider", CACHE),
    unused("row_cache_keys_to_save", INTEGER, "2147483647", "caches are not saved"),
    unused("row_cache_save_period", Kind::DurationOrSeconds, "0", "caches are not saved"),
    unused("row_cache_size", LONG_MEBIBYTES, "0MiB", CACHE).older(&[("row_cache_size_in_mb", Mebibytes)]),
    unused("concurrent_counter_writes", INTEGER, "32", THREADS),
    unused("concurrent_reads", INTEGER, "32", THREADS),
    unused("concurrent_writes", INTEGER, "32", THREADS),
    unused("available_processors", INTEGER, "-1", "`--cores` says how many cores a node runs on"),
    unused("dump_heap_on_uncaught_exception", FLAG, "false", JVM),
    unused("gc_log_threshold", INT_MILLISECONDS, "200ms", JVM).older(&[("gc_log_threshold_in_ms", Milliseconds)]),
    unused("gc_warn_threshold", INT_MILLISECONDS, "1s", JVM).older(&[("gc_warn_threshold_in_ms", Milliseconds)]),
    unused("heap_dump_path", TEXT, "heapdump", JVM),
    unused("initial_range_tombstone_list_allocation_size", INTEGER, "1", JVM),
    unused("range_tombstone_list_growth_factor", DECIMAL, "1.5", JVM),
    unused("windows_timer_interval", INTEGER, "0", "for Windows"),
];
