//! `auditlogviewer`: shows the audit log's files as text.
//!
//! Lines of all cores come in the order of time. There is no `--roll_cycle`: the names of the files say enough.

use super::options::{Known, Style, flag, parse};
use super::{Failure, Output};
use server::query_log::audit::text_of_line;
use server::query_log::reader::LogReader;
use std::time::Duration;

const OPTIONS: &[Known] = &[flag("f", "follow"), flag("h", "help"), flag("i", "ignore")];
const USAGE: &str = "\
usage: auditlogviewer <path1> [<path2>...<pathN>] [options]
--
View the audit log contents in human readable format
--
Options are:
 -f,--follow   Upon reacahing the end of the log continue indefinitely
               waiting for more records
 -h,--help     display this help message
 -i,--ignore   Silently ignore unsupported records
";
/// Pause before a log that is followed is looked at again, as in Cassandra's tool.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the tool and returns its exit code.
pub(crate) fn run(arguments: &[String], output: &mut Output<'_>) -> Result<u8, Failure> {
    let given = match parse(OPTIONS, Style::Gnu, arguments) {
        Ok(given) if given.has("h") => {
            write!(output.out, "{USAGE}")?;
            return Ok(0);
        }
        Ok(given) => given,
        Err(wrong) => {
            write!(output.out, "{USAGE}")?;
            return Err(Failure(wrong));
        }
    };
    if given.rest.is_empty() {
        write!(output.out, "{USAGE}")?;
        return Err(Failure("Audit log files directory path is a required argument.".into()));
    }
    let mut reader = LogReader::audit(given.rest.iter().map(Into::into).collect());
    let (follows, ignores) = (given.has("f"), given.has("i"));
    loop {
        while let Some(line) = reader.next_line(!follows)? {
            match text_of_line(&line) {
                Ok(text) => write!(output.out, "Type: audit\nLogMessage: {text}\n")?,
                Err(_) if ignores => {}
                Err(text) => return Err(Failure(text)),
            }
        }
        if !follows {
            return Ok(0);
        }
        output.out.flush()?;
        runtime::blocking::pause(PAUSE);
    }
}
