//! Cassandra's tools for files: `helenus sstabledump ...`, with its arguments, output and exit codes.
//!
//! They run without a node and without shards, on files that no node is writing, and read with plain blocking calls.
//! Each tool has a file of its own; [`options`] parses arguments as Apache Commons CLI does, [`files`] opens SSTables.

mod auditlogviewer;
mod cardinality;
mod dates;
mod files;
mod histogram;
mod json;
mod options;
mod sstabledump;
mod sstablemetadata;
mod sstableutil;
mod sstableverify;
mod tables;
mod values;

use std::io::Write;
use std::process::ExitCode;

/// The streams that a tool writes to.
pub(crate) struct Output<'o> {
    pub(crate) out: &'o mut dyn Write,
    pub(crate) err: &'o mut dyn Write,
}

/// The text that a failed tool writes to standard error before it exits with 1.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<sstable::Error> for Failure {
    fn from(error: sstable::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Runs a tool by its name and returns its exit code; `None` if there is no such tool. `now` is in seconds.
pub(crate) fn run(name: &str, arguments: &[String], now: i64, output: &mut Output<'_>) -> Option<u8> {
    let result = match name {
        "auditlogviewer" => auditlogviewer::run(arguments, output),
        "sstabledump" => sstabledump::run(arguments, now, output),
        "sstableutil" => sstableutil::run(arguments, output),
        "sstableverify" => sstableverify::run(arguments, output),
        "sstablemetadata" => sstablemetadata::run(arguments, now, output),
        _ => return None,
    };
    let code = result.unwrap_or_else(|Failure(text)| {
        // If standard error is closed the failure cannot be reported.
        let _ = writeln!(output.err, "{text}");
        1
    });
    Some(match output.out.flush() {
        Ok(()) => code,
        Err(_) => code.max(1),
    })
}

/// Runs the tool that the process's command line names; `None` if it names none.
pub(crate) fn from_command_line() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args_os().map(|text| text.to_string_lossy().into_owned()).collect();
    let (name, rest) = arguments.get(1..)?.split_first()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut err = std::io::stderr().lock();
    let mut output = Output { out: &mut out, err: &mut err };
    run(name, rest, runtime::blocking::now_seconds(), &mut output).map(ExitCode::from)
}
