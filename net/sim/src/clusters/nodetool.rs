//! Commands of an operator to a node of a cluster.

use server::admin::{
    self,
    protocol::{FOLLOW, GOES_ON, Request},
};
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

/// Runs a repair on a node until it ends. Fails with what it says.
pub(super) async fn repair(address: IpAddr, request: Request) -> Result<(), String> {
    let mut asked = request;
    loop {
        let answered = runtime::timeout(COMMAND_TIMEOUT, admin::ask(address, &asked)).await;
        let answer = answered.ok_or("no answer")?.map_err(|error| error.to_string())?;
        match answer.exit {
            0 => return Ok(()),
            GOES_ON => {
                let arguments = answer.err.split_whitespace().map(str::to_owned).collect();
                asked = Request { command: FOLLOW.to_owned(), options: Vec::new(), arguments };
            }
            _ => return Err(format!("{}{}", answer.out, answer.err)),
        }
    }
}
