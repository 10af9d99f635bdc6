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

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "createsuperuser",
        about: "Make a role that may do everything and log in; its password is read from standard input",
        options: &[],
        arguments: Some(Arguments { synopsis: "<name>", title: "<name>", about: "The name of the role" }),
        arguments_max: 1,
    },
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
];
