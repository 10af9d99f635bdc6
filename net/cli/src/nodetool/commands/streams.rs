//! Commands about streaming.

use super::{Arguments, Choice, Command};

const VALUE: Arguments = Arguments {
    synopsis: "<value_in_mb>",
    title: "<value_in_mb>",
    about: "Value in megabits, 0 to disable throttling",
};

const SETTERS: &[Choice] = &[
    Choice {
        names: &["-e", "--entire-sstable-throughput"],
        value: None,
        about: "Set entire SSTable streaming throughput in MiB/s",
    },
    Choice { names: &["-m", "--mib"], value: None, about: "Set streaming throughput in MiB/s" },
];

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "getinterdcstreamthroughput",
        about: "Print the throughput cap for inter-datacenter streaming and entire SSTable inter-datacenter streaming in the systemin rounded megabits. For precise number, please, use option -d",
        options: &[
            Choice {
                names: &["-d", "--precise-mbit"],
                value: None,
                about: "Print the throughput cap for inter-datacenter streaming in precise Mbits (double)",
            },
            Choice {
                names: &["-e", "--entire-sstable-throughput"],
                value: None,
                about: "Print entire SSTable streaming throughput in MiB/s",
            },
            Choice {
                names: &["-m", "--mib"],
                value: None,
                about: "Print the throughput cap for inter-datacenter streaming in MiB/s",
            },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "getstreamthroughput",
        about: "Print the throughput cap for streaming and entire SSTable streaming in the system in rounded megabits. For precise number, please, use option -d",
        options: &[
            Choice {
                names: &["-d", "--precise-mbit"],
                value: None,
                about: "Print the throughput cap for streaming in precise Mbits (double)",
            },
            Choice {
                names: &["-e", "--entire-sstable-throughput"],
                value: None,
                about: "Print entire SSTable streaming throughput in MiB/s",
            },
            Choice { names: &["-m", "--mib"], value: None, about: "Print the throughput cap for streaming in MiB/s" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "setinterdcstreamthroughput",
        about: "Set the throughput cap for inter-datacenter streaming and entire SSTable inter-datacenter streaming in the system, or 0 to disable throttling",
        options: SETTERS,
        arguments: Some(VALUE),
        arguments_max: usize::MAX,
    },
    Command {
        name: "setstreamthroughput",
        about: "Set throughput cap for streaming and entire SSTable streaming in the system, or 0 to disable throttling",
        options: SETTERS,
        arguments: Some(VALUE),
        arguments_max: usize::MAX,
    },
];
