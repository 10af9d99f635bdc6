//! The binary `helenus`: runs a node, sends a command to one with [`nodetool`], runs one of the [`tools`] for files or
//! [`fqltool`], or puts load on a server with [`load`]. A node starts in three steps:
//!
//! 1. It reads the configuration file and puts the options of the command line over it.
//! 2. It starts a shard per core on the runtime that `--runtime` names; each runs [`server::Node::run`].
//! 3. It prints one line on standard output when the node serves; logs go to standard error, and to a file if one is
//!    named ([`logging`]).
//!
//! Exit codes: 0 after an orderly stop, 1 for a wrong option or configuration, 3 when data on disk cannot be trusted.

mod arguments;
mod fqltool;
mod logging;
mod metadata_service;
mod nodetool;
mod tools;

use arguments::{Arguments, Settings};
use clap::Parser;
use server::{Exit, Listening, Node, Ready};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runtime::allocator::Allocator = runtime::allocator::Allocator;

/// How long an idle core polls its queues before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// Threads of the whole node for calls that block.
const HELPERS: usize = 2;

fn main() -> ExitCode {
    if let Some(code) = tools::from_command_line() {
        return code;
    }
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("nodetool") => return nodetool::run(words),
        Some("restore") => return nodetool::run(std::iter::once("restore".to_owned()).chain(words)),
        Some("fqltool") => return fqltool::run(words),
        Some("bench") => return ExitCode::from(load::bench(words)),
        _ => {}
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed as errors too. There is nowhere to report that printing failed.
            let _ = error.print();
            return code(if error.use_stderr() { Exit::Misconfigured } else { Exit::Stopped });
        }
    };
    if let Err(error) = logging::begin(arguments.log_format, arguments.log_file.as_deref()) {
        let _ = writeln!(std::io::stderr(), "--log-file: {error}");
        return code(Exit::Misconfigured);
    }
    let settings = match arguments.settings() {
        Ok(settings) => settings,
        Err(error) => {
            tracing::error!("{error}");
            return code(Exit::Misconfigured);
        }
    };
    code(run(settings))
}

fn run(settings: Settings) -> Exit {
    let Settings { config, shards, cpus, backend } = settings;
    let shown = config.node.directories.to_string();
    let node = Node::new(config, shards, move |ready: &Ready| {
        let Ready { listening, shards } = ready;
        let mut out = std::io::stdout().lock();
        // A node goes on when standard output is closed.
        let _ = match listening {
            Some(listening) => {
                writeln!(out, "Helenus listens on {}, {shards} shards, data in {shown}", listening_on(listening))
            }
            None => writeln!(out, "Helenus listens for no clients, {shards} shards, data in {shown}"),
        };
        let _ = out.flush();
    });
    let options = runtime::Options { shards, cpus, spin: SPIN, helpers: HELPERS };
    match runtime::start(backend, options, move |shard| node.clone().run(shard)) {
        Ok(exits) => exits.into_iter().max().unwrap_or(Exit::Stopped),
        Err(error) => {
            tracing::error!("the runtime did not start: {error}");
            Exit::Misconfigured
        }
    }
}

/// The ports for clients in words.
fn listening_on(listening: &Listening) -> String {
    let mut shown = listening.address.to_string();
    for (what, address) in [
        ("encrypted", listening.encrypted),
        ("shard-aware", listening.shard_aware),
        ("shard-aware and encrypted", listening.shard_aware_encrypted),
    ] {
        if let Some(address) = address {
            shown.push_str(&format!(" ({what} on port {})", address.port()));
        }
    }
    shown
}

fn code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}
