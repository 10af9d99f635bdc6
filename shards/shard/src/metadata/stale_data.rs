//! Removing what a node still has of ranges that it lost, before it gains ranges again.
//!
//! What a node has lost stays on its disk until `nodetool cleanup`, as old as it was then. If the node gained the range
//! again and showed it, a deletion that all replicas have purged meanwhile would be undone.
//!
//! 1. Whoever is about to begin an operation asks the nodes that gain something by it.
//! 2. Each of them removes what it has outside of its ranges, unless it has done so since ranges changed last. SSTables
//!    without such keys stay as they are.
//! 3. The operation begins if no other one has begun or ended meanwhile.
//!
//! With `auto_cleanup_enabled` a node does step 2 by itself, too, as soon as an operation has ended: then there is
//! nothing to wait for when the next one begins.
//!
//! Step 2 comes before the beginning, because from then on a node gets writes of what it gains, which must stay.
//!
//! Invariants: nothing is removed while an operation is under way. A node that is down when an operation begins, or
//! that runs an older version, is not asked: if it gains a range a second time, an operator has to clean it before.
//!
//! Body of the verb `RemoveStale`: none. Its answer is one byte: 1 if it is done.

use crate::messages::admin::TableVerb;
use crate::operations::ring_changes::replicated;
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::metadata::MemberState;
use cluster::topology::{Node, features};
use model::{Failure, TableId};
use runtime::Instant;
use runtime::sync::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How long a node may take before it is asked again; it goes on with what it has begun.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before nodes are asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause before what could not be removed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

impl Shard {
    /// Lets the nodes that are about to gain something remove what they have outside of their ranges. Returns false if
    /// some have not done so until `deadline`. To be called on shard 0.
    pub(crate) async fn prepare_receivers(&self, receivers: &BTreeSet<Uuid>, deadline: Instant) -> bool {
        let topology = self.topology();
        let asked = |node: &&Node| {
            receivers.contains(&node.host_id)
                && node.features & features::STALE_DATA != 0
                && (node.host_id == self.host_id() || self.is_live(node.host_id))
        };
        let mut left: Vec<Node> = topology.nodes().iter().filter(asked).cloned().collect();
        loop {
            let until = deadline.min(runtime::now().after(PATIENCE));
            let answers = join_all(left.iter().map(|node| Box::pin(self.is_prepared(node, until))).collect()).await;
            let mut answers = answers.into_iter();
            left.retain(|_| answers.next() == Some(false));
            if left.is_empty() {
                return true;
            }
            if runtime::now() >= deadline {
                return false;
            }
            runtime::sleep(PAUSE).await;
            left.retain(|node| self.is_live(node.host_id) || node.host_id == self.host_id());
        }
    }

    async fn is_prepared(&self, node: &Node, deadline: Instant) -> bool {
        if node.host_id == self.host_id() {
            return is_done(self.remove_stale().await);
        }
        let answer = self.peers().call(node, PeerLane::Urgent, Verb::RemoveStale, &[], deadline).await;
        answer.is_ok_and(|answer| answer == [1])
    }

    /// Removes what this node has outside of its ranges, unless it has done so since ranges changed last.
    async fn remove_stale(&self) -> Result<(), Failure> {
        // A node that joins has no range yet, and what an operator has given it is to stay.
        if self.member_state() != Some(MemberState::Normal) {
            return Ok(());
        }
        let _turn = self.metadata().cleaning_turn().await;
        let epoch = self.metadata().current().members_epoch;
        if self.metadata().clean_since() == Some(epoch) {
            return Ok(());
        }
        let tables: Vec<TableId> = {
            let (placement, schema) = (self.placement(), self.schema());
            let of_group = |group: cluster::placement::PlacedTables<'_>| match group.tables {
                Some(tables) => tables,
                None => schema
                    .keyspace(group.keyspace)
                    .map_or_else(Vec::new, |keyspace| keyspace.tables.values().map(|table| table.id).collect()),
            };
            let all = replicated(&placement, &schema).into_iter().flat_map(of_group);
            // What is left of tablets is removed as soon as they are elsewhere.
            let metadata = self.metadata().current();
            all.filter(|table| !metadata.tablets.contains_key(&table.0)).collect()
        };
        for table in tables {
            self.on_every_shard(TableVerb::Clean(table)).await?;
        }
        if self.metadata().current().members_epoch == epoch {
            self.metadata().set_clean_since(epoch);
        }
        Ok(())
    }
}

/// Removes what this node has outside of its ranges whenever an operation has ended, until it stops.
pub(crate) async fn keep_clean(shard: Shard) {
    while !shard.store().is_closing() {
        let epoch = shard.metadata().current().epoch;
        let is_calm = shard.metadata().current().operations.is_empty();
        match !is_calm || is_done(shard.remove_stale().await) {
            true => shard.metadata().wait_for(epoch + 1).await,
            false => runtime::sleep(RETRY_PAUSE).await,
        }
    }
}

/// Serves the request of another node.
pub(super) async fn serve(shard: &Shard) -> Vec<u8> {
    vec![u8::from(is_done(shard.remove_stale().await))]
}

fn is_done(removed: Result<(), Failure>) -> bool {
    if let Err(failure) = &removed {
        tracing::info!(%failure, "what is left of lost ranges is not removed yet");
    }
    removed.is_ok()
}
