//! The commands that a node knows, with their options and descriptions: parsing and `help` are derived from them.

/// A command.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) options: &'static [Choice],
    pub(super) arguments: Option<Arguments>,
    /// Most arguments that it takes.
    pub(super) arguments_max: usize,
}

/// An option. The node is sent its first name.
pub(super) struct Choice {
    pub(super) names: &'static [&'static str],
    /// The name of its value in `help`, if it takes one.
    pub(super) value: Option<&'static str>,
    pub(super) about: &'static str,
}

/// What follows the options of a command.
pub(super) struct Arguments {
    pub(super) synopsis: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
}

/// Options of every command.
pub(super) const GLOBAL: &[Choice] = &[
    Choice { names: &["-h", "--host"], value: Some("host"), about: "Node hostname or ip address" },
    Choice { names: &["-p", "--port"], value: Some("port"), about: "Remote jmx agent port number" },
    Choice {
        names: &["-pp", "--print-port"],
        value: None,
        about: "Operate in 4.0 mode with hosts disambiguated by port number",
    },
    Choice { names: &["-pw", "--password"], value: Some("password"), about: "Remote jmx agent password" },
    Choice {
        names: &["-pwf", "--password-file"],
        value: Some("passwordFilePath"),
        about: "Path to the JMX password file",
    },
    Choice { names: &["-u", "--username"], value: Some("username"), about: "Remote jmx agent username" },
];

/// Older names of commands, which `help` does not list.
pub(super) const ALIASES: &[(&str, &str)] = &[("cfhistograms", "tablehistograms"), ("cfstats", "tablestats")];

