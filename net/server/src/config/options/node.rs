//! Options of the cluster, addresses, tokens and peers.

use super::kind::{
    CLASS, CONSISTENCY, DECIMAL, FLAG, INT_BYTES, INT_MILLISECONDS, INTEGER, Kind, LIST, LONG_BYTES, TEXT,
};
use super::older::Older::{Bytes, Milliseconds, Same};
use super::{Key, group, read, refused, unused};

pub(super) const KEYS: &[Key] = &[
    read("cluster_name", TEXT, "Test Cluster", ""),
    read("num_tokens", INTEGER, "", "taken at the first start"),
    read("initial_token", TEXT, "", "taken at the first start; as many tokens as `num_tokens` says"),
    read(
        "partitioner",
        TEXT,
        "",
        "Murmur3, Random, ByteOrdered or OrderPreserving; a data directory keeps the one that it was made with",
    ),
    refused("allocate_tokens_for_keyspace", TEXT, "", "`allocate_tokens_for_local_replication_factor` chooses tokens"),
    read(
        "allocate_tokens_for_local_replication_factor",
        INTEGER,
        "",
        "3 if it is not given, as in Cassandra's own file; under Murmur3Partitioner only",
    ),
    read("auto_bootstrap", FLAG, "true", ""),
    read("seed_provider", CLASS, "", "`SimpleSeedProvider`; without it, the node is its own seed"),
    read(
        "endpoint_snitch",
        TEXT,
        "",
        "each of Cassandra's; their files are read beside `cassandra.yaml`",
    ),
    read("listen_address", TEXT, "", "a loopback address, unless nodes must show certificates"),
    read("listen_interface", TEXT, "", "as listen_address"),
    read("listen_interface_prefer_ipv6", FLAG, "false", ""),
    refused("listen_on_broadcast_address", FLAG, "false", "the node listens on `listen_address` only"),
    read("broadcast_address", TEXT, "", "what other nodes are told; the node listens on `listen_address` only"),
    read("storage_port", INTEGER, "7000", ""),
    read("ssl_storage_port", INTEGER, "7001", "open if `server_encryption_options.legacy_ssl_storage_port_enabled`"),
    read("rpc_address", TEXT, "", "a loopback address, unless clients must log in"),
    read("rpc_interface", TEXT, "", "one with a loopback address, unless clients must log in"),
    read("rpc_interface_prefer_ipv6", FLAG, "false", ""),
    read("broadcast_rpc_address", TEXT, "", "what clients are told"),
    unused("rpc_keepalive", FLAG, "true", "connections always have TCP keepalive"),
    read(
        "dynamic_snitch",
        FLAG,
        "true",
        "reads ask replicas that have been slow after the others of their data centre",
    ),
    read(
        "dynamic_snitch_badness_threshold",
        DECIMAL,
        "1.0",
        "a node is slow that also is 5 ms slower than the fastest",
    ),
    read("dynamic_snitch_reset_interval", INT_MILLISECONDS, "10m", "")
        .older(&[("dynamic_snitch_reset_interval_in_ms", Milliseconds)]),
    read("dynamic_snitch_update_interval", INT_MILLISECONDS, "100ms", "a node that becomes slow is seen at once")
        .older(&[("dynamic_snitch_update_interval_in_ms", Milliseconds)]),
    unused("failure_detector", TEXT, "FailureDetector", "there is one: phi accrual"),
    read("phi_convict_threshold", DECIMAL, "8.0", ""),
    unused("severity_during_decommission", DECIMAL, "0.0", "which nodes are slow is told by their answers alone"),
    unused(
        "block_for_peers_in_remote_dcs",
        FLAG,
        "false",
        "a node that starts waits 3 s at most to hear which others live",
    ),
    unused(
        "block_for_peers_timeout_in_secs",
        INTEGER,
        "10",
        "a node that starts waits 3 s at most to hear which others live",
    ),
    unused("inter_dc_tcp_nodelay", FLAG, "true", "connections always have TCP_NODELAY"),
    read("internode_application_receive_queue_capacity", INT_BYTES, "4MiB", "")
        .older(&[("internode_application_receive_queue_capacity_in_bytes", Bytes)]),
    read(
        "internode_application_receive_queue_reserve_endpoint_capacity",
        INT_BYTES,
        "128MiB",
        "each core has an equal share",
    )
    .older(&[("internode_application_receive_queue_reserve_endpoint_capacity_in_bytes", Bytes)]),
    read(
        "internode_application_receive_queue_reserve_global_capacity",
        INT_BYTES,
        "512MiB",
        "each core has an equal share",
    )
    .older(&[("internode_application_receive_queue_reserve_global_capacity_in_bytes", Bytes)]),
    read("internode_application_send_queue_capacity", INT_BYTES, "4MiB", "")
        .older(&[("internode_application_send_queue_capacity_in_bytes", Bytes)]),
    read(
        "internode_application_send_queue_reserve_endpoint_capacity",
        INT_BYTES,
        "128MiB",
        "each core has an equal share",
    )
    .older(&[("internode_application_send_queue_reserve_endpoint_capacity_in_bytes", Bytes)]),
    read(
        "internode_application_send_queue_reserve_global_capacity",
        INT_BYTES,
        "512MiB",
        "each core has an equal share",
    )
    .older(&[("internode_application_send_queue_reserve_global_capacity_in_bytes", Bytes)]),
    read("internode_compression", Kind::Choice(&["all", "none", "dc"]), "none", ""),
    group("internode_error_reporting_exclusions", "{}"),
    refused("internode_error_reporting_exclusions.subnets", LIST, "[]", "the log tells of all networks alike"),
    read("internode_max_message_size", INT_BYTES, "", "")
        .older(&[("internode_max_message_size_in_bytes", Bytes)])
        .applied("134217728B"),
    unused("internode_socket_receive_buffer_size", INT_BYTES, "0B", "the kernel sizes the buffers of sockets").older(
        &[("internode_socket_receive_buffer_size_in_bytes", Bytes), ("internode_recv_buff_size_in_bytes", Bytes)],
    ),
    unused("internode_socket_send_buffer_size", INT_BYTES, "0B", "the kernel sizes the buffers of sockets")
        .older(&[("internode_send_buff_size_in_bytes", Bytes), ("internode_socket_send_buffer_size_in_bytes", Bytes)]),
    unused(
        "internode_streaming_tcp_user_timeout",
        INT_MILLISECONDS,
        "300s",
        "internode_tcp_user_timeout ends silent connections",
    )
    .older(&[("internode_streaming_tcp_user_timeout_in_ms", Milliseconds)]),
    read("internode_tcp_connect_timeout", INT_MILLISECONDS, "2s", "")
        .older(&[("internode_tcp_connect_timeout_in_ms", Milliseconds)]),
    read("internode_tcp_user_timeout", INT_MILLISECONDS, "30s", "")
        .older(&[("internode_tcp_user_timeout_in_ms", Milliseconds)]),
    unused("internode_timeout", FLAG, "true", "a request to another node always carries the time that it has left")
        .older(&[("cross_node_timeout", Same)]),
    unused("invalid_legacy_protocol_magic_no_spam_enabled", FLAG, "false", "nodes of Cassandra are not spoken with"),
    unused("otc_backlog_expiration_interval_ms", INTEGER, "200", "messages that wait expire at their deadlines"),
    unused(
        "otc_coalescing_enough_coalesced_messages",
        INTEGER,
        "8",
        "messages are sent as soon as the socket takes them",
    ),
    unused("otc_coalescing_strategy", TEXT, "DISABLED", "messages are sent as soon as the socket takes them"),
    unused("otc_coalescing_window_us", INTEGER, "200", "messages are sent as soon as the socket takes them"),
    unused("back_pressure_enabled", FLAG, "false", "without effect in Cassandra 5.0 too"),
    unused("back_pressure_strategy", CLASS, "", "without effect in Cassandra 5.0 too"),
    unused("log_out_of_token_range_requests", FLAG, "true", "requests for tokens of other nodes are not logged"),
    unused("reject_out_of_token_range_requests", FLAG, "false", "requests for tokens of other nodes are not logged"),
    refused("default_keyspace_rf", INTEGER, "1", "a replication factor is always given in CQL"),
    unused("ideal_consistency_level", CONSISTENCY, "", "no metric tells which writes miss a level"),
    unused("force_optimized_index_status_format", FLAG, "false", "nodes do not gossip the state of indexes"),
    read(
        "storage_compatibility_mode",
        Kind::Choice(&["CASSANDRA_4", "UPGRADING", "NONE"]),
        "",
        "chooses the version of SSTables",
    )
    .applied("NONE"),
    read(
        "join_ring",
        FLAG,
        "true",
        "Cassandra's `-Dcassandra.join_ring`: false for a node that owns no ranges until `nodetool join`",
    )
    .own(),
    read(
        "replace_address_first_boot",
        TEXT,
        "",
        "Cassandra's `-Dcassandra.replace_address_first_boot`: the address of a dead node whose place a new one takes",
    )
    .own(),
    read("replace_address", TEXT, "", "the same; the node does not start with it once it has joined").own(),
    read(
        "ignore_dc",
        FLAG,
        "false",
        "Cassandra's `-Dcassandra.ignore_dc`: true for a node that starts in another data centre than before; no data is \
         moved, so repair it afterwards",
    )
    .own(),
    read("ignore_rack", FLAG, "false", "Cassandra's `-Dcassandra.ignore_rack`: the same for its rack").own(),
    read(
        "clock_skew_max",
        INT_MILLISECONDS,
        "10s",
        "a node whose clock differs by more from that of a seed does not join its cluster",
    )
    .own(),
    read(
        "physical_partition_size",
        LONG_BYTES,
        "10GiB",
        "a tablet that is larger is split, in keyspaces with tablets (docs/partitioning.md); 64KiB to 30GiB",
    )
    .own(),
    read(
        "replica_replacement_after",
        INT_MILLISECONDS,
        "10m",
        "how long a node is down before its replicas of keyspaces of ManagedStrategy are rebuilt on other nodes \
         (docs/partitioning.md); at least 30s",
    )
    .own(),
    read(
        "physical_partition_throughput",
        INTEGER,
        "10000",
        "a tablet that gets more request units a second is split, in keyspaces with tablets; 10 to 1000000000",
    )
    .own(),
    read(
        "auto_cleanup_enabled",
        FLAG,
        "false",
        "what the node has of ranges that it lost is removed as soon as an operation on the ring has ended, as by \
         `nodetool cleanup`; what it has of tablets always is",
    )
    .own(),
    read(
        "hot_partition_relief",
        FLAG,
        "true",
        "equal reads of a partition that is read much are joined into one, and its reads are spread over the replicas \
         (docs/partitioning.md)",
    )
    .own(),
    read(
        "hot_partition_reads_per_second",
        INTEGER,
        "1000",
        "reads a second of a partition, coordinated by one core and not answered by it alone, from which on they are \
         relieved; 1 to 1000000",
    )
    .own(),
    read("metrics_port", INTEGER, "7199", "HTTP for Prometheus and `/status`; 0: none").own(),
    read("guardrails_apply_to_anonymous", FLAG, "false", "guardrails hold clients although they are not authenticated")
        .own(),
];
