//! `upgradesstables`: rewrites SSTables that do not have the version that is written.

use super::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::{CompactionScope, TableVerb};

/// How many cores rewrite SSTables at a time unless the request says otherwise.
const JOBS: i32 = 2;

/// Runs the command on the tables that are named, those of a keyspace, or all. A core rewrites one SSTable at a time.
pub(crate) async fn upgrade(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let jobs = number(request, "-j", "jobs", "Integer", JOBS)?;
    let made_until = number(request, "-t", "max_timestamp", "Long", i64::MAX)?;
    let cores = i32::try_from(runtime::shard_count()).unwrap_or(i32::MAX);
    if jobs > cores {
        out.push_str(&format!(
            "jobs ({jobs}) is bigger than configured concurrent_compactors ({cores}) on this host, using at most {cores} \
             threads\n"
        ));
    }
    let chosen = CompactionScope::Upgrade { all: request.has("-a"), made_until };
    let cores_max = u16::try_from(jobs.clamp(0, cores)).unwrap_or_default();
    for table in table_names::tables(node, &request.arguments)? {
        let verb = TableVerb::Compact { table: table.id, chosen: chosen.clone() };
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
