//! Commands about hints for nodes that miss writes.

use super::{Arguments, Command};

pub(super) const COMMANDS: &[Command] = &[
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
        name: "getmaxhintwindow",
        about: "Print the max hint window in ms",
        options: &[],
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
        name: "pausehandoff",
        about: "Pause hints delivery process",
        options: &[],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "resumehandoff",
        about: "Resume hints delivery process",
        options: &[],
        arguments: None,
        arguments_max: 0,
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
        name: "statushandoff",
        about: "Status of storing future hints on the current node",
        options: &[],
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
];
