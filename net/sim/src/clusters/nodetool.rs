//! Commands of an operator to a node of a cluster.

use server::admin::{self, protocol::Request};
use std::net::IpAddr;
use std::time::Duration;

/// How long one command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(40);

/// A command with options that have no value, and arguments.
pub(super) fn command(name: &str, options: &[&str], arguments: &[&str]) -> Request {
    Request {
        command: name.to_owned(),
        options: options.iter().map(|option| ((*option).to_owned(), String::new())).collect(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    }
}

/// Runs a command on a node. Returns what it prints, if it succeeds.
pub(super) async fn run(address: IpAddr, request: Request) -> Option<String> {
    let answer = runtime::timeout(COMMAND_TIMEOUT, admin::ask(address, &request)).await?.ok()?;
    (answer.exit == 0).then_some(answer.out)
}
