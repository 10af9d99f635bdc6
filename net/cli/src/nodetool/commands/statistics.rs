//! Commands that print what requests cost and what waits.

use super::{Arguments, Choice, Command};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "clientstats",
        about: "Print information about connected clients",
        options: &[
            Choice { names: &["--all"], value: None, about: "Lists all connections" },
            Choice {
                names: &["--by-protocol"],
                value: None,
                about: "Lists most recent client connections by protocol version",
            },
            Choice { names: &["--clear-history"], value: None, about: "Clear the history of connected clients" },
            Choice { names: &["--client-options"], value: None, about: "Lists all connections and the client options" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "proxyhistograms",
        about: "Print statistic histograms for network operations",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "profileload",
        about: "Low footprint profiling of activity for a period of time",
        options: SAMPLING,
        arguments: Some(SAMPLED),
        arguments_max: usize::MAX,
    },
    Command {
        name: "shardstats",
        about: "Print what each shard is busy with, what waits there and how long operations take",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<shard>]",
            title: "[<shard>]",
            about: "The number of one shard; without it all are shown",
        }),
        arguments_max: 1,
    },
    Command {
        name: "tablehistograms",
        about: "Print statistic histograms for a given table",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <table> | <keyspace.table>]",
            title: "[<keyspace> <table> | <keyspace.table>]",
            about: "The keyspace and table name",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "tablestats",
        about: "Print statistics on tables",
        options: &[
            Choice { names: &["-F", "--format"], value: Some("format"), about: "Output format (json, yaml)" },
            Choice {
                names: &["-H", "--human-readable"],
                value: None,
                about: "Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB",
            },
            Choice { names: &["-i"], value: None, about: "Ignore the list of tables and display the remaining tables" },
            Choice {
                names: &["-l", "--sstable-location-check"],
                value: None,
                about: "Check whether or not the SSTables are in the correct location.",
            },
            Choice {
                names: &["-s", "--sort"],
                value: Some("sort_key"),
                about: "Sort tables by specified sort key (average_live_cells_per_slice_last_five_minutes, average_tombstones_per_slice_last_five_minutes, bloom_filter_false_positives, bloom_filter_false_ratio, bloom_filter_off_heap_memory_used, bloom_filter_space_used, compacted_partition_maximum_bytes, compacted_partition_mean_bytes, compacted_partition_minimum_bytes, compression_metadata_off_heap_memory_used, full_name, index_summary_off_heap_memory_used, local_read_count, local_read_latency_ms, local_write_latency_ms, maximum_live_cells_per_slice_last_five_minutes, maximum_tombstones_per_slice_last_five_minutes, memtable_cell_count, memtable_data_size, memtable_off_heap_memory_used, memtable_switch_count, number_of_partitions_estimate, off_heap_memory_used_total, pending_flushes, percent_repaired, read_latency, reads, space_used_by_snapshots_total, space_used_live, space_used_total, sstable_compression_ratio, sstable_count, table_name, write_latency, writes, max_sstable_size, local_read_write_ratio, twcs_max_duration, sai_local_query_latency_ms,sai_post_filtering_read_latency, sai_disk_used_bytes, sai_sstable_indexes_hit, sai_index_segments_hit sai_rows_filtered, sai_total_query_timeouts, sai_total_queryable_index_ratio)",
            },
            Choice {
                names: &["-t", "--top"],
                value: Some("top"),
                about: "Show only the top K tables for the sort key (specify the number K of tables to be shown",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspace.table>...]",
            title: "[<keyspace.table>...]",
            about: "List of tables (or keyspace) names",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "toppartitions",
        about: "Sample and print the most active partitions",
        options: SAMPLING,
        arguments: Some(SAMPLED),
        arguments_max: usize::MAX,
    },
    Command {
        name: "tpstats",
        about: "Print usage statistics of thread pools",
        options: &[Choice { names: &["-F", "--format"], value: Some("format"), about: "Output format (json, yaml)" }],
        arguments: None,
        arguments_max: 0,
    },
];

/// What `profileload` and `toppartitions` sample, and for how long.
const SAMPLED: Arguments = Arguments {
    synopsis: "<keyspace> <cfname> <duration>",
    title: "<keyspace> <cfname> <duration>",
    about: "The keyspace, column family name, and duration in milliseconds (Default: 10000)",
};

/// The options of `profileload` and `toppartitions`. The node refuses those about sampling in the background.
const SAMPLING: &[Choice] = &[
    Choice { names: &["-a"], value: Some("samplers"), about: "Comma separated list of samplers to use (Default: all)" },
    Choice {
        names: &["-i", "--interval"],
        value: Some("intervalMillis"),
        about: "Schedule a new job that samples every interval milliseconds (Default: disabled) in the background",
    },
    Choice { names: &["-k"], value: Some("topCount"), about: "Number of the top samples to list (Default: 10)" },
    Choice { names: &["-l", "--list"], value: None, about: "List the scheduled sampling jobs" },
    Choice {
        names: &["-s"],
        value: Some("capacity"),
        about: "Capacity of the sampler, higher for more accuracy (Default: 256)",
    },
    Choice {
        names: &["-t", "--stop"],
        value: None,
        about: "Stop the scheduled sampling job identified by <keyspace> and <cfname>. Jobs are stopped until the last schedules complete.",
    },
];
