//! Commands about compaction.

use super::{Arguments, Choice, Command, KEYSPACE_AND_TABLES};

pub(super) const COMMANDS: &[Command] = &[
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
        name: "disableautocompaction",
        about: "Disable autocompaction for the given keyspace and table",
        options: &[],
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
    },
    Command {
        name: "enableautocompaction",
        about: "Enable autocompaction for the given keyspace and table",
        options: &[],
        arguments: Some(KEYSPACE_AND_TABLES),
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
        name: "relocatesstables",
        about: "Relocates sstables to the correct disk",
        options: &[Choice {
            names: &["-j", "--jobs"],
            value: Some("jobs"),
            about: "Number of sstables to relocate simultanously, set to 0 to use all available compaction threads",
        }],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <table>",
            title: "<keyspace> <table>",
            about: "The keyspace and table name",
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
        name: "cleanup",
        about: "Triggers the immediate cleanup of keys no longer belonging to a node. By default, clean all keyspaces",
        options: &[Choice {
            names: &["-j", "--jobs"],
            value: Some("jobs"),
            about: "Number of sstables to cleanup simultanously, set to 0 to use all available compaction threads",
        }],
        arguments: Some(KEYSPACE_AND_TABLES),
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
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
    },
];
