//! The commands that a node knows, with their options and descriptions: parsing and `help` are derived from them. One
//! file per group.

mod cluster;
mod compaction;
mod files;
mod hints;
mod node;
mod query_logs;
mod repair;
mod roles;
mod statistics;
mod streams;

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

/// Options that may be given more than once, by their first names.
pub(super) const REPEATED: &[&str] = &["-dc", "-hosts"];

/// Options that Cassandra's commands do not have, by the commands' names.
const OWN_OPTIONS: &[(&str, Choice)] = &[
    (
        "clearsnapshot",
        Choice { names: &["--cluster"], value: None, about: "Removes the snapshot with the given name on all nodes" },
    ),
    (
        "snapshot",
        Choice {
            names: &["--cluster"],
            value: None,
            about: "Takes the snapshot on all nodes of the cluster, with the same schema and the same ring, and keeps \
                    beside it what the cluster was like, for `helenus restore`",
        },
    ),
];

/// The options of a command that Cassandra's does not have.
pub(super) fn own_options(command: &str) -> impl Iterator<Item = &'static Choice> {
    OWN_OPTIONS.iter().filter(move |(name, _)| *name == command).map(|(_, choice)| choice)
}

/// Of commands about some tables of a keyspace.
const KEYSPACE_AND_TABLES: Arguments = Arguments {
    synopsis: "[<keyspace> <tables>...]",
    title: "[<keyspace> <tables>...]",
    about: "The keyspace followed by one or many tables",
};

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

/// Returns all commands, group by group.
pub(super) fn all() -> impl Iterator<Item = &'static Command> {
    [
        cluster::COMMANDS,
        compaction::COMMANDS,
        files::COMMANDS,
        hints::COMMANDS,
        node::COMMANDS,
        query_logs::COMMANDS,
        repair::COMMANDS,
        roles::COMMANDS,
        statistics::COMMANDS,
        streams::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the command of that name; older names are not known here.
pub(super) fn named(name: &str) -> Option<&'static Command> {
    all().find(|command| command.name == name)
}
