//! Patience (P10): no request waits for longer than its timeout, and what nodes send each other for a request does not
//! grow while one of them is slow.

use super::history::Violation;
use std::time::Duration;

/// How much longer than its timeout a request may take for its client: the ways there and back, and the turns of nodes
/// that are busy.
const SLACK: Duration = Duration::from_millis(250);
/// How many times as much as in calm times nodes may send each other for a request, at most.
const GROWTH_MAX: u64 = 3;

/// What was sent for how many requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Bytes that the nodes which are not slow have sent to other nodes.
    pub bytes: u64,
    /// Requests that clients wanted to have done.
    pub requests: u64,
}

/// Checks how long a request took whose timeout is `timeout`.
pub fn check_wait(what: &str, timeout: Duration, took: Duration) -> Result<(), Violation> {
    match took <= timeout + SLACK {
        true => Ok(()),
        false => Err(Violation(format!("{what} took {took:?}, and its timeout is {timeout:?}"))),
    }
}

/// Checks what was sent while a node was slow, beside what was sent before.
pub fn check_load(calm: Load, slow: Load) -> Result<(), Violation> {
    let each = |load: Load| load.bytes / load.requests.max(1);
    match each(slow) <= GROWTH_MAX * each(calm) {
        true => Ok(()),
        false => Err(Violation(format!(
            "nodes sent each other {} bytes a request in calm times, and {} while a node was slow",
            each(calm),
            each(slow)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_past_its_timeout_is_found() {
        let timeout = Duration::from_secs(2);
        assert!(check_wait("a write", timeout, timeout + SLACK).is_ok());
        assert!(check_wait("a write", timeout, timeout + SLACK + Duration::from_nanos(1)).is_err());
    }

    #[test]
    fn load_that_grows_is_found() {
        let calm = Load { bytes: 100_000, requests: 100 };
        assert!(check_load(calm, Load { bytes: 30_000, requests: 10 }).is_ok());
        assert!(check_load(calm, Load { bytes: 30_010, requests: 10 }).is_err());
    }
}
