//! Options of client connections and requests.

use super::kind::{
    DECIMAL, FLAG, INT_BYTES, INT_KIBIBYTES, INT_MEBIBYTES, INT_SECONDS, INTEGER, Kind, LIST, LONG, LONG_BYTES,
    LONG_MEBIBYTES, LONG_MILLISECONDS, LONG_SECONDS, TEXT,
};
use super::older::Older::{Bytes, BytesOrNone, Kibibytes, Mebibytes, Milliseconds, Same, Seconds};
use super::{FUNCTIONS, Key, PAXOS, SAI, THREADS, group, read, refused, unused};

const CONTENTION: &str = "rounds that meet wait for a random time, 2 ms at most at first, before they try again";

const IN_FLIGHT: &str =
    "each core has its part, half of it for requests above 64 KiB; not given: a tenth of `--memory`";
const IN_FLIGHT_PER_IP: &str = "each core has its part; not given: as much as the node has";

pub(super) const KEYS: &[Key] = &[
    read("start_native_transport", FLAG, "true", "`false`: clients are not listened for until the next start"),
    read("native_transport_port", INTEGER, "9042", ""),
    read(
        "native_shard_aware_transport_port",
        INTEGER,
        "19042",
        "each connection is served by the core that its source port names",
    )
    .own(),
    read("native_transport_port_ssl", INTEGER, "", ""),
    read(
        "native_shard_aware_transport_port_ssl",
        INTEGER,
        "19142",
        "as `native_shard_aware_transport_port`, for encrypted connections; open if `client_encryption_options` has it",
    )
    .own(),
    read("native_transport_max_concurrent_connections", LONG, "-1", "-1: 65536"),
    read("native_transport_max_concurrent_connections_per_ip", LONG, "-1", "-1: as many as the node takes"),
    read("native_transport_allow_older_protocols", FLAG, "true", ""),
    read("native_transport_idle_timeout", LONG_MILLISECONDS, "0ms", "not while a request is under way")
        .older(&[("native_transport_idle_timeout_in_ms", Milliseconds)]),
    read("native_transport_max_frame_size", INT_MEBIBYTES, "16MiB", "at most 256MiB")
        .older(&[("native_transport_max_frame_size_in_mb", Mebibytes)]),
    read("native_transport_max_message_size", LONG_BYTES, "", "at most 256MiB").applied("16777216B"),
    read("native_transport_max_request_data_in_flight", LONG_BYTES, "", IN_FLIGHT)
        .older(&[("native_transport_max_concurrent_requests_in_bytes", BytesOrNone)]),
    read("native_transport_max_request_data_in_flight_per_ip", LONG_BYTES, "", IN_FLIGHT_PER_IP)
        .older(&[("native_transport_max_concurrent_requests_in_bytes_per_ip", BytesOrNone)]),
    read("native_transport_rate_limiting_enabled", FLAG, "false", ""),
    read("native_transport_max_requests_per_second", INTEGER, "1000000", ""),
    read("native_transport_throw_on_overload", FLAG, "false", "for clients that do not say at STARTUP"),
    refused(
        "native_transport_queue_max_item_age_threshold",
        DECIMAL,
        "1.7976931348623157E308",
        "a connection whose requests have to wait is not read",
    ),
    unused(
        "native_transport_min_backoff_on_queue_overload",
        LONG_MILLISECONDS,
        "10ms",
        "a connection whose requests have to wait is not read",
    ),
    unused(
        "native_transport_max_backoff_on_queue_overload",
        LONG_MILLISECONDS,
        "200ms",
        "a connection whose requests have to wait is not read",
    ),
    read("native_transport_timeout", LONG_MILLISECONDS, "12s", ""),
    unused("native_transport_flush_in_batches_legacy", FLAG, "false", "answers are written as soon as they are there"),
    unused("native_transport_max_auth_threads", INTEGER, "4", THREADS),
    unused("native_transport_max_threads", INTEGER, "128", THREADS),
    unused(
        "native_transport_receive_queue_capacity",
        INT_BYTES,
        "1MiB",
        "a connection is read as far as there is memory for its requests",
    )
    .older(&[("native_transport_receive_queue_capacity_in_bytes", Bytes)]),
    group("client_error_reporting_exclusions", "{}"),
    unused("client_error_reporting_exclusions.subnets", LIST, "[]", "errors of clients are not logged"),
    unused("client_request_size_metrics_enabled", FLAG, "true", "sizes of requests are always counted"),
    refused("consecutive_message_errors_threshold", INTEGER, "1", "the first broken message closes a connection"),
    read(
        "cql_start_time",
        Kind::Choice(&["REQUEST", "QUEUE"]),
        "REQUEST",
        "a request waits for its turn among those of its connection, and for memory and the rate if they are limited",
    ),
    read("read_request_timeout", LONG_MILLISECONDS, "5000ms", "")
        .older(&[("read_request_timeout_in_ms", Milliseconds)]),
    read("range_request_timeout", LONG_MILLISECONDS, "10000ms", "")
        .older(&[("range_request_timeout_in_ms", Milliseconds)]),
    read("write_request_timeout", LONG_MILLISECONDS, "2000ms", "")
        .older(&[("write_request_timeout_in_ms", Milliseconds)]),
    read("counter_write_request_timeout", LONG_MILLISECONDS, "5000ms", "")
        .older(&[("counter_write_request_timeout_in_ms", Milliseconds)]),
    read("cas_contention_timeout", LONG_MILLISECONDS, "1800ms", "")
        .older(&[("cas_contention_timeout_in_ms", Milliseconds)]),
    read("truncate_request_timeout", LONG_MILLISECONDS, "60000ms", "")
        .older(&[("truncate_request_timeout_in_ms", Milliseconds)]),
    read("request_timeout", LONG_MILLISECONDS, "10000ms", "for changes of the schema; others have times of their own")
        .older(&[("request_timeout_in_ms", Milliseconds)]),
    read("slow_query_log_timeout", LONG_MILLISECONDS, "500ms", "every kind of request is logged, at the level info")
        .older(&[("slow_query_log_timeout_in_ms", Milliseconds)]),
    refused("read_thresholds_enabled", FLAG, "false", "sizes of reads are not held to limits"),
    unused("coordinator_read_size_fail_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    unused("coordinator_read_size_warn_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    unused("local_read_size_fail_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    unused("local_read_size_warn_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    unused("row_index_read_size_fail_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    unused("row_index_read_size_warn_threshold", LONG_BYTES, "", "belongs to `read_thresholds_enabled`"),
    read("tombstone_warn_threshold", INTEGER, "1000", ""),
    read("tombstone_failure_threshold", INTEGER, "100000", ""),
    read("batch_size_warn_threshold", INT_KIBIBYTES, "5KiB", "")
        .older(&[("batch_size_warn_threshold_in_kb", Kibibytes)]),
    read("batch_size_fail_threshold", INT_KIBIBYTES, "50KiB", "")
        .older(&[("batch_size_fail_threshold_in_kb", Kibibytes)]),
    read("unlogged_batch_across_partitions_warn_threshold", INTEGER, "10", ""),
    unused("prepared_statements_cache_size", LONG_MEBIBYTES, "", "the cache is bounded by the memory of the node")
        .older(&[("prepared_statements_cache_size_mb", Mebibytes)]),
    unused("force_new_prepared_statement_behaviour", FLAG, "false", "always so"),
    unused("trace_type_query_ttl", INT_SECONDS, "1d", "traces live for a day")
        .older(&[("tracetype_query_ttl", Seconds)]),
    unused("paxos_cache_size", LONG_MEBIBYTES, "", PAXOS),
    unused("paxos_contention_max_wait", TEXT, "", CONTENTION),
    unused("paxos_contention_min_delta", TEXT, "", CONTENTION),
    unused("paxos_contention_min_wait", TEXT, "", CONTENTION),
    unused("paxos_contention_wait_randomizer", TEXT, "", CONTENTION),
    unused("paxos_on_linearizability_violations", Kind::Choice(&["fail", "log", "ignore"]), "ignore", PAXOS),
    unused("paxos_purge_grace_period", LONG_SECONDS, "60s", PAXOS),
    refused(
        "paxos_repair_enabled",
        FLAG,
        "true",
        "a repair finishes what rounds have left unless it has `--skip-paxos`",
    ),
    unused("paxos_repair_parallelism", INTEGER, "-1", PAXOS).applied("4"),
    unused("paxos_repair_race_wait", FLAG, "true", PAXOS),
    unused("paxos_state_purging", Kind::Choice(&["legacy", "gc_grace", "repaired"]), "", PAXOS).applied("legacy"),
    unused("paxos_topology_repair_no_dc_checks", FLAG, "false", PAXOS),
    unused("paxos_topology_repair_strict_each_quorum", FLAG, "false", PAXOS),
    unused(
        "paxos_variant",
        Kind::Choice(&[
            "v1_without_linearizable_reads_or_rejected_writes",
            "v1",
            "v2_without_linearizable_reads",
            "v2_without_linearizable_reads_or_rejected_writes",
            "v2",
        ]),
        "v1",
        PAXOS,
    ),
    unused("skip_paxos_repair_on_topology_change", FLAG, "false", PAXOS),
    unused("skip_paxos_repair_on_topology_change_keyspaces", LIST, "[]", PAXOS),
    read("use_statements_enabled", FLAG, "true", ""),
    read("drop_compact_storage_enabled", FLAG, "false", "").older(&[("enable_drop_compact_storage", Same)]),
    refused("materialized_views_enabled", FLAG, "false", "materialized views are not there")
        .older(&[("enable_materialized_views", Same)]),
    unused("concurrent_materialized_view_builders", INTEGER, "1", "materialized views are not there"),
    unused("concurrent_materialized_view_writes", INTEGER, "32", "materialized views are not there"),
    unused("materialized_views_on_repair_enabled", FLAG, "true", "materialized views are not there"),
    refused("sasi_indexes_enabled", FLAG, "false", "SASI indexes are not there")
        .older(&[("enable_sasi_indexes", Same)]),
    refused("transient_replication_enabled", FLAG, "false", "transient replication is not there")
        .older(&[("enable_transient_replication", Same)]),
    read("dynamic_data_masking_enabled", FLAG, "false", ""),
    refused("user_defined_functions_enabled", FLAG, "false", FUNCTIONS)
        .older(&[("enable_user_defined_functions", Same)]),
    refused("scripted_user_defined_functions_enabled", FLAG, "false", FUNCTIONS)
        .older(&[("enable_scripted_user_defined_functions", Same)]),
    unused("user_defined_functions_fail_timeout", LONG_MILLISECONDS, "1500ms", FUNCTIONS)
        .older(&[("user_defined_function_fail_timeout", Milliseconds)]),
    unused("user_defined_functions_threads_enabled", FLAG, "true", FUNCTIONS)
        .older(&[("enable_user_defined_functions_threads", Same)]),
    unused("user_defined_functions_warn_timeout", LONG_MILLISECONDS, "500ms", FUNCTIONS)
        .older(&[("user_defined_function_warn_timeout", Milliseconds)]),
    unused("user_function_timeout_policy", Kind::Choice(&["ignore", "die", "die_immediate"]), "die", FUNCTIONS),
    unused("allow_insecure_udfs", FLAG, "false", FUNCTIONS),
    unused("allow_extra_insecure_udfs", FLAG, "false", FUNCTIONS),
    unused(
        "default_secondary_index",
        TEXT,
        "legacy_local_table",
        "CREATE INDEX without USING makes an index of the kind `legacy_local_table`",
    ),
    refused("default_secondary_index_enabled", FLAG, "true", "CREATE INDEX without USING is always there"),
    unused("concurrent_index_builders", INTEGER, "2", "every core indexes its own data"),
    group("sai_options", "{}"),
    unused("sai_options.prioritize_over_legacy_index", FLAG, "false", SAI),
    unused("sai_options.segment_write_buffer_size", INT_MEBIBYTES, "1024MiB", SAI),
    refused("use_deterministic_table_id", FLAG, "false", "identifiers of tables are random"),
];
