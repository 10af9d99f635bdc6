//! `commitlog_archiving.properties`, the file beside `cassandra.yaml`. Helenus neither archives the commit log nor
//! restores it from archives, so the node does not start if this file asks for either.

use super::{ConfigError, error};

/// Name of the file.
pub const ARCHIVING_FILE: &str = "commitlog_archiving.properties";

/// Properties that ask for archiving or restoring if they are set.
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
/// If a property is set; the error names it.
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
