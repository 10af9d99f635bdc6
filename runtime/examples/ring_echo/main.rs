//! The cost of a bare io_uring: a server that answers requests of a fixed length with a fixed answer, and a client that
//! sends such requests to it, or to any server, over connections with one request under way each.
//!
//! `ring_echo serve ADDRESS REQUEST-BYTES ANSWER-BYTES` answers requests until it is killed.
//!
//! `ring_echo ask ADDRESS SECONDS PID PREFACE REQUEST ANSWER-BYTES KEYS`, bytes in hexadecimal digits:
//! 1. Each of eight connections sends PREFACE, if it is not empty, and waits for an answer of any length to it.
//! 2. It sends REQUEST, waits for ANSWER-BYTES, and sends the next. The last eight bytes of REQUEST become a
//!    number below KEYS, big-endian, another one each time.
//! 3. After one second it starts to count; after SECONDS more it prints the requests per second, and per second of CPU
//!    time of process PID.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a measurement, against the system itself"
)]

mod ask;
mod serve;

use std::net::SocketAddr;
use std::process::ExitCode;

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

fn run(arguments: &[&str]) -> Option<Result<(), String>> {
    match arguments {
        ["serve", address, request, answer] => {
            let (address, request, answer) =
                (address.parse::<SocketAddr>().ok()?, request.parse().ok()?, answer.parse().ok()?);
            Some(serve::serve(address, request, answer).map_err(|error| error.to_string()))
        }
        ["ask", address, seconds, pid, preface, request, answer, keys] => {
            let load = ask::Load {
                address: address.parse().ok()?,
                seconds: seconds.parse().ok()?,
                pid: pid.parse().ok()?,
                preface: bytes(preface)?,
                request: bytes(request)?,
                answer: answer.parse().ok()?,
                keys: keys.parse().ok().filter(|keys| *keys > 0)?,
            };
            (load.request.len() >= size_of::<u64>()).then(|| ask::ask(load))
        }
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(text)) => println!("{text}"),
        None => println!("see the head of runtime/examples/ring_echo/main.rs"),
    }
    ExitCode::FAILURE
}
