//! Commands about the cluster: its members, the ring, gossip, agreement.

use super::{Arguments, Choice, Command};

/// Of commands that are about one node, another one or this.
const OF_A_NODE: &[Choice] = &[
    Choice { names: &["--node"], value: Some("node"), about: "Node ID" },
    Choice { names: &["--ip"], value: Some("ip"), about: "IP address" },
];

/// Of commands about the tablet of a table that has a token.
const TOKEN_OF_TABLE: Arguments = Arguments {
    synopsis: "<keyspace> <table> <token>",
    title: "<keyspace> <table> <token>",
    about: "The keyspace, the table and the token",
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "abortbootstrap",
        about: "Abort a failed bootstrap",
        options: OF_A_NODE,
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "abortdecommission",
        about: "Abort an in-progress decommission",
        options: OF_A_NODE,
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "abortmove",
        about: "Abort an in-progress move",
        options: OF_A_NODE,
        arguments: None,
        arguments_max: 0,
    },
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
        name: "tablets",
        about: "Print the tablets of tables that are cut into them, with their replicas",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "[<keyspace> [<table>]]",
            title: "[<keyspace> [<table>]]",
            about: "The keyspace, and a table of it",
        }),
        arguments_max: 2,
    },
    Command {
        name: "splittablet",
        about: "Cut the tablet that has a token in two, of which the first ends with the token",
        options: &[],
        arguments: Some(TOKEN_OF_TABLE),
        arguments_max: 3,
    },
    Command {
        name: "mergetablets",
        about: "Make one of the tablet that has a token and the one after it",
        options: &[],
        arguments: Some(TOKEN_OF_TABLE),
        arguments_max: 3,
    },
    Command {
        name: "movetablet",
        about: "Begin to move the tablet that has a token from one node to another",
        options: &[],
        arguments: Some(Arguments {
            synopsis: "<keyspace> <table> <token> <from> <to>",
            title: "<keyspace> <table> <token> <from> <to>",
            about: "The keyspace, the table, the token, and the addresses of the two nodes",
        }),
        arguments_max: 5,
    },
    Command {
        name: "emptynode",
        about: "Print how many tablets the *node I am connecting to* has; move all of them to other nodes",
        options: &[
            Choice {
                names: &["--begin"],
                value: None,
                about: "The node is to have no tablets from now on, for as long as it is maintained",
            },
            Choice { names: &["--end"], value: None, about: "The node may have tablets again" },
            Choice { names: &["--wait"], value: None, about: "Waits until those that others can take have gone" },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "describering",
        about: "Shows the token ranges info of a given keyspace",
        options: &[],
        arguments: Some(Arguments { synopsis: "<keyspace>", title: "<keyspace>", about: "The keyspace name" }),
        arguments_max: 2,
    },
    Command {
        name: "disablegossip",
        about: "Disable gossip (effectively marking the node down)",
        options: &[],
        arguments: None,
        arguments_max: 0,
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
        name: "getseeds",
        about: "Get the currently in use seed node IP list excluding the node IP",
        options: &[],
        arguments: None,
        arguments_max: 0,
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
        name: "bootstrap",
        about: "Monitor/manage node's bootstrap process",
        options: &[Choice { names: &["-f", "--force"], value: None, about: "" }],
        arguments: Some(Arguments { synopsis: "resume", title: "resume", about: "Resume bootstrap streaming" }),
        arguments_max: 1,
    },
    Command { name: "join", about: "Join the ring", options: &[], arguments: None, arguments_max: 0 },
    Command {
        name: "move",
        about: "Move node on the token ring to a new token",
        options: &[],
        arguments: Some(Arguments { synopsis: "<new token>", title: "<new token>", about: "The new token." }),
        arguments_max: usize::MAX,
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
        name: "rebuild",
        about: "Rebuild data by streaming from other nodes (similarly to bootstrap)",
        options: &[
            Choice {
                names: &["-ks", "--keyspace"],
                value: Some("specific_keyspace"),
                about: "Use -ks to rebuild specific keyspace.",
            },
            Choice {
                names: &["-s", "--sources"],
                value: Some("specific_sources"),
                about: "Use -s to specify hosts that this node should stream from when -ts is used. Multiple hosts should be separated using commas (e.g. 127.0.0.1,127.0.0.2,...)",
            },
            Choice {
                names: &["-ts", "--tokens"],
                value: Some("specific_tokens"),
                about: "Use -ts to rebuild specific token ranges, in the format of \"(start_token_1,end_token_1],(start_token_2,end_token_2],...(start_token_n,end_token_n]\".",
            },
            Choice {
                names: &["--exclude-local-dc"],
                value: None,
                about: "Use --exclude-local-dc to exclude nodes in local data center as source for streaming.",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "<src-dc-name>",
            title: "<src-dc-name>",
            about: "Name of DC from which to select sources for streaming. By default, pick any DC (except local DC when --exclude-local-dc is set)",
        }),
        arguments_max: 1,
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
    Command { name: "statusgossip", about: "Status of gossip", options: &[], arguments: None, arguments_max: 0 },
];
