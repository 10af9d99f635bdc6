//! Commands about roles.

use super::{Arguments, Choice, Command};

const fn invalidate(name: &'static str, about: &'static str) -> Command {
    let about_roles = "List of roles to invalidate. By default, all roles";
    let arguments = Arguments { synopsis: "[<role>...]", title: "[<role>...]", about: about_roles };
    Command { name, about, options: &[], arguments: Some(arguments), arguments_max: usize::MAX }
}

const fn flag(names: &'static [&'static str], about: &'static str) -> Choice {
    Choice { names, value: None, about }
}

const fn plain(name: &'static str, about: &'static str) -> Command {
    Command { name, about, options: &[], arguments: None, arguments_max: 0 }
}

const fn of_one(name: &'static str, about: &'static str, title: &'static str, argument: &'static str) -> Command {
    let arguments = Arguments { synopsis: title, title, about: argument };
    Command { name, about, options: &[], arguments: Some(arguments), arguments_max: 1 }
}

const CACHE_NAME: Choice =
    Choice { names: &["--cache-name"], value: Some("cache-name"), about: "Name of Auth cache (required)" };
const UPDATE: &str = "[<cidrGroup> <cidr> ...]";
const UPDATE_ABOUT: &str = "Requires a cidr group name, followed by one or more CIDRs separated by space";

pub(super) const COMMANDS: &[Command] = &[
    plain("cidrfilteringstats", "Print statistics on CIDR filtering"),
    Command {
        name: "createsuperuser",
        about: "Make a role that may do everything and log in; its password is read from standard input",
        options: &[],
        arguments: Some(Arguments { synopsis: "<name>", title: "<name>", about: "The name of the role" }),
        arguments_max: 1,
    },
    of_one("dropcidrgroup", "Drop an existing cidr group", "<cidrGroup>", "Requires a cidr group name"),
    Command {
        name: "getauthcacheconfig",
        about: "Get configuration of Auth cache",
        options: &[CACHE_NAME],
        arguments: None,
        arguments_max: 0,
    },
    of_one(
        "getcidrgroupsofip",
        "Print CIDR groups associated with given IP",
        "<IP address>",
        "Requires IP address as a string",
    ),
    invalidate("invalidatecidrpermissionscache", "Invalidate the cidr permissions cache"),
    invalidate("invalidatecredentialscache", "Invalidate the credentials cache"),
    invalidate("invalidatenetworkpermissionscache", "Invalidate the network permissions cache"),
    Command {
        name: "invalidatepermissionscache",
        about: "Invalidate the permissions cache",
        options: &[
            flag(&["--all-functions"], "Invalidate permissions for 'ALL FUNCTIONS'"),
            flag(&["--all-keyspaces"], "Invalidate permissions for 'ALL KEYSPACES'"),
            flag(&["--all-mbeans"], "Invalidate permissions for 'ALL MBEANS'"),
            flag(&["--all-roles"], "Invalidate permissions for 'ALL ROLES'"),
            flag(&["--all-tables"], "Invalidate permissions for 'ALL TABLES'"),
            Choice {
                names: &["--function"],
                value: Some("function"),
                about: "Function to invalidate permissions for (you must specify --functions-in-keyspace for using this \
                        option; function format: name[arg1^..^agrN], for example: foo[Int32Type^DoubleType])",
            },
            Choice {
                names: &["--functions-in-keyspace"],
                value: Some("functions-in-keyspace"),
                about: "Keyspace to invalidate permissions for",
            },
            Choice { names: &["--keyspace"], value: Some("keyspace"), about: "Keyspace to invalidate permissions for" },
            Choice { names: &["--mbean"], value: Some("mbean"), about: "MBean to invalidate permissions for" },
            Choice { names: &["--role"], value: Some("role"), about: "Role to invalidate permissions for" },
            Choice {
                names: &["--table"],
                value: Some("table"),
                about: "Table to invalidate permissions for (you must specify --keyspace for using this option)",
            },
        ],
        arguments: Some(Arguments {
            synopsis: "[<role>]",
            title: "[<role>]",
            about: "A role for which permissions to specified resources need to be invalidated",
        }),
        arguments_max: 1,
    },
    invalidate("invalidaterolescache", "Invalidate the roles cache"),
    of_one(
        "listcidrgroups",
        "List existing cidr groups",
        "[<cidrGroup>]",
        "LIST operation can be invoked with or without cidr group name",
    ),
    plain(
        "reloadcidrgroupscache",
        "Reload CIDR groups cache with latest entries in cidr_groups table, when CIDR authorizer is enabled",
    ),
    Command {
        name: "setauthcacheconfig",
        about: "Set configuration for Auth cache",
        options: &[
            CACHE_NAME,
            flag(&["--disable-active-update"], "Disable active update"),
            flag(&["--enable-active-update"], "Enable active update"),
            Choice { names: &["--max-entries"], value: Some("max-entries"), about: "Max entries" },
            Choice {
                names: &["--update-interval"],
                value: Some("update-interval"),
                about: "Update interval in milliseconds",
            },
            Choice {
                names: &["--validity-period"],
                value: Some("validity-period"),
                about: "Validity period in milliseconds",
            },
        ],
        arguments: None,
        arguments_max: 0,
    },
    Command {
        name: "updatecidrgroup",
        about: "Insert/Update a cidr group",
        options: &[],
        arguments: Some(Arguments { synopsis: UPDATE, title: UPDATE, about: UPDATE_ABOUT }),
        arguments_max: usize::MAX,
    },
];
