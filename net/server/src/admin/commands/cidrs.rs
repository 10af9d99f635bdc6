//! Commands about groups of addresses, from which roles may log in.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::{Cidr, CidrMode};
use std::fmt::Write;
use std::net::IpAddr;

/// Appends a column of texts under a title, all as wide as the widest of them; nothing without texts.
fn push_column(title: &str, texts: &[String], out: &mut String) {
    if texts.is_empty() {
        return;
    }
    let lines = || std::iter::once(title).chain(texts.iter().map(String::as_str));
    let width = lines().map(str::len).max().unwrap_or_default();
    lines().for_each(|line| writeln!(out, "{line:width$}").unwrap_or_default());
}

/// `listcidrgroups`: the names of the groups, or the ranges of one.
pub(crate) async fn list(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let groups = node.shard.cidr_groups().await?;
    match request.arguments.first() {
        None => push_column("CIDR Groups: ", &groups.into_keys().collect::<Vec<_>>(), out),
        Some(name) => {
            let ranges = groups.get(name).map(Vec::as_slice).unwrap_or_default();
            push_column("CIDRs: ", &ranges.iter().map(Cidr::to_string).collect::<Vec<_>>(), out);
        }
    }
    Ok(())
}

/// `updatecidrgroup`: makes a group of some ranges.
pub(crate) async fn update(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let [name, ranges @ ..] = request.arguments.as_slice() else { return usage(NAME_AND_RANGES) };
    if ranges.is_empty() {
        return usage(NAME_AND_RANGES);
    }
    let mut read = Vec::with_capacity(ranges.len());
    for range in ranges {
        match Cidr::parse(range) {
            Some(range) => read.push(range),
            None => return Err(CommandError::Failed(format!("{range} is not a valid CIDR String"))),
        }
    }
    Ok(node.shard.set_cidr_group(name, &read).await?)
}

const NAME_AND_RANGES: &str = "updatecidrgroup command requires a cidr group name and atleast one CIDR";

/// `dropcidrgroup`.
pub(crate) async fn drop(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [name] = request.arguments.as_slice() else {
        return usage("dropcidrgroup command requires a cidr group name");
    };
    if !node.shard.drop_cidr_group(name).await? {
        return Err(CommandError::Failed(format!("CIDR group '{name}' doesn't exists")));
    }
    let _ = writeln!(out, "Deleted CIDR group {name}");
    Ok(())
}

fn refuse_without(node: &NodeState, operation: &str) -> Result<(), CommandError> {
    match node.config.node.access.cidr_mode {
        CidrMode::Off => {
            Err(CommandError::Failed(format!("{operation} operation not supported by AllowAllCIDRAuthorizer")))
        }
        CidrMode::Monitor | CidrMode::Enforce => Ok(()),
    }
}

/// `getcidrgroupsofip`: the groups of an address.
pub(crate) async fn of_address(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [text] = request.arguments.as_slice() else { return usage("Requires IP address as input") };
    let Ok(address) = text.parse::<IpAddr>() else { return usage(format!("Invalid IP {text}")) };
    refuse_without(node, "'Get CIDR groups for IP'")?;
    push_column("CIDR Groups: ", &node.shard.cidr_groups_of(address).await?, out);
    Ok(())
}

/// `reloadcidrgroupscache`: has all cores read roles and groups again.
pub(crate) async fn reload(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    refuse_without(node, "Load CIDR groups cache")?;
    node.shard.reload_cidr_groups().await;
    let _ = writeln!(out, "Reloaded CIDR groups cache");
    Ok(())
}

/// `invalidatecidrpermissionscache`: what is known of roles is one, and all of it is forgotten.
pub(crate) async fn invalidate(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    refuse_without(node, "Invalidate CIDR permissions cache")?;
    node.shard.forget_roles().await;
    match request.arguments.as_slice() {
        [] => out.push_str("Invalidated CIDR permissions cache\n"),
        roles => roles.iter().for_each(|role| {
            writeln!(out, "Invalidated the role {role} from CIDR permissions cache").unwrap_or_default();
        }),
    }
    Ok(())
}

/// `cidrfilteringstats`: how often which groups were let in, and how long it took to find out. Groups are read with
/// the roles, so the latency of their cache is that of reading them with a role.
pub(crate) async fn statistics(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let counts = node.shard.cidr_accesses().await?;
    let mut rows = vec![["name".to_owned(), "value".to_owned()]];
    rows.extend(counts.into_iter().map(|(name, count)| [name, count.to_string()]));
    out.push_str("cidr_filtering_metrics_counts: \n");
    push_rows(&rows, out);
    out.push_str("\ncidr_filtering_metrics_latencies: \n");
    let mut rows = vec![["name", "p50th", "p95th", "p99th", "p999th", "max"].map(str::to_owned)];
    rows.extend(node.shard.cidr_latencies().await?.map(|(latency, times)| {
        let at = |part| format!("{:?}", times.percentile(part) as f64);
        let max = format!("{:?}", times.max() as f64);
        [latency.name().to_owned(), at(0.5), at(0.95), at(0.99), at(0.999), max]
    }));
    push_rows(&rows, out);
    out.push('\n');
    Ok(())
}

/// Appends rows whose columns are as wide as their widest cell.
fn push_rows<const N: usize>(rows: &[[String; N]], out: &mut String) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(&cells.join(" "));
        out.push('\n');
    }
}
