//! Making one partition equal in which replicas differ.
//!
//! 1. Replicas with equal digests are a group. One replica of each group gives its fragments: this node, if it is in
//!    the group. A group with the digest of nothing is asked too: it may have deletions that are old enough to be
//!    purged, and that others must have before their rows come back.
//! 2. What each group lacks of what all have together ([`model::shape::lacking`]) is written to all of its replicas.
//! 3. A partition that does not fit into one answer takes several rounds.
//!
//! Invariants: what runs on this node runs to its end; a mutation has nothing that no replica had, so that writing it
//! to a replica that has changed meanwhile is right, too.

use super::{RepairAction, RepairOutcome, TableRepair};
use crate::coordinator::fragments;
use crate::coordinator::remote::Asked;
use crate::coordinator::replication::write_here;
use crate::messages::data::FragmentRequest;
use cluster::placement::Replica;
use cluster::repair::partitions::Difference;
use cluster::topology::NodeIndex;
use engine::RepairSet;
use model::query::{EveryRow, Partitions, ReadCommand};
use model::shape::lacking::{Answer, Repairs};
use model::shape::reconcile::ReconcilingRead;
use model::{DecoratedKey, Failure, Mutation};
use runtime::sync::join_all;
use std::time::Duration;
use uuid::Uuid;

/// Most bytes of fragments that a replica is asked for at once.
const FRAGMENT_BYTES_MAX: usize = 1 << 20;
/// How long a replica may take for fragments or for a mutation.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Replicas with the same content.
struct Group {
    digest: u64,
    replicas: Vec<NodeIndex>,
}

impl TableRepair<'_> {
    /// Makes the replicas of a partition equal.
    pub(super) async fn partition(
        &self,
        difference: &Difference,
        now_in_seconds: i64,
    ) -> Result<RepairOutcome, Failure> {
        let here = self.placement.keyspace().topology().here();
        let mut groups: Vec<Group> = Vec::new();
        for (replica, digest) in self.replicas.iter().zip(&difference.digests) {
            match groups.iter_mut().find(|group| group.digest == *digest) {
                Some(group) => group.replicas.push(*replica),
                None => groups.push(Group { digest: *digest, replicas: vec![*replica] }),
            }
        }
        let all = ReadCommand::all(self.table.id, now_in_seconds, Partitions::Key(difference.key.clone()));
        let mut read = ReconcilingRead::new(ReadCommand { wants_static: true, static_only: true, ..all });
        let gc_before = self.shard.store().gc_before(&self.table, now_in_seconds);
        let (mut repairs, mut outcome) = (Repairs::with_gc_before(gc_before), RepairOutcome::default());
        loop {
            let request = FragmentRequest { command: read.command().clone(), bytes_max: FRAGMENT_BYTES_MAX };
            let asked = groups.iter().enumerate();
            let asked = asked.map(|(at, group)| self.fragments(at, group, &difference.key, &request));
            let mut answers: Vec<Answer> = Vec::with_capacity(groups.len());
            for answer in join_all(asked.collect()).await {
                let (answer, is_other) = answer?;
                if is_other {
                    outcome.read_bytes += answer.1.bytes().len() as u64;
                }
                answers.push(answer);
            }
            let lacking = repairs.lacking(&self.table, read.command(), &answers, groups.len());
            let mut writes = Vec::new();
            for (group, mutations) in groups.iter().zip(lacking) {
                for mutation in mutations {
                    let is_asked = |replica: &&NodeIndex| self.action != RepairAction::Pull || **replica == here;
                    for replica in group.replicas.iter().filter(is_asked) {
                        outcome.mutations += 1;
                        outcome.written_bytes += mutation.bytes().len() as u64;
                        writes.push(self.write(*replica, mutation.clone()));
                    }
                }
            }
            join_all(writes).await.into_iter().collect::<Result<(), Failure>>()?;
            let blocks: Vec<_> = answers.iter().map(|(_, block)| block).collect();
            if read.take(&self.table, &blocks, &mut EveryRow).is_some() {
                return Ok(outcome);
            }
            runtime::yield_if_needed().await;
        }
    }

    /// What the group `at` has, and whether another node was asked for it.
    async fn fragments(
        &self,
        at: usize,
        group: &Group,
        key: &DecoratedKey,
        request: &FragmentRequest,
    ) -> Result<(Answer, bool), Failure> {
        let topology = self.placement.keyspace().topology();
        let here = topology.here();
        let is_here = group.replicas.contains(&here);
        let node = if is_here { here } else { group.replicas[0] };
        if is_here {
            let mut blocks = match self.set {
                None => fragments::read_fragments(self.shard, request).await?,
                Some(set) => fragments::read_fragments_of(self.shard, set, request).await?,
            };
            let block = blocks.pop().ok_or_else(|| Failure::server("No core of this node has the partition"))?;
            return Ok(((at, block), false));
        }
        let replica = Replica { node, shard: self.placement.shard_of(node, key.token) };
        let asked = Asked::new(topology, node, REQUEST_TIMEOUT).in_bulk();
        let block = match self.set {
            None => asked.read_fragments(self.shard, replica, request).await?,
            Some(set) => asked.read_fragments_of(self.shard, replica, set, request).await?,
        };
        Ok(((at, block), true))
    }

    /// Writes to a replica what it lacks.
    async fn write(&self, node: NodeIndex, mutation: Mutation) -> Result<(), Failure> {
        let topology = self.placement.keyspace().topology();
        if let Some(RepairSet::Pending(session)) = self.set {
            let asked = Asked::new(topology, node, REQUEST_TIMEOUT).in_bulk();
            return asked.add_pending(self.shard, Uuid::from_bytes(session), &mutation).await;
        }
        if node != topology.here() {
            let asked = Asked::new(topology, node, REQUEST_TIMEOUT).in_bulk();
            return asked.repair(self.shard, &mutation).await;
        }
        let owner = Replica { node, shard: self.placement.shard_of(node, mutation.token()) };
        let (write, pass) = (write_here(self.shard, owner, mutation), self.shard.enter().ok());
        let writing = runtime::spawn(async move {
            let _pass = pass;
            write.await
        });
        writing.await
    }
}
