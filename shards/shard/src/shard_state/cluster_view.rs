//! The schema that a core serves and the nodes among which it places data, and what follows from them: whenever one of
//! the two changes, whatever is made of it is made anew here.

use super::Shard;
use super::clock::Evaluation;
use super::older_topologies::OlderTopologies;
use crate::messages::admin::RingChanges;
use cluster::placement::TablePlacement;
use cluster::topology::{NodeIndex, Topology};
use cql::guardrails::Guardrails;
use model::{Failure, Partitioner, Schema, Table};
use std::cell::Ref;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

impl Shard {
    /// The schema that this shard serves, borrowed; must not be held across an await.
    pub(crate) fn schema_ref(&self) -> Ref<'_, Arc<Schema>> {
        self.inner.schema.borrow()
    }

    /// Makes `schema` the one that this shard serves.
    pub(crate) fn set_schema(&self, schema: Arc<Schema>) {
        self.inner.texts.borrow_mut().clear();
        self.inner.placement.replace_schema(&schema);
        self.count_tablets();
        self.inner.throughput.adopt(&schema);
        self.inner.schema.replace(schema);
    }

    /// Waits until `pick` returns something for the current schema.
    pub(crate) async fn schema_switched<T>(&self, pick: impl Fn(&Schema) -> Option<T>) -> T {
        self.inner.schema.wait_for(pick).await
    }

    /// The context for evaluating terms on this shard.
    pub(crate) fn evaluation(&self) -> Evaluation<'_> {
        Evaluation(&self.inner.clock)
    }

    /// The partitioner of the node.
    #[inline]
    pub(crate) fn partitioner(&self) -> Partitioner {
        self.inner.config.partitioner
    }

    /// Whether guardrails may apply to a request.
    #[inline]
    pub(crate) fn has_guardrails(&self) -> bool {
        self.config().guardrails.is_some() || self.inner.placement.has_managed()
    }

    /// The guardrails that apply to reads and writes of a table.
    pub(crate) fn guardrails_of(&self, table: &Table) -> Option<&Guardrails> {
        let placed = self.inner.placement.table(table.id);
        match placed.is_some_and(|placed| placed.keyspace().levels().is_managed()) {
            true => Some(&self.config().managed_guardrails),
            false => self.config().guardrails.as_deref(),
        }
    }

    /// Where the partitions of a table are.
    ///
    /// # Errors
    /// Invalid if the table was dropped.
    #[inline]
    pub(crate) fn placement_of(&self, table: &Table) -> Result<Rc<TablePlacement>, Failure> {
        match self.inner.placement.table(table.id) {
            Some(placement) => Ok(placement),
            None => Err(self.dropped(table)),
        }
    }

    #[cold]
    fn dropped(&self, table: &Table) -> Failure {
        let Table { keyspace, name, .. } = table;
        match self.schema_ref().keyspace(keyspace) {
            None => Failure::invalid(format!("keyspace {keyspace} does not exist")),
            Some(_) => Failure::invalid(format!("unconfigured table {keyspace}.{name}")),
        }
    }

    /// Makes `topology` the nodes among which this core places data.
    pub(crate) fn set_topology(&self, topology: Topology, changes: &RingChanges) {
        self.inner.placement.replace_topology(topology, changes, &self.inner.schema.borrow());
        self.count_tablets();
    }

    fn count_tablets(&self) {
        let throughput = f64::from(self.config().physical_partition_throughput);
        self.inner.tablet_loads.adopt(&self.placement(), self.host_id(), throughput);
    }

    /// The topologies that this core had before, and the requests that still use them.
    pub(crate) fn older_topologies(&self) -> &OlderTopologies {
        self.inner.placement.older()
    }

    /// Waits until the nodes are those of a later epoch than `since`, and the metadata too. To be called on shard 0.
    pub async fn members_changed(&self, since: u64) {
        self.epoch_reached(since + 1).await;
        // The metadata follow the placement of their members.
        self.metadata().wait_for(self.epoch()).await;
    }

    /// Waits until this core knows the nodes of an epoch, or of a later one.
    pub(crate) async fn epoch_reached(&self, epoch: u64) {
        self.inner.placement.epoch_reached(epoch).await;
    }

    /// Notes the host ids of the nodes that are believed to be alive.
    pub(crate) fn set_live_nodes(&self, live: Arc<BTreeSet<Uuid>>) {
        self.inner.placement.set_live(live);
        self.note_live();
    }

    /// Notes the host ids of the nodes that owe truncations, and count as down.
    pub(crate) fn set_owing_nodes(&self, owing: Arc<BTreeSet<Uuid>>) {
        self.inner.placement.set_owing(owing);
        self.note_live();
    }

    fn note_live(&self) {
        let topology = self.topology();
        let others = topology.nodes().iter().enumerate().filter(|(_, node)| node.host_id != self.host_id());
        let live = others.map(|(at, node)| (node.host_id, topology.live().contains(NodeIndex(at as u16))));
        self.inner.hints.note_live(live);
    }
}