/// All commands, by name.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "assassinate",
        about: "Forcefully remove a dead node without re-replicating any data. Use as a last resort if you cannot removenode",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<ip_address>",
            title: "<ip_address>",
            about: "IP address of the endpoint to assassinate",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "clearsnapshot",
        about: "Remove the snapshot with the given name from the given keyspaces",
        options: &[
            Choice { names: &["--all"], value: None, about: "Removes all snapshots" },
            Choice {
                names: &["--older-than"],
                value: Some("older_than"),
                about: "Clear snapshots older than specified time period.",
            },
            Choice {
                names: &["--older-than-timestamp"],
                value: Some("older_than_timestamp"),
                about: "Clear snapshots older than specified timestamp. It has to be a string in ISO format, for example '2022-12-03T10:15:30Z'",
            },
            Choice { names: &["-t"], value: Some("snapshot_name"), about: "Remove the snapshot with a given name" },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspaces>...]",
            title: "[<keyspaces>...]",
            about: "Remove snapshots from the given keyspaces",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "compact",
        about: "Force a (major) compaction on one or more tables or user-defined compaction on given SSTables",
        options: &[
            Choice {
                names: &["-et", "--end-token"],
                value: Some("end_token"),
                about: "Use -et to specify a token at which compaction range ends (inclusive)",
            },
            Choice {
                names: &["--partition"],
                value: Some("partition_key"),
                about: "String representation of the partition key",
            },
            Choice { names: &["-s", "--split-output"], value: None, about: "Use -s to not create a single big file" },
            Choice {
                names: &["-st", "--start-token"],
                value: Some("start_token"),
                about: "Use -st to specify a token at which the compaction range starts (inclusive)",
            },
            Choice {
                names: &["--user-defined"],
                value: None,
                about: "Use --user-defined to submit listed files for user-defined compaction",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...] or <SSTable file>...",
            title: "[<keyspace> <tables>...] or <SSTable file>...",
            about: "The keyspace followed by one or many tables or list of SSTable data files when using --user-defined",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "compactionhistory",
        about: "Print history of compaction",
        options: &[Choice { names: &["-F", "--format"], value: Some("format"), about: "Output format (json, yaml)" }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "compactionstats",
        about: "Print statistics on compactions",
        options: &[
            Choice {
                names: &["-H", "--human-readable"],
                value: None,
                about: "Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB",
            },
            Choice { names: &["-V", "--vtable"], value: None, about: "Display fields matching vtable output" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "decommission",
        about: "Decommission the *node I am connecting to*",
        options: &[Choice {
            names: &["-f", "--force"],
            value: None,
            about: "Force decommission of this node even when it reduces the number of replicas to below configured RF",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "describecluster",
        about: "Print the name, snitch, partitioner and schema version of a cluster",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "describering",
        about: "Shows the token ranges info of a given keyspace",
        options: &[],
        arguments: Some(Arguments { synopsis: "<keyspace>", title: "<keyspace>", about: "The keyspace name" }),
        arguments_max: 1,
    },
    Command {
        name: "disableautocompaction",
        about: "Disable autocompaction for the given keyspace and table",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...]",
            title: "[<keyspace> <tables>...]",
            about: "The keyspace followed by one or many tables",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "disablegossip",
        about: "Disable gossip (effectively marking the node down)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "disablehandoff",
        about: "Disable storing hinted handoffs",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "disablehintsfordc",
        about: "Disable hints for a data center",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<datacenter>",
            title: "<datacenter>",
            about: "The data center to disable",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "drain",
        about: "Drain the node (stop accepting writes and flush all tables)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enableautocompaction",
        about: "Enable autocompaction for the given keyspace and table",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...]",
            title: "[<keyspace> <tables>...]",
            about: "The keyspace followed by one or many tables",
        }),
        arguments_max: usize::MAX,
    },
    Command { name: "enablegossip", about: "Reenable gossip", options: &[], arguments: None, arguments_max: 0 },
    Command {
        name: "failuredetector",
        about: "Shows the failure detector information for the cluster",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enablehandoff",
        about: "Reenable future hints storing on the current node",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enablehintsfordc",
        about: "Enable hints for a data center that was previsouly disabled",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<datacenter>",
            title: "<datacenter>",
            about: "The data center to enable",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "flush",
        about: "Flush one or more tables",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...]",
            title: "[<keyspace> <tables>...]",
            about: "The keyspace followed by one or many tables",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "getcompactionthroughput",
        about: "Print the MiB/s throughput cap for compaction in the system as a rounded number",
        options: &[Choice {
            names: &["-d", "--precise-mib"],
            value: None,
            about: "Print the MiB/s throughput cap for compaction in the system as a precise number (double)",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "getendpoints",
        about: "Print the end points that owns the key",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <table> <key>",
            title: "<keyspace> <table> <key>",
            about: "The keyspace, the table, and the partition key for which we need to find the endpoint",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "getmaxhintwindow",
        about: "Print the max hint window in ms",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "getseeds",
        about: "Get the currently in use seed node IP list excluding the node IP",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "getsstables",
        about: "Print the sstable filenames that own the key",
        options: &[
            Choice {
                names: &["-hf", "--hex-format"],
                value: None,
                about: "Specify the key in hexadecimal string format",
            },
            Choice {
                names: &["-l", "--show-levels"],
                value: None,
                about: "If the table is using leveled compaction the level of each sstable will be included in the output (Default: false)",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <cfname> <key>",
            title: "<keyspace> <cfname> <key>",
            about: "The keyspace, the column family, and the key",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "gossipinfo",
        about: "Shows the gossip information for the cluster",
        options: &[Choice {
            names: &["-r", "--resolve-ip"],
            value: None,
            about: "Show node domain names instead of IPs",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "import",
        about: "Import new SSTables to the system",
        options: &[
            Choice {
                names: &["-c", "--no-invalidate-caches"],
                value: None,
                about: "Don't invalidate the row cache when importing",
            },
            Choice {
                names: &["-cd", "--copy-data"],
                value: None,
                about: "Copy data from source directories instead of moving them",
            },
            Choice {
                names: &["-e", "--extended-verify"],
                value: None,
                about: "Run an extended verify, verifying all values in the new sstables",
            },
            Choice { names: &["-l", "--keep-level"], value: None, about: "Keep the level on the new sstables" },
            Choice {
                names: &["-niv", "--no-index-validation"],
                value: None,
                about: "Skip SSTable-attached index checksum validation",
            },
            Choice {
                names: &["-q", "--quick"],
                value: None,
                about: "Do a quick import without verifying sstables, clearing row cache or checking in which data directory to put the file",
            },
            Choice {
                names: &["-r", "--keep-repaired"],
                value: None,
                about: "Keep any repaired information from the sstables",
            },
            Choice {
                names: &["-ri", "--require-index-components"],
                value: None,
                about: "Require existing index components for SSTables with attached indexes",
            },
            Choice {
                names: &["-t", "--no-tokens"],
                value: None,
                about: "Don't verify that all tokens in the new sstable are owned by the current node",
            },
            Choice { names: &["-v", "--no-verify"], value: None, about: "Don't verify new sstables" },
        ],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <table> <directory> ...",
            title: "<keyspace> <table> <directory> ...",
            about: "The keyspace, table name and directories to import sstables from",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "info",
        about: "Print node information (uptime, load, ...)",
        options: &[
            Choice {
                names: &["-O", "--out-of-range-ops"],
                value: None,
                about: "Display per-keyspace counts of operations for invalid tokens",
            },
            Choice { names: &["-T", "--tokens"], value: None, about: "Display all tokens" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command { name: "join", about: "Join the ring", options: &[], arguments: None, arguments_max: 0 },
    Command {
        name: "listsnapshots",
        about: "Lists all the snapshots along with the size on disk and true size. True size is the total size of all SSTables which are not backed up to disk. Size on disk is total size of the snapshot on disk. Total TrueDiskSpaceUsed does not make any SSTable deduplication.",
        options: &[
            Choice { names: &["-e", "--ephemeral"], value: None, about: "Include ephememeral snapshots" },
            Choice { names: &["-nt", "--no-ttl"], value: None, about: "Skip snapshots with TTL" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "listpendinghints",
        about: "Print all pending hints that this node has",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "netstats",
        about: "Print network information on provided host (connecting node by default)",
        options: &[Choice {
            names: &["-H", "--human-readable"],
            value: None,
            about: "Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "pausehandoff",
        about: "Pause hints delivery process",
        options: &[],
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
        name: "recoveragreement",
        about: "Give the agreement of the cluster new voters when a majority of the old ones is lost for good",
        options: &[Choice {
            names: &["-f", "--force"],
            value: None,
            about: "A majority of the voters is lost for good and never starts again",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "refresh",
        about: "Load newly placed SSTables to the system without restart",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <table>",
            title: "<keyspace> <table>",
            about: "The keyspace and table name",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "refreshsizeestimates",
        about: "Refresh system.size_estimates",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "reloadseeds",
        about: "Reload the seed node list from the seed node provider",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "removenode",
        about: "Show status of current node removal, force completion of pending removal or remove provided ID",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<status>|<force>|<ID>",
            title: "<status>|<force>|<ID>",
            about: "Show status of current node removal, force completion of pending removal, or remove provided ID",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "resumehandoff",
        about: "Resume hints delivery process",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "ring",
        about: "Print information about the token ring",
        options: &[Choice {
            names: &["-r", "--resolve-ip"],
            value: None,
            about: "Show node domain names instead of IPs",
        }],
        arguments: Some(Arguments {
            synopsis: "[<keyspace>]",
            title: "<keyspace>",
            about: "Specify a keyspace for accurate ownership information (topology awareness)",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "setcompactionthroughput",
        about: "Set the MiB/s throughput cap for compaction in the system, or 0 to disable throttling",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<value_in_mb>",
            title: "<value_in_mb>",
            about: "Value in MiB, 0 to disable throttling",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "sethintedhandoffthrottlekb",
        about: "Set hinted handoff throttle in KiB per second, per delivery thread.",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<value_in_kb_per_sec>",
            title: "<value_in_kb_per_sec>",
            about: "Value in KiB per second",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "setmaxhintwindow",
        about: "Set the specified max hint window in ms",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<value_in_ms>",
            title: "<value_in_ms>",
            about: "Value of maxhintwindow in ms",
        }),
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
        name: "snapshot",
        about: "Take a snapshot of specified keyspaces or a snapshot of the specified table",
        options: &[
            Choice {
                names: &["-cf", "--column-family", "--table"],
                value: Some("table"),
                about: "The table name (you must specify one and only one keyspace for using this option)",
            },
            Choice {
                names: &["-kt", "--kt-list", "-kc", "--kc.list"],
                value: Some("ktlist"),
                about: "The list of Keyspace.table to take snapshot.(you must not specify only keyspace)",
            },
            Choice {
                names: &["-sf", "--skip-flush"],
                value: None,
                about: "Do not flush memtables before snapshotting (snapshot will not contain unflushed data)",
            },
            Choice { names: &["-t", "--tag"], value: Some("tag"), about: "The name of the snapshot" },
            Choice { names: &["--ttl"], value: Some("ttl"), about: "Specify a TTL of created snapshot" },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspaces...>]",
            title: "[<keyspaces...>]",
            about: "List of keyspaces. By default, all keyspaces",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "status",
        about: "Print cluster information (state, load, IDs, ...)",
        options: &[Choice {
            names: &["-r", "--resolve-ip"],
            value: None,
            about: "Show node domain names instead of IPs",
        }],
        arguments: Some(Arguments { synopsis: "[<keyspace>]", title: "[<keyspace>]", about: "The keyspace name" }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "statusbinary",
        about: "Status of native transport (binary protocol)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command { name: "statusgossip", about: "Status of gossip", options: &[], arguments: None, arguments_max: 0 },
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
        name: "statushandoff",
        about: "Status of storing future hints on the current node",
        options: &[],
        arguments: None,
        arguments_max: 0,
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
        name: "tpstats",
        about: "Print usage statistics of thread pools",
        options: &[Choice { names: &["-F", "--format"], value: Some("format"), about: "Output format (json, yaml)" }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "truncatehints",
        about: "Truncate all hints on the local node, or truncate hints for the endpoint(s) specified.",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[endpoint ... ]",
            title: "[endpoint ... ]",
            about: "Endpoint address(es) to delete hints for, either ip address (\"127.0.0.1\") or hostname",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "upgradesstables",
        about: "Rewrite sstables (for the requested tables) that are not on the current version (thus upgrading them to said current version)",
        options: &[
            Choice {
                names: &["-a", "--include-all-sstables"],
                value: None,
                about: "Use -a to include all sstables, even those already on the current version",
            },
            Choice {
                names: &["-j", "--jobs"],
                value: Some("jobs"),
                about: "Number of sstables to upgrade simultanously, set to 0 to use all available compaction threads",
            },
            Choice {
                names: &["-t", "--max-timestamp"],
                value: Some("max_timestamp"),
                about: "Use -t to compact only SSTables that have local creation time _older_ than the given timestamp",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...]",
            title: "[<keyspace> <tables>...]",
            about: "The keyspace followed by one or many tables",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "verify",
        about: "Verify (check data checksum for) one or more tables",
        options: &[
            Choice {
                names: &["-c", "--check-version"],
                value: None,
                about: "Also check that all sstables are the latest version",
            },
            Choice {
                names: &["-d", "--dfp"],
                value: None,
                about: "Invoke the disk failure policy if a corrupt sstable is found",
            },
            Choice {
                names: &["-e", "--extended-verify"],
                value: None,
                about: "Verify each cell data, beyond simply checking sstable checksums",
            },
            Choice {
                names: &["-f", "--force"],
                value: None,
                about: "Override disabling of verify tool - see CASSANDRA-9947 for caveats",
            },
            Choice {
                names: &["-q", "--quick"],
                value: None,
                about: "Do a quick check - avoid reading all data to verify checksums",
            },
            Choice { names: &["-r", "--rsc"], value: None, about: "Mutate the repair status on corrupt sstables" },
            Choice {
                names: &["-t", "--check-tokens"],
                value: None,
                about: "Verify that all tokens in sstables are owned by this node",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> <tables>...]",
            title: "[<keyspace> <tables>...]",
            about: "The keyspace followed by one or many tables",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "version",
        about: "Print cassandra version",
        options: &[Choice { names: &["-v", "--verbose"], value: None, about: "Include additional information" }],
        arguments: None,
        arguments_max: 0,
    },
];
