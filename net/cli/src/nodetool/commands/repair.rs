//! Commands about repairs.

use super::{Choice, Command, KEYSPACE_AND_TABLES};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "repair",
        about: "Repair one or more tables",
        options: &[
            Choice {
                names: &["-dc", "--in-dc"],
                value: Some("specific_dc"),
                about: "Use -dc to repair specific datacenters",
            },
            Choice {
                names: &["-dcpar", "--dc-parallel"],
                value: None,
                about: "Use -dcpar to repair data centers in parallel.",
            },
            Choice {
                names: &["-et", "--end-token"],
                value: Some("end_token"),
                about: "Use -et to specify a token at which repair range ends (inclusive)",
            },
            Choice { names: &["-force", "--force"], value: None, about: "Use -force to filter out down endpoints" },
            Choice { names: &["-full", "--full"], value: None, about: "Use -full to issue a full repair." },
            Choice {
                names: &["-hosts", "--in-hosts"],
                value: Some("specific_host"),
                about: "Use -hosts to repair specific hosts",
            },
            Choice {
                names: &["-iuk", "--ignore-unreplicated-keyspaces"],
                value: None,
                about: "Use --ignore-unreplicated-keyspaces to ignore keyspaces which are not replicated, otherwise the \
                    repair will fail",
            },
            Choice {
                names: &["-j", "--job-threads"],
                value: Some("job_threads"),
                about: "Number of threads to run repair jobs. Usually this means number of CFs to repair concurrently. \
                    WARNING: increasing this puts more load on repairing nodes, so be careful. (default: 1, max: 4)",
            },
            Choice {
                names: &["-local", "--in-local-dc"],
                value: None,
                about: "Use -local to only repair against nodes in the same datacenter",
            },
            Choice {
                names: &["-os", "--optimise-streams"],
                value: None,
                about: "Use --optimise-streams to try to reduce the number of streams we do (EXPERIMENTAL, see \
                    CASSANDRA-3200).",
            },
            Choice {
                names: &["-paxos-only", "--paxos-only"],
                value: None,
                about: "If the --paxos-only flag is included, no table data is repaired, only paxos operations..",
            },
            Choice {
                names: &["-pl", "--pull"],
                value: None,
                about: "Use --pull to perform a one way repair where data is only streamed from a remote node to this \
                    node.",
            },
            Choice {
                names: &["-pr", "--partitioner-range"],
                value: None,
                about: "Use -pr to repair only the first range returned by the partitioner",
            },
            Choice {
                names: &["-prv", "--preview"],
                value: None,
                about: "Determine ranges and amount of data to be streamed, but don't actually perform repair",
            },
            Choice {
                names: &["-seq", "--sequential"],
                value: None,
                about: "Use -seq to carry out a sequential repair",
            },
            Choice {
                names: &["-skip-paxos", "--skip-paxos"],
                value: None,
                about: "If the --skip-paxos flag is included, the paxos repair step is skipped. Paxos repair is also \
                    skipped for preview repairs.",
            },
            Choice {
                names: &["-st", "--start-token"],
                value: Some("start_token"),
                about: "Use -st to specify a token at which the repair range starts (exclusive)",
            },
            Choice {
                names: &["-tr", "--trace"],
                value: None,
                about: "Use -tr to trace the repair. Traces are logged to system_traces.events.",
            },
            Choice {
                names: &["-vd", "--validate"],
                value: None,
                about: "Checks that repaired data is in sync between nodes. Out of sync repaired data indicates a full \
                    repair should be run.",
            },
        ],
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
    },
    Command {
        name: "repair_admin",
        about: "list and fail incremental repair sessions",
        options: &[
            Choice { names: &["-a", "--all"], value: None, about: "" },
            Choice { names: &["-f", "--force"], value: None, about: "" },
            Choice { names: &["-s", "--session"], value: Some("session"), about: "" },
            Choice { names: &["-st", "--start-token"], value: Some("start_token"), about: "" },
            Choice { names: &["-et", "--end-token"], value: Some("end_token"), about: "" },
            Choice { names: &["-v", "--verbose"], value: None, about: "" },
        ],
        arguments: Some(KEYSPACE_AND_TABLES),
        arguments_max: usize::MAX,
    },
];
