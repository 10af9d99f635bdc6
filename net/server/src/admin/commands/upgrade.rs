//! `upgradesstables`: rewrites SSTables that do not have the version that is written. `relocatesstables`: those that
//! lie in another data directory than the one of their shard. `cleanup`: removes what the node does not own.

use super::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::{CompactionScope, TableVerb};

/// How many cores rewrite SSTables at a time unless the request says otherwise.
const JOBS: i32 = 2;

/// Runs the command on the tables that are named, those of a keyspace, or all. A core rewrites one SSTable at a time.
pub(crate) async fn upgrade(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let made_until = number(request, "-t", "max_timestamp", "Long", i64::MAX)?;
    let cores_max = cores_max(request, out)?;
    let chosen = CompactionScope::Upgrade { all: request.has("-a"), made_until };
    for table in table_names::tables(node, &request.arguments)? {
        let verb = TableVerb::Compact { table: table.id, chosen: chosen.clone() };
        node.shard.on_every_shard_in_turn(verb, cores_max).await?;
    }
    Ok(())
}

/// Runs the command on the tables that are named, those of a keyspace, or all.
pub(crate) async fn relocate(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let cores_max = cores_max(request, out)?;
    for table in table_names::tables(node, &request.arguments)? {
        let verb = TableVerb::Compact { table: table.id, chosen: CompactionScope::Misplaced };
        node.shard.on_every_shard_in_turn(verb, cores_max).await?;
    }
    Ok(())
}

/// How many cores work at a time, as the request says.
fn cores_max(request: &Request, out: &mut String) -> Result<u16, CommandError> {
    let jobs = number(request, "-j", "jobs", "Integer", JOBS)?;
    let cores = i32::try_from(runtime::shard_count()).unwrap_or(i32::MAX);
    if jobs > cores {
        out.push_str(&format!(
            "jobs ({jobs}) is bigger than configured concurrent_compactors ({cores}) on this host, using at most {cores} \
             threads\n"
        ));
    }
    Ok(u16::try_from(jobs.clamp(0, cores)).unwrap_or_default())
}

/// Removes the partitions that other nodes own from the tables that are named, those of a keyspace, or all.
pub(crate) async fn cleanup(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let cores_max = cores_max(request, out)?;
    if let Some(name) = request.arguments.first()
        && node.shard.schema().keyspace(name).is_none()
    {
        return usage(format!("Keyspace [{name}] does not exist."));
    }
    for table in table_names::tables(node, &request.arguments)? {
        let schema = node.shard.schema();
        if schema.keyspace(&table.keyspace).is_none_or(|keyspace| keyspace.is_local() || keyspace.is_virtual()) {
            continue;
        }
        let verb = TableVerb::Clean(table.id);
        node.shard.on_every_shard_in_turn(verb, cores_max).await?;
    }
    Ok(())
}

/// The value of an option that is a number, or `default` without the option.
fn number<T: std::str::FromStr>(
    request: &Request,
    option: &str,
    title: &str,
    class: &str,
    default: T,
) -> Result<T, CommandError> {
    let Some(text) = request.option(option) else { return Ok(default) };
    text.parse().or_else(|_| usage(format!("{title}: can not convert \"{text}\" to a {class}")))
}
