//! Commands that write memtables to SSTables: `flush` and `drain`.

use super::table_names;
use crate::admin::error::CommandError;
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::TableVerb;

/// `flush`: flushes the tables that are named, those of a keyspace, or all.
pub(crate) async fn flush(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    for table in table_names::tables(node, &request.arguments)? {
        node.shard.on_every_shard(TableVerb::Flush(table.id)).await?;
    }
    Ok(())
}

/// `drain`: stops serving clients, then flushes everything. A second `drain` only flushes.
pub(crate) async fn drain(node: &NodeState) -> Result<(), CommandError> {
    node.drain.set();
    node.drained.wait().await;
    node.shard.on_every_shard(TableVerb::FlushAll).await?;
    tracing::info!("DRAINED");
    Ok(())
}
