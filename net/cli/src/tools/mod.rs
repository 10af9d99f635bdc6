//! Cassandra's SSTable tools: `helenus sstabledump ...`, with its arguments, output and exit codes.
//!
//! They run without a node and without shards, on files that no node is writing, and read with plain blocking calls.
//! Each tool has its file; [`options`] reads arguments as Apache Commons CLI does, [`files`] opens SSTables.

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

/// Where a tool writes.
pub(crate) struct Output<'o> {
    pub(crate) out: &'o mut dyn Write,
    pub(crate) err: &'o mut dyn Write,
}

/// Why a tool ends early: the text for standard error, after which it exits with 1.
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

/// Runs the tool of a name; `None` if there is no such tool. The result is the exit code.
pub(crate) fn run(name: &str, arguments: &[String], now: i64, output: &mut Output<'_>) -> Option<u8> {
    let result = match name {
        "sstabledump" => sstabledump::run(arguments, now, output),
        "sstableutil" => sstableutil::run(arguments, output),
        "sstableverify" => sstableverify::run(arguments, output),
        "sstablemetadata" => sstablemetadata::run(arguments, now, output),
        _ => return None,
    };
    let code = result.unwrap_or_else(|Failure(text)| {
        // A closed standard error leaves nowhere to say it.
        let _ = writeln!(output.err, "{text}");
        1
    });
    Some(match output.out.flush() {
        Ok(()) => code,
        Err(_) => code.max(1),
    })
}

/// Runs the tool that the command line names, if it names one.
pub(crate) fn from_command_line() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args_os().map(|text| text.to_string_lossy().into_owned()).collect();
    let (name, rest) = arguments.get(1..)?.split_first()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut err = std::io::stderr().lock();
    let mut output = Output { out: &mut out, err: &mut err };
    run(name, rest, runtime::blocking::now_seconds(), &mut output).map(ExitCode::from)
}
