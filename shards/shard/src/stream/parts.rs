//! What a plan is about, table by table: the sources of each, with their ranges.

use super::plan::{StreamError, StreamPlan};
use crate::shard_state::Shard;
use cluster::topology::{Node, features};
use engine::streams::source::joined;
use model::{Table, TableId, TokenRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// What is fetched of one table.
pub(super) struct TablePart {
    pub(super) table: Arc<Table>,
    /// Each node once, with joined ranges.
    pub(super) sources: Vec<(Node, Arc<[TokenRange]>)>,
}

/// What a plan is about, table by table.
pub(super) fn parts(shard: &Shard, plan: &StreamPlan) -> Result<Vec<TablePart>, StreamError> {
    let (topology, schema) = (shard.topology(), shard.schema());
    let mut ranges: BTreeMap<(TableId, Uuid), Vec<TokenRange>> = BTreeMap::new();
    let mut nodes: BTreeMap<Uuid, Node> = BTreeMap::new();
    for part in &plan.parts {
        let is_source = |node: &&Node| node.host_id == part.source && node.host_id != shard.host_id();
        let node = topology.nodes().iter().find(is_source);
        let node = node.ok_or(StreamError::UnknownSource(part.source))?;
        if node.features & features::STREAMS == 0 {
            return Err(StreamError::Unsupported(part.source));
        }
        nodes.insert(node.host_id, node.clone());
        let Some(keyspace) = schema.keyspace(&part.keyspace) else { continue };
        let is_wanted = |table: &&Arc<Table>| part.tables.as_ref().is_none_or(|tables| tables.contains(&table.id));
        for table in keyspace.tables.values().filter(is_wanted) {
            ranges.entry((table.id, part.source)).or_default().extend(part.ranges.iter().cloned());
        }
    }
    let mut parts: Vec<TablePart> = Vec::new();
    for ((id, source), ranges) in ranges {
        let source = (nodes[&source].clone(), joined(&ranges).into());
        match parts.last_mut().filter(|part| part.table.id == id) {
            Some(part) => part.sources.push(source),
            None => {
                let Some(table) = schema.table_by_id(id).cloned() else { continue };
                parts.push(TablePart { table, sources: vec![source] });
            }
        }
    }
    Ok(parts)
}
