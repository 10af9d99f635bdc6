//! A node that takes another token, and one that fetches again what it should have.

use super::leaving::RingError;
use super::ring_operations::TURN_TIMEOUT;
use crate::operations::ring_changes::replicated;
use crate::shard_state::Shard;
use crate::stream::{self, StreamOperation, StreamPart, StreamPlan};
use cluster::metadata::OperationKind;
use cluster::topology::NodeIndex;
use model::token::RingPosition;
use model::{TableId, TokenRange};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What `nodetool rebuild` is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebuildRequest {
    /// The data centre whose nodes are asked; `None`: all others.
    pub data_center: Option<String>,
    /// The keyspace; `None`: all.
    pub keyspace: Option<String>,
    /// Ranges of it as `(TOKEN,TOKEN]`, several with commas between; `None`: all that the node has.
    pub tokens: Option<String>,
    /// The addresses of the nodes that may be asked; `None`: any.
    pub sources: Option<Vec<IpAddr>>,
    /// Whether nodes of this node's data centre are not asked.
    pub excludes_local: bool,
}

impl Shard {
    /// Gives this node, which has one token, another one, with the data that belong to it. To be called on shard 0.
    ///
    /// # Errors
    /// The text is not a token, the node has several tokens, or the cluster refuses or does not agree.
    pub async fn move_to(&self, token: &str) -> Result<(), RingError> {
        let unsupported = |text: &str| Err(RingError::Unsupported(text.into()));
        let metadata = self.metadata().current();
        let Some(member) = metadata.members.get(&self.host_id()) else {
            return unsupported("local node is not a member of the token ring yet");
        };
        if member.tokens.len() != 1 {
            return unsupported("This node has more than one token and cannot be moved thusly.");
        }
        let Ok(token) = self.partitioner().parse_token(token) else {
            return unsupported("The token is not one of the partitioner");
        };
        let tokens = vec![token.to_string()];
        if member.tokens == tokens {
            return Ok(());
        }
        tracing::info!("Moving /{} from {} to {}.", member.address, member.tokens[0], tokens[0]);
        let kind = OperationKind::Move { host_id: self.host_id(), tokens };
        let id = self.begin_operation(kind, runtime::now().after(TURN_TIMEOUT)).await?;
        self.operation_received(id).await;
        Ok(())
    }

    /// Fetches all that this node should have from other replicas. To be called on shard 0.
    ///
    /// # Errors
    /// There is no such keyspace or data centre, no other replica of a range is alive, or a node did not give its data.
    pub async fn rebuild(&self, request: &RebuildRequest) -> Result<(), RingError> {
        let parts = self.rebuilt_parts(request)?;
        if parts.is_empty() {
            return Ok(());
        }
        let plan = StreamPlan { id: crate::schema::random_uuid(), operation: StreamOperation::Rebuild, parts };
        let fetched = stream::fetch(self, plan).await;
        fetched.map(|_| ()).map_err(|error| RingError::Failed(error.to_string()))
    }

    fn rebuilt_parts(&self, request: &RebuildRequest) -> Result<Vec<StreamPart>, RingError> {
        let (placement, schema) = (self.placement(), self.schema());
        let topology = placement.topology();
        if let Some(name) = &request.data_center
            && topology.data_center(name).is_none()
        {
            return Err(RingError::Unsupported(format!(
                "Provided datacenter '{name}' is not a valid datacenter, available datacenters are: {}",
                topology.data_centers().join(",")
            )));
        }
        let here = topology.node(topology.here());
        if request.excludes_local && request.data_center.as_ref() == Some(&here.data_center) {
            let text = "Cannot set source data center to be local data center, when excludeLocalDataCenter flag is set";
            return Err(RingError::Unsupported(text.into()));
        }
        let may_give = |at: &NodeIndex| {
            let node = topology.node(*at);
            *at != topology.here()
                && topology.live().contains(*at)
                && request.data_center.as_ref().is_none_or(|name| node.data_center == *name)
                && request.sources.as_ref().is_none_or(|sources| sources.contains(&node.address.ip()))
                && !(request.excludes_local && node.data_center == here.data_center)
        };
        let wanted = match &request.tokens {
            Some(text) => self.wanted_ranges(text)?,
            None => vec![TokenRange::FULL],
        };
        let mut parts = Vec::new();
        let groups = replicated(&placement, &schema);
        for group in groups.iter().filter(|group| request.keyspace.as_ref().is_none_or(|name| name == group.keyspace)) {
            let mut ranges: BTreeMap<NodeIndex, Vec<TokenRange>> = BTreeMap::new();
            for (limits, range) in
                wanted.iter().flat_map(|limits| group.placed.ranges(limits).map(move |range| (limits, range)))
            {
                if !range.nodes.contains(&topology.here()) {
                    if request.tokens.is_none() {
                        continue;
                    }
                    return Err(RingError::Failed(format!(
                        "The specified range {} is not a range that is owned by this node. Please ensure that all token \
                         ranges specified to be rebuilt belong to this node.",
                        request.tokens.as_deref().unwrap_or_default()
                    )));
                }
                // A range of which this is the only replica has no source.
                if range.nodes.len() == 1 {
                    continue;
                }
                let Some(source) = range.nodes.iter().copied().find(may_give) else {
                    let text = "Unable to find sufficient sources for streaming range in keyspace";
                    return Err(RingError::Failed(format!("{text} {}", group.keyspace)));
                };
                ranges.entry(source).or_default().push(range.within(limits));
            }
            for (source, ranges) in ranges {
                let source = topology.node(source).host_id;
                parts.push(StreamPart {
                    source,
                    keyspace: group.keyspace.to_owned(),
                    tables: group.tables.clone(),
                    ranges,
                });
            }
        }
        Ok(parts)
    }

    /// Ranges as `rebuild` is given them.
    fn wanted_ranges(&self, text: &str) -> Result<Vec<TokenRange>, RingError> {
        let malformed = || RingError::Failed(format!("Unexpected token ranges: {text}"));
        let mut ranges = Vec::new();
        for range in text.trim().trim_end_matches(']').split("],") {
            let (start, end) =
                range.trim().strip_prefix('(').and_then(|range| range.split_once(',')).ok_or_else(malformed)?;
            let token = |text: &str| self.partitioner().parse_token(text.trim()).map_err(|_| malformed());
            let (start, end) = (token(start)?, token(end)?);
            let position = |token| Some(RingPosition { token, is_after: true });
            if start < end {
                ranges.push(TokenRange { start: position(start), end: position(end) });
            } else {
                ranges.push(TokenRange { start: position(start), end: None });
                ranges.push(TokenRange { start: None, end: position(end) });
            }
        }
        Ok(ranges)
    }

    /// The ranges of a table that this node has, as this core knows; `None` if there is no such table, or the node
    /// gains ranges of it by an operation that is under way.
    pub(crate) fn owned_ranges(&self, table: TableId) -> Option<Arc<[TokenRange]>> {
        let placement = self.placement();
        let placed = placement.table(table)?.keyspace();
        let here = placement.topology().here();
        if placed.gains().iter().any(|gain| gain.receiver == here) {
            return None;
        }
        let owned = placed.ranges(&TokenRange::FULL).filter(|range| range.nodes.contains(&here));
        Some(owned.map(|range| range.within(&TokenRange::FULL)).collect())
    }
}
