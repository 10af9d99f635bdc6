//! Finishing the changes that rounds of Paxos have left unfinished in some ranges (Cassandra: Paxos repair).
//!
//! One replica after the other finishes what it knows of: so the first one finishes most, and the others find little
//! that is left. A change that a majority has accepted is known by one of a majority at least; so that none is missed,
//! all replicas are asked.
//!
//! Invariants: when it has succeeded, no change that was accepted before it began, and that any later round could still
//! decide, is unfinished; every later read of a majority sees what was decided.

use super::VALIDATION_TIMEOUT;
use crate::coordinator::cas::finishing;
use crate::coordinator::remote::Asked;
use crate::messages::repair::{Finished, UnfinishedRequest};
use crate::shard_state::Shard;
use cluster::topology::{NodeIndex, features};
use model::{Failure, TableId, TokenRange};
use uuid::Uuid;

impl Shard {
    /// Whether all nodes can finish what rounds of Paxos have left.
    pub fn can_finish_proposals(&self) -> bool {
        self.topology().all_have(features::PAXOS_REPAIRS)
    }

    /// Has this node and the nodes `others` finish what they know to be unfinished in ranges of a table. Returns in how
    /// many partitions something was.
    ///
    /// # Errors
    /// A node did not answer, or a partition could not be finished, because too few of its replicas are alive.
    pub async fn finish_proposals(
        &self,
        table: TableId,
        ranges: &[TokenRange],
        others: &[Uuid],
    ) -> Result<u64, Failure> {
        if !self.can_finish_proposals() {
            return Err(Failure::invalid("Some nodes run a version without repair of Paxos; update them first"));
        }
        let mut partitions = 0;
        for node in std::iter::once(self.host_id()).chain(others.iter().copied()) {
            for range in ranges {
                let mut request = UnfinishedRequest { table, range: range.clone(), after: None };
                loop {
                    let finished = self.finish_on(node, &request).await?;
                    partitions += finished.partitions;
                    request.after = finished.last;
                    if request.after.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(partitions)
    }

    async fn finish_on(&self, node: Uuid, request: &UnfinishedRequest) -> Result<Finished, Failure> {
        let _pass = self.enter()?;
        if node == self.host_id() {
            return finishing::finish_here(self, request).await;
        }
        let topology = self.topology();
        let found = topology.nodes().iter().position(|known| known.host_id == node).map(|at| NodeIndex(at as u16));
        let gone = || Failure::server("The ring has changed: a node does not have the range any more");
        let index = found.ok_or_else(gone)?;
        let address = topology.node(index).address;
        if !topology.live().contains(index) {
            return Err(Failure::server(format!("Endpoint /{address} died")));
        }
        let asked = Asked::new(&topology, index, VALIDATION_TIMEOUT).in_bulk();
        let answer = super::while_alive(self, &topology, index, asked.finish_proposals(self, request)).await?;
        answer.map_err(|failure| Failure::server(format!("Paxos repair failed in /{address}: {}", failure.text)))
    }
}
