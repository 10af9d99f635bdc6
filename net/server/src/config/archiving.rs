//! `commitlog_archiving.properties`, beside `cassandra.yaml`: the commit log is not archived or restored from archives
//! here, so a file that asks for it stops the start.

use super::{ConfigError, error};

/// The file's name.
pub const ARCHIVING_FILE: &str = "commitlog_archiving.properties";

/// Properties that ask for something.
const COMMANDS: [&str; 5] = [
    "archive_command",
    "restore_command",
    "restore_directories",
    "restore_point_in_time",
    "snapshot_commitlog_position",
];

/// Refuses the text of a file that sets a command, a directory or a point in time.
///
/// # Errors
/// Names the property.
pub fn refuse_archiving(text: &str) -> Result<(), ConfigError> {
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!'])) {
        let Some((name, value)) = line.split_once(['=', ':']) else { continue };
        if COMMANDS.contains(&name.trim()) && !value.trim().is_empty() {
            return error(format!(
                "{ARCHIVING_FILE}: {} is not supported yet: the commit log is not archived",
                name.trim()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_sets_nothing_is_taken() {
        let stock = "# archive_command=/bin/ln %path /backup/%name\narchive_command=\nrestore_command =\n\
                     restore_directories=\nrestore_point_in_time=\nprecision=MICROSECONDS\n";
        assert_eq!(refuse_archiving(stock), Ok(()));
        let text =
            refuse_archiving(&format!("{stock} archive_command = /bin/ln %path /backup")).expect_err("refused").0;
        assert_eq!(
            text,
            "commitlog_archiving.properties: archive_command is not supported yet: the commit log is not archived"
        );
    }
}
