//! Commands about the audit log and the log of full queries.

use super::{Choice, Command};

const BLOCKING: Choice = Choice {
    names: &["--blocking"],
    value: Some("blocking"),
    about: "If the queue is full whether to block producers or drop samples [true|false].",
};
const ARCHIVE_RETRIES: Choice = Choice {
    names: &["--max-archive-retries"],
    value: Some("archive_retries"),
    about: "Max number of archive retries.",
};
const LOG_SIZE: Choice = Choice {
    names: &["--max-log-size"],
    value: Some("max_log_size"),
    about: "How many bytes of log data to store before dropping segments. Might not be respected if a log file hasn't rolled so it can be deleted.",
};
const QUEUE_WEIGHT: Choice = Choice {
    names: &["--max-queue-weight"],
    value: Some("max_queue_weight"),
    about: "Maximum number of bytes of query data to queue to disk before blocking or dropping samples.",
};
const ROLL_CYCLE: Choice = Choice {
    names: &["--roll-cycle"],
    value: Some("roll_cycle"),
    about: "How often to roll the log file (MINUTELY, HOURLY, DAILY).",
};

pub(super) const COMMANDS: &[Command] = &[
    plain("disableauditlog", "Disable the audit log"),
    plain("disablefullquerylog", "Disable the full query log"),
    Command {
        name: "enableauditlog",
        about: "Enable the audit log",
        options: &[
            Choice {
                names: &["--archive-command"],
                value: Some("archive_command"),
                about: "Command that will handle archiving rolled audit log files. Format is \"/path/to/script.sh %path\" where %path will be replaced with the file to archive Enable this by setting the audit_logging_options.allow_nodetool_archive_command: true in the config.",
            },
            BLOCKING,
            Choice {
                names: &["--excluded-categories"],
                value: Some("excluded_categories"),
                about: "Comma separated list of Audit Log Categories to be excluded for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--excluded-keyspaces"],
                value: Some("excluded_keyspaces"),
                about: "Comma separated list of keyspaces to be excluded for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--excluded-users"],
                value: Some("excluded_users"),
                about: "Comma separated list of users to be excluded for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--included-categories"],
                value: Some("included_categories"),
                about: "Comma separated list of Audit Log Categories to be included for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--included-keyspaces"],
                value: Some("included_keyspaces"),
                about: "Comma separated list of keyspaces to be included for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--included-users"],
                value: Some("included_users"),
                about: "Comma separated list of users to be included for audit log. If not set the value from cassandra.yaml will be used",
            },
            Choice {
                names: &["--logger"],
                value: Some("logger"),
                about: "Logger name to be used for AuditLogging. Default BinAuditLogger. If not set the value from cassandra.yaml will be used",
            },
            ARCHIVE_RETRIES,
            LOG_SIZE,
            QUEUE_WEIGHT,
            ROLL_CYCLE,
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enablefullquerylog",
        about: "Enable full query logging, defaults for the options are configured in cassandra.yaml",
        options: &[
            Choice {
                names: &["--archive-command"],
                value: Some("archive_command"),
                about: "Command that will handle archiving rolled full query log files. Format is \"/path/to/script.sh %path\" where %path will be replaced with the file to archive Enable this by setting the full_query_logging_options.allow_nodetool_archive_command: true in the config.",
            },
            BLOCKING,
            ARCHIVE_RETRIES,
            LOG_SIZE,
            QUEUE_WEIGHT,
            Choice {
                names: &["--path"],
                value: Some("path"),
                about: "Path to store the full query log at. Will have it's contents recursively deleted.",
            },
            ROLL_CYCLE,
        ],
        arguments: None,
        arguments_max: 0,
    },
    plain(
        "getauditlog",
        "Print configuration of audit log if enabled, otherwise the configuration reflected in cassandra.yaml",
    ),
    plain(
        "getfullquerylog",
        "Print configuration of fql if enabled, otherwise the configuration reflected in cassandra.yaml",
    ),
    plain(
        "resetfullquerylog",
        "Stop the full query log and clean files in the configured full query log directory from cassandra.yaml as well as JMX",
    ),
];

const fn plain(name: &'static str, about: &'static str) -> Command {
    Command { name, about, options: &[], arguments: None, arguments_max: 0 }
}
