//! Commands about the caches of what is known of roles. Texts are Cassandra's.
//!
//! What is known of a role is read and kept as one, so the caches count together: the shortest of their times, and at
//! most a second, and the smallest of their numbers. The cache of networks has the options of that of roles, as in
//! Cassandra.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use std::fmt::Write;
use std::time::Duration;

/// The caches, and which of the options of `AccessOptions` are theirs.
const CACHES: [(&str, usize); 4] =
    [("CredentialsCache", 0), ("PermissionsCache", 1), ("RolesCache", 2), ("NetworkPermissionsCache", 2)];

/// The position of the options of the cache that a request names.
fn cache_of(request: &Request) -> Result<usize, CommandError> {
    let name = required_name(request)?;
    match CACHES.iter().find(|(known, _)| *known == name) {
        Some((_, at)) => Ok(*at),
        None => usage(format!("Unknown cache name: {name}")),
    }
}

fn required_name(request: &Request) -> Result<&str, CommandError> {
    match request.option("--cache-name") {
        Some(name) => Ok(name),
        None => usage("Required option '--cache-name' is missing"),
    }
}

/// `getauthcacheconfig`.
pub(crate) fn show(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let at = cache_of(request)?;
    let options = node.clients.role_caches();
    let validity = options.validities[at];
    let update_interval = options.update_intervals[at].unwrap_or(validity);
    let _ = writeln!(out, "Validity Period: {}", validity.as_millis());
    let _ = writeln!(out, "Update Interval: {}", update_interval.as_millis());
    let _ = writeln!(out, "Max Entries: {}", options.entries_max[at]);
    let _ = writeln!(out, "Active Update: false");
    Ok(())
}

/// `setauthcacheconfig`.
pub(crate) async fn set(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    required_name(request)?;
    let number = |name: &str| match request.option(name) {
        None => Ok(None),
        Some(text) => match text.parse::<i32>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                let title = name.trim_start_matches('-');
                usage(format!("{title}: can not convert \"{text}\" to a Integer"))
            }
        },
    };
    let (validity, interval) = (number("--validity-period")?, number("--update-interval")?);
    let entries = number("--max-entries")?;
    let (enables, disables) = (request.has("--enable-active-update"), request.has("--disable-active-update"));
    if enables && disables {
        return usage("enable-active-update and disable-active-update cannot be used together");
    }
    if validity.is_none() && interval.is_none() && entries.is_none() && !enables && !disables {
        return usage("At least one optional parameter need to be passed");
    }
    let at = cache_of(request)?;
    if enables {
        return usage("enable-active-update: what is known of a role and used is always read again before it ends");
    }
    let mut options = node.clients.role_caches();
    let millis = |number: i32| match u64::try_from(number) {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) => usage("Invalid duration: value must be non-negative"),
    };
    if let Some(number) = validity {
        options.validities[at] = millis(number)?;
        let _ = writeln!(out, "Changed Validity Period to {number}");
    }
    if let Some(number) = interval {
        options.update_intervals[at] = Some(millis(number)?);
        let _ = writeln!(out, "Changed Update Interval to {number}");
    }
    if let Some(number) = entries {
        let Ok(entries) = usize::try_from(number) else { return usage("max-entries: value must be non-negative") };
        options.entries_max[at] = entries;
        let _ = writeln!(out, "Changed Max Entries to {number}");
    }
    if disables {
        out.push_str("Changed Active Update to false\n");
    }
    node.clients.set_role_caches(options).await;
    Ok(())
}
