//! The output of `help` and `help COMMAND`, in the layout of Cassandra's nodetool.

use super::commands::{self, Choice, Command, GLOBAL};

/// The width at which lines are broken, in columns.
const WIDTH: usize = 80;
/// How many spaces precede the synopsis, its continuation lines, and descriptions.
const INDENT: usize = 8;
const DEEP_INDENT: usize = 16;
const DESCRIPTION_INDENT: usize = 12;

/// Returns the list of all commands, one line each.
pub(super) fn overview() -> String {
    let mut out = String::from(
        "usage: nodetool [(-pw <password> | --password <password>)]\n        [(-h <host> | --host <host>)] \
         [(-u <username> | --username <username>)]\n        \
         [(-pwf <passwordFilePath> | --password-file <passwordFilePath>)]\n        \
         [(-pp | --print-port)] [(-p <port> | --port <port>)] <command> [<args>]\n\n\
         The most commonly used nodetool commands are:\n",
    );
    let mut lines: Vec<(&str, &str)> = commands::all().map(|command| (command.name, command.about)).collect();
    lines.push(("help", "Display help information"));
    lines.sort();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, about) in lines {
        out.push_str(&format!("    {name:<width$}   {about}\n"));
    }
    out.push_str("\nSee 'nodetool help <command>' for more information on a specific command.\n");
    out
}

/// The descriptions of the commands that have commands of their own.
const BOOTSTRAP: &str = include_str!("commands/bootstrap.txt");
const REPAIR_ADMIN: &str = include_str!("commands/repair_admin.txt");

/// Returns the description of one command: Cassandra's, and then the options that it does not have.
pub(super) fn of(command: &Command) -> String {
    let mut out = cassandras(command);
    let mut own = sorted(commands::own_options(command.name)).peekable();
    if own.peek().is_some() {
        out.push_str("OPTIONS OF HELENUS\n");
        own.for_each(|choice| entry(&mut out, &choice.names.join(", "), choice.about));
    }
    out
}

fn cassandras(command: &Command) -> String {
    match command.name {
        "bootstrap" => return BOOTSTRAP.into(),
        "repair_admin" => return REPAIR_ADMIN.into(),
        _ => {}
    }
    let mut out = String::from("NAME\n");
    wrap(&mut out, INDENT, INDENT, words(&format!("nodetool {} - {}", command.name, command.about)));
    out.push_str("\nSYNOPSIS\n");
    let mut units = vec!["nodetool".to_owned()];
    units.extend(GLOBAL.iter().map(unit));
    units.push(command.name.into());
    units.extend(sorted(command.options.iter()).map(unit));
    if let Some(arguments) = &command.arguments {
        units.push("[--]".into());
        units.extend(words(arguments.synopsis));
    }
    wrap(&mut out, INDENT, DEEP_INDENT, units);
    out.push_str("\nOPTIONS\n");
    for choice in sorted(GLOBAL.iter().chain(command.options)) {
        let value = choice.value.map(|value| format!(" <{value}>")).unwrap_or_default();
        let names: Vec<String> = choice.names.iter().map(|name| format!("{name}{value}")).collect();
        entry(&mut out, &names.join(", "), choice.about);
    }
    if let Some(arguments) = &command.arguments {
        let separator = "This option can be used to separate command-line options from the list of argument, (useful \
                         when arguments might be mistaken for command-line options";
        entry(&mut out, "--", separator);
        entry(&mut out, arguments.title, arguments.about);
    }
    out.push('\n');
    out
}

fn entry(out: &mut String, title: &str, about: &str) {
    wrap(out, INDENT, INDENT, words(title));
    wrap(out, DESCRIPTION_INDENT, DESCRIPTION_INDENT, words(about));
    out.push('\n');
}

/// Compares options by their first name, ignoring case; small letters come first.
fn sorted<'c>(choices: impl Iterator<Item = &'c Choice>) -> impl Iterator<Item = &'c Choice> {
    let mut choices: Vec<&Choice> = choices.collect();
    let swapped = |c: char| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    choices.sort_by_key(|choice| {
        let name = choice.names[0].trim_start_matches('-');
        (name.to_lowercase(), name.chars().map(swapped).collect::<String>())
    });
    choices.into_iter()
}

/// Returns an option as the synopsis shows it.
fn unit(choice: &Choice) -> String {
    let value = choice.value.map(|value| format!(" <{value}>")).unwrap_or_default();
    let names: Vec<String> = choice.names.iter().map(|name| format!("{name}{value}")).collect();
    match names.as_slice() {
        _ if commands::REPEATED.contains(&choice.names[0]) => format!("[({})...]", names.join(" | ")),
        [name] if choice.about.ends_with("(required)") => name.clone(),
        [name] => format!("[{name}]"),
        _ => format!("[({})]", names.join(" | ")),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Joins units by single spaces, on lines of at most [`WIDTH`] columns.
fn wrap(out: &mut String, first: usize, further: usize, units: Vec<String>) {
    let mut column = first;
    out.extend(std::iter::repeat_n(' ', first));
    for (at, unit) in units.iter().enumerate() {
        if at > 0 {
            // A word that is wider than the screen stays where it is, as in Cassandra.
            if column + 1 + unit.len() > WIDTH && unit.len() <= WIDTH {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', further));
                // The indentation of continuation lines does not count, as in Cassandra.
                column = first;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(unit);
        column += unit.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from `nodetool help COMMAND`, one file per command.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test reads its recorded texts")]
    fn help_is_cassandras() {
        // Of Helenus alone, or of later versions of Cassandra.
        let own = [
            "createsuperuser",
            "recoveragreement",
            "restore",
            "shardstats",
            "abortbootstrap",
            "abortdecommission",
            "abortmove",
            "mergetablets",
            "movetablet",
            "emptynode",
            "splittablet",
            "tablets",
        ];
        let is_own = |name: &str| own.contains(&name);
        for command in commands::all().filter(|command| !is_own(command.name)) {
            let path = format!("{}/tests/nodetool/help/{}.txt", env!("CARGO_MANIFEST_DIR"), command.name);
            let recorded = std::fs::read_to_string(&path).expect("recorded");
            assert_eq!(cassandras(command), recorded, "help {}", command.name);
        }
    }
}
