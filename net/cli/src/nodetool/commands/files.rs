//! Commands about a table's files and snapshots.

use super::{Arguments, Choice, Command, KEYSPACE_AND_TABLES};

pub(super) const COMMANDS: &[Command] = &[
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
        name: "flush",
        about: "Flush one or more tables",
        options: &[],
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
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
        name: "restore",
        about: "Restores tables from a snapshot of a cluster, of this size or another one",
        options: &[
            Choice {
                names: &["-k", "--keyspaces"],
                value: Some("keyspaces"),
                about: "The keyspaces to restore, separated by commas. By default, all but those of the system",
            },
            Choice { names: &["-t", "--tag"], value: Some("tag"), about: "The name of the snapshot" },
        ],
        arguments: Some(Arguments {
            synopsis: "<directory> ...",
            title: "<directory> ...",
            about: "The data directories of the nodes that had taken the snapshot, or copies of them, as this node \
                    can read them",
        }),
        arguments_max: usize::MAX,
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
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
    },
];
