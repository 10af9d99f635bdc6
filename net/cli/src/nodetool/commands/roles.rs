//! Commands about roles.

use super::{Arguments, Command};

const fn invalidate(name: &'static str, about: &'static str) -> Command {
    let arguments = Arguments { synopsis: "[<role>...]", title: "[<role>...]", about: "List of roles to invalidate" };
    Command { name, about, options: &[], arguments: Some(arguments), arguments_max: usize::MAX }
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
    invalidate("invalidatepermissionscache", "Invalidate the permissions cache"),
    invalidate("invalidaterolescache", "Invalidate the roles cache"),
];
