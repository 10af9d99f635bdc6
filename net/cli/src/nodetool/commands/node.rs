//! Commands about the node as a whole.

use super::{Arguments, Choice, Command};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "disablebinary",
        about: "Disable native transport (binary protocol)",
        options: &[Choice {
            names: &["-f", "--force"],
            value: None,
            about: "Use -f to interrupt client requests that have already started",
        }],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "disableoldprotocolversions",
        about: "Disable old protocol versions",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "drain",
        about: "Drain the node (stop accepting writes and flush all tables)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enablebinary",
        about: "Reenable native transport (binary protocol)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "enableoldprotocolversions",
        about: "Enable old protocol versions",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "gettimeout",
        about: "Print the timeout of the given type in ms",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<timeout_type>",
            title: "<timeout_type>",
            about: "The timeout type, one of (read, range, write, counterwrite, cascontention, truncate, \
                internodeconnect, internodeuser, internodestreaminguser, misc (general rpc_timeout_in_ms))",
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
    Command {
        name: "refreshsizeestimates",
        about: "Refresh system.size_estimates",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "reloadssl",
        about: "Signals Cassandra to reload SSL certificates",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "settimeout",
        about: "Set the specified timeout in ms, or 0 to disable timeout",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<timeout_type> <timeout_in_ms>",
            title: "<timeout_type> <timeout_in_ms>",
            about: "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one \
                of (read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
                internodestreaminguser, misc (general rpc_timeout_in_ms))",
        }),
        arguments_max: usize::MAX,
    },
    Command {
        name: "statusbinary",
        about: "Status of native transport (binary protocol)",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "version",
        about: "Print cassandra version",
        options: &[Choice { names: &["-v", "--verbose"], value: None, about: "Include additional information" }],
        arguments: None,
        arguments_max: 0,
    },
];
