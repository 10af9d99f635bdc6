//! `gettimeout` and `settimeout`: how long requests may take, by Cassandra's names of their kinds. What is set counts
//! for requests that begin from then on, on all cores, until the next start.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::{TableVerb, Timeouts};
use std::fmt::Write;
use std::time::Duration;

/// Cassandra's names of all kinds.
const KINDS: &str = "read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
                     internodestreaminguser, misc (general rpc_timeout_in_ms)";

/// The timeout of a kind of request; `None` if it is another kind of timeout.
fn of<'t>(timeouts: &'t mut Timeouts, kind: &str) -> Option<&'t mut Duration> {
    Some(match kind {
        "misc" => &mut timeouts.misc,
        "read" => &mut timeouts.read,
        "range" => &mut timeouts.range,
        "write" => &mut timeouts.write,
        "counterwrite" => &mut timeouts.counter_write,
        "cascontention" => &mut timeouts.cas_contention,
        "truncate" => &mut timeouts.truncate,
        _ => return None,
    })
}

/// Connections between nodes keep the time-outs that they begin with, and streams have none.
fn unsupported(command: &str, kind: &str) -> CommandError {
    CommandError::Failed(format!("{command} {kind} is not supported"))
}

/// `gettimeout`.
pub(crate) fn get(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [kind] = request.arguments.as_slice() else {
        return usage(format!("gettimeout requires a timeout type, one of ({KINDS})"));
    };
    let links = &node.config.internode;
    let mut timeouts = node.shard.timeouts();
    let found = match kind.as_str() {
        "internodeconnect" => links.connect_timeout,
        "internodeuser" => links.user_timeout,
        kind => match of(&mut timeouts, kind) {
            Some(timeout) => *timeout,
            None if kind == "internodestreaminguser" => return Err(unsupported("gettimeout", kind)),
            None => return usage(format!("Timeout type requires one of ({KINDS})")),
        },
    };
    let _ = writeln!(out, "Current timeout for type {kind}: {} ms", found.as_millis());
    Ok(())
}

/// `settimeout`.
pub(crate) async fn set(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let (kind, text) = match request.arguments.as_slice() {
        [] => return usage("Required parameters are missing: args"),
        [kind, text] => (kind.as_str(), text),
        _ => {
            return usage(format!(
                "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one of \
                 ({KINDS})"
            ));
        }
    };
    let Ok(millis) = text.parse::<i64>() else { return usage(format!("For input string: \"{text}\"")) };
    let Ok(millis) = u64::try_from(millis) else { return usage("timeout must be non-negative") };
    if matches!(kind, "internodeconnect" | "internodeuser" | "internodestreaminguser") {
        return Err(unsupported("settimeout", kind));
    }
    let mut timeouts = node.shard.timeouts();
    match of(&mut timeouts, kind) {
        Some(timeout) => *timeout = Duration::from_millis(millis),
        None => return usage(format!("Timeout type requires one of ({KINDS})")),
    }
    node.shard.on_every_shard(TableVerb::SetTimeouts(timeouts)).await?;
    Ok(())
}
